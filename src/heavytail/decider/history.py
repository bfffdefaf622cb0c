"""The last rewarded decisions, in bounded memory: for learning shapes, and for reports."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from heavytail._invariants import are_counts
from heavytail._typing import FloatArray, IntArray

__all__ = ["History", "Rows"]

OFFER, PROBABILITY, REWARD, TIME, OWN = range(5)  # columns behind those of the context
EXTRA: Final = 5


@dataclass(frozen=True, eq=False)
class Rows:
    """Rewarded decisions, oldest first.

    Attributes:
        contexts: (n, columns), as :class:`heavytail.decider.contexts.Contexts` codes them.
        offers: the places of the offers.
        probabilities: of the choices; NaN where a log did not say.
        rewards: of them.
        times: in seconds since 1970; NaN where unknown.
        own: whether this Decider decided; False for rows of a log.
    """

    contexts: FloatArray
    offers: IntArray
    probabilities: FloatArray
    rewards: FloatArray
    times: FloatArray
    own: np.ndarray[Any, np.dtype[np.bool_]]

    def __len__(self) -> int:
        return len(self.rewards)

    def _parts(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]

    def where(self, which: Any) -> Rows:
        """Some of the rows."""
        return Rows(*(part[which] for part in self._parts()))

    def joined(self, later: Rows) -> Rows:
        """These rows, and later ones after them."""
        both = zip(self._parts(), later._parts(), strict=True)
        return Rows(*(np.concatenate(parts) for parts in both))


class History:
    """A ring of the last ``size`` rows.

    Attributes:
        seen: rows that were ever added.
    """

    def __init__(self, columns: int, size: int) -> None:
        self.columns, self.size, self.seen = columns, size, 0
        self._ring = np.zeros((0, columns + EXTRA))

    def __len__(self) -> int:
        return min(self.seen, self.size)

    def add(
        self,
        context: FloatArray,
        offer: int,
        probability: float,
        reward: float,
        time: float,
        own: bool,
    ) -> None:
        """Add one row."""
        if self.seen < self.size and self.seen == len(self._ring):
            room = min(self.size, max(64, 2 * len(self._ring)))
            grown = np.zeros((room, self._ring.shape[1]))
            grown[: len(self._ring)] = self._ring
            self._ring = grown
        row = self._ring[self.seen % self.size]
        row[: self.columns] = context
        row[self.columns :] = (offer, probability, reward, time, own)
        self.seen += 1

    def extend(self, rows: Rows) -> None:
        """Add many rows."""
        laid = np.column_stack([rows.contexts, rows.offers, rows.probabilities, rows.rewards,
                                rows.times, rows.own])  # fmt: skip
        self._take(np.concatenate([self._ordered(), laid])[-self.size :], self.seen + len(rows))

    def _ordered(self) -> FloatArray:
        """The rows, oldest first."""
        if self.seen <= self.size:
            return self._ring[: self.seen]
        return np.roll(self._ring, -(self.seen % self.size), axis=0)

    def _take(self, laid: FloatArray, seen: int) -> None:
        """Lay rows, oldest first, as if ``seen`` had been added."""
        ring = laid.copy()
        if seen > self.size:
            ring = np.roll(ring, seen % self.size, axis=0)
        self._ring, self.seen = ring, seen

    def rows(self) -> Rows:
        """All rows kept, oldest first."""
        laid, c = self._ordered(), self.columns
        extra = laid[:, c:]
        return Rows(
            laid[:, :c].copy(), extra[:, OFFER].astype(np.int64), extra[:, PROBABILITY].copy(),
            extra[:, REWARD].copy(), extra[:, TIME].copy(), extra[:, OWN] != 0.0,
        )  # fmt: skip

    def arrays(self) -> dict[str, FloatArray]:
        """The ring as named arrays."""
        return {"history": self._ordered().copy(), "seen": np.array([float(self.seen)])}

    def copy(self) -> History:
        """The same rows, to which others may be added."""
        twin = History(self.columns, self.size)
        twin._take(self._ordered(), self.seen)
        return twin

    def resume(self, arrays: dict[str, Any], texts: list[int], offers: int) -> None:
        """Take over what ``arrays`` gave; ``texts`` are the categories of each column, -1 for a
        column of numbers. ValueError for anything else.
        """
        laid, seen = arrays["history"], arrays["seen"]
        if seen.shape != (1,) or seen.dtype != np.float64 or not are_counts(seen):
            raise ValueError("its number of rows is damaged")
        count = int(seen[0])
        if laid.dtype != np.float64 or laid.shape != (
            min(count, self.size), self.columns + EXTRA
        ):  # fmt: skip
            raise ValueError("its history does not fit")
        if len(laid):
            places, extra = laid[:, : self.columns], laid[:, self.columns :]
            for column, most in enumerate(texts):
                own = np.nan_to_num(places[:, column], nan=-1.0)
                if most >= 0 and not _are_places(own, -1, most):
                    raise ValueError("its history has categories that are not there")
            chance = extra[:, PROBABILITY]
            sound = (
                _are_places(extra[:, OFFER], 0, offers)
                and np.isfinite(extra[:, REWARD]).all()
                and not ((chance <= 0.0) | (chance > 1.0)).any()
                and not np.isinf(laid).any()
                and np.isin(extra[:, OWN], (0.0, 1.0)).all()
            )
            if not sound:
                raise ValueError("its history is damaged")
        self._take(laid, count)


def _are_places(values: FloatArray, least: int, below: int) -> bool:
    return bool(((values >= least) & (values < below) & (values == np.floor(values))).all())
