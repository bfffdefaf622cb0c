"""A grid of prices to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail._validate import Check, shown

__all__ = ["ID", "VALUE", "Grid"]

MOST: Final = 1000  # prices
ID, VALUE = "price", "price as a number"  # the columns of a grid


@dataclass(frozen=True)
class Grid:
    """``count`` prices from ``low`` to ``high``, equally far apart.

    >>> import heavytail as ht
    >>> ht.Grid(5, 50, 46).prices[:3]
    (5.0, 6.0, 7.0)
    """

    low: float
    high: float
    count: int

    def __post_init__(self) -> None:
        check = Check("Grid")
        check.number("low", self.low)
        check.number("high", self.high, above=float(self.low))
        if check.count("count", self.count, least=2) > MOST:
            raise ValueError(f"Grid.count must be at most {MOST}; got {self.count}.")

    @property
    def prices(self) -> tuple[float, ...]:
        """The prices, from the lowest."""
        steps = np.linspace(float(self.low), float(self.high), int(self.count))
        return tuple(float(f"{price:.10g}") for price in steps)

    def offers(self) -> dict[str, list[Any]]:
        """One offer for each price: its id is the price as text."""
        return {ID: [_text(p) for p in self.prices], VALUE: list(self.prices)}

    def plain(self) -> dict[str, float]:
        """The grid as JSON values."""
        return {"low": float(self.low), "high": float(self.high), "count": int(self.count)}

    @classmethod
    def read(cls, given: object) -> Grid:
        """A Grid as given, or as ``plain`` gave it."""
        if isinstance(given, Grid):
            return given
        if isinstance(given, dict) and set(given) == {"low", "high", "count"}:
            return cls(**given)
        raise TypeError(f"Decider.prices must be such as Grid(5, 50, 46); got {shown(given)}.")


def _text(price: float) -> str:
    return str(int(price)) if price == int(price) else repr(price)
