"""What several settings say together, from the definitions: loops over lists, nothing shared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Scores = Sequence[Sequence[float]]


def interquartile_mean(scores: Scores) -> float:
    every = sorted(score for row in scores for score in row)
    cut = math.floor(0.25 * len(every))
    middle = every[cut : len(every) - cut]
    return math.fsum(middle) / len(middle)


def profile(scores: Scores, point: float) -> float:
    shares = [sum(score <= point for score in row) / len(row) for row in scores]
    return math.fsum(shares) / len(shares)


def improvement(mine: Scores, other: Scores) -> float:
    shares = []
    for left, right in zip(mine, other, strict=True):
        wins = 0.0
        for a in left:
            for b in right:
                wins += 1.0 if a < b else 0.5 if a == b else 0.0
        shares.append(wins / (len(left) * len(right)))
    return math.fsum(shares) / len(shares)


def resampled(scores: Scores, counts: Sequence[Sequence[int]]) -> list[list[float]]:
    """Every trial of a setting as often as it was drawn."""
    return [
        [score for score, count in zip(row, times, strict=True) for _ in range(count)]
        for row, times in zip(scores, counts, strict=True)
    ]


def middle(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The ends of the middle part of some values, between neighbours by a straight line."""

    def at(share: float) -> float:
        ordered, place = sorted(values), share * (len(values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(values) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return at((1 - level) / 2), at((1 + level) / 2)


def bootstrap(
    statistic: Callable[..., float], *samples: tuple[Scores, Sequence[Sequence[Sequence[int]]]]
) -> tuple[float, float]:
    """The interval of a statistic of one or two policies, from how often each trial was drawn."""
    draws = len(samples[0][1])
    return middle(
        [
            statistic(*(resampled(scores, counts[k]) for scores, counts in samples))
            for k in range(draws)
        ]
    )
