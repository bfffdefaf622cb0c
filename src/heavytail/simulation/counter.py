"""Trials drawn by counters, regret kept at checkpoints only: one source for CPU and GPU.

A trial is a function of (seed, trial) alone, so it is the same on either engine and in any batch,
up to rounding; memory does not grow with the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.environments import Environment, LinearBandit, LinkBandit, SkewedBandit
from heavytail.environments import noise as noises
from heavytail.kernels.counts import LinkLaw, linked_shape, paid
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE, OK, RADIUS
from heavytail.kernels.links import IDENTITY, LOG, link_mean
from heavytail.kernels.one_pass import admit
from heavytail.kernels.random import uniform, uniform_pair
from heavytail.kernels.reward import Coefficients, earned, shape_of
from heavytail.kernels.sharp import SHARP
from heavytail.policies import PackedPolicy, Policy
from heavytail.policies.core.loops import around
from heavytail.policies.core.own import is_own
from heavytail.policies.core.sharp import gram_row
from heavytail.simulation import counter_world as world
from heavytail.simulation.counter_world import (
    ACROSS,
    CHOICE,
    EVENT,
    FACTOR,
    NOISE,
    PAYMENT,
    draw_arms,
    draw_direction,
    draw_theta,
    stream,
)
from heavytail.simulation.covering import ratio, sharp_ratio

__all__ = [
    "CounterWorld",
    "copy_state",
    "cpu_runner",
    "describe",
    "kernels_of",
    "play_trial",
    "start_state",
]

KEYS = 2.0**53  # a policy's key is one of so many
KEY_SLOT = -1  # stands for the policy's slot in the template below
COVER = False  # stands for whether the confidence set is watched
SKEWED = False  # stands for whether the law of a reward depends on the arm
LINKED = False  # stands for whether the mean is a link of the score x'theta
PLAIN = Coefficients(*(0.0,) * len(Coefficients._fields))  # where it does not: never read
STRAIGHT = LinkLaw(IDENTITY, 0.0, 0.0, 1.0)  # where the mean is the score


@dataclass(frozen=True)
class CounterWorld:
    """Environment and policy as the numbers that :func:`play_trial` takes; the noise's kernel."""

    dim: int
    arms: int
    theta_bound: float
    arm_bound: float
    together: bool
    nu: float
    draw: Callable[..., float]
    a: float
    b: float
    spread: float  # of the scale: a round's factor is 10^U(0, spread)
    pay: Callable[..., float]
    c: float
    d: float
    skew: Coefficients
    law: LinkLaw

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The arguments of the trial, in its order."""
        return (
            self.theta_bound,
            self.arm_bound,
            self.together,
            self.nu,
            self.a,
            self.b,
            self.spread,
            self.c,
            self.d,
            self.skew,
            self.law,
        )


def describe(policy: Policy, environment: Environment) -> CounterWorld:
    """The setting, or why these trials cannot be drawn by counters."""
    if (
        not isinstance(policy, PackedPolicy)
        or len(policy.packed) != 2
        or not policy.plays_by_kernels
    ):
        raise ValueError(
            f"{policy.name} cannot run in worlds drawn by counters: that takes a policy whose "
            "state is packed and does not grow, and whose round is kernels alone. Use "
            'engine="compiled".'
        )
    if (
        not isinstance(environment, LinearBandit | SkewedBandit | LinkBandit)
        or is_own(type(environment))
        or getattr(environment, "arm_set", None)
        or environment.fresh
        or environment.offered
    ):
        raise ValueError(
            f"{environment!r} cannot be drawn by counters: that takes a LinearBandit, a "
            "SkewedBandit or a LinkBandit whose pool of arms is shown whole every round. Use "
            'engine="compiled".'
        )
    environment.check_link(policy)
    noise, spread = environment.noise, 0.0
    if isinstance(noise, noises.Scaled):
        spread = noise.spread
        noise = noise.noise
    draw, a, b = _noise_kernel(noise)
    skew, payment = PLAIN, None
    if isinstance(environment, SkewedBandit):
        skew, payment = environment.skew.coefficients, environment.skew.payment_noise
    pay, c, d = _noise_kernel(payment)
    return CounterWorld(
        dim=environment.dim,
        arms=environment.arms,
        theta_bound=environment.theta_bound,
        arm_bound=environment.arm_bound,
        together=environment.normalize == "max",
        nu=policy._nu,
        draw=draw,
        a=a,
        b=b,
        spread=spread,
        pay=pay,
        c=c,
        d=d,
        skew=skew,
        law=environment.law if isinstance(environment, LinkBandit) else STRAIGHT,
    )


def _noise_kernel(noise: noises.Noise | None) -> tuple[Callable[..., float], float, float]:
    match noise:
        case None:
            return world.nothing, 0.0, 0.0
        case noises.Uniform():
            return world.even, noise.bound, 0.0
        case noises.Contaminated():
            return world.contaminated, noise.share, noise.factor
        case noises.Gaussian():
            return world.gaussian, noise.sd, 0.0
        case noises.StudentT():
            return world.student_t, noise.df, 0.0
        case noises.Pareto():
            return world.pareto, noise.b, noise.mean
        case noises.Lomax():  # centred, it is the Pareto
            return world.pareto, noise.c, noises.Pareto(noise.c).mean
        case noises.Fisk():
            return world.fisk, noise.c, noise.mean
        case noises.LogNormal():
            return world.log_normal, noise.sigma, math.exp(noise.sigma**2 / 2.0)
        case noises.Stable():
            return world.stable, noise.alpha, noise.beta
    raise ValueError(f'{noise!r} cannot be drawn by counters. Use engine="compiled".')


def select(*_: object) -> int:
    """Stands for a policy's selection kernel in the template below."""
    raise NotImplementedError


def update(*_: object) -> int:
    """Stands for a policy's learning kernel in the template below."""
    raise NotImplementedError


def draw(*_: object) -> float:
    """Stands for a noise's kernel in the template below."""
    raise NotImplementedError


def pay(*_: object) -> float:
    """Stands for the kernel of what is paid in the template below."""
    raise NotImplementedError


@jit
def expected(law: LinkLaw, score: float) -> float:
    """The mean reward at this x'theta, outliers included."""
    lift = 1.0 + law.outliers * (law.factor - 1.0)
    return lift * link_mean(law.link, law.base + score)


@jit
def linked_reward(law: LinkLaw, score: float, noise: float, seed: int, trial: int, t: int) -> float:
    """The reward of an arm with this x'theta in round ``t``."""
    shape = linked_shape(law.link, link_mean(law.link, law.base + score))
    payment = 1.0
    if uniform(stream(seed, PAYMENT), trial, t) < law.outliers:
        payment = law.factor
    return paid(law.link == LOG, shape, noise, uniform(stream(seed, EVENT), trial, t), payment)


def play_trial(
    s: FloatArray,
    M: FloatArray,
    arms: FloatArray,
    theta: FloatArray,
    x: FloatArray,
    across: FloatArray,
    seed: int,
    trial: int,
    kept: IntArray,
    regret: FloatArray,
    column: int,
    theta_bound: float,
    arm_bound: float,
    together: bool,
    nu: float,
    a: float,
    b: float,
    spread: float,
    c: float,
    d: float,
    skew: Coefficients,
    law: LinkLaw,
) -> None:
    """Template: one trial; regret[k, column] is the regret after round kept[k].

    ``arms``, ``theta``, ``x``, ``across`` are room. A round that a kernel refuses leaves NaN from
    there on. With COVER, V_0 stands in the last rows of M, and one more row of ``regret`` takes the
    largest distance to the truth that was met, in radii. With SKEWED a mean is less what it has in
    common with all arms' means, and theta is ``theta_bound`` u. With LINKED it is mu(base +
    x'theta), outliers included.
    """
    if KEY_SLOT >= 0:
        s[KEY_SLOT] = math.floor(KEYS * uniform(stream(seed, CHOICE), trial, 0))
    draw_theta(seed, trial, theta, theta_bound)
    if SKEWED:
        draw_direction(seed, ACROSS, trial, across, 1.0)
    draw_arms(seed, trial, arms, arm_bound, together)
    best = -math.inf
    for i in range(arms.shape[0]):
        mean = 0.0
        for j in range(arms.shape[1]):
            mean += arms[i, j] * theta[j]
        if LINKED:
            mean = expected(law, mean)
        best = max(best, mean)
    total = 0.0
    worst = 0.0
    t = 0
    for mark in range(kept.shape[0]):
        while t < kept[mark]:
            arm = select(s, M, arms)
            if arm < 0:
                total = math.nan
                arm = 0
            mean = 0.0
            for j in range(arms.shape[1]):
                x[j] = arms[arm, j]
                mean += x[j] * theta[j]
            u, v = uniform_pair(stream(seed, NOISE), trial, t)
            factor = 1.0
            if spread > 0.0:
                factor = 10.0 ** (spread * uniform(stream(seed, FACTOR), trial, t))
            noise = factor * draw(u, v, a, b)
            reward = mean + noise
            if SKEWED:
                side = 0.0
                for j in range(arms.shape[1]):
                    side += x[j] * across[j]
                shape = shape_of(mean / theta_bound, side, skew)
                u, v = uniform_pair(stream(seed, PAYMENT), trial, t)
                paid = skew.payment + skew.payment_scale * pay(u, v, c, d)
                reward = earned(shape, noise, uniform(stream(seed, EVENT), trial, t), paid)
            if LINKED:
                reward = linked_reward(law, mean, noise, seed, trial, t)
                mean = expected(law, mean)
            scale = nu * factor
            if admit(s, M, x, reward, scale) != OK or update(s, M, x, reward, scale) < 0:
                total = math.nan
            if COVER:
                worst = max(worst, ratio(s, M, theta))
            total += best - mean
            t += 1
        regret[mark, column] = total
    if COVER:
        regret[kept.shape[0], column] = worst


@jit
def copy_state(s0: FloatArray, M0: FloatArray, s: FloatArray, M: FloatArray) -> None:
    """(s, M) <- (s0, M0)."""
    for i in range(s.shape[0]):
        s[i] = s0[i]
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = M0[i, j]


def _play_range(
    s0: FloatArray,
    M0: FloatArray,
    s: FloatArray,
    M: FloatArray,
    arms: FloatArray,
    theta: FloatArray,
    x: FloatArray,
    across: FloatArray,
    seed: int,
    first: int,
    kept: IntArray,
    regret: FloatArray,
    numbers: Any,
) -> None:
    """Template: the trials first, first + 1, ... of the columns of ``regret``, on the CPU."""
    for k in range(regret.shape[1]):
        copy_state(s0, M0, s, M)
        play_trial(s, M, arms, theta, x, across, seed, first + k, kept, regret, k, *numbers)


def start_state(policy: PackedPolicy, cover: bool) -> tuple[FloatArray, FloatArray]:
    """Copies of (s, M), with V_0 behind M where the confidence set is to be watched."""
    s, M = policy.packed
    if not cover:
        return s.copy(), M.copy()
    if not policy.algorithm.rank_one or policy.forgets or not s[RADIUS] > 0.0:
        raise ValueError(
            f"{policy.name} has no confidence set that a kernel could watch round by round; "
            "coverage is for one-pass policies with a radius that forget nothing, such as HvtUCB "
            "and OFUL."
        )
    size = M.shape[1]
    first = gram_row(M) if policy.algorithm.scoring is SHARP else INVERSE
    return s.copy(), np.vstack([M, np.linalg.inv(M[first : first + size])])


def kernels_of(policy: PackedPolicy, setting: CounterWorld, cover: bool) -> dict[str, Any]:
    """The names that :func:`play_trial` is bound to, for one policy and one law of rewards."""
    return {
        "select": policy.algorithm.select,
        "update": policy.algorithm.update,
        "draw": setting.draw,
        "pay": setting.pay,
        "SKEWED": setting.skew != PLAIN,
        "LINKED": setting.law != STRAIGHT,
        "KEY_SLOT": policy.algorithm.key_slot,
        "COVER": cover,
        "ratio": sharp_ratio if policy.algorithm.scoring is SHARP else ratio,
    }


def cpu_runner(policy: PackedPolicy, setting: CounterWorld, cover: bool) -> Callable[..., None]:
    """A range of trials compiled for the CPU around one policy's kernels and one law of rewards."""
    play = around(play_trial, **kernels_of(policy, setting, cover))
    return around(_play_range, play_trial=play)
