"""Bounds of the mean of heavy-tailed values that hold at every time, from sums alone.

A bet b that never changes has the wealth prod (1 + b X_t)/(1 + b m_t), m_t being the mean of X_t
given what came before. As long as 1 + b X_t is not negative, this is a martingale that starts at 1,
and so is an average over bets, which passes 1/delta at some time with probability delta at most
(Ville). As the geometric mean of 1 + b m_t is at most the arithmetic one, the average m of the m_t
is not below

    L_n = sup{m : sum_b share_b prod (1 + b X_t)/(1 + b m)^n > 1/delta}

at any n. The means may move, and who looks, when and how often, does not matter. All that is kept
of a stream is the logarithm of the product for each bet: :class:`Wealths`.

Values that are not below 0 allow any bet. Others allow b <= 1/B where none is below -B. B is not
known, and is taken to be :data:`ROOM` times as far out as the farthest value so far. Such a bound
is approximate: a value may come that is farther out. ``python -m benchmarks.earned`` measures how
often it fails.

The unit of the bets is the size of a stream's first value that is not 0, and the values behind it
are bet on, so that no unit of money matters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["BETS", "ROOM", "SHARES", "Wealths", "difference"]

BETS: Final = 2.0 ** np.arange(-24.0, 7.0)  # of a bound, in units of a reward ...
SHARES: Final = (1.0 + np.abs(np.log2(BETS) + 3.0)) ** -2.0  # ... and their weights, up to a factor
LOG_SHARES: Final = np.log(SHARES / SHARES.sum())
ROOM: Final = 5.0  # times as far out as the farthest value so far another may lie
FAR: Final = 1e300  # units, beyond which a value counts as this
HALVINGS: Final = 8  # of an interval, before ...
STEPS: Final = 40  # of Newton's method, at most
LEAST: Final = -1.0 + 1e-12  # of a bet times a mean
SPLITS: Final = 129  # of the evidence between two streams
CASH: Final = 0.05  # of the wealth of each of two streams that is not bet
FIELDS: Final = ("count", "before", "total", "rest", "unit", "low", "high", "up", "down")


class Wealths:
    """Sums of many streams of values, from which bounds of their means follow.

    Attributes:
        count: values of each stream.
        before: those up to the first that is not 0, and that one; they are not bet on.
        total: sum of all values.
        rest: sum of those that are bet on.
        unit: size of the first that is not 0; 0 before it.
        low: least value, at most 0.
        high: largest value, at least 0.
        up: (streams, bets), sum log(1 + b x); -infinity once it is not defined.
        down: the same of -x.
    """

    def __init__(self, size: int = 1) -> None:
        self.count, self.before = np.zeros(size), np.zeros(size)
        self.total, self.rest = np.zeros(size), np.zeros(size)
        self.unit, self.low, self.high = np.zeros(size), np.zeros(size), np.zeros(size)
        self.up, self.down = np.zeros((size, len(BETS))), np.zeros((size, len(BETS)))

    def __len__(self) -> int:
        return len(self.count)

    def stream(self, place: int) -> Wealths:
        """One stream alone."""
        alone = Wealths(0)
        for name in FIELDS:
            setattr(alone, name, getattr(self, name)[[place]])
        return alone

    def grow(self, size: int) -> None:
        """Make room for ``size`` streams."""
        for name in FIELDS:
            old = getattr(self, name)
            more = np.zeros((max(size - len(old), 0), *old.shape[1:]))
            setattr(self, name, np.concatenate([old, more]))

    def add(self, streams: IntArray, values: FloatArray) -> None:
        """Add values, each to the stream of its number, in order."""
        size, paid = len(self), values != 0.0
        self._begin(streams[paid], streams, values)
        self.count += np.bincount(streams, minlength=size)
        self.total += np.bincount(streams, values, minlength=size)
        np.minimum.at(self.low, streams, values)
        np.maximum.at(self.high, streams, values)
        paid &= self._behind(streams)
        if not paid.any():
            return
        order = np.argsort(streams[paid], kind="stable")
        streams, values = streams[paid][order], values[paid][order]
        self.rest += np.bincount(streams, values, minlength=size)
        starts = np.flatnonzero(np.diff(streams, prepend=-1))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            stakes = np.clip(values / self.unit[streams], -FAR, FAR)[:, None] * BETS
            for side, logs in ((1.0, self.up), (-1.0, self.down)):
                gains = np.log1p(np.maximum(side * stakes, -1.0))
                logs[streams[starts]] += np.add.reduceat(gains, starts, axis=0)

    def _begin(self, paid: IntArray, streams: IntArray, values: FloatArray) -> None:
        """Take the units of streams whose first value that is not 0 is among these."""
        for stream in np.unique(paid[self.unit[paid] == 0.0]):
            own = values[streams == stream]
            first = int(np.argmax(own != 0.0))
            self.unit[stream] = abs(own[first])
            self.before[stream] = self.count[stream] + first + 1.0

    def _behind(self, streams: IntArray) -> Any:
        """Tell which of these rows, the last of their streams, are bet on."""
        order = np.argsort(streams, kind="stable")
        ranks = np.empty(len(streams))
        starts = np.flatnonzero(np.diff(streams[order], prepend=-1))
        lengths = np.diff(np.append(starts, len(streams)))
        ranks[order] = np.arange(len(streams)) - np.repeat(starts, lengths)
        present = np.bincount(streams, minlength=len(self))
        number = self.count[streams] - present[streams] + ranks  # of the row in its stream, from 0
        return (self.unit[streams] > 0.0) & (number >= self.before[streams])

    @property
    def rows(self) -> FloatArray:
        """The number of values of each stream that are bet on."""
        return np.where(self.unit > 0.0, self.count - self.before, 0.0)

    def only(self, stream: int) -> Self:
        """One of the streams."""
        twin = type(self)()
        for name in FIELDS:
            setattr(twin, name, getattr(self, name)[stream : stream + 1].copy())
        return twin

    def lower(
        self, log_inverse: float | FloatArray, room: float | FloatArray | None = None
    ) -> FloatArray:
        """Lower bounds of the means of the values that are bet on.

        Args:
            log_inverse: the logarithm of 1/delta.
            room: no value is below -room; None: as the values so far show.
        """
        room = -ROOM * self.low if room is None else room
        return _least(self.up, self.rows, self.unit, self.rest, log_inverse, room)

    def upper(
        self, log_inverse: float | FloatArray, room: float | FloatArray | None = None
    ) -> FloatArray:
        """Upper bounds of the same; no value is above ``room``."""
        room = ROOM * self.high if room is None else room
        return -_least(self.down, self.rows, self.unit, -self.rest, log_inverse, room)

    def saved(self) -> dict[str, bytes]:
        """Its arrays as bytes."""
        return {name: getattr(self, name).astype("<f8").tobytes() for name in FIELDS}

    @classmethod
    def of_saved(cls, saved: Mapping[str, bytes]) -> Self:
        """Read the result of ``saved``."""
        twin = cls()
        for name in FIELDS:
            values = np.frombuffer(saved[name], dtype="<f8").astype(np.float64)
            setattr(twin, name, values.reshape(-1, len(BETS)) if name in FIELDS[-2:] else values)
        if len({len(getattr(twin, name)) for name in FIELDS}) != 1:
            raise ValueError("the saved sums are damaged.")
        return twin


def _least(
    logs: FloatArray,
    rows: FloatArray,
    unit: FloatArray,
    total: FloatArray,
    log_inverse: float | FloatArray,
    room: float | FloatArray,
) -> FloatArray:
    """The largest mean that is ruled out, or -room where none is.

    The logarithm of the wealth is convex in the mean and falls, so that Newton's steps from a mean
    that is ruled out stay with those that are: a step too few errs on the safe side.
    """
    low = -np.broadcast_to(np.asarray(room, dtype=np.float64), rows.shape)
    bets = BETS / np.where(unit > 0.0, unit, 1.0)[:, None]
    sound = np.isfinite(logs) & (bets * -low[:, None] <= 1.0)
    some = (rows > 0.0) & sound.any(axis=1)
    wealth, times = np.where(sound, logs + LOG_SHARES, -np.inf)[some], rows[some, None]
    bets, best = bets[some], low[some]
    target = np.broadcast_to(np.asarray(log_inverse, dtype=np.float64), rows.shape)[some]

    def over(mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """By how much the logarithm of the wealth is above the target, and how fast it falls."""
        stakes = np.maximum(bets * mean[:, None], LEAST)
        each = wealth - times * np.log1p(stakes)
        top = each.max(axis=1)
        parts = np.exp(each - top[:, None])
        total = parts.sum(axis=1)
        fall = np.einsum("ij,ij->i", parts, times * bets / (1.0 + stakes)) / total
        return top + np.log(total) - target, fall

    high = np.maximum(total[some] / rows[some], best)
    for _ in range(HALVINGS):
        middle = 0.5 * (best + high)
        out = over(middle)[0] > 0.0
        best, high = np.where(out, middle, best), np.where(out, high, middle)
    most = np.where(target >= 0.0, high, np.inf)  # at the average, no wealth is above 1
    for _ in range(STEPS):
        above, fall = over(best)
        step = np.where(above > 0.0, above / fall, 0.0)
        best = np.minimum(best + step, most)
        if np.all(step <= 1e-13 * np.abs(best)):
            break
    result = low.copy()
    result[some] = best
    return result


def difference(a: Wealths, b: Wealths, level: float) -> tuple[float, float]:
    """Bounds of the mean of ``a`` less that of ``b``, independent streams of one each, that hold at
    every time with probability ``level``.

    The wealth that rules out a mean of ``a`` times the one that rules out a mean of ``b`` is a
    martingale too: all pairs of means at which the product is below 1/delta are possible. A part of
    each wealth is not bet, so that neither falls below it. Bounds leave :data:`ROOM`, and room for
    the farthest value of the other stream, and so both ends are approximate.
    """
    if len(a) != 1 or len(b) != 1:
        raise ValueError("difference: a and b must have one stream each.")
    low = _gap(a, b, math.log(2.0 / (1.0 - level)))
    high = -_gap(b, a, math.log(2.0 / (1.0 - level)))
    return low, high


def _gap(a: Wealths, b: Wealths, log_inverse: float) -> float:
    """The least difference of two means that are possible together."""
    parts = np.linspace(math.log(CASH), log_inverse - math.log(CASH), SPLITS)
    many = np.zeros(SPLITS, dtype=np.int64)
    first, second = Wealths(0), Wealths(0)
    for twin, one in ((first, a), (second, b)):
        for name in FIELDS:
            setattr(twin, name, getattr(one, name)[many])
    # What one stream had, the other may have, too.
    lows = first.lower(_bet(parts), max(-ROOM * a.low[0], -b.low[0]))
    highs = second.upper(_bet(log_inverse - parts), max(ROOM * b.high[0], a.high[0]))
    # Both fall. A pair whose first wealth is between two parts has a first mean of at least the
    # lower end of the later part, and a second one of at most the upper end of the earlier part.
    return float(np.min(lows[1:] - highs[:-1]))


def _bet(logs: FloatArray) -> FloatArray:
    """The logarithm of what the bets must have become for the whole wealth to have become this."""
    return np.log(np.maximum(np.exp(logs) - CASH, 1e-300) / (1.0 - CASH))
