"""Regressions with the scikit-learn interface, one file each. Needs the extra ``learn``."""

from __future__ import annotations

from heavytail.estimators.adaptive_huber import AdaptiveHuberRegressor
from heavytail.estimators.one_pass_huber import OnePassHuberRegressor
from heavytail.estimators.ridge import OnlineRidge

__all__ = ["AdaptiveHuberRegressor", "OnePassHuberRegressor", "OnlineRidge"]
