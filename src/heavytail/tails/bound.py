"""A bound on one moment of the noise."""

from __future__ import annotations

from dataclasses import dataclass

from heavytail._validate import GREATEST, LEAST, check_number

__all__ = ["MomentBound"]


@dataclass(frozen=True, slots=True)
class MomentBound:
    """A bound on one moment of the noise: E|eta|^order <= scale^order.

    The order is the moment's own, p = 1 + eps in (1, 2], never eps; the scale is the root
    nu = (E|eta|^p)^(1/p), in the unit of the reward. Noise objects compute theirs:

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=ht.noise.StudentT(2.1).scale(1.5))
    >>> round(tail.scale, 3)
    1.959
    """

    order: float
    scale: float

    def __post_init__(self) -> None:
        check_number(
            "MomentBound.order",
            self.order,
            above=1.0,
            most=2.0,
            hint="It is the moment order itself: for Student's t with 1.7 degrees of freedom "
            "pass any order below 1.7.",
        )
        check_number(
            "MomentBound.scale",
            self.scale,
            least=LEAST,
            most=GREATEST,
            hint="Change the unit of the reward if it lies beyond.",
        )
        object.__setattr__(self, "order", float(self.order))
        object.__setattr__(self, "scale", float(self.scale))

    @property
    def power(self) -> float:
        """The same bound in power form, E|eta|^order <= power, as truncation papers write it."""
        return float(self.scale**self.order)
