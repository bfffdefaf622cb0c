"""Policies that keep every round: the packed state (s, M) and a third array that grows.

Row t of ``H`` is what round t left; its columns are the policy's own. The array doubles when it is
full, so that a round costs no allocation on average; unused rows are neither counted nor saved.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from heavytail._invariants import are_counts, damaged
from heavytail._memory import grown
from heavytail._storage import afford, check_fit
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels import index
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import ROUNDS
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.loops import around, enter_history
from heavytail.policies.core.remembering import Arrays

__all__ = ["HistoryPolicy"]

FIRST_ROWS = 64  # room to begin with

_index_select = index.select  # by its own name: a kernel's stamp does not look into modules


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """The linear index; the history has no part in it."""
    return _index_select(s, M, arms)


class HistoryPolicy(PackedPolicy):
    """A policy whose state is (s, M, H), at most one row of H per round.

    ``in_use`` is the slot of s that counts the rows; below 0 it is one of the run ``shape``, which
    then ends s. A subclass calls ``_allocate`` and then ``_allocate_history``, and names in
    ``pointers`` the columns, counted from behind the features, that hold numbers of rows (-1 for
    none), so that a damaged file is refused instead of read out of bounds.
    """

    grows = True

    select_kernel = staticmethod(select)
    in_use: ClassVar[int] = ROUNDS
    pointers: tuple[int, ...] = ()

    _H: FloatArray

    def _allocate_history(self, width: int) -> None:
        """No rows yet, of ``width`` numbers each."""
        afford(type(self).__name__, FIRST_ROWS * width, self._arguments)
        self._lay_history(np.zeros((FIRST_ROWS, width)))
        self._enter = around(enter_history, update=self.update_kernel)

    @property
    def kept(self) -> int:
        """Rows of history."""
        return int(self._s[self.in_use])

    def _lay_history(self, rows: FloatArray) -> None:
        self._H = rows
        self._packed = (self._s, self._M, rows)

    def reserve(self, rounds: int) -> None:
        rows = grown(type(self).__name__, self._H, self.kept + rounds)
        if rows is not self._H:
            self._lay_history(rows)

    def _views(self) -> dict[str, FloatArray]:
        return {**super()._views(), "history": self._H[: self.kept]}

    def _check_saved(self, arrays: Arrays, own: Arrays | None = None) -> None:
        where, own = type(self).__name__, self._views() if own is None else own
        history, counter = arrays.get("history"), "scalars" if self.in_use >= 0 else "shape"
        check_fit(where, arrays, {counter: own[counter]})
        count = arrays[counter][self.in_use]
        fits = history is not None and history.shape[1:] == (self._H.shape[1],)
        if not fits or history is None or history.shape[0] != count:
            raise ValueError(f"{where}: the saved state's 'history' does not fit.")
        if not are_counts(history[:, [self.dim + column for column in self.pointers]], count, -1.0):
            raise damaged(where, "history", "it names rows that are not there")
        super()._check_saved(arrays, {**own, "history": history})

    def _take(self, arrays: dict[str, FloatArray]) -> None:
        history = arrays["history"]
        super()._take({**arrays, "history": self._H[: self.kept]})  # sets the number of rows
        if self._H.shape[0] <= history.shape[0]:
            self._lay_history(np.zeros((history.shape[0] + 1, self._H.shape[1])))
        self._H[: history.shape[0]] = history
        self._H[history.shape[0] :] = 0.0  # of rows that were taken back nothing may be left
