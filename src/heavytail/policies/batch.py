"""Many rounds in one call: loops around a policy's kernels, compiled under the policy's name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import as_rows, explain_arms
from heavytail.kernels.index import select_each
from heavytail.kernels.jit import specialise
from heavytail.kernels.layout import ARM_LIMIT
from heavytail.policies.pool import Kept

if TYPE_CHECKING:
    from heavytail.policies.base import PackedPolicy

__all__ = ["select_many", "update_many"]


def select_many(policy: PackedPolicy, arms: Any) -> IntArray:
    """One choice for each set of ``arms`` (b, n, dim), all from what is known now."""
    where = f"{type(policy).__name__}.select_many"
    batch = as_rows(arms, (None, None, policy.dim), f"{where}: arms")
    choices = np.empty(batch.shape[0], dtype=np.int64)
    s = policy.packed[0]
    before = s.copy()  # a policy that draws counts its draws there
    if policy._wide:
        room = Kept(batch.shape[1:]).room
        bad = select_each(policy._s, policy._M, batch, *room, choices)
    else:
        bad = _selector(type(policy))(policy.packed, batch, choices)
    if bad >= 0:
        s[:] = before
        raise explain_arms(batch[bad], policy.packed[0][ARM_LIMIT], f"{where}: set {bad}")
    return choices


def update_many(policy: PackedPolicy, X: Any, rewards: Any, scale: Any) -> None:
    """Learn the rows in order; where any of them is refused, none is learned."""
    where = f"{type(policy).__name__}.update_many"
    rows = as_rows(X, (None, policy.dim), f"{where}: X")
    count = rows.shape[0]
    paid = as_rows(rewards, (count,), f"{where}: rewards")
    if scale is None or np.ndim(scale) == 0:
        scale = np.full(count, policy._nu if scale is None else scale)
    nu = as_rows(scale, (count,), f"{where}: scale")
    policy.reserve(count)
    before = {key: array.copy() for key, array in policy.state_arrays().items()}
    bad = _learner(type(policy))(policy.packed, rows, paid, nu)
    if bad >= 0:
        code = policy.update_kernel(*policy.packed, rows[bad], paid[bad], nu[bad])
        policy.restore(before)
        error = policy._refusal(code, rows[bad], float(paid[bad]), float(nu[bad]))
        raise ValueError(f"{where}: row {bad}: {error} No row was learned.")


@functools.cache
def _selector(kind: type[PackedPolicy]) -> Callable[..., int]:
    return specialise(_select_rows, f"_select_rows_{kind.__name__}", select=kind.select_kernel)


@functools.cache
def _learner(kind: type[PackedPolicy]) -> Callable[..., int]:
    return specialise(_update_rows, f"_update_rows_{kind.__name__}", update=kind.update_kernel)


def select(*_: Any) -> int:
    """Stands for a policy's selection kernel in the template below."""
    raise NotImplementedError


def update(*_: Any) -> int:
    """Stands for a policy's learning kernel in the template below."""
    raise NotImplementedError


def _select_rows(state: Any, arms: FloatArray, choices: IntArray) -> int:
    """Template: choose from every set; -1, or the first set that is refused."""
    for b in range(arms.shape[0]):
        choices[b] = select(*state, arms[b])
        if choices[b] < 0:
            return b
    return -1


def _update_rows(state: Any, X: FloatArray, rewards: FloatArray, nu: FloatArray) -> int:
    """Template: learn every row; -1, or the first row that is refused."""
    for b in range(X.shape[0]):
        if update(*state, X[b], rewards[b], nu[b]) < 0:
            return b
    return -1
