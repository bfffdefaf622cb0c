"""The answers of a policy besides an arm: the mean reward it expects, and why it chose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import (
    as_arms,
    as_rows,
    as_vector,
    check_number,
    explain_arms,
    explain_vector,
)
from heavytail.kernels.index import usable
from heavytail.kernels.layout import ARM_LIMIT, CONSTANT, THETA

if TYPE_CHECKING:
    from heavytail.policies.core.base import PackedPolicy

__all__ = [
    "Explanation",
    "Prediction",
    "asked_at",
    "asked_rows",
    "confidence_half_widths",
    "explained",
    "linear_means",
    "linear_widths",
    "offered",
    "predicted",
    "sides",
]

CHOSEN: Final = 1.05  # an interval is wider by this: the arm asked for was chosen
SUREST: Final = 1.0 - 1e-12  # the largest level: beyond it a normal's quantile is lost to rounding


def sides(variance: float, level: float) -> float:
    """Half of an interval of ``level``, in widths, where residuals have this variance: a little
    more than a normal's, for the arm's having been chosen.
    """
    from scipy.special import ndtri

    return CHOSEN * float(ndtri(0.5 + min(level, SUREST) / 2.0)) * math.sqrt(variance)


class Prediction(NamedTuple):
    """The mean reward expected, and an interval for it; arrays where many were asked for."""

    mean: Any
    low: Any
    high: Any


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of every arm's index; ``print`` it for a table.

    Attributes:
        arm: the arm chosen.
        rule: what was maximised, in words.
        parts: by name, one number per arm; the last is the index.
    """

    arm: int
    rule: str
    parts: Mapping[str, FloatArray]

    def __str__(self) -> str:
        heads = ["arm", *self.parts]
        rows = [
            [str(i), *(f"{part[i]:.4g}" for part in self.parts.values())]
            for i in range(len(next(iter(self.parts.values()))))
        ]
        widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [heads, *rows]
        ]
        chosen = 1 + self.arm
        lines = [line + ("  <" if k == chosen else "") for k, line in enumerate(lines)]
        return "\n".join([self.rule, *lines])


def predicted(policy: PackedPolicy, rows: FloatArray, many: bool, level: float) -> Prediction:
    """The means of ``rows`` and their intervals; plain numbers unless there may be ``many``."""
    with np.errstate(invalid="ignore"):  # a chance of 0 times an amount that nobody knows
        mean, half = policy._means(rows), policy._half_widths(rows, level)
    half = np.where(np.isnan(half), math.inf, half)
    parts = (mean, mean - half, mean + half)
    return Prediction(*(part if many else float(part[0]) for part in parts))


def explained(policy: PackedPolicy, X: FloatArray) -> Explanation:
    """The parts of the linear index of each arm."""
    mean, bonus = policy._means(X), policy.radius * policy._widths(X)
    parts = {"mean": mean, "bonus": bonus, "index": mean + bonus}
    return Explanation(policy.select(X), "the largest mean + radius * width", parts)


def confidence_half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """beta_t ‖x‖: of the confidence set, whatever the level."""
    return policy.radius * policy._widths(X)


def linear_means(policy: PackedPolicy, X: FloatArray) -> FloatArray:
    """x'theta, and what a constant feature adds."""
    return np.asarray(X @ policy._M[THETA, : policy.dim] + policy.intercept)


def linear_widths(policy: PackedPolicy, X: FloatArray) -> FloatArray:
    """‖x‖ in V^-1, with the constant feature where there is one."""
    constant = np.full((len(X), policy._M.shape[1] - policy.dim), policy._s[CONSTANT])
    features = np.hstack([X, constant])
    squares = np.sum(features @ policy.inverse_gram * features, axis=1)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def offered(policy: PackedPolicy, arms: ArrayLike, method: str) -> FloatArray:
    """Arms that could be chosen from, a copy."""
    X = as_arms(arms, policy.dim, type(policy), method).copy()
    if len(X) == 0 or not usable(X, policy._s[ARM_LIMIT]):
        raise explain_arms(X, policy._s[ARM_LIMIT], type(policy).__name__ + method)
    return X


def asked_at(policy: PackedPolicy, x: ArrayLike, method: str) -> FloatArray:
    """The features that a method is asked about, such as could be played; a copy."""
    vector = as_vector(x, policy.dim, type(policy), method).copy()
    if not usable(vector[None], policy._s[ARM_LIMIT]):
        raise explain_vector(vector, policy._s[ARM_LIMIT], type(policy).__name__ + method)
    return vector


def asked_rows(policy: PackedPolicy, x: ArrayLike, level: float) -> tuple[FloatArray, bool]:
    """The rows that a prediction is asked for, and whether they may be many."""
    where = f"{type(policy).__name__}.predict"
    if not policy._one_estimate:
        raise ValueError(f"{where}: this policy has more than one estimate.")
    check_number(f"{where}: level", level, above=0.0, below=1.0)
    if np.ndim(x) == 1:
        return asked_at(policy, x, ".predict")[None], False
    rows = as_rows(x, (None, policy.dim), f"{where}: x").copy()
    if len(rows) and not usable(rows, policy._s[ARM_LIMIT]):
        raise explain_arms(rows, policy._s[ARM_LIMIT], where, name="x")
    return rows, True
