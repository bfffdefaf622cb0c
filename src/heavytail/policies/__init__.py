"""Policies, one file each. ``heavytail policies`` prints this list as a table like the paper's
Table 1.

A policy loads when it is first named; ``ALL`` names them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heavytail._lazy import lazy

if TYPE_CHECKING:
    from heavytail.policies.ada_oful import AdaOFUL
    from heavytail.policies.base import PackedPolicy, Policy
    from heavytail.policies.bmm import BMM
    from heavytail.policies.btc import BTC
    from heavytail.policies.build import make
    from heavytail.policies.crmm import CRMM
    from heavytail.policies.crt import CRT
    from heavytail.policies.crtm import CRTM
    from heavytail.policies.epsilon_greedy import EpsilonGreedy
    from heavytail.policies.heavy_oful import HeavyOFUL
    from heavytail.policies.huber_bandit import HuberBandit
    from heavytail.policies.hvt_ucb import HvtUCB
    from heavytail.policies.info import Info
    from heavytail.policies.lin_ts import LinTS
    from heavytail.policies.menu import MENU
    from heavytail.policies.mom import MoM
    from heavytail.policies.oful import OFUL
    from heavytail.policies.pool import Pool
    from heavytail.policies.robust_ucb import RobustUCB
    from heavytail.policies.storage import load
    from heavytail.policies.tofu import TOFU
    from heavytail.policies.uniform import Uniform

    ALL: tuple[type[Policy], ...]

# The policies, in the order of the table, and the module of each.
_POLICIES = {
    "HvtUCB": ".hvt_ucb",
    "HeavyOFUL": ".heavy_oful",
    "AdaOFUL": ".ada_oful",
    "HuberBandit": ".huber_bandit",
    "TOFU": ".tofu",
    "BTC": ".btc",
    "OFUL": ".oful",
    "CRTM": ".crtm",
    "CRMM": ".crmm",
    "MENU": ".menu",
    "CRT": ".crt",
    "MoM": ".mom",
    "BMM": ".bmm",
    "LinTS": ".lin_ts",
    "EpsilonGreedy": ".epsilon_greedy",
    "RobustUCB": ".robust_ucb",
    "Uniform": ".uniform",
}
_WHERE = {
    **_POLICIES,
    "Info": ".info",
    "PackedPolicy": ".base",
    "Policy": ".base",
    "Pool": ".pool",
    "load": ".storage",
    "make": ".build",
}
NAMES = tuple(_POLICIES)  # of the classes in ALL

__all__ = [
    "ALL",
    "BMM",
    "BTC",
    "CRMM",
    "CRT",
    "CRTM",
    "MENU",
    "OFUL",
    "TOFU",
    "AdaOFUL",
    "EpsilonGreedy",
    "HeavyOFUL",
    "HuberBandit",
    "HvtUCB",
    "Info",
    "LinTS",
    "MoM",
    "PackedPolicy",
    "Policy",
    "Pool",
    "RobustUCB",
    "Uniform",
    "load",
    "make",
]


_load = lazy(__name__, _WHERE)


def __getattr__(name: str) -> Any:
    if name == "ALL":
        return tuple(_load(policy) for policy in NAMES)
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
