"""A test that noise is symmetric, or alike at every x: Hausman (1978), on bounded steps."""

from __future__ import annotations

from typing import Final

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["LEVEL", "asymmetry", "solve_psd"]

LEVEL: Final = 0.99  # of the tests that a clip does not bias what is estimated


def asymmetry(
    P: FloatArray, gap: FloatArray, half: FloatArray, dim: int, rounding: float
) -> tuple[float, float]:
    """The distance between steps of two clips, of the slopes and of all coordinates, as shares of
    what one case in a hundred exceeds where they do not.

    psi_f is a residual at a fixed clip and psi_m the same one at a larger threshold, each over the
    share of rows within, so that neither says anything of an error of the estimate. ``gap`` is
    sum x (psi_m - psi_f), and ``half`` the lower half of S = sum x x' (psi_m - psi_f)². Then
    g = P gap tends to be normal with covariance C = P S P, and has mean 0 where the noise is
    symmetric at every x; of the slopes, the first ``dim``, also where it is alike at every x. The
    first answer is g' C^-1 g of the slopes; the second the larger of that of all and of every
    g_i² / C_ii, each over its quantile of chi². 0 where g is ``rounding``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        C = P @ (half + np.tril(half, -1).T) @ P.T
        g = P @ gap
        if not np.all(np.isfinite(C)) or np.max(np.abs(g), initial=0.0) <= rounding:
            return 0.0, 0.0
        width = np.diag(C)
        single = np.divide(g * g, width, out=np.zeros_like(g), where=width > 0.0).max()
        slopes = float(g[:dim] @ solve_psd(C[:dim, :dim], g[:dim]))
        every = float(g @ solve_psd(C, g))
    size = len(g)
    single /= _critical(1, 1.0 - (1.0 - LEVEL) / size)
    return slopes / _critical(dim, LEVEL), max(every / _critical(size, LEVEL), float(single))


def solve_psd(A: FloatArray, b: FloatArray) -> FloatArray:
    """A^-1 b for a positive semidefinite A, whatever the units of its coordinates."""
    width = np.sqrt(np.maximum(np.diag(A), 0.0))  # below 0 by rounding alone
    unit = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0.0)
    R = A * unit[:, None] * unit
    return np.asarray(unit * (np.linalg.pinv(R, hermitian=True) @ (unit * b)))


def _critical(freedom: int, level: float) -> float:
    from scipy import stats

    return float(stats.chi2.ppf(level, freedom))
