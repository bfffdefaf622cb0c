"""Types of what ``heavytail serve`` answers and takes, which :mod:`heavytail.client` returns.

But for :class:`RemoteDecision` each is a plain dict at run time, as the answer's JSON has it;
fields of newer services stay in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from heavytail.encoding import Encoder

__all__ = [
    "Diagnostics",
    "Explained",
    "ForkChanges",
    "KeyView",
    "ModelSpec",
    "ModelView",
    "Moment",
    "Predicted",
    "RemoteDecision",
    "Scalar",
    "Scope",
    "SnapshotView",
    "SpecFields",
]

Scalar = float | int | str | bool | None
Scope = Literal["read", "decide", "admin"]


class Moment(TypedDict):
    """E|noise|^order <= scale^order."""

    order: float
    scale: float


class SpecFields(TypedDict, total=False):
    """The settings of a model beside its policy.

    Attributes:
        dim: length of a feature vector; an encoder's own where there is one.
        options: of the policy.
        tail: a moment bound, for policies that need one.
        horizon: T, for policies that need one.
        arms: how many arms there are, for policies that ask.
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
    """The specification of a model; what has its default is left out.

    Attributes:
        policy: its name, as in ``heavytail policies``.
    """

    policy: str


class ForkChanges(TypedDict, total=False):
    """Settings that a fork has of its own.

    Attributes:
        policy: another policy, which starts fresh and learns all of the old model's log.
        options: its own.
        shadow: learn from the old one's traffic from now on, and decide nothing.
    """

    policy: str | None
    options: Mapping[str, Scalar] | None
    shadow: bool


class Diagnostics(TypedDict, total=False):
    """State of a model: :class:`heavytail.policies.core.diagnostics.Diagnostics` of its policy,
    and its own. What is infinite is None; of a model that cannot be opened nothing is there.

    Attributes:
        faults: what went wrong with the model and was passed over, in words.
        refused: rewards that the policy refused to learn.
        staleness: outcomes that decisions are behind, on average.
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
    staleness: float


class ModelView(TypedDict):
    """The state of a model.

    Attributes:
        broken: why it cannot be opened, None where it can. Of a model that is broken ``rounds`` and
            ``version`` are of its log, and ``dim`` and ``spec`` may not be known.
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


class Predicted(TypedDict):
    """Mean rewards that are expected, with intervals."""

    mean: list[float]
    low: list[float]
    high: list[float]


class Explained(TypedDict):
    """The arm that would be chosen, and the parts of every arm's index.

    Attributes:
        arm: its place among those offered.
        rule: what was maximised, in words.
        parts: by name, one number per arm.
        id: the arm's own name, where names were given.
    """

    arm: int
    rule: str
    parts: dict[str, list[float]]
    id: NotRequired[str | int]


class SnapshotView(TypedDict):
    """A snapshot; ``version`` is the outcome that it is after."""

    snapshot: int
    version: int
    time: float
    note: str


@dataclass(frozen=True)
class RemoteDecision:
    """A choice that waits for its reward.

    Attributes:
        token: what to learn its reward by.
        arm: the arm's place among those offered.
        id: its own name.
        probability: with which it was chosen; None where that is not known.
        score: the mean reward that was expected of it.
        version: how many rewards the model had seen.
    """

    token: str
    arm: int
    id: str | int | None = None
    probability: float | None = None
    score: float | None = None
    version: int = 0


class KeyView(TypedDict):
    """The name and the scopes of a key, without the key."""

    name: str
    scopes: list[Scope]
    created: float
