"""One checked chunk of a log: the input of every estimate.

The columns of a log, by the names they have unless ``columns`` says otherwise:

| column | type | what it is |
| --- | --- | --- |
| ``action`` | whole number or text | the arm's place among those offered, from 0; or its name |
| ``reward`` | number | what it paid; finite |
| ``propensity`` | number in (0, 1] | the probability with which it was played |
| ``probabilities`` | list of numbers | those of all arms; if ``propensity`` is missing |
| ``arms`` | list of lists of numbers | the features of every arm offered; rows may offer fewer |
| ``context`` | list of numbers | features of the round, as many in every row |
| ``target`` | number or list of numbers | a target's probability of the action, or of all arms |
| ``time`` | seconds or a timestamp | when it was decided; may not decrease |
| ``token`` | text | of the decision; not read |
| ``score`` | number | the mean reward that was expected; not read |
| ``reward_time`` | seconds | when the reward came; not read |
| ``ids`` | list of text | names of the arms offered; read with a catalogue |
| ``context_json`` | text | values of the context by name, as JSON; read with a catalogue |

Only ``action`` and ``reward`` must be there. A row's number counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray, IntArray
from heavytail.tables.place import Place

__all__ = [
    "BY_NAME",
    "COLUMNS",
    "DRAWN",
    "LOGGED",
    "MOST_ARMS",
    "NAMES",
    "Rows",
    "checked",
    "needed",
    "offered",
    "without",
]

COLUMNS = (  # those that are read
    "action",
    "reward",
    "propensity",
    "probabilities",
    "arms",
    "context",
    "target",
    "time",
)
NEEDED = ("action", "reward")
LOGGED = "logged"  # names the policy that wrote the log
BY_NAME = ("probabilities", "target")  # which may have a column for each action's name
PER_ROW = (  # fields of Rows
    *("action", "reward", "propensity", "arms", "context", "target", "probabilities", "numbers"),
    "offers",
)
NAMES = "Give every action a number, from 0 up, or every action a name."
DRAWN = {"arms": "what was offered", "propensity": "how likely each action was"}
SUM_SLACK = 1e-6  # of probabilities that must add up to 1: logs are often written in float32
MOST_ARMS = 2**24  # actions are counted one by one: 128 MiB per count
SAME = 1e-6  # a propensity may differ by this from the entry of its row's probabilities


class Rows(NamedTuple):
    """A chunk of n rows; K arms at most were offered in one of them.

    Attributes:
        source: the file's name, or "log": for errors.
        start: number of the first row in the whole log, from 0.
        action: (n,), the arm played.
        reward: (n,), finite.
        propensity: (n,) in (0, 1], or None where the log has none.
        arms: (n, K, d); rows that offered fewer than K are filled up with NaN, or None.
        context: (n, d), or None.
        target: (n, K) or (n,), a target's probabilities that the log carries, or None.
        probabilities: (n, K), those of the policy that wrote the log, or None.
        numbers: (n,), of the rows in their source, or None where they count from ``start``.
        names: the log's own names of the columns, by ours, where they differ.
        actions: names of all actions of the log, or ids of the catalogue; the name of row i's is
            ``actions[action[i]]`` without ``offers``. None where actions are numbers.
        offers: (n, K), the arms that each row offered, by their places in ``actions``, and -1 where
            it offered fewer; None where every row offered all of ``actions``.
    """

    source: str
    start: int
    action: IntArray
    reward: FloatArray
    propensity: FloatArray | None = None
    arms: FloatArray | None = None
    context: FloatArray | None = None
    target: FloatArray | None = None
    probabilities: FloatArray | None = None
    numbers: IntArray | None = None
    names: Mapping[str, str] | None = None
    actions: tuple[str, ...] | None = None
    offers: IntArray | None = None

    def column(self, ours: str) -> str:
        """The log's own name of a column, for errors."""
        return ours if self.names is None else self.names.get(ours, ours)

    def at(self, row: int) -> str:
        """The place of a row, for errors: its file, and its number in that file."""
        number = self.start + row if self.numbers is None else self.numbers[row]
        return f"{self.source}, row {number}"


Placing = Callable[[str], Place]  # of a column, by our name


def first(bad: NDArray[np.bool_]) -> int:
    """The first bad row; -1 if there is none."""
    if not bad.any():
        return -1
    return int(np.argmax(bad.reshape(len(bad), -1).any(axis=1)))


def offered(rows: Rows) -> IntArray | None:
    """(n,), the number of arms that each row offered; None if the log does not say."""
    if rows.arms is not None:
        return np.asarray((~np.isnan(rows.arms[:, :, 0])).sum(axis=1), dtype=np.int64)
    for known in (rows.probabilities, rows.target):
        if known is not None and known.ndim == 2:
            return np.full(len(rows.action), known.shape[1], dtype=np.int64)
    return None


def without(rows: Rows, left_out: NDArray[np.bool_]) -> Rows:
    """The same rows without some of them; their names are kept."""
    parts: dict[str, Any] = {key: getattr(rows, key) for key in PER_ROW}
    kept: Any = {key: None if part is None else part[~left_out] for key, part in parts.items()}
    return rows._replace(**kept)


def needed(rows: Rows, who: str, columns: Mapping[str, str]) -> list[Any]:
    """Columns that ``who`` cannot do without, by name with what each is; refuses a log that lacks
    one.
    """
    for name, what in columns.items():
        if getattr(rows, name) is None:
            raise ValueError(f"{rows.source}: {who} needs the column {name!r}, {what}.")
    return [getattr(rows, name) for name in columns]


def checked(arrays: Mapping[str, Any], source: str, start: int, place: Placing) -> Rows:
    """Rows of float64 arrays by column, (n,), (n, K) or (n, K, d), or an error that names the
    place.

    ``start`` counts in the whole log; ``place`` says where a column comes from.
    """
    columns = {key: arrays.get(key) for key in COLUMNS}
    reward = _reward(columns["reward"], place("reward"))
    n = len(reward)
    for key, array in columns.items():
        if array is not None and len(array) != n:
            place(key).refuse(None, f"{len(array)} rows, but {n} rewards. Give as many of each.")
    action = _action(columns["action"], place("action"))
    arms, context = columns["arms"], columns["context"]
    counts = None
    if arms is not None:
        counts = _arms(arms, place("arms"))
        _in_range(action, counts, place("action"), "arms")
    if context is not None:
        _finite(context, place("context"))
    probabilities, target = columns["probabilities"], columns["target"]
    for key, array in (("probabilities", probabilities), ("target", target)):
        if array is not None:
            _shares(array, action, counts, place(key), place("action"))
    propensity = _propensity(columns["propensity"], probabilities, action, place)
    parts = (action, reward, propensity, arms, context, target, probabilities)
    frozen: list[Any] = [None if part is None else _frozen(part) for part in parts]
    return Rows(source, start, *frozen)


def _reward(reward: Any, place: Place) -> FloatArray:
    bad = first(~np.isfinite(reward))
    if bad >= 0:
        place.refuse(
            bad,
            f"must be a finite number; got {reward[bad]}. Leave the row out, or give the reward.",
        )
    return np.asarray(reward)


def _action(action: Any, place: Place) -> IntArray:
    whole = np.floor(action) == action
    bad = first(~(whole & (action >= 0)))
    if bad >= 0:
        place.refuse(
            bad,
            f"must be a whole number, from 0 up; got {action[bad]:g}. It is the place of the arm "
            f"among those offered. {NAMES}",
        )
    bad = first(action >= MOST_ARMS)
    if bad >= 0:
        place.refuse(
            bad,
            f"must be below {MOST_ARMS:,}, the most arms there may be; got {action[bad]:g}. "
            "Number the actions that occur from 0 on, without gaps.",
        )
    return np.asarray(action, dtype=np.int64)


def _arms(arms: FloatArray, place: Place) -> IntArray:
    """The number of arms that each row offered; the rest are NaN and at the end."""
    if np.isfinite(arms).all() and arms.size:
        return np.full(len(arms), arms.shape[1], dtype=np.int64)
    missing = np.asarray(np.isnan(arms).all(axis=2))
    counts = (~missing).sum(axis=1)
    bad = first(counts == 0)
    if bad >= 0:
        place.refuse(bad, "no arm is offered.")
    late = first(missing[:, :-1] & ~missing[:, 1:])
    if late >= 0:
        place.refuse(late, "an arm of NaN stands before others. Pad at the end.")
    bad = first(~np.isfinite(arms) & ~missing[:, :, None])
    if bad >= 0:
        place.refuse(bad, "must be finite numbers; got NaN or infinity.")
    return np.asarray(counts, dtype=np.int64)


def _finite(values: FloatArray, place: Place) -> None:
    bad = first(~np.isfinite(values))
    if bad >= 0:
        place.refuse(bad, "must be finite numbers; got NaN or infinity.")


def _in_range(action: IntArray, counts: IntArray | int, place: Place, what: str) -> None:
    bad = first(action >= counts)
    if bad >= 0:
        most = np.broadcast_to(counts, action.shape)[bad]
        place.refuse(
            bad,
            f"must be a whole number below {most}, of which there are {what}; got {action[bad]}. "
            "Actions count from 0.",
        )


def _shares(
    shares: FloatArray, action: IntArray, counts: IntArray | None, place: Place, actions: Place
) -> None:
    """Probabilities: of the action, or of all arms."""
    bad = first(~((shares >= 0.0) & (shares <= 1.0 + SUM_SLACK)))
    if bad >= 0:
        actual = shares[bad] if shares.ndim == 1 else shares[bad].tolist()
        place.refuse(bad, f"must be probabilities, from 0 to 1; got {actual}.")
    if shares.ndim == 1:
        return
    total = shares.sum(axis=1)
    bad = first(abs(total - 1.0) > SUM_SLACK * max(1, shares.shape[1]))
    if bad >= 0:
        place.refuse(bad, f"must add up to 1; got {total[bad]:.9g}.")
    _in_range(action, shares.shape[1], actions, place.column)
    if counts is not None:
        outside = np.arange(shares.shape[1]) >= counts[:, None]
        bad = first((shares > 0.0) & outside)
        if bad >= 0:
            place.refuse(bad, f"an arm beyond the {counts[bad]} offered has a probability.")


def _propensity(
    propensity: FloatArray | None,
    probabilities: FloatArray | None,
    action: IntArray,
    place: Placing,
) -> FloatArray | None:
    column_place, own = place("propensity"), None
    if probabilities is not None:
        own = probabilities[np.arange(len(action)), action]
    if propensity is None:
        if own is None:
            return None
        propensity, column_place = own, place("probabilities")
    bad = first(~((propensity > 0.0) & (propensity <= 1.0)))
    if bad >= 0:
        column_place.refuse(
            bad,
            f"must be a probability above 0 and at most 1; got {propensity[bad]:g}. An action "
            "that was played had one: correct it, or leave the row out and say so.",
        )
    if own is not None:
        bad = first(abs(propensity - own) > SAME)
        if bad >= 0:
            column_place.refuse(
                bad,
                f"is {propensity[bad]:g}, but {place('probabilities').column!r} has {own[bad]:g} "
                "for the action. Leave one of the two out.",
            )
    return np.asarray(propensity)


def _frozen(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """A read-only view for targets and models: the array may be the caller's own."""
    view = array.view()
    view.flags.writeable = False
    return view
