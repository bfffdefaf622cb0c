"""A Decider as a model: it chooses among its own offers, in contexts as they come.

What it learns of a decision besides the reward lies in the log where other models have the features
of the chosen arm. So the outcomes alone, in their order, lead from the Decider of the file to the
present state: each is observed once, and deciding changes nothing.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from heavytail._validate import printable
from heavytail.decider import Decider
from heavytail.decider.choice import Choice
from heavytail.decider.learning import until_due
from heavytail.decider.rounds import FIRST, KEPT
from heavytail.ledger.details import Detail, pack
from heavytail.ledger.layout import CHANGE, DecisionRow, ModelRow, OutcomeRow
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token, time_of
from heavytail.ledger.transaction import Transaction
from heavytail.policies.core.policy import Policy
from heavytail.serve.decider_words import refusal_of
from heavytail.serve.entries import Request, identified
from heavytail.serve.keeping import loaded_decider
from heavytail.serve.model import NONE, REPEATS, UNKNOWN, Model, chance, finite, said
from heavytail.serve.wire import (
    DECIDER,
    Chosen,
    DecideInContext,
    ExplainedOffer,
    ModelSpec,
    OffersView,
    OfferView,
    PredictedOffers,
    PredictInContext,
)

__all__ = ["DeciderModel", "Visit", "adopt", "model_of", "spec_of"]

T = TypeVar("T")

VISIT: Final = 200_000  # multiplications that a decision, or learning its reward, takes as long as
SHAPING: Final = 10**9  # and learning the shape anew, at least
SHORTEST, LONGEST = 1e-3, 3.2e9  # seconds that a decision may wait
WHOLE: Final = 2**63  # below which a whole number fits into the log


class Visit(Struct, frozen=True, array_like=True):
    """The parts of a decision that a Decider learns besides its reward.

    Attributes:
        context: the columns that it knows.
        id: of the offer.
        probability: of the choice.
        time: of the decision, as in the log.
        score: the reward that was expected; None before anything was known.
    """

    context: dict[str, Any]
    id: str
    probability: float
    time: float
    score: float | None


class OfferChange(Struct, frozen=True, array_like=True):
    """Offers that are added or changed, a row of columns each; ids of those that are retired."""

    rows: list[dict[str, Any]]
    retired: list[str]


unpack = msgspec.msgpack.Decoder(Visit).decode
unpack_change = msgspec.msgpack.Decoder(OfferChange).decode


class DeciderModel(Model):
    """A Decider in step with its log."""

    policy: Decider

    def _begin(self, data: bytes | None) -> None:
        if data is None:
            raise ValueError("a Decider begins with its file, and that snapshot is missing.")
        self.policy = self.view = loaded_decider(data, "the snapshot")
        self.encoder = None

    @property
    def reads(self) -> str:
        return "context"

    @property
    def learner(self) -> Policy:
        return self.policy.policy

    @property
    def dim(self) -> int:
        forecast = self.policy.forecast
        return self.policy.policy.dim if forecast is None else forecast.dim

    @property
    def width(self) -> int:
        return len(self.policy.offers)

    @property
    def offers(self) -> dict[str, OfferView]:
        views = {}
        for place, (name, runs) in enumerate(self.policy.offers.items()):
            count, total, paid = self.policy._counts.offers.get(place, (0.0, 0.0, 0.0))
            mean = finite(total / count)[0] if count else None
            views[name] = OfferView(runs, int(count), int(paid), mean)
        return views

    def offers_view(self) -> OffersView:
        offers = self.policy._offers
        features: dict[str, Any] = {
            name: {column: values[place] for column, values in offers.columns.items()}
            for place, name in enumerate(offers.ids)
        }
        runs = {name: features[name] for name, running in self.policy.offers.items() if running}
        return OffersView(0, runs, [name for name in features if name not in runs])

    def changed(self, offers: dict[str, Any], *, whole: bool) -> bytes | None:
        """The change of its offers to these, packed; None if nothing changes. Offers that are not
        listed are retired where they are ``whole``. Refuses what the Decider would not take.
        """
        now = self.offers_view().offers
        column, columns = self.policy._offers.id_column, {*self.policy._offers.columns}
        rows, gone = [], [name for name in now if whole and name not in offers]
        for name, features in offers.items():
            if features is None:
                if name not in self.policy.offers:
                    raise Refusal(422, "bad_offers", "No offer has this id.", f"offers.{name}")
                gone += [name] if name in now else []
            elif not isinstance(features, dict) or set(features) != columns:
                wanted = ", ".join(map(repr, sorted(columns)))
                problem = f"Send all features of the offer by name, and no others: {wanted}."
                if not columns:
                    problem = "The offers of this Decider have no features: send {}."
                raise Refusal(422, "bad_offers", problem, f"offers.{name}")
            elif features != now.get(name):
                rows.append({column: name, **features})
        if not rows and not gone:
            return None
        change = OfferChange(rows, gone)
        try:
            _apply(self.policy.clone(), change)
        except (ValueError, TypeError, KeyError) as error:
            words = said(error).partition(": ")[2] or said(error)
            raise Refusal(422, "bad_offers", words, "offers") from None
        return msgspec.msgpack.encode(change)

    def warm(self) -> None:
        twin = self.policy.clone()
        empty = dict.fromkeys(twin._contexts.names)
        twin.observe(empty, next(iter(twin.offers)), 0.0)
        twin.select(empty)
        twin.expected(empty)
        twin.policy.diagnostics()

    # Deciding

    def count(self, asked: object) -> int:
        return 1

    def size(self, rows: int) -> int:
        return max(rows, 1) * (VISIT + self.dim * self.dim)

    def features(self, asked: DecideInContext | PredictInContext, most: int) -> Any:
        for name, value in asked.context.items():
            if type(value) is int and not -WHOLE <= value < WHOLE:
                message = f"A whole number must fit in 64 bits; got {value:.3g}."
                raise Refusal(422, "bad_context", message, f"context.{printable(name)}")
        return asked

    def choose(self, sets: list[DecideInContext], explore: list[float]) -> list[Choice]:
        choices = []
        for i, (asked, share) in enumerate(zip(sets, explore, strict=True)):
            select = functools.partial(
                self.policy.select, asked.context, only=asked.only, explore=share,
                draw=chance(share),
            )  # fmt: skip
            choices.append(self._refused(select, asked, "" if len(sets) == 1 else f"[{i}]"))
        return choices

    def is_unknown(self, asked: object, made: Choice) -> bool:
        return bool(made.unknown)

    def entry(
        self,
        token: Token,
        asked: DecideInContext,
        arms: object,
        made: Choice,
        request: Request,
        stamp: float | None,
    ) -> tuple[DecisionRow, Chosen]:
        assert made.options is not None
        which = made.options.which.tolist()
        ids: list[str | int] = [made.options.ids[place] for place in which]
        units = () if asked.unit is None else (asked.unit,)
        key, digest = identified(request, (asked.context, asked.only, asked.explore, *units))
        detail = Detail(
            len(ids), made.probability, made.expected, made.id, ids, None, digest, asked.context,
            stamp, made.why, unit=asked.unit,
        )  # fmt: skip
        names = self.policy._contexts.names
        known = {name: asked.context[name] for name in names}
        when = time_of(token.key) if stamp is None else stamp
        visit = Visit(known, made.id, made.probability, when, made.expected)
        row = DecisionRow(
            token.model, token.key, token.version, which.index(made.place),
            msgspec.msgpack.encode(visit), key, pack(detail),
        )  # fmt: skip
        return row, self.answer(row, detail)

    def answer(self, row: DecisionRow, detail: Detail) -> Chosen:
        token = Token(row.model, row.version, bytes(row.key))
        assert detail.probability is not None
        return Chosen(
            str(token), str(detail.id), detail.probability, detail.score, detail.why or "",
            row.version,
        )  # fmt: skip

    # Learning

    @property
    def _until_shaping(self) -> float:
        """Outcomes until the shape is learned anew, that one included."""
        return until_due(self.policy._history.seen, FIRST, KEPT)

    @property
    def batch(self) -> int:
        """Number of outcomes that can be learned between two requests: none that shapes."""
        return int(min(super().batch, self._until_shaping - 1))

    async def turn(self, kind: str, rows: int, work: Callable[[], T], *, shared: bool = False) -> T:
        if kind == "change" or (kind == "learn" and rows >= self._until_shaping):
            return await self.turns.do("shape", SHAPING, work)
        return await super().turn(kind, rows, work, shared=shared)

    def translated(self, key: bytes, detail: Detail, offer: Any) -> bytes:
        names, context = self.policy._contexts.names, detail.context or {}
        parts: dict[str, Any] = {"probability": detail.probability, "id": detail.id}
        parts |= {"context": detail.context} if names else {}
        missing = [name for name, value in parts.items() if value is None]
        if missing or detail.probability is None:
            raise ValueError(f"the log has no {' and no '.join(missing)} of the decision.")
        known = {name: context.get(name) for name in names}  # a column may be new
        when = time_of(key) if detail.made is None else detail.made
        visit = Visit(known, str(detail.id), detail.probability, when, detail.score)
        return msgspec.msgpack.encode(visit)

    def learn(self, outcomes: Sequence[OutcomeRow], reasons: Mapping[int, str] = NONE) -> None:
        for row in self._next(outcomes):
            if not row.x:
                self.refuse(row, reasons.get(row.seq, UNKNOWN))
                self.version = row.seq
                continue
            if row.by_default == CHANGE:
                self._learn_change(row)
                continue
            visit = unpack(row.x)
            if visit.score is not None:
                self.tracker.missed([abs(row.reward - visit.score)])
            try:
                self.policy.observe(
                    visit.context, visit.id, row.reward, probability=visit.probability,
                    time=visit.time, selected=True,
                )  # fmt: skip
            except (ValueError, TypeError, KeyError) as error:
                self.refuse(row, said(error))
            self.version = row.seq

    def _learn_change(self, row: OutcomeRow) -> None:
        """Change the offers, or count what cannot be learned."""
        try:
            _apply(self.policy, unpack_change(row.x))
        except (ValueError, TypeError, KeyError, msgspec.MsgspecError) as error:
            self.refuse(row, f"the change of the offers does not fit: {said(error)}")
        self.version = row.seq

    def check_reward(
        self, reward: float, scale: float | None = None, field: str = "reward"
    ) -> None:
        if scale is not None:
            message = "A Decider takes no scale: it measures the noise by itself."
            raise Refusal(422, "bad_scale", message, "scale")
        super().check_reward(reward, None, field)

    # Answers

    def predict(self, arms: PredictInContext, level: float) -> PredictedOffers:
        expected = self._refused(lambda: self.policy.expected(arms.context, level=level), arms)
        parts = (finite([each[i] for each in expected.values()]) for i in range(3))
        return PredictedOffers([*expected], *parts)

    def explain(self, arms: PredictInContext) -> ExplainedOffer:
        choice = self._refused(lambda: self.policy.select(arms.context), arms)
        expected = self.policy.expected(arms.context)
        means = {name: finite(mean)[0] for name, (mean, _, _) in expected.items()}
        return ExplainedOffer(choice.id, choice.why, means)

    def _refused(
        self, work: Callable[[], T], asked: DecideInContext | PredictInContext, place: str = ""
    ) -> T:
        """Return what ``work`` gives, or refuse in words for a client that speaks JSON."""
        try:
            return work()
        except (ValueError, TypeError, KeyError) as error:
            raise refusal_of(self.policy, asked, error).at(place) from None


def _apply(decider: Decider, change: OfferChange) -> None:
    """Change the offers of a Decider; refuse if none would run."""
    if change.rows:
        decider.add(change.rows)
    for name in change.retired:
        decider.retire(name)
    if not any(decider.offers.values()):
        raise ValueError("Decider: at least one offer must be left.")


def model_of(row: ModelRow, snapshot: tuple[int, bytes] | None = None) -> Model:
    """The model of a row of the store, from a snapshot or anew."""
    spec = msgspec.json.decode(row.spec, type=ModelSpec)
    return (DeciderModel if spec.policy == DECIDER else Model)(row, snapshot)


def spec_of(saved: Decider | Policy, content: bytes, name: str) -> ModelSpec:
    """The specification of a model that begins with a Decider or a policy; ``content`` is its
    file.
    """
    digest = hashlib.sha256(content).hexdigest()
    if isinstance(saved, Policy):
        if saved.info.repeats:
            raise ValueError(f"{name}: {type(saved).__name__} {REPEATS} Upload another policy.")
        encoder = saved.encoder
        schema = None if encoder is None else encoder.schema()
        return ModelSpec(policy=type(saved).__name__, dim=saved.dim, encoder=schema, file=digest)
    if saved._limits.most:
        raise ValueError(
            f"{name}: the Decider limits offers per day, which the service does not count: "
            f"{', '.join(saved._limits.most)}. Build it without limits=, or decide in your own "
            "program."
        )
    age, reward = saved._closing or (None, None)
    wait = None if age is None else min(max(age, SHORTEST), LONGEST)
    return ModelSpec(
        policy=DECIDER, explore=saved.explore, wait=wait, default_reward=reward, log_arms=False,
        file=digest,
    )  # fmt: skip


def adopt(
    tx: Transaction,
    name: str,
    content: bytes,
    spec: ModelSpec,
    most: int,
    note: str,
    who: str,
    learn: str | None = None,
) -> tuple[bool, ModelRow]:
    """Begin a model with a file, and let it learn the log of the model ``learn`` first; the same
    file again changes nothing, and another is refused. Returns whether it is new, and its row.
    """
    row = tx.model(name)
    if row is None:
        tx.check_room(most)
        origin, since = (None, 0) if learn is None else tx.learnable(learn)
        spec_json = msgspec.json.encode(spec, order="sorted").decode()
        row = tx.create(name, spec_json, since=since, origin=origin)
        tx.snapshot(row.id, 0, content, note)
        tx.audit(who, f"create {name}")
        return True, row
    if msgspec.json.decode(row.spec, type=ModelSpec).file != spec.file:
        message = (
            f"The store has a model {name!r} that did not begin with this file. Choose another "
            "name, and let it take over this one with POST .../promote."
        )
        raise Refusal(409, "another_model", message, "name")
    if learn is not None and row.origin is None:
        message = f"The model {name!r} began with this file and learned no log. Delete it first."
        raise Refusal(409, "another_model", message, "learn")
    return False, row
