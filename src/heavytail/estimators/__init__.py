"""Regressions with the scikit-learn interface, one file each. Needs the extra ``learn``.

A regression, and scikit-learn with it, loads when it is first named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heavytail._lazy import lazy

if TYPE_CHECKING:
    from heavytail.estimators.adaptive_huber import AdaptiveHuberRegressor
    from heavytail.estimators.one_pass_huber import OnePassHuberRegressor
    from heavytail.estimators.ridge import OnlineRidge

_WHERE = {
    "AdaptiveHuberRegressor": ".adaptive_huber",
    "OnePassHuberRegressor": ".one_pass_huber",
    "OnlineRidge": ".ridge",
}
ALL = tuple(_WHERE)  # names, because naming one loads scikit-learn

__all__ = ["ALL", "AdaptiveHuberRegressor", "OnePassHuberRegressor", "OnlineRidge"]

__getattr__ = lazy(__name__, _WHERE)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
