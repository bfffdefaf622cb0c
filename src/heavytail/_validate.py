"""Refusing bad input with a sentence that says what, where, what was got and what to do.

Nothing here changes anything: a caller validates first and touches its state after.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heavytail._signals import raised_by_handler
from heavytail._typing import FloatArray

__all__ = [
    "GREATEST",
    "LEAST",
    "MOST",
    "NORM_SLACK",
    "Check",
    "as_arms",
    "as_array",
    "as_numbers",
    "as_rows",
    "as_vector",
    "check_choice",
    "check_count",
    "check_flag",
    "check_number",
    "check_reward",
    "explain_arms",
    "explain_vector",
    "on_one_line",
    "plain",
    "printable",
    "refuse_disguised",
    "shown",
    "vector_problem",
]

FLOAT64 = np.dtype(np.float64)
NORM_SLACK = 1e-9  # a norm may exceed its bound by this share: rounding, not a mistake
LEAST, GREATEST = 1e-100, 1e100  # sizes of an argument: cubes stay in the range
MOST = 2**53 - 1  # of what is counted: from the next on a double does not count
LONGEST = 200  # characters of what was got, in a refusal


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
    if type(value) is float and _fits(value, above, least, below, most, infinite):
        return value  # most often, so that no refusal is worded
    left = f"({above:g}" if above is not None else f"[{least:g}" if least is not None else "(-inf"
    right = f"{below:g})" if below is not None else f"{most:g}]" if most is not None else "inf)"
    if infinite and right == "inf)":
        right = "inf]"
    problem = f"{name} must be a number in {left}, {right}; got {shown(value)}."
    if hint:
        problem += f" {hint}"
    number = _as_float(value, problem)
    if not _fits(number, above, least, below, most, infinite):
        raise ValueError(problem)
    return number


def check_reward(name: str, value: object) -> float:
    """Return a reward as a float, or refuse it by name; True and False are none."""
    is_bool = isinstance(value, bool | np.bool_)
    return check_number(name, value, hint="Pass 1 or 0." if is_bool else "")


def check_count(
    name: str, value: object, *, least: int = 1, most: float = MOST, hint: str = ""
) -> int:
    """Return ``value`` as an int from ``least`` to ``most``, or refuse it by name."""
    problem = f"{name} must be a whole number of at least {least}; got {shown(value)}."
    if hint:
        problem += f" {hint}"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool | np.timedelta64):
        whole = int(value)
    else:
        number = _as_float(value, problem)
        whole = int(number) if math.isfinite(number) else least - 1
        if whole != number:
            raise ValueError(problem)
    if whole > most:
        raise ValueError(f"{name} must be at most {most}; got {shown(value)}.")
    if whole < least:
        raise ValueError(problem)
    return whole


def check_choice(name: str, value: object, choices: tuple[str, ...], *, hint: str = "") -> str:
    """Return ``value`` if it is one of ``choices``, or refuse it by name."""
    word = str.__str__(value) if isinstance(value, str) else None  # a subclass may compare oddly
    if word is None or word not in choices:
        words = ", ".join(map(repr, choices))
        problem = f"{name} must be one of {words}; got {shown(value)}."
        raise ValueError(f"{problem} {hint}" if hint else problem)
    return word


def check_flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False, or refuse it by name."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def shown(value: object) -> str:
    """``repr``, on one line and shortened: the value may be long, or its ``repr`` may raise."""
    try:
        words = repr(value[:LONGEST] if isinstance(value, str | bytes) else value)
    except Exception as error:  # an integer of more digits than Python prints, or anybody's class
        if raised_by_handler(error):
            raise
        words = f"something of type {type(value).__name__}"
    return printable(words)


def printable(words: str) -> str:
    """Text on one line, shortened."""
    return on_one_line(words if len(words) <= LONGEST else f"{words[: LONGEST - 3]}...")


def on_one_line(words: str) -> str:
    """Text with whatever would steer a terminal written out, and a space for a new line."""
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() else " " if c == "\n" else repr(c)[1:-1] for c in words)


def _fits(
    number: float,
    above: float | None,
    least: float | None,
    below: float | None,
    most: float | None,
    infinite: bool,
) -> bool:
    """Tell whether a number is inside the range of ``check_number``."""
    return (
        not math.isnan(number)
        and (infinite or not math.isinf(number))
        and (above is None or number > above)
        and (least is None or number >= least)
        and (below is None or number < below)
        and (most is None or number <= most)
    )


def _as_float(value: object, problem: str) -> float:
    """A real number as a float; complex numbers, bools, time spans and text are refused."""
    real = isinstance(value, numbers.Real | np.integer | np.floating)
    if not real or isinstance(value, bool | np.bool_ | np.timedelta64):
        raise TypeError(problem)
    try:
        with np.errstate(over="ignore"):  # of a long double: looked at below
            number = float(value)  # type: ignore[arg-type]
    except OverflowError:  # an integer or a fraction beyond all floats
        raise ValueError(problem) from None
    if math.isinf(number) and number != value:  # a long double beyond all floats
        raise ValueError(problem)
    return number


def plain(value: object) -> object:
    """A NumPy scalar or a fraction as Python's own number, so that arithmetic and files do not
    depend on its type; anything else is returned as it is, for a check to refuse.
    """
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(plain(item) for item in value)
    if isinstance(value, np.bool_ | np.str_):
        return value.item()
    if type(value) in (bool, int, float, str) or isinstance(value, np.timedelta64):
        return value
    if isinstance(value, numbers.Integral | np.integer):
        return int(value)
    if isinstance(value, numbers.Real | np.floating):
        try:
            return _as_float(value, "")
        except ValueError:  # beyond all floats
            return value
    return value


class Bounds(TypedDict, total=False):
    """The range that a number must be in, and what is advised where it is not."""

    above: float
    least: float
    below: float
    most: float
    infinite: bool
    hint: str


class Check:
    """Checks arguments for one owner, whose name and the argument's stand in every refusal.

    >>> class Policy: ...
    >>> Check(Policy).number("ridge", -1.0, above=0.0)
    Traceback (most recent call last):
    ValueError: Policy.ridge must be a number in (0, inf); got -1.0.
    """

    def __init__(self, owner: type | str) -> None:
        self.owner = owner if isinstance(owner, str) else owner.__name__

    def number(self, name: str, value: object, **bounds: Unpack[Bounds]) -> float:
        """As :func:`check_number`; of a size whose cube is in the floating-point range."""
        number = check_number(f"{self.owner}.{name}", value, **bounds)
        if number != 0.0 and math.isfinite(number) and not LEAST <= abs(number) <= GREATEST:
            raise ValueError(
                f"{self.owner}.{name} must lie between {LEAST:g} and {GREATEST:g} in size; "
                f"got {number!r}. Change the unit."
            )
        return number

    def flag(self, name: str, value: object) -> bool:
        """As :func:`check_flag`."""
        return check_flag(f"{self.owner}.{name}", value)

    def count(self, name: str, value: object, *, least: int = 1, hint: str = "") -> int:
        """As :func:`check_count`."""
        return check_count(f"{self.owner}.{name}", value, least=least, hint=hint)

    def seed(self, value: object, below: int = MOST + 1) -> int:
        """A whole number of any size, as one ``below`` a bound that a double counts to."""
        name = f"{self.owner}.seed"
        return check_count(name, value, least=0, most=math.inf) % below

    def choice(self, name: str, value: object, choices: tuple[str, ...]) -> str:
        """As :func:`check_choice`."""
        return check_choice(f"{self.owner}.{name}", value, choices)

    def delta(self, value: object) -> float:
        """A failure probability."""
        return self.number("delta", value, above=0.0, below=1.0)

    def log_inverse(self, delta: object) -> float:
        """log(1/delta) of a failure probability."""
        return math.log(1.0 / self.delta(delta))


def as_arms(arms: ArrayLike, dim: int, owner: type, method: str = "") -> FloatArray:
    """``arms`` as a contiguous float64 (n, dim) array, the same object where it already is one.

    ``owner`` and ``method`` name the place; the text is composed only for an error.
    """
    if type(arms) is np.ndarray and arms.dtype is FLOAT64 and arms.ndim == 2:
        if arms.shape[1] == dim and arms.flags.c_contiguous:
            return arms
    where = owner.__name__ + method
    array = as_numbers(arms, f"{where}: arms", "numbers of shape (n, dim)")
    if array.ndim != 2 or array.shape[1] != dim or array.shape[0] == 0:
        raise ValueError(
            f"{where}: arms must have shape (n, {dim}), n >= 1; got shape {array.shape}. "
            "One row per arm, one column per feature."
        )
    return np.ascontiguousarray(array)


def as_vector(x: ArrayLike, dim: int, owner: type, method: str = "") -> FloatArray:
    """``x`` as a contiguous float64 vector of length dim, the same object where it is one."""
    if type(x) is np.ndarray and x.dtype is FLOAT64 and x.shape == (dim,):
        if x.flags.c_contiguous:
            return x
    where = owner.__name__ + method
    array = as_numbers(x, f"{where}: x", "a vector of numbers")
    if array.shape != (dim,):
        raise ValueError(
            f"{where}: x must have shape ({dim},); got shape {array.shape}. "
            "Pass the features of the arm that was played, arms[i]."
        )
    return np.ascontiguousarray(array)


def as_rows(value: ArrayLike, shape: tuple[int | None, ...], name: str) -> FloatArray:
    """``value`` as a contiguous float64 array of ``shape``, in which None stands for any length."""
    words = ", ".join("any" if k is None else str(k) for k in shape)
    words = f"({words},)" if len(shape) == 1 else f"({words})"
    array = as_numbers(value, name, f"numbers of shape {words}")
    fits = array.ndim == len(shape) and all(
        k is None or k == length for k, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must have shape {words}; got shape {array.shape}.")
    return np.ascontiguousarray(array)


def as_numbers(value: ArrayLike, name: str, wanted: str) -> FloatArray:
    """``value`` as a plain float64 array of real numbers, none of them masked, or refuse it."""
    try:
        refuse_disguised(value, name, wanted)
        array = as_array(value, name, wanted)
    except (OverflowError, RecursionError) as error:  # of a conversion; all else is somebody's own
        problem = f"{name} must be {wanted}; got {shown(value)} ({printable(str(error))})."
        raise TypeError(problem) from None
    if array.dtype.kind not in "fiu":
        todo = _bad_columns(value) or (" Pass it .astype(float)." if array.dtype == bool else "")
        raise TypeError(f"{name} must be {wanted}; got dtype {array.dtype}.{todo}")
    with np.errstate(over="ignore"):  # a long double may become infinite, which is refused later
        return array.astype(np.float64, copy=False)


def refuse_disguised(value: object, name: str, wanted: str) -> None:
    """Refuse masked entries, and bools in lists, both of which NumPy would make numbers."""
    if _holds_masks(value):
        raise ValueError(f"{name} must be {wanted}; got masked entries. Fill them first.")
    if isinstance(value, list | tuple) and _holds_bools(value):
        raise TypeError(
            f"{name} must be {wanted}; got dtype bool among numbers. Pass 1 for True, 0 for False."
        )


def as_array(value: ArrayLike, name: str, wanted: str) -> NDArray[Any]:
    """``value`` as an array of whatever type; rows of different lengths are refused by name."""
    try:
        return np.asarray(value)
    except ValueError as error:
        if not (isinstance(value, list | tuple) and "inhomogeneous" in str(error)):
            raise  # somebody's own
        problem = f"{name} must be {wanted}; got {_unequal(value)}. Give every row as many numbers."
        raise ValueError(problem) from None


def _unequal(rows: Sequence[object]) -> str:
    """Describe how the rows of a ragged list differ."""
    lengths = [len(row) if hasattr(row, "__len__") else None for row in rows]
    for k, length in enumerate(lengths):
        if length != lengths[0] and None not in (length, lengths[0]):
            return f"rows of different lengths: row 0 has {lengths[0]}, row {k} has {length}"
    return "rows of different lengths"


def _bad_columns(frame: object) -> str:
    """Advice on a frame's columns that hold no numbers; "" for anything else."""
    dtypes, columns = getattr(frame, "dtypes", None), getattr(frame, "columns", None)
    if dtypes is None or columns is None:
        return ""
    names = [str(dtype).lower() for dtype in dtypes]
    named = [(shown(column), dtype) for column, dtype in zip(columns, names, strict=False)]
    bools = [column for column, dtype in named if dtype.startswith("bool")]
    numbers_too = ("bool", "float", "int", "uint")
    words = [column for column, dtype in named if not dtype.startswith(numbers_too)]
    todo = ""
    if words:
        todo += f" Encode {', '.join(words)} first, for example one column of 0 and 1 a category."
    if bools:
        todo += f" Make {', '.join(bools)} numbers by .astype(float)."
    return todo


def _holds_masks(value: object) -> bool:
    """Tell whether entries of an array, or of one in a list at any depth, are masked."""
    if not isinstance(value, list | tuple):
        return bool(np.ma.is_masked(value))
    if set(map(type, value)) <= {float, int}:
        return False
    return any(_holds_masks(part) for part in value if not isinstance(part, float | int))


def _holds_bools(rows: Sequence[object]) -> bool:
    """Tell whether a list, or a list in it, has a bool, which NumPy would make a number."""
    kinds = set(map(type, rows))
    if bool in kinds or np.bool_ in kinds:
        return True
    return bool(kinds & {list, tuple}) and any(
        isinstance(row, list | tuple) and _holds_bools(row) for row in rows
    )


def explain_arms(arms: FloatArray, limit: float, where: str, *, name: str = "arms") -> ValueError:
    """The error for arms that a kernel refused: names the first bad row and why."""
    if arms.shape[0] == 0:
        return ValueError(f"{where}: arms is empty; offer at least one arm.")
    for i, x in enumerate(arms):
        problem = vector_problem(x, limit)
        if problem:
            return ValueError(f"{where}: {name}[{i}] {problem}")
    return ValueError(f"{where}: no arm has a finite index; the features are too large.")


def explain_vector(x: FloatArray, limit: float, where: str) -> ValueError:
    """The error for a feature vector that a kernel refused."""
    return ValueError(f"{where}: x {vector_problem(x, limit)}")


def vector_problem(x: FloatArray, limit: float) -> str:
    """The reason why a feature vector cannot be used; "" if it can."""
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
