"""Conformance checks for whatever learns here, and for environments; for ours and for your own.

``check_policy(policy)``, ``check_controller(controller)`` and so on run a battery and raise
:class:`CheckFailed`, which names all that is not as users may expect. Each check is a function of
its own, listed in ``POLICY_CHECKS``, ``CONTROLLER_CHECKS`` and so on; ``skip`` names those to leave
out.

>>> import heavytail as ht
>>> ht.checks.check_policy(ht.OFUL(3, noise_scale=1.0))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from heavytail.checks.agents import AGENT_CHECKS
from heavytail.checks.battery import CheckFailed, run
from heavytail.checks.controllers import CONTROLLER_CHECKS
from heavytail.checks.environments import ENVIRONMENT_CHECKS
from heavytail.checks.estimators import ESTIMATOR_CHECKS
from heavytail.checks.identifiers import IDENTIFIER_CHECKS
from heavytail.checks.ledgers import LEDGER_CHECKS, Opening
from heavytail.checks.policies import POLICY_CHECKS
from heavytail.control import Controller, Identifier
from heavytail.environments import Environment
from heavytail.mdp import Agent
from heavytail.policies import Policy

if TYPE_CHECKING:
    from heavytail.estimators.base import Regression

__all__ = [
    "AGENT_CHECKS",
    "CONTROLLER_CHECKS",
    "ENVIRONMENT_CHECKS",
    "ESTIMATOR_CHECKS",
    "IDENTIFIER_CHECKS",
    "LEDGER_CHECKS",
    "POLICY_CHECKS",
    "CheckFailed",
    "check_agent",
    "check_controller",
    "check_environment",
    "check_estimator",
    "check_identifier",
    "check_ledger",
    "check_policy",
]


def check_policy(policy: Policy, *, skip: Iterable[str] = ()) -> None:
    """Run every check on copies of ``policy``, which must not have learned anything yet."""
    run(POLICY_CHECKS, policy, skip)


def check_environment(environment: Environment, *, skip: Iterable[str] = ()) -> None:
    """Run every check on ``environment``."""
    run(ENVIRONMENT_CHECKS, environment, skip)


def check_agent(agent: Agent, *, skip: Iterable[str] = ()) -> None:
    """Run every check on copies of ``agent``, which must not have learned anything yet."""
    run(AGENT_CHECKS, agent, skip)


def check_controller(controller: Controller, *, skip: Iterable[str] = ()) -> None:
    """Run every check on copies of ``controller``, which must not have learned anything yet."""
    run(CONTROLLER_CHECKS, controller, skip)


def check_identifier(identifier: Identifier, *, skip: Iterable[str] = ()) -> None:
    """Run every check on copies of ``identifier``, which must not have learned anything yet."""
    run(IDENTIFIER_CHECKS, identifier, skip)


def check_estimator(estimator: Regression, *, skip: Iterable[str] = ()) -> None:
    """Run every check on regressions of the arguments of ``estimator``, which must be unfitted."""
    run(ESTIMATOR_CHECKS, estimator, skip)


def check_ledger(opening: Opening, *, skip: Iterable[str] = ()) -> None:
    """Run every check on ledgers that ``opening`` opens: without an argument an empty one, with a
    ledger that one again, as after a restart.
    """
    run(LEDGER_CHECKS, opening, skip)
