"""Every radius beta_t beside the statement it comes from, theory and practice told apart by name.

A confidence set is {theta : ‖theta - theta_t‖_{V_t} <= beta_t}. ``lemma_1`` is the theory of
Hvt-UCB to the letter; ``empirical_radius`` is a radius that learns and no theorem's. Time indices:
beta_t is known after round t and serves the selection of round t + 1; what a formula takes from
the round before is called ``_prev``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from heavytail._validate import check_count, check_number
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit

__all__ = [
    "AdaptiveHuber",
    "Lemma1",
    "ada_oful_constants",
    "ada_oful_radius",
    "bmm_radius",
    "btc_factor",
    "crmm_noise",
    "crmm_radius",
    "crt_radius",
    "crtm_constants",
    "empirical_radius",
    "heavy_oful_constants",
    "lemma_1",
    "linear_thompson_scale",
    "lsvi_radius",
    "menu_radius",
    "mom_radius",
    "oful_radius",
    "theory_radius",
    "tofu_constants",
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
    T = check_count("horizon", horizon)
    ridge = float(dim) if ridge is None else check_number("ridge", ridge, above=0.0)
    sigma_min = T**-0.5 if sigma_min is None else check_number("sigma_min", sigma_min, above=0.0)
    delta = 1.0 / (8.0 * T) if delta is None else check_number("delta", delta, above=0.0, below=1.0)
    kappa = dim * math.log1p(arm_bound**2 * T / (sigma_min**2 * ridge * alpha * dim))
    ell = math.log(2.0 * T**2 / delta)
    tau_0 = (
        math.sqrt(2.0 * kappa) * math.log(3.0 * T) ** time_exponent(order) / ell ** (1.0 / order)
    )
    beta_0 = math.sqrt(ridge * (2.0 + 4.0 * theta_bound**2))
    return Lemma1(kappa=kappa, ell=ell, tau_0=tau_0, beta_0=beta_0, order=order)


@dataclass(frozen=True, slots=True)
class AdaptiveHuber:
    """What adaptive Huber regression fixes in advance, at one horizon.

    sigma_t = max(nu_t, sigma_min, steep n, root sqrt(n)) with n = ‖x_t‖_{V_{t-1}^-1}: the two lower
    bounds keep noiseless rewards inside tau_t for every theta of the ball.
    """

    kappa: float
    ell: float
    tau_0: float
    steep: float  # 1 / c_0
    root: float


def heavy_oful_constants(
    dim: int,
    order: float,
    horizon: int,
    *,
    ridge: float,
    theta_bound: float,
    arm_bound: float,
    sigma_min: float,
    delta: float,
) -> tuple[AdaptiveHuber, float]:
    """The constants of HEAVY-OFUL, Huang et al. (NeurIPS 2023), Theorem 3.1, and the slope of its
    radius: beta_t = slope t^a + 3 sqrt(lambda) B for t >= 1, a = (2-p)/(2p).

    kappa has no alpha, unlike Lemma 1 of Hvt-UCB. The factor sqrt(L B) of the second lower bound is
    1 in the published code, where L = B = 1.
    """
    T, a = float(horizon), time_exponent(order)
    kappa = dim * math.log1p(T * arm_bound**2 / (dim * ridge * sigma_min**2))
    ell = math.log(2.0 * T**2 / delta)
    log_term = math.log(3.0 * T) ** a
    c_1 = log_term**2 / (48.0 * ell ** (2.0 / order))
    constants = AdaptiveHuber(
        kappa=kappa,
        ell=ell,
        tau_0=math.sqrt(2.0 * kappa) * log_term / ell ** (1.0 / order),
        steep=math.sqrt(23.0 * ell),
        root=math.sqrt(arm_bound * theta_bound) / (2.0 * c_1 * kappa) ** 0.25,
    )
    return constants, 24.0 * math.sqrt(2.0 * kappa) * log_term * ell ** ((order - 1.0) / order)


def ada_oful_constants(
    dim: int,
    horizon: int,
    *,
    ridge: float,
    theta_bound: float,
    arm_bound: float,
    sigma_min: float,
    delta: float,
) -> AdaptiveHuber:
    """The constants of AdaOFUL, Li and Sun (TMLR 2024), for finite variance."""
    T = float(horizon)
    kappa = dim * math.log1p(T * arm_bound**2 / (dim * ridge * sigma_min**2))
    ell = math.log(2.0 * T**2 / delta)
    return AdaptiveHuber(
        kappa=kappa,
        ell=ell,
        tau_0=max(math.sqrt(2.0 * kappa), 2.0 * math.sqrt(dim)) / math.sqrt(ell),
        steep=6.0 * math.sqrt(3.0 * ell),
        root=math.sqrt(arm_bound * theta_bound) * (42.0 * ell / dim) ** 0.25,
    )


@jit
def ada_oful_radius(
    t: float, kappa: float, tau_0: float, log_inverse_delta: float, prior_root: float
) -> float:
    """32 (kappa/tau_0 + sqrt(kappa l_t) + tau_0 l_t) + 5 sqrt(lambda) B, l_t = log(2t²/delta).

    sqrt(lambda) B at t = 0, where the formula has the logarithm of 0.
    """
    if t == 0.0:
        return prior_root
    ell = math.log(2.0 * t * t) + log_inverse_delta
    return 32.0 * (kappa / tau_0 + math.sqrt(kappa * ell) + tau_0 * ell) + 5.0 * prior_root


def tofu_constants(
    dim: int, order: float, horizon: int, raw_scale: float, delta: float
) -> tuple[float, float]:
    """(slope, level) of TOFU, Shao et al. (NeurIPS 2018): beta_t = slope t^a + sqrt(lambda) S and
    the truncation level b_t = level t^a, with b = raw_scale^p >= E|r|^p, a = (2-p)/(2p).

    Note: the exponent 1/p of level is what balances the bias b t^(1-p/2) / b_t^(p-1) of truncation
    against b_t log(2T/delta). Published code has 1/2 there, right at p = 2 only.
    """
    T = float(horizon)
    level = raw_scale / math.log(2.0 * T / delta) ** (1.0 / order)
    spread = math.log(2.0 * dim * T / delta) ** ((order - 1.0) / order)
    return 4.0 * math.sqrt(dim) * raw_scale * spread, level


def btc_factor(order: float, horizon: int, arms: int, raw_scale: float, delta: float) -> float:
    """alpha of BTC, Xue et al. (IJCAI 2020): the width of arm x is (alpha t^a + 1) ‖x‖_{A^-1}.

    alpha = (2/3) q + sqrt(2 q v) + v, q = log(2 T K log(T) / delta), v = raw_scale^p >= E|r|^p.
    """
    q = math.log(2.0 * horizon * arms * math.log(horizon) / delta)
    v = raw_scale**order
    return 2.0 / 3.0 * q + math.sqrt(2.0 * q * v) + v


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
    """exploration * sqrt(lambda S² + G_t + rho_t log(1/delta)): a radius read off the data. No
    theorem's.

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


def crtm_constants(
    dim: int,
    order: float,
    horizon: int,
    raw_scale: float,
    *,
    ridge: float,
    theta_bound: float,
    arm_bound: float,
    delta: float,
    weight: float = 0.5,
) -> tuple[float, float]:
    """(radius, Gamma) of CRTM, Xue et al. (NeurIPS 2023), linear link; u = raw_scale^p.

    radius² = 896 A u^(2/p) ell^(2(p-1)/p) T^(2a) + 2 lambda S² + 48 S A and
    Gamma = 2 sqrt(A) (u/ell)^(1/p) T^a, with A = d log(1 + weight L² T/(lambda d)),
    ell = log(4T/delta), a = (2-p)/(2p); ``weight`` is that of x x' in V.

    Note: certain at p = 2 and lambda = L = 1. The powers for p < 2 are re-derived: the bias
    u T^(1-p/2) (4A)^(p/2) / Gamma^(p-1) that truncation leaves is balanced against Gamma ell.
    """
    T, a = float(horizon), time_exponent(order)
    A = dim * math.log1p(weight * arm_bound**2 * T / (ridge * dim))
    ell = math.log(4.0 * T / delta)
    level = 2.0 * math.sqrt(A) * raw_scale / ell ** (1.0 / order) * T**a
    noise = 896.0 * A * raw_scale**2 * ell ** (2.0 * (order - 1.0) / order) * T ** (2.0 * a)
    rest = 2.0 * ridge * theta_bound**2 + 48.0 * theta_bound * A
    return math.sqrt(noise + rest), level


def crmm_noise(scale: float, order: float, horizon: int, repeats: int, delta: float) -> float:
    """R with P(some median of ``repeats`` noises exceeds R within T rounds) <= delta.

    A median beyond R needs half of r noises beyond it, which has probability at most
    (4 nu^p / R^p)^(r/2); this is delta / T at R = 4^(1/p) nu (T/delta)^(2/(r p)).
    """
    growth = (horizon / delta) ** (2.0 / (repeats * order))
    return float(4.0 ** (1.0 / order) * scale * growth)


@jit
def crmm_radius(
    log_det: float, noise_scale: float, log_inverse_delta: float, prior_root: float, span: float
) -> float:
    """The radius of the Newton step V <- V + x x'/2 under centred noise within ±R.

    sqrt(lambda S² + (4/3) R² log(1/delta) + 2 (R + 2 S L)² log(det V_n / det V_0)), ``span`` being
    2 S L. From ‖theta_{n+1} - theta*‖² <= ‖theta_n - theta*‖² + e²/2 - 2 e (e - eta) +
    (e - eta)² ‖x‖², e = x'(theta_n - theta*), norms in V_n and its inverse: the sum over e is a
    martingale's, minus 3/2 of the sum of e², and ‖x‖²/2 <= log(det V_n / det V_{n-1}).
    """
    range_ = noise_scale + span
    noise = 4.0 / 3.0 * noise_scale * noise_scale * log_inverse_delta
    return math.sqrt(prior_root * prior_root + noise + 2.0 * range_ * range_ * log_det)


@jit
def crt_radius(
    log_det: float,
    t: float,
    order: float,
    log_inverse_delta: float,
    raw_power: float,
    log_horizon: float,
    prior_root: float,
) -> float:
    """2 sqrt(2 t^(1/p) (log(det(V_t)^(1/2)/delta) + v² log T)) + sqrt(lambda) S.

    Medina and Yang (ICML 2016), Theorem 1, with v = E|y|^p and sqrt(lambda) S for its 1. Corollary
    2 as printed loses the power of t in the second term; the proof has it.
    """
    inner = 0.5 * log_det + log_inverse_delta + raw_power * raw_power * log_horizon
    return 2.0 * math.sqrt(2.0 * t ** (1.0 / order) * inner) + prior_root


@jit
def mom_radius(
    log_det: float, n: float, mean_width: float, log_batches: float, prior_root: float
) -> float:
    """mean_width (sqrt(2 log(m det(V_n)^(1/2)/delta)) + sqrt(n)) + sqrt(lambda) S after n batches.

    Medina and Yang (ICML 2016), section 4: ``mean_width`` bounds a median of means,
    (12 v)^(1/p) (8 log(2m/delta)/r)^((p-1)/p); ``log_batches`` is log(m/delta).
    """
    return mean_width * (math.sqrt(log_det + 2.0 * log_batches) + math.sqrt(n)) + prior_root


@jit
def menu_radius(n: float, order: float, noise: float, prior_root: float) -> float:
    """3 ((9 d c)^(1/p) n^((2-p)/(2p)) + sqrt(lambda) S) after n epochs; ``noise`` is (9 d c)^(1/p).

    Shao, Yu, King and Lyu (NeurIPS 2018), Algorithm 1.
    """
    return 3.0 * (bmm_radius(n, order, noise, prior_root))


@jit
def bmm_radius(n: float, order: float, noise: float, prior_root: float) -> float:
    """(12 v)^(1/p) n^((2-p)/(2p)) + sqrt(lambda) S from n samples; ``noise`` is (12 v)^(1/p).

    Xue, Wang, Wang and Zhang (IJCAI 2020), with sqrt(lambda) S for its 1. 0 samples leave the
    second term (0^0 at p = 2 is a case of its own).
    """
    if n == 0.0:
        return prior_root
    return noise * n ** time_exponent(order) + prior_root


@jit
def linear_thompson_scale(
    t: float, dim: float, noise_scale: float, log_inverse_delta: float
) -> float:
    """R sqrt(9 d log(t/delta)): the width of the draw in round t, for R-sub-Gaussian noise.

    Agrawal and Goyal (ICML 2013).
    """
    return noise_scale * math.sqrt(9.0 * dim * (math.log(t) + log_inverse_delta))


def lsvi_radius(dim: int, horizon: int, episodes: int, delta: float) -> float:
    """c d H sqrt(log(2 d K H / delta)) with c = 1, the bonus of LSVI-UCB.

    Jin, Yang, Wang and Jordan (COLT 2020), Theorem 3.1, where c is an unspecified constant.
    """
    steps = check_count("episodes", episodes) * horizon
    delta = check_number("delta", delta, above=0.0, below=1.0)
    return dim * horizon * math.sqrt(math.log(2.0 * dim * steps / delta))
