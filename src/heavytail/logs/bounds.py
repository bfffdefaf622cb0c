"""Bounds of a value, or of the difference of two, and the assumptions of each.

Formulas and proofs are in :mod:`heavytail.logs.intervals`. A single bound uses all of 1 - level;
two bounds use half each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from heavytail._validate import shown
from heavytail.logs.values import Value
from heavytail.tails import MomentBound

__all__ = [
    "OF_DIFFERENCES",
    "OF_VALUES",
    "Bernstein",
    "Betting",
    "Bound",
    "Catoni",
    "Hindsight",
    "Huber",
]


@dataclass(frozen=True, repr=False)
class Bound(Value):
    """The base of all bounds."""


@dataclass(frozen=True, repr=False)
class Betting(Bound):
    """A lower bound by betting, at every row of the log at once; with ``ceiling`` also an upper
    bound.

    For rewards of any tail whose mean is finite. The bets aim at the log's length.

    Args:
        floor: a number that no reward can be below.
        ceiling: a number that no reward can exceed; a difference of two values needs one.
        growing: for a log that is evaluated while it grows: all these bounds hold at once, and each
            is a little lower.
    """

    name: ClassVar[str] = "betting"
    floor: float = 0.0
    ceiling: float | None = None
    growing: bool = False

    def __post_init__(self) -> None:
        self._check("floor")
        self._check("ceiling", above=self.floor)
        self._check("growing", "flag")


@dataclass(frozen=True, repr=False)
class Catoni(Bound):
    """Both bounds by Catoni's sequence, at every row of the log at once, for rewards of any sign.

    Args:
        tail: E|X - V|^p <= scale^p of the weighted rewards X = w r (of the terms v of DR); of a
            difference, of the rows' differences w_a r - w_b r.
        growing: as of :class:`Betting`.
    """

    name: ClassVar[str] = "catoni"
    tail: MomentBound
    growing: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tail, MomentBound):
            raise TypeError(
                f"Catoni.tail must be a MomentBound(order, scale), a bound on the moment of the "
                f"weighted rewards; got {shown(self.tail)}. Huber() needs none, and is approximate."
            )
        self._check("growing", "flag")


@dataclass(frozen=True, repr=False)
class Bernstein(Bound):
    """Both bounds by Maurer and Pontil's empirical Bernstein inequality, only at the log's full
    length.

    Args:
        floor: a number that no reward can be below.
        ceiling: a number that no reward can be above.
        clip: M, the limit at which weights are clipped; the root of the number of rows if None.
    """

    name: ClassVar[str] = "bernstein"
    floor: float
    ceiling: float
    clip: float | None = None

    def __post_init__(self) -> None:
        self._check("floor")
        self._check("ceiling", above=self.floor)
        self._check("clip", above=0.0)


@dataclass(frozen=True, repr=False)
class Huber(Bound):
    """Both bounds from Huber's estimate, approximate: they assume that the tail continues as in the
    log.

    For an unbiased estimate: IPS, SNIPS or DR (:func:`heavytail.logs.intervals.huber_interval`).
    """

    name: ClassVar[str] = "huber"


@dataclass(frozen=True, repr=False)
class Hindsight(Bound):
    """Both sides of a difference by the bet that is best in hindsight, approximate.

    Each side leaves room for rows that never came: as far out as the farthest reward of the whole
    log, and five times as far as the policies' own rows
    (:func:`heavytail.logs.intervals.hindsight_lower`).
    """

    name: ClassVar[str] = "hindsight"


OF_VALUES: Final[tuple[type[Bound], ...]] = (Betting, Catoni, Bernstein, Huber)
OF_DIFFERENCES: Final[tuple[type[Bound], ...]] = (Hindsight, Betting, Catoni)
