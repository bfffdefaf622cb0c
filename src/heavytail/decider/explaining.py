"""The parts of a choice, for experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.decider.markup import note, table, text_table
from heavytail.decider.model import Model

__all__ = ["Parts", "parts_of"]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of every offer's index in a context; ``print`` it for a table.

    Attributes:
        id: of the offer that the policy would choose; a visit that explores may show another.
        rule: what was maximised, in words.
        ids: of the offers that may be shown.
        parts: by name, one number per offer; the first is the forecast, the last the index.
    """

    id: str
    rule: str
    ids: tuple[str, ...]
    parts: Mapping[str, FloatArray]

    def _rows(self) -> list[list[str]]:
        return [
            [name, *(f"{part[i]:.4g}" for part in self.parts.values()), "<" * (name == self.id)]
            for i, name in enumerate(self.ids)
        ]

    def __str__(self) -> str:
        return "\n".join([self.rule, *text_table(["offer", *self.parts, ""], self._rows())])

    def _repr_html_(self) -> str:
        return f"<div>{note(self.rule)}{table(['offer', *self.parts, ''], self._rows())}</div>"


def parts_of(model: Model, ids: list[str], which: IntArray, X: FloatArray | None) -> Parts:
    """The parts of a choice among the offers ``which``, with the forecast's features X."""
    forecasts = model.forecasts(X, len(which))
    explained = model.policy.explain(model.arms(which, forecasts))
    parts = {"forecast": forecasts, **explained.parts}
    names = tuple(ids[int(place)] for place in which)
    return Parts(
        names[explained.arm], explained.rule, names, {n: np.array(p) for n, p in parts.items()}
    )
