"""What ``heavytail reproduce NAME`` can run besides the catalogue's settings, and what that gives.

See the package's docstring for adding one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heavytail.experiments.catalogue import SEED
from heavytail.experiments.store import Store
from heavytail.simulation.progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENTS", "Section", "Settings", "Table", "load_experiment"]

# name: (title, "module:function"); the function is (settings, progress) -> Section.
EXPERIMENTS: dict[str, tuple[str, str]] = {}


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

    @property
    def store(self) -> Store:
        """Where finished units are kept."""
        return Store(self.out / "units")


@dataclass(frozen=True)
class Table:
    """Rows of text under a title."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


@dataclass
class Section:
    """A part of the report: text (paragraphs), tables, and figures by file name.

    ``data`` is what verdicts are computed from, by name.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def load_experiment(name: str) -> Callable[[Settings, Progress], Section]:
    """The function listed under ``name``."""
    module, function = EXPERIMENTS[name][1].split(":")
    found: Callable[[Settings, Progress], Section] = getattr(
        importlib.import_module(module), function
    )
    return found
