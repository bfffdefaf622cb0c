"""Refusing bad input with a sentence that says what, where, what was got and what to do.

Nothing here changes anything: a caller validates first and touches its state after.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from heavytail._typing import FloatArray

__all__ = [
    "NORM_SLACK",
    "Check",
    "as_arms",
    "as_rows",
    "as_vector",
    "check_choice",
    "check_count",
    "check_number",
    "explain_arms",
    "explain_vector",
]

FLOAT64 = np.dtype(np.float64)
NORM_SLACK = 1e-9  # a norm may exceed its bound by this share: rounding, not a mistake


def check_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
    hint: str = "",
) -> float:
    """Return ``value`` as a float inside the stated range, or refuse it by name."""
    left = f"({above:g}" if above is not None else f"[{least:g}" if least is not None else "(-inf"
    right = f"{below:g})" if below is not None else f"{most:g}]" if most is not None else "inf)"
    if infinite and right == "inf)":
        right = "inf]"
    problem = f"{name} must be a number in {left}, {right}; got {value!r}."
    if hint:
        problem += f" {hint}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | np.number):
        raise TypeError(problem)
    number = float(value)
    inside = (
        not math.isnan(number)
        and (infinite or not math.isinf(number))
        and (above is None or number > above)
        and (least is None or number >= least)
        and (below is None or number < below)
        and (most is None or number <= most)
    )
    if not inside:
        raise ValueError(problem)
    return number


def check_count(name: str, value: object, *, least: int = 1, hint: str = "") -> int:
    """Return ``value`` as an int of at least ``least``, or refuse it by name."""
    problem = f"{name} must be a whole number of at least {least}; got {value!r}."
    if hint:
        problem += f" {hint}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real | np.number):
        raise TypeError(problem)
    whole = int(value) if math.isfinite(value) else None  # type: ignore[arg-type]
    if whole is None or whole != value or whole < least:
        raise ValueError(problem)
    return whole


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``choices``, or refuse it by name."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return str(value)


class Check:
    """Checks arguments for one owner, whose name and the argument's stand in every refusal.

    >>> class Policy: ...
    >>> Check(Policy).number("ridge", -1.0, above=0.0)
    Traceback (most recent call last):
    ValueError: Policy.ridge must be a number in (0, inf); got -1.0.
    """

    def __init__(self, owner: type | str) -> None:
        self.owner = owner if isinstance(owner, str) else owner.__name__

    def number(self, name: str, value: object, **bounds: Any) -> float:
        """As :func:`check_number`."""
        return check_number(f"{self.owner}.{name}", value, **bounds)

    def count(self, name: str, value: object, *, least: int = 1, hint: str = "") -> int:
        """As :func:`check_count`."""
        return check_count(f"{self.owner}.{name}", value, least=least, hint=hint)

    def choice(self, name: str, value: object, choices: tuple[str, ...]) -> str:
        """As :func:`check_choice`."""
        return check_choice(f"{self.owner}.{name}", value, choices)

    def delta(self, value: object) -> float:
        """A failure probability."""
        return self.number("delta", value, above=0.0, below=1.0)

    def log_inverse(self, delta: object) -> float:
        """log(1/delta) of a failure probability."""
        return math.log(1.0 / self.delta(delta))


def as_arms(arms: Any, dim: int, owner: type, method: str = "") -> FloatArray:
    """``arms`` as a contiguous float64 (n, dim) array, the same object where it already is one.

    ``owner`` and ``method`` say where, in words that are put together only for an error.
    """
    if type(arms) is np.ndarray and arms.dtype is FLOAT64 and arms.ndim == 2:
        if arms.shape[1] == dim and arms.flags.c_contiguous:
            return arms
    where = owner.__name__ + method
    array = _as_floats(arms, f"{where}: arms", "numbers of shape (n, dim)")
    if array.ndim != 2 or array.shape[1] != dim or array.shape[0] == 0:
        raise ValueError(
            f"{where}: arms must have shape (n, {dim}), n >= 1; got shape {array.shape}. "
            "One row per arm, one column per feature."
        )
    return np.ascontiguousarray(array)


def as_vector(x: Any, dim: int, owner: type, method: str = "") -> FloatArray:
    """``x`` as a contiguous float64 vector of length dim, the same object where it is one."""
    if type(x) is np.ndarray and x.dtype is FLOAT64 and x.shape == (dim,):
        if x.flags.c_contiguous:
            return x
    where = owner.__name__ + method
    array = _as_floats(x, f"{where}: x", "a vector of numbers")
    if array.shape != (dim,):
        raise ValueError(
            f"{where}: x must have shape ({dim},); got shape {array.shape}. "
            "Pass the features of the arm that was played, arms[i]."
        )
    return np.ascontiguousarray(array)


def as_rows(value: Any, shape: tuple[int | None, ...], name: str) -> FloatArray:
    """``value`` as a contiguous float64 array of ``shape``, in which None stands for any length."""
    words = "(" + ", ".join("any" if k is None else str(k) for k in shape) + ")"
    array = _as_floats(value, name, f"numbers of shape {words}")
    fits = array.ndim == len(shape) and all(
        k is None or k == got for k, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must have shape {words}; got shape {array.shape}.")
    return np.ascontiguousarray(array)


def _as_floats(value: Any, name: str, wanted: str) -> FloatArray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be {wanted}; got dtype {array.dtype}.")
    return array.astype(np.float64, copy=False)


def explain_arms(arms: FloatArray, limit: float, where: str) -> ValueError:
    """The error for arms that a kernel refused: names the first bad row and why."""
    if arms.shape[0] == 0:
        return ValueError(f"{where}: arms is empty; offer at least one arm.")
    for i, x in enumerate(arms):
        problem = _vector_problem(x, limit)
        if problem:
            return ValueError(f"{where}: arms[{i}] {problem}")
    return ValueError(f"{where}: no arm has a finite index; the features are too large.")


def explain_vector(x: FloatArray, limit: float, where: str) -> ValueError:
    """The error for a feature vector that a kernel refused."""
    return ValueError(f"{where}: x {_vector_problem(x, limit) or 'is not usable.'}")


def _vector_problem(x: FloatArray, limit: float) -> str:
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        return f"must be finite; got {x[bad[0]]} at feature {bad[0]}."
    norm, bound = math.hypot(*x), math.sqrt(limit)  # hypot does not overflow where a square would
    if not norm * norm <= limit:
        return (
            f"has norm {norm:.6g}, above the bound {bound:.6g}. "
            "Rescale the features, or raise arm_bound."
        )
    return ""
