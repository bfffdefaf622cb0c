"""The rate limit of each caller."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from heavytail.ledger.refusal import Refusal

__all__ = ["Rates"]

CALLERS = 10_000  # that are remembered


class Rates:
    """At most ``rate`` requests per second of each caller, and as many at once after a pause.

    Args:
        rate: requests per second; 0 for no limit.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, when

    def count(self, caller: str) -> None:
        """Count a request, or refuse it."""
        if not self.rate:
            return
        most, now = max(self.rate, 1.0), self._clock()
        left, before = self._left.pop(caller, (most, now))
        left = min(left + self.rate * (now - before), most)
        self._left[caller] = (left - (left >= 1.0), now)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
        if left < 1.0:
            message = f"Rate limit: at most {self.rate:g} requests per second. Retry in a moment."
            raise Refusal(429, "too_fast", message)
