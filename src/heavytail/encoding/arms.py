"""Arms as vectors, each with its id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from heavytail._typing import FloatArray
from heavytail._validate import shown

__all__ = ["Arms"]


class Arms:
    """Feature vectors (n, dim) and the id of each arm.

    A policy takes it wherever it takes an array of arms: ``policy.select(arms)`` gives the place
    among them, ``arms.ids[place]`` what to show, ``arms[place]`` the vector to learn.

    Attributes:
        ids: one per arm, text or whole numbers, each once.
    """

    __slots__ = ("_rows", "ids")

    def __init__(self, rows: FloatArray, ids: Sequence[Any]) -> None:
        self._rows = np.array(rows, dtype=np.float64)  # a copy: the caller may change the original
        self._rows.flags.writeable = False
        self.ids = tuple(ids)
        if self._rows.ndim != 2 or len(self._rows) != len(self.ids):
            raise ValueError(
                f"Arms: rows must have shape (n, dim), with n ids; got shape {self._rows.shape} "
                f"and {len(self.ids)} ids."
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, dim)."""
        return self._rows.shape[0], self._rows.shape[1]

    def place(self, one: object) -> int:
        """The place of the arm with this id."""
        try:
            return self.ids.index(one)
        except ValueError:
            raise KeyError(f"Arms: no arm has the id {shown(one)}.") from None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(
        self, place: SupportsIndex | slice | Sequence[int] | NDArray[np.integer | np.bool_]
    ) -> FloatArray:
        return self._rows[place]

    def __iter__(self) -> Iterator[FloatArray]:
        return iter(self._rows)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        # A copy, which may be written to: the kernels are compiled for such arrays.
        return np.array(self._rows, dtype=dtype, copy=True if copy is None else copy)

    def __repr__(self) -> str:
        return f"Arms({len(self)} of dimension {self.shape[1]}: {shown(self.ids)})"


def check_ids(where: str, given: Iterable[object], length: int) -> list[Any]:
    """Check and return the ids of the arms: text or whole numbers, each once."""
    if isinstance(given, str | bytes) or not hasattr(given, "__len__"):
        raise TypeError(f"{where}: ids must be a list, one per arm; got {shown(given)}.")
    listing = getattr(given, "tolist", None) or getattr(given, "to_pylist", None)
    ids = listing() if listing else list(given)
    if len(ids) != length:
        raise ValueError(f"{where}: {length} arms need as many ids; got {len(ids)}.")
    seen: dict[Any, int] = {}
    for i, name in enumerate(ids):
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool):
            raise TypeError(f"{where}: ids[{i}] must be text or a whole number; got {shown(name)}.")
        if name in seen:
            raise ValueError(f"{where}: arms {seen[name]} and {i} share the id {shown(name)}.")
        seen[name] = i
    return ids
