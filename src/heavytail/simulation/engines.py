"""One episode, two ways: the reference loop, and the same loop compiled around kernels.

Both walk the same blocks in the same order and call the same kernels, so they agree; a policy
without kernels runs in the compiled engine by the reference loop. Over a pool of arms the compiled
loop keeps the scores of a policy whose updates are of rank one (see
:mod:`heavytail.kernels.index`) instead of forming them anew: O(n d) per round, the same arm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from heavytail._typing import FloatArray, IntArray, State
from heavytail.environments import Block, Environment
from heavytail.environments.base import check_block, own_part
from heavytail.kernels.counts import paid
from heavytail.kernels.layout import OK
from heavytail.kernels.one_pass import admit
from heavytail.policies import PackedPolicy, Policy
from heavytail.policies.core.loops import around
from heavytail.policies.core.own import failure, is_own

__all__ = ["episode"]

_EMPTY = np.empty((0, 0), dtype=np.int64)
_ONES = np.empty(0)
_SHAPES = np.empty((0, 4))  # where arms differ in their means alone
_EVENTS = np.empty((0, 2))


def episode(
    policy: Policy, environment: Environment, seed: np.random.SeedSequence, rounds: int, engine: str
) -> tuple[FloatArray, float]:
    """Run ``policy`` (it learns) for ``rounds`` rounds; cumulative regret, and the processor
    seconds of the thread without the environment's and the compiler's.

    The policy's own randomness comes from the seed as well, the same for every policy of a trial.
    """
    policy.reseed(int(seed.generate_state(1, np.uint64)[0] >> np.uint64(11)))
    play = _compiled(policy, rounds) if engine == "compiled" else None
    regret = np.empty(rounds)
    done, seconds = 0, 0.0
    for block in _dealt(environment, seed, rounds):
        out = regret[done : done + block.length]
        if play is not None and done == 0:
            play(
                block.first(0), out[:0]
            )  # compile, or load from the cache, before the clock starts
        start = time.thread_time()
        if play is None:
            _reference(policy, block, out)
        else:
            play(block, out)
        seconds += time.thread_time() - start
        done += block.length
    return np.cumsum(regret), seconds


def _dealt(environment: Environment, seed: np.random.SeedSequence, rounds: int) -> Iterator[Block]:
    """The blocks of an environment; those of a user's class are checked, and an error in its code
    is said with its line.
    """
    own = own_part(environment)
    if own is None:
        yield from environment.blocks(seed, rounds)
        return
    name, dealt = type(own).__name__, 0
    blocks = environment.blocks(seed, rounds)
    while True:
        try:
            block = next(blocks, None)
        except (Exception, SystemExit) as error:
            raise failure(name, error) from error
        if block is None:
            break
        check_block(block, environment.dim, name)
        dealt += block.length
        yield block
    if dealt < rounds:
        raise ValueError(
            f"{name}.deal must yield blocks without end; it ended after {dealt:,} rounds."
        )


def _reference(policy: Policy, block: Block, regret: FloatArray) -> None:
    try:
        _play(policy, block, regret)
    except (Exception, SystemExit) as error:
        if is_own(type(policy)):
            raise failure(policy.name, error) from error
        raise


def _play(policy: Policy, block: Block, regret: FloatArray) -> None:
    nu = 1.0 if policy.tail is None else policy.tail.scale
    for t in range(block.length):
        arms, means = block.round(t)
        choice = _place(policy.select(arms), len(arms))
        regret[t] = means.max() - means[choice]
        scale = None if block.factor is None else float(block.factor[t] * nu)
        policy.update(arms[choice], _reward(block, t, choice), scale=scale)


def _place(choice: object, arms: int) -> int:
    """Return a policy's choice, or refuse one that is not the place of an arm."""
    if isinstance(choice, int | np.integer) and not isinstance(choice, bool):
        if 0 <= choice < arms:
            return int(choice)
    raise ValueError(f"select must return the place of an arm, 0 to {arms - 1}; got {choice!r}")


def _reward(block: Block, t: int, choice: int) -> float:
    """The reward of the arm at place ``choice`` of those shown in round ``t``."""
    if block.shapes is None or block.events is None:
        return float(block.round(t)[1][choice] + block.noise[t])
    shapes = block.shapes[t] if block.arms.ndim == 3 else block.shapes
    arm = choice if block.offered is None else block.offered[t, choice]
    return float(paid(block.counts, shapes[arm], block.noise[t], *block.events[t]))


def _compiled(policy: Policy, rounds: int) -> Callable[[Block, FloatArray], None] | None:
    """The policy's compiled block runner, or None where it has no kernels."""
    if not isinstance(policy, PackedPolicy) or not policy.plays_by_kernels:
        return None
    policy.reserve(rounds)

    def play(block: Block, regret: FloatArray) -> None:
        if block.arms.ndim == 2 and policy.algorithm.keeps_scores:
            bad = _play_pool(policy, block, regret)
        else:
            bad = _play_fresh(policy, block, regret)
        if bad >= 0:  # let the policy say what is wrong with this round
            shown, _ = block.round(bad)
            choice = policy.select(shown)
            policy.update(shown[choice], _reward(block, bad, choice))
            raise AssertionError("a kernel refused a round that the policy accepts")

    return play


def _play_pool(policy: PackedPolicy, block: Block, regret: FloatArray) -> int:
    """Scores are rated anew with every block, so rounding never gathers over more rounds."""
    kept = policy.algorithm.scoring
    runner = around(
        _run_pool,
        update=policy.algorithm.update,
        rate=kept.rate,
        follow=kept.follow,
        choose=kept.choose,
        choose_offered=kept.choose_offered,
    )
    return runner(
        policy.packed,
        policy._nu,
        np.ascontiguousarray(block.arms.T),
        np.empty((kept.rows, block.arms.shape[0])),
        np.empty(policy.dim),
        block.means,
        _EMPTY if block.offered is None else block.offered,
        block.noise,
        _ONES if block.factor is None else block.factor,
        _SHAPES if block.shapes is None else block.shapes,
        _EVENTS if block.events is None else block.events,
        block.counts,
        regret,
    )


def _play_fresh(policy: PackedPolicy, block: Block, regret: FloatArray) -> int:
    fresh = block.arms.ndim == 3
    offered = _EMPTY if block.offered is None else block.offered
    shapes = _SHAPES if block.shapes is None else block.shapes
    runner = around(_run_block, select=policy.algorithm.select, update=policy.algorithm.update)
    return runner(
        policy.packed,
        policy._nu,
        block.arms if fresh else block.arms[None],
        block.means if fresh else block.means[None],
        offered,
        np.empty((offered.shape[1], policy.dim)),
        block.noise,
        _ONES if block.factor is None else block.factor,
        shapes if shapes.ndim == 3 else shapes[None],
        _EVENTS if block.events is None else block.events,
        block.counts,
        regret,
    )


def select(*_: object) -> int:
    """Stands for a policy's selection kernel in the template below."""
    raise NotImplementedError


def update(*_: object) -> int:
    """Stands for a policy's learning kernel in the template below."""
    raise NotImplementedError


def rate(*_: object) -> int:
    """Stands for what scores a pool in the template below; the next three for what keeps it."""
    raise NotImplementedError


def follow(*_: object) -> None:
    raise NotImplementedError


def choose(*_: object) -> int:
    raise NotImplementedError


def choose_offered(*_: object) -> int:
    raise NotImplementedError


def _run_block(
    state: State,
    nu: float,
    arms: FloatArray,
    means: FloatArray,
    offered: IntArray,
    room: FloatArray,
    noise: FloatArray,
    factor: FloatArray,
    shapes: FloatArray,
    events: FloatArray,
    counts: bool,
    regret: FloatArray,
) -> int:
    """Template: a block of rounds. Returns -1, or the round that a kernel refused.

    ``arms`` is (1, n, d) for a pool and (rounds, n, d) for fresh arms; ``offered``, ``factor``,
    ``shapes`` and ``events`` are empty where they do not apply; ``room`` (k, d) takes the arms
    offered.
    """
    part = offered.shape[0] > 0
    for t in range(noise.shape[0]):
        at = t if arms.shape[0] > 1 else 0
        best = -np.inf
        if part:
            for i in range(offered.shape[1]):
                for j in range(room.shape[1]):
                    room[i, j] = arms[at, offered[t, i], j]
                best = max(best, means[at, offered[t, i]])
            choice = select(*state, room)
        else:
            for i in range(means.shape[1]):
                best = max(best, means[at, i])
            choice = select(*state, arms[at])
        if choice < 0:
            return t
        arm = offered[t, choice] if part else choice
        scale = nu * factor[t] if factor.shape[0] > 0 else nu
        reward = means[at, arm] + noise[t]
        if events.shape[0] > 0:
            reward = paid(counts, shapes[at, arm], noise[t], events[t, 0], events[t, 1])
        if admit(state[0], state[1], arms[at, arm], reward, scale) != OK:
            return t
        if update(*state, arms[at, arm], reward, scale) < 0:
            return t
        regret[t] = best - means[at, arm]
    return -1


def _run_pool(
    state: State,
    nu: float,
    pool: FloatArray,
    scores: FloatArray,
    x: FloatArray,
    means: FloatArray,
    offered: IntArray,
    noise: FloatArray,
    factor: FloatArray,
    shapes: FloatArray,
    events: FloatArray,
    counts: bool,
    regret: FloatArray,
) -> int:
    """Template: a block of rounds over the ``pool`` (d, n), or the part of it ``offered``.

    ``x`` (d) takes the arm played: a view into the pool would cost more than the copy. Returns -1,
    or the round that a kernel refused.
    """
    s = state[0]
    M = state[1]
    if rate(s, M, pool, scores) < 0:
        return 0
    part = offered.shape[0] > 0
    best = -np.inf
    for i in range(means.shape[0]):
        best = max(best, means[i])
    for t in range(noise.shape[0]):
        if part:
            arm = offered[t, choose_offered(s, scores, offered, t)]
            best = -np.inf
            for i in range(offered.shape[1]):
                best = max(best, means[offered[t, i]])
        else:
            arm = choose(s, scores)
        for j in range(x.shape[0]):
            x[j] = pool[j, arm]
        scale = nu * factor[t] if factor.shape[0] > 0 else nu
        reward = means[arm] + noise[t]
        if events.shape[0] > 0:
            reward = paid(counts, shapes[arm], noise[t], events[t, 0], events[t, 1])
        if admit(s, M, x, reward, scale) != OK or update(*state, x, reward, scale) < 0:
            return t
        follow(s, M, pool, scores)
        regret[t] = best - means[arm]
    return -1
