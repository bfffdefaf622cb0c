"""Files of a log: Parquet read by groups of rows, JSON lines, folders and patterns."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from heavytail._extras import need
from heavytail._validate import shown
from heavytail.ledger.layout import FILE
from heavytail.logs.reading.tables import Reading, flat
from heavytail.logs.reading.vw_dsjson import tables as lines
from heavytail.tables.frames import Table, table
from heavytail.tables.parquet import MAGIC, parquet, parquet_parts
from heavytail.tables.streams import UNREADABLE, damaged, unzipped

__all__ = [
    "Count",
    "Unit",
    "counted",
    "is_path",
    "kept",
    "paths",
    "refuse_earlier",
    "steps",
    "units",
]

EARLIER = "journal"  # in the folder of a DecisionLog of an earlier format


def is_path(log: object) -> TypeGuard[str | os.PathLike[str]]:
    """Tell whether ``log`` names files."""
    return isinstance(log, str | os.PathLike)


def paths(log: str | os.PathLike[str]) -> list[str]:
    """The files that a path, a folder or a pattern names, part-2 before part-10."""
    name = os.fspath(log)
    if not isinstance(name, str):
        raise TypeError(f"log: a path must be text; got {shown(name)}.")
    if os.path.isdir(name):
        matches = [str(path) for path in Path(name).rglob("*.parquet") if path.is_file()]
        if not matches:
            raise FileNotFoundError(f"{name}: there is no Parquet file in this folder.")
        return sorted(matches, key=_natural)
    if os.path.exists(name):
        return [name]
    matches = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
    if not matches:
        raise FileNotFoundError(f"{name}: there is no such file, and no file fits the pattern.")
    return sorted(matches, key=_natural)


def _natural(path: str) -> list[Any]:
    """Numbers in a name count as numbers."""
    return [int(word) if word.isdigit() else word for word in re.split(r"(\d+)", path)]


class Kept(NamedTuple):
    """A log that is kept in a store: its folder, and the model where one is named."""

    folder: str
    model: str | None


def kept(log: object) -> Kept | None:
    """The store that a path names: a folder of a DecisionLog or of a service, the database in it,
    or a model's name behind the folder; None where there is none.
    """
    if not is_path(log):
        return None
    name = os.fspath(log)
    refuse_earlier(name)
    parent, last = os.path.split(name)
    if os.path.isfile(os.path.join(name, FILE)):
        return Kept(name, None)
    if last == FILE and os.path.isfile(name):
        return Kept(parent, None)
    if not os.path.exists(name) and os.path.isfile(os.path.join(parent, FILE)):
        return Kept(parent, last)
    return None


def refuse_earlier(path: str) -> None:
    """Refuse the folder of a DecisionLog of an earlier format."""
    name = os.path.join(path, EARLIER)
    if os.path.lexists(name) and not os.path.isdir(name):
        raise ValueError(
            f"{path} is a DecisionLog of an earlier format. Convert it into a new folder: "
            f"heavytail log convert {path} NEW"
        )


@contextlib.contextmanager
def opened(log: Kept) -> Iterator[tuple[Any, Any]]:
    """A store to read, and the row of the model whose decisions are the log."""
    need("a log that is kept in a store", "msgspec", "pyarrow", extra="logs")
    from heavytail.ledger.sqlite import SQLiteStore

    with SQLiteStore.reading(log.folder) as store:
        rows = {row.name: row for row in store.models() if row.follows is None}
        names = [log.model] if log.model is not None else list(rows)
        if len(names) != 1 or names[0] not in rows:
            raise ValueError(
                f"{log.folder}: name the model whose log is meant, as "
                f"{os.path.join(log.folder, 'NAME')}. The models are {shown(list(rows))}."
            )
        yield store, rows[names[0]]


def steps(log: str | os.PathLike[str], reading: Reading) -> Iterator[tuple[Reading, Unit | Table]]:
    """The units and tables of the files that ``log`` names, and how their rows are read."""
    store = kept(log)
    if store is not None:
        yield from ((reading.of_decisions(), rows) for rows in _tables(store, reading))
        return
    for path in paths(log):
        if kind(path) == "parquet":
            mode = reading.fitting(parquet(path, path).schema_arrow.names)
            yield from ((mode, unit) for unit in units(path, mode))
        else:
            yield from ((reading, rows) for rows in lines(path, reading))


def _tables(log: Kept, reading: Reading) -> Iterator[Table]:
    mode, first = reading.of_decisions(), 0
    with opened(log) as (store, model):
        from heavytail.ledger.export import tables

        for part in tables(store, model, reading.size):
            wanted = mode.wanted(part.column_names, log.folder)
            yield mode.table(table(part, log.folder, first), wanted)
            first += len(part)


class Count(NamedTuple):
    """The number of rows of a log, None if unknown, and the number of those left out because they
    wait for their reward.
    """

    rows: int | None
    waiting: int = 0


def counted(log: str | os.PathLike[str], default_reward: float | None) -> Count:
    """The number of rows of the files, if Parquet's footers say it."""
    store = kept(log)
    if store is not None:
        with opened(store) as (tables, model):
            every = tables.decisions(model.id)
            rows = tables.rewards(model.id) if default_reward is None else every
        return Count(rows, every - rows)
    named = paths(log)
    if any(kind(path) != "parquet" for path in named):
        return Count(None)
    every = rows = 0
    for path in named:
        names = parquet(path, path).schema_arrow.names
        mode = Reading(default_reward=default_reward).fitting(names)
        every += sum(unit.length for unit in units(path, mode))
        rows += sum(unit.kept(mode) for unit in units(path, mode))
    return Count(rows, every - rows)


def kind(path: str) -> str:
    """ "parquet" or "dsjson", by the first bytes; an error for all else."""
    if os.path.exists(path) and not os.path.isfile(path):  # opening a pipe would wait
        raise ValueError(
            f"{path} is not a file, but a device, a pipe, a socket or a folder. Pass files."
        )
    with open(path, "rb") as stream:
        try:
            head = unzipped(stream).read(64)
        except UNREADABLE as error:
            raise damaged(path, error) from None
    if head.startswith(MAGIC) or path.endswith(".parquet"):
        return "parquet"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "dsjson"
    what = "is empty" if not head else "is neither Parquet nor JSON lines"
    raise ValueError(
        f"{path} {what}. Pass Parquet files, or lines of Vowpal Wabbit's dsjson; read a CSV file "
        "with pandas.read_csv and pass the frame."
    )


@dataclass(frozen=True)
class Unit:
    """Some groups of rows of a Parquet file: what one task reads."""

    path: str
    groups: tuple[int, ...]
    first: int  # number, in the file, of the first row
    length: int

    def tables(self, reading: Reading) -> Iterator[Table]:
        """Its rows in chunks; only columns that are wanted are read."""
        file = parquet(self.path, self.path)
        wanted = reading.wanted(file.schema_arrow.names, self.path)
        for part in parquet_parts(
            file, self.path, reading.size, flat(wanted), groups=self.groups, first=self.first
        ):
            yield reading.table(part, wanted)

    def kept(self, reading: Reading) -> int:
        """The number of its rows that have a reward, or need none."""
        if not reading.drop:
            return self.length
        file = parquet(self.path, self.path)
        wanted = reading.wanted(file.schema_arrow.names, self.path)
        rewards = file.read_row_groups(list(self.groups), columns=[wanted["reward"]])
        return self.length - int(rewards.column(0).null_count)


def units(path: str, reading: Reading) -> list[Unit]:
    """A Parquet file in tasks: one per group of rows, small ones together up to a chunk."""
    metadata = parquet(path, path).metadata
    tasks: list[Unit] = []
    groups: list[int] = []
    first = rows = 0
    for group in range(metadata.num_row_groups):
        count = int(metadata.row_group(group).num_rows)
        if groups and rows + count > reading.size:
            tasks.append(Unit(path, tuple(groups), first, rows))
            groups, first, rows = [], first + rows, 0
        groups.append(group)
        rows += count
    if groups:
        tasks.append(Unit(path, tuple(groups), first, rows))
    return tasks
