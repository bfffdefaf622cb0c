"""The row and the answer of a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from heavytail._typing import FloatArray
from heavytail.ledger.decision import Decision
from heavytail.ledger.details import Detail, pack, unpack
from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token
from heavytail.serve.fast import Plain
from heavytail.serve.model import Model
from heavytail.serve.wire import DecideAmongNamed, DecideAmongVectors, Decided

__all__ = ["answered_again", "logged"]

SORTED = msgspec.msgpack.Encoder(order="sorted")


def logged(
    model: Model,
    token: Token,
    choice: DecideAmongVectors | DecideAmongNamed | Plain,
    arms: FloatArray,
    decision: Decision,
    request: tuple[str, int, int],
    stamp: float | None = None,
) -> tuple[DecisionRow, Decided]:
    """A decision as a row of the log and as an answer.

    ``request`` is the client's idempotency key, the position in the batch and the size of the
    batch; ``stamp`` is the wall-clock time if it differs from that of the decision's key.
    """
    ids = choice.ids
    name = None if ids is None else ids[decision.arm]
    fingerprint = key = None
    if request[0]:
        key = hashlib.blake2b(f"{request[1]} {request[0]}".encode(), digest_size=16).digest()
        content = (
            request[2],
            arms.tobytes(),
            ids,
            choice.explore,
            getattr(choice, "context", None),
        )
        fingerprint = hashlib.blake2b(SORTED.encode(content), digest_size=16).digest()
    detail = Detail(
        len(arms), decision.probability, decision.score, name, ids,
        arms.astype("<f8", copy=False).tobytes() if model.spec.log_arms else None, fingerprint,
        getattr(choice, "context", None), stamp,
    )  # fmt: skip
    row = DecisionRow(
        token.model, token.key, token.version, decision.arm,
        decision.x.astype("<f8", copy=False).tobytes(), key, pack(detail),
    )  # fmt: skip
    return row, _answer(row, detail)


def _answer(row: DecisionRow, detail: Detail) -> Decided:
    token = Token(row.model, row.version, bytes(row.key))
    return Decided(str(token), row.arm, detail.probability, row.version, detail.id, detail.score)


def answered_again(
    before: Sequence[DecisionRow | None], rows: Sequence[DecisionRow]
) -> list[Decided]:
    """Return the earlier answers of the same request; refuse a different request."""
    answers = []
    for old, new in zip(before, rows, strict=True):
        detail = None if old is None else unpack(old.detail)
        if old is None or detail is None or detail.asked != unpack(new.detail).asked:
            raise Refusal(
                409, "key_used", "This idempotency key was used for another request. Use a new one."
            )
        answers.append(_answer(old, detail))
    return answers
