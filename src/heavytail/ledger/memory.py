"""A ledger in memory, which a policy keeps for its decisions and saves with itself."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from heavytail._signals import raised_by_handler
from heavytail._typing import FloatArray
from heavytail._validate import check_count, check_number, shown
from heavytail.ledger.decision import Decision, frozen, token_of

__all__ = ["MOST", "Memory", "Waiting", "clock", "expiry"]

MOST = 2.0**53  # decisions: from here on a double does not count
TOLD = 10_000  # expired tokens that are told from rewarded ones
OPTIONAL = {"times", "expired"}  # of the saved arrays: files did not always have them


class Waiting(NamedTuple):
    """A waiting decision: its features and its time, infinite if unknown."""

    x: FloatArray
    time: float


class Memory:
    """Decisions by token, until each has its reward. Outcomes are learned and not kept.

    Attributes:
        made: the token of the next decision; all earlier ones are smaller.
        kept: waiting decisions by token.
        expired: the last expired tokens, in order.
    """

    __slots__ = ("expired", "kept", "made")

    def __init__(
        self,
        made: int = 0,
        kept: dict[int, Waiting] | None = None,
        expired: tuple[int, ...] = (),
    ) -> None:
        self.made, self.expired = made, expired
        self.kept: dict[int, Waiting] = {} if kept is None else kept

    def decided(self, decision: Decision, arms: ArrayLike | None = None) -> None:
        """Store a decision, whose token must be greater than all before."""
        token, when = decision.token, decision.time
        if token < self.made:
            raise ValueError(f"decided: token {shown(token)} was used before. Nothing has changed.")
        self.made = token + 1
        self.kept[token] = Waiting(decision.x, math.inf if when is None else when)

    def rewarded(
        self,
        decision: Decision | SupportsIndex,
        reward: float | None = None,
        where: str = "rewarded",
    ) -> None:
        """Forget a decision whose reward has come."""
        self.owed(decision, where)
        del self.kept[token_of(decision, where)]

    def owed(self, decision: object, where: str) -> Waiting:
        """Return the entry of a Decision or its token; refuse one that does not wait."""
        token = token_of(decision, where)
        waiting = self.kept.get(token)
        if waiting is None:
            why = "is unknown"
            if token in self.expired:
                why = "has expired"
            elif 0 <= token < self.made:
                why = "was already rewarded, or expired long ago"
            raise ValueError(f"{where}: token {shown(token)} {why}. Nothing was learned.")
        if isinstance(decision, Decision) and not np.array_equal(decision.x, waiting.x):
            raise ValueError(
                f"{where}: the decision with token {shown(token)} belongs to another policy: "
                "its features differ. Nothing was learned."
            )
        return waiting

    @property
    def waiting(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        return tuple(sorted(self.kept))

    def overdue(self, before: float) -> tuple[int, ...]:
        """Tokens of waiting decisions made before a time, oldest first."""
        return tuple(sorted(token for token, waiting in self.kept.items() if waiting.time < before))

    def expire(
        self,
        age: int | None = None,
        *,
        older_than: float | None = None,
        now: float | None = None,
        where: str = "expire",
    ) -> int:
        """Drop all waiting decisions but the last ``age``, or those that have waited longer than
        ``older_than`` seconds; returns how many.
        """
        count, before = expiry(where, age, older_than, now)
        if count is not None:
            first = self.made - count
            old = tuple(token for token in self.waiting if token < first)
        else:
            old = self.overdue(before)
        gone = set(old)
        kept = {token: waiting for token, waiting in self.kept.items() if token not in gone}
        expired = tuple(sorted({*self.expired, *old})[-TOLD:])
        self.kept, self.expired = kept, expired
        return len(old)

    def arrays(self, dim: int) -> dict[str, FloatArray]:
        """The ledger as named arrays; empty if no decision was ever made."""
        if not self.made:
            return {}
        waiting = sorted(self.kept.items())
        rows = [decision.x for _, decision in waiting]
        gone = {"expired": np.array(self.expired, dtype=np.float64)} if self.expired else {}
        return {
            "made": np.array([float(self.made)]),
            "tokens": np.array([token for token, _ in waiting], dtype=np.float64),
            "features": np.array(rows).reshape(len(rows), dim),
            "times": np.array([decision.time for _, decision in waiting], dtype=np.float64),
            **gone,
        }

    @classmethod
    def of_arrays(
        cls, arrays: Mapping[str, FloatArray], dim: int, owner: str, *, may_miss: bool = False
    ) -> Memory:
        """Read the result of ``arrays``; refuse anything else, in the name of ``owner``. Features
        that ``may_miss`` may be NaN.
        """
        if not arrays:
            return cls()
        try:
            tokens, rows, made = arrays["tokens"], arrays["features"], float(arrays["made"][0])
            times = arrays.get("times", np.full(tokens.shape, np.inf))
            gone = arrays.get("expired", np.zeros(0))
            sound = (
                set(arrays) - OPTIONAL == {"made", "tokens", "features"}
                and not any(isinstance(array, np.ma.MaskedArray) for array in arrays.values())
                and arrays["made"].shape == (1,)
                and arrays["made"].dtype == np.float64
                and 0.0 < made == np.floor(made) <= MOST
                and _are_tokens(tokens, made)
                and rows.shape == (tokens.shape[0], dim)
                and rows.dtype == times.dtype == np.float64
                and bool((np.isfinite(rows) | (may_miss & np.isnan(rows))).all())
                and times.shape == tokens.shape
                and bool((times > -np.inf).all())
                and _are_tokens(gone, made)
                and len(gone) <= TOLD
                and not np.isin(gone, tokens).any()
            )
        except Exception as error:  # whatever odd arrays make NumPy say
            if raised_by_handler(error):
                raise
            sound = False
        if not sound:
            raise ValueError(f"{owner}: the saved pending decisions are damaged.")
        waiting = {
            int(token): Waiting(frozen(x), float(when))
            for token, x, when in zip(tokens, rows, times, strict=True)
        }
        return cls(int(made), waiting, tuple(map(int, gone)))


def expiry(
    where: str, age: object, older_than: object, now: float | None
) -> tuple[int, float] | tuple[None, float]:
    """Check the arguments of ``expire``. Returns the number of decisions to spare, or None and the
    time before which decisions expire.
    """
    if (age is None) == (older_than is None) or (older_than is None and now is not None):
        raise TypeError(f"{where}: pass age, or older_than with your own now.")
    if age is not None:
        return check_count(f"{where}: age", age, least=0), math.nan
    least = check_number(f"{where}: older_than", older_than, least=0.0)
    return None, clock(where, now) - least


def clock(where: str, now: float | None) -> float:
    """Seconds since 1970, unless another clock says ``now``."""
    return time.time() if now is None else check_number(f"{where}: now", now)


def _are_tokens(numbers: FloatArray, made: float) -> bool:
    """Tell whether ``numbers`` are tokens of ``made`` decisions, in order."""
    return (
        numbers.ndim == 1
        and numbers.dtype == np.float64
        and bool(np.all((numbers >= 0) & (numbers < made) & (numbers == np.floor(numbers))))
        and bool(np.all(np.diff(numbers) > 0))
    )
