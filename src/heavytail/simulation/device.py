"""Where the GPU computes otherwise than the kernels say, never something else.

Threads of a warp wait for each other, so a branch around a root saves nothing; and a loop over arms
whose number is a constant is best written plainly, one arm per turn, for the compiler to unroll.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail.kernels import index
from heavytail.kernels.layout import CONSTANT, INVERSE, NO_ARM, RADIUS, THETA

__all__ = ["substitutes"]

TINY = 1e-290  # stands for a squared width of 0, whose reciprocal root is infinite


def substitutes(cuda: Any) -> dict[int, Any]:
    """Device versions, by the id of the kernel each stands for."""
    device: Callable[[Any], Any] = cuda.jit(device=True)
    beyond = device(getattr(index.beyond, "py_func", index.beyond))
    root = device(_root(_reciprocal_root(cuda)))

    @device
    def product(M: Matrix, row: int, arms: Matrix, arm: int) -> float:
        """x'theta with theta in a row of M; the constant feature's share is left out."""
        a = np.uint64(arm)  # an index that cannot be negative needs no check
        total = 0.0
        for j in range(arms.shape[1]):
            total += M[row, j] * arms[a, j]
        return total

    @device
    def width(s: Vector, M: Matrix, arms: Matrix, arm: int) -> float:
        """‖x‖_P."""
        a = np.uint64(arm)
        size = arms.shape[1]
        half = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            row = 0.5 * M[INVERSE + j, j] * arms[a, j]
            for k in range(j):
                row += M[INVERSE + j, k] * arms[a, k]
            half += row * arms[a, j]
        if M.shape[1] > size:
            row = 0.5 * s[CONSTANT] * M[INVERSE + size, size]
            for k in range(size):
                row += M[INVERSE + size, k] * arms[a, k]
            half += s[CONSTANT] * row
        return root(max(2.0 * half, TINY))

    @device
    def linear_value(s: Vector, M: Matrix, arms: Matrix, a: int) -> float:
        return product(M, THETA, arms, a) + s[RADIUS] * width(s, M, arms, a)

    def largest(value: Any) -> Any:
        """The kernel that finds the first arm of largest ``value``; all arms are within bounds."""

        @device
        def select(s: Vector, M: Matrix, arms: Matrix) -> int:
            count = arms.shape[0]
            best = NO_ARM
            best_value = -math.inf
            fours = count - count % 4
            for a in range(0, fours, 4):  # four chains of arithmetic hide each other's waits
                first = value(s, M, arms, a)
                second = value(s, M, arms, a + 1)
                third = value(s, M, arms, a + 2)
                fourth = value(s, M, arms, a + 3)
                if first > best_value:
                    best, best_value = a, beyond(first)
                if second > best_value:
                    best, best_value = a + 1, beyond(second)
                if third > best_value:
                    best, best_value = a + 2, beyond(third)
                if fourth > best_value:
                    best, best_value = a + 3, beyond(fourth)
            for a in range(fours, count):
                last = value(s, M, arms, a)
                if last > best_value:
                    best, best_value = a, beyond(last)
            return best

        return select

    return {id(index.select): largest(linear_value)}


def _root(reciprocal: Callable[[float], float] | None) -> Callable[[float], float]:
    """The square root of a positive number, without the branches of the library's."""

    def plain(q: float) -> float:
        return math.sqrt(q)

    def root(q: float) -> float:
        """Two steps of Goldschmidt's from 20 bits: the last bit may differ from the root's."""
        y = reciprocal(q)  # type: ignore[misc]
        g = q * y
        h = 0.5 * y
        rest = 0.5 - h * g
        g += g * rest
        h += h * rest
        return g + (q - g * g) * h

    return plain if reciprocal is None else root


def _reciprocal_root(cuda: Any) -> Any:
    """1 / sqrt(q) to 20 bits, one instruction; None on numba's simulator, which has none."""
    if not hasattr(cuda, "libdevice"):
        return None
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    def reciprocal(typing_context: Any, q: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            double = ir.DoubleType()
            kind = ir.FunctionType(double, [double])
            code = ir.InlineAsm(kind, "rsqrt.approx.ftz.f64 $0, $1;", "=d,d")
            return builder.call(code, arguments)

        return types.float64(types.float64), generate

    return intrinsic(reciprocal)
