"""A loaded model: a policy that has learned the outcomes of its log up to a number."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from heavytail._lazy import nearest
from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, LEAST, printable
from heavytail.decider.markup import counted
from heavytail.encoding import Encoder
from heavytail.ledger.details import Detail, as_floats
from heavytail.ledger.layout import CHANGE, DecisionRow, ModelRow, OutcomeRow
from heavytail.ledger.offers import OfferTable, unpacked
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.tokens import Token, random_number
from heavytail.policies.build import find, make_policy
from heavytail.policies.core.policy import Policy
from heavytail.serve.apart import Turns
from heavytail.serve.entries import Offered, Request, answer, logged
from heavytail.serve.keeping import loaded
from heavytail.serve.tracker import Tracker
from heavytail.serve.wire import (
    DECIDER,
    DecideInContext,
    Explained,
    ModelSpec,
    OffersView,
    OfferView,
    Predicted,
    PredictedOffers,
    PredictInContext,
)
from heavytail.tails import MomentBound

__all__ = [
    "NONE",
    "READY",
    "REPEATS",
    "Model",
    "Stretch",
    "built",
    "chance",
    "finite",
    "said",
    "warmed",
]

T = TypeVar("T")

REPEATS = (
    "plays an arm several times and must see each reward before it decides again, which a service "
    "cannot promise."
)
NUMBER_BITS = 53  # of the numbers that draws are made from
READY = 0.99  # of another model's outcomes: after these a model decides
ENCODING = 20_000  # multiplications that encoding an arm takes as long as
REASONS = 10  # of refusals that are told apart
OTHERS = "for other reasons."
UNKNOWN = "the features of the decision are not known."
NONE: Mapping[int, str] = MappingProxyType({})
SEEN = 64  # of outcomes learned at once, whose residuals are tracked


def built(spec: ModelSpec, most: int | None = None) -> Policy:
    """Build the policy of a specification with its encoder; refuse an impossible one, or more than
    ``most`` features.
    """
    if ":" in spec.policy:
        raise Refusal(
            422, "bad_policy", "A service runs only the library's own policies.", "policy"
        )
    if spec.policy == DECIDER or spec.file is not None:
        message = "Upload the file of a saved Decider or policy as the body of the request instead."
        raise Refusal(422, "bad_policy", message, "policy")
    try:
        policy_class = find(spec.policy)
    except (ValueError, KeyError) as error:
        raise Refusal(422, "bad_policy", said(error), "policy") from None
    if policy_class.info.repeats:
        raise Refusal(
            422,
            "bad_policy",
            f"{policy_class.__name__} {REPEATS} Choose another policy.",
            "policy",
        )
    encoder = _encoder(spec.encoder)
    dim = spec.dim if encoder is None else encoder.dim
    if dim is None:
        raise Refusal(
            422,
            "bad_dim",
            "dim, the length of a feature vector, is required without an encoder.",
            "dim",
        )
    if spec.dim not in (None, dim):
        raise Refusal(422, "bad_dim", f"The encoder makes {dim} features; got {spec.dim}.", "dim")
    if most is not None and dim > most:
        raise Refusal(422, "bad_dim", f"At most {most} features; got {dim}.", "dim")
    tail = None
    try:
        if spec.tail is not None:
            tail = MomentBound(order=spec.tail.order, scale=spec.tail.scale)
        policy = make_policy(
            spec.policy, dim=dim, horizon=spec.horizon, tail=tail, arms=spec.arms, **spec.options
        )
        policy.encoder = encoder
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal(422, "bad_options", said(error), "options") from None
    return policy


def warmed(policy: Policy) -> None:
    """Compile what a policy needs, on a throwaway policy, so that no request waits for it."""
    arms = np.zeros((2, policy.dim))
    arms[0, 0] = arms[1, -1] = 0.1
    calls: dict[str, tuple[Any, ...]] = {
        "select": (arms,),
        "select_many": (arms[None],),
        "predict": (arms,),
        "explain": (arms,),
        "update_many": (arms, np.zeros(2)),
        "update": (arms[0], 0.0),
        "diagnostics": (),
    }
    for name, arguments in calls.items():
        with contextlib.suppress(ValueError, AttributeError):  # it does no such thing
            getattr(policy, name)(*arguments)


def _encoder(schema: dict[str, Any] | None) -> Encoder | None:
    if schema is None:
        return None
    try:
        return Encoder.from_schema(schema).fixed()
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal(422, "bad_encoder", said(error), "encoder") from None


def said(error: Exception) -> str:
    """The message of an error."""
    return str(error.args[0]) if error.args else type(error).__name__


class Stretch(NamedTuple):
    """The outcomes of a model up to number ``until``; ``translated`` if their features are not
    those of the model that learns them.
    """

    model: int
    until: float
    translated: bool


class Model:
    """A policy in step with its log.

    The state depends only on the outcomes and their order: a randomised policy draws from a twin,
    which learns the same.

    Attributes:
        row: the model in the store, as last seen.
        line: of the row that the state was made from; where the row has another, so has the store.
        spec: what it is.
        policy: the state after outcome ``version``.
        version: number of the last outcome learned.
        refused: outcomes that the policy would not learn.
        refusals: their number, the first and the last of them, by the reason.
        staleness: how many outcomes behind the last decisions were, on average.
        tracker: what it did here that is not counted in the store yet, and its residuals.
        passed: a sentence that says why it did not start from its newest snapshot; "" if it did.
        unkept: a sentence that says why its last snapshot was not saved; "" if it was.
        turns: who works on the policy, one after another.
        chaser: the task that learns what the loop has no time for, or None.
        behind: whether new outcomes wait for that task.
        snapshot_seq: the outcome after which a snapshot was last taken or tried.
        snapshot_time: when this process did so, by the monotonic clock; 0 if it has not.
        loading: seconds that loading a snapshot takes; 0 if unknown.
        table: the offers that the service keeps for it, if any.
        lineage: the models whose outcomes it learns, in order.
    """

    def __init__(self, row: ModelRow, snapshot: tuple[int, bytes] | None = None) -> None:
        self.row, self.line = row, row.line
        self.spec = msgspec.json.decode(row.spec, type=ModelSpec)
        self.refused, self.staleness = 0, 0.0
        self.refusals: dict[str, tuple[int, int, int]] = {}
        self.tracker = Tracker()
        self.passed = self.unkept = ""
        self.turns = Turns()
        self.chaser: asyncio.Task[None] | None = None
        self.behind = False
        self.snapshot_time = self.loading = 0.0
        self.table: OfferTable | None = None
        self.lineage = [Stretch(row.id, math.inf, False)]
        start = time.monotonic()
        first = row.since if row.origin is None else 0
        self.version = first if snapshot is None else snapshot[0]
        self._begin(None if snapshot is None else snapshot[1])
        if snapshot is not None:
            self.loading = time.monotonic() - start
        self.snapshot_seq = self.version

    def _begin(self, data: bytes | None) -> None:
        """Take the state from a snapshot, or begin anew."""
        if data is None and self.spec.file is not None:
            raise ValueError("the model began with a file, and that snapshot is missing.")
        self.policy: Any = (
            built(self.spec) if data is None else loaded(data, self.spec, "the snapshot")
        )
        self.encoder = self.policy.encoder
        self.view: Any = self.policy
        if self.policy.info.randomised:
            self.view = self.policy.clone()
            self.view.reseed(random_number(NUMBER_BITS) | 1)

    @property
    def reads(self) -> str:
        """The content of its requests: arms as "vectors" or "named", or a "context"."""
        return "vectors" if self.encoder is None else "named"

    @property
    def learner(self) -> Policy:
        """The policy that chooses."""
        policy: Policy = self.policy
        return policy

    @property
    def dim(self) -> int:
        """Length of a feature vector."""
        return int(self.policy.dim)

    @property
    def width(self) -> int:
        """About how many numbers are logged of each of ``count``."""
        return self.dim

    @property
    def offers(self) -> dict[str, OfferView] | None:
        """The offers of a Decider."""
        return None

    def offers_view(self) -> OffersView:
        """The offers that the service keeps for it."""
        if self.table is None:
            return OffersView(0, {})
        return OffersView(self.table.number, self.table.offers)

    def warm(self) -> None:
        """Compile what it needs, so that no request waits for it."""
        warmed(self.policy.clone())

    def respecify(self, row: ModelRow) -> None:
        """Take over the row with the name and settings that the model has now; ``line`` stays."""
        if row.spec != self.row.spec:
            self.spec = msgspec.json.decode(row.spec, type=ModelSpec)
        self.row = row

    def keep_offers(self, number: int, content: bytes) -> None:
        """Choose among the offers of a catalogue from now on."""
        self.table = self.table_of(number, unpacked(content))

    def table_of(self, number: int, offers: dict[str, Any]) -> OfferTable:
        """The table of a catalogue; ValueError if the model cannot choose among its offers."""
        return OfferTable(number, offers, self.encoder, self.dim)

    def asks_alike(self, other: Model) -> bool:
        """Whether another model takes the same requests."""
        return (self.reads, self.table is None) == (other.reads, other.table is None) and (
            self.reads != "vectors" or self.table is not None or self.dim == other.dim
        )

    @property
    def stretch(self) -> Stretch:
        """The model whose outcomes it learns next, and up to which number."""
        return next(each for each in self.lineage if self.version < each.until)

    @property
    def source(self) -> int:
        """The model whose outcomes it learns next."""
        return self.stretch.model

    @property
    def behind_origin(self) -> bool:
        """Whether outcomes of other models are yet to learn before its own."""
        return self.row.follows is None and self.source != self.row.id

    @property
    def unready(self) -> bool:
        """Whether most of another model's log is yet to learn, before any decision."""
        return self.behind_origin and self.version < READY * self.row.since

    def tried(self, seq: int) -> None:
        """Note that a snapshot after outcome ``seq`` was taken, or could not be kept."""
        self.snapshot_seq = max(self.snapshot_seq, seq)
        self.snapshot_time = time.monotonic()

    async def turn(self, kind: str, rows: int, work: Callable[[], T], *, shared: bool = False) -> T:
        """Run work on so many rows of features in its turn, in a thread if it takes long."""
        return await self.turns.do(kind, self.size(rows), work, shared=shared)

    def size(self, rows: int) -> int:
        """Estimated number of multiplications for so many rows of features."""
        each = self.dim * self.dim + (0 if self.encoder is None else ENCODING)
        return max(rows, 1) * each

    @property
    def batch(self) -> int:
        """Number of outcomes that can be learned between two requests."""
        return self.turns.fit("learn", self.size(1))

    def learn(self, outcomes: Sequence[OutcomeRow], reasons: Mapping[int, str] = NONE) -> None:
        """Learn the next outcomes; count and skip those that the policy refuses. ``reasons`` says
        why it has no features of some, by their numbers.
        """
        following = self._next(outcomes)
        if not following:
            return
        outcomes = [row for row in following if row.by_default != CHANGE and row.x]
        for row in following:
            if not row.x:
                self.refuse(row, reasons.get(row.seq, UNKNOWN))
        if outcomes:
            self._learn_rewards(outcomes)
        self.version = following[-1].seq

    def _learn_rewards(self, outcomes: Sequence[OutcomeRow]) -> None:
        X = as_floats(b"".join(row.x for row in outcomes), self.dim)
        rewards = np.array([row.reward for row in outcomes])
        scaled = np.array([row.scale is not None for row in outcomes])
        self._compare(X[-SEEN:], rewards[-SEEN:])
        cuts = [0, *(np.flatnonzero(np.diff(scaled)) + 1).tolist(), len(outcomes)]
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            scale = [row.scale for row in outcomes[start:stop]] if scaled[start] else None
            self._learn(X[start:stop], rewards[start:stop], scale, outcomes[start:stop])

    def refuse(self, row: OutcomeRow, reason: str) -> None:
        """Count an outcome that cannot be learned."""
        self.refused += 1
        known = reason in self.refusals or len(self.refusals) < REASONS
        key = reason if known else OTHERS
        count, first, _ = self.refusals.get(key, (0, row.seq, row.seq))
        self.refusals[key] = count + 1, first, row.seq

    def translated(self, key: bytes, detail: Detail, offer: Any) -> bytes:
        """What this model learns of a decision for an offer with these features that another model
        made; ValueError if it cannot.
        """
        name, table = str(detail.id), self.table
        if offer is None:
            raise ValueError(
                f"the features of the offer '{printable(name)}' are not known. Add it to the "
                "offers of the model with the log, and let a new model learn that log."
            )
        if detail.context is None and self.encoder is not None:
            raise ValueError("the decision has no context, and the encoder needs one.")
        if table is None or table.offers.get(name) != offer:
            table = self.table_of(0, {name: offer})
        context = {} if detail.context is None else detail.context
        needed = table.columns()
        known = context if needed is None else {name: context.get(name) for name in needed}
        return table.vectors(known, np.array([table.places[name]])).tobytes()

    def _next(self, outcomes: Sequence[OutcomeRow]) -> list[OutcomeRow]:
        """Those not learned yet: others may be quicker. None may be missing."""
        rest = [row for row in outcomes if row.seq > self.version]
        for number, row in enumerate(rest, self.version + 1):
            if row.seq != number:
                raise RuntimeError(f"outcome {number} is missing.")
        return rest

    def _compare(self, X: FloatArray, rewards: FloatArray) -> None:
        """Track how far rewards are from their predictions, if the policy predicts."""
        policy: Any = self.policy
        try:
            expected = policy.predict(X).mean
        except (ValueError, AttributeError):
            return
        with np.errstate(over="ignore"):
            self.tracker.missed(np.abs(rewards - expected).tolist())

    def _learn(
        self,
        X: FloatArray,
        rewards: FloatArray,
        scale: list[Any] | None,
        outcomes: Sequence[OutcomeRow],
    ) -> None:
        for policy in {id(p): p for p in (self.policy, self.view)}.values():
            try:
                policy.update_many(X, rewards, scale=scale)
            except ValueError:  # one of them: the others are learned
                for i in range(len(rewards)):
                    try:
                        policy.update(X[i], rewards[i], scale=None if scale is None else scale[i])
                    except ValueError as error:
                        if policy is self.policy:
                            self.refuse(outcomes[i], said(error))

    def check_reward(
        self, reward: float, scale: float | None = None, field: str = "reward"
    ) -> None:
        """Refuse a reward that the policy would not learn."""
        if scale is not None and not LEAST <= scale <= GREATEST:
            message = f"scale must be between {LEAST:g} and {GREATEST:g}; got {scale:g}."
            raise Refusal(422, "bad_scale", message, "scale")
        if abs(reward) > GREATEST:
            message = f"A reward must be at most {GREATEST:g} in absolute value; got {reward:g}."
            raise Refusal(422, "bad_reward", message, field)
        problem = self.learner.reward_problem(reward, scale)
        if problem:
            raise Refusal(422, "bad_reward", problem, field)

    def count(self, asked: Any) -> int:
        """Number of arms in a request."""
        if isinstance(asked, DecideInContext | PredictInContext):
            return 1 if self.table is None else len(self.table.ids)
        return len(asked.arms)

    def features(self, asked: Any, most: int) -> Any:
        """The features (n, dim) of the arms in a request, which may be ``most``."""
        if isinstance(asked, DecideInContext | PredictInContext):
            return self._offered(asked)
        count, ids = len(asked.arms), getattr(asked, "ids", None)
        if count > most:
            message = f"At most {most} arms; got {count}."
            raise Refusal(413, "too_many_arms", message, "arms")
        if ids is not None and len(ids) != count:
            message = f"{count} arms need as many ids; got {len(ids)}."
            raise Refusal(422, "bad_ids", message, "ids")
        return self.arms(asked.arms, getattr(asked, "context", {}), ids)

    def _offered(self, asked: DecideInContext | PredictInContext) -> Offered:
        """The model's own offers in a context, or those of ``only``."""
        table = self.table
        if table is None:
            message = "The model has no offers of its own. Send arms, or give it offers first: "
            raise Refusal(422, "no_offers", f"{message}PUT /v1/models/NAME/offers.", "arms")
        which = None
        if isinstance(asked, DecideInContext) and asked.only is not None:
            which = [*dict.fromkeys(map(functools.partial(_place, table), asked.only))]
            if not which:
                raise Refusal(422, "bad_only", "'only' is empty. Leave it out for all.", "only")
        try:
            places = None if which is None else np.array(which, dtype=np.int64)
            return Offered(table.vectors(asked.context, places), which, table)
        except (ValueError, TypeError, KeyError) as error:
            message = said(error).removeprefix("Catalogue.arms: ")
            raise Refusal(422, "bad_context", message, "context") from None

    def arms(
        self, arms: Any, context: dict[str, Any], ids: Sequence[str | int] | None
    ) -> FloatArray:
        """The features (n, dim) of arms as they were sent."""
        if isinstance(arms, np.ndarray):  # read by ``fast``, which has looked
            return arms
        try:
            if self.encoder is not None:
                return np.asarray(self.encoder.arms(context, arms, ids))
            features = np.array(arms, dtype=np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            if self.encoder is None:
                raise self._ragged(arms) from None
            raise Refusal(422, "bad_arms", str(error), "arms") from None
        if features.ndim != 2 or features.shape[1] != self.dim:
            raise self._ragged(arms)
        return features

    def _ragged(self, arms: Sequence[object]) -> Refusal:
        lengths = [len(arm) if isinstance(arm, list) else -1 for arm in arms]
        bad = next((i for i, n in enumerate(lengths) if n != self.dim), 0)
        return Refusal(
            422,
            "bad_arms",
            f"An arm must be a list of {self.dim} numbers; got {max(lengths[bad], 0)}.",
            f"arms[{bad}]",
        )

    def choose(self, sets: list[Any], explore: list[float]) -> list[Any]:
        """Make a decision for each set of arms, all from the present state."""
        view: Any = self.view
        rows = [_rows(each) for each in sets]
        try:
            if (
                len(rows) > 1
                and hasattr(view, "select_many")
                and len({each.shape for each in rows}) == 1
            ):
                choices = view.select_many(np.stack(rows)).tolist()
            else:
                choices = [view.select(each) for each in rows]
            return [
                view.decision(arms, choice, explore=share, token=chance(share))
                for arms, choice, share in zip(rows, choices, explore, strict=True)
            ]
        except ValueError as error:
            raise Refusal(422, "bad_arms", str(error), "arms") from None

    def is_unknown(self, asked: Any, made: Any) -> bool:
        """Tell whether a decision met a category that the model has no feature for."""
        encoder = self.encoder
        if encoder is None:
            return False
        return any(map(encoder.unknown, (asked.context, *getattr(asked, "arms", ()))))

    def entry(
        self, token: Token, asked: Any, arms: Any, made: Any, request: Request, stamp: float | None
    ) -> tuple[DecisionRow, Any]:
        """A decision as a row of the log and as an answer."""
        return logged(token, asked, arms, made, request, stamp, log_arms=self.spec.log_arms)

    def answer(self, row: DecisionRow, detail: Detail) -> Any:
        """The answer that a logged decision had."""
        return answer(row, detail)

    def predict(self, arms: Any, level: float) -> Any:
        """Predict the mean rewards of arms."""
        policy: Any = self.policy
        try:
            prediction = policy.predict(_rows(arms), level=level)
        except (ValueError, AttributeError) as error:
            raise Refusal(422, "no_prediction", str(error)) from None
        parts = (finite(part) for part in prediction)
        return PredictedOffers(arms.ids, *parts) if isinstance(arms, Offered) else Predicted(*parts)

    def explain(self, arms: Any) -> Any:
        """Explain which arm would be chosen, and why."""
        policy: Any = self.view
        try:
            explanation = policy.explain(_rows(arms))
        except (ValueError, AttributeError) as error:
            raise Refusal(422, "no_explanation", str(error)) from None
        parts = {name: finite(part) for name, part in explanation.parts.items()}
        name = arms.ids[explanation.arm] if isinstance(arms, Offered) else None
        return Explained(explanation.arm, explanation.rule, parts, name)

    async def report(self) -> dict[str, Any]:
        """The diagnostics, computed in a thread if they take long: some decompose a matrix."""
        return await self.turn("report", self.dim, self.diagnostics, shared=True)

    def diagnostics(self) -> dict[str, Any]:
        """The policy's diagnostics and the model's own, as JSON values."""
        diagnostics = self.learner.diagnostics()
        names = diagnostics.__dataclass_fields__
        values = {name: getattr(diagnostics, name) for name in names if name != "pending"}
        return {
            **{k: None if isinstance(v, float) and not math.isfinite(v) else v
               for k, v in values.items()},
            "advice": list(diagnostics.advice),
            "faults": [words for words in (self.passed, self.unkept) if words],
            "refused": self.refused,
            "refusals": [_refusal(*each) for each in [*self.refusals.items()]],
            "staleness": self.staleness,
        }  # fmt: skip


def _refusal(reason: str, parts: tuple[int, int, int]) -> str:
    """The sentence about outcomes that were refused for one reason."""
    count, first, last = parts
    which = f"number {first:,}" if first == last else f"numbers {first:,} to {last:,}"
    return f"{counted(count, 'reward')} ({which}) could not be learned: {reason}"


def _rows(arms: FloatArray | Offered) -> FloatArray:
    """The vectors of what is offered."""
    return arms.rows if isinstance(arms, Offered) else arms


def _place(table: OfferTable, name: str | int) -> int:
    """The place of an offer; refuse an id that no offer has."""
    place = table.places.get(str(name))
    if place is None:
        near = nearest(str(name), table.ids)
        hint = f" Did you mean {near!r}?" if near else ""
        raise Refusal(
            422, "bad_only", f"No offer has the id {printable(str(name))!r}.{hint}", "only"
        )
    return place


def chance(explore: float) -> int:
    """The random number of a decision that explores, else 0."""
    return random_number(NUMBER_BITS) if explore else 0


def finite(values: ArrayLike) -> list[float]:
    """Numbers as valid JSON: an infinity becomes the largest double."""
    return np.nan_to_num(np.atleast_1d(np.asarray(values, dtype=float))).tolist()
