"""Sketches: the values of a log in bounded memory, so that one pass over it is enough.

Up to 2^17 values are held as they are. Beyond, values of the same epoch, sign and 64th part of an
octave share a cell, which holds their count, sum and sum of squares. Merging adds cells, so a log
may be split in any way; only the rounding of the sums differs.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.logs.counting import EMPTY, merge, tally

__all__ = ["Cells", "PairCells", "Pairs", "Sketch", "epoch_starts", "epochs"]

LIMIT = 2**17  # values held exactly
VALUE_CELLS = 64  # per octave
PAIR_CELLS = (16, 32)  # per octave, of u and of v
SHIFT = 19
SPAN = 2**SHIFT  # of the numbers of cells: 64 per octave of all doubles, both signs
GROWTH = 1.1  # an epoch ends where its rows are a tenth more
LAST = 2**53


def _starts() -> IntArray:
    starts = [0]
    while starts[-1] < LAST:
        starts.append(max(starts[-1] + 1, math.floor(GROWTH * starts[-1])))
    return np.array(starts, dtype=np.int64)


STARTS = _starts()


def epoch_starts(count: int) -> IntArray:
    """The numbers of the first rows of the first ``count`` epochs: 0, 1, 2, ..., then 1.1-fold."""
    return np.asarray(STARTS[:count])


def epochs(start: int, count: int) -> IntArray:
    """The epoch of each of ``count`` rows from number ``start`` on."""
    first, last = np.searchsorted(STARTS, [start, start + max(count, 1) - 1], side="right") - 1
    ends = np.minimum(STARTS[first + 1 : last + 2], start + count)
    lengths = np.diff(np.concatenate([[start], ends]))
    return np.repeat(np.arange(first, last + 1, dtype=np.int64), lengths)


def cell_numbers(values: FloatArray, per_octave: int) -> IntArray:
    """The cell of each value: ordered as the values are, 0 for 0, within SPAN / 2 of it.

    A double's exponent and the first bits of its fraction, ``per_octave`` (a power of two) parts
    of equal length to an octave.
    """
    bits = np.abs(values, dtype=np.float64).view(np.int64) >> _dropped(per_octave)
    return np.asarray(np.where(values < 0.0, -bits, bits))


def _dropped(per_octave: int) -> int:
    """Bits of a double's fraction that do not tell its cell."""
    return 52 - (per_octave.bit_length() - 1)


class Cells(NamedTuple):
    """Groups of values: each one's epoch, count, mean, variance, least and largest value."""

    epoch: IntArray
    count: FloatArray  # type: ignore[assignment]  # a tuple's own method, which is not used
    mean: FloatArray
    variance: FloatArray
    low: FloatArray
    high: FloatArray


class PairCells(NamedTuple):
    """Groups of pairs: count, and the sums of u, v, u², u v and v²."""

    count: FloatArray  # type: ignore[assignment]
    u: FloatArray
    v: FloatArray
    uu: FloatArray
    uv: FloatArray
    vv: FloatArray


def _edges(keys: IntArray, per_octave: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest value of each cell."""
    number = (keys & (SPAN - 1)) - SPAN // 2
    size, dropped = np.abs(number), _dropped(per_octave)
    low = (size << dropped).view(np.float64)
    high = np.where(size > 0, ((size + 1) << dropped).view(np.float64), 0.0)
    return np.where(number < 0, -high, low), np.where(number < 0, -low, high)


def _grouped(keys: IntArray, columns: FloatArray) -> tuple[IntArray, FloatArray]:
    """Keys in order, each once, and a row of sums for each: the columns added where they agree."""
    size = len(keys)
    distinct, sums = np.empty(size, np.int64), np.empty((size, len(columns)))
    table = np.full(1 << (2 * size + 1).bit_length(), EMPTY, np.int64)
    count = tally(keys, columns, table, distinct, sums)
    order = np.argsort(distinct[:count])
    return distinct[:count][order], sums[:count][order]


def _added(
    keys: IntArray, sums: FloatArray, more: IntArray, plus: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Two grouped sets of cells as one."""
    size = len(keys) + len(more)
    union, total = np.empty(size, np.int64), np.empty((size, sums.shape[1]))
    count = merge(keys, sums, more, plus, union, total)
    return union[:count].copy(), total[:count].copy()


class Sketch:
    """Values with their epochs: exact up to ``limit``, then in cells of 1/64 octave.

    >>> whole = Sketch(np.arange(10.0), epochs(0, 10))
    >>> parts = Sketch(np.arange(4.0), epochs(0, 4)) + Sketch(np.arange(4.0, 10.0), epochs(4, 6))
    >>> bool(np.array_equal(whole.cells().mean, parts.cells().mean))
    True
    """

    def __init__(
        self, values: FloatArray, epoch: IntArray | None = None, *, limit: int = LIMIT
    ) -> None:
        self.limit = limit
        self._epoch = np.zeros(len(values), np.int64) if epoch is None else epoch
        self._values: FloatArray | None = values
        self._keys, self._sums = np.empty(0, np.int64), np.empty((0, 3))
        if len(values) > limit:
            self._keys, self._sums = self._binned()
            self._epoch, self._values = np.empty(0, np.int64), None

    @property
    def exact(self) -> bool:
        """Tell whether every value is held as it is."""
        return self._values is not None

    def __add__(self, other: Self) -> Self:
        """Both together; neither is changed."""
        limit = min(self.limit, other.limit)
        if self._values is not None and other._values is not None:
            values = np.concatenate([self._values, other._values])
            return type(self)(values, np.concatenate([self._epoch, other._epoch]), limit=limit)
        new = type(self)(np.empty(0), limit=limit)
        new._keys, new._sums = _added(*self._binned(), *other._binned())
        new._values = None
        return new

    def _binned(self) -> tuple[IntArray, FloatArray]:
        """Keys, and (count, sum, sum of squares)."""
        v = self._values
        if v is None:
            return self._keys, self._sums
        keys = self._epoch * SPAN + cell_numbers(v, VALUE_CELLS) + SPAN // 2
        return _grouped(keys, np.stack([np.ones(len(v)), v, v * v]))

    def cells(self) -> Cells:
        """The cells; of exact values each has its own."""
        if self._values is not None:
            v = self._values
            return Cells(self._epoch, np.ones(len(v)), v, np.zeros(len(v)), v, v)
        count, total, square = self._sums[:, 0], self._sums[:, 1], self._sums[:, 2]
        low, high = _edges(self._keys, VALUE_CELLS)
        mean = np.clip(total / count, low, high)
        most = (high - mean) * (mean - low)  # no sample in [low, high] of this mean has more
        variance = np.clip(square / count - mean * mean, 0.0, np.maximum(most, 0.0))
        return Cells(self._keys >> SHIFT, count, mean, variance, low, high)

    def largest(self, count: float, most: int) -> FloatArray:
        """The ``count`` values largest in size, or ``most`` of them at equal ranks; the cells'
        means where values are not held.
        """
        cells = self.cells()
        order = np.argsort(-np.abs(cells.mean), kind="stable")
        ends = np.cumsum(cells.count[order])
        size = int(min(count, ends[-1] if len(ends) else 0))
        ranks = (np.arange(min(size, most)) + 0.5) * (size / max(min(size, most), 1))
        return np.asarray(cells.mean[order][np.searchsorted(ends, ranks, side="left")])


class Pairs:
    """Pairs (u, v), of which an estimate m makes sum psi(v - u m) = 0: exact, then in cells.

    Of IPS u is 1 and v is w r; of SNIPS u is w. In a cell, v - u m is summed exactly wherever psi
    is linear or constant over it, so cells cost accuracy only where they straddle a threshold.
    """

    def __init__(self, u: FloatArray, v: FloatArray, *, limit: int = LIMIT) -> None:
        self.limit = limit
        self._pairs: FloatArray | None = np.stack([u, v])
        self._keys, self._sums = np.empty(0, np.int64), np.empty((0, 6))
        if len(u) > limit:
            self._keys, self._sums = self._binned()
            self._pairs = None

    @property
    def exact(self) -> bool:
        """Tell whether every pair is held as it is."""
        return self._pairs is not None

    def __add__(self, other: Self) -> Self:
        """Both together; neither is changed."""
        limit = min(self.limit, other.limit)
        if self._pairs is not None and other._pairs is not None:
            both = np.concatenate([self._pairs, other._pairs], axis=1)
            return type(self)(both[0], both[1], limit=limit)
        new = type(self)(np.empty(0), np.empty(0), limit=limit)
        new._keys, new._sums = _added(*self._binned(), *other._binned())
        new._pairs = None
        return new

    def _binned(self) -> tuple[IntArray, FloatArray]:
        if self._pairs is None:
            return self._keys, self._sums
        u, v = self._pairs
        rough, fine = PAIR_CELLS
        keys = (cell_numbers(u, rough) + SPAN // 2) * SPAN + cell_numbers(v, fine) + SPAN // 2
        return _grouped(keys, np.stack(self.cells()))

    def cells(self) -> PairCells:
        """The cells; of exact pairs each has its own."""
        if self._pairs is None:
            return PairCells(*np.ascontiguousarray(self._sums.T))
        u, v = self._pairs
        return PairCells(np.ones(len(u)), u, v, u * u, u * v, v * v)
