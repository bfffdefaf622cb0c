"""Decisions: chosen by one model, or by the models that share a name, and logged in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from heavytail.ledger.commits import LARGE
from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token
from heavytail.ledger.transaction import Lookup, Transaction
from heavytail.serve.apart import apart
from heavytail.serve.clock import APART
from heavytail.serve.entries import answered_again, identified
from heavytail.serve.fast import Plain
from heavytail.serve.live import BATCH
from heavytail.serve.splits import Shares, unit_of
from heavytail.serve.wire import DecideAmongNamed, DecideAmongVectors, DecideInContext

if TYPE_CHECKING:
    from heavytail.serve.model import Model
    from heavytail.serve.service import Service

__all__ = ["Asked", "decide", "decide_split"]

Asked = DecideAmongVectors | DecideAmongNamed | DecideInContext | Plain


class Part(NamedTuple):
    """Decisions of one model: their places in the request, rows of the log, and answers."""

    model: Model
    version: int
    places: Sequence[int]
    rows: list[DecisionRow]
    answers: list[Any]
    unknown: int  # of them, with a category that the model has no feature for


async def decide(
    service: Service, model: Model, choices: Sequence[Asked], request: str
) -> list[Any]:
    """Let a model make all decisions of a request."""
    numbers = await _owners(service, [model.row.id] * len(choices), model.row.id, request)
    return await _logged(service, await _parts(service, numbers, choices, request, model), request)


async def decide_split(
    service: Service, model: Model, split: Shares, choices: Sequence[Asked], request: str
) -> list[Any]:
    """Let each decision of a request be made by the model that its unit belongs to."""
    numbers = [split.choose(model.row.name, unit_of(choice)) for choice in choices]
    numbers = await _owners(service, numbers, model.row.id, request)
    parts = await _parts(service, numbers, choices, request)
    answers = await _logged(service, parts, request)
    names = {part.model.row.id: part.model.row.name for part in parts}
    return [
        msgspec.structs.replace(made, model=names[number])
        for made, number in zip(answers, numbers, strict=True)
    ]


async def _owners(service: Service, numbers: list[int], model: int, request: str) -> list[int]:
    """The model for each decision of a request: the one that made it when the request was sent
    before, since the name or the shares may have changed; else that of ``numbers``.
    """
    models = service.live.sharing(model)
    if not request or models == [model]:
        return numbers
    count = len(numbers)
    keys = [identified((request, i, count), ())[0] or b"" for i in range(count)]
    before = await service.commits.do(lambda tx: [tx.requested_of(models, key) for key in keys])
    return [new if old is None else old for old, new in zip(before, numbers, strict=True)]


async def _parts(
    service: Service,
    numbers: Sequence[int],
    choices: Sequence[Asked],
    request: str,
    own: Model | None = None,
) -> list[Part]:
    """Let each decision of a request be made by the model of its number."""
    parts = []
    for number in dict.fromkeys(numbers):
        model = own if own is not None and own.row.id == number else service.live.numbered(number)
        if model is None:
            raise Refusal(503, "broken_model", "A model of the split cannot be opened.")
        places = [place for place, each in enumerate(numbers) if each == number]
        parts.append(await _chosen(service, model, choices, places, request))
    return parts


async def _chosen(
    service: Service, model: Model, every: Sequence[Asked], places: Sequence[int], request: str
) -> Part:
    """Let a model make the decisions at some places of a request."""
    if model.row.follows is not None:
        raise Refusal(409, "shadow", "This model is a shadow: it learns, but makes no decisions.")
    if model.unready and model.row.since - model.version <= BATCH:
        await service.live.chased(model)  # soon over
        model = service.live.numbered(model.row.id) or model
    if model.unready:
        progress = f"{model.version:,} of {model.row.since:,}"
        message = f"The model learns the log of another model: {progress} rewards. Wait for it."
        raise Refusal(503, "learning", message)
    choices, count = [every[place] for place in places], len(every)
    explore = [
        model.spec.explore if choice.explore is None else choice.explore for choice in choices
    ]

    def choose() -> tuple[int, list[Any], list[Any], int]:
        sets = [
            service.features(model, choice, f"[{place}]" if count > 1 else "")
            for place, choice in zip(places, choices, strict=True)
        ]
        made = model.choose(sets, explore)
        return model.version, sets, made, sum(map(model.is_unknown, choices, made))

    many = sum(map(model.count, choices))
    try:
        chosen = await model.turn("choose", many, choose)
    except Refusal as refusal:
        if refusal.code != "no_offers":
            raise
        await service.live.look()  # another process may have given it offers
        model = service.live.numbered(model.row.id) or model
        many = sum(map(model.count, choices))
        chosen = await model.turn("choose", many, choose)
    version, sets, decisions, unknown = chosen
    when, wall = service.live.clock(), service.store.clock()
    stamp = wall if abs(wall - when) > APART else None

    def written() -> list[tuple[DecisionRow, Any]]:
        return [
            model.entry(
                Token.new(model.row.id, version, when), choice, arms, made,
                (request, place, count), stamp,
            )
            for place, choice, arms, made in zip(places, choices, sets, decisions, strict=True)
        ]  # fmt: skip

    both = written() if 8 * many * model.width < LARGE else await apart(written)
    rows, answers = [row for row, _ in both], [made for _, made in both]
    return Part(model, version, places, rows, answers, unknown)


async def _logged(service: Service, parts: list[Part], request: str) -> list[Any]:
    """Log the decisions in one commit and return the answers; those of the first try, if the
    request was answered before.
    """
    in_order = [
        (place, part.model, row, made)
        for part in parts
        for place, row, made in zip(part.places, part.rows, part.answers, strict=True)
    ]
    in_order.sort(key=lambda each: each[0])
    rows, answers = [row for _, _, row, _ in in_order], [made for *_, made in in_order]
    behind: dict[int, int] = {}
    mine = {part.model.row.id for part in parts}
    others = {each for own in mine for each in service.live.sharing(own)} - mine if request else ()

    def work(tx: Transaction) -> list[Any]:
        if request:
            before = [tx.requested(row.model, row.request or b"") for row in rows]
            if any(before):
                return answered_again(before, rows, [model.answer for _, model, *_ in in_order])
            if any(tx.requested_of(others, row.request or b"") is not None for row in rows):
                message = "Another model answered this request meanwhile. Send it again."
                raise Refusal(503, "again", message)
        for part in parts:
            last, swept = tx.check_decides(part.model.row.id)
            if part.rows[0].key <= swept:
                message = "The decision took longer than the model waits for rewards. Try again."
                raise Refusal(503, "too_slow", message)
            behind[part.model.row.id] = max(last - part.version, 0)
            if part.unknown:
                tx.unknown(part.model.row.id, part.unknown)
        for row in rows:
            tx.decide(row)
        return answers

    size = sum(len(row.detail) + len(row.x) for row in rows)
    wanted = {part.model.row.id: _keys(part.rows) for part in parts}
    wanted |= {number: _keys(rows) for number in others}
    lookup = Lookup(work, "request", wanted)
    answered: list[Any] = await service.commits.do(lookup, size=size)
    if answered is answers:  # not those of an earlier request
        for part in parts:
            model = part.model
            model.staleness += 0.05 * (behind[model.row.id] - model.staleness)
            each = zip(part.answers, part.rows, strict=True)
            model.tracker.decided([(made.id, row.arm) for made, row in each])
    return answered


def _keys(rows: Sequence[DecisionRow]) -> list[bytes]:
    """The keys of the requests of decisions."""
    return [row.request for row in rows if row.request]
