"""A reward whose law depends on the arm: the one formula that every engine pays by.

    reward = base + size * noise + 1{U < chance} * payment * amount

The arm has the four numbers in front, its shape; the round draws noise, U and payment, the same for
all arms.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from heavytail._typing import Vector
from heavytail.kernels.jit import jit

__all__ = ["Coefficients", "earned", "shape_of"]

Shape: TypeAlias = tuple[Any, Any, Any, Any]  # base, size, chance, amount


class Coefficients(NamedTuple):
    """The coefficients that make an arm's shape of z = x'u and w = x'v; see :func:`shape_of`."""

    slope: float
    tilt: float
    across: float
    rate: float
    lift: float
    dear: float
    payment: float  # the mean of what is paid
    payment_scale: float  # and what its centred noise is multiplied by


@jit
def shape_of(z: Any, w: Any, c: Coefficients) -> Shape:
    """(base, size, chance, amount) of an arm. chance * amount is affine in z, so the mean is."""
    amount = 1.0 + c.dear * z
    return (
        c.slope * z,
        1.0 + c.tilt * z + c.across * w,
        c.rate * (1.0 + c.lift * z) / amount,
        amount,
    )


@jit
def earned(shape: Vector | Shape, noise: float, uniform: float, payment: float) -> float:
    """The reward of an arm of ``shape``, an array or a tuple, in a round of these draws."""
    reward = shape[0] + shape[1] * noise
    if uniform < shape[2]:
        reward += payment * shape[3]
    return reward
