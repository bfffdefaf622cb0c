"""The tables of a store, and their rows."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

__all__ = [
    "ADDED",
    "CHANGE",
    "CONTEXT",
    "FILE",
    "FILLED",
    "IDS",
    "LAYOUT",
    "NAME",
    "TABLES",
    "Activity",
    "DecisionRow",
    "FileRow",
    "ModelRow",
    "OutcomeRow",
    "columns",
    "is_sound",
    "tables_of",
]

LAYOUT: Final = 2  # version of the tables
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"  # of models and keys
IDS: Final = "ids"  # columns of a log of decisions
CONTEXT: Final = "context_json"
CHANGE: Final = 2  # in an outcome's column by_default: it is a change of the model's offers
FILE: Final = "heavytail.db"  # in the folder of a store
_FIRST = (  # tables of version 1
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    """CREATE TABLE model (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, spec TEXT NOT NULL,
        created REAL NOT NULL, paused INTEGER NOT NULL, epoch INTEGER NOT NULL,
        last INTEGER NOT NULL, given_up INTEGER NOT NULL, swept BLOB NOT NULL,
        follows INTEGER, since INTEGER NOT NULL)""",
    """CREATE TABLE decision (
        model INTEGER NOT NULL, key BLOB NOT NULL, version INTEGER NOT NULL,
        arm INTEGER NOT NULL, x BLOB NOT NULL, request BLOB, detail BLOB NOT NULL)""",
    "CREATE UNIQUE INDEX decision_key ON decision (model, key)",
    """CREATE UNIQUE INDEX decision_request ON decision (model, request)
        WHERE request IS NOT NULL""",
    """CREATE TABLE outcome (
        model INTEGER NOT NULL, seq INTEGER NOT NULL, key BLOB NOT NULL, version INTEGER NOT NULL,
        by_default INTEGER NOT NULL, reward REAL NOT NULL, scale REAL, x BLOB NOT NULL,
        time REAL NOT NULL, PRIMARY KEY (model, seq))""",
    "CREATE UNIQUE INDEX outcome_key ON outcome (model, key)",
    """CREATE TABLE snapshot (
        number INTEGER PRIMARY KEY, model INTEGER NOT NULL, seq INTEGER NOT NULL,
        time REAL NOT NULL, note TEXT NOT NULL, data BLOB NOT NULL)""",
    "CREATE INDEX snapshot_model ON snapshot (model, seq)",
    """CREATE TABLE tally (
        model INTEGER NOT NULL, slot INTEGER NOT NULL, decisions INTEGER NOT NULL,
        PRIMARY KEY (model, slot))""",
    """CREATE TABLE api_key (
        digest BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
        created REAL NOT NULL, revoked INTEGER NOT NULL)""",
    "CREATE TABLE audit (time REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL)",
)
_SECOND = (  # tables that version 2 added
    """CREATE TABLE origin (
        model INTEGER PRIMARY KEY, source INTEGER NOT NULL)""",
    """CREATE TABLE catalogue (
        model INTEGER NOT NULL, number INTEGER NOT NULL, time REAL NOT NULL,
        content BLOB NOT NULL, PRIMARY KEY (model, number))""",
    """CREATE TABLE split (
        name TEXT PRIMARY KEY, content TEXT NOT NULL)""",
    """CREATE TABLE activity (
        model INTEGER NOT NULL, slot INTEGER NOT NULL, sent INTEGER NOT NULL,
        defaults INTEGER NOT NULL, gains REAL NOT NULL, losses REAL NOT NULL,
        unknown INTEGER NOT NULL, PRIMARY KEY (model, slot))""",
    """CREATE TABLE recent (
        model INTEGER PRIMARY KEY, content BLOB NOT NULL)""",
    """CREATE TABLE settled (
        model INTEGER PRIMARY KEY, key BLOB NOT NULL)""",
    """CREATE TABLE earned (
        model INTEGER NOT NULL, part TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL,
        PRIMARY KEY (model, part))""",
    """CREATE TABLE archive (
        model INTEGER NOT NULL, number INTEGER NOT NULL, file TEXT NOT NULL, digest BLOB NOT NULL,
        first INTEGER NOT NULL, outcomes INTEGER NOT NULL, decisions INTEGER NOT NULL,
        entries INTEGER NOT NULL, done INTEGER NOT NULL, low BLOB NOT NULL, high BLOB NOT NULL,
        width INTEGER NOT NULL, PRIMARY KEY (model, number))""",
)
ADDED: Final = {1: _FIRST, 2: _SECOND}  # tables by the version that they came with
FILLED: Final = {  # what an upgrade to a version derives from the tables before
    2: (
        """INSERT INTO activity SELECT model, 0, SUM(CASE WHEN by_default = 0 THEN 1 ELSE 0 END),
            SUM(CASE WHEN by_default = 0 THEN 0 ELSE 1 END),
            SUM(CASE WHEN reward > 0.0 THEN reward ELSE 0.0 END),
            SUM(CASE WHEN reward < 0.0 THEN -reward ELSE 0.0 END), 0 FROM outcome GROUP BY model""",
    ),
}
TABLES: Final = tuple(table for version in sorted(ADDED) for table in ADDED[version])


def tables_of(version: int) -> tuple[str, ...]:
    """The tables of a store of this version."""
    return tuple(table for then, tables in ADDED.items() if then <= version for table in tables)


def columns(statement: str) -> tuple[str, list[str]]:
    """The table that a statement creates, and its columns."""
    return statement.split()[2], re.findall(r"[(,]\s*([a-z_]+) [A-Z]", statement)


class ModelRow(NamedTuple):
    """A model in the store.

    Attributes:
        id: its number, never used again.
        name: as users call it.
        spec: JSON of :class:`heavytail.serve.wire.ModelSpec`.
        created: time of its creation.
        paused: whether its decisions are paused.
        epoch: number of restores of a snapshot.
        last: number of its last outcome.
        given_up: decisions that expired without one.
        swept: key up to which waiting decisions have expired.
        follows: the model whose outcomes it learns, if it is a shadow.
        since: the outcome of that model, or of ``origin``, after which it started.
        origin: the model whose outcomes up to ``since`` it learns before its own.
        catalogue: the number of its newest catalogue, if it has one.
    """

    id: int
    name: str
    spec: str
    created: float
    paused: bool
    epoch: int
    last: int
    given_up: int
    swept: bytes
    follows: int | None
    since: int
    origin: int | None = None
    catalogue: int | None = None

    @property
    def line(self) -> tuple[int, int, int | None]:
        """What decides, with the outcomes, which state the model has: it is another after a restore
        and after the promotion of a shadow.
        """
        return self.id, self.epoch, self.follows

    def pending(self, decisions: int) -> int:
        """The number of waiting decisions, given the number of all."""
        return 0 if self.follows else decisions - (self.last - self.since) - self.given_up


class Activity(NamedTuple):
    """What was counted of a model since its creation.

    Attributes:
        decisions: made.
        sent: rewards that were sent for them.
        defaults: default rewards that they got instead.
        gains: sum of the positive rewards, default rewards included.
        losses: sum of the negative ones, as a positive number.
        unknown: decisions with a category that the model has no feature for.
    """

    decisions: int = 0
    sent: int = 0
    defaults: int = 0
    gains: float = 0.0
    losses: float = 0.0
    unknown: int = 0

    @property
    def rewards(self) -> int:
        """Number of rewards, default rewards included."""
        return self.sent + self.defaults

    @property
    def money(self) -> float:
        """Sum of the rewards."""
        return self.gains - self.losses


class DecisionRow(NamedTuple):
    """A decision in the store; ``detail`` is :class:`heavytail.ledger.details.Detail`, packed."""

    model: int
    key: bytes
    version: int
    arm: int
    x: bytes
    request: bytes | None
    detail: bytes


class OutcomeRow(NamedTuple):
    """The outcome of a decision in the store, or a change of the model's offers.

    Attributes:
        by_default: 1 for a default reward; ``CHANGE`` for a change, which ``x`` holds.
    """

    seq: int
    key: bytes
    by_default: int
    reward: float
    scale: float | None
    x: bytes


class FileRow(NamedTuple):
    """A file of the archive, :mod:`heavytail.ledger.archive`.

    Attributes:
        model: whose rows it has.
        number: of the model's files, from 1 on.
        file: its address, or its name, which begins in the store's folder if it is relative.
        digest: SHA-256 of its bytes.
        first: the number of its first outcome, or of the next where it has none.
        outcomes: how many it has; its other rows are decisions without an outcome.
        decisions: how many it has.
        entries: rows of the file.
        done: rows that are no longer in the tables, from the first on.
        low: the least key of its decisions.
        high: the greatest one.
        width: number of features of the decision with the least key.
    """

    model: int
    number: int
    file: str
    digest: bytes
    first: int
    outcomes: int
    decisions: int
    entries: int
    done: int
    low: bytes
    high: bytes
    width: int

    @property
    def last(self) -> int:
        """The number of its last outcome that is no longer in the tables."""
        return self.first - 1 + min(self.done, self.outcomes)

    @property
    def complete(self) -> bool:
        """Tell whether none of its rows is in the tables."""
        return self.done >= self.entries


KINDS: Final[dict[type, tuple[Any, ...]]] = {
    DecisionRow: (int, bytes, int, int, bytes, bytes | None, bytes),
    OutcomeRow: (int, bytes, int, float, float | None, bytes),
}


def is_sound(row: DecisionRow | OutcomeRow) -> bool:
    """Tell whether all values are of their columns' types, which a damaged page may not respect."""
    return all(map(isinstance, row, KINDS[type(row)]))
