"""Linear regression on a stream: the one-pass Huber step with a fixed clip and with one that tunes
itself; Wang, Zheng, Zhou and Zhou (2021) for the threshold, Hausman (1978) for the choice.
"""

from __future__ import annotations

import inspect
from typing import Final, final

import numpy as np

from heavytail._validate import Check, shown
from heavytail.estimators import sharp
from heavytail.estimators.base import Model, Regression, check_scale
from heavytail.estimators.stream import LEAST_FORGET, NAMES, Stream
from heavytail.kernels.sharp import DELTA
from heavytail.tails import MomentBound

__all__ = ["OnePassHuberRegressor"]

TARGETS: Final = ("mean", "typical")
UNUSED: Final = {  # arguments that mean nothing, by the kind of interval
    "approximate": ("tail", "theta_bound", "delta"),
    "sharp": ("target", "clip", "scale", "ridge", "standardize", "forget"),
}


@final
class OnePassHuberRegressor(Regression):
    r"""Linear regression on a stream of heavy-tailed rows, with intervals; nothing to tune.

    Two estimates stand on one inverse Gram matrix. The first rows (50, or 5 per coefficient) are
    fitted together; every later row is a step

    $$ V_t = V_{t-1} + x_t x_t^\top / \nu_t^2, \qquad
       \theta_t = \theta_{t-1} + V_t^{-1} x_t \, \psi(z_t) / \nu_t,
       \qquad z_t = (y_t - x_t^\top\theta_{t-1}) / \nu_t, $$

    of each, in which $\psi$ clips

    - for f, the **typical** response, at ``clip`` times the running scale (1.4826 running medians
      of |z|, leaving out a value of y that more than half of the rows have, such as no purchase),
      divided by the share of rows not clipped so far, which makes it Newton's step for the Huber
      loss;
    - for a, the **mean** response, at a threshold that grows as the rows ask for
      (:mod:`heavytail.kernels.self_tuning`): a is consistent for every p > 1 of which a moment is
      finite, p unknown, and equals least squares where the noise is light.

    ``target="typical"`` answers f: for noise that is an error to be ignored, such as broken sensors
    or contaminated logs. ``target="mean"`` answers the mean: for noise that is real, such as
    revenue, cost or delay. The level is then a's, always. The slopes are f's, which is far more
    precise under heavy tails, unless what depends on x in the shape of the noise biases them:
    f's residuals clipped at a threshold between the two would move its slopes by more than chance
    (:func:`heavytail.estimators.symmetry.asymmetry`, wrongly in one case of a hundred); or f is not
    clearly the more precise by the residuals, as under normal noise. With clip = infinity all of it
    is ridge regression, exactly.

    **Interval.** sqrt(mean psi²) ‖x‖_{V^-1} of what was answered, times Student's quantile, as if
    noise, divided by its stated scale, had one size at every x. For the mean it reaches on to a,
    where f's slopes were taken, and by twice what a's own threshold cut off, on that side; and
    where the noise is not symmetric, so that a bias may be too small to be seen, f's slopes have
    the error of a's. With ``forget`` the variance also has what theta's own moves add to it: a step
    times the memory is theta's lead plus noise, so that its mean product with the steps just before
    it, over ten memories, is the mean square of the lead; and the interval reaches on by what the
    estimate has beyond its running mean today, which is the lead over a theta that moves steadily.
    In practice it covers the mean at about its level (tables in the docs); there is no
    finite-sample theorem. It covers less often than stated where noise is skewed and of infinite
    variance, where its size hangs strongly on x and no ``sample_scale`` says so, where its skew
    hangs on x alone and weakly, where far more than half of the rows lie on a line but for
    rounding, and where theta moves otherwise than in the last ten memories: in the first three, at
    a jump, or where it turns or returns within a fortieth of a memory. What slopes' moves have in
    common is not measured: where all of 20 slopes move as one, predictions at x = (1, ..., 1) are
    covered in 60 %, with 6 in 82 %.

    **Sharp** (``interval="sharp"``, needs ``tail`` and ``theta_bound``): the one-pass step of
    docs/mathematics/sharp.md on the features as they are, the constant 1 behind them unless there
    is no intercept, and its proved width. Where E[y - x'theta* | past] = 0, E|y - x'theta*|^p <=
    nu^p given the past and ‖theta*‖ <= S, all intervals hold at once with probability 1 - delta: at
    every x, after every row, however x was chosen. A level below 1 - delta is as much narrower as
    the theorem allows.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> model = ht.OnePassHuberRegressor(interval="sharp", tail=tail, theta_bound=5.0)
    >>> mean, low, high = model.fit([[1.0]], [2.0]).predict([[1.0]], return_interval=True)

    Cost: O(d²) per row, O(d²) memory whatever the number of rows. Not robust to outliers in X.

    >>> import heavytail as ht, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [1.0, -2.0] + 3.0 + rng.standard_t(1.5, 5000)
    >>> model = ht.OnePassHuberRegressor().partial_fit(X, y)
    >>> (model.coef_.round(1) + 0.0).tolist(), round(model.intercept_, 1)
    ([1.0, -2.0], 3.0)

    Args:
        target: "mean" or "typical".
        clip: f's threshold in scales; smaller is more robust, larger nearer least squares.
        scale: "auto", or the noise's scale where it is known.
        ridge: penalty on the slopes, in the unit of a row's squared feature.
        fit_intercept: whether there is a constant term.
        standardize: divide features by their standard deviation over the first rows, so that
            ``ridge`` means the same for all.
        forget: weight of a row one step older, at least 0.5; 1 remembers all alike, 0.999 about
            1,000 rows.
        level: of the intervals; 0.95 unless given, and 1 - delta where they are sharp.
        interval: "approximate", or "sharp", which is proved; then ``fit_intercept`` and ``level``
            alone of the above have a meaning, and the others must be left as they are.
        tail: the moment bound on the noise; nu of a row is its scale, times the row's
            ``sample_scale`` where that is given. Sharp only.
        theta_bound: S, at least the length of slopes and intercept together. Sharp only.
        delta: failure probability, 0.05 unless given; sharp only.
    """

    def __init__(
        self,
        *,
        target: str = "mean",
        clip: float = 1.0,
        scale: str | float = "auto",
        ridge: float = 1e-4,
        fit_intercept: bool = True,
        standardize: bool = False,
        forget: float = 1.0,
        level: float | None = None,
        interval: str = "approximate",
        tail: MomentBound | None = None,
        theta_bound: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.target = target
        self.clip = clip
        self.scale = scale
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.forget = forget
        self.level = level
        self.interval = interval
        self.tail = tail
        self.theta_bound = theta_bound
        self.delta = delta

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return sharp.NAMES if self.interval == "sharp" else NAMES

    @property
    def level_(self) -> float:
        """The level of the intervals; 1 - delta where they are sharp and none was given."""
        model = getattr(self, "model_", None)
        if self.level is None and isinstance(model, sharp.SharpStream):
            return model.level
        return super().level_

    def _quantile(self, level: float) -> float:
        if isinstance(self.model_, sharp.SharpStream):
            return self.model_.radius(level)
        return super()._quantile(level)

    def _refuse_unused(self, check: Check) -> None:
        kind = check.choice("interval", self.interval, tuple(UNUSED))
        arguments = inspect.signature(type(self)).parameters
        for name in UNUSED[kind]:
            value = getattr(self, name)
            if np.ndim(value) or value != arguments[name].default:
                raise ValueError(
                    f'{check.owner}.{name} must not be given for interval="{kind}", where it means '
                    f"nothing; got {shown(value)}."
                )

    def _model(self, dim: int) -> Model:
        check = self._check()
        self._refuse_unused(check)
        if self.interval == "sharp":
            return sharp.SharpStream(
                dim,
                check,
                tail=self.tail,
                theta_bound=self.theta_bound,
                delta=DELTA if self.delta is None else self.delta,
                intercept=check.flag("fit_intercept", self.fit_intercept),
                level=self.level,
            )
        return Stream(
            dim,
            clip=check.number("clip", self.clip, above=0.0, infinite=True),
            ridge=check.number("ridge", self.ridge, above=0.0),
            scale=check_scale(check, self.scale),
            intercept=check.flag("fit_intercept", self.fit_intercept),
            standardize=check.flag("standardize", self.standardize),
            forget=check.number("forget", self.forget, least=LEAST_FORGET, most=1.0),
            mean=check.choice("target", self.target, TARGETS) == "mean",
        )
