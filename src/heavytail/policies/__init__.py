"""Policies, one file each. ``heavytail policies`` prints this list as a table like the paper's
Table 1.
"""

from __future__ import annotations

from heavytail.policies.base import PackedPolicy, Policy
from heavytail.policies.build import make
from heavytail.policies.crmm import CRMM
from heavytail.policies.crtm import CRTM
from heavytail.policies.hvt_ucb import HvtUCB
from heavytail.policies.info import Info
from heavytail.policies.oful import OFUL
from heavytail.policies.storage import load
from heavytail.policies.uniform import Uniform

ALL: tuple[type[Policy], ...] = (
    HvtUCB,
    OFUL,
    CRTM,
    CRMM,
    Uniform,
)

__all__ = [
    "ALL",
    "CRMM",
    "CRTM",
    "OFUL",
    "HvtUCB",
    "Info",
    "PackedPolicy",
    "Policy",
    "Uniform",
    "load",
    "make",
]
