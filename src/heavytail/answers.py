"""Types of the requests and answers of ``heavytail serve``, as :mod:`heavytail.client` returns
them.

Except for :class:`RemoteDecision` and :class:`RemoteChoice` each is a plain dict at run time, with
the fields of the answer's JSON; fields of newer services are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from heavytail.encoding import Encoder

__all__ = [
    "Diagnostics",
    "Earned",
    "EarnedBound",
    "EarnedDay",
    "EarnedLine",
    "EarnedUntil",
    "Explained",
    "ExplainedOffer",
    "ForkChanges",
    "KeyView",
    "LogLearned",
    "ModelChanges",
    "ModelSpec",
    "ModelView",
    "Moment",
    "OfferView",
    "OffersView",
    "Predicted",
    "PredictedOffers",
    "Progress",
    "RemoteChoice",
    "RemoteDecision",
    "Scalar",
    "Scope",
    "SnapshotView",
    "SpecFields",
    "SplitDifference",
    "SplitView",
    "Uplift",
]

Scalar = float | int | str | bool | None
Scope = Literal["read", "decide", "admin"]


class Moment(TypedDict):
    """E|noise|^order <= scale^order."""

    order: float
    scale: float


class SpecFields(TypedDict, total=False):
    """The settings of a model other than its policy.

    Attributes:
        dim: length of a feature vector; with an encoder, the encoder's.
        options: of the policy.
        tail: a moment bound, for policies that need one.
        horizon: T, for policies that need one.
        arms: number of arms, for policies that need it.
        encoder: an encoder or its ``schema()``; decisions then name their features.
        explore: share of uniform draws if a decision states none.
        wait: seconds after which a decision without a reward expires.
        default_reward: the reward learned for it then; None: nothing is learned.
        late: treatment of a reward after that: "refuse", or "learn" if nothing was learned.
        log_arms: whether the features of all arms are logged.
    """

    dim: int | None
    options: Mapping[str, Scalar]
    tail: Moment | None
    horizon: int | None
    arms: int | None
    encoder: Encoder | Mapping[str, object] | None
    explore: float
    wait: float | None
    default_reward: float | None
    late: Literal["refuse", "learn"]
    log_arms: bool


class ModelSpec(SpecFields, total=False):
    """The specification of a model; settings with default values may be left out.

    Attributes:
        policy: its name, as in ``heavytail policies``; or "Decider".
        file: SHA-256 of the file that a Decider is served from.
    """

    policy: str
    file: str | None


class ForkChanges(TypedDict, total=False):
    """Settings that a fork changes.

    Attributes:
        policy: another policy, which starts fresh and learns all of the old model's log.
        options: its own.
        encoder: another encoder or its ``schema()``; the contexts and offers of the log are encoded
            anew.
        shadow: learn from the old model's traffic from now on, and decide nothing.
    """

    policy: str | None
    options: Mapping[str, Scalar] | None
    encoder: Encoder | Mapping[str, object] | None
    shadow: bool


class ModelChanges(TypedDict, total=False):
    """Settings of a model that can be changed while it serves, as in :class:`SpecFields`.

    Attributes:
        paused: whether it learns without deciding.
    """

    paused: bool
    explore: float
    wait: float | None
    default_reward: float | None
    late: Literal["refuse", "learn"]
    log_arms: bool


class Diagnostics(TypedDict, total=False):
    """State of a model: the :class:`heavytail.policies.core.diagnostics.Diagnostics` of its policy,
    and its own. Infinite values become None; a model that cannot be opened has only ``faults``.

    Attributes:
        faults: errors of the model that the service worked around, in words.
        refused: rewards that the policy refused to learn.
        refusals: which of them, and why, a sentence for each reason.
        staleness: average number of outcomes by which decisions lag behind.
    """

    rounds: int
    radius: float | None
    clipped_share: float | None
    threshold: float | None
    scale: float | None
    effective_samples: float | None
    tail_index: float | None
    mean_differs: float | None
    drift: float | None
    advice: list[str]
    faults: list[str]
    refused: int
    refusals: list[str]
    staleness: float


class OfferView(TypedDict):
    """An offer of a Decider: whether it runs, and its rewards: how many, how many of them were not
    0, and their mean.
    """

    runs: bool
    rewards: int
    paid: int
    mean: float | None


class ModelView(TypedDict):
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
    diagnostics: Diagnostics
    broken: str | None
    offers: dict[str, OfferView] | None
    learning: Progress | None
    split: bool
    archived: int


class Progress(TypedDict):
    """Outcomes of another model's log: how many were learned, and of how many."""

    model: str | None
    learned: int
    of: int


class OffersView(TypedDict):
    """The offers of a model, by id.

    Attributes:
        number: of changes so far.
        offers: the features of those that may be chosen.
        retired: of a Decider, ids that may not.
    """

    number: int
    offers: dict[str, dict[str, Scalar] | list[float]]
    retired: list[str]


class SplitDifference(TypedDict):
    """What a decision of a model earns more than one of the model that has the name.

    Attributes:
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


class SplitView(TypedDict):
    """The models that share the decisions of a name.

    Attributes:
        models: the share of each.
        created: when they began to share them, in seconds since 1970.
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


class Predicted(TypedDict):
    """Predicted mean rewards, with intervals."""

    mean: list[float]
    low: list[float]
    high: list[float]


class PredictedOffers(TypedDict):
    """Predicted mean rewards of a model's own offers, with intervals."""

    ids: list[str]
    mean: list[float]
    low: list[float]
    high: list[float]


class ExplainedOffer(TypedDict):
    """The offer that would be chosen without exploring, why, and what is expected of each."""

    id: str
    why: str
    expected: dict[str, float]


class Explained(TypedDict):
    """The arm that would be chosen, and the parts of every arm's index.

    Attributes:
        arm: its place among those offered.
        rule: what was maximised, in words.
        parts: by name, one number per arm.
        id: the arm's own name, if names were given.
    """

    arm: int
    rule: str
    parts: dict[str, list[float]]
    id: NotRequired[str | int]


class EarnedLine(TypedDict):
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


class EarnedBound(TypedDict):
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


class EarnedDay(TypedDict):
    """The decisions of a day (UTC), and the rewards of these decisions, whenever they came."""

    day: str
    decisions: int
    rewards: int
    by_default: int
    money: float


class EarnedUntil(TypedDict):
    """How far the log has been added up: outcomes and decisions, of how many."""

    outcome: int
    outcomes: int
    decision: int
    decisions: int
    complete: bool


class Uplift(TypedDict):
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


class Earned(TypedDict):
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


class SnapshotView(TypedDict):
    """A snapshot; ``version`` is the outcome that it is after."""

    snapshot: int
    version: int
    time: float
    note: str


class LogLearned(TypedDict):
    """A log that a model began with: SHA-256 of its file, and what of it was learned and left out,
    in words.
    """

    file: str
    sentences: list[str]


@dataclass(frozen=True)
class RemoteDecision:
    """A choice that waits for its reward.

    Attributes:
        token: identifies the decision when its reward comes.
        arm: the arm's place among those offered.
        id: its own name.
        probability: the probability of the choice; None if unknown.
        score: the predicted mean reward.
        version: number of rewards that the model had learned.
        model: in a split, the name of the model that decided.
    """

    token: str
    arm: int
    id: str | int | None = None
    probability: float | None = None
    score: float | None = None
    version: int = 0
    model: str | None = None


@dataclass(frozen=True)
class RemoteChoice:
    """One of the model's own offers that was chosen, and that waits for its reward.

    Attributes:
        token: identifies the decision when its reward comes.
        id: of the offer.
        probability: of the choice in this context; None if unknown.
        expected: the mean reward that is expected of it; None before anything is known.
        why: the reason, in a sentence; "" unless a Decider chose.
        version: number of rewards that the model had learned.
        model: in a split, the name of the model that decided.
    """

    token: str
    id: str
    probability: float | None
    expected: float | None
    why: str
    version: int = 0
    model: str | None = None


class KeyView(TypedDict):
    """The name and the scopes of a key, without the key."""

    name: str
    scopes: list[Scope]
    created: float
