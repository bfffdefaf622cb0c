"""Targets that need no learning: one action in every row, and the policy that wrote the log."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from heavytail._memory import check_memory
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import check_choice, check_count, shown
from heavytail.logs.reading.actions import meant
from heavytail.logs.reading.rows import LOGGED, MOST_ARMS, Rows, offered
from heavytail.tables.categories import key

__all__ = ["Always", "Logged", "always"]

NO_NAMES: Final = (
    "actions are numbers and have no names. Pass always(number); or let an encoder's catalogue "
    "make the arms, columns={'arms': encoder.catalogue(table, ids=...)}: actions are its ids."
)


def always(action: str | int, *, otherwise: str | None = None) -> Always:
    """Play one action in every row: a target for :func:`heavytail.evaluate`, ``compare`` and
    ``select``.

    pi(a|x) is 1 for a = ``action`` and 0 for all others, so that w = 1/p in rows that played it and
    0 elsewhere.

    >>> import heavytail as ht
    >>> log = {"action": ["mail", "none"] * 50, "reward": [3.0, 1.0] * 50,
    ...        "propensity": [0.5] * 100}
    >>> ht.evaluate(log, ht.always("mail")).value
    3.0

    Args:
        action: its name in the log's column of actions, its id in the catalogue, or its number
            where actions are numbers. 7 and "7" are the same name.
        otherwise: what is played in rows that did not offer the action. None refuses such rows.
            "logged" plays there as the log did (w = 1): the value is then that of playing the
            action wherever it can be played. A row says what it offered by ``arms``, or by the
            ``offered`` of a catalogue. An action with a logged probability of 0 counts as offered;
            it shows in ``unsupported_share``.
    """
    return Always(action, otherwise)


class Always:
    """A target that plays one action in every row; see :func:`always`."""

    def __init__(self, action: str | int, otherwise: str | None = None) -> None:
        self.action: str | int
        if isinstance(action, str):
            self.action = str.__str__(action)
        else:
            name = "always.action, if it is no name,"
            self.action = check_count(name, action, least=0, most=MOST_ARMS - 1)
        self.otherwise = otherwise
        if otherwise is not None:
            check_choice("always.otherwise", otherwise, (LOGGED,), hint="Or leave it out.")
        self.__name__ = f"always {self.action}"

    def __call__(self, rows: Rows, propensity: FloatArray | None = None) -> FloatArray:
        """(n, K), or (n,) where the log played and its probabilities of all arms are not known."""
        places, width = self._places(rows)
        there = places >= 0
        check_memory(
            f"{self.__name__}: probabilities of {width:,} actions for {len(places):,} rows",
            float(width) * len(places),
            "Number the actions that occur without gaps.",
        )
        if not there.all() and self.otherwise is None:
            row = int(np.argmin(there))
            raise ValueError(
                f"{rows.at(row)}: does not offer {shown(self.action)}. Leave such rows out, or "
                f"pass always({shown(self.action)}, otherwise='logged') to play there as the log "
                "did."
            )
        shares = np.zeros((len(places), width))
        shares[there, places[there]] = 1.0
        if there.all():
            return shares
        return self._filled(shares, there, rows, propensity)

    def _filled(
        self,
        shares: FloatArray,
        there: NDArray[np.bool_],
        rows: Rows,
        propensity: FloatArray | None,
    ) -> FloatArray:
        """The same, with the log's own probabilities in rows that did not offer the action."""
        log = Logged()(rows, propensity)
        if log.ndim == 2:
            wide = np.zeros_like(shares)
            wide[:, : log.shape[1]] = log
            return np.where(there[:, None], shares, wide)
        return np.where(there, shares[np.arange(len(shares)), rows.action], log)

    def _places(self, rows: Rows) -> tuple[IntArray, int]:
        """The place of the action among those that each row offered, -1 for none, and K."""
        n = len(rows.action)
        if rows.actions is None:
            return self._by_number(rows)
        name = key(self.action)
        if name not in rows.actions:
            raise ValueError(
                f"{rows.source}, column {rows.column('action')!r}: no row plays or offers "
                f"{shown(name)}. {meant(str(name), rows.actions)}"
            )
        number = rows.actions.index(name)
        if rows.offers is None:
            return np.full(n, number), len(rows.actions)
        hit = rows.offers == number
        return np.where(hit.any(axis=1), hit.argmax(axis=1), -1), hit.shape[1]

    def _by_number(self, rows: Rows) -> tuple[IntArray, int]:
        if isinstance(self.action, str):
            raise ValueError(
                f"{rows.source}, column {rows.column('action')!r}: {self.__name__}: {NO_NAMES}"
            )
        n, counts = len(rows.action), offered(rows)
        if counts is None:  # all of those that are played, whatever their number
            width = 1 + max(self.action, int(rows.action.max(initial=0)))
            return np.full(n, self.action), width
        if rows.arms is not None:
            return np.where(self.action < counts, self.action, -1), rows.arms.shape[1]
        self._check_number(int(counts[0]), rows)
        return np.full(n, self.action), int(counts[0])

    def _check_number(self, count: int, rows: Rows) -> None:
        """Refuse a number that is none of a log's actions."""
        assert isinstance(self.action, int)
        if self.action >= count:
            raise ValueError(
                f"{rows.source}: no row plays or offers {self.action}; there are {count} actions, "
                f"0 to {count - 1}."
            )

    def finish(self, counts: FloatArray) -> None:
        """Refuse, after the whole log, a number that no row plays or offers; ``counts`` says how
        often each number is played or offered.
        """
        if isinstance(self.action, int) and not np.any(counts[self.action : self.action + 1]):
            raise ValueError(
                f"the log: no row plays or offers {self.action}. Those played are "
                f"{shown(np.flatnonzero(counts).tolist())}."
            )


class Logged:
    """The policy that wrote the log, or a column of that name if that is what was read."""

    def __call__(self, rows: Rows, propensity: FloatArray | None = None) -> FloatArray:
        """(n, K), or (n,) where its probabilities of all arms are not known.

        ``propensity`` is stated in place of the log's own.
        """
        if not self.of_log(rows):
            assert rows.target is not None
            return rows.target
        if propensity is not None:
            return propensity
        if rows.probabilities is not None:
            return rows.probabilities
        return np.ones(len(rows.action)) if rows.propensity is None else rows.propensity

    def of_log(self, rows: Rows) -> bool:
        """Tell whether it is the log's policy, whose weights are 1, and no column."""
        return rows.target is None or rows.column("target") != LOGGED
