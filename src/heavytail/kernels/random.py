"""Counter-based randomness: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011).

A draw is a function of (key, counter) alone, so a policy's randomness is two numbers of its state,
a resumed run draws what an uninterrupted one would, and a trial on a GPU is the same whatever the
batch.
"""

from __future__ import annotations

import math

import numpy as np

from heavytail.kernels.jit import jit

__all__ = ["normal", "uniform", "uniform_pair"]

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0 = np.uint64(0xD2511F53)
_M1 = np.uint64(0xCD9E8D57)
_W0 = np.uint64(0x9E3779B9)
_W1 = np.uint64(0xBB67AE85)
_ROUNDS = 10
_SHIFT_A = np.uint64(5)
_SHIFT_B = np.uint64(6)


@jit
def _philox(key: int, high: int, low: int) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """The four 32-bit words of the block at counter (high, low) under ``key``."""
    c0 = np.uint64(low) & _MASK
    c1 = (np.uint64(low) >> _HALF) & _MASK
    c2 = np.uint64(high) & _MASK
    c3 = (np.uint64(high) >> _HALF) & _MASK
    k0 = np.uint64(key) & _MASK
    k1 = (np.uint64(key) >> _HALF) & _MASK
    for _ in range(_ROUNDS):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0 = (p1 >> _HALF) ^ c1 ^ k0
        c1 = p1 & _MASK
        c2 = (p0 >> _HALF) ^ c3 ^ k1
        c3 = p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@jit
def _join(a: np.uint64, b: np.uint64) -> float:
    """A number in [0, 1) from 53 bits of two 32-bit words."""
    return (float(a >> _SHIFT_A) * 67108864.0 + float(b >> _SHIFT_B)) / 9007199254740992.0


@jit
def uniform(key: int, high: int, low: int) -> float:
    """A number in [0, 1) with 53 random bits, fixed by (key, high, low)."""
    a, b, _, _ = _philox(key, high, low)
    return _join(a, b)


@jit
def uniform_pair(key: int, high: int, low: int) -> tuple[float, float]:
    """Two independent such numbers, from one block; the first is ``uniform``'s."""
    a, b, c, d = _philox(key, high, low)
    return _join(a, b), _join(c, d)


@jit
def normal(key: int, high: int, low: int) -> float:
    """A standard normal number fixed by (key, high, low), by Box and Muller from counters 2 low, 2
    low + 1.
    """
    u = 1.0 - uniform(key, high, 2 * low)
    v = uniform(key, high, 2 * low + 1)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
