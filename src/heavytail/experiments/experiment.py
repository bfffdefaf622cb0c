"""Experiments: each is a pure plan of units, and a pure page of their outcomes.

A new experiment is one :class:`Experiment` value. :func:`carry_out` makes the plan of each once,
runs all their units under one bar, and hands each its own outcomes, joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from heavytail._terminal import as_table, width
from heavytail._validate import printable
from heavytail.experiments.store import Store, complete
from heavytail.experiments.tune import Tuned
from heavytail.experiments.unit import Key, Outcome, Trials, Unit, join

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Bold", "Experiment", "Plan", "Request", "Section", "Table", "carry_out", "run_units"]

Plan: TypeAlias = dict[Key, list[Unit]]


@dataclass(frozen=True)
class Request:
    """The user's request. With ``rounds`` None, each experiment has its own number of rounds."""

    out: Path
    trials: int = 20
    rounds: int | None = None
    seed: int = 0
    jobs: int | None = None
    dask: str | None = None
    quick: bool = False
    policies: tuple[str, ...] = ()
    tuned: Tuned = field(default_factory=Tuned)
    progress: bool | None = None


class Bold(str):
    """A cell of a table that pages show in bold."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; ``values``, where given, are the cells as numbers to shade."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""
    values: Sequence[Sequence[float]] | None = None

    def text(self) -> str:
        """As aligned text, no wider than the terminal."""
        columns, *rows = [tuple(map(printable, row)) for row in (self.columns, *self.rows)]
        return f"{printable(self.title)}\n{as_table(columns, rows, most=width())}"


@dataclass
class Section:
    """A part of the report: text (paragraphs), tables, and figures by file name.

    ``data`` is what claims are judged on and what result files hold, by key; ``shown`` are the
    keys that its figure shows.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    data: dict[Key, Any] = field(default_factory=dict)
    shown: list[Key] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """``plan`` says what to run, ``show`` what it says; both depend on their arguments alone.

    ``by_name_only`` marks what takes so long that it runs only when it is asked for by name.
    """

    name: str
    title: str
    plan: Callable[[Request], Plan]
    show: Callable[[Request, Mapping[Key, Trials]], Section]
    by_name_only: bool = False


def carry_out(experiments: Iterable[Experiment], request: Request) -> list[Section]:
    """Run the plans of all, and show each."""
    plans = [(experiment, experiment.plan(request)) for experiment in experiments]
    units = [unit for _, plan in plans for mine in plan.values() for unit in mine]
    outcomes = run_units(units, request)
    return [
        experiment.show(request, {key: join(mine, outcomes) for key, mine in plan.items()})
        for experiment, plan in plans
    ]


def run_units(
    units: Iterable[Unit], request: Request, title: str = "experiments"
) -> dict[str, Outcome]:
    """The units' outcomes by key; what the request's folder holds already is not run again."""
    return complete(
        units,
        Store(request.out / "units"),
        title=title,
        jobs=request.jobs,
        dask=request.dask,
        progress=request.progress,
    )
