"""Promises of an identifier to its users, one function per promise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytail.checks.battery import require, snapshot
from heavytail.checks.steps import (
    STEPS,
    Step,
    easy_system,
    refuses_bad_steps,
    same_file,
)
from heavytail.control import Identifier

__all__ = ["IDENTIFIER_CHECKS"]


def _steps(identifier: Identifier, count: int, seed: int = 0, df: float = 2.1) -> list[Step]:
    """Steps of the easy system under inputs drawn at random and heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    A, B = easy_system(identifier.n, identifier.d)
    x, steps = np.zeros(identifier.n), []
    for _ in range(count):
        u = rng.standard_normal(identifier.d)
        y = A @ x + B @ u + 0.1 * rng.standard_t(df, identifier.n)
        steps.append((x, u, y))
        x = y
    return steps


def _learn(identifier: Identifier, count: int = STEPS, seed: int = 0) -> None:
    for step in _steps(identifier, count, seed):
        identifier.update(*step)


def declares_itself(identifier: Identifier) -> None:
    """It has a name, sizes, a word on its memory, names for its numbers, and knows nothing yet."""
    require(isinstance(identifier.name, str) and identifier.name != "", "has no name")
    require(identifier.n >= 1 and identifier.d >= 1, "has no n or d")
    require(isinstance(identifier.one_pass, bool), "does not say whether it is one-pass")
    require(type(identifier).__name__ in repr(identifier), "has a repr that hides its class")
    require(identifier.steps == 0, "has learned something already; pass a fresh one")
    arrays = identifier.state_arrays()
    for key, names in identifier.slot_names().items():
        require(len(set(names)) == len(names), f"has two slots of one name in {key!r}")
        require(key in arrays and arrays[key].shape == (len(names),), f"misnames {key!r}")


def counts_its_steps(identifier: Identifier) -> None:
    """``steps`` is the number of steps learned."""
    identifier = identifier.clone()
    for t, step in enumerate(_steps(identifier, 5)):
        require(identifier.steps == t, f"says steps={identifier.steps} after {t}")
        identifier.update(*step)


def reports_its_estimate(identifier: Identifier) -> None:
    """theta, A, B, V^-1 and radius fit each other, are finite, and are copies."""
    identifier = identifier.clone()
    _learn(identifier)
    n, d = identifier.n, identifier.d
    theta, inverse = identifier.theta, identifier.inverse_gram
    require(theta.shape == (n + d, n), f"has theta of shape {theta.shape}")
    require(bool(np.isfinite(theta).all()), f"has theta {theta}")
    require(np.array_equal(np.hstack([identifier.A, identifier.B]), theta.T), "misreads A and B")
    require(np.array_equal(inverse, inverse.T), "has an inverse Gram matrix that is not symmetric")
    require(bool((np.linalg.eigvalsh(inverse) > 0.0).all()), "has a V^-1 that is not positive")
    require(0.0 <= identifier.radius < np.inf, f"has radius {identifier.radius}")
    before = snapshot(identifier)
    theta[:], inverse[:] = 1e9, 1e9
    require(snapshot(identifier) == before, "hands out its own arrays, not copies")


def takes_what_numpy_takes(identifier: Identifier) -> None:
    """Lists, integers, float32, read-only and strided arrays work, and are never written to."""
    n, d = identifier.n, identifier.d
    x, u, y = np.full(n, 0.5), np.full(d, -0.25), np.full(n, 2.0)
    plain = identifier.clone()
    plain.update(x, u, y)
    wide = np.zeros(2 * n)
    wide[::2] = x
    frozen = y.copy()
    frozen.flags.writeable = False
    for form in (x.tolist(), wide[::2], x.astype(np.float32)):
        other = identifier.clone()
        other.update(form, u.tolist(), frozen)
        require(snapshot(other) == snapshot(plain), "learns otherwise from the same numbers")
    identifier.clone().update(np.ones(n, dtype=int), np.ones(d, dtype=int), np.ones(n, dtype=int))
    require(np.array_equal(frozen, y) and np.array_equal(wide[::2], x), "writes to its input")


def refuses_bad_observations(identifier: Identifier) -> None:
    """A bad step is refused, nothing changes, and the next good one is learned."""
    identifier = identifier.clone()
    _learn(identifier, 5)
    refuses_bad_steps(identifier, identifier.n, identifier.d)


def survives_extremes(identifier: Identifier) -> None:
    """Zeros and steps of ±1e300 are learned, or refused untouched; all stays finite."""
    identifier = identifier.clone()
    _learn(identifier, 10)
    zero, still, ones = np.zeros(identifier.n), np.zeros(identifier.d), np.ones(identifier.n)
    identifier.update(zero, still, zero)
    for size in (1e300, -1e300, 1e-300, 1e100):
        for step in ((ones, still, size * ones), (size * ones, still, ones)):
            before = snapshot(identifier)
            try:
                identifier.update(*step)
            except ValueError:
                require(snapshot(identifier) == before, f"refuses {size} but has changed")
            require(bool(np.isfinite(identifier.theta).all()), f"is not finite after {size}")
    identifier.update(ones, still, ones)


def clones_stand_apart(identifier: Identifier) -> None:
    """A clone has learned what its origin had and goes its own way."""
    identifier = identifier.clone()
    _learn(identifier, 20)
    twin = identifier.clone()
    require(snapshot(twin) == snapshot(identifier), "has a clone that knows something else")
    before = snapshot(identifier)
    _learn(twin, 20, seed=2)
    require(snapshot(identifier) == before, "learns when its clone does")
    _learn(identifier, 20, seed=2)
    require(snapshot(twin) == snapshot(identifier), "and its clone part ways on the same steps")


def repeats_itself(identifier: Identifier) -> None:
    """The same steps give the same state, to the bit."""
    first, second = identifier.clone(), identifier.clone()
    _learn(first)
    _learn(second)
    require(snapshot(first) == snapshot(second), "ends in another state on the same steps")


def resumes_to_the_bit(identifier: Identifier) -> None:
    """Saved, loaded and continued equals never having stopped, at any step."""
    for stop in (0, 1, 17):
        straight = identifier.clone()
        _learn(straight, stop)
        resumed = same_file(straight)
        require(snapshot(resumed) == snapshot(straight), f"is another after a save at step {stop}")
        _learn(straight, seed=3)
        _learn(resumed, seed=3)
        require(snapshot(resumed) == snapshot(straight), f"drifts after a save at step {stop}")


def keeps_its_memory_bounded(identifier: Identifier) -> None:
    """Where it says ``one_pass``, the state is of one size for ever; else it may grow."""
    identifier = identifier.clone()
    _learn(identifier, 10)
    small = sum(map(len, snapshot(identifier).values()))
    _learn(identifier, 300)
    large = sum(map(len, snapshot(identifier).values()))
    if identifier.one_pass:
        require(large == small, f"grows from {small} to {large} bytes")
    require(identifier.state_bytes >= large > 0, "remembers more than it says")


def identifies_an_easy_system(identifier: Identifier) -> None:
    """With light noise the estimate comes near to the truth, and the confidence set holds it."""
    identifier = identifier.clone()
    for step in _steps(identifier, 400, seed=4, df=30.0):
        identifier.update(*step)
    truth = np.hstack(easy_system(identifier.n, identifier.d)).T
    # 400 steps of noise 0.1 leave an error of 0.005 to 0.01 per entry of B; A is seen less well,
    # because the state is small.
    error = identifier.error(truth) / np.sqrt(truth.size)
    require(error < 0.1, f"is off by {error:.3f} per entry after 400 steps")
    require(identifier.contains(truth), "has a confidence set without the truth")
    require(not identifier.contains(truth + 5.0), "has a confidence set that holds everything")


IDENTIFIER_CHECKS: dict[str, Callable[[Identifier], None]] = {
    check.__name__: check
    for check in (
        declares_itself,
        counts_its_steps,
        reports_its_estimate,
        takes_what_numpy_takes,
        refuses_bad_observations,
        survives_extremes,
        clones_stand_apart,
        repeats_itself,
        resumes_to_the_bit,
        keeps_its_memory_bounded,
        identifies_an_easy_system,
    )
}
