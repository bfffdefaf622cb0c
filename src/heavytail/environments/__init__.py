"""Environments: noise with known moments, and the linear bandits made of it."""

from __future__ import annotations

from heavytail.environments.base import BLOCK, Block, Environment
from heavytail.environments.linear_bandit import LinearBandit
from heavytail.environments.skewed_bandit import SKEWS, Skew, SkewedBandit

__all__ = ["BLOCK", "SKEWS", "Block", "Environment", "LinearBandit", "Skew", "SkewedBandit"]
