"""A decision as it is logged, and as it is answered."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from heavytail._typing import FloatArray
from heavytail.ledger.details import Detail, pack, unpack
from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token
from heavytail.policies.core.decisions import Decision
from heavytail.serve.model import Model
from heavytail.serve.wire import Decided

__all__ = ["answered_again", "logged"]

SORTED = msgspec.msgpack.Encoder(order="sorted")


def logged(
    model: Model,
    token: Token,
    one: Any,
    arms: FloatArray,
    decision: Decision,
    request: tuple[str, int, int],
    made: float | None = None,
) -> tuple[DecisionRow, Decided]:
    """A decision as it is logged, and as it is answered; ``request`` is the client's own key, the
    place in its batch, and how many are in that; ``made`` is when, where its key says otherwise.
    """
    ids = one.ids
    name = None if ids is None else ids[decision.arm]
    asked = key = None
    if request[0]:
        key = hashlib.blake2b(f"{request[1]} {request[0]}".encode(), digest_size=16).digest()
        said = (request[2], arms.tobytes(), ids, one.explore, getattr(one, "context", None))
        asked = hashlib.blake2b(SORTED.encode(said), digest_size=16).digest()
    detail = Detail(
        len(arms), decision.probability, decision.score, name, ids,
        arms.astype("<f8", copy=False).tobytes() if model.spec.log_arms else None, asked,
        getattr(one, "context", None), made,
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
    """The answers that a request had before, where it is the same."""
    found = []
    for old, new in zip(before, rows, strict=True):
        detail = None if old is None else unpack(old.detail)
        if old is None or detail is None or detail.asked != unpack(new.detail).asked:
            raise Refusal(
                409, "key_used", "The idempotency key was used for another request. Take a new one."
            )
        found.append(_answer(old, detail))
    return found
