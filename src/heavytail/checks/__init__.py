"""Conformance checks for policies, environments and agents, for ours and for your own.

``check_policy(policy)``, ``check_environment(environment)`` and ``check_agent(agent)`` run a
battery and raise :class:`CheckFailed` at the first thing that is not as users may expect. Each is a
function of its own, listed in ``POLICY_CHECKS``, ``ENVIRONMENT_CHECKS`` or ``AGENT_CHECKS``;
``skip`` names those to leave out.

>>> import heavytail as ht
>>> ht.checks.check_policy(ht.OFUL(3, noise_scale=1.0))
"""

from __future__ import annotations

from collections.abc import Iterable

from heavytail.checks.agents import AGENT_CHECKS
from heavytail.checks.battery import CheckFailed, run
from heavytail.checks.policies import POLICY_CHECKS
from heavytail.checks.worlds import ENVIRONMENT_CHECKS
from heavytail.environments import Environment
from heavytail.mdp import Agent
from heavytail.policies import Policy

__all__ = [
    "AGENT_CHECKS",
    "ENVIRONMENT_CHECKS",
    "POLICY_CHECKS",
    "CheckFailed",
    "check_agent",
    "check_environment",
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
