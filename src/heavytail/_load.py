"""Loading whatever was saved: a Decider, a policy, an agent, a regression, an encoder, ..."""

from __future__ import annotations

import os
from typing import Any

from heavytail._storage import Saved, Stored, read

__all__ = ["from_bytes", "load"]


def load(path: str | os.PathLike[str], *, kinds: tuple[type[Saved], ...] = ()) -> Any:
    """Read what ``save`` wrote, of a Decider, a policy, an agent in an MDP, a controller, an
    identifier, a regression, an encoder or a ``LogPolicy``; it continues as if it had never
    stopped.

    ``kinds`` are classes of your own that the file may hold. Refuses, with the reason, a file that
    is not ours, is damaged, or was written by another version.
    """
    return read(path, KNOWN, kinds)


def from_bytes(content: bytes, *, name: str) -> Any:
    """Read what ``to_bytes`` returned, with the checks made for a file; errors call it ``name``."""
    return read(name, KNOWN, content=content)


def _policy(name: str) -> type[Stored] | None:
    from heavytail.policies import _table

    return _table.load(name) if name in _table.NAMES else None


def _agent(name: str) -> type[Stored] | None:
    from heavytail import mdp

    return {kind.__name__: kind for kind in mdp.ALL}.get(name)


def _control(name: str) -> type[Stored] | None:
    from heavytail import control

    return {kind.__name__: kind for kind in control.ALL}.get(name)


def _regression(name: str) -> type[Saved] | None:
    from heavytail import estimators

    return getattr(estimators, name) if name in estimators.ALL else None


def _encoder(name: str) -> type[Saved] | None:
    from heavytail.encoding import Encoder

    return Encoder if name == Encoder.__name__ else None


def _log_policy(name: str) -> type[Saved] | None:
    from heavytail.logs.learning import LogPolicy

    return LogPolicy if name == LogPolicy.__name__ else None


def _decider(name: str) -> type[Saved] | None:
    from heavytail.decider import Decider

    return Decider if name == Decider.__name__ else None


KNOWN = {
    "decider": _decider,
    "policy": _policy,
    "agent": _agent,
    "controller": _control,
    "identifier": _control,
    "regression": _regression,
    "encoder": _encoder,
    "log policy": _log_policy,
}
