"""The one grid search, and the file that keeps what it chose with all that it tried.

Tuning has seeds of its own: :data:`APART` is added to the seed, so that no trial on which a
multiplier was chosen is ever reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import printable
from heavytail.experiments.store import write_text
from heavytail.experiments.unit import Outcome, Unit, join

__all__ = ["APART", "Point", "Tuned", "best", "regrets", "scores", "search", "shown"]

APART = 1_000_003  # added to the seed of what is reported

Point: TypeAlias = dict[str, Any]  # options by name
Case = TypeVar("Case", bound=Hashable)
Made = dict[str, Any]  # how a choice was made: see ``provenance``


def regrets(
    grid: Mapping[Case, Sequence[Point]],
    units_of: Callable[[Case, Point], list[Unit]],
    run: Callable[[list[Unit]], Mapping[str, Outcome]],
) -> dict[Case, FloatArray]:
    """The final regret of every point of every case, (points, trials), run together."""
    plan = {case: [units_of(case, point) for point in points] for case, points in grid.items()}
    outcomes = run([unit for points in plan.values() for units in points for unit in units])
    return {
        case: np.array([join(units, outcomes).final for units in points])
        for case, points in plan.items()
    }


def search(
    grid: Mapping[Case, Sequence[Point]],
    units_of: Callable[[Case, Point], list[Unit]],
    run: Callable[[list[Unit]], Mapping[str, Outcome]],
) -> dict[Case, list[float]]:
    """The mean final regret of every point of every case, run together."""
    regret_of = regrets(grid, units_of, run)
    return {case: [float(values.mean()) for values in points] for case, points in regret_of.items()}


def best(points: Sequence[Point], regret: Sequence[float]) -> Point:
    """The point of least regret, the first where several have it."""
    return points[int(np.argmin(regret))]


def scores(regret: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Score points against the best of each environment: geometric mean, and the worst.

    ``regret`` is (environments, points). A point's score in an environment is its regret over that
    of the best point there.

    >>> mean, worst = scores(np.array([[1.0, 2.0], [8.0, 4.0]]))
    >>> mean.round(3).tolist(), worst.tolist()
    ([1.414, 1.414], [2.0, 2.0])
    """
    score = regret / regret.min(axis=1, keepdims=True)
    return np.exp(np.log(score).mean(axis=0)), score.max(axis=0)


@dataclass(frozen=True)
class Tuned:
    """The points chosen, by setting and then by algorithm, and the provenance of each setting's.

    ``settings[setting][name]`` holds ``options``, the point chosen, and ``grid``, every point tried
    with its ``regret``; ``finals`` too where the best points met again on more environments. Where
    it was asked how sure the choice is, each of ``others`` has the ``share`` of the resamples of
    the tuning trials that choose it instead, and its ``regret`` in every reported trial. ``source``
    is the stamp of the code that was tuned.
    """

    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    provenance: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Tuned:
        """The file, or nothing chosen where there is none."""
        if not path.exists():
            return cls()
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            settings, made = raw["settings"], raw.get("provenance", {})
            whole = {name: [dict(entry["options"]) for entry in chosen.values()]
                     for name, chosen in settings.items()}  # fmt: skip
            if "date" in made:  # a file of before, with one provenance for all
                made = dict.fromkeys(whole, made)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} holds no multipliers ({printable(str(error))}). Pass a file that "
                "`heavytail reproduce --retune --tuned FILE` wrote."
            ) from None
        return cls(settings, made)

    def options(self, setting: str, name: str) -> Point | None:
        """The options chosen for an algorithm in a setting; None where it was not tuned there."""
        entry = self.settings.get(setting, {}).get(name)
        return None if entry is None else dict(entry["options"])

    def grids(self, setting: str) -> dict[str, list[Point]]:
        """Every point tried in a setting with its regret, by algorithm."""
        return {name: entry["grid"] for name, entry in self.settings.get(setting, {}).items()}

    def others(self, setting: str, name: str) -> tuple[tuple[float, FloatArray], ...]:
        """Other points that tuning might have chosen: (share of resamples, regret by trial)."""
        shares = self.settings.get(setting, {}).get(name, {}).get("others", ())
        return tuple((other["share"], np.array(other["regret"], float)) for other in shares)

    def source(self, setting: str, name: str) -> str | None:
        """The stamp of the code that was tuned; None where none was kept."""
        source = self.settings.get(setting, {}).get(name, {}).get("source")
        return None if source is None else str(source)

    def with_search(
        self,
        setting: str,
        name: str,
        points: Sequence[Point],
        regret: Sequence[float],
        made: Made,
    ) -> Tuned:
        """With one more search; what was there for other settings and algorithms stays."""
        return self._with(setting, name, {}, "grid", points, regret, made)

    def with_finals(
        self,
        setting: str,
        name: str,
        points: Sequence[Point],
        regret: Sequence[float],
        made: Made,
    ) -> Tuned:
        """With the choice among the best points of a search made on more environments."""
        before = self.settings[setting][name]
        return self._with(setting, name, before, "finals", points, regret, made)

    def with_others(
        self, setting: str, name: str, others: Sequence[Mapping[str, Any]], source: str
    ) -> Tuned:
        """With what else the tuning might have chosen, and the stamp of the code that was tuned."""
        return self._but(setting, name, others=list(others), source=source)

    def with_source(self, setting: str, name: str, source: str) -> Tuned:
        """With the stamp of other code, which was seen to find the same regret."""
        return self._but(setting, name, source=source)

    def _but(self, setting: str, name: str, **parts: object) -> Tuned:
        here = {**self.settings[setting], name: {**self.settings[setting][name], **parts}}
        return Tuned({**self.settings, setting: here}, self.provenance)

    def _with(
        self,
        setting: str,
        name: str,
        before: Mapping[str, Any],
        which: str,
        points: Sequence[Point],
        regret: Sequence[float],
        made: Made,
    ) -> Tuned:
        # Chosen on the numbers as the file shows them, so that the file alone explains the choice.
        values = [shown(value) for value in regret]
        rows = [{**point, "regret": value} for point, value in zip(points, values, strict=True)]
        entry = {**before, "options": best(points, values), which: rows}
        here = {**self.settings.get(setting, {}), name: entry}
        return Tuned({**self.settings, setting: here}, {**self.provenance, setting: made})

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; one point per line."""
        parts = []
        for setting, chosen in self.settings.items():
            inside = ",\n".join(_entry(name, entry) for name, entry in chosen.items())
            parts.append(f" {json.dumps(setting)}: {{\n{inside}}}")
        made = ",\n".join(
            f" {json.dumps(name)}: {json.dumps(one)}" for name, one in self.provenance.items()
        )
        body = ",\n".join(parts)
        write_text(path, f'{{"provenance": {{\n{made}}},\n"settings": {{\n{body}}}}}\n')


def shown(regret: float) -> float:
    """A regret as the file has it."""
    return round(regret, 2)


def _entry(name: str, found: Mapping[str, Any]) -> str:
    lists = [
        f'"{key}": [\n    ' + ",\n    ".join(map(json.dumps, found[key])) + "]"
        for key in ("finals", "others", "grid")
        if key in found
    ]
    head = [f'"{key}": {json.dumps(found[key])}' for key in ("options", "source") if key in found]
    parts = [", ".join(head), *lists]
    return f"  {json.dumps(name)}: {{" + ",\n   ".join(parts) + "}"
