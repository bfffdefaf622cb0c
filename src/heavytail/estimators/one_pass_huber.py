"""Robust linear regression on a stream: the one-pass Huber step with a scale of its own."""

from __future__ import annotations

from typing import final

from heavytail.estimators.base import Model, Regression, check_scale
from heavytail.estimators.stream import Stream

__all__ = ["OnePassHuberRegressor"]


@final
class OnePassHuberRegressor(Regression):
    r"""Linear regression that outliers do not move, in one pass, with intervals; nothing to tune.

    The first rows (50, or 5 per coefficient) are fitted together; every later row is one step

    $$ V_t = V_{t-1} + x_t x_t^\top / \nu_t^2, \qquad
       \theta_t = \theta_{t-1} + \frac{1}{q_t} V_t^{-1} x_t \, \psi(z_t) / \nu_t,
       \qquad z_t = (y_t - x_t^\top\theta_{t-1}) / \nu_t, $$

    with $\psi$ clipping at ``clip`` times the running scale (1.4826 running medians of |z|, leaving
    out a value of y that more than half of the rows have, such as no purchase) and
    $q_t$ the share of rows not clipped so far, so that the step is Newton's for the Huber loss.
    With clip = infinity it is ridge regression, exactly.

    **Intercept.** Under skewed noise a clip moves the intercept away from the mean. Sixteen
    groups of rows keep their sums, and the mean of the middle eight of their mean residuals (a
    median of means, smoothed) is added back once at least 14 groups agree on its sign (0.4 % of
    symmetric cases). Its error is of the order n^-((p-1)/p) for every p in (1, 2] of which a moment
    is finite, with p unknown.

    **Interval.** Sandwich: sqrt(mean psi²) / q ‖x‖_{V^-1} times Student's quantile, and where the
    intercept was corrected, longer on the side of the tail. In practice it
    covers at its level for noise independent of x (tables in the docs); there is no finite-sample
    theorem. Skewed noise with an infinite variance is covered less often than stated, and noise
    that is skewed *and* of a size that depends on x biases the slopes of any Huber fit.

    Cost: O(d²) per row, O(d²) memory whatever the number of rows. Robust to any y; not to outliers
    in X.

    >>> import heavytail as ht, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X @ [1.0, -2.0] + 3.0 + rng.standard_t(1.5, 5000)
    >>> model = ht.OnePassHuberRegressor().partial_fit(X, y)
    >>> (model.coef_.round(1) + 0.0).tolist(), round(model.intercept_, 1)
    ([1.0, -2.0], 3.0)

    Args:
        clip: the threshold in scales; smaller is more robust, larger nearer least squares.
        scale: "auto", or the noise's scale where it is known.
        ridge: penalty on the slopes, in the unit of a row's squared feature.
        fit_intercept: whether there is a constant term.
        standardize: divide features by their standard deviation over the first rows, so that
            ``ridge`` means the same for all.
        forget: weight of a row one step older; 1 remembers all alike, 0.999 about 1,000 rows.
        level: of the intervals.
    """

    def __init__(
        self,
        *,
        clip: float = 1.0,
        scale: str | float = "auto",
        ridge: float = 1e-4,
        fit_intercept: bool = True,
        standardize: bool = False,
        forget: float = 1.0,
        level: float = 0.95,
    ) -> None:
        self.clip = clip
        self.scale = scale
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.forget = forget
        self.level = level

    def _model(self, dim: int) -> Model:
        check = self._check()
        return Stream(
            dim,
            clip=check.number("clip", self.clip, above=0.0, infinite=True),
            ridge=check.number("ridge", self.ridge, above=0.0),
            scale=check_scale(check, self.scale),
            intercept=bool(self.fit_intercept),
            standardize=bool(self.standardize),
            forget=check.number("forget", self.forget, above=0.0, most=1.0),
        )
