"""The Huber loss, its score, and the two numbers that steer it each round: sigma_t and tau_t.

With z the residual in units of sigma_t, the loss is z²/2 up to tau and linear beyond, so that one
reward moves the estimate by no more than tau allows, however large it is.
"""

from __future__ import annotations

import math

from heavytail.kernels.jit import jit

__all__ = ["huber", "leverage", "score", "threshold", "time_exponent"]


@jit
def huber(z: float, tau: float) -> float:
    """The loss: z²/2 for \\|z\\| <= tau, tau \\|z\\| - tau²/2 beyond."""
    size = abs(z)
    if size <= tau:
        return 0.5 * z * z
    return tau * size - 0.5 * tau * tau


@jit
def score(z: float, tau: float) -> float:
    """The derivative of the loss: z clipped to [-tau, tau]."""
    return min(max(z, -tau), tau)


@jit
def time_exponent(order: float) -> float:
    """(1 - eps) / (2 (1 + eps)), eps = order - 1: the power of t in tau_t and beta_t."""
    return (2.0 - order) / (2.0 * order)


@jit
def leverage(width: float, sigma: float, alpha: float) -> float:
    """w_t = ‖x_t / sigma_t‖_{V_{t-1}^-1} / sqrt(alpha), with width = ‖x_t‖_{V_{t-1}^-1}."""
    return width / (math.sqrt(alpha) * sigma)


@jit
def threshold(tau_0: float, w: float, t: float, order: float) -> float:
    """tau_t = tau_0 sqrt(1 + w²)/w t^((1-eps)/(2(1+eps))); infinite for x = 0."""
    if w == 0.0:
        return math.inf
    return tau_0 * math.sqrt(1.0 + w * w) / w * t ** time_exponent(order)
