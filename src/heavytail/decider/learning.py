"""Learning a log of another's decisions, and what a Decider counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._validate import check_choice, shown
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import Rows
from heavytail.decider.markup import counted
from heavytail.decider.model import Model
from heavytail.ledger.layout import CONTEXT, IDS
from heavytail.tables.categories import keys_of
from heavytail.tables.columns import is_arrow, numbers, plain
from heavytail.tables.frames import Table, absent
from heavytail.tables.opening import rows_of

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["Counts", "Learned", "is_due", "learn", "until_due"]

NAMED: Final = 20  # unknown values of a column that are named
LARGEST: Final = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Learned:
    """The rows of a log that were learned, and those left out.

    Attributes:
        rows: learned.
        unrewarded: rows left out because they have no reward.
        nameless: rows left out because they have a reward and no id.
        foreign: rows left out because their offer is not here, by its id.
        propensities: whether the log says with which probability offers were chosen; a Decider
            stores these probabilities, and uses them for nothing.
    """

    rows: int
    unrewarded: int = 0
    foreign: Mapping[str, int] = field(default_factory=dict)
    propensities: bool = False
    nameless: int = 0

    def __str__(self) -> str:
        lines = [f"{counted(self.rows, 'row')} learned"]
        if self.unrewarded:
            lines.append(f"{self.unrewarded:,} left out: they have no reward")
        if self.nameless:
            lines.append(f"{self.nameless:,} left out: they have no id")
        if self.foreign:
            most = sorted(self.foreign, key=lambda text: -self.foreign[text])[:3]
            named = ", ".join(f"{text} ({self.foreign[text]:,})" for text in most)
            lines.append(f"{sum(self.foreign.values()):,} left out: no such offer here: {named}")
        if self.propensities:
            lines.append("propensities were stored, and change nothing that is learned")
        else:
            lines.append("no propensities: the log serves to learn, not to compare rules")
        return "\n".join(lines)


class Counts:
    """Counts over the whole life of a Decider.

    Attributes:
        offers: by the place of an offer: rewards learned, their sum, and how many were not 0.
        closed: decisions that were closed without a reward.
        unknown: by column, values that the encoder does not know, and how often they came.
    """

    def __init__(self) -> None:
        self.offers: dict[int, list[float]] = {}
        self.closed = 0
        self.unknown: dict[str, dict[str, int]] = {}

    def after(self, place: int, reward: float) -> list[float]:
        """The sums of an offer once another reward of it is counted."""
        count, total, paid = self.offers.get(place, (0.0, 0.0, 0.0))
        total = min(max(total + reward, -LARGEST), LARGEST)
        return [count + 1.0, total, paid + float(reward != 0.0)]

    def after_meeting(self, unknown: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """The values that the encoder does not know, once others of them are counted."""
        counts = dict(self.unknown)
        for name, text in unknown.items():
            known = counts[name] = dict(counts.get(name, {}))
            named = text if text in known or len(known) < NAMED else "others"
            known[named] = known.get(named, 0) + 1
        return counts

    def plain(self) -> dict[str, Any]:
        """All of it as JSON values."""
        offers = [[place, *sums] for place, sums in self.offers.items()]
        return {"offers": offers, "closed": self.closed, "unknown": self.unknown}

    @classmethod
    def of_plain(cls, told: Mapping[str, Any], offers: int) -> Counts:
        """Read what ``plain`` gave; ValueError for anything else."""
        counts = cls()
        for place, *sums in told["offers"]:
            whole = type(place) is int and 0 <= place < offers and len(sums) == 3
            if not whole or not all(type(n) is float and np.isfinite(n) for n in sums):
                raise ValueError("its counts are damaged")
            if not (sums[0] >= sums[2] >= 0.0 and place not in counts.offers):
                raise ValueError("its counts are damaged")
            counts.offers[place] = sums
        closed, unknown = told["closed"], told["unknown"]
        if type(closed) is not int or closed < 0 or not isinstance(unknown, dict):
            raise ValueError("its counts are damaged")
        for known in unknown.values():
            if not all(type(n) is int and n > 0 for n in known.values()):
                raise ValueError("its counts are damaged")
        counts.closed, counts.unknown = closed, {name: dict(k) for name, k in unknown.items()}
        return counts


def is_due(seen: int, first: int, most: int) -> bool:
    """Tell whether the shape is to be learned after so many rows: first, 2 first, 4 first, ..."""
    return first <= seen <= most and seen % first == 0 and (seen // first).bit_count() == 1


def until_due(seen: int, first: int, most: int) -> float:
    """The rows after ``seen`` until the shape is learned again; infinity where it is final."""
    due = first
    while due <= seen:
        due *= 2
    return due - seen if due <= most else np.inf


def learn(
    decider: Decider, log: object, columns: Mapping[str, str], progress: bool | None
) -> Learned:
    """Learn a log: the shape from its last rows if nothing better is known, then every row."""
    from heavytail.simulation.progress import progress_bar

    where = "Decider.learn"
    if not isinstance(columns, Mapping) or not all(isinstance(n, str) for n in columns.values()):
        raise TypeError(
            f'{where}: columns must be a dict of names, such as {{"reward": "paid"}}; got '
            f"{shown(columns)}."
        )
    known = _known(decider)
    table = _of_service(decider, rows_of(log, f"{where}: log"))
    rows, learned, contexts = _read(decider, table, columns, where)
    if _known(decider) != known:
        raise ValueError(
            f"{where}: a column of the log called the Decider while it was read. Pass it as a list "
            "or an array. Nothing of the log was learned."
        )
    if len(rows) == 0:
        why = str(learned).replace("\n", "; ")
        raise ValueError(f"{where}: no row can be learned: {why}. Nothing has changed.")
    with progress_bar(progress, "learning", len(rows)) as bar:
        _learn_rows(decider, contexts, rows, bar.advance)
    return learned


def _known(decider: Decider) -> tuple[Any, ...]:
    """All that a log is read by: what offers and contexts there are."""
    contexts = decider._contexts
    return decider._offers, contexts, [*contexts.kinds], [len(each) for each in contexts.texts]


def _learn_rows(
    decider: Decider, contexts: Contexts, rows: Rows, advance: Callable[[int], None]
) -> None:
    """Learn all rows, or none: what is new takes the old one's place at the end."""
    offers, options = decider._offers, decider._options
    earlier, history = decider._history.rows(), decider._history.copy()
    was_short = history.seen <= history.size
    history.extend(rows)
    if history.seen <= history.size:
        model = Model.learned(contexts, offers, history.rows(), options=options)
        advance(len(rows))
    elif was_short:  # the shape from a sample, everything else from all rows
        every = earlier.joined(rows)
        few = every.where(np.linspace(0, len(every) - 1, history.size).astype(np.int64))
        model = Model.learned(contexts, offers, few, options=options).fresh(offers)
        model.learn(contexts, offers, every, progress=advance)
    else:
        model = decider._model.clone(offers)
        model.learn(contexts, offers, rows, progress=advance)
    decider._contexts, decider._history, decider._model = contexts, history, model


def _of_service(decider: Decider, table: Table) -> Table:
    """The log of ``heavytail serve`` with its context, and the id that was chosen, as columns; any
    other log as it is.
    """
    identity, names = decider._offers.id_column, decider._contexts.names
    if not {CONTEXT, IDS, "action"} <= {*table.columns} or identity in table.columns:
        return table
    texts, place = _cells(table.column(CONTEXT)), table.place(CONTEXT)
    contexts = []
    for row, text in enumerate(texts):
        try:
            context = json.loads(text)
            contexts.append([context[name] for name in names])
        except (TypeError, ValueError, KeyError, RecursionError) as error:
            place.refuse(row, f"must be a context with {', '.join(names)} as JSON ({error!r}).")
    ids, actions = _cells(table.column(IDS)), _cells(table.column("action"))
    columns = {name: [context[i] for context in contexts] for i, name in enumerate(names)}
    columns[identity] = [
        None if ids[row] is None else _chosen(ids[row], action, row, table)
        for row, action in enumerate(actions)
    ]
    rest = {name: values for name, values in table.columns.items() if name not in columns}
    return Table({**rest, **columns}, table.source, table.rows)


def _chosen(ids: Any, action: Any, row: int, table: Table) -> Any:
    """The id at the place of an action; refuse a row without it."""
    if isinstance(ids, str) or not isinstance(ids, Sequence | np.ndarray):
        table.place(IDS).refuse(row, f"must list the ids of the offers; got {shown(ids)}.")
    is_place = isinstance(action, int | float | np.number) and action in range(len(ids))
    if not is_place or isinstance(action, bool):
        table.place("action").refuse(
            row, f"must be the place of an id, below {len(ids)}; got {shown(action)}."
        )
    return ids[int(action)]


def _cells(column: Any) -> list[Any]:
    cells = plain(column)
    return cells.to_pylist() if is_arrow(cells) else list(cells)


def _read(
    decider: Decider, table: Table, columns: Mapping[str, str], where: str
) -> tuple[Rows, Learned, Contexts]:
    """The rows of a log that can be learned, and how many cannot."""
    contexts, offers = decider._contexts, decider._offers
    identity = offers.id_column
    known = ("reward", "propensity", "time", identity, *contexts.names)
    for name in columns:
        check_choice(f"{where}: a name in columns", name, known)
    names = {name: columns.get(name, name) for name in known}
    for name in (identity, "reward", *contexts.names):
        if names[name] not in table.columns:
            do = f" If it has another name, pass columns={{{name!r}: ...}}."
            raise absent(names[name], table.columns, table.source, do)
    reward = np.array(table.numbers(names["reward"]))  # a copy: others may write to the log
    if np.isinf(reward).any():
        table.place(names["reward"]).refuse(int(np.argmax(np.isinf(reward))), "must be finite.")
    keys = keys_of(table.column(names[identity]), table.place(names[identity]))
    places = np.array([*(offers.places.get(text, -1) for text in keys.values), -1])[keys.codes]
    paid, ours = ~np.isnan(reward), places >= 0
    strange = np.bincount(keys.codes[paid & ~ours & (keys.codes >= 0)], minlength=len(keys.values))
    foreign = {keys.values[i]: int(n) for i, n in enumerate(strange) if n}
    chance = np.full(len(reward), np.nan)
    if names["propensity"] in table.columns:
        chance = np.array(table.numbers(names["propensity"]))
        bad = ~(np.isnan(chance) | ((chance > 0.0) & (chance <= 1.0)))
        if bad.any():
            row = int(np.argmax(bad))
            table.place(names["propensity"]).refuse(
                row, f"a probability must lie in (0, 1]; got {shown(float(chance[row]))}."
            )
    elif "propensity" in columns:
        raise absent(names["propensity"], table.columns, table.source)
    times = np.full(len(reward), np.nan)
    if names["time"] in table.columns:
        cells, place = plain(table.column(names["time"])), table.place(names["time"])
        times = np.array(numbers(cells, place, may_miss=True, times=True))
        times = np.where(np.isfinite(times), times, np.nan)
    renamed = Table(
        {name: table.column(names[name]) for name in contexts.names}, table.source, table.rows,
        {name: names[name] for name in contexts.names},
    )  # fmt: skip
    raw, texts = contexts.code_table(renamed)
    kept = paid & ours
    rows = Rows(raw, places, chance, reward, times, np.zeros(len(reward), dtype=bool)).where(kept)
    learned = Learned(
        len(rows), int((~paid).sum()), foreign, bool(np.isfinite(chance).any()),
        int((paid & (keys.codes < 0)).sum()),
    )  # fmt: skip
    contexts = contexts.copy()
    contexts.settle_table(renamed, texts)
    return rows, learned, contexts
