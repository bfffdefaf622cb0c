"""Control: steps a second, identification against least squares, and a thousand runs without loss.

    python -m benchmarks.control [speed] [marks] [runs]

``speed``: 10^5 steps of each controller on the 3x3 Laplacian system, under a second each; judged by
the process's own time, so that a busy machine does not change the verdict. ``marks``: error of
[A B] at 10^4 steps, one-pass Huber over ridge, medians over 300 trials: at most 0.5 under t(1.5)
and t(2.1) noise and 1.1 under the normal. ``runs``: 1,000 runs of every kind of controller,
identifier, system and noise in turn; none may end in overflow or NaN. All three unless named.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import numpy as np

from heavytail import noise
from heavytail.control import simulate_control
from heavytail.control.systems import LQSystem
from heavytail.reproduction.control import MOST
from heavytail.reproduction.control_trials import (
    CONTROLLERS,
    IDENTIFIERS,
    SYSTEMS,
    fallback,
    make_system,
)

STEPS = 100_000
NOISES = (
    noise.StudentT(1.1),
    noise.StudentT(1.5),
    noise.StudentT(2.1),
    noise.Pareto(1.5),
    noise.Stable(1.3, 0.9),
    noise.LogNormal(2.0),
    noise.Gaussian(),
)


def build(system: LQSystem, controller: str, identifier: str, **options: float):
    return CONTROLLERS[controller](
        IDENTIFIERS[identifier](system.n, system.d),
        Q=system.Q,
        R=system.R,
        fallback=fallback(system),
        **options,
    )


def speed() -> bool:
    print(f"seconds for {STEPS:,} steps, Laplacian system (n = d = 3), t(2.1) noise, one core")
    system, slowest = make_system("laplacian", 2.1), 0.0
    for controller, identifier in itertools.product(CONTROLLERS, ("one-pass Huber", "ridge")):
        one = {"": build(system, controller, identifier)}
        simulate_control(one, system, steps=200, trials=1, seed=0, jobs=1)  # compiles
        best = wall = math.inf
        for _ in range(3):
            start, used = time.perf_counter(), time.process_time()
            simulate_control(one, system, steps=STEPS, trials=1, seed=0, record=[STEPS], jobs=1)
            best = min(best, time.process_time() - used)
            wall = min(wall, time.perf_counter() - start)
        slowest = max(slowest, best)
        print(f"  {controller:<22} {identifier:<15} {best:.3f} (by the clock {wall:.3f})")
    print(f"slowest {slowest:.3f} s, mark 1 s: {'met' if slowest < 1.0 else 'MISSED'}")
    return slowest < 1.0


def marks(trials: int = 300, steps: int = 10_000) -> bool:
    print(f"error of [A B] at {steps:,} steps, medians over {trials} trials")
    good = True
    for name, df in itertools.product(SYSTEMS, MOST):
        system = make_system(name, df)
        kinds = {
            i: build(system, "certainty equivalence", i, warmup=steps + 1)
            for i in ("ridge", "one-pass Huber")
        }
        found = simulate_control(kinds, system, steps=steps, trials=trials, seed=1, record=[steps])
        ridge, ours = (float(np.median(run.error[:, -1])) for run in found.values())
        met = ours <= MOST[df] * ridge
        good &= met
        print(
            f"  {name:<18} t({df:<3g}) ridge {ridge:.4f}  one-pass {ours:.4f}  "
            f"ratio {ours / ridge:.3f}, mark {MOST[df]:g}: {'met' if met else 'MISSED'}"
        )
    return good


def runs(trials: int = 1_000, steps: int = 1_000) -> bool:
    cases = list(itertools.product(SYSTEMS, NOISES, CONTROLLERS, IDENTIFIERS))
    bad = caught = refused = 0
    for trial in range(trials):
        name, law, controller, identifier = cases[trial * 37 % len(cases)]  # 37: prime to 189
        system = SYSTEMS[name](law)
        one = {"": build(system, controller, identifier)}
        run = simulate_control(one, system, steps=steps, trials=1, seed=trial, jobs=1)[""]
        bad += not all(np.isfinite(x).all() for x in (run.cost, run.regret, run.error))
        caught += int(run.fallbacks.sum())
        refused += int(run.refusals.sum())
    print(
        f"{trials:,} runs of {steps:,} steps over {len(cases)} combinations: {bad} ended in "
        f"overflow or NaN; {caught} divergences caught, {refused} gains refused"
    )
    return bad == 0


def main(*names: str) -> int:
    parts = {"speed": speed, "marks": marks, "runs": runs}
    return 0 if all([parts[name]() for name in names or parts]) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
