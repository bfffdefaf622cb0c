"""The kernels that write vectors: numbers, places and maps as entries, and blocks as their products.

A column of a row is a list of entries (place, value), its features that may differ from 0: place -1
says that there is none. An entry is coded from ``raw`` numbers: a number itself, NaN where it is
missing, or the place of a category, -1 where it is unknown. A block multiplies its columns' entries
and writes them times its weight. Decisions, tables and logs all go through the two kernels, hence
the same bits.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import IntArray, Matrices, Matrix, Vector
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import numbered

__all__ = ["BLOCK", "FACTOR", "FOURIER", "GIVEN", "HALF", "LEAVES", "NODE", "NUMBER", "PLACE", "code", "write"]  # fmt: skip

PLACE, NUMBER, FOURIER, LEAVES, GIVEN = range(5)  # what a column's entries are made of
HALF: Final = 0.7071067811865475  # 1 / sqrt(2), rounded down
NODE: Final = 4  # numbers of a node: input, threshold, where to go if not above it, and if above


class Factor(NamedTuple):
    """What the kernels know of a column, or of a map."""

    KIND: int
    SIDE: int  # 0: the context has it, 1: the arm, 2: both of them together
    ENTRY: int  # the first of its entries
    OWN: int  # entries in its own block
    CROSSED: int  # entries in crosses: all but the flag of a missing number
    WIDTH: int  # features in crosses
    RAW: int  # the first of the raw numbers that it is coded from
    INPUTS: int  # how many these are
    SIZE: int  # knots, pairs of cosine and sine, or trees
    NUMBERS: int  # where its parameters begin


class Block(NamedTuple):
    """What the kernels know of a block; the numbers of its columns follow."""

    START: int  # its first feature
    COUNT: int  # columns


FACTOR: Final = numbered(Factor)
BLOCK: Final = numbered(Block)
_FIRST: Final = len(BLOCK)


@jit
def code_number(entries: Matrices, r: int, e: int, v: float, numbers: Vector, at: int) -> None:
    """z = (v - c) / (clip s), cut to [-1, 1], and the hats around v; 0 and the flag if missing."""
    knots = int(numbers[at + 2])
    gone = math.isnan(v)
    z = 0.0
    if not gone:
        z = (v - numbers[at]) / numbers[at + 1]
        if z < -1.0:
            z = -1.0
        elif z > 1.0:
            z = 1.0
    entries[r, e, 0] = 0.0
    entries[r, e, 1] = z
    flag = e + 1
    if knots > 0:
        entries[r, e, 1] = HALF * z
        flag = e + 3
        first = at + 3
        last = first + knots - 1
        k = first
        while k < last - 1 and v >= numbers[k + 1]:
            k += 1
        t = (v - numbers[k]) / (numbers[k + 1] - numbers[k])
        if t < 0.0:
            t = 0.0
        elif t > 1.0:
            t = 1.0
        entries[r, e + 1, 0] = -1.0 if gone else 1.0 + k - first
        entries[r, e + 1, 1] = HALF * (1.0 - t)
        entries[r, e + 2, 0] = -1.0 if gone else 2.0 + k - first
        entries[r, e + 2, 1] = HALF * t
    if numbers[at + 3 + knots] > 0.0:  # its missing values have a feature, the last
        entries[r, flag, 0] = 1.0 + knots if gone else -1.0
        entries[r, flag, 1] = 1.0


@jit
def code_fourier(
    entries: Matrices, r: int, e: int, raw: Matrix, first: int, inputs: int, pairs: int,
    numbers: Vector, at: int,
) -> None:  # fmt: skip
    """sqrt(1/m) (cos, sin)(w_k'z), k = 1, ..., m; nothing where a number is missing.

    O(m inputs). The parameters are centre and scale of each input, the factor, and the rows w_k.
    """
    size = numbers[at + 2 * inputs]
    gone = False
    for i in range(inputs):
        gone = gone or math.isnan(raw[r, first + i])
    for k in range(pairs):
        angle = 0.0
        for i in range(inputs):
            z = (raw[r, first + i] - numbers[at + 2 * i]) / numbers[at + 2 * i + 1]
            if z < -1.0:
                z = -1.0
            elif z > 1.0:
                z = 1.0
            angle += numbers[at + 2 * inputs + 1 + k * inputs + i] * z
        entries[r, e + 2 * k, 0] = -1.0 if gone else 2.0 * k
        entries[r, e + 2 * k, 1] = size * math.cos(angle)
        entries[r, e + 2 * k + 1, 0] = -1.0 if gone else 2.0 * k + 1.0
        entries[r, e + 2 * k + 1, 1] = size * math.sin(angle)


@jit
def code_leaves(
    entries: Matrices, r: int, e: int, raw: Matrix, first: int, inputs: int, trees: int,
    numbers: Vector, at: int,
) -> None:  # fmt: skip
    """The leaf of each tree, 1 / sqrt(trees); nothing where a number is missing.

    O(depth) a tree. The parameters are the factor, the root of each tree, and the nodes; a leaf's
    input is -1, and its place stands where its threshold would.
    """
    gone = False
    for i in range(inputs):
        gone = gone or math.isnan(raw[r, first + i])
    nodes = at + 1 + trees
    for t in range(trees):
        node = nodes + NODE * int(numbers[at + 1 + t])
        while numbers[node] >= 0.0 and not gone:
            above = raw[r, first + int(numbers[node])] > numbers[node + 1]
            node = nodes + NODE * int(numbers[node + 3 if above else node + 2])
        entries[r, e + t, 0] = -1.0 if gone else numbers[node + 1]
        entries[r, e + t, 1] = numbers[at]


@jit
def code(entries: Matrices, raw: Matrix, factors: IntArray, numbers: Vector, side: int) -> None:
    """Code the columns of one side, of every row of ``raw``."""
    for f in range(factors.shape[0]):
        kind = factors[f, FACTOR.KIND]
        if factors[f, FACTOR.SIDE] != side or kind == GIVEN:
            continue
        e = factors[f, FACTOR.ENTRY]
        first = factors[f, FACTOR.RAW]
        inputs = factors[f, FACTOR.INPUTS]
        size = factors[f, FACTOR.SIZE]
        at = factors[f, FACTOR.NUMBERS]
        for r in range(raw.shape[0]):
            if kind == PLACE:
                entries[r, e, 0] = raw[r, first]
                entries[r, e, 1] = 1.0
            elif kind == NUMBER:
                code_number(entries, r, e, raw[r, first], numbers, at)
            elif kind == FOURIER:
                code_fourier(entries, r, e, raw, first, inputs, size, numbers, at)
            else:
                code_leaves(entries, r, e, raw, first, inputs, size, numbers, at)


@jit
def write(
    X: Matrix, factors: IntArray, blocks: IntArray, weights: Vector, room: Matrix,
    context: Matrices, row: IntArray, arm: Matrices, which: IntArray, both: Matrices,
) -> None:  # fmt: skip
    """Write the vectors of arms ``which`` in the contexts of ``row`` to X, which is 0.

    A block of columns f, g, ... is their Kronecker product: entries (p, v) and (q, u) give
    (p width_g + q, v u), and nothing where either is nothing. ``room`` has space for the entries
    of a row, and behind them for those of a block. O(features that are not 0).
    """
    product = context.shape[1]
    for i in range(X.shape[0]):
        for f in range(factors.shape[0]):
            side = factors[f, FACTOR.SIDE]
            if side == 0 and i > 0 and row[i] == row[i - 1]:
                continue  # it lies there
            for e in range(factors[f, FACTOR.ENTRY], factors[f, FACTOR.ENTRY] + factors[f, FACTOR.OWN]):
                for k in range(2):
                    if side == 0:
                        room[e, k] = context[row[i], e, k]
                    elif side == 1:
                        room[e, k] = arm[which[i], e, k]
                    else:
                        room[e, k] = both[i, e, k]
        for b in range(blocks.shape[0]):
            start = blocks[b, BLOCK.START]
            weight = weights[b]
            columns = blocks[b, BLOCK.COUNT]
            f = blocks[b, _FIRST]
            begin = factors[f, FACTOR.ENTRY]
            length = factors[f, FACTOR.OWN]
            if columns > 1:
                length = factors[f, FACTOR.CROSSED]
                for e in range(length):
                    room[product + e, 0] = room[begin + e, 0]
                    room[product + e, 1] = room[begin + e, 1]
                begin = product
            for c in range(1, columns):
                f = blocks[b, _FIRST + c]
                first = factors[f, FACTOR.ENTRY]
                more = factors[f, FACTOR.CROSSED]
                width = factors[f, FACTOR.WIDTH]
                for a in range(length - 1, -1, -1):  # in place, hence from the end
                    place = room[product + a, 0]
                    value = room[product + a, 1]
                    for e in range(more - 1, -1, -1):
                        to = product + a * more + e
                        nothing = place < 0.0 or room[first + e, 0] < 0.0
                        room[to, 0] = -1.0 if nothing else place * width + room[first + e, 0]
                        room[to, 1] = value * room[first + e, 1]
                length *= more
            for e in range(begin, begin + length):
                if room[e, 0] >= 0.0:
                    X[i, start + int(room[e, 0])] = weight * room[e, 1]
