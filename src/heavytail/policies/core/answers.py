"""What a policy answers besides an arm: the mean reward it expects, and why it chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["Explanation", "Prediction"]


class Prediction(NamedTuple):
    """The mean reward expected, and an interval for it; arrays where many were asked for."""

    mean: Any
    low: Any
    high: Any


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of every arm's index; ``print`` it for a table.

    Attributes:
        arm: the arm chosen.
        rule: what was maximised, in words.
        parts: by name, one number per arm; the last is the index.
    """

    arm: int
    rule: str
    parts: Mapping[str, FloatArray]

    def __str__(self) -> str:
        heads = ["arm", *self.parts]
        rows = [
            [str(i), *(f"{part[i]:.4g}" for part in self.parts.values())]
            for i in range(len(next(iter(self.parts.values()))))
        ]
        widths = [max(len(row[k]) for row in [heads, *rows]) for k in range(len(heads))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in [heads, *rows]
        ]
        chosen = 1 + self.arm
        lines = [line + ("  <" if k == chosen else "") for k, line in enumerate(lines)]
        return "\n".join([self.rule, *lines])


def interval(mean: FloatArray, half: FloatArray, many: bool) -> Prediction:
    """``mean`` ± ``half``, as numbers where only one was asked for."""
    parts = (mean, mean - half, mean + half)
    return Prediction(*(np.asarray(part) if many else float(part[0]) for part in parts))
