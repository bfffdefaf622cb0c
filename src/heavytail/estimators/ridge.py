"""Ridge regression on a stream: what the one-pass Huber regression is without a clip."""

from __future__ import annotations

import math
from typing import final

from heavytail.estimators.base import Model, Regression
from heavytail.estimators.stream import LEAST_FORGET, NAMES, Stream

__all__ = ["OnlineRidge"]


@final
class OnlineRidge(Regression):
    r"""Least squares with a penalty on the slopes, one row at a time, exact to rounding.

    $$ \theta = \arg\min \sum_s (y_s - x_s^\top\theta)^2 / \nu_s^2 + \lambda \|\theta\|^2 $$

    The efficient choice for normal noise; one outlier moves it as far as it likes. O(d²) per row,
    O(d²) memory. Intervals are the classical ones, and with ``forget`` hold a theta that walks or
    turns as those of :class:`OnePassHuberRegressor` do.

    >>> import heavytail as ht
    >>> model = ht.OnlineRidge().partial_fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> round(float(model.predict([[3.0]])[0]), 3)
    7.0

    Args:
        ridge: lambda.
        fit_intercept: whether there is a constant term; it is not penalised.
        standardize: divide features by their standard deviation over the first rows.
        forget: weight of a row one step older, at least 0.5; 1 remembers all alike.
        level: of the intervals.
    """

    def __init__(
        self,
        *,
        ridge: float = 1e-4,
        fit_intercept: bool = True,
        standardize: bool = False,
        forget: float = 1.0,
        level: float = 0.95,
    ) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.forget = forget
        self.level = level

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return NAMES

    def _model(self, dim: int) -> Model:
        check = self._check()
        return Stream(
            dim,
            clip=math.inf,
            ridge=check.number("ridge", self.ridge, above=0.0),
            scale=None,
            intercept=check.flag("fit_intercept", self.fit_intercept),
            standardize=check.flag("standardize", self.standardize),
            forget=check.number("forget", self.forget, least=LEAST_FORGET, most=1.0),
            mean=False,
        )
