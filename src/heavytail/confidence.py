"""Radii beta_t that two or more algorithms share, beside their statements; and Lemma 1.

A confidence set is {theta : ‖theta - theta_t‖_{V_t} <= beta_t}. ``lemma_1`` is the theory of
Hvt-UCB to the letter; ``empirical_radius`` is a radius that learns and no theorem's. Time indices:
beta_t is known after round t and serves the selection of round t + 1; what a formula takes from
the round before is called ``_prev``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from heavytail._validate import Check, check_count
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit

__all__ = [
    "Lemma1",
    "bmm_radius",
    "empirical_radius",
    "lemma_1",
    "lsvi_radius",
    "oful_radius",
    "theory_radius",
]


@dataclass(frozen=True, slots=True)
class Lemma1:
    """The constants of Lemma 1 of Wang, Zhang, Zhao and Zhou (ICML 2025), at one horizon.

    With probability at least 1 - 4 delta, for all t: ‖theta_{t+1} - theta*‖_{V_t} <= beta_t.
    """

    kappa: float
    ell: float
    tau_0: float
    beta_0: float
    order: float

    @property
    def slope(self) -> float:
        """The factor of t^((1-eps)/(2(1+eps))) in beta_t: 107 log(2T²/delta) tau_0."""
        return 107.0 * self.ell * self.tau_0

    def beta(self, t: int) -> float:
        """beta_t, t = 0 included."""
        t = check_count("Lemma1.beta: t", t, least=0)
        return theory_radius(float(t), self.order, self.slope, self.beta_0)


def lemma_1(
    dim: int,
    order: float,
    horizon: int,
    *,
    alpha: float = 4.0,
    ridge: float | None = None,
    theta_bound: float = 1.0,
    arm_bound: float = 1.0,
    sigma_min: float | None = None,
    delta: float | None = None,
) -> Lemma1:
    """Lemma 1's constants; ridge = d, sigma_min = 1/sqrt(T), delta = 1/(8T) unless given.

    >>> lemma = lemma_1(2, 1.99, 18_000)
    >>> f"{lemma.kappa:.2f} {lemma.tau_0:.3f} {lemma.beta(0):.2f} {lemma.beta(18_000):.0f}"
    '33.65 1.442 3.46 5092'

    Note: the printed lemma has 4 where Algorithm 1 has alpha; they agree at alpha = 4 and alpha is
    used. beta_0 = sqrt(lambda (2 + 4 S²)) is a case of its own: the formula at t = 0 reads 0^0
    when eps = 1.
    """
    check = Check("lemma_1")
    dim, T = check.count("dim", dim), check.count("horizon", horizon)
    order = check.number("order", order, above=1.0, most=2.0)
    alpha = check.number("alpha", alpha, above=0.0)
    theta_bound = check.number("theta_bound", theta_bound, above=0.0, infinite=True)
    arm_bound = check.number("arm_bound", arm_bound, above=0.0)
    ridge = float(dim) if ridge is None else check.number("ridge", ridge, above=0.0)
    sigma_min = T**-0.5 if sigma_min is None else check.number("sigma_min", sigma_min, above=0.0)
    delta = 1.0 / (8.0 * T) if delta is None else check.delta(delta)
    spread = sigma_min**2 * ridge * alpha * dim
    kappa = dim * math.log1p(arm_bound**2 * T / spread) if spread > 0.0 else math.inf
    if not 0.0 < kappa < math.inf:
        raise ValueError(
            "lemma_1: arm_bound, sigma_min, ridge and alpha together leave the floating-point "
            f"range; got {arm_bound!r}, {sigma_min!r}, {ridge!r} and {alpha!r}. Change the unit."
        )
    ell = math.log(2.0 * T**2 / delta)
    tau_0 = (
        math.sqrt(2.0 * kappa) * math.log(3.0 * T) ** time_exponent(order) / ell ** (1.0 / order)
    )
    beta_0 = math.sqrt(ridge * (2.0 + 4.0 * theta_bound**2))
    return Lemma1(kappa=kappa, ell=ell, tau_0=tau_0, beta_0=beta_0, order=order)


@jit
def theory_radius(t: float, order: float, slope: float, beta_0: float) -> float:
    """beta_t of Lemma 1: slope t^((1-eps)/(2(1+eps))) + beta_0 for t >= 1, and beta_0 at t = 0."""
    if t == 0.0:
        return beta_0
    return slope * t ** time_exponent(order) + beta_0


@jit
def empirical_radius(
    exploration: float,
    prior: float,
    stability: float,
    energy: float,
    t: float,
    log_inverse_delta: float,
) -> float:
    """exploration * sqrt(lambda S² + G_t + rho_t log(1/delta)), read off the data. No theorem's.

    G_t = sum_s ‖grad_s‖²_{V_s^-1} is the stability term of the lemma's own proof, observed instead
    of bounded, and rho_t = (1 + sum_s psi_s²) / (1 + t) the mean square of the clipped residuals,
    so that a scale given too large or too small corrects itself. What it leaves out: the bias of
    the clip.
    """
    rho = (1.0 + energy) / (1.0 + t)
    return exploration * math.sqrt(prior + stability + rho * log_inverse_delta)


@jit
def oful_radius(
    log_det: float, noise_scale: float, log_inverse_delta: float, prior_root: float
) -> float:
    """R sqrt(log det(V_t)/det(V_0) + 2 log(1/delta)) + sqrt(lambda) S.

    Abbasi-Yadkori, Pal and Szepesvari (NIPS 2011), Theorem 2; for R-sub-Gaussian noise.
    """
    return noise_scale * math.sqrt(log_det + 2.0 * log_inverse_delta) + prior_root


@jit
def bmm_radius(n: float, order: float, noise: float, prior_root: float) -> float:
    """(12 v)^(1/p) n^((2-p)/(2p)) + sqrt(lambda) S from n samples; ``noise`` is (12 v)^(1/p).

    Xue, Wang, Wang and Zhang (IJCAI 2020), with sqrt(lambda) S for its 1. 0 samples leave the
    second term (0^0 at p = 2 is a case of its own).
    """
    if n == 0.0:
        return prior_root
    return noise * n ** time_exponent(order) + prior_root


def lsvi_radius(dim: int, horizon: int, episodes: int, delta: float) -> float:
    """c d H sqrt(log(2 d K H / delta)) with c = 1, the bonus of LSVI-UCB.

    Jin, Yang, Wang and Jordan (COLT 2020), Theorem 3.1, where c is an unspecified constant.
    """
    check = Check("lsvi_radius")
    dim, horizon = check.count("dim", dim), check.count("horizon", horizon)
    steps = check.count("episodes", episodes) * horizon
    delta = check.delta(delta)
    return dim * horizon * math.sqrt(math.log(2.0 * dim * steps / delta))
