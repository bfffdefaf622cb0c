"""The Huber fit by SciPy's L-BFGS: HEAVY-OFUL's solver "lbfgs", for comparison."""

from __future__ import annotations

import warnings

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["minimise"]

Data = tuple[FloatArray, FloatArray, FloatArray]  # a, b, tau

MEMORY = 20
REFINEMENTS = 8  # restarts with the loss measured from where the last run ended
MOST_ITERATIONS = 500
SECANTS = 40
SPHERE = 1e-2  # of the tolerance: how near the sphere ‖theta(mu)‖ must come


def minimise(
    rows: FloatArray, start: FloatArray, ridge: float, bound: float, tolerance: float
) -> FloatArray:
    """argmin over ‖theta‖ <= bound of (ridge/2)‖theta‖² + sum huber, within ``tolerance``.

    ``rows`` are a, b, tau behind one another. Where the free minimiser leaves the ball, the one on
    the sphere minimises the loss with ridge + mu in place of ridge: mu is the root of
    ‖theta(mu)‖ = bound.
    """
    size = start.shape[0]
    data = np.ascontiguousarray(rows[:, :size]), rows[:, size].copy(), rows[:, size + 1].copy()
    theta = _free(data, start, ridge, ridge * tolerance)
    length = _length(theta)
    if length <= bound:
        return theta
    # 1/‖theta(mu)‖ is concave and nearly linear: secants rise to its root from the left.
    past, mu, before = 0.0, ridge * (length / bound - 1.0), 1.0 / length
    for _ in range(SECANTS):
        theta = _free(data, theta, ridge + mu, ridge * tolerance)
        length = _length(theta)
        if abs(length - bound) <= SPHERE * tolerance or 1.0 / length == before:
            break
        slope = (1.0 / length - before) / (mu - past)
        past, before = mu, 1.0 / length
        mu += (1.0 / bound - 1.0 / length) / slope
    return np.asarray(theta * (bound / length))


def _length(theta: FloatArray) -> float:
    """‖theta‖, or a refusal where it is no number."""
    length = float(np.linalg.norm(theta))
    if not length < np.inf:
        raise ValueError(
            "HeavyOFUL: L-BFGS left the floating-point range. Nothing was learned; change the unit "
            "of the reward, or the solver."
        )
    return length


def _change(
    data: Data, origin: FloatArray, step: FloatArray, ridge: float
) -> tuple[float, FloatArray]:
    """The loss at origin + step minus that at origin, and the gradient there.

    As a difference it keeps its digits when the step is small, which the line search needs.
    """
    a, b, tau = data
    z, moved = b - a @ origin, -(a @ step)
    before, after = np.clip(z, -tau, tau), np.clip(z + moved, -tau, tau)
    # The score is constant or linear between z and z + moved, but for rows that change region.
    change = 0.5 * (before + after) * moved
    stayed = np.where(before == z, after == z + moved, before == after)
    crossed = np.flatnonzero(~stayed)
    change[crossed] = _huber(z[crossed] + moved[crossed], tau[crossed])
    change[crossed] -= _huber(z[crossed], tau[crossed])
    total = float(change.sum()) + ridge * float(step @ (origin + 0.5 * step))
    return total, ridge * (origin + step) - a.T @ after


def _huber(z: FloatArray, tau: FloatArray) -> FloatArray:
    inner = np.minimum(np.abs(z), tau)
    return np.asarray(inner * (np.abs(z) - 0.5 * inner))


def _free(data: Data, start: FloatArray, ridge: float, accuracy: float) -> FloatArray:
    """The free minimiser, to a gradient of at most ``accuracy``."""
    from scipy.optimize import minimize

    theta, still = start.copy(), np.zeros_like(start)
    curvature = ridge + float((data[0] ** 2).sum())
    for _ in range(REFINEMENTS):
        slope = float(np.linalg.norm(_change(data, theta, still, ridge)[1]))
        if slope <= accuracy:
            return theta
        unit = slope / curvature  # a gradient step: L-BFGS begins with a step of length one

        def change(
            step: FloatArray, origin: FloatArray = theta, unit: float = unit, slope: float = slope
        ) -> tuple[float, FloatArray]:
            value, gradient = _change(data, origin, unit * step, ridge)
            return value / (unit * slope), gradient / slope

        options = {"maxcor": MEMORY, "ftol": 0.0, "maxiter": MOST_ITERATIONS}
        options["gtol"] = accuracy / (slope * start.size**0.5)
        minimum = minimize(change, still, jac=True, method="L-BFGS-B", options=options)
        theta = theta + unit * minimum.x
    warnings.warn(
        f"HeavyOFUL: L-BFGS stopped at a gradient of {slope:.2g}, above {accuracy:.2g}. "
        "Use another solver, or a larger tolerance.",
        stacklevel=4,
    )
    return theta
