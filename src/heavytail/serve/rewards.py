"""Whether a reward is owed to a decision: once, in time, and to no other."""

from __future__ import annotations

from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Transaction
from heavytail.ledger.tokens import Token, time_of
from heavytail.serve.model import Model
from heavytail.serve.wire import Reward

__all__ = ["owed"]


def owed(
    tx: Transaction,
    model: Model,
    token: Token,
    one: Reward,
    now: float,
    seen: dict[bytes, Reward],
) -> DecisionRow | None:
    """The decision that a reward is for; None where it has this very reward already."""
    same = seen.get(token.key)
    if same is not None:
        if (same.reward, same.scale) == (one.reward, one.scale):
            return None
        raise Refusal(409, "rewarded", "The token is twice here, with two rewards.", "token")
    seen[token.key] = one
    row = tx.decision(model.row.id, token.key)
    if row is None or row.version != token.version:
        raise Refusal(409, "unknown_token", "No decision of this model has it.", "token")
    outcome = tx.outcome(model.row.id, token.key)
    if outcome is not None:
        if outcome.by_default:
            raise Refusal(409, "expired", "It has had its default reward.", "token")
        if (outcome.reward, outcome.scale) == (one.reward, one.scale):
            return None
        raise Refusal(409, "rewarded", "It has had another reward.", "token")
    wait = model.spec.wait
    if wait is not None and time_of(token.key) + wait < now:
        if model.spec.late == "refuse":
            raise Refusal(409, "expired", f"It was given up after {wait:g} s.", "token")
    return row
