"""Running controllers in the loop with a system: many trials, whole stretches in one compiled call.

Regret is counted against the optimal controller on the very same noise. Counted against t J*
instead, it would be swamped: the sum of the costs itself has a heavy tail, that of the noise
squared.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray, Matrices, Matrix, Vector
from heavytail._validate import check_count
from heavytail.control.controllers import Controller
from heavytail.control.riccati import Q, R, weigh
from heavytail.control.steering import DUE, act, learn
from heavytail.control.systems import LQSystem
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import OK, OVERFLOW
from heavytail.simulation.parallel import play_trials
from heavytail.simulation.results import checkpoints
from heavytail.simulation.trials import trial_seed

__all__ = ["ControlResults", "ControlRun", "simulate_control"]

LARGEST_STATE = 1e100  # past this the loop has lost the system: its square still is a number


@dataclass(frozen=True)
class ControlRun:
    """One controller's trials. Arrays (trials, checkpoints) or (trials,).

    ``cost`` is cumulative, ``regret`` the cost less the optimal controller's on the same noise,
    ``error`` the Frobenius distance of the estimate from [A B], ``fallbacks`` how often a diverging
    state was caught, ``fallback_steps`` and ``refusals`` as the controller counts them.
    """

    cost: FloatArray
    regret: FloatArray
    error: FloatArray
    fallbacks: IntArray
    fallback_steps: IntArray
    refusals: IntArray
    seconds: FloatArray


@dataclass(frozen=True)
class ControlResults(Mapping[str, ControlRun]):
    """Runs by name, the steps they were recorded at, and what was run."""

    runs: dict[str, ControlRun]
    steps: IntArray
    settings: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> ControlRun:
        if name not in self.runs:
            raise KeyError(f"no controller {name!r} here; there are {', '.join(self.runs)}.")
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def table(self) -> str:
        """Medians over trials at the last step: error, regret with quartiles, divergences."""
        width = max(len(name) for name in self.runs)
        lines = [
            f"{'controller':<{width}}  {'error':>8}  {'regret':>10}  {'quartiles':>23}  "
            f"{'caught':>6}  {'us/step':>8}"
        ]
        for name, run in self.runs.items():
            low, middle, high = np.quantile(run.regret[:, -1], [0.25, 0.5, 0.75])
            micro = 1e6 * run.seconds.mean() / int(self.steps[-1])
            lines.append(
                f"{name:<{width}}  {np.median(run.error[:, -1]):>8.4f}  {middle:>10.4g}  "
                f"{low:>11.4g} {high:>11.4g}  {int(run.fallbacks.sum()):>6}  {micro:>8.2f}"
            )
        return "\n".join(lines)


def simulate_control(
    controllers: Mapping[str, Controller],
    system: LQSystem,
    *,
    steps: int,
    trials: int,
    seed: int,
    record: ArrayLike1D | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
) -> ControlResults:
    """Run every controller in the loop with ``system`` through the same ``trials`` noises.

    The state starts at 0. A controller's numbers depend on its own arguments, the system and the
    seed alone. The controllers given are not changed; each trial starts from a copy.

    Args:
        controllers: by the names to show them under.
        system: what is steered; its A and B are the controllers' to learn.
        steps: T.
        trials: how many noises.
        seed: fixes everything.
        record: the steps, counted from 1, at which to record; 20 evenly spaced unless given.
        jobs: how many trials at once; all cores unless given.
        progress: show a bar with the time left; on a terminal unless given.
    """
    steps = check_count("simulate_control: steps", steps)
    trials = check_count("simulate_control: trials", trials)
    seed = check_count("simulate_control: seed", seed, least=0)
    kept = _checkpoints(steps, record)
    for name, controller in controllers.items():
        shape = controller.identifier.n, controller.identifier.d
        if shape != (system.n, system.d):
            raise ValueError(
                f"simulate_control: controller {name!r} is for n, d = {shape}; "
                f"{system!r} has {(system.n, system.d)}."
            )
    play = functools.partial(_trial, system=system, seed=seed, kept=kept)
    outcomes = play_trials(controllers, play, trials, threads=True, jobs=jobs, progress=progress)
    runs = {
        name: ControlRun(*(np.array(column) for column in zip(*rows, strict=True)))
        for name, rows in outcomes.items()
    }
    settings = {"system": repr(system), "steps": steps, "trials": trials, "seed": seed}
    return ControlResults(runs=runs, steps=kept, settings=settings)


def _trial(
    controller: Controller, trial: int, system: LQSystem, seed: int, kept: IntArray
) -> tuple[Any, ...]:
    """One trial of a copy of ``controller``."""
    return run_trial(controller.clone(), system, seed, trial, kept)


def run_trial(
    controller: Controller, system: LQSystem, seed: int, trial: int, kept: IntArray
) -> tuple[Any, ...]:
    """One controller on one noise: the fields of a :class:`ControlRun`, for one trial."""
    root = trial_seed(seed, trial)
    rng = np.random.default_rng(root)
    controller.reseed(int(root.generate_state(1, np.uint32)[0] >> 1))
    x, best = np.zeros(system.n), np.zeros(system.n)
    u, y = np.zeros(system.d), np.zeros(system.n)
    cost, optimum = np.zeros(len(kept)), np.zeros(len(kept))
    error = np.zeros(len(kept))
    noise = system.sample(rng, int(kept[-1]))
    controller.identifier.reserve(int(kept[-1]))
    total = ideal = seconds = 0.0
    start = 0
    for k, stop in enumerate(kept):
        block = noise[start:stop]
        began = time.perf_counter()
        total += _stretch(controller, system, x, u, y, block)
        seconds += time.perf_counter() - began
        ideal += _steer(system.A, system.B, system.Q, system.R, system.K, best, u, y, block)
        cost[k], optimum[k] = total, ideal
        error[k] = controller.identifier.error(system.theta)
        start = int(stop)
    counts = controller.fallbacks, controller.fallback_steps, controller.refusals
    return (cost, cost - optimum, error, *counts, seconds)


def _stretch(
    controller: Controller,
    system: LQSystem,
    x: FloatArray,
    u: FloatArray,
    y: FloatArray,
    noise: FloatArray,
) -> float:
    """Run on from state x through ``noise``; the cost."""
    total, done = 0.0, 0
    while done < len(noise):
        done, cost, code = _play(*controller.packed, system.A, system.B, x, u, y, noise, done)
        total += cost
        if code == DUE:
            controller.renew()
        elif code == OVERFLOW:
            raise OverflowError(
                f"{controller.name} lost {system!r} after {controller.steps} steps: the state left "
                "the floating-point range. The fallback gain does not stabilise this system."
            )
    return total


ArrayLike1D = IntArray | list[int] | tuple[int, ...]


def _checkpoints(steps: int, record: ArrayLike1D | None) -> IntArray:
    if record is None:
        return checkpoints(steps, 20)
    kept = np.unique(np.asarray(record, dtype=np.int64))
    if kept.size == 0 or kept[0] < 1 or kept[-1] != steps:
        raise ValueError(
            f"simulate_control: record must be steps from 1 on and end at steps={steps}; "
            f"got {list(map(int, kept))}."
        )
    return kept


@jit
def advance(A: Matrix, B: Matrix, x: Vector, u: Vector, noise: Matrix, t: int, y: Vector) -> bool:
    """y = A x + B u + noise[t]; False where it has left the range."""
    for i in range(x.shape[0]):
        total = noise[t, i]
        for j in range(x.shape[0]):
            total += A[i, j] * x[j]
        for j in range(u.shape[0]):
            total += B[i, j] * u[j]
        if not (abs(total) <= LARGEST_STATE):
            return False
        y[i] = total
    return True


@jit
def _play(
    c: Vector,
    W: Matrices,
    s: Vector,
    M: Matrix,
    H: Matrix,
    A: Matrix,
    B: Matrix,
    x: Vector,
    u: Vector,
    y: Vector,
    noise: Matrix,
    start: int,
) -> tuple[int, float, int]:
    """The loop from state x on, until the noise ends or a new gain is due: the step reached, the
    cost, and OK, DUE or OVERFLOW.
    """
    cost = 0.0
    for t in range(start, noise.shape[0]):
        act(c, W, s, x, u)
        cost += weigh(W, Q, x) + weigh(W, R, u)
        if not advance(A, B, x, u, noise, t, y):
            return t, cost, OVERFLOW
        code = learn(c, s, M, H, x, u, y)
        if code < 0:
            return t, cost, OVERFLOW
        for i in range(x.shape[0]):
            x[i] = y[i]
        if code == DUE:
            return t + 1, cost, DUE
    return noise.shape[0], cost, OK


@jit
def _steer(
    A: Matrix,
    B: Matrix,
    Q: Matrix,
    R: Matrix,
    K: Matrix,
    x: Vector,
    u: Vector,
    y: Vector,
    noise: Matrix,
) -> float:
    """The cost of u = K x over a stretch of the same noise; x goes on to the stretch's end."""
    cost = 0.0
    for t in range(noise.shape[0]):
        for i in range(u.shape[0]):
            u[i] = 0.0
            for j in range(x.shape[0]):
                u[i] += K[i, j] * x[j]
        for i in range(x.shape[0]):
            for j in range(x.shape[0]):
                cost += x[i] * Q[i, j] * x[j]
        for i in range(u.shape[0]):
            for j in range(u.shape[0]):
                cost += u[i] * R[i, j] * u[j]
        advance(A, B, x, u, noise, t, y)
        for i in range(x.shape[0]):
            x[i] = y[i]
    return cost
