"""A claim: its sentence, the rule it is judged by, what it needs, and its parts. No opinions.

All parts met: it holds; some: it holds in part; none: it does not hold. A part asks one question of
one number, and one rule answers all of them (:func:`above`, :func:`below`, :func:`up_to`,
:func:`at_least`): yes where the whole interval lies on that side, no where none of it does, else
undecided. So is a claim of which no part is met and one is undecided. Where something that it needs
was not measured, the verdict says so and names it; where there were too few trials to judge, it
says that. A mistake inside a claim is an error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heavytail.experiments.experiment import Section
from heavytail.experiments.stats import LEVEL, Interval
from heavytail.experiments.unit import Key

__all__ = [
    "FEW",
    "HOLDS",
    "MISSING",
    "NOT",
    "OPEN",
    "PART",
    "SIGNS",
    "Claim",
    "Part",
    "Verdict",
    "above",
    "at_least",
    "below",
    "both",
    "results_of",
    "up_to",
]

HOLDS, PART, NOT, OPEN = "holds", "holds in part", "does not hold", "undecided"
MISSING, FEW = "not measured", "too few trials"
SIGNS = (
    "Each sign answers one question about a number. ✓ is yes: the whole interval is on that side. "
    "✗ is no: none of it is. ? is undecided: the number asked about lies inside the interval. "
    "All ✓, the claim holds; some, it holds in part; none, it does not hold, or is undecided where "
    "there is a ?."
)


def results_of(sections: Iterable[Section]) -> dict[Key, Any]:
    """All that sections hold for claims: (section, *key of its data) -> what was measured."""
    return {
        (section.name, *key): value for section in sections for key, value in section.data.items()
    }


def above(interval: Interval, number: float) -> bool | None:
    """Answer yes where the whole interval lies above the number, no where none of it does."""
    return True if interval.low > number else None if interval.high > number else False


def at_least(interval: Interval, number: float) -> bool | None:
    """Answer yes where the whole interval is at the number or above, no where none of it is."""
    return True if interval.low >= number else None if interval.high >= number else False


def below(interval: Interval, number: float) -> bool | None:
    """Answer yes where the whole interval lies below the number, no where none of it does."""
    return True if interval.high < number else None if interval.low < number else False


def up_to(interval: Interval, number: float) -> bool | None:
    """Answer yes where the whole interval is at the number or below, no where none of it is."""
    return True if interval.high <= number else None if interval.low <= number else False


def both(*met: bool | None) -> bool | None:
    """All of several: no where one is not met, undecided where one of the others is."""
    return False if False in met else None if None in met else True


@dataclass(frozen=True)
class Part:
    """A measurement, and whether it meets the rule; None where that is undecided.

    ``world`` is where it was measured, for claims about several. ``met_at`` answers the question
    anew by an interval of another level. ``number`` is what was measured, with its interval where
    it has one, and ``rule`` what is asked of it.
    """

    measured: str
    met: bool | None
    world: str = ""
    met_at: Callable[[float], bool | None] | None = None
    number: Interval | float = math.nan
    rule: str = ""

    @property
    def mark(self) -> str:
        """Met, not met, or undecided, in one letter."""
        return "?" if self.met is None else "✓" if self.met else "✗"


@dataclass(frozen=True)
class Claim:
    """``parts`` is given what the claim ``needs``, and of what it ``may_use`` what there is."""

    name: str
    says: str
    rule: str
    needs: tuple[Key, ...]
    parts: Callable[[Mapping[Key, Any]], list[Part]]
    may_use: tuple[Key, ...] = ()

    def judge(self, results: Mapping[Key, Any], *, few: bool = False) -> Verdict:
        """The verdict on what was measured; none where there were too ``few`` trials."""
        missing = tuple(key for key in self.needs if key not in results)
        if few and not missing:
            return Verdict(self, (), few=True)
        if missing:
            return Verdict(self, (), missing)
        used = {key: results[key] for key in (*self.needs, *self.may_use) if key in results}
        return Verdict(self, tuple(self.parts(used)))


def _word(parts: Iterable[Part]) -> str:
    """All met, some or none; or undecided."""
    met = [part.met for part in parts]
    if any(met):
        return HOLDS if all(met) else PART
    return OPEN if None in met else NOT


@dataclass(frozen=True)
class Verdict:
    """The verdict of a claim's parts together, or the results ``missing`` for one."""

    claim: Claim
    parts: tuple[Part, ...]
    missing: tuple[Key, ...] = ()
    few: bool = False

    @property
    def word(self) -> str:
        """All, some, none; undecided; too few trials; or not measured."""
        if self.few:
            return FEW
        if self.missing or not self.parts:
            return MISSING
        return _word(self.parts)

    @property
    def by_world(self) -> dict[str, str]:
        """The verdict on the parts of each world, where there are several."""
        worlds = dict.fromkeys(part.world for part in self.parts if part.world)
        if len(worlds) < 2:
            return {}
        return {world: _word([p for p in self.parts if p.world == world]) for world in worlds}

    @functools.cached_property
    def chance(self) -> str:
        """A sentence on how many answers chance may have given, and which stand without it."""
        asked = [(part, part.met_at) for part in self.parts if part.met_at is not None]
        if len(asked) < 2:
            return ""
        level = 1.0 - (1.0 - LEVEL) / len(asked)
        decided = [(part, met_at) for part, met_at in asked if part.met is not None]
        lost = [part.measured for part, met_at in decided if met_at(level) is None]
        wrong = len(asked) * (1.0 - LEVEL) / 2.0
        return (
            f"{len(asked)} questions, each answered by a {LEVEL:.0%} interval: chance alone "
            f"answers up to {wrong:.2g} of them wrongly, on average. By intervals that hold all at "
            f"once with {LEVEL:.0%} (Bonferroni: {level:.2%} each), {len(decided) - len(lost)} of "
            f"the {len(decided)} answers stand"
            + (f"; undecided then: {'; '.join(lost)}." if lost else ".")
        )

    @property
    def lacks(self) -> str:
        """Name the missing results: the experiments, and the keys that each lacks."""
        by_experiment: dict[str, list[str]] = {}
        for name, *rest in self.missing:
            by_experiment.setdefault(name, []).append(" ".join(rest))
        return "; ".join(f"{name}: {', '.join(of)}" for name, of in by_experiment.items())
