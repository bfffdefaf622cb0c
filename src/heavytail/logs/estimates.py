"""Final steps of LS and LSE: logarithms of a sketch's values, and their strength."""

from __future__ import annotations

import math

import numpy as np

from heavytail.logs.means import huber
from heavytail.logs.sketch import Cells, PairCells, Sketch

__all__ = ["log_smoothing", "log_sum_exp", "smoothing"]


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
