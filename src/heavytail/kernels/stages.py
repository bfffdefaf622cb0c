"""Choosing by estimates made for each arm: the largest index, or stage by stage (the Sup wrapper).
Indices, and widths, equal to ten digits tie, and the first arm has it.

A stage learns from its own explorations alone. Its inverse Gram matrix A^-1 lies in the rows P.. of
M. A policy brings two kernels, both for the arm in FEATURE: ``width(s, M, stage)``, which leaves
A^-1 x in SCRATCH, and ``mean(s, M, R, stage)``, called after it; R is what its rewards are
remembered in, the history or M itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import least_form
from heavytail.kernels.index import beyond
from heavytail.kernels.jit import jit, specialise
from heavytail.kernels.layout import FEATURE, NO_ARM, SCRATCH

__all__ = ["absorb", "choosers", "learning_stage", "squared_width"]


@jit
def squared_width(M: Matrix, P: int) -> float:
    """‖x‖²_{A^-1} for x in FEATURE; leaves A^-1 x in SCRATCH. O(d²)."""
    size = M.shape[1]
    squared = 0.0
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += M[P + i, j] * M[FEATURE, j]
        M[SCRATCH, i] = total
        squared += total * M[FEATURE, i]
    return least_form(M, SCRATCH, P, squared)


@jit
def absorb(M: Matrix, P: int) -> float:
    """A <- A + x x' for x in FEATURE, by the inverse; returns the factor of det A. O(d²)."""
    size = M.shape[1]
    growth = 1.0 + squared_width(M, P)
    root = math.sqrt(1.0 / growth)
    for i in range(size):
        ui = root * M[SCRATCH, i]
        for j in range(size):
            M[P + i, j] -= ui * (root * M[SCRATCH, j])
    return growth


@jit
def too_wide(width: float, stage: int, finest: float) -> bool:
    """Tell whether the stage explores at this width: past max(2^-g, finest), g counted from 1."""
    return width > max(2.0 ** (-stage - 1), finest)


@jit
def lay_arm(M: Matrix, arms: Matrix, i: int) -> None:
    """FEATURE <- arms[i]."""
    for j in range(arms.shape[1]):
        M[FEATURE, j] = arms[i, j]


def width(*_: object) -> float:
    """Stands for a policy's kernel in the templates below."""
    raise NotImplementedError


def mean(*_: object) -> float:
    """Stands for a policy's kernel in the templates below."""
    raise NotImplementedError


def choose_largest(s: Vector, M: Matrix, R: Matrix, arms: Matrix) -> int:
    """Template: the first arm of largest estimate plus width, by stage 0."""
    best = NO_ARM
    best_index = -math.inf
    for i in range(arms.shape[0]):
        lay_arm(M, arms, i)
        index = width(s, M, 0)
        index += mean(s, M, R, 0)
        if index > beyond(best_index) or best < 0:
            best = i
            best_index = index
    return best


def survives(s: Vector, M: Matrix, R: Matrix, stage: int, bests: int) -> bool:
    """Template: is the arm in FEATURE within 2^(1-g) of the best of all earlier stages?"""
    for g in range(stage):
        index = width(s, M, g)
        index += mean(s, M, R, g)
        if not (index >= s[bests + g] - 2.0 ** (-g)):  # stages count from 1 in the paper
            return False
    return True


def choose_by_stages(
    s: Vector, M: Matrix, R: Matrix, arms: Matrix, stages: int, finest: float, bests: int
) -> int:
    """Template: the Sup wrapper. Refine among the arms that survive, until one is worth exploring
    or none is wider than ``finest``.

    ``bests`` is the first of ``stages`` slots of s that are room for the best index of each stage.
    """
    for g in range(stages):
        best = NO_ARM
        best_index = -math.inf
        widest = NO_ARM
        most = -1.0
        for i in range(arms.shape[0]):
            lay_arm(M, arms, i)
            if survives(s, M, R, g, bests):
                w = width(s, M, g)
                index = w + mean(s, M, R, g)
                if index > beyond(best_index) or best < 0:
                    best = i
                    best_index = index
                if w > beyond(most) or widest < 0:
                    widest = i
                    most = w
        if too_wide(most, g, finest):
            return widest
        if most <= finest or g + 1 == stages:
            return best
        s[bests + g] = best_index
    return NO_ARM


def first_too_wide(s: Vector, M: Matrix, stages: int, finest: float) -> int:
    """Template: the stage that learns from the arm in FEATURE, the first that it is too wide for;
    -1 where none is.
    """
    for g in range(stages):
        if too_wide(width(s, M, g), g, finest):
            return g
    return -1


def choosers(
    name: str, width: Callable[..., float], mean: Callable[..., float]
) -> tuple[Callable[..., int], Callable[..., int]]:
    """:func:`choose_largest` and :func:`choose_by_stages` around the kernels of ``name``."""
    own = {"width": width, "mean": mean}
    largest = specialise(choose_largest, f"choose_largest_{name}", **own)
    own["survives"] = specialise(survives, f"survives_{name}", **own)
    return largest, specialise(choose_by_stages, f"choose_by_stages_{name}", **own)


def learning_stage(name: str, width: Callable[..., float]) -> Callable[..., int]:
    """:func:`first_too_wide` compiled around the width of the policy ``name``."""
    return specialise(first_too_wide, f"first_too_wide_{name}", width=width)
