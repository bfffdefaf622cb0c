"""The estimators of a policy's value: what each accumulates per row.

Each is a pair (u, v) per row whose estimate makes v - u m zero on average, by the ``mean`` that it
names (:mod:`heavytail.logs.means`); LS and LSE end by a logarithm instead. w is the weight pi/p,
q(x, a) the reward that a model predicts, q(x, pi) = sum_a pi(a|x) q(x, a).

| name | value | u | v | |
| --- | --- | --- | --- | --- |
| ips | ``IPS()`` | 1 | w r | unbiased |
| snips | ``SNIPS()`` | w | w r | self-normalised: a shift of the rewards shifts it as much |
| clipped | ``Clipped(clip=None)`` | 1 | min(w, M) r | too low for r >= 0; no use if r is heavy |
| dm | ``DM(model, folds=5)`` | 1 | q(x, pi) | as good as the model |
| dr | ``DR(model, folds=5)`` | 1 | q(x, pi) + w (r - q(x, a)) | unbiased with any model |
| switch-dr | ``SwitchDR(model, folds=5, clip=None)`` | 1 | the same, w only where w <= M | |
| dros | ``DRos(model, folds=5, clip=None)`` | 1 | the same, w M²/(w² + M²) for w | |
| ls | ``LS(smoothing=None, floor=None)`` | | mean log(1 + lambda w r)/lambda | never above ips |
| lse | ``LSE(smoothing=None, floor=None)`` | | -log(mean exp(-lambda w r))/lambda | the same |

Their arguments:

- ``mean``, by its name alone, of all but LS and LSE: "huber" (corrected for skewness), "catoni",
  "minsker-ndaoud", "median-of-means" or "plain"; a MomentBound of the terms v is Catoni's mean for
  that moment.
- ``clip``: M; the root of the number of rows if None.
- ``model``: a callable of Rows giving (n, K) predicted rewards; or a regressor with fit and predict
  (or partial_fit), which is fitted on the other folds of the log first; or "arms", each action's
  own mean, which is robust and knows no context.
- ``folds``: of that fit.
- ``smoothing``: lambda; read off the log if None.
- ``floor``: a number that no reward can be below; that of the bound, or 0, if None.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import shown
from heavytail.logs.values import Value
from heavytail.tails import MomentBound

if TYPE_CHECKING:
    from heavytail.logs.reading.rows import Rows

__all__ = [
    "DM",
    "DR",
    "ESTIMATORS",
    "IPS",
    "LS",
    "LSE",
    "MEANS",
    "MEANS_OF_DIFFERENCES",
    "SNIPS",
    "Averaged",
    "Clipped",
    "DRos",
    "Estimator",
    "Modelled",
    "Seen",
    "SwitchDR",
    "check_model",
    "is_fitted",
]

MEANS = ("huber", "catoni", "minsker-ndaoud", "median-of-means", "plain")
MEANS_OF_DIFFERENCES = ("huber", "catoni", "plain")


class Seen(NamedTuple):
    """A chunk as one target sees it.

    Attributes:
        rows: the chunk.
        weight: (n,), w, or None if the log has no propensities.
        mass: (n, K), the target's probabilities, or None if only those of the actions are known.
        predicted: (n,), q(x, a), or None without a model.
        expected: (n,), q(x, pi), or None without a model.
    """

    rows: Rows
    weight: FloatArray | None
    mass: FloatArray | None
    predicted: FloatArray | None
    expected: FloatArray | None


Terms = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, repr=False)
class Estimator(Value):
    """The base of all estimators.

    Attributes:
        weights: whether it needs propensities.
        unbiased: whether its plain mean is unbiased, at least asymptotically.
    """

    weights: ClassVar[bool] = True
    unbiased: ClassVar[bool] = False

    def weigh(self, w: FloatArray) -> FloatArray:
        """The weights as the estimator uses them."""
        return w

    def terms(self, seen: Seen) -> Terms:
        """(u, v) of every row."""
        assert seen.weight is not None
        w = self.weigh(seen.weight)
        return np.ones(len(w)), w * seen.rows.reward


@dataclass(frozen=True, repr=False)
class Averaged(Estimator):
    """An estimator that averages its rows by the mean that it names."""

    mean: str | MomentBound = field(default="huber", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.mean, MomentBound):
            self._check("mean", "choice", choices=MEANS)


@dataclass(frozen=True, repr=False)
class IPS(Averaged):
    """Inverse propensity scoring."""

    name: ClassVar[str] = "ips"
    unbiased: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class SNIPS(Averaged):
    """The self-normalised estimate; without clipping it is sum w r / sum w."""

    name: ClassVar[str] = "snips"
    unbiased: ClassVar[bool] = True

    def terms(self, seen: Seen) -> Terms:
        assert seen.weight is not None
        return seen.weight, seen.weight * seen.rows.reward


@dataclass(frozen=True, repr=False)
class Clipped(Averaged):
    """Inverse propensity scoring with weights of at most ``clip``."""

    name: ClassVar[str] = "clipped"
    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("clip", above=0.0)

    def weigh(self, w: FloatArray) -> FloatArray:
        assert self.clip is not None
        return np.minimum(w, self.clip)


@dataclass(frozen=True, repr=False)
class Modelled(Averaged):
    """An estimator that corrects a model's predictions."""

    model: Any
    folds: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_model(f"{type(self).__name__}.model", self.model)
        self._check("folds", "count", least=2)

    def terms(self, seen: Seen) -> Terms:
        assert seen.expected is not None
        assert seen.predicted is not None
        assert seen.weight is not None
        surprise = self.weigh(seen.weight) * (seen.rows.reward - seen.predicted)
        return np.ones(len(surprise)), seen.expected + surprise


@dataclass(frozen=True, repr=False)
class DM(Modelled):
    """The direct method: the model's predictions, without correction."""

    name: ClassVar[str] = "dm"
    weights: ClassVar[bool] = False

    def terms(self, seen: Seen) -> Terms:
        assert seen.expected is not None
        return np.ones(len(seen.expected)), seen.expected


@dataclass(frozen=True, repr=False)
class DR(Modelled):
    """The doubly robust estimate: the model's predictions, corrected by weighted residuals."""

    name: ClassVar[str] = "dr"
    unbiased: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class SwitchDR(Modelled):
    """The doubly robust estimate without corrections for rows whose weight exceeds ``clip``."""

    name: ClassVar[str] = "switch-dr"
    clip: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check("clip", above=0.0)

    def weigh(self, w: FloatArray) -> FloatArray:
        assert self.clip is not None
        return np.where(w <= self.clip, w, 0.0)


@dataclass(frozen=True, repr=False)
class DRos(SwitchDR):
    """The doubly robust estimate with optimistic shrinkage of the weights, at M² (Su,
    Dimakopoulou, Krishnamurthy and Dudik 2020).
    """

    name: ClassVar[str] = "dros"

    def weigh(self, w: FloatArray) -> FloatArray:
        assert self.clip is not None
        return np.asarray(w / (1.0 + (w / self.clip) ** 2))


@dataclass(frozen=True, repr=False)
class LS(Estimator):
    """Logarithmic smoothing, of one side (Sakhi, Aouali, Alquier and Chopin 2024)."""

    name: ClassVar[str] = "ls"
    smoothing: float | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        self._check("smoothing", above=0.0)
        self._check("floor")


@dataclass(frozen=True, repr=False)
class LSE(LS):
    """The log-sum-exponential estimate, of one side (Behnamnia and others 2025)."""

    name: ClassVar[str] = "lse"


ESTIMATORS: Final[tuple[type[Estimator], ...]] = (
    *(IPS, SNIPS, Clipped, DM, DR, SwitchDR, DRos, LS, LSE),
)


def check_model(argument: str, model: object) -> None:
    """Refuse a model that cannot predict rewards."""
    if is_fitted(model) or callable(model):
        return
    kind = ValueError if isinstance(model, str) else TypeError
    raise kind(
        f"{argument} must be 'arms', a callable of Rows giving (n, K) rewards, or a regressor "
        f"with fit and predict; got {shown(model)}."
    )


def is_fitted(model: object) -> bool:
    """Tell whether a model has to be fitted to the log: "arms", or a regressor."""
    if isinstance(model, str):
        return model == "arms"
    return hasattr(model, "predict") and (hasattr(model, "fit") or hasattr(model, "partial_fit"))
