"""The protocol of every ledger, in memory or in a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, SupportsIndex, runtime_checkable

from numpy.typing import ArrayLike

from heavytail.ledger.decision import Decision, Outcome

__all__ = ["Ledger", "RecordingLedger"]


class Ledger(Protocol):
    """Decisions that wait for their rewards; :func:`heavytail.checks.check_ledger` tests an
    implementation.
    """

    def decided(self, decision: Decision, arms: ArrayLike | None) -> object:
        """Store a decision until its reward comes; refuse a token that was used before."""

    def rewarded(self, decision: Decision | SupportsIndex, reward: float) -> object:
        """End the wait of a Decision or of its token; refuse one that does not wait."""

    @property
    def waiting(self) -> tuple[int, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""

    def expire(
        self, age: int | None = None, *, older_than: float | None = None, now: float | None = None
    ) -> int:
        """Expire all waiting decisions but the last ``age``, or those that have waited longer than
        ``older_than`` seconds; returns how many. Their rewards are refused from then on.
        """


@runtime_checkable
class RecordingLedger(Ledger, Protocol):
    """A ledger that also keeps the outcomes. A policy's own ledger does not: the policy has learned
    them.
    """

    def since(self, seq: int) -> Iterator[Outcome]:
        """The outcomes after number ``seq``, in the order in which the rewards came."""
