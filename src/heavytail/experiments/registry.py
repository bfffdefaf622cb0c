"""What ``heavytail reproduce NAME`` can run besides the catalogue's settings, and what that gives.

See the package's docstring for adding one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heavytail.experiments.catalogue import SEED
from heavytail.experiments.store import Store
from heavytail.experiments.units import Work
from heavytail.simulation.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENTS",
    "Heat",
    "Listed",
    "Section",
    "Settings",
    "Table",
    "extra_units",
    "load_experiment",
]


@dataclass(frozen=True)
class Listed:
    """An experiment: ``run`` and ``units`` are "module:function".

    ``run`` is (settings, progress) -> Section. ``units``, where given, is (settings) -> work that
    ``run`` will find done in the store: it is run beside everyone else's, under one bar.
    ``asked`` marks what runs only when it is asked for by name.
    """

    title: str
    run: str
    units: str = ""
    asked: bool = False


_HERE = "heavytail.experiments"
EXPERIMENTS: dict[str, Listed] = {
    "horizon": Listed(
        "Regret against T", f"{_HERE}.growth:horizon", f"{_HERE}.growth:horizon_units"
    ),
    "noise-level": Listed(
        "Regret against the size of the noise",
        f"{_HERE}.growth:noise_level",
        f"{_HERE}.growth:noise_units",
    ),
    "coverage": Listed(
        "Coverage of Lemma 1", f"{_HERE}.covering:covering", f"{_HERE}.covering:cover_units"
    ),
    "cost": Listed("What a round costs", f"{_HERE}.cost:cost"),
    "speedup": Listed(
        "Hvt-UCB against HEAVY-OFUL by every solver; takes long, runs only by name",
        f"{_HERE}.cost:speedup",
        asked=True,
    ),
    "mdp": Listed(
        "Linear MDPs with heavy-tailed rewards; takes minutes, runs only by name",
        "heavytail.mdp.experiments:mdp",
        "heavytail.mdp.experiments:mdp_units",
        asked=True,
    ),
    "control": Listed(
        "Linear-quadratic control; takes minutes, runs only by name",
        "heavytail.control.experiments:control",
        "heavytail.control.experiments:control_units",
        asked=True,
    ),
}


TUNED = Path(__file__).with_name("tuned.json")


@dataclass(frozen=True)
class Settings:
    """What was asked for. ``rounds`` None is each experiment's own."""

    out: Path
    trials: int = 20
    rounds: int | None = None
    seed: int = SEED
    jobs: int | None = None
    dask: str | None = None
    quick: bool = False
    policies: tuple[str, ...] = ()
    tuned: Path = TUNED

    @property
    def store(self) -> Store:
        """Where finished units are kept."""
        return Store(self.out / "units")


@dataclass(frozen=True)
class Table:
    """Rows of text under a title."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Heat:
    """A tuning grid: ``values`` by row and column; the least is the one chosen."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: list[list[float]]


@dataclass
class Section:
    """A part of the report: text (paragraphs), tables, and figures by file name.

    ``data`` is what verdicts are computed from, by name.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    heats: list[Heat] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def load_experiment(name: str) -> Callable[[Settings, Progress], Section]:
    """The function listed under ``name``."""
    return _load(EXPERIMENTS[name].run)


def extra_units(name: str, settings: Settings) -> list[Work]:
    """The units an experiment announces."""
    where = EXPERIMENTS[name].units
    return _load(where)(settings) if where else []


def _load(where: str) -> Any:
    module, function = where.split(":")
    return getattr(importlib.import_module(module), function)
