"""Promises of a world to policies, one function per promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heavytail.checks.battery import require
from heavytail.environments import BLOCK, Block, Environment

__all__ = ["ENVIRONMENT_CHECKS"]


def _deal(environment: Environment, entropy: int, rounds: int) -> list[Any]:
    return list(environment.blocks(np.random.SeedSequence(entropy), rounds))


def _draws(block: Block) -> list[Any]:
    """The random parts of a block: noise, and events where there are any."""
    return [block.noise] if block.events is None else [block.noise, block.events]


def _same(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def deals_what_was_asked(environment: Environment) -> None:
    """Blocks add up to the rounds asked for, and their arrays fit each other."""
    for rounds in (1, 10, BLOCK, BLOCK + 1):
        blocks = _deal(environment, 0, rounds)
        require(sum(b.length for b in blocks) == rounds, f"deals not {rounds} rounds when asked to")
        arms, means = blocks[0].round(0)
        require(arms.ndim == 2 and arms.shape[1] == environment.dim, f"deals arms {arms.shape}")
        require(means.shape == (arms.shape[0],), "deals means that do not fit its arms")
        require(bool(np.isfinite(arms).all() and np.isfinite(means).all()), "deals non-finite arms")
        for drawn in _draws(blocks[0]):
            require(bool(np.isfinite(drawn).all()), "deals noise that is not finite")
        if blocks[0].factor is not None:
            require(bool((blocks[0].factor > 0).all()), "deals factors that are not positive")
        if blocks[0].shapes is not None:
            _fits(blocks[0])
        require(not blocks[0].counts or blocks[0].shapes is not None, "deals counts without shapes")


def _fits(block: Any) -> None:
    require(block.shapes.shape == (*block.means.shape, 4), f"deals shapes {block.shapes.shape}")
    require(block.events is not None, "deals shapes without events")
    require(block.events.shape == (block.length, 2), f"deals events {block.events.shape}")
    chance = block.shapes[..., 2]
    require(bool(((chance >= 0.0) & (chance <= 1.0)).all()), "deals chances outside [0, 1]")
    amount = block.shapes[..., 3]
    require(not block.counts or bool((amount >= 0.0).all()), "deals counts of a negative mean")


def deals_the_same_twice(environment: Environment) -> None:
    """The same seed deals the same rounds; another seed others."""
    first, second, other = (_deal(environment, seed, 50)[0] for seed in (1, 1, 2))
    require(_same(_draws(first), _draws(second)), "deals other noise for the same seed")
    require(np.array_equal(first.arms, second.arms), "deals other arms for the same seed")
    require(np.array_equal(first.means, second.means), "deals other means for the same seed")
    require(np.array_equal(first.shapes, second.shapes), "deals other shapes for the same seed")
    require(not _same(_draws(first), _draws(other)), "deals the same noise for another seed")


def begins_alike_at_any_length(environment: Environment) -> None:
    """A longer run begins as a shorter one."""
    short = _deal(environment, 3, 20)[0]
    long = _deal(environment, 3, BLOCK + 20)[0]
    longer = [drawn[:20] for drawn in _draws(long)]
    require(_same(_draws(short), longer), "deals other noise in a longer run")
    for t in range(20):
        same = all(map(np.array_equal, short.round(t), long.round(t)))
        require(same, "deals other arms in a longer run")


def keeps_its_bounds(environment: Environment) -> None:
    """Arms are no longer than ``arm_bound``, where the environment states one."""
    bound = getattr(environment, "arm_bound", None)
    if bound is None:
        return
    block = _deal(environment, 4, 200)[0]
    longest = np.linalg.norm(block.arms, axis=-1).max()
    require(longest <= bound * (1 + 1e-9), f"deals an arm of length {longest}, bound {bound}")


def hides_nothing_in_its_order(environment: Environment) -> None:
    """The best arm is not always at the same place: a policy cannot win by position."""
    if _deal(environment, 0, 1)[0].round(0)[0].shape[0] == 1:
        return
    places = {int(np.argmax(_deal(environment, seed, 1)[0].round(0)[1])) for seed in range(30)}
    require(len(places) > 1, f"has its best arm always at {places}")


ENVIRONMENT_CHECKS: dict[str, Callable[[Environment], None]] = {
    check.__name__: check
    for check in (
        deals_what_was_asked,
        deals_the_same_twice,
        begins_alike_at_any_length,
        keeps_its_bounds,
        hides_nothing_in_its_order,
    )
}
