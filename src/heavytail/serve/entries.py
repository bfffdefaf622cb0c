"""The row and the answer of a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from heavytail._typing import FloatArray
from heavytail.ledger.decision import Decision
from heavytail.ledger.details import Detail, pack, unpack
from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.offers import OfferTable
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token
from heavytail.serve.fast import Plain
from heavytail.serve.wire import DecideAmongNamed, DecideAmongVectors, Decided, DecideInContext

__all__ = ["USED", "Offered", "Request", "answer", "answered_again", "identified", "logged"]

USED = "This idempotency key was used for another request. Use a new one."
SORTED = msgspec.msgpack.Encoder(order="sorted")

Request = tuple[str, int, int]  # idempotency key, position in the batch, size of the batch


class Offered(NamedTuple):
    """Vectors of the model's own offers, and the places of these; None for all of them."""

    rows: FloatArray
    which: list[int] | None
    table: OfferTable

    @property
    def ids(self) -> list[str]:
        """The id of each vector."""
        return self.table.ids if self.which is None else [self.table.ids[i] for i in self.which]


def logged(
    token: Token,
    choice: DecideAmongVectors | DecideAmongNamed | DecideInContext | Plain,
    arms: FloatArray | Offered,
    decision: Decision,
    request: Request,
    stamp: float | None = None,
    *,
    log_arms: bool = True,
) -> tuple[DecisionRow, Decided]:
    """A decision as a row of the log and as an answer; ``stamp`` is the wall-clock time if it
    differs from that of the decision's key.
    """
    context, unit = getattr(choice, "context", None), getattr(choice, "unit", None)
    units = () if unit is None else (unit,)
    if isinstance(arms, Offered):
        assert isinstance(choice, DecideInContext)
        key, asked = identified(request, (context, choice.only, choice.explore, *units))
        detail = Detail(
            len(arms.rows), decision.probability, decision.score, arms.ids[decision.arm], None,
            None, asked, context, stamp, None, arms.table.number, arms.which, unit,
        )  # fmt: skip
    else:
        assert not isinstance(choice, DecideInContext)
        ids = choice.ids
        name = None if ids is None else ids[decision.arm]
        key, asked = identified(request, (arms.tobytes(), ids, choice.explore, context, *units))
        detail = Detail(
            len(arms), decision.probability, decision.score, name, ids,
            arms.astype("<f8", copy=False).tobytes() if log_arms else None, asked, context, stamp,
            unit=unit,
        )  # fmt: skip
    row = DecisionRow(
        token.model, token.key, token.version, decision.arm,
        decision.x.astype("<f8", copy=False).tobytes(), key, pack(detail),
    )  # fmt: skip
    return row, answer(row, detail)


def identified(request: Request, content: tuple[Any, ...]) -> tuple[bytes | None, bytes | None]:
    """Digests of a request's key and of its content; None without a key."""
    if not request[0]:
        return None, None
    key = hashlib.blake2b(f"{request[1]} {request[0]}".encode(), digest_size=16).digest()
    whole = SORTED.encode((request[2], *content))
    return key, hashlib.blake2b(whole, digest_size=16).digest()


def answer(row: DecisionRow, detail: Detail) -> Decided:
    """The answer that a logged decision had."""
    token = Token(row.model, row.version, bytes(row.key))
    return Decided(str(token), row.arm, detail.probability, row.version, detail.id, detail.score)


def answered_again(
    before: Sequence[DecisionRow | None],
    rows: Sequence[DecisionRow],
    answer: Sequence[Callable[[DecisionRow, Detail], Any]],
) -> list[Any]:
    """Return the earlier answers of the same request, each by its own model's ``answer``; refuse a
    different request.
    """
    answers = []
    for old, new, answered in zip(before, rows, answer, strict=True):
        detail = None if old is None else unpack(old.detail)
        if old is None or detail is None or detail.asked != unpack(new.detail).asked:
            raise Refusal(409, "key_used", USED)
        answers.append(answered(old, detail))
    return answers
