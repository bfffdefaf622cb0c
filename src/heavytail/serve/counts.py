"""What was done with a model lately: counts that several workers add to.

A worker counts its own decisions and the rewards that it accepted, and every few seconds adds them
to those in the store. Ten minutes of windows and 1,000 ids of arms are kept, so the size is
bounded.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from heavytail._typing import FloatArray
from heavytail.serve.wire import ArmCount, WindowStats

__all__ = ["ARMS", "LENGTH", "RECENT", "WINDOWS", "Arm", "Counts"]

WINDOWS = 120  # that are remembered
LENGTH = 5.0  # seconds of one
RECENT = 12  # windows that rates and means are of: a minute
ARMS = 1000  # ids that are counted; what comes after them is counted together
TOP = 10  # of them that are listed

Arm = str | int | None
Pooled = tuple[float | None, float | None]


class Window(msgspec.Struct, array_like=True):
    """Five seconds: counts, and the rewards' mean and sum of squares around it.

    Plain sums of squares would lose all digits if the mean is large.
    """

    number: int
    decisions: int = 0
    rewards: int = 0
    mean: float = 0.0
    spread: float = 0.0

    def add(self, count: int, mean: float, spread: float) -> None:
        """Add rewards, given by their number, mean and sum of squares around it."""
        both, off = self.rewards + count, mean - self.mean
        self.spread += spread + off * off * (self.rewards * count / both)
        self.mean += off * (count / both)
        self.rewards = both


class _Packed(msgspec.Struct, array_like=True):
    windows: list[Window]
    arms: list[tuple[Arm, int, int]]  # id, place, decisions


class Counts:
    """Decisions and rewards by window, and decisions by arm.

    Attributes:
        windows: the nonempty windows by number; a window's number is its time over ``LENGTH``.
        arms: decisions by id, or by place where an arm has no id.
    """

    def __init__(self) -> None:
        self.windows: dict[int, Window] = {}
        self.arms: dict[tuple[Arm, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self.windows)

    def _window(self, number: int) -> Window:
        window = self.windows.get(number)
        if window is None:
            window = self.windows[number] = Window(number)
        return window

    def decided(self, number: int, arms: Iterable[tuple[Arm, int]]) -> None:
        """Count decisions of a window, each given by the arm's id (or None) and its place."""
        many = 0
        for name, place in arms:
            many += 1
            self._play((name, -1) if name is not None else (None, place), 1)
        self._window(number).decisions += many

    def _play(self, arm: tuple[Arm, int], times: int) -> None:
        if arm in self.arms:
            self.arms[arm] += times
        elif len(self.arms) < ARMS:
            self.arms[arm] = times

    def rewarded(self, number: int, rewards: Sequence[float]) -> None:
        """Count rewards of a window."""
        window = self._window(number)
        for reward in rewards:
            window.add(1, reward, 0.0)

    def merge(self, other: Counts) -> None:
        """Add the counts of another; keep the last windows."""
        for number, window in other.windows.items():
            mine = self._window(number)
            mine.decisions += window.decisions
            if window.rewards:
                mine.add(window.rewards, window.mean, window.spread)
        for arm, times in other.arms.items():
            self._play(arm, times)
        last = max(self.windows, default=0)
        for number in [number for number in self.windows if number <= last - WINDOWS]:
            del self.windows[number]

    def packed(self) -> bytes:
        """The counts as bytes."""
        arms = [(name, place, times) for (name, place), times in self.arms.items()]
        return msgspec.msgpack.encode(_Packed(list(self.windows.values()), arms))

    @classmethod
    def unpacked(cls, content: bytes) -> Counts:
        """Read the result of ``packed``; damaged content counts as none."""
        counts = cls()
        try:
            packed = msgspec.msgpack.decode(content, type=_Packed)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return counts
        counts.windows = {window.number: window for window in packed.windows}
        counts.arms = {(name, place): times for name, place, times in packed.arms}
        return counts

    def without_decisions(self) -> Counts:
        """The rewards alone."""
        counts = Counts()
        for number, window in self.windows.items():
            if window.rewards:
                counts._window(number).add(window.rewards, window.mean, window.spread)
        return counts

    # What is shown of them

    def listed(self, now: float) -> list[WindowStats]:
        """The nonempty windows of the last ten minutes, oldest first. The mean and standard error
        of each are those of all rewards in the minute that it ends.
        """
        last = int(now // LENGTH)
        kept = sorted(n for n in self.windows if last - WINDOWS < n <= last)
        count, mean, spread = self._minutes(last)
        shown = []
        for number in kept:
            place, window = number - last + WINDOWS - 1, self.windows[number]
            pooled = _pooled(int(count[place]), float(mean[place]), float(spread[place]))
            ago = (last - number) * LENGTH
            shown.append(WindowStats(ago, window.decisions, window.rewards, *pooled))
        return shown

    def lately(self, now: float, begun: float) -> tuple[float, float, float | None, float | None]:
        """Decisions and rewards per second, mean reward and standard error of the last minute, or
        of what has passed of it since ``begun``.
        """
        last = int(now // LENGTH)
        minute = [self.windows[n] for n in range(last - RECENT + 1, last + 1) if n in self.windows]
        seconds = max(now - max(begun, (last - RECENT + 1) * LENGTH), 1.0)
        whole = Window(last)
        for window in minute:
            whole.decisions += window.decisions
            if window.rewards:
                whole.add(window.rewards, window.mean, window.spread)
        pooled = _pooled(whole.rewards, whole.mean, whole.spread)
        return (whole.decisions / seconds, whole.rewards / seconds, *pooled)

    def top(self, decisions: int) -> tuple[list[ArmCount], int]:
        """The most frequent arms, and how many of all ``decisions`` were for others."""
        most = heapq.nlargest(TOP, self.arms.items(), key=lambda item: item[1])
        listed = [
            ArmCount(count, id=name, place=None if name is not None else place)
            for (name, place), count in most
        ]
        return listed, max(decisions - sum(arm.decisions for arm in listed), 0)

    def _minutes(self, last: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Number, mean and spread of the rewards of the minute that each window ends."""
        parts = np.zeros((3, WINDOWS + RECENT - 1))
        for number, window in self.windows.items():
            place = number - last + WINDOWS + RECENT - 2
            if last - WINDOWS < number <= last:
                parts[:, place] = window.rewards, window.mean, window.spread
        count, mean, spread = np.zeros((3, WINDOWS))
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(RECENT):
                more, its_mean, its_spread = parts[:, k : k + WINDOWS]
                both = np.maximum(count + more, 1.0)
                off = its_mean - mean
                spread += its_spread + off * off * (count * more / both)
                mean += off * (more / both)
                count += more
        return count, mean, spread


def _pooled(count: int, mean: float, spread: float) -> Pooled:
    """Mean reward and its standard error, s / sqrt(n); None if undefined or not finite."""
    if not count:
        return None, None
    error = math.sqrt(spread / (count - 1) / count) if count > 1 else math.inf
    return mean, error if math.isfinite(error) else None
