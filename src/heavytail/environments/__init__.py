"""Environments: noise with known moments, and the bandits made of it."""

from __future__ import annotations

from heavytail.environments.arm_set import ArmSet, ArmSetBandit
from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.linear_bandit import LinearBandit
from heavytail.environments.link_bandit import LinkBandit
from heavytail.environments.low_rank_bandit import LowRankBandit
from heavytail.environments.skewed_bandit import SKEWS, Skew, SkewedBandit

__all__ = [
    "BLOCK",
    "SKEWS",
    "ArmSet",
    "ArmSetBandit",
    "Block",
    "Environment",
    "LinearBandit",
    "LinkBandit",
    "LowRankBandit",
    "Skew",
    "SkewedBandit",
]
