"""A fixed set of arms that many rounds choose from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import as_arms

__all__ = ["Pool"]


class Pool:
    """Arms laid out once, so that choosing among them costs O(n d) a round instead of O(n d²).

    A policy keeps the scores of the pool it chose from last and moves them with each update; the
    arm is the one that ``select(pool.arms)`` would choose. One pool may serve many policies.

    >>> import heavytail as ht
    >>> pool = ht.Pool([[1.0, 0.0], [0.0, 1.0]])
    >>> policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
    >>> arm = policy.select(pool)
    >>> policy.update(pool[arm], reward=3.0)

    Args:
        arms: (n, dim); copied, so that later changes to it do not matter.
    """

    __slots__ = ("_rows", "by_feature")

    def __init__(self, arms: ArrayLike) -> None:
        array = np.asarray(arms)
        dim = array.shape[1] if array.ndim == 2 else 1
        self._rows = as_arms(array, dim, Pool).copy()
        self.by_feature: FloatArray = np.ascontiguousarray(self._rows.T)

    @property
    def arms(self) -> FloatArray:
        """The arms, (n, dim), a copy."""
        return self._rows.copy()

    def __len__(self) -> int:
        return int(self._rows.shape[0])

    def __getitem__(self, arm: int) -> FloatArray:
        return self._rows[arm]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.array(self._rows, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Pool({len(self)} arms of dimension {self._rows.shape[1]})"
