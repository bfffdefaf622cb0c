"""Streams, directions, arms and offers: what worlds of one geometry share."""

from __future__ import annotations

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["draw_arms", "draw_direction", "draw_offers", "streams"]


def streams(seed: np.random.SeedSequence, count: int) -> list[np.random.Generator]:
    """One stream for each thing that is drawn; none moves another."""
    children = (
        np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in range(count)
    )
    return [np.random.default_rng(child) for child in children]


def draw_direction(rng: np.random.Generator, dim: int, length: float) -> FloatArray:
    """Coordinates U[-1, 1], then rescaled to ``length``."""
    theta = rng.uniform(-1.0, 1.0, dim)
    return np.asarray(theta * (length / np.linalg.norm(theta)))


def draw_arms(
    rng: np.random.Generator, shape: tuple[int, int, int], bound: float, *, together: bool
) -> FloatArray:
    """Arms (rounds, n, d): each rescaled to length ``bound``, or a round's all by the longest."""
    arms = rng.uniform(-1.0, 1.0, shape)
    lengths = np.linalg.norm(arms, axis=2, keepdims=True)
    if together:
        lengths = lengths.max(axis=1, keepdims=True)
    arms *= bound / lengths
    return np.asarray(arms)


def draw_offers(rng: np.random.Generator, rounds: int, arms: int, size: int) -> IntArray:
    """``rounds`` uniform subsets of ``size`` arms, each in increasing order."""
    ranks = rng.random((rounds, arms)).argpartition(size - 1, axis=1)[:, :size]
    return np.sort(ranks, axis=1).astype(np.int64)
