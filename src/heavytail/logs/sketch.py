"""Sketches: the values of a log in bounded memory, so that one pass over it is enough.

Up to 2^17 values are held as they are. Beyond, values of the same epoch, sign and 64th of an octave
share a cell, which holds their count, sum, sum of squares, least and largest. Merging adds cells,
so a log may be split in any way; only the rounding of the sums differs.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["Cells", "PairCells", "Pairs", "Sketch", "epoch_starts", "epochs"]

LIMIT = 2**17  # values held exactly
VALUE_CELLS = 64  # per octave
PAIR_CELLS = (16, 32)  # per octave, of u and of v
SPAN = 2**19  # of the numbers of cells: 64 per octave of all doubles, both signs
OCTAVES = 1100  # below 1: the smallest subnormal is 2^-1074
GROWTH = 1.1  # an epoch ends where its rows are a tenth more
LAST = 2**53


def _starts() -> IntArray:
    found = [0]
    while found[-1] < LAST:
        found.append(max(found[-1] + 1, math.floor(GROWTH * found[-1])))
    return np.array(found, dtype=np.int64)


STARTS = _starts()


def epoch_starts(count: int) -> IntArray:
    """The numbers of the first rows of the first ``count`` epochs: 0, 1, 2, ..., then 1.1-fold."""
    return np.asarray(STARTS[:count])


def epochs(start: int, count: int) -> IntArray:
    """The epoch of each of ``count`` rows from number ``start`` on."""
    rows = np.arange(start, start + count, dtype=np.int64)
    return np.asarray(np.searchsorted(STARTS, rows, side="right") - 1, dtype=np.int64)


def cell_numbers(values: FloatArray, per_octave: int) -> IntArray:
    """The cell of each value: ordered as the values are, 0 for 0, within SPAN / 2 of it."""
    size = np.abs(values)
    found = np.zeros(values.shape, dtype=np.int64)
    some = size > 0.0
    octave = np.log2(size[some]) + OCTAVES
    found[some] = np.floor(octave * per_octave).astype(np.int64) + 1
    return np.where(values < 0.0, -found, found)


class Cells(NamedTuple):
    """Groups of values: each one's epoch, count, mean, variance, least and largest value."""

    epoch: IntArray
    count: FloatArray
    mean: FloatArray
    variance: FloatArray
    low: FloatArray
    high: FloatArray


class PairCells(NamedTuple):
    """Groups of pairs: count, and the sums of u, v, u², u v and v²."""

    count: FloatArray
    u: FloatArray
    v: FloatArray
    uu: FloatArray
    uv: FloatArray
    vv: FloatArray


def _grouped(
    keys: IntArray, sums: FloatArray, extremes: FloatArray | None
) -> tuple[IntArray, FloatArray, FloatArray | None]:
    """Columns of ``sums`` added, and of ``extremes`` (least, largest) joined, where keys agree."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    added = np.add.reduceat(sums[:, order], first, axis=1)
    joined = None
    if extremes is not None:
        low = np.minimum.reduceat(extremes[0, order], first)
        high = np.maximum.reduceat(extremes[1, order], first)
        joined = np.stack([low, high])
    return keys[first], added, joined


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
        self._keys, self._sums, self._extremes = np.empty(0, np.int64), np.empty(0), np.empty(0)
        if len(values) > limit:
            self._bin()

    @property
    def exact(self) -> bool:
        """Whether every value is held as it is."""
        return self._values is not None

    def __add__(self, other: Self) -> Self:
        """Both together; neither is changed."""
        new = object.__new__(type(self))
        new.limit = min(self.limit, other.limit)
        if self._values is not None and other._values is not None:
            values = np.concatenate([self._values, other._values])
            new.__init__(values, np.concatenate([self._epoch, other._epoch]), limit=new.limit)  # type: ignore[misc]
            return new
        one, two = self._binned(), other._binned()
        new._epoch, new._values = np.empty(0, np.int64), None
        new._join(*(np.concatenate([a, b], axis=-1) for a, b in zip(one, two, strict=True)))
        return new

    def _bin(self) -> None:
        self._join(*self._binned())
        self._epoch, self._values = np.empty(0, np.int64), None

    def _join(self, keys: IntArray, sums: FloatArray, extremes: FloatArray) -> None:
        self._keys, self._sums, joined = _grouped(keys, sums, extremes)
        assert joined is not None
        self._extremes = joined

    def _binned(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Keys, (count, sum, sum of squares) and (least, largest)."""
        v = self._values
        if v is None:
            return self._keys, self._sums, self._extremes
        keys = self._epoch * SPAN + cell_numbers(v, VALUE_CELLS) + SPAN // 2
        return keys, np.stack([np.ones(len(v)), v, v * v]), np.stack([v, v])

    def cells(self) -> Cells:
        """What is held; of exact values each is a cell of its own."""
        if self._values is not None:
            v = self._values
            return Cells(self._epoch, np.ones(len(v)), v, np.zeros(len(v)), v, v)
        count, total, square = self._sums[0], self._sums[1], self._sums[2]
        low, high = self._extremes[0], self._extremes[1]
        mean = np.clip(total / count, low, high)
        most = (high - mean) * (mean - low)  # no sample in [low, high] of this mean has more
        variance = np.clip(square / count - mean * mean, 0.0, np.maximum(most, 0.0))
        return Cells(self._keys // SPAN, count, mean, variance, low, high)

    def quantiles(self, most: int) -> FloatArray:
        """The values, or ``most`` of them at equal ranks where there are more, in order."""
        cells = self.cells()
        order = np.argsort(cells.mean, kind="stable")
        ends = np.cumsum(cells.count[order])
        size = int(ends[-1]) if len(ends) else 0
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
        self._keys, self._sums = np.empty(0, np.int64), np.empty((6, 0))
        if len(u) > limit:
            self._keys, self._sums, _ = _grouped(*self._binned(), None)
            self._pairs = None

    @property
    def exact(self) -> bool:
        """Whether every pair is held as it is."""
        return self._pairs is not None

    def __add__(self, other: Self) -> Self:
        """Both together; neither is changed."""
        new = object.__new__(type(self))
        limit = min(self.limit, other.limit)
        if self._pairs is not None and other._pairs is not None:
            new.__init__(*np.concatenate([self._pairs, other._pairs], axis=1), limit=limit)  # type: ignore[misc]
            return new
        one, two = self._binned(), other._binned()
        keys, sums = (np.concatenate([a, b], axis=-1) for a, b in zip(one, two, strict=True))
        new.limit, new._pairs = limit, None
        new._keys, new._sums, _ = _grouped(keys, sums, None)
        return new

    def _binned(self) -> tuple[IntArray, FloatArray]:
        if self._pairs is None:
            return self._keys, self._sums
        u, v = self._pairs
        rough, fine = PAIR_CELLS
        keys = (cell_numbers(u, rough) + SPAN // 2) * SPAN + cell_numbers(v, fine) + SPAN // 2
        return keys, np.stack(self.cells())

    def cells(self) -> PairCells:
        """What is held; of exact pairs each is a cell of its own."""
        if self._pairs is None:
            return PairCells(*self._sums)
        u, v = self._pairs
        return PairCells(np.ones(len(u)), u, v, u * u, u * v, v * v)
