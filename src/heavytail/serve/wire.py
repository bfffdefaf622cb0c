"""Bodies of requests and answers, validated during decoding.

The JSON schemas of the OpenAPI document are made from these classes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from heavytail._validate import GREATEST, LEAST
from heavytail.ledger.layout import NAME

__all__ = [
    "DECIDER",
    "NAME",
    "ArmCount",
    "BrokenStats",
    "Chosen",
    "DecideAmongNamed",
    "DecideAmongVectors",
    "DecideInContext",
    "Decided",
    "Earned",
    "EarnedBound",
    "EarnedDay",
    "EarnedLine",
    "EarnedUntil",
    "Explained",
    "ExplainedOffer",
    "Fault",
    "Fork",
    "KeyMade",
    "KeySpec",
    "KeyView",
    "LogLearned",
    "ModelChange",
    "ModelSpec",
    "ModelStats",
    "ModelView",
    "Moment",
    "OfferView",
    "Offers",
    "OffersView",
    "PredictInContext",
    "PredictNamed",
    "PredictVectors",
    "Predicted",
    "PredictedOffers",
    "Progress",
    "Promote",
    "Restore",
    "Reward",
    "Rewarded",
    "SnapshotMade",
    "SnapshotView",
    "Split",
    "SplitDifference",
    "SplitView",
    "Stats",
    "Uplift",
    "WindowStats",
    "encoded",
]

DECIDER = "Decider"  # the policy of a model that was served from a Decider's file

Scalar = float | int | str | bool | None
Name = Annotated[str, Meta(pattern=NAME)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Id = Annotated[str, Meta(max_length=200)] | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Seconds = Annotated[float, Meta(gt=0.0, le=3.2e9)]


class Moment(Struct, forbid_unknown_fields=True, frozen=True):
    """E|noise|^order <= scale^order."""

    order: float
    scale: float


class ModelSpec(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """The specification of a model.

    Attributes:
        policy: its name, as in ``heavytail policies``.
        dim: length of a feature vector; with an encoder, the encoder's.
        options: of the policy.
        tail: a moment bound, for policies that need one.
        horizon: T, for policies that need one.
        arms: number of arms, for policies that need it.
        encoder: the result of ``ht.Encoder.schema()``; decisions then name their features.
        explore: share of uniform draws if a decision states none.
        wait: seconds after which a decision without a reward expires.
        default_reward: the reward learned for it then; None: nothing is learned.
        late: treatment of a reward after that: "refuse", or "learn" if nothing was learned.
        log_arms: whether the features of all arms are logged, so that ``ht.evaluate`` can ask what
            other policies would have earned.
        file: SHA-256 of the file that the model began with, if it did.
    """

    policy: Annotated[str, Meta(min_length=1, max_length=64)] = "TwinUCB"
    dim: Annotated[int, Meta(ge=1, le=4096)] | None = None
    options: dict[str, Scalar] = {}
    tail: Moment | None = None
    horizon: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    arms: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    encoder: dict[str, Any] | None = None
    explore: Share = 0.0
    wait: Seconds | None = None
    default_reward: float | None = None
    late: Literal["refuse", "learn"] = "refuse"
    log_arms: bool = True
    file: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")] | None = None


class ModelChange(Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """A change of a model's settings; what is left out stays as it is."""

    paused: bool | UnsetType = UNSET
    explore: Share | UnsetType = UNSET
    wait: Seconds | UnsetType | None = UNSET
    default_reward: float | UnsetType | None = UNSET
    late: Literal["refuse", "learn"] | UnsetType = UNSET
    log_arms: bool | UnsetType = UNSET


class Fork(Struct, forbid_unknown_fields=True, frozen=True):
    """A fork: a new model from an old one.

    Attributes:
        name: of the new one.
        policy: another policy, which starts fresh and learns all of the old model's log.
        options: its own.
        encoder: another encoder; the contexts and offers of the log are encoded anew.
        shadow: learn from the old model's traffic from now on, and decide nothing.
    """

    name: Name
    policy: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    options: dict[str, Scalar] | None = None
    encoder: dict[str, Any] | None = None
    shadow: bool = False


class Promote(Struct, forbid_unknown_fields=True, frozen=True):
    """The model that takes over a name, and gives its own in exchange."""

    model: Name


OfferId = Annotated[str, Meta(min_length=1, max_length=200)]
Features = dict[str, Scalar] | list[float]


class Offers(Struct, forbid_unknown_fields=True, frozen=True):
    """Offers by id: the named features or the feature vector of each. Null withdraws an offer."""

    offers: Annotated[dict[OfferId, Features | None], Meta(max_length=10_000)]


class Split(Struct, forbid_unknown_fields=True, frozen=True):
    """Models that share the decisions of a name, and the share of each."""

    models: Annotated[dict[Name, Share], Meta(min_length=1, max_length=20)]


class Restore(Struct, forbid_unknown_fields=True, frozen=True):
    """The number of the snapshot to restore."""

    snapshot: Annotated[int, Meta(ge=1, le=2**53)]


class DecideAmongVectors(Struct, forbid_unknown_fields=True, frozen=True):
    """A choice among arms that are vectors."""

    arms: Annotated[list[list[float]], Meta(min_length=1)]
    ids: list[Id] | None = None
    explore: Share | None = None
    unit: Id | None = None


class DecideAmongNamed(Struct, forbid_unknown_fields=True, frozen=True):
    """A choice among arms with named features, for a model with an encoder."""

    arms: Annotated[list[dict[str, Scalar]], Meta(min_length=1)]
    context: dict[str, Scalar] = {}
    ids: list[Id] | None = None
    explore: Share | None = None
    unit: Id | None = None


class DecideInContext(Struct, forbid_unknown_fields=True, frozen=True):
    """A choice among the model's own offers.

    Attributes:
        context: by column.
        only: ids of the offers that may be shown, unless all may.
        explore: share of uniform draws, unless the model's.
        unit: who sees the offer; in a split, all decisions of a unit are made by the same model.
    """

    context: dict[str, Scalar] = {}
    only: list[Id] | None = None
    explore: Share | None = None
    unit: Id | None = None


class Chosen(Struct, frozen=True, omit_defaults=True):
    """An offer, the token to send its reward by, the reward expected and the reason; in a split,
    the name of the model that decided.
    """

    token: str
    id: str
    probability: float
    expected: float | None
    why: str
    version: int
    model: str | None = None


class Decided(Struct, frozen=True, omit_defaults=True):
    """A decision, and the token to send its reward by."""

    token: str
    arm: int
    probability: float | None
    version: int
    id: Id | None = None
    score: float | None = None
    model: str | None = None


class Reward(Struct, forbid_unknown_fields=True, frozen=True):
    """The reward of a decision; ``scale`` is the noise's in that round, if the policy uses it."""

    token: Annotated[str, Meta(max_length=100)]
    reward: float
    scale: Annotated[float, Meta(ge=LEAST, le=GREATEST)] | None = None


class Rewarded(Struct, frozen=True):
    """The number of rewards that are new."""

    accepted: int


class PredictVectors(Struct, forbid_unknown_fields=True, frozen=True):
    """A query about arms given as vectors."""

    arms: Annotated[list[list[float]], Meta(min_length=1)]
    ids: list[Id] | None = None
    level: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.95


class PredictNamed(Struct, forbid_unknown_fields=True, frozen=True):
    """A query about arms with named features, for a model with an encoder."""

    arms: Annotated[list[dict[str, Scalar]], Meta(min_length=1)]
    context: dict[str, Scalar] = {}
    ids: list[Id] | None = None
    level: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.95


class PredictInContext(Struct, forbid_unknown_fields=True, frozen=True):
    """A query about a Decider's offers in a context."""

    context: dict[str, Scalar] = {}
    level: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.95


class Predicted(Struct, frozen=True):
    """Predicted mean rewards, with intervals."""

    mean: list[float]
    low: list[float]
    high: list[float]


class Progress(Struct, frozen=True):
    """Outcomes of another model's log: how many were learned, and of how many."""

    model: str | None
    learned: int
    of: int


class OffersView(Struct, frozen=True):
    """The offers of a model, by id.

    Attributes:
        number: of changes so far.
        offers: the features of those that may be chosen.
        retired: of a Decider, ids that may not.
    """

    number: int
    offers: dict[str, Features]
    retired: list[str] = []


class Explained(Struct, frozen=True, omit_defaults=True):
    """The arm that would be chosen, its ``id``, and the parts of every arm's index."""

    arm: int
    rule: str
    parts: dict[str, list[float]]
    id: Id | None = None


class PredictedOffers(Struct, frozen=True):
    """Predicted mean rewards of a Decider's offers, with intervals."""

    ids: list[str]
    mean: list[float]
    low: list[float]
    high: list[float]


class ExplainedOffer(Struct, frozen=True):
    """The offer that would be chosen without exploring, why, and what is expected of each."""

    id: str
    why: str
    expected: dict[str, float]


class OfferView(Struct, frozen=True):
    """An offer of a Decider: whether it runs, and its rewards: how many, how many of them were not
    0, and their mean.
    """

    runs: bool
    rewards: int
    paid: int
    mean: float | None


class ModelView(Struct, frozen=True):
    """The state of a model.

    Attributes:
        offers: of a Decider, by id; None for any other model.
        broken: why it cannot be opened, or None. For a broken model ``rounds`` and ``version`` are
            those of its log, and ``dim`` and ``spec`` may be unknown.
        learning: how much of another model's log it has learned; None once it has learned it.
        split: whether other models share the decisions of its name.
        archived: rows of its log that are in the archive.
    """

    name: str
    policy: str
    dim: int | None
    spec: ModelSpec | None
    rounds: int
    decisions: int
    pending: int
    version: int
    paused: bool
    shadow_of: str | None
    created: float
    diagnostics: dict[str, Any]
    broken: str | None = None
    offers: dict[str, OfferView] | None = None
    learning: Progress | None = None
    split: bool = False
    archived: int = 0


class WindowStats(Struct, frozen=True):
    """Five seconds of a model.

    Attributes:
        ago: seconds from its start to the start of the present window, which is not over.
        decisions: made in it.
        rewards: accepted in it.
        mean: of all rewards of the minute that it ends.
        error: the mean's standard error, s / sqrt(n). Not a bound: with heavy tails one reward can
            move both.
    """

    ago: float
    decisions: int
    rewards: int
    mean: float | None
    error: float | None


class ArmCount(Struct, frozen=True):
    """The number of decisions for an arm, by its id or, without one, its place in the list."""

    decisions: int
    id: str | int | None = None
    place: int | None = None


class TailPoint(Struct, frozen=True):
    """A share of the newest rewards that were at least ``size`` away from their predictions."""

    size: float
    share: float


class ModelStats(Struct, frozen=True):
    """The activity of a model, whichever worker had the requests.

    Attributes:
        decisions: since the model was created.
        rewards: likewise; default rewards are among them. A shadow's are those that it learned.
        decisions_per_second: of the last minute; ``rewards_per_second`` too.
        mean: of the rewards of the last minute.
        error: its standard error; not a bound.
        windows: the nonempty windows of the last ten minutes, oldest first.
        arms: the ten most frequent arms.
        other_arms: decisions for all others.
        pending: decisions that wait for their reward, of any age.
        rounds: outcomes learned in total.
        diagnostics: as of the model itself.
        tail: tail of the newest residuals; empty if the policy does not predict.
        defaults: default rewards.
        money: sum of the rewards.
        oldest: seconds that the oldest pending decision has waited; None if none is pending.
    """

    name: str
    policy: str
    paused: bool
    shadow_of: str | None
    decisions: int
    rewards: int
    decisions_per_second: float
    rewards_per_second: float
    mean: float | None
    error: float | None
    windows: list[WindowStats]
    arms: list[ArmCount]
    other_arms: int
    pending: int
    rounds: int
    diagnostics: dict[str, Any]
    tail: list[TailPoint]
    defaults: int
    money: float
    oldest: float | None


class BrokenStats(Struct, frozen=True):
    """A model that cannot be opened, and why."""

    name: str
    reason: str


class Stats(Struct, frozen=True):
    """The activity of all models.

    Attributes:
        started: when the process that answers did, in seconds since 1970.
        now: likewise.
        window: length of a window in seconds.
        models: by name.
        broken: those that cannot be opened, by name.
    """

    started: float
    now: float
    window: float
    models: list[ModelStats]
    broken: list[BrokenStats]


class EarnedLine(Struct, frozen=True):
    """What a group of decisions earned.

    Attributes:
        name: an offer's id or, without ids, its place; a segment; or what the group is.
        decisions: made.
        share: of all decisions.
        rewards: that came; default rewards are among them.
        by_default: default rewards.
        pending: decisions that wait for their reward.
        money: the sum of the rewards.
        counted: rewards that ``mean`` and its bounds are of: where decisions expire, those of
            decisions all before which have their reward or have expired.
        mean: of these.
        low: lower bound of the mean; None where too few rewards came.
        high: upper bound, which is approximate; likewise.
    """

    name: str
    decisions: int
    share: float
    rewards: int
    by_default: int
    pending: int
    money: float
    counted: int
    mean: float | None
    low: float | None
    high: float | None


class EarnedBound(Struct, frozen=True):
    """What a bound is.

    Attributes:
        kind: "betting", or "betting with room", which is approximate.
        any_time: whether it holds however often one looks.
        guaranteed: whether it rests on nothing but what ``assumes`` says.
        assumes: in words.
    """

    kind: str
    any_time: bool
    guaranteed: bool
    assumes: str


class EarnedDay(Struct, frozen=True):
    """The decisions of a day (UTC), and the rewards of these decisions, whenever they came."""

    day: str
    decisions: int
    rewards: int
    by_default: int
    money: float


class EarnedUntil(Struct, frozen=True):
    """How far the log has been added up: outcomes and decisions, of how many."""

    outcome: int
    outcomes: int
    decision: int
    decisions: int
    complete: bool


class Uplift(Struct, frozen=True):
    """What a model earned over what a rule would have earned in its place.

    Attributes:
        against: the rule as it was asked for.
        rule: in words.
        compared: rewards that were compared.
        value: the estimated difference in all, by inverse propensity weighting.
        low: lower bound of it; together with the upper one it holds with probability ``level``.
        high: upper bound.
        mean: the difference a decision.
        mean_low: lower bound of it.
        mean_high: upper bound.
        better: whether the model earned more; None where that is not decided.
        more: decisions like these that would decide it, about; None where it cannot be guessed.
        days: days at the present rate in which they come; likewise.
        level: of both bounds together.
        bound: what they are.
        why: the reason why nothing can be said; "" where something can.
        notes: what to know of it.
        sentence: the result.
    """

    against: str
    rule: str
    compared: int
    value: float | None
    low: float | None
    high: float | None
    mean: float | None
    mean_low: float | None
    mean_high: float | None
    better: bool | None
    more: int | None
    days: float | None
    level: float
    bound: EarnedBound
    why: str
    notes: list[str]
    sentence: str


class Earned(Struct, frozen=True):
    """What a model earned.

    Attributes:
        model: its name.
        until: how far its log has been added up.
        given_up: decisions that expired without a reward.
        total: all decisions.
        chosen: decisions whose offer had more than the probability of a uniform draw: the choice.
        explored: decisions whose offer had not.
        unknown: decisions whose probability is not known.
        offers: each of the first 1,000 offers that were chosen, by decisions.
        others: all other offers; None where there are none.
        by: the column of the context that segments are of; None for none.
        segments: by value of that column, or by thirds of its first 1,000 numbers; None without
            ``by``.
        columns: those of the contexts of the first 100 decisions, at most 100.
        days: of the last 90 days, those with decisions, oldest first.
        against: the comparison with a rule; None without ``against``.
        level: of the two bounds of each mean together; each line's hold by themselves.
        low: what the lower bounds of means are.
        high: what the upper ones are.
        order: "settled" where means count decisions all before which have their reward or have
            expired; "arrived" where they count rewards as they come.
        sentences: the most important of it.
    """

    model: str
    until: EarnedUntil
    given_up: int
    total: EarnedLine
    chosen: EarnedLine
    explored: EarnedLine
    unknown: EarnedLine
    offers: list[EarnedLine]
    others: EarnedLine | None
    by: str | None
    segments: list[EarnedLine] | None
    columns: list[str]
    days: list[EarnedDay]
    against: Uplift | None
    level: float
    low: EarnedBound
    high: EarnedBound
    order: str
    sentences: list[str]


class SplitDifference(Struct, frozen=True):
    """What a decision of a model earns more than one of the model that has the name.

    Attributes:
        model: its name.
        low: lower bound, at every time, from the first of each unit; None if there is none.
        high: upper bound, likewise.
        better: whether it earns more; None where that is not decided.
        why: the reason why there are no bounds; "" if there are.
    """

    model: str
    low: float | None
    high: float | None
    better: bool | None
    why: str


class SplitView(Struct, frozen=True):
    """The models that share the decisions of a name.

    Attributes:
        models: the share of each.
        created: time when they began to share them so.
        earned: what each has earned since.
        differences: of the others from the model that has the name.
        level: of all differences together, however often one looks.
        bound: what the bounds of differences are.
        complete: whether all of the logs has been added up.
        sentences: the result.
    """

    models: dict[str, float]
    created: float
    earned: list[EarnedLine]
    differences: list[SplitDifference]
    level: float
    bound: EarnedBound
    complete: bool
    sentences: list[str]


class SnapshotView(Struct, frozen=True):
    """A snapshot; ``version`` is the outcome that it is after."""

    snapshot: int
    version: int
    time: float
    note: str


class LogLearned(Struct, frozen=True):
    """A log that a model began with: SHA-256 of its file, and what of it was learned and left out,
    in words.
    """

    file: str
    sentences: list[str]


class SnapshotMade(Struct, frozen=True):
    """The number of a new snapshot."""

    snapshot: int


class KeySpec(Struct, forbid_unknown_fields=True, frozen=True):
    """A key to create."""

    name: Name
    scopes: Annotated[list[Literal["read", "decide", "admin"]], Meta(min_length=1, max_length=3)]


class KeyMade(Struct, frozen=True):
    """A new key, shown only in this answer."""

    name: str
    key: str


class KeyView(Struct, frozen=True):
    """The name and the scopes of a key, without the key."""

    name: str
    scopes: list[str]
    created: float


class Fault(Struct, frozen=True):
    """A refusal: nothing was changed."""

    code: str
    message: str
    field: str = ""


def encoded(answer: object) -> bytes:
    """An answer as JSON."""
    return msgspec.json.encode(answer)
