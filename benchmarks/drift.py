"""How far P = V^-1 drifts from the inverse of V after ten million rank-one updates.

    python -m benchmarks.drift [updates]

V is summed beside P with compensation (Kahan), so that what is measured is P's error.
"""

from __future__ import annotations

import sys

import numpy as np

from heavytail._typing import FloatArray
from heavytail.kernels.gram import shrink, transform
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import FEATURE, INVERSE, rows
from heavytail.kernels.random import uniform

SIZE, RIDGE, SIGMA = 16, 16.0, 0.01


@jit
def drive(M: FloatArray, V: FloatArray, lost: FloatArray, first: int, updates: int) -> None:
    """``updates`` arms, uniform on the cube and scaled to unit length, into P and into V."""
    weight = 1.0 / (SIGMA * SIGMA)
    for t in range(first, first + updates):
        length = 0.0
        for i in range(SIZE):
            M[FEATURE, i] = 2.0 * uniform(1, t, i) - 1.0
            length += M[FEATURE, i] ** 2
        for i in range(SIZE):
            M[FEATURE, i] /= length**0.5
        squared = transform(M)
        shrink(M, weight / (1.0 + weight * squared))
        for i in range(SIZE):
            for j in range(SIZE):
                term = weight * M[FEATURE, i] * M[FEATURE, j] - lost[i, j]
                total = V[i, j] + term
                lost[i, j] = (total - V[i, j]) - term
                V[i, j] = total


def main(updates: int = 10_000_000) -> float:
    """Print the error at powers of ten; return the last."""
    M = np.zeros((rows(SIZE), SIZE))
    M[INVERSE : INVERSE + SIZE] = np.eye(SIZE) / RIDGE
    V, lost = RIDGE * np.eye(SIZE), np.zeros((SIZE, SIZE))
    done, error = 0, 0.0
    print(f"d = {SIZE}, lambda = {RIDGE:g}, sigma = {SIGMA:g}, uniform arms")
    for goal in [10**k for k in range(3, 8) if 10**k <= updates]:
        drive(M, V, lost, done, goal - done)
        done = goal
        error = float(np.linalg.norm(V @ M[INVERSE : INVERSE + SIZE] - np.eye(SIZE), 2))
        print(f"{done:>10,} updates   ‖VP - I‖ = {error:.1e}")
    return error


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
