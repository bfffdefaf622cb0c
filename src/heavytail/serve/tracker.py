"""The recent activity of a model, counted in memory since the service started.

The log on disk is authoritative; a restart sets these counts to zero.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from heavytail.serve.wire import ArmCount, TailPoint, WindowStats

__all__ = ["ARMS", "LENGTH", "RECENT", "WINDOWS", "Tracker"]

WINDOWS = 120  # that are remembered
LENGTH = 5.0  # seconds of one
RECENT = 12  # windows that rates and means are of: a minute
ARMS = 1000  # ids that are counted; what comes after them is counted together
TOP = 10  # of them that are listed
RESIDUALS = 2000  # newest that the tail is drawn of
POINTS = 24  # of it

Arm = str | int | None
Pooled = tuple[float | None, float | None]


class _Window:
    """Five seconds: counts, and the rewards' mean and sum of squares around it (Welford).

    Plain sums of squares would lose all digits if the mean is large.
    """

    __slots__ = ("decisions", "mean", "number", "pooled", "rewards", "spread")

    def __init__(self) -> None:
        self.clear(-1)

    def clear(self, number: int) -> None:
        self.number, self.decisions, self.rewards = number, 0, 0
        self.mean = self.spread = 0.0
        self.pooled: Pooled | None = None  # of its minute, once it is over


class Tracker:
    """Counts of one model, in bounded memory: 120 windows, 1,000 ids and 2,000 residuals.

    Args:
        clock: a monotonic clock in seconds.

    Attributes:
        decisions: since the service started.
        rewards: since then; default rewards are among them.
        others: decisions for arms beyond the first 1,000 ids.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._ring = [_Window() for _ in range(WINDOWS)]
        self._arms: dict[tuple[Arm, int], int] = {}
        self._residuals: deque[float] = deque(maxlen=RESIDUALS)
        self.decisions = self.rewards = self.others = 0

    def _now(self) -> _Window:
        number = int((self._clock() - self._begun) // LENGTH)
        window = self._ring[number % WINDOWS]
        if window.number != number:
            window.clear(number)
        return window

    def decided(self, arms: Iterable[tuple[Arm, int]]) -> None:
        """Count decisions, each given by the arm's id (or None) and its place."""
        window, counts, many = self._now(), self._arms, 0
        for name, place in arms:
            many += 1
            key = (name, -1) if name is not None else (None, place)
            if key in counts:
                counts[key] += 1
            elif len(counts) < ARMS:
                counts[key] = 1
            else:
                self.others += 1
        window.decisions += many
        self.decisions += many

    def rewarded(self, rewards: Sequence[float]) -> None:
        """Count rewards."""
        window = self._now()
        for reward in rewards:
            window.rewards += 1
            off = reward - window.mean
            window.mean += off / window.rewards
            window.spread += off * (reward - window.mean)
        self.rewards += len(rewards)

    def missed(self, sizes: Iterable[float]) -> None:
        """Keep the distances of rewards from their predictions."""
        self._residuals.extend(size for size in sizes if 0.0 <= size < math.inf)

    def tail(self) -> list[TailPoint]:
        """The larger half of the newest residuals, as the share that is at least so large: a few
        points, evenly spaced in logarithms, the largest last.
        """
        sizes = sorted(self._residuals, reverse=True)
        half = min(len(sizes) // 2, sum(size > 0.0 for size in sizes))
        ranks = {round(half ** (k / (POINTS - 1))) for k in range(POINTS)} if half else set()
        return [
            TailPoint(sizes[rank - 1], rank / len(sizes)) for rank in sorted(ranks, reverse=True)
        ]

    def windows(self) -> list[WindowStats]:
        """The nonempty windows, oldest first. The mean and standard error of each are those of all
        rewards in the minute that it ends. A finished window is pooled once.
        """
        last = self._now().number
        kept = {window.number: window for window in self._ring if last - WINDOWS < window.number}
        listed = []
        for number in sorted(kept):
            window = kept[number]
            if window.decisions or window.rewards:
                pooled = window.pooled
                if pooled is None:
                    minute = [kept[k] for k in range(number - RECENT + 1, number + 1) if k in kept]
                    pooled = _pooled(minute)
                    window.pooled = pooled if number < last else None
                ago = (last - number) * LENGTH
                listed.append(WindowStats(ago, window.decisions, window.rewards, *pooled))
        return listed

    def recent(self) -> tuple[float, float, float | None, float | None]:
        """Decisions and rewards per second, mean reward and standard error of the last minute."""
        last = self._now().number
        minute = [window for window in self._ring if last - RECENT < window.number]
        first = max(last - RECENT + 1, 0)
        seconds = max(self._clock() - self._begun - first * LENGTH, 1.0)
        decisions = sum(window.decisions for window in minute) / seconds
        rewards = sum(window.rewards for window in minute) / seconds
        return (decisions, rewards, *_pooled(minute))

    def top(self) -> tuple[list[ArmCount], int]:
        """The most frequent arms, and the number of decisions for all others."""
        most = heapq.nlargest(TOP, self._arms.items(), key=lambda item: item[1])
        listed = [
            ArmCount(count, id=name, place=None if name is not None else place)
            for (name, place), count in most
        ]
        return listed, self.decisions - sum(arm.decisions for arm in listed)


def _pooled(windows: Iterable[_Window]) -> Pooled:
    """Mean reward of the windows and its standard error, s / sqrt(n); None if undefined or not
    finite.
    """
    count, mean, spread = 0, 0.0, 0.0
    for window in windows:
        if window.rewards:
            both, off = count + window.rewards, window.mean - mean
            spread += window.spread + off * off * (count * window.rewards / both)
            mean += off * (window.rewards / both)
            count = both
    if not count:
        return None, None
    error = math.sqrt(spread / (count - 1) / count) if count > 1 else math.inf
    return mean, error if math.isfinite(error) else None
