"""heavytail: decide and learn under heavy-tailed rewards, in one pass.

>>> import heavytail as ht
>>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
>>> arms = [[1.0, 0.0], [0.0, 1.0]]
>>> arm = policy.select(arms)
>>> policy.update(arms[arm], reward=3.0)

Names load when they are first used, so that importing the package costs little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heavytail._lazy import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from heavytail import checks, control, mdp, noise, tails
    from heavytail._load import load
    from heavytail.environments import LinearBandit
    from heavytail.estimators import AdaptiveHuberRegressor, OnePassHuberRegressor, OnlineRidge
    from heavytail.policies import (
        BMM,
        BTC,
        CRMM,
        CRT,
        CRTM,
        MENU,
        OFUL,
        TOFU,
        AdaOFUL,
        EpsilonGreedy,
        HeavyOFUL,
        HuberBandit,
        HvtUCB,
        LinTS,
        MoM,
        Policy,
        Pool,
        RobustUCB,
        Uniform,
        make,
    )
    from heavytail.simulation import Results, simulate
    from heavytail.tails import MomentBound

_WHERE = {
    "MomentBound": ".tails",
    "HvtUCB": ".policies",
    "AdaOFUL": ".policies",
    "HuberBandit": ".policies",
    "TOFU": ".policies",
    "BTC": ".policies",
    "HeavyOFUL": ".policies",
    "OFUL": ".policies",
    "CRTM": ".policies",
    "CRMM": ".policies",
    "LinTS": ".policies",
    "EpsilonGreedy": ".policies",
    "RobustUCB": ".policies",
    "MENU": ".policies",
    "CRT": ".policies",
    "MoM": ".policies",
    "BMM": ".policies",
    "Uniform": ".policies",
    "Policy": ".policies",
    "Pool": ".policies",
    "load": "._load",
    "make": ".policies",
    "OnePassHuberRegressor": ".estimators",
    "AdaptiveHuberRegressor": ".estimators",
    "OnlineRidge": ".estimators",
    "LinearBandit": ".environments",
    "simulate": ".simulation",
    "Results": ".simulation",
    **{module: f".{module}" for module in ("checks", "control", "mdp", "noise", "tails")},
}

__all__ = [
    "BMM",
    "BTC",
    "CRMM",
    "CRT",
    "CRTM",
    "MENU",
    "OFUL",
    "TOFU",
    "AdaOFUL",
    "AdaptiveHuberRegressor",
    "EpsilonGreedy",
    "HeavyOFUL",
    "HuberBandit",
    "HvtUCB",
    "LinTS",
    "LinearBandit",
    "MoM",
    "MomentBound",
    "OnePassHuberRegressor",
    "OnlineRidge",
    "Policy",
    "Pool",
    "Results",
    "RobustUCB",
    "Uniform",
    "checks",
    "control",
    "load",
    "make",
    "mdp",
    "noise",
    "simulate",
    "tails",
]


__getattr__ = lazy(__name__, _WHERE)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
