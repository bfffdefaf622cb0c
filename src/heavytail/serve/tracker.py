"""What a worker counts of a model until it adds it to the store, and the newest residuals."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from heavytail.serve.counts import LENGTH, Arm, Counts
from heavytail.serve.wire import TailPoint

__all__ = ["RESIDUALS", "Tracker"]

RESIDUALS = 2000  # newest that the tail is drawn of
POINTS = 24  # of it
HOUR, MINUTE = 720, 12  # windows that the sizes of residuals are compared over
FEW = 20  # residuals of a minute whose mean says nothing


class Tracker:
    """Counts of one model that are not in the store yet, and its residuals, in bounded memory.

    Args:
        clock: seconds, the same for all workers.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._counts = Counts()
        self._residuals: deque[float] = deque(maxlen=RESIDUALS)
        self._sizes: deque[tuple[int, int, float]] = deque()  # window, number, sum

    def _now(self) -> int:
        return int(self.clock() // LENGTH)

    def decided(self, arms: Iterable[tuple[Arm, int]]) -> None:
        """Count decisions, each given by the arm's id (or None) and its place."""
        self._counts.decided(self._now(), arms)

    def rewarded(self, rewards: Sequence[float]) -> None:
        """Count rewards."""
        if rewards:
            self._counts.rewarded(self._now(), rewards)

    def take(self) -> Counts:
        """Return what was counted since the last call."""
        counts, self._counts = self._counts, Counts()
        return counts

    def put_back(self, counts: Counts) -> None:
        """Count again what could not be added to the store."""
        self._counts.merge(counts)

    def missed(self, sizes: Iterable[float]) -> None:
        """Keep the distances of rewards from their predictions."""
        finite = [size for size in sizes if 0.0 <= size < math.inf]
        if not finite:
            return
        self._residuals.extend(finite)
        now, count, total = self._now(), len(finite), math.fsum(finite)
        if self._sizes and self._sizes[-1][0] == now:
            _, before, sum_before = self._sizes.pop()
            count, total = count + before, total + sum_before
        self._sizes.append((now, count, total))
        while self._sizes[0][0] <= now - HOUR:
            self._sizes.popleft()

    def drift(self) -> float | None:
        """The mean residual of the last minute over that of the last hour; None after few rewards,
        or where all predictions were exact.
        """
        now = self._now()
        hour = [window for window in self._sizes if window[0] > now - HOUR]
        minute = [window for window in hour if window[0] > now - MINUTE]
        few, many = (sum(count for _, count, _ in windows) for windows in (minute, hour))
        size, sizes = (math.fsum(total for *_, total in windows) for windows in (minute, hour))
        return None if few < FEW or not sizes else size / few / (sizes / many)

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
