"""The estimates and bounds of logged data once more, row by row, from their formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

Array = np.ndarray[Any, Any]


def ips(w: Array, r: Array) -> float:
    """Mean of w r."""
    return sum(a * b for a, b in zip(w, r, strict=True)) / len(w)


def snips(w: Array, r: Array) -> float:
    """Sum of w r over sum of w."""
    return float(np.dot(w, r) / sum(w))


def clipped(w: Array, r: Array, most: float) -> float:
    """Mean of min(w, most) r."""
    return sum(min(a, most) * b for a, b in zip(w, r, strict=True)) / len(w)


def doubly_robust(w: Array, r: Array, q: Array, action: Array, pi: Array) -> float:
    """Mean of sum_a pi q + w (r - q of the action)."""
    rows = [float(pi[i] @ q[i]) + w[i] * (r[i] - q[i, action[i]]) for i in range(len(r))]
    return sum(rows) / len(rows)


def direct(q: Array, pi: Array) -> float:
    """Mean of sum_a pi q."""
    return float(np.einsum("ij,ij->i", pi, q).mean())


def log_smoothing(x: Array, strength: float) -> float:
    """Mean of log(1 + strength x) / strength."""
    return float(np.mean(np.log(1.0 + strength * x))) / strength


def log_sum_exp(x: Array, strength: float) -> float:
    """- log(mean of exp(-strength x)) / strength."""
    return -math.log(float(np.mean(np.exp(-strength * x)))) / strength


def huber_order(u: Array) -> float:
    """log of the effective size, between 3 and a quarter of the rows."""
    return min(max(3.0, math.log(sum(u) ** 2 / np.dot(u, u))), max(1.0, len(u) / 4.0))


def huber_threshold(e: Array, z: float) -> float:
    """tau with sum min(e^2, tau^2) = tau^2 z."""
    e = np.abs(e)
    if not e.any():
        return math.inf
    top = e.max() * math.sqrt(len(e))
    return brentq(
        lambda t: np.sum(np.minimum((e / t) ** 2, 1.0)) - z, 1e-12 * top, 2.0 * top, xtol=1e-13
    )


def huber(u: Array, v: Array, z: float) -> float:
    """m with sum clip(v - u m, tau) = 0 where sum min((v - u m)^2, tau^2) = tau^2 z."""

    def score(m: float) -> float:
        e = v - u * m
        t = huber_threshold(e, z)
        return float(np.sum(np.clip(e, -t, t)))

    # From the plain mean to the first change of sign on either side.
    plain = float(np.sum(v) / np.sum(u))
    if score(plain) == 0.0:
        return plain
    step = math.copysign(1e-3 * float(np.sqrt(np.dot(v, v)) / np.sum(u)), score(plain))
    far = plain + step
    while score(far) * step > 0.0:
        far += step
    return brentq(score, plain, far, xtol=1e-13)


def skew_corrected(u: Array, v: Array, z: float) -> float:
    """Huber's m, and what lies between one and four thresholds, as far as one side has it all."""
    m = huber(u, v, z)
    e = v - u * m
    t = huber_threshold(e, z)
    above, below = sum(x > t / 4.0 for x in e), sum(x < -t / 4.0 for x in e)
    lean = (above - below) ** 2 / (above + below) ** 2
    back = [math.copysign(min(abs(x), 4.0 * t) - t, x) for x in e if abs(x) > t]
    return m + lean * sum(back) / sum(u)


def log_wealth(w: Array, mean: float, side: float) -> float:
    """log of sum_k share_k prod (1 + side b_k (w - mean)); a bet that meets a debt is lost."""
    shares = [1.0 / (1.0 + k * k) for k in range(-9, 10)]
    parts = []
    for k, share in zip(range(-9, 10), shares, strict=True):
        bet = min(2.0**k * math.sqrt(2.0 * math.log(2000.0) / len(w)), 0.5)
        factors = 1.0 + side * bet * (w - mean)
        if np.all(factors > 0.0):
            parts.append(math.log(share / sum(shares)) + float(np.sum(np.log(factors))))
    return max(parts) + math.log(sum(math.exp(part - max(parts)) for part in parts))


def likelihood_lower(x: Array, delta: float) -> float:
    """The least mean m of a law on [0, oo) that makes the rows delta times as likely as their own
    frequencies do: where max over b of sum log(1 + b (x - m)), 0 <= b <= 1/m, is log(1/delta).
    """

    def over(m: float) -> float:
        def slope(b: float) -> float:
            return float(np.sum((x - m) / (1.0 + b * (x - m))))

        most = (1.0 - 1e-12) / m
        b = most if slope(most) > 0.0 else brentq(slope, 0.0, most, xtol=1e-15)
        return float(np.sum(np.log1p(b * (x - m)))) - math.log(1.0 / delta)

    return brentq(over, 1e-9 * x.mean(), (1.0 - 1e-12) * x.mean(), xtol=1e-14)


def shrunk(w: Array, most: float) -> Array:
    """w most² / (w² + most²): about w where it is small, most²/w where it is large."""
    return w * most**2 / (w**2 + most**2)


def catoni_mean(u: Array, v: Array, strength: float, p: float) -> float:
    """Root of the sum of phi(strength (v - u m))."""

    def score(m: float) -> float:
        return float(np.sum(phi(strength * (v - u * m), p)))

    reach = float(np.sum(np.abs(v)) / np.sum(u)) + 1.0
    return brentq(score, -reach, reach, xtol=1e-13)


def phi(x: Array, p: float) -> Array:
    """sign(x) log(1 + |x| + |x|^p / p)."""
    return np.where(x > 0, 1.0, -1.0) * np.log(1.0 + abs(x) + abs(x) ** p / p)


def block_means(u: Array, v: Array, blocks: int = 16) -> tuple[Array, Array]:
    """Ratio of sums and its spread in the rows i mod blocks."""
    found, spread = [], []
    for j in range(blocks):
        a, b = u[j::blocks], v[j::blocks]
        if a.sum() > 0:
            found.append(b.sum() / a.sum())
            spread.append(np.linalg.norm(b - a * found[-1]) / a.sum())
    return np.array(found), np.array(spread)


def minsker_ndaoud(u: Array, v: Array) -> float:
    """Block means with weights 1 / spread."""
    found, spread = block_means(u, v)
    return float(np.average(found, weights=1.0 / spread))


def epoch_ends(n: int) -> list[int]:
    """Last rows (exclusive) of the epochs that begin before n."""
    ends, start = [], 0
    while start < n:
        start = max(start + 1, math.floor(1.1 * start))
        ends.append(min(start, n))
    return ends


def wealth(x: Array, bets: Array, horizons: list[float], m: float) -> Array:
    """What 1 has become after each row: a share 1/j^2 per horizon, a ninth of it from each of
    2^-1, 2^-1.5, ..., 2^-5 of the horizon on, held until the next epoch begins.
    """
    n, total = len(x), np.zeros(len(x))
    begins = np.array([0, *epoch_ends(n)])
    for j, horizon in enumerate(horizons):
        for k in range(2, 11):
            later = begins[begins >= horizon / 2 ** (k / 2)]
            start = int(later[0]) if len(later) else n
            factor = (1.0 + bets[j] * x) / (1.0 + bets[j] * m)
            total += np.cumprod(np.where(np.arange(n) < start, 1.0, factor)) / (j + 1.0) ** 2 / 9.0
    return total / sum(1.0 / (j + 1.0) ** 2 for j in range(len(horizons)))


def betting_lower(x: Array, bets: Array, horizons: list[float], delta: float) -> float:
    """inf{m >= 0: wealth <= 1/delta}."""

    def over(m: float) -> float:
        return math.log(max(wealth(x, bets, horizons, m)[-1] * delta, 1e-300))

    return brentq(over, 0.0, 10.0 * x.max(), xtol=1e-13) if over(0.0) > 0.0 else 0.0


def best_bet(past: Array, delta: float, horizon: float) -> float:
    """The constant bet that would give the largest bound, were all rows like the past."""

    def minus_bound(log_bet: float) -> float:
        bet = math.exp(log_bet)
        growth = float(np.mean(np.log(1.0 + bet * past))) - math.log(1.0 / delta) / horizon
        return -(math.exp(growth) - 1.0) / bet

    scale = -math.log(past.mean())
    found = minimize_scalar(minus_bound, bounds=(scale - 14.0, scale + 2.0), method="bounded")
    return math.exp(found.x)


def catoni_sequence(
    x: Array, bets: Array, p: float, nu: float, alpha: float
) -> tuple[float, float]:
    """Both ends of {m: |sum phi(l (x - m))| <= sum log(1 + (l nu)^p / p) + log(2/alpha)}."""
    room = float(np.sum(np.log(1.0 + (bets * nu) ** p / p))) + math.log(2.0 / alpha)
    far = 100.0 * nu + abs(x).max()

    def score(m: float) -> float:
        return float(np.sum(phi(bets * (x - m), p)))

    low = brentq(lambda m: score(m) - room, -far, far, xtol=1e-13)
    return low, brentq(lambda m: score(m) + room, -far, far, xtol=1e-13)


def empirical_bernstein(x: Array, most: float, delta: float) -> float:
    """Maurer and Pontil's lower bound for values in [0, most], at least 0."""
    n, room = len(x), math.log(2.0 / delta)
    shift = math.sqrt(2.0 * np.var(x, ddof=1) * room / n) + 7.0 * most * room / (3.0 * (n - 1))
    return max(float(np.mean(x)) - shift, 0.0)
