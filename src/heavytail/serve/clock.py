"""The time that decisions wait in: seconds that pass, whatever is done to the clock on the wall.

Keys of decisions are of this time, and how long one has waited is a difference of two of its
moments. It begins as the store's clock says. Where that clock is set, forwards or back, this time
goes on as if nothing had happened; how far the two are apart is kept in the store, so that the same
service after a restart, and other workers, go on with the same time. Only a clock that was set
while nobody served cannot be told from the time that nobody served.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from heavytail.ledger.store import Store, Transaction

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
    """Seconds, as since 1970 where no clock was ever wrong, that never stand still or turn.

    Args:
        store: whose clock it begins with.
    """

    def __init__(self, store: Store) -> None:
        self._offset = store.clock() - steady()
        self._known = 0  # by how much the store said that it is ahead, when it was last looked at

    def __call__(self) -> float:
        """Now."""
        return steady() + self._offset

    def begin(self, tx: Transaction, latest: float) -> None:
        """Go on where the time of the store is; ``latest`` is that of the newest decision made, or
        given up.
        """
        self._known = tx.number(AHEAD)
        self._offset = max(self._wall(tx.store) + self._known / 1000.0, latest) - steady()
        self.keep(tx)

    def keep(self, tx: Transaction) -> None:
        """See whether the store's clock was set, which has to be done every now and then."""
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
