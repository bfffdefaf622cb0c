"""Finished units on disk, so that a run killed at any moment goes on where it was.

A unit's file is written beside its place and renamed into it, which is all or nothing. It holds the
unit's key and ends with a seal: one that is another unit's, or was changed, is run again. What is
read back is what was computed, to the bit, so an interrupted run ends as an undisturbed one.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from heavytail._archive import contents, replace, sealed, unsealed
from heavytail._signals import raised_by_handler
from heavytail.experiments.unit import Outcome, Unit
from heavytail.simulation.parallel import finished
from heavytail.simulation.progress import Progress, progress_bar

__all__ = ["Store", "complete", "write_text"]

KEY = "unit"  # the name of the array that holds a unit's key


def write_text(path: Path, text: str) -> None:
    """Write a file all or nothing."""
    replace(path, text.encode())


class Store:
    """Outcomes by key, one small file each under ``folder``; without a folder none is kept."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = None if folder is None else Path(folder)

    def path(self, unit: Unit) -> Path | None:
        """Where the unit's outcome is or will be; None where it is not kept."""
        if self.folder is None or unit.runs == "alone":
            return None
        return self.folder / unit.key[:2] / f"{unit.key}.npz"

    def get(self, unit: Unit) -> Outcome | None:
        """The outcome, or None where the unit is still to be run (or its file is damaged)."""
        path = self.path(unit)
        if path is None:
            return None
        try:
            outcome = unsealed(contents(path))
            return outcome if str(outcome.pop(KEY)) == unit.key else None
        except Exception as error:  # absent, changed or foreign in whatever way: it is run again
            if raised_by_handler(error):
                raise
            return None

    def put(self, unit: Unit, outcome: Outcome) -> None:
        """Keep it, all or nothing."""
        target = self.path(unit)
        if target is None:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        archive = io.BytesIO()
        np.savez(archive, **{KEY: np.array(unit.key)}, **outcome)  # type: ignore[arg-type]
        replace(target, sealed(archive.getvalue()))


def complete(
    units: Iterable[Unit],
    store: Store,
    *,
    title: str = "experiments",
    jobs: int | None = None,
    dask: str | None = None,
    progress: bool | None = None,
) -> dict[str, Outcome]:
    """Every unit's outcome by key: those in the store, and the rest, run now under one bar."""
    unique = {unit.key: unit for unit in units}
    outcomes: dict[str, Outcome] = {}
    todo = []
    with progress_bar(progress, title, sum(unit.weight for unit in unique.values())) as bar:
        for key, unit in unique.items():
            outcome = store.get(unit)
            if outcome is None:
                todo.append(unit)
            else:
                outcomes[key] = outcome
                bar.advance(unit.weight)
        todo.sort(key=lambda unit: -unit.weight)  # the long ones first, so that none is left alone
        for runs in ("threads", "processes", "alone"):
            mine = [unit for unit in todo if unit.runs == runs]
            _run(mine, runs, store, outcomes, bar, jobs, dask)
    return outcomes


def _run(
    units: Sequence[Unit],
    runs: str,
    store: Store,
    outcomes: dict[str, Outcome],
    bar: Progress,
    jobs: int | None,
    dask: str | None,
) -> None:
    """Run units of one kind; keep each as soon as it is done."""
    alone = runs == "alone"
    for place, outcome in finished(
        Unit.run,
        [(unit,) for unit in units],
        threads=runs != "processes",
        jobs=1 if alone else jobs,
        dask=None if alone else dask,
    ):
        store.put(units[place], outcome)
        outcomes[units[place].key] = outcome
        bar.advance(units[place].weight)
