"""Acceptance of a reward: for a decision of this model, once, and in time."""

from __future__ import annotations

from typing import Final

from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import ARCHIVED
from heavytail.ledger.tokens import Token, time_of
from heavytail.ledger.transaction import Transaction
from heavytail.serve.archiving import Old
from heavytail.serve.model import Model
from heavytail.serve.wire import Reward

__all__ = ["owed"]

FRESH: Final = 43_200.0  # seconds within which nothing is archived: half of the shortest --keep


def owed(
    tx: Transaction,
    model: Model,
    token: Token,
    sent: Reward,
    now: float,
    seen: dict[bytes, Reward],
    old: Old,
) -> DecisionRow | None:
    """Return the decision of a reward; None if it already has the same reward. ``old`` decisions
    are in the archive, and accept none. The models' rows are locked.
    """
    same = seen.get(token.key)
    if same is not None:
        if (same.reward, same.scale) == (sent.reward, sent.scale):
            return None
        raise Refusal(
            409, "rewarded", "The request has two different rewards for this token.", "token"
        )
    seen[token.key] = sent
    row, outcome = tx.decision(model.row.id, token.key), None
    archived = None if row is not None else old.get((model.row.id, token.key))
    if archived is not None:
        row, outcome = archived
    elif row is not None:
        outcome = tx.outcome(model.row.id, token.key)
        # The decision was read before the lock: meanwhile both may have been archived.
        may_be = row.key <= tx.sweeping(model.row.id) or time_of(row.key) + FRESH < now
        if outcome is None and may_be and not tx.is_kept(row):
            row = None
    if row is None or row.version != token.version:
        raise Refusal(
            409, "unknown_token", "Unknown token: this model made no such decision.", "token"
        )
    if outcome is not None:
        if outcome.by_default:
            raise Refusal(
                409, "expired", "The decision has expired and got its default reward.", "token"
            )
        if (outcome.reward, outcome.scale) == (sent.reward, sent.scale):
            return None
        raise Refusal(409, "rewarded", "The decision already has a different reward.", "token")
    wait = model.spec.wait
    if wait is not None and time_of(token.key) + wait < now:
        if model.spec.late == "refuse":
            raise Refusal(409, "expired", f"The decision expired after {wait:g} s.", "token")
    if archived is not None:
        raise Refusal(410, "archived", ARCHIVED, "token")
    return row
