"""What a round costs: heavytail from Python and compiled, NumPy, and the fewest bytes it moves."""

from __future__ import annotations

import itertools
import math
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import heavytail as ht
from benchmarks.numpy_linucb import LinUCB
from heavytail.environments import Block
from heavytail.kernels.layout import PROJECTED
from heavytail.policies import PackedPolicy
from heavytail.simulation.engines import _play_pool

REPEATS = 9
BATCH = 200
SMALLEST_COPY = 16_384
OTHERS = 8  # sets of arms that "fresh arms" shows in turn
FIRES = 0.01  # share of rounds from which the projection counts as active
SMALLEST_BALL = 1e-3


def least(play: Callable[[], object], seconds: float = 0.02) -> float:
    """Microseconds of processor time of one call, the least of a few repeats."""
    play()
    start = time.process_time()
    play()
    once = max(time.process_time() - start, 1e-7)
    count = max(1, int(seconds / once))
    best = math.inf
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(count):
            play()
        best = min(best, (time.process_time() - start) / count)
    return 1e6 * best


def block_of(world: ht.LinearBandit, length: int, seed: int = 0) -> Block:
    return next(world.deal(np.random.SeedSequence(seed))).first(length)


def compiled(policy: ht.Policy, block: Block) -> float:
    """Microseconds a round inside one compiled call, from the policy's present state."""
    start = policy.clone()
    regret = np.empty(block.length)

    def play() -> None:
        twin.restore(arrays)
        _play_pool(twin, block, regret)

    twin = start.clone()
    arrays = {key: array.copy() for key, array in start.state_arrays().items()}
    return least(play) / block.length


def floor(dim: int, arms: int) -> float:
    """Microseconds that a round's fewest bytes take at the rate this machine copies as many.

    The pool is read once, the inverse read twice and written once. Small sizes take the rate of
    SMALLEST_COPY numbers, below which the call would be what is timed.
    """
    count = arms * dim + 3 * dim * dim
    copied = max(count, SMALLEST_COPY)
    source, target = np.ones(copied // 2), np.empty(copied // 2)
    call = least(lambda: np.copyto(target[:1], source[:1]))
    return max(least(lambda: np.copyto(target, source)) - call, 0.0) * count / copied


def projected_share(policy: PackedPolicy, block: Block) -> float:
    """The share of the block's rounds after which the estimate had to return to the ball."""
    twin, pool, count = policy.clone(), ht.Pool(block.arms), 0.0
    for eta in block.noise:
        arm = twin.select(pool)
        twin.update(pool[arm], float(block.means[arm] + eta))
        count += twin.packed[0][PROJECTED]
    return float(count / block.length)


def active(dim: int, tail: ht.MomentBound, block: Block) -> tuple[ht.HvtUCB, float, float]:
    """Hvt-UCB with S halved from ‖theta*‖ = 1 until the projection is active; S and its share."""
    bound = 1.0
    while True:
        policy = ht.HvtUCB(dim, tail=tail, theta_bound=bound)
        share = projected_share(policy, block)
        if share >= FIRES or bound < SMALLEST_BALL:
            return policy, bound, share
        bound /= 2.0


def measure(dim: int, arms: int) -> dict[str, float]:
    world = ht.LinearBandit(dim, arms=arms, noise=ht.noise.StudentT(2.1))
    tail = world.noise.tail(1.99)
    block = block_of(world, 4096 if dim < 256 else 1024)
    X, pool = block.arms, ht.Pool(block.arms)
    rng = np.random.default_rng(0)
    others = [np.ascontiguousarray(rng.permutation(X)) for _ in range(OTHERS)]
    hvt, free = ht.HvtUCB(dim, tail=tail), ht.HvtUCB(dim, tail=tail, theta_bound=math.inf)
    tight, bound, share = active(dim, tail, block)
    oful, plain = ht.OFUL(dim, tail=tail), LinUCB(dim)
    sets = np.stack([rng.permutation(X) for _ in range(BATCH if dim < 64 else 4)])
    rows = np.ascontiguousarray(X[np.arange(len(sets)) % arms])
    paid = np.zeros(len(sets))

    def python(policy: Any, shown: Sequence[Any]) -> Callable[[], None]:
        turn = itertools.cycle(shown)

        def play() -> None:
            offered = next(turn)
            arm = policy.select(offered)
            policy.update(offered[arm], 0.1)

        return play

    def batched() -> None:
        hvt.select_many(sets)
        hvt.update_many(rows, paid)

    return {
        "projected, S": bound,
        "projected, share": share,
        "Hvt-UCB compiled": compiled(hvt, block),
        "Hvt-UCB compiled, no ball": compiled(free, block),
        "Hvt-UCB compiled, projecting": compiled(tight, block),
        "OFUL compiled": compiled(oful, block),
        "Hvt-UCB from Python, a pool": least(python(hvt, [pool])),
        "Hvt-UCB from Python, same arms": least(python(hvt, [X])),
        "Hvt-UCB from Python, fresh arms": least(python(hvt, others)),
        "OFUL from Python, a pool": least(python(oful, [pool])),
        "Hvt-UCB in batches, fresh arms": least(batched) / len(sets),
        "NumPy": least(python(plain, [X])),
        "byte floor": floor(dim, arms),
    }


def times(found: dict[str, float]) -> dict[str, float]:
    """What of a measurement is microseconds a round."""
    return {name: value for name, value in found.items() if not name.startswith("projected")}


def table(dim: int, arms: int, ours: dict[str, float], theirs: dict[str, float | str]) -> str:
    base = ours["Hvt-UCB from Python, a pool"]
    lines = [f"\nd = {dim}, n = {arms}{'us a round':>35}{'/ Hvt-UCB from Python':>24}"]
    for name, value in {**times(ours), **theirs}.items():
        if isinstance(value, str):
            lines.append(f"  {name:<32} {value}")
        else:
            lines.append(f"  {name:<32}{value:>16.2f}{value / base:>24.2f}")
    hvt, free, oful = (
        ours[k] for k in ("Hvt-UCB compiled", "Hvt-UCB compiled, no ball", "OFUL compiled")
    )
    tight = ours["Hvt-UCB compiled, projecting"] / oful
    lines.append(
        f"  compiled Hvt-UCB / OFUL: {free / oful:.2f} without a ball, {hvt / oful:.2f} with it, "
        f"{tight:.2f} with the projection active\n"
        f"  (S = {ours['projected, S']:g} times the true length, projected in "
        f"{ours['projected, share']:.1%} of rounds); "
        f"over the byte floor: {hvt / max(ours['byte floor'], 1e-9):.2f}"
    )
    return "\n".join(lines)


def growth(longest: int) -> dict[str, float]:
    """A block of rounds from t = 10^3 and from t = ``longest``, by turns, and resident memory."""
    world = ht.LinearBandit(2, arms=50, noise=ht.noise.StudentT(2.1))
    young = ht.HvtUCB(2, tail=world.noise.tail(1.99))
    block = block_of(world, 4096)
    regret = np.empty(block.length)
    _play_pool(young, block.first(1000), regret[:1000])
    old = young.clone()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while old.rounds < longest:
        _play_pool(old, block, regret)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = {"young": math.inf, "old": math.inf}
    for _ in range(60):
        for name, policy in (("young", young), ("old", old)):
            twin = policy.clone()
            start = time.process_time()
            _play_pool(twin, block, regret)
            times[name] = min(times[name], (time.process_time() - start) / block.length)
    return {
        "rounds": float(old.rounds),
        "young": 1e6 * times["young"],
        "old": 1e6 * times["old"],
        "kilobytes": float(after - before),
    }


def growth_text(found: Any) -> str:
    return (
        f"\nA round at t = {found['rounds']:.0f}: {found['old']:.3f} us; at t = 1000: "
        f"{found['young']:.3f} us ({found['old'] / found['young']:.3f} times). "
        f"Resident memory grew by {found['kilobytes']:.0f} kB between them."
    )
