"""Closing decisions whose reward did not come in time."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from heavytail._validate import check_reward
from heavytail.decider.rounds import learn_all
from heavytail.decider.steps import take
from heavytail.decider.tokens import span

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["close", "close_after"]


def close_after(decider: Decider, age: str | float, reward: float | None) -> int:
    """Close what has waited longer, from now on; returns how many were closed at once."""
    where = "Decider.close_after"
    value = None if reward is None else check_reward(f"{where}: reward", reward)
    closing, before = (span(f"{where}: age", age), value), decider._closing
    when, waiting = time.time(), len(decider._ledger.kept)
    take(
        [
            (
                lambda: setattr(decider, "_closing", closing),
                lambda: decider._closing is closing,
            ),
            (lambda: close(decider, when), lambda: not _late(decider, when)),
        ],
        lambda: setattr(decider, "_closing", before),
    )
    return waiting - len(decider._ledger.kept)


def close(decider: Decider, when: float) -> int:
    """Close what is late by a time, all of it or nothing; returns how many."""
    late = _late(decider, when)
    if not late:
        return 0
    assert decider._closing is not None
    age, reward = decider._closing
    if reward is None:
        return decider._ledger.expire(older_than=age, now=when)
    learn_all(decider, late, [reward] * len(late), closed=True)
    return len(late)


def _late(decider: Decider, when: float) -> tuple[int, ...]:
    """The numbers of decisions that are to be closed by a time."""
    if decider._closing is None or decider._oldest >= when - decider._closing[0]:
        return ()
    late = decider._ledger.overdue(when - decider._closing[0])
    if not late:
        waiting = decider._ledger.kept.values()
        decider._oldest = min((each.time for each in waiting), default=math.inf)
    return late
