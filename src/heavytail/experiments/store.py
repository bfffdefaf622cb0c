"""Finished units on disk, so that a run killed at any moment goes on where it was.

A unit's file is written beside its place and renamed into it, which is all or nothing. What is read
back is what was computed, to the bit, so an interrupted run ends as an undisturbed one.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytail.experiments.units import Outcome, Work
from heavytail.simulation.progress import Progress

__all__ = ["Store", "complete", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file all or nothing."""
    part = path.with_suffix(".part")
    part.write_text(text)
    os.replace(part, path)


class Store:
    """Outcomes by key, one small file each under ``folder``."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, unit: Work) -> Path:
        """Where the unit's outcome is or will be."""
        return self.folder / unit.key[:2] / f"{unit.key}.npz"

    def get(self, unit: Work) -> Outcome | None:
        """The outcome, or None where the unit is still to be run (or its file is damaged)."""
        try:
            with np.load(self.path(unit), allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except (FileNotFoundError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def put(self, unit: Work, outcome: Outcome) -> None:
        """Keep it, all or nothing."""
        target = self.path(unit)
        target.parent.mkdir(exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as file:
            np.savez(file, **outcome)  # type: ignore[arg-type]
        os.replace(part, target)


def complete(
    store: Store,
    units: Iterable[Work],
    progress: Progress,
    *,
    jobs: int | None = None,
    dask: str | None = None,
) -> dict[str, Outcome]:
    """Every unit's outcome by key: those in the store, and the rest, run now and kept."""
    unique = {unit.key: unit for unit in units}
    outcomes: dict[str, Outcome] = {}
    todo = []
    for key, unit in unique.items():
        found = store.get(unit)
        if found is None:
            todo.append(unit)
        else:
            outcomes[key] = found
            progress.advance(unit.weight)
    todo.sort(key=lambda unit: -unit.weight)  # the long ones first, so that none is left alone
    for unit, outcome in _run(todo, jobs, dask):
        store.put(unit, outcome)
        outcomes[unit.key] = outcome
        progress.advance(unit.weight)
    return outcomes


def _run(
    units: Sequence[Work], jobs: int | None, dask: str | None
) -> Iterator[tuple[Work, Outcome]]:
    """Units as they finish: on Dask, or here, kernels by threads and Python by processes."""
    if dask is not None:
        yield from _on_dask(units, dask)
        return
    for threads in (True, False):
        mine = [unit for unit in units if unit.threads is threads]
        yield from _parallel(mine, jobs, "threading" if threads else "loky")


def _parallel(
    units: Sequence[Work], jobs: int | None, backend: str | None, **options: Any
) -> Iterator[tuple[Work, Outcome]]:
    if not units:
        return
    import joblib

    n_jobs = (jobs or joblib.cpu_count()) if backend else -1
    parallel = joblib.Parallel(
        n_jobs=n_jobs, backend=backend, return_as="generator_unordered", **options
    )
    work: Callable[..., Any] = joblib.delayed(_numbered)
    for i, outcome in parallel(work(i, unit) for i, unit in enumerate(units)):
        yield units[i], outcome


def _numbered(i: int, unit: Work) -> tuple[int, Outcome]:
    return i, unit.run()


def _on_dask(units: Sequence[Work], address: str) -> Iterator[tuple[Work, Outcome]]:
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(
            "--dask needs the package's 'dask' extra: pip install heavytail[dask]."
        ) from None
    import joblib

    with Client(address) as client, joblib.parallel_config("dask", client=client):
        yield from _parallel(units, None, None, pre_dispatch="all", batch_size=1)
