"""Where the GPU computes otherwise than the kernels say, never something else.

Threads of a warp wait for each other, so a branch around a root saves nothing; and a loop over arms
whose number is a constant is best written plainly, one arm per turn, for the compiler to unroll.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail.kernels import index
from heavytail.kernels.layout import CONSTANT, INVERSE, NO_ARM, RADIUS, THETA
from heavytail.policies.core import every_round, twin, twin_choice, two_estimates

__all__ = ["substitutes"]

CONVERSION, JUDGE, TRIED = every_round.CONVERSION, every_round.JUDGE, every_round.INVERSE
AUDIT = twin.OWN.AUDIT
TINY = 1e-290  # stands for a squared width of 0, whose reciprocal root is infinite


def substitutes(cuda: ModuleType, on_device: Callable[[Any], Any]) -> dict[int, Any]:
    """Device versions, by the id of the kernel each stands for; ``on_device`` compiles a kernel as
    it is.
    """
    device: Callable[[Any], Any] = cuda.jit(device=True)
    beyond, bulk_row, index_of, overdue, rule_of = (
        on_device(kernel)
        for kernel in (
            index.beyond,
            two_estimates.bulk_row,
            twin_choice.index_of,
            twin_choice.overdue,
            twin_choice.rule_of,
        )
    )
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
    def form(s: Vector, M: Matrix, block: int, arms: Matrix, arm: int) -> float:
        """x'P x of the P that begins at the row ``block``."""
        a = np.uint64(arm)
        size = arms.shape[1]
        half = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            row = 0.5 * M[block + j, j] * arms[a, j]
            for k in range(j):
                row += M[block + j, k] * arms[a, k]
            half += row * arms[a, j]
        if M.shape[1] > size:
            row = 0.5 * s[CONSTANT] * M[block + size, size]
            for k in range(size):
                row += M[block + size, k] * arms[a, k]
            half += s[CONSTANT] * row
        return max(2.0 * half, TINY)

    @device
    def radius_of(s: Vector) -> float:
        return s[RADIUS]

    @device
    def linear_value(
        s: Vector, radius: float, M: Matrix, arms: Matrix, a: int
    ) -> tuple[float, float]:
        mean = product(M, THETA, arms, a)
        return mean + radius * root(form(s, M, INVERSE, arms, a)), 0.0

    @device
    def twin_value(s: Vector, rule: Any, M: Matrix, arms: Matrix, a: int) -> tuple[float, float]:
        """All that an audit asks, in every round: threads of a warp audit in different ones."""
        at = bulk_row(M)
        mean, bulk = product(M, THETA, arms, a), product(M, at, arms, a)
        judge, share = product(M, at + JUDGE, arms, a), product(M, at + CONVERSION, arms, a)
        squared, tried = form(s, M, INVERSE, arms, a), form(s, M, at + TRIED, arms, a)
        late = overdue(s, share, tried) if s[AUDIT] != 0.0 else 0.0
        return index_of(rule, mean, bulk, judge, share, squared, tried), late

    def largest(value: Any, rule_of: Any) -> Any:
        """The kernel that finds the first arm of largest ``value``, or the one that is most overdue
        where any is; all arms are within bounds.
        """

        @device
        def select(s: Vector, M: Matrix, arms: Matrix) -> int:
            rule = rule_of(s)
            count = arms.shape[0]
            best = late = NO_ARM
            best_value, latest = -math.inf, 1.0
            for a in range(0, count, 4):  # four chains of arithmetic hide each other's waits
                b, c, d = min(a + 1, count - 1), min(a + 2, count - 1), min(a + 3, count - 1)
                first, overdue_1 = value(s, rule, M, arms, a)
                second, overdue_2 = value(s, rule, M, arms, b)
                third, overdue_3 = value(s, rule, M, arms, c)
                fourth, overdue_4 = value(s, rule, M, arms, d)
                if first > best_value:
                    best, best_value = a, beyond(first)
                if second > best_value:
                    best, best_value = b, beyond(second)
                if third > best_value:
                    best, best_value = c, beyond(third)
                if fourth > best_value:
                    best, best_value = d, beyond(fourth)
                if overdue_1 > latest:
                    late, latest = a, beyond(overdue_1)
                if overdue_2 > latest:
                    late, latest = b, beyond(overdue_2)
                if overdue_3 > latest:
                    late, latest = c, beyond(overdue_3)
                if overdue_4 > latest:
                    late, latest = d, beyond(overdue_4)
            return best if late == NO_ARM else late

        return select

    return {
        id(index.select): largest(linear_value, radius_of),
        id(twin_choice.select): largest(twin_value, rule_of),
    }


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


def _reciprocal_root(cuda: ModuleType) -> Any:
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
