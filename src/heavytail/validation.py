"""Refusals for policies of your own, in the words of the library's.

A policy in plain Python calls :func:`check_arms` first in ``select`` and :func:`check_observation`
first in ``update``, and checks the arguments of its constructor by a :class:`Check`: errors are
refused before anything changes, as ``heavytail.checks.check_policy`` asks of every policy.

>>> import heavytail as ht
>>> check = ht.validation.Check("Mine")
>>> check.number("ridge", 1, above=0.0), check.count("window", 10), check.flag("greedy", True)
(1.0, 10, True)
>>> check.choice("radius", "wide", ("theory", "practice"))
Traceback (most recent call last):
ValueError: Mine.radius must be one of 'theory', 'practice'; got 'wide'.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import check_fit
from heavytail._typing import FloatArray
from heavytail._validate import (
    Check,
    as_arms,
    as_vector,
    check_number,
    check_reward,
    explain_arms,
    explain_vector,
)

if TYPE_CHECKING:
    from heavytail.policies import Policy

__all__ = ["Check", "check_arms", "check_observation", "check_state"]


def check_arms(policy: Policy, arms: ArrayLike, *, longest: float = math.inf) -> FloatArray:
    """The offered arms as float64, (n, dim), finite and none longer than ``longest``; any others
    are refused on behalf of ``policy``.
    """
    array = as_arms(arms, policy.dim, type(policy), ".select")
    if not np.isfinite(array).all() or _is_longer(array, longest):
        raise explain_arms(array, longest * longest, f"{type(policy).__name__}.select")
    return array


def check_observation(
    policy: Policy,
    x: ArrayLike,
    reward: object,
    scale: object = None,
    *,
    longest: float = math.inf,
) -> tuple[FloatArray, float, float | None]:
    """Features, reward and scale of a round, checked on behalf of ``policy``: a copy of x, (dim,),
    that nobody else can write to, and numbers; the scale may be None.
    """
    where = f"{type(policy).__name__}.update"
    vector = as_vector(x, policy.dim, type(policy), ".update").copy()
    if not np.isfinite(vector).all() or _is_longer(vector[None], longest):
        raise explain_vector(vector, longest * longest, where)
    reward = check_reward(f"{where}: reward", reward)
    if scale is not None:
        scale = check_number(f"{where}: scale", scale, above=0.0)
    return vector, reward, scale


def check_state(policy: Policy, arrays: dict[str, Any]) -> None:
    """Refuse, in ``restore``, arrays of other names, shapes or types than ``policy.state_arrays``
    has, and a NaN in any.
    """
    wanted = policy.state_arrays()
    where = type(policy).__name__
    if set(arrays) != set(wanted):
        raise ValueError(f"{where}: the saved state has {sorted(arrays)}; wanted {sorted(wanted)}.")
    check_fit(where, arrays, wanted)


def _is_longer(rows: FloatArray, longest: float) -> bool:
    return bool(np.any(np.linalg.norm(rows, axis=1) > longest))
