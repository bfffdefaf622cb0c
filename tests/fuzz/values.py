"""What is handed to a call: numbers in every dress, and what no call may take."""

from __future__ import annotations

import datetime
import functools
from fractions import Fraction
from typing import Any

import numpy as np

try:
    import pandas as pd
except ImportError:  # it is no dependency of the library
    pd = None  # type: ignore[assignment]


class Subclass(np.ndarray):
    """An array of somebody's own."""


NO_NUMBERS: list[Any] = [
    1 + 2j, np.complex128(1), "1", b"1", object(), [1.0], (1.0,), np.array([1.0, 2.0]), {}, set(),
    datetime.date(2020, 1, 1), np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.ma.masked,
    True, np.bool_(True), float, len, Ellipsis,
]  # fmt: skip
NOT_FINITE: list[Any] = [np.nan, np.inf, -np.inf, np.float32("nan"), 10**400, -(10**400)]
BAD_NUMBERS: list[Any] = [*NO_NUMBERS, *NOT_FINITE, None, Fraction(10**400, 3)]
BAD_SCALES: list[Any] = [*NO_NUMBERS, *NOT_FINITE, 0.0, -1.0, -1]
BAD_COUNTS: list[Any] = [*NO_NUMBERS, *NOT_FINITE, None, 0.5, -1, -1.5, 2**53 + 1, 1e300]


@functools.cache
def bad_vectors(size: int) -> list[Any]:
    """What is no vector of ``size`` finite numbers."""
    good = [0.1] * size
    return [
        [np.nan, *good[1:]], [np.inf, *good[1:]], [10**400, *good[1:]], [1j, *good[1:]],
        [True, *good[1:]], ["a", *good[1:]], [None, *good[1:]], [object(), *good[1:]],
        [*good, 0.1], [good], [], "ab", b"ab", None, 3.0, object(), {}, set(good), len,
        np.full(size, "2020", dtype="datetime64[Y]"), np.ones(size, dtype=bool),
        np.ma.array(good, mask=[True] + [False] * (size - 1)), np.full(size, 1e200j),
        np.array(good, dtype=object) * 1j, [[good], [good]],
    ]  # fmt: skip


@functools.cache
def bad_tables(rows: int, size: int) -> list[Any]:
    """What is no table of ``rows`` vectors of ``size`` finite numbers."""
    ragged = [[0.1] * size, [0.1] * (size + 1)]
    return [*([one] * rows for one in bad_vectors(size)), ragged, np.zeros((rows, size + 1))]


def bad_arrays(good: Any) -> list[Any]:
    """What is no array of finite numbers of the shape of ``good``."""
    array = np.asarray(good, dtype=float)
    spoiled: list[Any] = []
    for bad in (np.nan, np.inf, -np.inf, 1j, True, "a", None, object()):
        one = array.astype(object)
        one.flat[0] = bad
        spoiled += [one, one.tolist()]
    masked = np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 0)
    odd = [masked, array.astype(bool), array.astype("datetime64[Y]"), array.astype(complex)]
    return [*spoiled, *odd, array.astype(str), array[None, None], "ab", object(), {}, [], len]


def dresses(x: np.ndarray, *, frames: bool = True) -> list[Any]:
    """The same numbers as other types; frames and series where pandas is there."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    made: list[Any] = [
        x, x.tolist(), tuple(x.tolist()), wide[..., ::2], frozen, np.asfortranarray(x),
        x[::-1].copy()[::-1], x.astype(">f8"), x.astype(np.longdouble), x.view(Subclass),
        np.ma.array(x), list(x),
    ]  # fmt: skip
    if frames and pd is not None and x.ndim <= 2:
        made.append(pd.Series(x) if x.ndim == 1 else pd.DataFrame(x))
    return made


def rounded(x: np.ndarray) -> list[Any]:
    """Numbers near them in types that hold fewer."""
    return [x.astype(np.float32), x.astype(np.float16), np.trunc(x).astype(np.int8)]


_SHOWN: dict[int, tuple[Any, str]] = {}  # by id; the value is kept, so that its id stays its own


def shown(value: Any) -> str:
    """Short words for a value."""
    if id(value) in _SHOWN:
        return _SHOWN[id(value)][1]
    try:
        words = repr(value)
    except Exception:  # an integer of more digits than Python prints
        words = f"something of type {type(value).__name__}"
    words = words if len(words) < 80 else words[:77] + "..."
    if len(_SHOWN) < 2000:
        _SHOWN[id(value)] = value, words
    return words
