"""Features of a column of numbers: a straight line, or a line and hat functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, LEAST, Check, check_count, check_number, shown

__all__ = ["Line", "Spline", "centre_and_scale", "check_lists", "curve", "knots_of", "plain_curve"]

Line = tuple[float, float]  # centre and scale
NORMAL: Final = 1.4826022185056018  # 1 / Phi^-1(3/4): MAD to standard deviation, of normal ones
MOST_KNOTS: Final = 1000
KEYS: Final = ("spline", "centre", "scale")  # of a spline in a schema


@dataclass(frozen=True)
class Spline:
    """A curve in one number: its straight line z and K hat functions, (z, h_1, ..., h_K) / sqrt(2).

    Hat k is 1 at knot k, 0 at its neighbours and linear between; beyond the outer knots the outer
    hats stay 1. So the hats are never negative and add up to 1, sum h_k² <= 1, and the block is no
    longer than 1, as that of a straight line. A linear policy thus learns any curve that is
    straight between knots.

    A number of knots asks for that many, at the quantiles (k - 1/2) / K of the column: no outlier
    places one. Equal ones are merged; where fewer than two are left, the column has its straight
    line alone.

    >>> import heavytail as ht
    >>> encoder = ht.Encoder(numbers={"hour": ht.Spline([0.0, 12.0, 24.0])}, bound=2.0**0.5)
    >>> encoder.transform({"hour": [0.0, 3.0, 18.0]})[:, 1:].round(3).tolist()
    [[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]

    Args:
        knots: how many, at least 2, or where they are, in any order.
        centre: of the straight line, its median unless stated; with ``scale``, or not at all.
        scale: of the straight line, its spread by the median absolute deviation unless stated;
            both are of the knots themselves where these are stated.
    """

    knots: int | Sequence[float] = 5
    centre: float | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        check, where = Check("Spline"), "Spline.knots"
        if isinstance(self.knots, list | tuple | np.ndarray):
            listed = [check.number(f"knots[{i}]", knot) for i, knot in enumerate(self.knots)]
            if len(set(listed)) < len(listed) or not 2 <= len(listed) <= MOST_KNOTS:
                raise ValueError(
                    f"{where} must be 2 to {MOST_KNOTS} different numbers; got "
                    f"{shown(self.knots)}. Leave out what is listed twice."
                )
            object.__setattr__(self, "knots", tuple(sorted(listed)))
        else:
            hint = "Say how many knots, or list where they are: Spline([0, 10, 50])."
            count = check_count(where, self.knots, least=2, most=MOST_KNOTS, hint=hint)
            object.__setattr__(self, "knots", count)
        if (self.centre is None) != (self.scale is None):
            raise ValueError(
                f"Spline: centre and scale are stated together; got centre={shown(self.centre)}, "
                f"scale={shown(self.scale)}."
            )
        if self.centre is not None:
            object.__setattr__(self, "centre", check.number("centre", self.centre))
            object.__setattr__(self, "scale", check.number("scale", self.scale, above=0.0))
        elif isinstance(self.knots, tuple):
            centre, scale = centre_and_scale(np.array(self.knots))
            object.__setattr__(self, "centre", centre)
            object.__setattr__(self, "scale", scale)

    @property
    def is_stated(self) -> bool:
        """Tell whether nothing of it is to be learned."""
        return isinstance(self.knots, tuple)

    @property
    def line(self) -> Line:
        """Centre and scale, where they are known."""
        assert self.centre is not None
        assert self.scale is not None
        return self.centre, self.scale

    @property
    def places(self) -> tuple[float, ...]:
        """The knots, where they are known."""
        assert isinstance(self.knots, tuple)
        return self.knots

    def learned(self, values: FloatArray) -> Spline | Line:
        """The curve with knots at quantiles of ``values``; the straight line if they are too few
        different ones.
        """
        assert isinstance(self.knots, int)
        line = centre_and_scale(values) if self.centre is None else self.line
        knots = knots_of(values, self.knots)
        return line if len(knots) < 2 else replace(self, knots=knots, centre=line[0], scale=line[1])


def centre_and_scale(values: FloatArray) -> Line:
    """c = median(v) and s = 1.4826 median|v - c|, the standard deviation where v is normal.

    Where more than half of the values are equal, so that this is 0, s is the median of the
    deviations that are not; 1 where all are equal. Half of the values may be anything before
    either is.
    """
    centre = float(np.median(values))
    deviations = np.abs(values - centre)
    scale = NORMAL * float(np.median(deviations))
    if scale == 0.0:
        moved = deviations[deviations > 0.0]
        scale = float(np.median(moved)) if moved.size else 1.0
    return _sized(centre), min(max(scale, LEAST), GREATEST)


def knots_of(values: FloatArray, count: int) -> tuple[float, ...]:
    """The quantiles (k - 1/2) / count, k = 1, ..., count, of values that occur, each once."""
    levels = (np.arange(count) + 0.5) / count
    chosen = np.quantile(values, levels, method="inverted_cdf")
    return tuple(dict.fromkeys(_sized(float(knot)) for knot in chosen))


def _sized(value: float) -> float:
    """A number of the size of an argument: 0 if it is smaller, and never -0."""
    return 0.0 if abs(value) < LEAST else min(max(value, -GREATEST), GREATEST)


def curve(where: str, given: Any) -> Line | Spline | None:
    """Read an entry of ``numbers``: (centre, scale), a spline, its form as JSON, or None."""
    if given is None or isinstance(given, Spline):
        return given
    if isinstance(given, Mapping):
        if "spline" not in given or set(given) - set(KEYS):
            raise ValueError(f"{where} must be such as {{'spline': 5}}; got {shown(given)}.")
        try:
            return Spline(given["spline"], given.get("centre"), given.get("scale"))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where}: {error}") from None
    check_lists(given, 2, f"{where} must be (centre, scale), or None to learn them, or Spline(5)")
    check = Check(where)
    return check.number("centre", given[0]), check.number("scale", given[1], above=0.0)


def check_lists(given: Any, length: int, problem: str) -> None:
    """Refuse what is no list of this length."""
    if not isinstance(given, list | tuple | np.ndarray) or len(given) != length:
        raise TypeError(f"{problem}; got {shown(given)}.")


def plain_curve(given: Line | Spline | None) -> Any:
    """The same as JSON."""
    if not isinstance(given, Spline):
        return given and list(given)
    knots = list(given.knots) if isinstance(given.knots, tuple) else given.knots
    more = {} if given.centre is None else {"centre": given.centre, "scale": given.scale}
    return {"spline": knots, **more}


def checked_length(where: str, given: object) -> float | None:
    """A length that a map states, None where it is learned."""
    if given is None:
        return None
    return check_number(where, given, least=LEAST, most=GREATEST)
