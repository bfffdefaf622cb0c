"""One trial in which arms and noise try to break the sharp confidence set; for CPU and GPU alike.

``WHO`` chooses x: the policy from ten arms that stay, an adversary who knows the truth and plays
the direction of the error, or the worst of four random directions for it, or a line that is left
once in fifty rounds. The noise has mean 0 and E|eta|^p = nu_t^p whatever came before: a fixed law,
a rare large value, or a two-point law that reacts: its common value pushes the estimate on in the
direction it errs in, and its rare one lies at the clip or beyond.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.kernels.index import select
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import INVERSE, THETA
from heavytail.kernels.random import normal, uniform, uniform_pair
from heavytail.policies.core.loops import around
from heavytail.policies.hvt_ucb import WIDTH, update_sharp
from heavytail.simulation import cuda as engine
from heavytail.simulation.counter import copy_state
from heavytail.simulation.counter_world import (
    FACTOR,
    GEOMETRY,
    NOISE,
    draw_arms,
    draw_theta,
    gaussian,
    pareto,
    stream,
    student_t,
)
from heavytail.simulation.covering import sharp_ratio
from heavytail.simulation.device import substitutes

OWN, ADVERSARY, LINE = 0, 1, 2
NORMAL, STUDENT, PARETO, RARE, REACTING, EITHER = range(6)
ARMS: Final = 10
CANDIDATES: Final = 4
SIGMA, TAU, BETA = WIDTH.LAST_SIGMA, WIDTH.LAST_TAU, WIDTH.BETA


@jit
def two_point(u: float, far: float, order: float) -> float:
    """-far rarely and else what makes the mean 0, scaled to E|eta|^order = 1; u is uniform."""
    q = min(0.5, far**-order)
    near = far * q / (1.0 - q)
    size = ((1.0 - q) * near**order + q * far**order) ** (1.0 / order)
    return (-far if u < q else near) / size


@jit
def direct(s: Any, M: Any, theta: Any, x: Any, who: int, seed: int, trial: int, t: int) -> None:
    """The adversary's x, of length 1."""
    size = theta.shape[0]
    best = -1.0
    for candidate in range(CANDIDATES):
        first = (t * CANDIDATES + candidate) * size
        length = 0.0
        for j in range(size):
            if who == LINE and t % 50 != 0:
                M[3, j] = 1.0 if j == 0 else 0.0
            elif who == ADVERSARY and candidate == 0 and t > 0:
                M[3, j] = M[THETA, j] - theta[j]
            else:
                M[3, j] = normal(stream(seed, GEOMETRY), trial, first + j)
            length += M[3, j] * M[3, j]
        error = 0.0
        square = 0.0
        for i in range(size):
            M[3, i] /= math.sqrt(max(length, 1e-300))
        for i in range(size):
            error += M[3, i] * (M[THETA, i] - theta[i])
            for j in range(size):
                square += M[3, i] * M[INVERSE + i, j] * M[3, j]
        if error * error / square > best:
            best = error * error / square
            for j in range(size):
                x[j] = M[3, j]


@jit
def draw_noise(
    s: Any, law: int, a: float, b: float, order: float, nu: float, error: float,
    seed: int, trial: int, t: int,
) -> float:  # fmt: skip
    """Noise of moment nu^order."""
    u, v = uniform_pair(stream(seed, NOISE), trial, t)
    if law == NORMAL:
        return nu * gaussian(u, v, 1.0, 0.0) / a
    if law == STUDENT:
        return nu * student_t(u, v, b, 0.0) / a
    if law == PARETO:
        return nu * pareto(u, v, abs(b), abs(b) / (abs(b) - 1.0)) * math.copysign(1.0, b) / a
    if law == RARE:
        return -nu * two_point(u, abs(b), order) * math.copysign(1.0, b)
    if law == EITHER:  # symmetric, over six orders of magnitude
        return nu * 10.0 ** (6.0 * u - 3.0) * (1.0 if v < 0.5 else -1.0)
    clip = max(s[TAU] * s[SIGMA] / nu, 1.5)  # of the round before
    far = clip * (1.0 + b * v)
    sign = 1.0 if error >= 0.0 else -1.0
    return nu * sign * two_point(u, far, order)


def attack(
    s: Any, M: Any, arms: Any, theta: Any, x: Any, seed: int, trial: int, rounds: int, who: int,
    law: int, a: float, b: float, order: float, spread: float, worst: Any, column: int,
) -> None:  # fmt: skip
    """Template: the largest distance to the truth, in radii, over the rounds of one trial."""
    size = theta.shape[0]
    draw_theta(seed, trial, theta, 1.0)
    draw_arms(seed, trial, arms, 1.0, False)
    largest = 0.0
    for t in range(rounds):
        if who == OWN:
            arm = select(s, M, arms)
            for j in range(size):
                x[j] = arms[arm, j]
        else:
            direct(s, M, theta, x, who, seed, trial, t)
        mean = 0.0
        expected = 0.0
        for j in range(size):
            mean += x[j] * theta[j]
            expected += x[j] * M[THETA, j]
        nu = 10.0 ** (-spread * uniform(stream(seed, FACTOR), trial, t))
        eta = draw_noise(s, law, a, b, order, nu, expected - mean, seed, trial, t)
        if update_sharp(s, M, x, mean + eta, nu) < 0:
            largest = math.nan
        largest = max(largest, sharp_ratio(s, M, theta))
    worst[column] = largest


def _range(
    s0: Any, M0: Any, s: Any, M: Any, arms: Any, theta: Any, x: Any, seed: int, first: int,
    rounds: int, who: int, law: int, a: float, b: float, order: float, spread: float, worst: Any,
) -> None:  # fmt: skip
    """Template: trials on the CPU."""
    for k in range(worst.shape[0]):
        copy_state(s0, M0, s, M)
        attack(s, M, arms, theta, x, seed, first + k, rounds, who, law, a, b, order, spread,
               worst, k)  # fmt: skip


cuda: Any = None
SLOTS = ROWS = SIZE = 0
play: Any = None
copy: Any = None


def _thread(  # type: ignore[no-untyped-def]
    s0, M0, seed, first, rounds, who, law, a, b, order, spread, worst,
):  # fmt: skip
    """Template: one thread's trial."""
    k = cuda.grid(1)
    s = cuda.local.array(SLOTS, np.float64)
    M = cuda.local.array((ROWS, SIZE), np.float64)
    arms = cuda.local.array((10, SIZE), np.float64)
    theta = cuda.local.array(SIZE, np.float64)
    x = cuda.local.array(SIZE, np.float64)
    if k < worst.shape[0]:
        copy(s0, M0, s, M)
        play(s, M, arms, theta, x, seed, first + k, rounds, who, law, a, b, order, spread, worst, k)


_KERNELS: dict[tuple[int, ...], Any] = {}


def _gpu_kernel(slots: int, rows: int, size: int) -> Any:
    if (slots, rows, size) not in _KERNELS:
        import types

        gpu = engine._numba_cuda()
        known: dict[int, Any] = {}
        known.update(substitutes(gpu, lambda kernel: engine._device(kernel, known)))
        trial = engine._rebind(attack, "attack", {}, known)
        constants = {
            "cuda": gpu,
            "SLOTS": slots,
            "ROWS": rows,
            "SIZE": size,
            "play": gpu.jit(device=True)(trial),
            "copy": engine._device(copy_state, known),
        }
        made = types.FunctionType(_thread.__code__, {**_thread.__globals__, **constants}, "_thread")
        _KERNELS[slots, rows, size] = gpu.jit(made)
    return _KERNELS[slots, rows, size]


def worst_distances(
    state: tuple[FloatArray, FloatArray], numbers: tuple[Any, ...], seed: int, trials: int,
    rounds: int, on_gpu: bool,
) -> FloatArray:  # fmt: skip
    """The largest distance of each trial; ``numbers`` are who, law, a, b, order and spread."""
    s, M = state
    worst = np.empty(trials)
    if not on_gpu:
        size = M.shape[1]
        run = around(_range, attack=around(attack))
        room = np.zeros_like(s), np.zeros_like(M), np.zeros((ARMS, size))
        run(s, M, *room, np.zeros(size), np.zeros(size), seed, 0, rounds, *numbers, worst)
        return worst
    kernel, gpu = _gpu_kernel(len(s), *M.shape), engine._numba_cuda()
    out = gpu.device_array(trials)
    blocks = (trials + engine.THREADS - 1) // engine.THREADS
    kernel[blocks, engine.THREADS](
        gpu.to_device(s), gpu.to_device(M), seed, 0, rounds, *numbers, out
    )
    out.copy_to_host(worst)
    return worst
