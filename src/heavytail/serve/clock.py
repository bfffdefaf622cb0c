"""The clock for waiting decisions: seconds that pass even if the system clock is changed.

Keys of decisions contain this time, and differences of it say how long a decision has waited. It
starts at the time of the store's clock. If that clock is set forwards or back, this time goes on
unchanged. The store keeps the offset between the two, so that other workers and the service after a
restart use the same time. Only a change made while no service ran goes unnoticed: it looks like
time without service.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from heavytail.ledger.store import Store
from heavytail.ledger.transaction import Transaction

__all__ = ["APART", "Clock", "steady"]

APART = 0.5  # seconds from which on a difference is no rounding, but a clock that was set
AHEAD = "ahead"  # under this name the store has by how many milliseconds this time is ahead of it

# Seconds that pass, from no particular moment on; where it can be told, while a machine sleeps too.
steady: Callable[[], float] = (
    functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Clock:
    """Seconds since 1970, if no clock was ever wrong, that never stop or go back.

    Args:
        store: the store whose clock gives the start.
    """

    def __init__(self, store: Store) -> None:
        self._offset = store.clock() - steady()
        self._known = 0  # by how much the store said that it is ahead, when it was last looked at

    def __call__(self) -> float:
        """Now."""
        return steady() + self._offset

    def begin(self, tx: Transaction, latest: float) -> None:
        """Continue from the time of the store; ``latest`` is the time of the newest decision made
        or expired.
        """
        self._known = tx.number(AHEAD)
        self._offset = max(self._wall(tx.store) + self._known / 1000.0, latest) - steady()
        self.keep(tx)

    def keep(self, tx: Transaction) -> None:
        """Check whether the store's clock was set; call this regularly."""
        wall = tx.store.measure()
        if wall is None:
            return
        ahead = tx.number(AHEAD)
        behind = wall + ahead / 1000.0 - self()
        if 0.0 < behind <= APART or (abs(behind) > APART and ahead != self._known):
            self._offset += behind  # a hair, or another worker has seen more than this one
        elif abs(behind) > APART:
            ahead = round((self() - wall) * 1000.0)
            tx.write_number(AHEAD, ahead)
        self._known = ahead

    def _wall(self, store: Store) -> float:
        measured = store.measure()
        return store.clock() if measured is None else measured
