"""A fixed set of arms that many rounds choose from."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from heavytail._typing import FloatArray
from heavytail._validate import as_arms, as_numbers

__all__ = ["Kept", "Pool"]


class Pool:
    """Arms laid out once, so that choosing among them costs O(n d) per round instead of O(n d²).

    A policy keeps the scores of the pool it chose from last and moves them with each update; the
    arm is the one that ``select(pool.arms)`` would choose. One pool may serve many policies.

    >>> import heavytail as ht
    >>> pool = ht.Pool([[1.0, 0.0], [0.0, 1.0]])
    >>> policy = ht.HvtUCB(2)
    >>> arm = policy.select(pool)
    >>> policy.update(pool[arm], reward=3.0)

    Args:
        arms: (n, dim); copied, so that later changes to it do not matter.
    """

    __slots__ = ("_by_feature", "_rows", "_shown")

    def __init__(self, arms: ArrayLike) -> None:
        array = as_numbers(arms, "Pool: arms", "numbers of shape (n, dim)")
        dim = array.shape[1] if array.ndim == 2 else 1
        self._rows = as_arms(array, dim, Pool).copy()
        if not np.isfinite(self._rows).all():
            bad = int(np.argwhere(~np.isfinite(self._rows))[0, 0])
            raise ValueError(f"Pool: arms[{bad}] must be finite; got {self._rows[bad]}.")
        self._by_feature: FloatArray = self._rows.T.copy()
        self._shown = self._rows.view()  # the kernels' own is of a type that could be written to
        self._shown.flags.writeable = False

    @property
    def arms(self) -> FloatArray:
        """The arms, (n, dim), a copy."""
        return self._rows.copy()

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def __getitem__(self, arm: int) -> FloatArray:
        return self._shown[arm]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.array(self._shown, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Pool({len(self)} arms of dimension {self._rows.shape[1]})"


class Kept:
    """The arms that a policy chose from last, laid out by feature, with their scores.

    Arms that come again cost O(n d). A :class:`Pool` is known by itself, a plain array by its
    entries, compared with a copy, so that arms changed in place are seen. It is kept for speed and
    is no part of the state: whoever sets that otherwise than by an update begins a new one.
    """

    __slots__ = ("pool", "room", "scored")

    def __init__(self, arms: Pool | tuple[int, ...], scores: int) -> None:
        """For a pool, or for plain arms of a shape (n, dim), none of them seen yet; each has
        ``scores`` scores.
        """
        if isinstance(arms, Pool):
            self.pool: Pool | None = arms
            rows, by_feature = arms._rows, arms._by_feature
        else:
            self.pool = None
            rows, by_feature = np.full(arms, np.nan), np.empty(arms[::-1])
        self.scored = (by_feature, np.full((scores, len(rows)), -1.0))
        self.room = (rows, *self.scored)

    def fits(self, arms: FloatArray) -> bool:
        """Tell whether this is room of our own for ``arms``."""
        return self.pool is None and self.room[0].shape == arms.shape
