"""Any policy from one description of the problem."""

from __future__ import annotations

import re

from heavytail._lazy import nearest
from heavytail._validate import shown
from heavytail.policies import _table
from heavytail.policies.core.own import failure, imported, is_own
from heavytail.policies.core.policy import Policy
from heavytail.tails import MomentBound

__all__ = ["find", "make_policy"]


def make_policy(
    name: str,
    *,
    dim: int,
    horizon: int | None = None,
    tail: MomentBound | None = None,
    arms: int | None = None,
    **options: object,
) -> Policy:
    """Build the policy called ``name`` for a problem, whatever of that it takes.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> ht.make_policy("Hvt-UCB", dim=2, horizon=1000, tail=tail, exploration=0.3).name
    'Hvt-UCB'

    Args:
        name: as in ``heavytail policies`` (case, spaces and hyphens do not matter), or
            "module:Class" for one of your own.
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise.
        arms: how many arms there are.
        **options: the policy's own.
    """
    kind = find(name)
    problem = {"dim": dim, "horizon": horizon, "tail": tail, "arms": arms}
    known = {key: value for key, value in problem.items() if value is not None}
    arguments = {**kind.taken(known, options), **options}
    if not is_own(kind):
        return kind(**arguments)
    try:
        return kind(**arguments)
    except (ValueError, TypeError):  # a refusal, in words of its own
        raise
    except (Exception, SystemExit) as error:
        raise failure(f"{kind.__name__}(...)", error) from error


def find(name: str) -> type[Policy]:
    """The policy class called ``name``, or at the import path "module:Class"."""
    if ":" in name:
        return _imported(name)
    wanted = _plain(name)
    for own in _table.NAMES:  # a class's own name first: it is known without loading it
        if wanted == _plain(own):
            return _table.load(own)
    for kind in _table.load_all():
        if wanted == _plain(kind.name):
            return kind
    known = [kind.name for kind in _table.load_all()]
    near = nearest(name, [*_table.NAMES, *known])
    meant = f"did you mean {near}? There" if near else "there"
    raise ValueError(f"no policy is called {shown(name)}; {meant} are {', '.join(known)}.")


def _imported(path: str) -> type[Policy]:
    kind = imported(path, Policy, "policy")  # type: ignore[type-abstract]
    kind._check_described()
    return kind


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
