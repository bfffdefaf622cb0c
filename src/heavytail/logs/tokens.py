"""The tokens that a log has: whole numbers, nearly all of them in a row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from heavytail._typing import IntArray

__all__ = ["Tokens"]


class Tokens:
    """A set of whole numbers as stretches without a gap, so that a million in a row are one.

    >>> seen = Tokens([4, 5, 6, 9])
    >>> 5 in seen, 7 in seen, len(seen.starts)
    (True, False, 2)
    """

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []  # the last of each stretch
        self.add_many(np.fromiter(tokens, np.int64))

    def __contains__(self, token: int) -> bool:
        at = bisect_right(self.starts, token) - 1
        return at >= 0 and token <= self.ends[at]

    def add(self, token: int) -> None:
        """One more. O(log stretches), and O(stretches) where a new one begins."""
        at = bisect_right(self.starts, token)
        if at and token <= self.ends[at - 1]:
            return
        before = at > 0 and self.ends[at - 1] == token - 1
        behind = at < len(self.starts) and self.starts[at] == token + 1
        if before and behind:
            self.ends[at - 1] = self.ends[at]
            del self.starts[at], self.ends[at]
        elif before:
            self.ends[at - 1] = token
        elif behind:
            self.starts[at] = token
        else:
            self.starts.insert(at, token)
            self.ends.insert(at, token)

    def add_many(self, tokens: IntArray) -> None:
        """Many more. O(n log n) in them."""
        each = np.unique(tokens)
        cuts = np.flatnonzero(np.diff(each) > 1) + 1
        for stretch in np.split(each, cuts) if len(each) else ():
            first, last = int(stretch[0]), int(stretch[-1])
            self.add(first)
            if last > first:
                self._join(first, last)

    def _join(self, first: int, last: int) -> None:
        """All from ``first``, which is there, to ``last``."""
        at = bisect_right(self.starts, first) - 1
        stop = bisect_right(self.starts, last + 1)
        self.ends[at] = max(last, *self.ends[at:stop])
        del self.starts[at + 1 : stop], self.ends[at + 1 : stop]
