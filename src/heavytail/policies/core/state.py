"""The arrays of a packed policy: where each part lies, by name, and what is true of it always."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from heavytail._invariants import (
    LARGEST,
    LARGEST_SUM,
    are_counts,
    check_size,
    check_slots,
    damaged,
)
from heavytail._memory import grown
from heavytail._storage import afford, check_fit, is_plain
from heavytail._typing import FloatArray, State
from heavytail.kernels.layout import INVERSE, THETA, behind, slot_kinds
from heavytail.kernels.layout import rows as common_rows
from heavytail.kernels.m_estimate import TAU
from heavytail.policies.core.algorithm import Algorithm, Arrays

__all__ = ["LATER", "PackedState"]

FIRST_ROWS = 64  # room of a history to begin with
SUMS: Final = frozenset({"centre"})  # rows that sum x / sigma_t²

# Slots that files of version 2 did not name at first: a link's are the identity's in those, and
# counts are 0.
LATER: Final = {
    "CRTM": ("link", "fractions"),
    **dict.fromkeys(("HvtUCB", "TwinUCB"), ("prior", "astray", "units")),
    **dict.fromkeys(("HvtGLB", "HvtLowRank"), ("astray", "units")),
}


class PackedState:
    """(s, M), laid out as in :mod:`heavytail.kernels.layout`, and where rounds are kept H.

    Behind the named slots of s lie the named ``runs`` and ``spare`` numbers to work with. Behind
    the common rows of M lie the named ``rows`` (a count; None is one row, as a vector) and ``room``
    to work in, as rows named "" are. H doubles when it is full, so that a round costs no allocation
    on average. What is named is saved; room and unused rows of H are not.

    Attributes:
        s, M: the two arrays.
        H: the history; None where none is kept.
        packed: what the kernels take, in their order.
        rows: of M, by the name they are saved under.
        runs: of s, likewise.
        most_kept: rows that the history may have.
    """

    H: FloatArray | None = None
    packed: State

    def __init__(
        self,
        owner: str,
        algorithm: Algorithm,
        dim: int,
        size: int,
        arguments: Mapping[str, Any],
        *,
        rows: Mapping[str, int | None],
        room: int,
        runs: Mapping[str, int],
        spare: int,
        most_kept: float,
    ) -> None:
        self.owner, self.dim, self.most_kept = owner, dim, most_kept
        self.history, self.slots = algorithm.history, algorithm.slots
        self.rows: dict[str, slice | int] = {
            "theta": THETA,
            "inverse": slice(INVERSE, INVERSE + size),
        }
        row = common_rows(size)
        for name, count in rows.items():
            if count != 0 and name:
                self.rows[name] = row if count is None else slice(row, row + count)
            row += 1 if count is None else count
        self.runs: dict[str, slice] = {}
        slot = behind(self.slots[-1])
        for name, length in runs.items():
            self.runs[name] = slice(slot, slot + length)
            slot += length
        width = 0 if self.history is None else dim + self.history.columns
        afford(owner, slot + spare + (row + room) * size + FIRST_ROWS * width, arguments)
        self.s = np.zeros(slot + spare)
        self.M = np.zeros((row + room, size))
        if self.history is None:
            self.packed = (self.s, self.M)
        else:
            self._lay(np.zeros((FIRST_ROWS, width)))

    def _lay(self, rows: FloatArray) -> None:
        self.H = rows
        self.packed = (self.s, self.M, rows)

    @property
    def kept(self) -> int:
        """Rows of history."""
        return 0 if self.history is None else int(self.s[self.history.counter])

    def reserve(self, rounds: int) -> None:
        """Make room for ``rounds`` more rows of history, or for as many as may be kept."""
        if self.H is None:
            return
        rows = grown(self.owner, self.H, self.kept + min(rounds, int(self.most_kept) - self.kept))
        if rows is not self.H:
            self._lay(rows)

    def views(self) -> dict[str, FloatArray]:
        """The state by name, as views of the arrays that hold it."""
        views = {
            "scalars": self.s[: behind(self.slots[-1])],
            **{name: self.M[rows] for name, rows in self.rows.items()},
            **{name: self.s[run] for name, run in self.runs.items()},
        }
        if self.H is not None:
            views["history"] = self.H[: self.kept]
        return views

    def is_sound(self) -> bool:
        """Tell whether no number is a NaN, and all of M are finite."""
        return not np.isnan(self.s).any() and bool(np.isfinite(self.M).all())

    def check(self, arrays: Arrays, own: Arrays | None = None) -> None:
        """Refuse arrays that are no state of this policy, before a kernel sees them.

        ``own`` is a state that is, this one unless given: constants are compared with it.
        """
        own = self.views() if own is None else own
        if self.history is not None:
            own = {**own, "history": self._checked_history(arrays, own)}
        check_fit(self.owner, arrays, own)
        kinds = slot_kinds(*self.slots)
        check_slots(self.owner, "scalars", kinds, arrays["scalars"], own["scalars"])
        for key, array in arrays.items():
            if key in own and key != "scalars" and not self._is_finite(key, array):
                raise damaged(self.owner, key, "it is not finite")
        for key in self.rows:
            if not key.endswith("inverse"):  # which a small ridge makes as large as it likes
                check_size(self.owner, key, arrays[key], LARGEST_SUM if key in SUMS else LARGEST)
        if "history" in own:
            check_size(self.owner, "history", arrays["history"][:, : self.dim])

    def _checked_history(self, arrays: Arrays, own: Arrays) -> FloatArray:
        """The history among ``arrays``; refuses one of another width or number of rows, or with
        rows that point at none.
        """
        assert self.history is not None
        assert self.H is not None
        counter = "scalars" if self.history.counter >= 0 else "shape"
        check_fit(self.owner, arrays, {counter: own[counter]})
        count, history = arrays[counter][self.history.counter], arrays.get("history")
        if history is None or not (
            is_plain(history)
            and history.shape == (count, self.H.shape[1])
            and history.dtype == self.H.dtype
        ):
            raise ValueError(f"{self.owner}: the saved state's 'history' does not fit.")
        pointers = history[:, [self.dim + column for column in self.history.pointers]]
        if not are_counts(pointers, count, -1.0):
            raise damaged(self.owner, "history", "it names rows that are not there")
        return history

    def _is_finite(self, key: str, array: FloatArray) -> bool:
        """Tell whether an array is finite. In the history, what a row keeps from its threshold on
        may be infinite: it is where the row has no length.
        """
        if key == "history" and "tau_0" in slot_kinds(*self.slots):
            array, rest = np.split(array, [self.dim + TAU], axis=1)
            if not ((rest > -np.inf).all() and (rest[:, 0] > 0.0).all()):
                return False
        return bool(np.isfinite(array).all())

    def take(self, arrays: Arrays) -> None:
        """Take over a state that is known to be sound, and for whose history there is room."""
        for key, array in self.views().items():
            if key != "history":
                array[...] = arrays[key]  # the number of rows, too
        if self.H is not None:
            rows = arrays["history"]
            self.H[: len(rows)] = rows
            self.H[len(rows) :] = 0.0  # of rows that were taken back nothing may be left
