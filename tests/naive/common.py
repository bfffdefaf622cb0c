"""What the twins share: a ball, an index, a random number, and a game played side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray[Any, Any]
Round = tuple[Array, float, float | None]  # the arms offered, the noise, the scale stated

TIE = 1e-10  # relative: linear indices this near are equal, and the first is taken
FORCED = 5  # every so many rounds another arm is played than the one chosen


def power_of_time(t: float, p: float) -> float:
    """t^a with a = (1 - eps)/(2 (1 + eps)), which is 1/p - 1/2."""
    return float(t ** (1.0 / p - 0.5))


def log_det_ratio(V: Array, ridge: float) -> float:
    """log det V / det(ridge I)."""
    return float(np.linalg.slogdet(V / ridge)[1])


def width(V: Array, x: Array) -> float:
    """‖x‖ in the inverse of V."""
    return math.sqrt(x @ np.linalg.solve(V, x))


def project(V: Array, y: Array, bound: float, dim: int) -> Array:
    """argmin ‖theta - y‖_V over ‖theta[:dim]‖ <= bound: V (y - theta) = mu theta on the ball's
    coordinates and 0 on the others.
    """
    if np.linalg.norm(y[:dim]) <= bound:
        return y
    inside = np.diag([1.0] * dim + [0.0] * (len(y) - dim))

    def at(mu: float) -> Array:
        return np.linalg.solve(V + mu * inside, V @ y)

    def excess(mu: float) -> float:
        return float(np.linalg.norm(at(mu)[:dim])) - bound

    high = 1.0
    while excess(high) > 0.0:
        high *= 4.0
    return at(brentq(excess, 0.0, high, xtol=1e-30, rtol=1e-15, maxiter=500))


def first_of_largest(values: Iterable[float], tie: float = 0.0) -> int:
    """The place of the first value that none exceeds by more than ``tie`` of itself."""
    best, place = -math.inf, -1
    for i, value in enumerate(values):
        if place < 0 or value > best + (tie * abs(best) if tie else 0.0):
            best, place = value, i
    return place


class Linear:
    """x'theta + radius ‖x‖_{V^-1}: what choosing by the linear index needs.

    A twin sets ``V``, ``theta_all`` (an intercept's coefficient last) and ``radius``.
    """

    dim: int
    V: Array
    theta_all: Array
    radius: float
    rounds = 0
    constant = 0.0  # the constant feature

    @property
    def theta(self) -> Array:
        return self.theta_all[: self.dim]

    @property
    def inverse_gram(self) -> Array:
        return np.linalg.inv(self.V)

    def feature(self, x: Array) -> Array:
        return np.concatenate([x, np.full(len(self.V) - self.dim, self.constant)])

    def choose(self, arms: Array) -> int:
        features = np.array([self.feature(x) for x in arms])
        squares = np.sum(features.T * np.linalg.solve(self.V, features.T), axis=0)
        return first_of_largest(arms @ self.theta + self.radius * np.sqrt(squares), TIE)


def philox(key: int, high: int, low: int) -> list[int]:
    """Philox 4x32-10, a block of four words, in plain integers (Salmon et al. 2011)."""
    word = 2**32
    c = [low % word, low // word, high % word, high // word]
    k = [key % word, key // word]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b // word) ^ c[1] ^ k[0], b % word, (a // word) ^ c[3] ^ k[1], a % word]
        k = [(k[0] + 0x9E3779B9) % word, (k[1] + 0xBB67AE85) % word]
    return c


def uniform(key: int, high: int, low: int) -> float:
    """27 bits of the first word, then 26 of the second, as a fraction."""
    a, b, _, _ = philox(key, high, low)
    return ((a >> 5) * 2**26 + (b >> 6)) / 2**53


def normal(key: int, high: int, low: int) -> float:
    """Box and Muller's cosine from the counters 2 low and 2 low + 1."""
    u, v = uniform(key, high, 2 * low), uniform(key, high, 2 * low + 1)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


def game(
    dim: int,
    rounds: int,
    *,
    seed: int = 0,
    arms: int = 6,
    fixed: bool = False,
    length: float = 1.0,
    noise: float = 1.0,
    scales: bool = False,
) -> Iterator[Round]:
    """Rounds of random arms no longer than ``length`` (one set where ``fixed``), Student noise of
    1.5 degrees of freedom times ``noise``, and with ``scales`` a stated scale that varies.
    """
    rng = np.random.default_rng(seed)
    offered = _arms(rng, arms, dim, length)
    for _ in range(rounds):
        if not fixed:
            offered = _arms(rng, arms, dim, length)
        scale = float(noise * 10.0 ** rng.uniform(-1.0, 1.0)) if scales else None
        yield offered, float((scale or noise) * rng.standard_t(1.5)), scale


def _arms(rng: np.random.Generator, count: int, dim: int, length: float) -> Array:
    arms = rng.standard_normal((count, dim))
    lengths = length * rng.uniform(0.3, 1.0, (count, 1))
    return np.asarray(lengths * arms / np.linalg.norm(arms, axis=1, keepdims=True))


def near(mine: Any, yours: Any, what: str, rtol: float = 1e-9) -> None:
    """Refuse numbers that differ by more than ``rtol`` of the largest of them."""
    a, b = np.asarray(mine, dtype=float), np.asarray(yours, dtype=float)
    assert a.shape == b.shape, what
    if not np.array_equal(a, b):
        size = float(np.max(np.abs(b)))
        close = math.isfinite(size) and np.max(np.abs(a - b)) <= rtol * size
        assert close, f"{what}: {mine} is not {yours}"


def together(
    policy: Any,
    twin: Any,
    rounds: Iterable[Round],
    look: tuple[str, ...] = ("theta", "radius"),
    *,
    reward: Callable[[Array, float], float] | None = None,
    forced: int = FORCED,
    rtol: float = 1e-9,
) -> None:
    """Play both side by side; every choice, and before and after every reward every attribute of
    ``look``, must agree to ``rtol``. ``reward`` makes one of the arm played and the noise; else
    they are linear. Every ``forced`` rounds the arm played is not the one chosen.
    """
    theta = np.linspace(0.7, -0.4, policy.dim) / math.sqrt(policy.dim)
    for t, (arms, noise, scale) in enumerate(rounds):
        for name in look:
            near(getattr(policy, name), getattr(twin, name), f"round {t}: {name}", rtol)
        choice = policy.select(arms)
        assert choice == twin.choose(arms), f"round {t}: choice"
        if forced and t % forced == forced - 1:
            choice = t % len(arms)
        x = arms[choice]
        paid = float(x @ theta) + noise if reward is None else reward(x, noise)
        policy.update(x, paid, scale=scale)
        twin.learn(x, paid, scale)
    for name in look:
        near(getattr(policy, name), getattr(twin, name), f"the end: {name}", rtol)
    assert policy.rounds == twin.rounds
