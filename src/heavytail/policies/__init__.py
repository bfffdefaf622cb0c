"""Policies, one file each. ``heavytail policies`` prints this list as a table like the paper's
Table 1.
"""

from __future__ import annotations

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

ALL: tuple[type[Policy], ...] = (
    HvtUCB,
    HeavyOFUL,
    AdaOFUL,
    HuberBandit,
    TOFU,
    BTC,
    OFUL,
    CRTM,
    CRMM,
    MENU,
    CRT,
    MoM,
    BMM,
    LinTS,
    EpsilonGreedy,
    RobustUCB,
    Uniform,
)

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
