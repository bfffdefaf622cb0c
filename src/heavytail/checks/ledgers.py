"""Promises of a ledger to its users, one function each.

A check is given a function: without an argument it opens an empty ledger, and with a ledger it
opens that one again, as after a restart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from heavytail.checks.battery import CheckFailed, require
from heavytail.ledger.decision import Decision
from heavytail.ledger.ledger import Ledger, RecordingLedger

__all__ = ["LEDGER_CHECKS", "Opening"]

Opening = Callable[..., Ledger]

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def _decision(token: int, arm: int = 1, time: float | None = None) -> Decision:
    return Decision(token, arm, ARMS[arm], 0.5, None, 1000.0 + token if time is None else time)


@contextlib.contextmanager
def _opened(opening: Opening, *tokens: int) -> Iterator[Ledger]:
    """A ledger in which these decisions wait."""
    ledger = opening()
    try:
        for token in tokens:
            ledger.decided(_decision(token), ARMS)
        yield ledger
    finally:
        _close(ledger)


def _close(ledger: Ledger) -> None:
    getattr(ledger, "close", lambda: None)()


def _refuses(ledger: Ledger, call: Callable[[], Any], what: str, kind: type[Exception]) -> None:
    """``call`` must raise ``kind`` and leave what waits and what came as it was."""
    before = ledger.waiting, _outcomes(ledger)
    try:
        call()
    except kind as error:
        require(len(str(error)) > 20, f"refuses {what} without saying why: {error!r}")
    else:
        raise CheckFailed(f"accepts {what}")
    require((ledger.waiting, _outcomes(ledger)) == before, f"refuses {what} but has changed")


def _outcomes(ledger: Ledger, after: int = 0) -> list[tuple[Any, ...]]:
    return list(map(tuple, ledger.since(after))) if isinstance(ledger, RecordingLedger) else []


def waits_in_order(opening: Opening) -> None:
    """Decisions wait, oldest first, until their rewards come, in any order."""
    with _opened(opening) as ledger:
        require(ledger.waiting == (), f"is not empty: {ledger.waiting} wait")
        for token in range(4):
            ledger.decided(_decision(token), ARMS)
        require(ledger.waiting == (0, 1, 2, 3), f"has {ledger.waiting} wait, not 0 to 3")
        ledger.rewarded(_decision(2), 1.0)
        ledger.rewarded(np.int64(0), -2.5)
        require(ledger.waiting == (1, 3), f"has {ledger.waiting} wait, not 1 and 3")
        ledger.decided(_decision(7), ARMS)
        require(ledger.waiting == (1, 3, 7), f"has {ledger.waiting} wait, not 1, 3 and 7")


def rewards_once(opening: Opening) -> None:
    """A second reward, and one for a token that was never decided, are refused."""
    with _opened(opening, 0, 1) as ledger:
        ledger.rewarded(0, 1.0)
        for token, what in ((0, "a second reward"), (5, "a reward of an unknown token")):
            _refuses(ledger, lambda t=token: ledger.rewarded(t, 1.0), what, ValueError)  # type: ignore[misc]
        for odd in ("0", None, True, 0.5):
            call = lambda odd=odd: ledger.rewarded(odd, 1.0)  # noqa: E731
            _refuses(ledger, call, f"a reward of {odd!r}", TypeError)


def keeps_tokens_apart(opening: Opening) -> None:
    """A token is used once, and another decision under it gets no reward."""
    with _opened(opening, 0, 1) as ledger:
        other = _decision(1, arm=0)
        _refuses(ledger, lambda: ledger.decided(other, ARMS), "a token that waits", ValueError)
        _refuses(ledger, lambda: ledger.rewarded(other, 1.0), "another's reward", ValueError)
        ledger.rewarded(1, 1.0)
        _refuses(ledger, lambda: ledger.decided(other, ARMS), "a token of before", ValueError)


def expires_by_count(opening: Opening) -> None:
    """``expire(age)`` gives up all that waits but the last ``age`` decisions."""
    with _opened(opening, *range(6)) as ledger:
        ledger.rewarded(1, 1.0)
        ledger.rewarded(5, 1.0)
        gone = ledger.expire(3)
        require((gone, ledger.waiting) == (2, (3, 4)), f"gives up {gone} of 6, sparing 3")
        _refuses(ledger, lambda: ledger.rewarded(0, 1.0), "what was given up", ValueError)
        ledger.rewarded(3, 1.0)
        require(ledger.expire(10) == 0, "gives up what ``age`` spares")
        require(ledger.expire(0) == 1 and ledger.waiting == (), "spares what ``age`` does not")
        ledger.decided(_decision(6), ARMS)
        require(ledger.waiting == (6,), "gives up what is decided later")


def expires_by_time(opening: Opening) -> None:
    """``expire(older_than=)`` gives up what has waited longer, by the decisions' own times."""
    with _opened(opening, *range(4)) as ledger:  # made at 1000 s to 1003 s
        gone = ledger.expire(older_than=8.5, now=1010.0)
        require((gone, ledger.waiting) == (2, (2, 3)), f"gives up {gone} of 4 after 8.5 s")
        require(ledger.expire(older_than=8.5, now=1010.0) == 0, "gives up the same twice")
        require(ledger.expire(older_than=0.0) == 2, "goes by another clock than 1970's")


def refuses_odd_ages(opening: Opening) -> None:
    """``expire`` wants an age or a time, and not both."""
    with _opened(opening, 0) as ledger:
        both = {"older_than": 1.0, "now": 9999.0}
        _refuses(ledger, ledger.expire, "expire()", TypeError)
        _refuses(ledger, lambda: ledger.expire(0, **both), "expire of both", TypeError)
        _refuses(ledger, lambda: ledger.expire(0, now=1.0), "a time beside an age", TypeError)
        _refuses(ledger, lambda: ledger.expire(-1), "an age of -1", ValueError)
        _refuses(ledger, lambda: ledger.expire(older_than=-1.0), "a negative time", ValueError)


def numbers_its_outcomes(opening: Opening) -> None:
    """Outcomes that are kept are numbered from 1 in the order in which they came."""
    with _opened(opening, *range(4)) as ledger:
        if not isinstance(ledger, RecordingLedger):
            return
        for token, reward in ((2, 0.1), (0, -3.0), (3, 1e300)):
            ledger.rewarded(token, reward)
        every = [(1, 2, 0.1), (2, 0, -3.0), (3, 3, 1e300)]
        for after in (0, 1, 3, 9):
            seen = _outcomes(ledger, after)
            require(seen == every[after:], f"says {seen} came after number {after}")


def survives_a_restart(opening: Opening) -> None:
    """A restart changes nothing of what waits, came or was given up, and the ledger goes on."""
    ledger = opening()
    try:
        for token in range(5):
            ledger.decided(_decision(token), ARMS)
        ledger.expire(4)
        ledger.rewarded(2, 0.5)
        before = ledger.waiting, _outcomes(ledger)
        ledger = opening(ledger)
        require((ledger.waiting, _outcomes(ledger)) == before, "is another after a restart")
        for token, what in ((0, "what was given up"), (2, "a second reward")):
            call = lambda t=token: ledger.rewarded(t, 1.0)  # noqa: E731
            _refuses(ledger, call, f"{what}, after a restart,", ValueError)
        again = _decision(2)
        _refuses(ledger, lambda: ledger.decided(again, ARMS), "a token of before", ValueError)
        ledger.rewarded(_decision(1), 1.5)
        ledger.decided(_decision(5), ARMS)
        require(ledger.waiting == (3, 4, 5), f"has {ledger.waiting} wait after a restart")
    finally:
        _close(ledger)


LEDGER_CHECKS: dict[str, Callable[[Opening], None]] = {
    check.__name__: check
    for check in (
        waits_in_order,
        rewards_once,
        keeps_tokens_apart,
        expires_by_count,
        expires_by_time,
        refuses_odd_ages,
        numbers_its_outcomes,
        survives_a_restart,
    )
}
