"""One import for a policy of your own: what its kernels, its numbers and its class are made of.

The guide to a new policy begins with ``from heavytail.policies.kit import ...``.
"""

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    COMMON,
    LOG_DET,
    OK,
    RADIUS,
    ROUNDS,
    Count,
    Fixed,
    Flag,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import learn, measure
from heavytail.policies.core.algorithm import Algorithm, History
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = [
    "CLIPPED",
    "COMMON",
    "LOG_DET",
    "OK",
    "RADIUS",
    "ROUNDS",
    "Algorithm",
    "Count",
    "Fixed",
    "Flag",
    "History",
    "Info",
    "Matrix",
    "MomentBound",
    "PackedPolicy",
    "Size",
    "Vector",
    "jit",
    "learn",
    "measure",
    "numbered",
    "predict",
]
