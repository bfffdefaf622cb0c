"""The estimators of a policy's value: what each accumulates per chunk, and how it ends.

Each is a pair (u, v) per row whose estimate makes v - u m zero on average, by one of the means of
:mod:`heavytail.logs.means`; LS and LSE end by a logarithm instead. w is the weight pi/p, q(x, a)
the reward that a model predicts, q(x, pi) = sum_a pi(a|x) q(x, a).

| name | u | v | |
| --- | --- | --- | --- |
| ips | 1 | w r | unbiased |
| snips | w | w r | self-normalised: a shift of the rewards shifts it as much |
| clipped | 1 | min(w, M) r | too low for r >= 0; clips weights, so of no use for heavy rewards |
| dm | 1 | q(x, pi) | as good as the model |
| dr | 1 | q(x, pi) + w (r - q(x, a)) | unbiased with any model |
| switch-dr | 1 | the same, without its second part where w > M | |
| dros | 1 | the same, with w M²/(w² + M²) in place of w | |
| ls | | mean log(1 + lambda w r)/lambda | r >= 0; never above ips |
| lse | | -log(mean exp(-lambda w r))/lambda | r >= 0; never above ips |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs.means import huber
from heavytail.logs.reading.rows import Rows
from heavytail.logs.sketch import Cells, PairCells, Sketch

__all__ = ["METHODS", "Method", "Seen", "log_smoothing", "log_sum_exp", "smoothing"]


class Seen(NamedTuple):
    """A chunk as one target sees it.

    Attributes:
        rows: the chunk.
        weight: (n,), w, or None where the log has no propensities.
        mass: (n, K), the target's probabilities, or None where only those of the actions are known.
        predicted: (n,), q(x, a), or None without a model.
        expected: (n,), q(x, pi), or None without a model.
    """

    rows: Rows
    weight: FloatArray | None
    mass: FloatArray | None
    predicted: FloatArray | None
    expected: FloatArray | None


Terms = Callable[[Seen, float], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Method:
    """One estimator: its terms (u, v) per row, and what it needs."""

    name: str
    terms: Terms
    weights: bool = True
    model: bool = False
    clips: bool = False
    one_sign: bool = False


def _ips(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.weight is not None
    return np.ones(len(seen.weight)), seen.weight * seen.rows.reward


def _snips(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.weight is not None
    return seen.weight, seen.weight * seen.rows.reward


def _clipped(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.weight is not None
    return np.ones(len(seen.weight)), np.minimum(seen.weight, clip) * seen.rows.reward


def _dm(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.expected is not None
    return np.ones(len(seen.expected)), seen.expected


def _dr(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.expected is not None
    assert seen.predicted is not None
    assert seen.weight is not None
    surprise = seen.weight * (seen.rows.reward - seen.predicted)
    return np.ones(len(surprise)), seen.expected + surprise


def _switch(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    assert seen.weight is not None
    light = seen._replace(weight=np.where(seen.weight <= clip, seen.weight, 0.0))
    return _dr(light, clip)


def _dros(seen: Seen, clip: float) -> tuple[FloatArray, FloatArray]:
    """Su, Dimakopoulou, Krishnamurthy and Dudik (2020), their optimistic shrinkage at M²."""
    assert seen.weight is not None
    return _dr(seen._replace(weight=seen.weight / (1.0 + (seen.weight / clip) ** 2)), clip)


METHODS = {
    method.name: method
    for method in (
        Method("ips", _ips),
        Method("snips", _snips),
        Method("clipped", _clipped, clips=True),
        Method("dm", _dm, weights=False, model=True),
        Method("dr", _dr, model=True),
        Method("switch-dr", _switch, model=True, clips=True),
        Method("dros", _dros, model=True, clips=True),
        Method("ls", _ips, one_sign=True),
        Method("lse", _ips, one_sign=True),
    )
}


def smoothing(sketch: Sketch, delta: float) -> float:
    """lambda = sqrt(2 log(2/delta)/(n m)), m the mean of min(X, tau)² at the tuning-free threshold:
    best for a second moment m. 0, that is no smoothing, where all values are 0.
    """
    cells = sketch.cells()
    size = float(cells.count.sum())
    square = cells.count * (cells.variance + cells.mean**2)
    tau = huber(_as_pairs(cells)).threshold
    moment = float(np.minimum(square, cells.count * tau * tau).sum()) / size
    return math.sqrt(2.0 * math.log(2.0 / delta) / (size * moment)) if moment > 0.0 else 0.0


def log_smoothing(sketch: Sketch, strength: float) -> float:
    """LS: mean log(1 + lambda X)/lambda (Sakhi et al. 2024); in cells, from below."""
    cells = sketch.cells()
    n = float(cells.count.sum())
    if strength == 0.0:
        return float(cells.count @ cells.mean) / n
    bend = (strength / (1.0 + strength * cells.low)) ** 2
    each = np.log1p(strength * cells.mean) - 0.5 * bend * cells.variance
    return float(cells.count @ each) / (n * strength)


def log_sum_exp(sketch: Sketch, strength: float) -> float:
    """LSE: -log(mean exp(-lambda X))/lambda (Behnamnia et al. 2025)."""
    cells = sketch.cells()
    n = float(cells.count.sum())
    if strength == 0.0:
        return float(cells.count @ cells.mean) / n
    # In a cell exp(-lambda x) is on average at most its value at the mean plus half of this.
    bend = strength**2 * cells.variance * np.exp(-strength * cells.low)
    each = -np.expm1(-strength * cells.mean) - 0.5 * bend
    return -math.log1p(-float(cells.count @ each) / n) / strength


def _as_pairs(cells: Cells) -> PairCells:
    n, total = cells.count, cells.count * cells.mean
    return PairCells(n, n, total, n, total, n * (cells.variance + cells.mean**2))
