"""Rewards kept by the features they were paid for, so that truncated sums need not visit them all.

Rows of H with the same features (and stage) are a group. Its rewards are a list from the largest
|y| down, and each row knows the sum of y from itself on. What a threshold leaves is then one sum,
found past the few rewards it truncates, and never as a difference in which an outlier would drown
the rest. Row g of H also describes group g, its features first.
"""

from __future__ import annotations

from typing import Final

from heavytail._typing import Matrix
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import FEATURE, SCRATCH

__all__ = ["FOLLOWING", "HEAD", "WIDTH", "find_group", "insert", "truncated_sum"]

# Columns of H, counted from behind the features.
REWARD: Final = 0
FOLLOWING: Final = 1  # the row next in the list, -1 at its end
REST: Final = 2  # the sum of y over this row and those after it
HEAD: Final = 3  # of group g: the row of largest |y|
COUNT: Final = 4  # of group g
STAGE: Final = 5  # of group g
WIDTH: Final = 6


@jit
def find_group(M: Matrix, H: Matrix, groups: int, stage: int) -> int:
    """The group of the features in FEATURE; a new and empty one, number ``groups``, where there is
    none. O(groups d).
    """
    size = M.shape[1]
    for g in range(groups):
        same = H[g, size + STAGE] == stage
        for j in range(size):
            same = same and H[g, j] == M[FEATURE, j]
        if same:
            return g
    for j in range(size):
        H[groups, j] = M[FEATURE, j]
    H[groups, size + HEAD] = -1.0
    H[groups, size + COUNT] = 0.0
    H[groups, size + STAGE] = stage
    return groups


@jit
def insert(M: Matrix, H: Matrix, row: int, group: int, reward: float) -> None:
    """Put a reward into its group's list. O(length), all of it rows that are larger."""
    size = M.shape[1]
    before = -1
    here = int(H[group, size + HEAD])
    while here >= 0 and abs(H[here, size + REWARD]) > abs(reward):
        H[here, size + REST] += reward
        before = here
        here = int(H[here, size + FOLLOWING])
    H[row, size + REWARD] = reward
    H[row, size + FOLLOWING] = here
    H[row, size + REST] = reward + (H[here, size + REST] if here >= 0 else 0.0)
    if before < 0:
        H[group, size + HEAD] = row
    else:
        H[before, size + FOLLOWING] = row
    H[group, size + COUNT] += 1.0


@jit
def truncated_sum(
    M: Matrix, H: Matrix, groups: int, stage: int, order: float, scale: float
) -> float:
    """sum_s h_s y_s 1{|h_s y_s| <= scale ‖h‖_p}, h_s = x_s'u for u in SCRATCH, over one stage.

    O(groups d), and one step for every reward truncated.
    """
    size = M.shape[1]
    power = 0.0
    for g in range(groups):
        if H[g, size + STAGE] != stage:
            continue
        h = 0.0
        for j in range(size):
            h += H[g, j] * M[SCRATCH, j]
        power += H[g, size + COUNT] * (h * h if order == 2.0 else abs(h) ** order)
    level = scale * power ** (1.0 / order)
    total = 0.0
    for g in range(groups):
        if H[g, size + STAGE] != stage:
            continue
        h = 0.0
        for j in range(size):
            h += H[g, j] * M[SCRATCH, j]
        if h == 0.0:
            continue
        limit = level / abs(h)
        row = int(H[g, size + HEAD])
        while row >= 0 and abs(H[row, size + REWARD]) > limit:
            row = int(H[row, size + FOLLOWING])
        if row >= 0:
            total += h * H[row, size + REST]
    return total
