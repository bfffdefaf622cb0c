"""The protocol of every ledger, in memory or in a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, SupportsIndex, runtime_checkable

from numpy.typing import ArrayLike

from heavytail.ledger.decision import Decision, Outcome

__all__ = ["Ledger", "RecordingLedger"]


class Ledger(Protocol):
    """Decisions that wait for their rewards; :func:`heavytail.checks.check_ledger` tries one."""

    def decided(self, decision: Decision, arms: ArrayLike | None) -> object:
        """Keep a decision until its reward comes; refuse a token that was used before."""

    def rewarded(self, decision: Decision | SupportsIndex, reward: float) -> object:
        """End the waiting of a Decision, or of its token; refuse one that does not wait."""

    @property
    def waiting(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""

    def expire(
        self, age: int | None = None, *, older_than: float | None = None, now: float | None = None
    ) -> int:
        """Give up what waits but the last ``age`` decisions, or what has waited longer than
        ``older_than`` seconds; returns how many. Their rewards are refused from then on.
        """


@runtime_checkable
class RecordingLedger(Ledger, Protocol):
    """One that also keeps what came of the decisions. A policy does not: it has learned it."""

    def since(self, seq: int) -> Iterator[Outcome]:
        """The outcomes after number ``seq``, in the order in which the rewards came."""
