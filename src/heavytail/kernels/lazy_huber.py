"""The exact Huber fit of every round, amortised: only rows that may have changed region are looked
at again.

Given every row's region (inside ±tau, above, below) the loss is one quadratic, theta'Q theta / 2 -
c'theta, whose sums are kept. A row with residual z changes region only after theta has moved by
|\\|z\\| - tau| / ‖a‖. So each row carries the length of theta's path at which it must be looked at
again, in a heap; a round pops the few rows that are due. When no due row has changed region, the
quadratic's minimiser over the ball is the minimiser of the loss, exactly.

The heap lies in H: position i of it names a row in column HEAP, and a row's due length stands in
its column KEY.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.batch import TARGET, TAU, newton, residual
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import OWN, THETA
from heavytail.kernels.quadratic import LINEAR, NEXT, first_extra, minimise_quadratic

__all__ = ["HEAP", "PATH", "fit"]

PATH: Final = OWN  # slot of s: the length of theta's path since the heap was built

# Columns of H, counted from behind the features.
REGION: Final = 2  # -1 below, 0 inside, 1 above
KEY: Final = 3
HEAP: Final = 4

MOST_STEPS: Final = 30  # full steps before the safeguarded iteration takes over


@jit
def shift(M: Matrix, H: Matrix, row: int, region: float, sign: float) -> None:
    """Add (sign 1) or take away (-1) what a row in ``region`` gives to the sums Q and c."""
    size = M.shape[1]
    Q = first_extra(size)
    inside = region == 0.0
    pull = H[row, size + TARGET] if inside else region * H[row, size + TAU]
    for i in range(size):
        scaled = sign * H[row, i]
        M[Q + size + LINEAR, i] += pull * scaled
        if inside:
            for j in range(i + 1):
                M[Q + i, j] += scaled * H[row, j]


@jit
def look(s: Vector, M: Matrix, H: Matrix, row: int) -> float:
    """A row's region at theta; its KEY is set to the path length at which to look again."""
    size = M.shape[1]
    z = residual(M, H, row, THETA)
    tau = H[row, size + TAU]
    squared = 0.0
    for i in range(size):
        squared += H[row, i] * H[row, i]
    margin = abs(abs(z) - tau)
    H[row, size + KEY] = s[PATH] + margin / math.sqrt(squared) if squared > 0.0 else math.inf
    if abs(z) <= tau:
        return 0.0
    return math.copysign(1.0, z)


@jit
def sink(H: Matrix, count: int, start: int, size: int) -> None:
    """Let the row at a heap position sink to its place."""
    key = size + KEY
    heap = size + HEAP
    row = int(H[start, heap])
    here = start
    while True:
        child = 2 * here + 1
        if child >= count:
            break
        other = child + 1
        if other < count and H[int(H[other, heap]), key] < H[int(H[child, heap]), key]:
            child = other
        if not (H[int(H[child, heap]), key] < H[row, key]):
            break
        H[here, heap] = H[child, heap]
        here = child
    H[here, heap] = row


@jit
def rise(H: Matrix, start: int, size: int) -> None:
    """Let the row at a heap position rise to its place."""
    key = size + KEY
    heap = size + HEAP
    row = int(H[start, heap])
    here = start
    while here > 0:
        parent = (here - 1) // 2
        if not (H[row, key] < H[int(H[parent, heap]), key]):
            break
        H[here, heap] = H[parent, heap]
        here = parent
    H[here, heap] = row


@jit
def build(s: Vector, M: Matrix, H: Matrix, count: int, ridge: float) -> None:
    """Sums, regions and heap from the rows alone. O(count d²)."""
    size = M.shape[1]
    Q = first_extra(size)
    for i in range(size):
        for j in range(i):
            M[Q + i, j] = 0.0
        M[Q + i, i] = ridge
        M[Q + size + LINEAR, i] = 0.0
    s[PATH] = 0.0
    for row in range(count):
        region = look(s, M, H, row)
        H[row, size + REGION] = region
        H[row, size + HEAP] = row
        shift(M, H, row, region, 1.0)
    for start in range(count // 2 - 1, -1, -1):
        sink(H, count, start, size)


@jit
def follow(s: Vector, M: Matrix, H: Matrix, count: int) -> int:
    """Look again at every row that is due; return how many changed region."""
    size = M.shape[1]
    changed = 0
    while H[int(H[0, size + HEAP]), size + KEY] < s[PATH]:
        row = int(H[0, size + HEAP])
        region = look(s, M, H, row)
        before = H[row, size + REGION]
        if region != before:
            shift(M, H, row, before, -1.0)
            shift(M, H, row, region, 1.0)
            H[row, size + REGION] = region
            changed += 1
        sink(H, count, 0, size)
    return changed


@jit
def fit(s: Vector, M: Matrix, H: Matrix, count: int, ridge: float, bound: float) -> None:
    """Move THETA to the minimiser over all ``count`` rows, the last of them new.

    O(d³ + log t) amortised while few rows are near their threshold; the sums are made anew, against
    rounding, whenever the rows have doubled.
    """
    size = M.shape[1]
    new = count - 1
    if count & new == 0:
        build(s, M, H, count, ridge)
    else:
        region = look(s, M, H, new)
        H[new, size + REGION] = region
        H[new, size + HEAP] = new
        shift(M, H, new, region, 1.0)
        rise(H, new, size)
    following = first_extra(size) + size + NEXT
    for _ in range(MOST_STEPS):
        minimise_quadratic(M, ridge, bound)
        moved = 0.0
        for i in range(size):
            step = M[following, i] - M[THETA, i]
            moved += step * step
            M[THETA, i] = M[following, i]
        s[PATH] += math.sqrt(moved)
        if follow(s, M, H, count) == 0:
            return
    newton(M, H, count, THETA, ridge, bound, 0.0, False, 0, -1)
    build(s, M, H, count, ridge)
