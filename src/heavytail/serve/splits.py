"""Splits: models that share the decisions of a name, each unit always with the same model."""

from __future__ import annotations

import hashlib
import itertools
import math
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from heavytail.decider.choice import amount
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.transaction import Transaction
from heavytail.serve.earned import LEVEL, OF_SPLIT, Stream, compared, span
from heavytail.serve.wire import EarnedLine, Split, SplitDifference, SplitView

if TYPE_CHECKING:
    from heavytail.serve.service import Service

__all__ = [
    "REMEMBERED",
    "Shares",
    "Swaps",
    "decoded",
    "read_split",
    "remove_split",
    "swaps",
    "unit_of",
    "write_split",
    "write_swaps",
]

SWAPPED = "swapped "  # and the numbers of two models: names the time in the store's numbers
REMEMBERED = 86_400.0  # seconds for which a repeated request is looked up under another model
Swaps = dict[tuple[int, int], int]
BITS = 52  # of a hash that a double holds, with half a unit to spare


class Shares(Struct, frozen=True):
    """A split.

    Attributes:
        shares: by number of the model.
        created: time when it began, in seconds since 1970.
    """

    shares: dict[int, float]
    created: float

    def choose(self, name: str, unit: str) -> int:
        """The model for a unit, by rendezvous hashing.

        Model k gets the score -w_k / log(u_k), where u_k in (0, 1) is a hash of the unit and the
        model; the largest score wins, with probability w_k / sum(w). If one share changes, units
        move to or from that model only.
        """
        return max(self.shares, key=lambda model: self._score(name, unit, model))

    def _score(self, name: str, unit: str, model: int) -> float:
        key = f"{name}\n{model}\n{unit}".encode()
        number = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> (64 - BITS)
        return self.shares[model] / -math.log((number + 0.5) / 2**BITS)

    def by_name(self, names: Mapping[int, str]) -> dict[str, float]:
        """The share of each model by its name, as parts of 1."""
        total = sum(self.shares.values())
        return {names[model]: share / total for model, share in self.shares.items()}


def decoded(splits: Mapping[str, str]) -> dict[str, Shares]:
    """The splits of the store, by name."""
    return {name: msgspec.json.decode(content, type=Shares) for name, content in splits.items()}


def swaps(tx: Transaction) -> Swaps:
    """The pairs of models that made decisions under one name, and the last time of each."""
    rows = tx.rows("SELECT name, value FROM meta WHERE name LIKE ?", f"{SWAPPED}%")
    pairs = {name.removeprefix(SWAPPED): time for name, time in rows}
    return {(int(p.split()[0]), int(p.split()[1])): int(time) for p, time in pairs.items()}


def write_swaps(tx: Transaction, models: Iterable[int]) -> None:
    """Record that some models make decisions under one name, or did until now."""
    for first, second in itertools.combinations(sorted(models), 2):
        tx.write_number(f"{SWAPPED}{first} {second}", int(tx.now))


def unit_of(choice: object) -> str:
    """The unit of a choice; without one, a random text."""
    unit = getattr(choice, "unit", None)
    return secrets.token_hex(8) if unit is None else f"{type(unit).__name__} {unit}"


async def write_split(service: Service, name: str, wanted: Split, who: str) -> SplitView:
    """Share the decisions of a name between models, or change the shares."""
    models = {}
    for other in wanted.models:
        try:
            models[other] = await service.live.current(other)
        except Refusal as refusal:
            raise refusal.at(f"models.{other}") from None
    if name not in models:
        message = f"The model {name!r} itself must be a part of its split, if only with share 0."
        raise Refusal(422, "bad_split", message, "models")
    for other, model in models.items():
        if model.row.follows is not None:
            message = f"{other!r} is a shadow: fork it without shadow first."
            raise Refusal(409, "shadow", message, f"models.{other}")
        if model.unready:
            message = f"{other!r} has not learned the log yet. Wait for it."
            raise Refusal(409, "learning", message, f"models.{other}")
        if not models[name].asks_alike(model):
            message = f"{other!r} needs other requests than {name!r}: other features, or no offers."
            raise Refusal(409, "other_requests", message, f"models.{other}")
    shares = {models[other].row.id: share for other, share in wanted.models.items()}
    if not sum(shares.values()) > 0.0:
        raise Refusal(422, "bad_split", "At least one share must be above 0.", "models")

    def work(tx: Transaction) -> Shares:
        for number in sorted(shares):
            tx.check_there(number)
        old = decoded(tx.store.splits()).get(name)
        same = old is not None and old.shares == shares  # else busy times could favour a model
        split = Shares(shares, old.created if old is not None and same else tx.now)
        write_swaps(tx, {*shares, *(() if old is None else old.shares)})
        tx.write_split(name, msgspec.json.encode(split).decode())
        tx.audit(who, f"split {name}: {split.by_name({m.row.id: n for n, m in models.items()})}")
        return split

    service.live.splits[name] = await service.commits.do(work)
    service.live.swaps = await service.commits.do(swaps)
    return await read_split(service, name)


async def read_split(service: Service, name: str) -> SplitView:
    """The split of a name, and what its models have earned; refuses a name without one."""
    await service.live.look()
    split = service.live.splits.get(name)
    if split is None:
        raise Refusal(404, "no_split", "The decisions of this name are not split.")
    rows = {number: await _row(service, number) for number in split.shares}
    names = {number: row.name for number, row in rows.items()}
    streams = [await service.books.stream(row, split.created) for row in rows.values()]
    streams.sort(key=lambda each: each.line.name != name)
    differences = _differences(streams)
    wait = max((each.silence[0] for each in streams if each.silence is not None), default=None)
    return SplitView(
        split.by_name(names), split.created, _lines(streams), differences, LEVEL, OF_SPLIT,
        all(each.complete for each in streams),
        [_sentence(each, name, wait) for each in differences],
    )  # fmt: skip


async def _row(service: Service, number: int) -> ModelRow:
    row: ModelRow | None = await service.commits.do(lambda tx: tx.store.model(number))
    if row is None:
        raise Refusal(404, "no_model", "A model of the split was deleted.")
    return row


def _lines(streams: list[Stream]) -> list[EarnedLine]:
    """What each model earned, and its share of the decisions."""
    made = max(sum(each.line.decisions for each in streams), 1)
    return [
        msgspec.structs.replace(each.line, share=each.line.decisions / made) for each in streams
    ]


def _differences(streams: list[Stream]) -> list[SplitDifference]:
    """What each model but the first earns more than the first."""
    first, *others = streams
    level = 1.0 - (1.0 - LEVEL) / max(len(others), 1)
    differences = []
    for other in others:
        bounds = compared(first, other, level)
        if isinstance(bounds, str):
            differences.append(SplitDifference(other.line.name, None, None, None, bounds))
            continue
        low, high = bounds
        better = True if low > 0.0 else False if high < 0.0 else None
        differences.append(SplitDifference(other.line.name, low, high, better, ""))
    return differences


def _sentence(of: SplitDifference, name: str, wait: float | None) -> str:
    if of.low is None or of.high is None:
        sentence = f"{of.model} against {name}: {of.why}."
        if wait is not None and of.why.startswith("not decided"):
            sentence += f" Decisions of the last {span(wait)} (wait) do not count yet."
        return sentence
    if of.better is None:
        return (
            f"{of.model} against {name}: not decided yet. A decision of {of.model} earns between "
            f"{amount(-of.low)} less and {amount(of.high)} more."
        )
    more, least, most = ("more", of.low, of.high) if of.better else ("less", -of.high, -of.low)
    return (
        f"A decision of {of.model} earns {more} than one of {name}: {amount(least)} to "
        f"{amount(most)} {more}. You may stop."
    )


async def remove_split(service: Service, name: str, who: str) -> None:
    """End a split: the model of the name makes all decisions again."""

    def work(tx: Transaction) -> None:
        if name not in tx.store.splits():
            raise Refusal(404, "no_split", "The decisions of this name are not split.")
        write_swaps(tx, decoded(tx.store.splits())[name].shares)
        tx.write_split(name, None)
        tx.audit(who, f"remove the split of {name}")

    await service.commits.do(work)
    service.live.splits.pop(name, None)
    service.live.swaps = await service.commits.do(swaps)
