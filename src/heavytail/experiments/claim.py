"""A claim: its sentence, the rule it is judged by, what it needs, and its parts. No opinions.

All parts met: it holds; some: it holds in part; none: it does not hold. A part whose interval lies
on both sides of its number is undecided, and so is a claim of which no part is met and one is
undecided. Where something that it needs was not measured, the verdict says so and names it; where
there were too few trials to judge, it says that. A mistake inside a claim is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from heavytail.experiments.experiment import Section
from heavytail.experiments.unit import Key

__all__ = [
    "FEW",
    "HOLDS",
    "MISSING",
    "NOT",
    "OPEN",
    "PART",
    "Claim",
    "Part",
    "Verdict",
    "results_of",
]

HOLDS, PART, NOT, OPEN = "holds", "holds in part", "does not hold", "undecided"
MISSING, FEW = "not measured", "too few trials"


def results_of(sections: Iterable[Section]) -> dict[Key, Any]:
    """All that sections hold for claims: (section, *key of its data) -> what was measured."""
    return {(one.name, *key): value for one in sections for key, value in one.data.items()}


@dataclass(frozen=True)
class Part:
    """What was measured, and whether it meets the rule; None where that is undecided."""

    measured: str
    met: bool | None

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


@dataclass(frozen=True)
class Verdict:
    """What a claim's parts say together, or what is ``missing`` to say it."""

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
        met = [part.met for part in self.parts]
        if any(met):
            return HOLDS if all(met) else PART
        return OPEN if None in met else NOT

    @property
    def lacks(self) -> str:
        """What is missing, in words: the experiments and what of each."""
        by_experiment: dict[str, list[str]] = {}
        for name, *rest in self.missing:
            by_experiment.setdefault(name, []).append(" ".join(rest))
        return "; ".join(f"{name}: {', '.join(of)}" for name, of in by_experiment.items())
