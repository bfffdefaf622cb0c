"""Promises of a controller to its users, one function per promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.checks.battery import refused, require, snapshot
from heavytail.checks.steps import (
    STEPS,
    easy_system,
    refuses_bad_steps,
    same_file,
)
from heavytail.control import Controller

__all__ = ["CONTROLLER_CHECKS"]


def _system(controller: Controller) -> tuple[FloatArray, FloatArray]:
    """A system that the controller's fallback, its gain while it is fresh, leaves stable."""
    fallback = float(np.linalg.norm(controller.gain))
    return easy_system(controller.identifier.n, controller.identifier.d, fallback)


def _steer(
    controller: Controller, system: tuple[FloatArray, FloatArray], count: int = STEPS, seed: int = 0
) -> FloatArray:
    """Some steps in the loop under heavy-tailed noise; the inputs."""
    rng = np.random.default_rng(seed)
    A, B = system
    x, inputs = np.zeros(len(A)), []
    for _ in range(count):
        u = controller.act(x)
        y = A @ x + B @ u + 0.1 * rng.standard_t(2.1, len(A))
        controller.update(x, u, y)
        inputs.append(u)
        x = y
    return np.array(inputs)


def declares_itself(controller: Controller) -> None:
    """It has a name, an identifier, names for its numbers, and knows nothing yet."""
    require(isinstance(controller.name, str) and controller.name != "", "has no name")
    require(type(controller).__name__ in repr(controller), "has a repr that hides its class")
    fresh = controller.steps == controller.identifier.steps == 0
    require(fresh, "has learned something already; pass a fresh one")
    arrays = controller.state_arrays()
    for key, names in controller.slot_names().items():
        require(len(set(names)) == len(names), f"has two slots of one name in {key!r}")
        require(key in arrays and arrays[key].shape == (len(names),), f"misnames {key!r}")


def acts_by_its_gain(controller: Controller) -> None:
    """``act`` gives a finite input, a copy, the same when asked twice; it learns nothing."""
    system = _system(controller)
    controller = controller.clone()
    n, d = controller.identifier.n, controller.identifier.d
    _steer(controller, system, 20)
    x = np.linspace(0.05, 0.1, n)
    first = controller.act(x)
    require(first.shape == (d,) and first.dtype == np.float64, f"answers {first!r}")
    require(bool(np.isfinite(first).all()), f"answers {first}")
    before = first.copy()
    controller.act(-x)
    require(np.array_equal(first, before), "hands out its own input, not a copy")
    require(np.array_equal(controller.act(x), before), "gives another input when asked twice")
    # The excitation of a step is the same at every x, so it falls out of a difference.
    change = controller.act(x) - controller.act(np.zeros(n))
    require(np.allclose(change, controller.gain @ x), "does not act by its gain")
    require(controller.steps == controller.identifier.steps == 20, "learns when it acts")


def counts_its_steps(controller: Controller) -> None:
    """``steps`` is the number of steps learned, its identifier's too."""
    system = _system(controller)
    controller = controller.clone()
    for t in range(5):
        counts = controller.steps, controller.identifier.steps
        require(counts == (t, t), f"says steps={counts} after {t}")
        _steer(controller, system, 1, seed=t)


def refuses_bad_states(controller: Controller) -> None:
    """``act`` refuses NaN, infinity, wrong shapes and text, and nothing changes."""
    system = _system(controller)
    controller = controller.clone()
    _steer(controller, system, 5)
    n = controller.identifier.n
    bad: dict[str, Any] = {
        "a state with a NaN": np.full(n, np.nan),
        "a state with an infinity": np.full(n, np.inf),
        "a state of the wrong length": np.zeros(n + 1),
        "a state of the wrong shape": np.zeros((1, n)),
        "a state of text": ["a"] * n,
    }
    for what, x in bad.items():
        refused(controller, lambda x=x: controller.act(x), what)  # type: ignore[misc]
    controller.act(np.zeros(n))


def refuses_bad_observations(controller: Controller) -> None:
    """``update`` refuses a bad step, nothing changes, and the next good one is learned."""
    system = _system(controller)
    controller = controller.clone()
    _steer(controller, system, 5)
    refuses_bad_steps(controller, controller.identifier.n, controller.identifier.d)


def survives_extremes(controller: Controller) -> None:
    """States of ±1e300 are learned, or refused untouched; gain and inputs stay finite."""
    controller = controller.clone()
    n, d = controller.identifier.n, controller.identifier.d
    zero, still, ones = np.zeros(n), np.zeros(d), np.ones(n)
    controller.update(zero, still, zero)
    for size in (1e300, -1e300, 1e-300, 1e100):
        for step in ((ones, still, size * ones), (size * ones, still, ones)):
            before = snapshot(controller)
            try:
                controller.update(*step)
            except ValueError:
                require(snapshot(controller) == before, f"refuses {size} but has changed")
            require(bool(np.isfinite(controller.gain).all()), f"has no finite gain after {size}")
            require(bool(np.isfinite(controller.act(ones)).all()), f"cannot act after {size}")
    controller.update(ones, still, ones)


def falls_back_when_the_state_diverges(controller: Controller) -> None:
    """Far out the fallback steers, and the catch is counted once; near 0 it lets go."""
    fallback, system = controller.gain, _system(controller)
    controller = controller.clone()
    _steer(controller, system, 200)
    n = controller.identifier.n
    caught = controller.fallbacks
    for _ in range(3):
        controller.act(np.full(n, 1e6))
    require(controller.fallbacks == caught + 1, "does not count a diverging state once")
    require(np.array_equal(controller.gain, fallback), "does not fall back on a diverging state")
    controller.act(np.zeros(n))
    controller.act(np.full(n, 1e6))
    require(controller.fallbacks == caught + 2, "does not let go of a state that is calm")


def clones_stand_apart(controller: Controller) -> None:
    """A clone has learned what its origin had and goes its own way."""
    system = _system(controller)
    controller = controller.clone()
    _steer(controller, system, 20)
    twin = controller.clone()
    require(snapshot(twin) == snapshot(controller), "has a clone that knows something else")
    before = snapshot(controller)
    inputs = _steer(twin, system, 50, seed=2)
    require(snapshot(controller) == before, "learns when its clone does")
    same = np.array_equal(_steer(controller, system, 50, seed=2), inputs)
    require(same, "and its clone part ways on the same noise")


def repeats_itself(controller: Controller) -> None:
    """The same seed and noise give the same inputs and state, to the bit; another seed others."""
    system = _system(controller)
    runs, states = [], []
    for seed in (5, 5, 6):
        twin = controller.clone()
        twin.reseed(seed)
        runs.append(_steer(twin, system))
        states.append(snapshot(twin))
    require(np.array_equal(runs[0], runs[1]), "acts otherwise on the same noise")
    require(states[0] == states[1], "ends in another state on the same noise")
    require(states[0] != states[2], "does not heed its seed")


def resumes_to_the_bit(controller: Controller) -> None:
    """Saved, loaded and continued equals never having stopped, at any step."""
    system = _system(controller)
    for stop in (0, 1, 57):
        straight = controller.clone()
        _steer(straight, system, stop)
        resumed = same_file(straight)
        require(snapshot(resumed) == snapshot(straight), f"is another after a save at step {stop}")
        inputs = _steer(straight, system, seed=3)
        same = np.array_equal(_steer(resumed, system, seed=3), inputs)
        require(same, f"goes on otherwise after step {stop}")
        require(snapshot(resumed) == snapshot(straight), f"drifts after a save at step {stop}")


def keeps_its_memory_bounded(controller: Controller) -> None:
    """Where its identifier is one-pass, the state is of one size for ever."""
    system = _system(controller)
    controller = controller.clone()
    _steer(controller, system, 10)
    small = sum(map(len, snapshot(controller).values()))
    _steer(controller, system, 200)
    large = sum(map(len, snapshot(controller).values()))
    if controller.identifier.one_pass:
        require(large == small, f"grows from {small} to {large} bytes")


def steers_an_easy_system(controller: Controller) -> None:
    """After a few hundred steps its gain is that of the estimate or close to it, and stabilises."""
    A, B = system = _system(controller)
    controller = controller.clone()
    _steer(controller, system, 400, seed=4)
    require(controller.refreshes >= 1, "never computes a gain in 400 steps")
    error = controller.identifier.error(np.hstack([A, B]).T) / np.sqrt(A.size + B.size)
    require(error < 0.2, f"has an estimate that is off by {error:.3f} per entry after 400 steps")
    radius = float(np.abs(np.linalg.eigvals(A + B @ controller.gain)).max())
    require(radius < 1.0, f"steers with a gain whose loop has the spectral radius {radius:.3f}")


CONTROLLER_CHECKS: dict[str, Callable[[Controller], None]] = {
    check.__name__: check
    for check in (
        declares_itself,
        acts_by_its_gain,
        counts_its_steps,
        refuses_bad_states,
        refuses_bad_observations,
        survives_extremes,
        falls_back_when_the_state_diverges,
        clones_stand_apart,
        repeats_itself,
        resumes_to_the_bit,
        keeps_its_memory_bounded,
        steers_an_easy_system,
    )
}
