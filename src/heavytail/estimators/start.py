"""Huber regression on rows that are all at hand: the exact minimiser, and the scale beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray
from heavytail.estimators.rows import LEAST_CLIP, LEAST_INSIDE
from heavytail.kernels import self_tuning
from heavytail.kernels.scale import LARGEST, NORMAL_CONSISTENCY

__all__ = [
    "BatchFit",
    "MeanFit",
    "bounded",
    "cut_off",
    "mean_fit",
    "off_the_line",
    "robust_fit",
    "sandwich",
    "solve",
    "telling",
]

FAR = 1e8  # in median deviations: a response beyond is clipped at the solution whatever its size
STEPS = 200
TOLERANCE = 1e-10  # of the scale, in the largest change of a fitted value
ROUNDING = 1e-14  # of a fitted value: what is less than that is no residual, and no step
ON_THE_LINE = 10.0  # times the largest residual of the half of the rows that is nearest to a line
OFF_THE_LINE = 1e3  # times that is farther than any smooth law has the middle of the others
TINY = 1e-300
LEAST_FREE = 1e-3  # of a row that all but determines its own fitted value
TURNS = 10  # of threshold and estimate: the first is known to a half octave only


@dataclass(frozen=True)
class BatchFit:
    """An estimate and what its interval needs.

    ``spread`` is the scale of the noise, ``inside`` the share of rows that are not clipped,
    ``energy`` the mean square of the clipped residuals.
    """

    theta: FloatArray
    inverse: FloatArray
    spread: float
    inside: float
    energy: float


@dataclass(frozen=True)
class MeanFit:
    """An estimate of the mean beside a robust one.

    ``tau`` is its threshold and ``histogram`` that of its residuals, from ``unit`` on; ``energy``
    is their mean square clipped at tau, ``whole`` clipped at n scales. ``gap`` is the sum of
    x (psi_m - psi_f), ``squares`` that of x x' (psi_m - psi_f)²: psi_f is the robust fit's, psi_m
    that of its residuals clipped at the geometric mean of both thresholds, over the share of rows
    ``between``; ``cut`` is the sum of x times what tau cut off, to n scales.
    """

    theta: FloatArray
    tau: float
    unit: float
    histogram: FloatArray
    energy: float
    whole: float
    between: float
    gap: FloatArray
    squares: FloatArray
    cut: FloatArray


def solve(
    Z: FloatArray, y: FloatArray, penalty: FloatArray, tau: float, start: FloatArray
) -> FloatArray:
    """argmin of sum huber(y - Z theta; tau) + theta' diag(penalty) theta / 2, by reweighting.

    Reweighting lowers the loss at every step, so no line search is needed; the last steps are
    Newton's, kept only while they lower it too.
    """
    theta = start
    for _ in range(STEPS):
        r = y - Z @ theta
        weight = np.minimum(1.0, tau / np.maximum(np.abs(r), TINY))
        new = _weighted(Z, y, weight, penalty)
        newton = theta + _newton(Z, r, penalty, theta, tau)
        if _loss(Z, y, penalty, newton, tau) <= _loss(Z, y, penalty, new, tau):
            new = newton
        moved = float(np.max(np.abs(Z @ (new - theta)), initial=0.0))
        theta = new
        least = TOLERANCE * min(tau, float(np.max(np.abs(r), initial=0.0)))
        if moved <= max(least, ROUNDING * float(np.max(np.abs(Z @ new), initial=0.0))):
            break
    return theta


def robust_fit(
    Z: FloatArray, y: FloatArray, penalty: FloatArray, clip: float, scale: float | None = None
) -> BatchFit:
    """Huber's estimate at ``clip`` scales; the residuals' median size is the default scale.

    Rows are in units of their own noise scale. With clip = infinity it is ridge regression.
    """
    n, size = Z.shape
    gram = Z.T @ Z + np.diag(penalty)
    unit = _units(np.sqrt(np.diag(gram)))
    scaled = gram * unit[:, None] * unit
    inverse = np.asarray(np.linalg.pinv(scaled, hermitian=True) * unit[:, None] * unit)
    freedom = max(n - size, 1) / n
    target = bounded(y) if math.isfinite(clip) else y
    informative = telling(y)
    theta = inverse @ (Z.T @ target)
    spread = scale if scale is not None else _spread((target - Z @ theta)[informative], freedom)
    if math.isfinite(clip):
        for _ in range(STEPS):
            r = target - Z @ theta
            weight = np.minimum(1.0, clip * spread / np.maximum(np.abs(r), TINY))
            theta = _weighted(Z, target, weight, penalty)
            before = spread
            spread = (
                scale if scale is not None else _spread((target - Z @ theta)[informative], freedom)
            )
            exact = spread <= ROUNDING * float(np.max(np.abs(target)))
            if exact or abs(spread - before) <= 1e-3 * spread:
                break
        theta = solve(Z, target, penalty, clip * spread, theta)
    r = target - Z @ theta
    psi = _clipped(r, clip * spread)
    return BatchFit(
        theta=theta,
        inverse=inverse,
        spread=spread,
        inside=float(np.mean(np.abs(r) <= clip * spread)),
        energy=float(np.mean(psi * psi)) / freedom,
    )


def mean_fit(
    Z: FloatArray, y: FloatArray, penalty: FloatArray, clip: float, fit: BatchFit
) -> MeanFit:
    """Huber's estimate at the threshold that tunes itself, beside the robust ``fit`` at ``clip``
    scales; threshold and estimate take turns.
    """
    n, size = Z.shape
    edge, unit = clip * fit.spread, LEAST_CLIP * fit.spread
    target = bounded(y)
    theta, tau = fit.theta, 0.0
    for _ in range(TURNS):
        histogram = np.zeros(self_tuning.ROOM)
        for value in np.abs(target - Z @ theta):
            self_tuning.note(histogram, 0, value, unit)
        before, tau = tau, self_tuning.solve(histogram, 0, size + math.log(n), unit)
        if tau == before:
            break
        theta = solve(Z, target, penalty, max(tau, edge), theta)
    r = target - Z @ theta
    psi = _clipped(r, max(tau, edge))
    whole, cut = cut_off(Z, r, max(tau, edge), fit.spread)
    robust, middle = target - Z @ fit.theta, math.sqrt(edge * max(tau, edge))
    between = float(np.mean(np.abs(robust) <= middle))
    gap = _clipped(robust, middle) / max(between, LEAST_INSIDE)
    gap -= _clipped(robust, edge) / max(fit.inside, LEAST_INSIDE)
    freedom = max(n - size, 1) / n
    return MeanFit(
        theta=theta,
        tau=tau,
        unit=unit,
        histogram=histogram,
        energy=float(np.mean(psi * psi)) / freedom,
        whole=whole,
        between=between,
        gap=np.asarray(Z.T @ gap),
        squares=np.asarray((Z * gap[:, None] ** 2).T @ Z) / freedom,
        cut=cut,
    )


def cut_off(Z: FloatArray, r: FloatArray, tau: float, spread: float) -> tuple[float, FloatArray]:
    """The mean square of residuals that are clipped at n scales, and the sum of x times what tau
    cut off them.
    """
    n, size = Z.shape
    whole = _whole(r, tau, spread)
    energy = float(np.sum(whole * whole)) / max(n - size, 1)
    return energy, np.asarray(Z.T @ (whole - _clipped(r, tau)))


def sandwich(
    Z: FloatArray, r: FloatArray, tau: float, spread: float, inverse: FloatArray
) -> FloatArray:
    """V^-1 (sum of x x' r² / (1 - h)²) V^-1 with residuals to n scales and leverages h = x' V^-1 x:
    the covariance of the estimate where the size of the noise depends on x (MacKinnon and White's
    third form).
    """
    leverage = np.einsum("ij,jk,ik->i", Z, inverse, Z)
    size = _whole(r, tau, spread) / np.maximum(1.0 - leverage, LEAST_FREE)
    half = inverse @ (Z * size[:, None]).T
    return np.asarray(half @ half.T)


def _whole(r: FloatArray, tau: float, spread: float) -> FloatArray:
    """Residuals, clipped at n scales, and beyond tau in any case."""
    return _clipped(r, max(r.shape[0] * spread, tau))


def off_the_line(Z: FloatArray, y: FloatArray, theta: FloatArray) -> FloatArray:
    """The sizes of residuals of rows that are off a line, near ``theta``, on which more than half
    of them lie but for rounding: their median says nothing of the others. Empty where the others
    are none, or not so far off that the rows have two scales.
    """
    size = np.abs(y - Z @ theta)
    nearest = np.argsort(size, kind="stable")[: y.shape[0] // 2 + 1]
    if nearest.shape[0] <= Z.shape[1]:
        return np.empty(0)
    line = _least_squares(Z[nearest], y[nearest])  # without the penalty, which moves theta off it
    size = np.abs(y - Z @ line)
    rounding = float(np.max(size[nearest]))
    off = size[size > ON_THE_LINE * rounding]
    two_scales = off.shape[0] and float(np.median(off)) > OFF_THE_LINE * rounding
    return np.asarray(off if two_scales else off[:0])


def bounded(y: FloatArray) -> FloatArray:
    """``y`` cut at FAR median deviations, so that 1e300 overflows nothing."""
    middle = float(np.median(y))
    deviation = np.abs(y - middle)
    width = FAR * float(np.median(deviation))
    if width == 0.0:
        positive = deviation[deviation > 0.0]
        width = FAR * float(np.median(positive)) if positive.size else 1.0
    return np.clip(y, middle - width, middle + width)


def telling(y: FloatArray) -> NDArray[np.bool_]:
    """The rows that tell the scale: all, but for those of a value that more than half have."""
    values, counts = np.unique(y, return_counts=True)
    most = int(np.argmax(counts))
    if not 2 * counts[most] > y.shape[0] > counts[most]:
        return np.ones(y.shape[0], dtype=bool)
    return np.asarray(y != values[most])


def _clipped(r: FloatArray, tau: float) -> FloatArray:
    return np.clip(r, -tau, tau)


def _spread(r: FloatArray, freedom: float) -> float:
    typical = float(np.median(np.abs(r))) / math.sqrt(freedom)
    if typical == 0.0:
        typical = float(np.mean(np.abs(r)))
    return min(max(NORMAL_CONSISTENCY * typical, TINY), LARGEST)


def _units(sizes: FloatArray) -> FloatArray:
    """Powers of two that make sizes alike, so that no column is lost beside a larger one."""
    known = np.isfinite(sizes) & (sizes > 0.0)
    return np.asarray(np.exp2(-np.round(np.log2(sizes, where=known, out=np.zeros_like(sizes)))))


def _least_squares(A: FloatArray, b: FloatArray) -> FloatArray:
    """Of smallest length, in units of the columns' own; LAPACK may never come back from what is not
    finite.
    """
    if not (np.isfinite(A).all() and np.isfinite(b).all()):
        raise np.linalg.LinAlgError("the equations leave the floating-point range")
    unit = _units(np.linalg.norm(A, axis=0))
    return np.asarray(np.linalg.lstsq(A * unit, b, rcond=None)[0] * unit)


def _weighted(Z: FloatArray, y: FloatArray, weight: FloatArray, penalty: FloatArray) -> FloatArray:
    W = Z * weight[:, None]
    A = Z.T @ W + np.diag(penalty)
    return _least_squares(A, W.T @ y)


def _newton(
    Z: FloatArray, r: FloatArray, penalty: FloatArray, theta: FloatArray, tau: float
) -> FloatArray:
    free = np.abs(r) <= tau
    A = Z[free].T @ Z[free] + np.diag(penalty)
    gradient = Z.T @ _clipped(r, tau) - penalty * theta
    return _least_squares(A, gradient)


def _loss(
    Z: FloatArray, y: FloatArray, penalty: FloatArray, theta: FloatArray, tau: float
) -> float:
    size = np.abs(y - Z @ theta)
    inner = np.minimum(size, tau)
    # z²/2 inside and tau |z| - tau²/2 beyond, in one expression
    return float(np.sum(inner * (size - 0.5 * inner)) + 0.5 * np.sum(penalty * theta * theta))
