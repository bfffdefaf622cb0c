"""The kernels that write vectors: columns as entries, and blocks as products of these.

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

__all__ = [
    "BLOCK",
    "CONTEXT",
    "FACTOR",
    "FOURIER",
    "GIVEN",
    "LEAVES",
    "NUMBER",
    "OFFER",
    "PLACE",
    "TOGETHER",
    "code",
    "code_and_write",
    "write",
]

PLACE, NUMBER, FOURIER, LEAVES, GIVEN = range(5)  # what a column's entries are made of
CONTEXT, OFFER, TOGETHER = range(3)  # who has a column: the context, the arm, or both in part
HALF: Final = 0.7071067811865475  # 1 / sqrt(2), rounded down
NODE: Final = 4  # numbers of a node: input, threshold, where to go if not above it, and if above


class Factor(NamedTuple):
    """The numbers by which kernels know a column, or a map."""

    KIND: int
    SIDE: int  # who has it
    ENTRY: int  # the first of its entries
    OWN: int  # entries in its own block
    CROSSED: int  # entries in crosses: all but the flag of a missing number
    WIDTH: int  # features in crosses
    RAW: int  # the first of the raw numbers that it is coded from
    INPUTS: int  # how many these are
    SIZE: int  # knots, pairs of cosine and sine, or trees
    NUMBERS: int  # where its parameters begin


class Block(NamedTuple):
    """The numbers by which kernels know a block; those of its columns follow."""

    START: int  # its first feature
    WEIGHT: int  # where its weight stands among the parameters
    COUNT: int  # columns


FACTOR: Final = numbered(Factor)
BLOCK: Final = numbered(Block)
_FIRST: Final = len(BLOCK)


@jit
def code_number(coded: Matrices, r: int, e: int, v: float, numbers: Vector, at: int) -> None:
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
    coded[r, e, 0] = 0.0
    coded[r, e, 1] = z
    flag = e + 1
    if knots > 0:
        coded[r, e, 1] = HALF * z
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
        coded[r, e + 1, 0] = -1.0 if gone else 1.0 + k - first
        coded[r, e + 1, 1] = HALF * (1.0 - t)
        coded[r, e + 2, 0] = -1.0 if gone else 2.0 + k - first
        coded[r, e + 2, 1] = HALF * t
    if numbers[at + 3 + knots] > 0.0:  # its missing values have a feature, the last
        coded[r, flag, 0] = 1.0 + knots if gone else -1.0
        coded[r, flag, 1] = 1.0


@jit
def code_fourier(
    coded: Matrices, r: int, e: int, raw: Matrix, i_raw: int, first: int, inputs: int, pairs: int,
    numbers: Vector, at: int,
) -> None:  # fmt: skip
    """sqrt(1/m) (cos, sin)(w_k'z), k = 1, ..., m; nothing where a number is missing.

    O(m inputs). The parameters are centre and scale of each input, the factor, and the rows w_k.
    """
    size = numbers[at + 2 * inputs]
    gone = False
    for i in range(inputs):
        gone = gone or math.isnan(raw[i_raw, first + i])
    for k in range(pairs):
        angle = 0.0
        for i in range(inputs):
            z = (raw[i_raw, first + i] - numbers[at + 2 * i]) / numbers[at + 2 * i + 1]
            if z < -1.0:
                z = -1.0
            elif z > 1.0:
                z = 1.0
            angle += numbers[at + 2 * inputs + 1 + k * inputs + i] * z
        coded[r, e + 2 * k, 0] = -1.0 if gone else 2.0 * k
        coded[r, e + 2 * k, 1] = size * math.cos(angle)
        coded[r, e + 2 * k + 1, 0] = -1.0 if gone else 2.0 * k + 1.0
        coded[r, e + 2 * k + 1, 1] = size * math.sin(angle)


@jit
def code_leaves(
    coded: Matrices, r: int, e: int, raw: Matrix, i_raw: int, first: int, inputs: int, trees: int,
    numbers: Vector, at: int,
) -> None:  # fmt: skip
    """The leaf of each tree, 1 / sqrt(trees); nothing where a number is missing.

    O(depth) a tree. The parameters are the factor, the root of each tree, and the nodes; a leaf's
    input is -1, and its place stands where its threshold would.
    """
    gone = False
    for i in range(inputs):
        gone = gone or math.isnan(raw[i_raw, first + i])
    nodes = at + 1 + trees
    for t in range(trees):
        node = nodes + NODE * int(numbers[at + 1 + t])
        while numbers[node] >= 0.0 and not gone:
            above = raw[i_raw, first + int(numbers[node])] > numbers[node + 1]
            node = nodes + NODE * int(numbers[node + 3 if above else node + 2])
        coded[r, e + t, 0] = -1.0 if gone else numbers[node + 1]
        coded[r, e + t, 1] = numbers[at]


@jit
def code(
    coded: Matrices, begin: int, raw: Matrix, factors: IntArray, numbers: Vector, side: int
) -> None:
    """Code the columns of one side: row r of ``raw`` to row ``begin`` + r of ``coded``."""
    for f in range(factors.shape[0]):
        kind = factors[f, FACTOR.KIND]
        if factors[f, FACTOR.SIDE] != side or kind == GIVEN:
            continue
        e = factors[f, FACTOR.ENTRY]
        first = factors[f, FACTOR.RAW]
        inputs = factors[f, FACTOR.INPUTS]
        size = factors[f, FACTOR.SIZE]
        at = factors[f, FACTOR.NUMBERS]
        for i in range(raw.shape[0]):
            r = begin + i
            if kind == PLACE:
                coded[r, e, 0] = raw[i, first]
                coded[r, e, 1] = 1.0
            elif kind == NUMBER:
                code_number(coded, r, e, raw[i, first], numbers, at)
            elif kind == FOURIER:
                code_fourier(coded, r, e, raw, i, first, inputs, size, numbers, at)
            else:
                code_leaves(coded, r, e, raw, i, first, inputs, size, numbers, at)


@jit
def multiply(
    room: Matrix, length: int, coded: Matrices, r: int, first: int, more: int, width: int
) -> None:
    """The products of the entries in ``room`` and those of a column, in place.

    Entries (p, v) and (q, u) give (p width + q, v u), and nothing where either is nothing.
    """
    for a in range(length - 1, -1, -1):  # from the end, so that nothing is written over too soon
        place = room[a, 0]
        value = room[a, 1]
        for e in range(more - 1, -1, -1):
            nothing = place < 0.0 or coded[r, first + e, 0] < 0.0
            room[a * more + e, 0] = -1.0 if nothing else place * width + coded[r, first + e, 0]
            room[a * more + e, 1] = value * coded[r, first + e, 1]


@jit
def spread(
    X: Matrix, i: int, start: int, width: int, weight: float, place: float, value: float,
    coded: Matrices, r: int, first: int, last: int,
) -> None:  # fmt: skip
    """Write the products of one entry and those of a block's last column."""
    if place >= 0.0:
        begin = start + int(place) * width
        for e in range(first, last):
            if coded[r, e, 0] >= 0.0:
                X[i, begin + int(coded[r, e, 0])] = weight * (value * coded[r, e, 1])


@jit
def write(
    X: Matrix, factors: IntArray, blocks: IntArray, numbers: Vector, room: Matrix, coded: Matrices,
    rows: IntArray,
) -> None:  # fmt: skip
    """Write vectors to X, which is 0; vector i is of the rows ``rows[side, i]`` of ``coded``.

    A block of several columns is their Kronecker product. ``room`` has space for all factors of a
    product but the last. O(features that are not 0).
    """
    n = X.shape[0]
    for b in range(blocks.shape[0]):
        start = blocks[b, BLOCK.START]
        weight = numbers[blocks[b, BLOCK.WEIGHT]]
        columns = blocks[b, BLOCK.COUNT]
        f = blocks[b, _FIRST]
        begin = factors[f, FACTOR.ENTRY]
        side = factors[f, FACTOR.SIDE]
        if columns == 1:
            end = begin + factors[f, FACTOR.OWN]
            for i in range(n):
                r = rows[side, i]
                for e in range(begin, end):
                    if coded[r, e, 0] >= 0.0:
                        X[i, start + int(coded[r, e, 0])] = weight * coded[r, e, 1]
            continue
        crossed = factors[f, FACTOR.CROSSED]
        f = blocks[b, _FIRST + columns - 1]
        first = factors[f, FACTOR.ENTRY]
        last = first + factors[f, FACTOR.CROSSED]
        width = factors[f, FACTOR.WIDTH]
        last_side = factors[f, FACTOR.SIDE]
        for i in range(n):
            r = rows[side, i]
            if columns == 2:
                other = rows[last_side, i]
                for a in range(begin, begin + crossed):
                    place = coded[r, a, 0]
                    value = coded[r, a, 1]
                    spread(X, i, start, width, weight, place, value, coded, other, first, last)
                continue
            length = crossed
            for a in range(length):
                room[a, 0] = coded[r, begin + a, 0]
                room[a, 1] = coded[r, begin + a, 1]
            for c in range(1, columns - 1):
                f = blocks[b, _FIRST + c]
                r = rows[factors[f, FACTOR.SIDE], i]
                more = factors[f, FACTOR.CROSSED]
                entry = factors[f, FACTOR.ENTRY]
                multiply(room, length, coded, r, entry, more, factors[f, FACTOR.WIDTH])
                length *= more
            r = rows[last_side, i]
            for a in range(length):
                place = room[a, 0]
                value = room[a, 1]
                spread(X, i, start, width, weight, place, value, coded, r, first, last)


@jit
def code_and_write(
    X: Matrix, raw: Matrix, factors: IntArray, blocks: IntArray, numbers: Vector, room: Matrix,
    coded: Matrices, rows: IntArray,
) -> None:  # fmt: skip
    """Code one context, at row 0 of ``coded``, which has its arms already; write the vectors."""
    code(coded, 0, raw, factors, numbers, CONTEXT)
    write(X, factors, blocks, numbers, room, coded, rows)
