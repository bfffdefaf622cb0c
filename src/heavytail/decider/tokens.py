"""Tokens that no other run of a Decider ever gave: a run's own name, and the decision's number.

A Decider that is loaded from a file goes on counting where the file was saved; decisions made
after that and lost with their process had the same numbers. Their tokens have the name of the lost
run, so that a reward of theirs is refused and not learned for another decision.
"""

from __future__ import annotations

import bisect
import re
import secrets
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from heavytail import _turns
from heavytail._validate import check_number, shown
from heavytail.ledger.memory import Memory

__all__ = ["Tokens", "span"]

WRITTEN: Final = re.compile(r"([0-9a-f]{8})-(0|[1-9][0-9]{0,15})")
SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) *(seconds?|minutes?|hours?|days?|weeks?|[hdw])")
SECONDS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0}
MOST_CLOSED: Final = 10_000  # closed decisions that are told from rewarded ones
MOST_RUNS: Final = 1000  # runs that are kept though none of their decisions waits
LAST: Final = "g"  # it comes after the name of any run
Run = tuple[int, str]  # the number of its first decision, and its name


class Tokens:
    """The names of runs, each from its first decision on.

    Attributes:
        runs: in order. Of more than 1,000 those in between are forgotten whose decisions are all
            rewarded or closed: their tokens are then refused as unknown.
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._now: str | None = None  # the name of this run, once it has decided ...
        self._forks = 0  # ... and the forks that had led to its process
        self._closed: dict[int, None] = {}

    def of(self, number: int, waiting: Iterable[int] = ()) -> str:
        """The token of a decision that is made now, while others wait."""
        forks = _turns.AT_WORK[0]
        if self._now is None or self._forks != forks:  # a child is a run of its own
            now = secrets.token_hex(4)
            kept = [run for run in self.runs if run[0] < number]  # but for one that gave no token
            self.runs, self._now = [*_needed(kept, waiting), (number, now)], now
            self._forks = forks
        return f"{self._now}-{number}"

    def text(self, number: int) -> str:
        """The token of an earlier decision."""
        return f"{self.runs[_place(self.runs, number)][1]}-{number}"

    def number(self, token: object, ledger: Memory, where: str) -> int:
        """The number of a token that waits, or a refusal."""
        match = WRITTEN.fullmatch(token) if isinstance(token, str) else None
        if match is None:
            raise TypeError(f"{where}: pass the token of a choice; got {shown(token)}.")
        text = match[0]  # a plain str, which runs no code of a caller's when it is compared
        number = int(match[2])
        ours = number < ledger.made and self.text(number) == text
        if ours and number in ledger.kept:
            return number
        why = "is unknown: this Decider made no such decision, or lost it with an earlier run"
        if ours:
            why = "was rewarded already"
            if number in self._closed or number in ledger.expired:
                why = "was closed: it waited too long"
        raise ValueError(f"{where}: token {shown(text)} {why}. Nothing was learned.")

    def closed(self, numbers: Iterable[int]) -> None:
        """Note that these were closed."""
        self._closed |= dict.fromkeys(numbers)
        while len(self._closed) > MOST_CLOSED:
            del self._closed[next(iter(self._closed))]

    def was_closed(self, number: int) -> bool:
        """Tell whether a decision was closed, and not long ago."""
        return number in self._closed

    def plain(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"runs": [list(run) for run in self.runs], "closed": list(self._closed)}

    @classmethod
    def of_plain(cls, told: dict[str, Any], made: int) -> Tokens:
        """Read what ``plain`` gave; ValueError for anything else."""
        tokens = cls()
        last = -1
        for first, name in told["runs"]:
            whole = type(first) is int and last < first <= made
            if not whole or type(name) is not str or not WRITTEN.fullmatch(f"{name}-0"):
                raise ValueError("its tokens are damaged")
            tokens.runs.append((first, name))
            last = first
        if made and (not tokens.runs or tokens.runs[0][0] != 0):
            raise ValueError("its tokens are damaged")
        if not all(type(n) is int and 0 <= n < made for n in told["closed"]):
            raise ValueError("its closed decisions are damaged")
        tokens.closed(told["closed"])
        return tokens


def _place(runs: list[Run], number: int) -> int:
    """The place of the run that a decision is of."""
    return bisect.bisect_right(runs, (number, LAST)) - 1


def _needed(runs: list[Run], waiting: Iterable[int]) -> list[Run]:
    """The first run, the last ones, and those before them of which a decision waits."""
    if len(runs) <= MOST_RUNS:
        return runs
    places = {_place(runs, number) for number in waiting}
    places |= {0, *range(len(runs) - MOST_RUNS + 1, len(runs))}
    return [runs[place] for place in sorted(places)]


def span(where: str, age: object) -> float:
    """Seconds, from a number of them or from text such as "7 days" or "7d"."""
    if isinstance(age, str):
        match = SPAN.fullmatch(age.strip())
        if match is None:
            raise ValueError(
                f'{where} must be such as "7 days" or "90 minutes", or seconds; got {shown(age)}.'
            )
        unit = next(unit for unit in SECONDS if unit.startswith(match[2].rstrip("s")))
        age = float(match[1]) * SECONDS[unit]
    return check_number(where, np.nan if age is None else age, least=0.0)
