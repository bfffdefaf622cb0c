"""heavytail: decide and learn under heavy-tailed rewards, in one pass.

>>> import heavytail as ht
>>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
>>> arms = [[1.0, 0.0], [0.0, 1.0]]
>>> arm = policy.select(arms)
>>> policy.update(arms[arm], reward=3.0)

Names load when they are first used, so that importing the package costs little.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from heavytail import checks, control, mdp, noise, tails
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
        load,
        make,
    )
    from heavytail.simulation import Results, simulate
    from heavytail.tails import MomentBound

_WHERE = {
    "MomentBound": "heavytail.tails",
    "HvtUCB": "heavytail.policies",
    "AdaOFUL": "heavytail.policies",
    "HuberBandit": "heavytail.policies",
    "TOFU": "heavytail.policies",
    "BTC": "heavytail.policies",
    "HeavyOFUL": "heavytail.policies",
    "OFUL": "heavytail.policies",
    "CRTM": "heavytail.policies",
    "CRMM": "heavytail.policies",
    "LinTS": "heavytail.policies",
    "EpsilonGreedy": "heavytail.policies",
    "RobustUCB": "heavytail.policies",
    "MENU": "heavytail.policies",
    "CRT": "heavytail.policies",
    "MoM": "heavytail.policies",
    "BMM": "heavytail.policies",
    "Uniform": "heavytail.policies",
    "Policy": "heavytail.policies",
    "Pool": "heavytail.policies",
    "load": "heavytail.policies",
    "make": "heavytail.policies",
    "OnePassHuberRegressor": "heavytail.estimators",
    "AdaptiveHuberRegressor": "heavytail.estimators",
    "OnlineRidge": "heavytail.estimators",
    "LinearBandit": "heavytail.environments",
    "simulate": "heavytail.simulation",
    "Results": "heavytail.simulation",
}
_MODULES = ("checks", "control", "mdp", "noise", "tails")

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


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"heavytail.{name}")
    raise AttributeError(f"module 'heavytail' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
