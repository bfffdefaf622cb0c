r"""Many settings at once: interquartile mean, performance profile, probability of improvement.

These statistics and their stratified bootstrap are those of Agarwal, Schwarzer, Castro, Courville
and Bellemare (NeurIPS 2021), derived again for regret, where less is better. Scores of a policy
are (settings, trials). A resample draws the trials of each setting anew, with replacement, and
every interval holds the middle 95 % of what the resamples give.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.experiments import plots
from heavytail.experiments.experiment import Section, Table
from heavytail.experiments.stats import DRAWS, LEVEL, Interval
from heavytail.experiments.unit import Key, Trials

__all__ = ["improvement", "interquartile_mean", "profile", "relative", "resamples", "section"]

POINTS = 80  # of a profile
_SEED = 11
SIDES = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]


@functools.lru_cache(maxsize=4)
def resamples(settings: int, trials: int, stream: int = 0) -> IntArray:
    """The number of times each trial is drawn in each resample, (draws, settings, trials)."""
    rng = np.random.default_rng([_SEED, stream])
    drawn = rng.integers(0, trials, (DRAWS * settings, trials))
    rows = trials * np.arange(DRAWS * settings)[:, None]
    counts = np.bincount((rows + drawn).ravel(), minlength=drawn.size)
    return counts.reshape(DRAWS, settings, trials).astype(np.int32)


def interquartile_mean(scores: FloatArray) -> Interval:
    r"""The mean of the middle half of all scores of all settings.

    Of N scores, the floor(N / 4) smallest and as many of the largest are left out.

    >>> f"{interquartile_mean(np.array([[1.0, 2.0, 3.0, 400.0]])).value:.1f}"
    '2.5'
    """
    order = np.argsort(scores, axis=None, kind="stable")
    values, count = scores.ravel()[order], scores.size
    cut = count // 4

    def of(drawn: IntArray) -> FloatArray:
        """Each score counts as often as it is drawn and not cut off."""
        upto = np.cumsum(drawn.reshape(len(drawn), -1)[:, order], axis=1, dtype=np.int32)
        kept = np.diff(np.clip(upto, cut, count - cut).astype(float), axis=1, prepend=cut)
        return np.asarray(kept @ values / (count - 2 * cut))

    return _interval(of, scores.shape)


def profile(scores: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The share of all trials with a score of at most each point, and its interval's ends."""
    met = (scores.reshape(-1, 1) <= points).astype(float)

    def of(drawn: IntArray) -> FloatArray:
        return np.asarray(drawn.reshape(len(drawn), -1) @ met / scores.size)

    low, high = np.quantile(of(resamples(*_shape(scores))), SIDES, axis=0)
    return of(np.ones((1, scores.size), np.int64))[0], low, high


def improvement(mine: FloatArray, other: FloatArray) -> Interval:
    r"""The probability that a trial of mine scores less than one of the other's, ties by half.

    Averaged over settings, whatever the sizes of the differences; in each it is the statistic of
    Mann and Whitney over the number of pairs. Both policies' trials are drawn apart.

    >>> f"{improvement(np.array([[1.0, 3.0]]), np.array([[2.0, 2.0]])).value}"
    '0.5'
    """
    wins = [_wins(a, b) for a, b in zip(mine, other, strict=True)]

    def of(left: IntArray, right: IntArray) -> FloatArray:
        terms = [
            np.einsum("di,di->d", left[:, s] @ won, right[:, s]) / won.size
            for s, won in enumerate(wins)
        ]
        return np.asarray(np.mean(terms, axis=0))

    drawn = of(resamples(*_shape(mine), 0).astype(float), resamples(*_shape(other), 1))
    whole = np.ones((1, *mine.shape)), np.ones((1, *other.shape), np.int64)
    return Interval(float(of(*whole)[0]), *map(float, np.quantile(drawn, SIDES)))


def _wins(mine: FloatArray, other: FloatArray) -> FloatArray:
    """1 for each pair in which mine is less, 1/2 where both are equal."""
    less = mine[:, None] < other[None, :]
    return np.asarray(less + 0.5 * (mine[:, None] == other[None, :]))


def _shape(scores: FloatArray) -> tuple[int, int]:
    settings, trials = scores.shape
    return settings, trials


def _interval(of: Callable[[IntArray], FloatArray], shape: tuple[int, ...]) -> Interval:
    settings, trials = shape
    low, high = np.quantile(of(resamples(settings, trials)), SIDES)
    return Interval(float(of(np.ones((1, *shape), np.int64))[0]), float(low), float(high))


def relative(
    found: Mapping[str, Mapping[Key, Trials]], keys: Sequence[Key]
) -> dict[Key, FloatArray]:
    """Final regret over the mean of all these policies' in a setting, (settings, trials) for each;
    of the trials that a policy has in every setting.
    """
    units = [np.mean([runs[key].final.mean() for key in keys]) for runs in found.values()]
    scores = {}
    for key in keys:
        trials = min(len(runs[key].final) for runs in found.values())
        pairs = zip(found.values(), units, strict=True)
        scores[key] = np.array([runs[key].final[:trials] / unit for runs, unit in pairs])
    return scores


def section(
    found: Mapping[str, Mapping[Key, Trials]], shown: Mapping[str, Sequence[Key]]
) -> Section | None:
    """Statistics over all settings of the policies shown in all; None of one, or of nothing."""
    lists = [list(shown[name]) for name in found]
    keys = [key for key in (lists[0] if lists else []) if all(key in keys for keys in lists)]
    if len(found) < 2 or len(keys) < 2:
        return None
    scores = relative(found, keys)
    means = {key: interquartile_mean(values) for key, values in scores.items()}
    best = min(keys, key=lambda key: means[key].value)
    rows = [
        (
            plots.label(key),
            f"{scores[key].shape[1]}",
            f"{means[key]:.2f}",
            "-" if key == best else f"{improvement(scores[key], scores[best]):.2f}",
        )
        for key in keys
    ]
    chance = f"probability of less regret than {plots.label(best)}"
    table = Table(
        "Relative regret",
        ("policy", "trials per setting", "interquartile mean", chance),
        rows,
        "Intervals of 95 % over trials, drawn anew within each setting.",
    )
    result = Section("across", "All settings together", tables=[table])
    result.text.append(
        f"{len(found)} settings: {', '.join(found)}. Relative regret is a trial's regret at the "
        "end over the mean of these policies' in its setting. The interquartile mean leaves out "
        "the best and the worst quarter of all trials. The probability of less regret compares "
        "every trial of one policy with every trial of the other in the same setting; 0.5 is none "
        "better. The profile shows the share of trials whose relative regret is at most the value "
        "below: higher is better."
    )
    result.figures["across"] = plots.profile_figure(_profiles(scores))
    result.captions["across"] = (
        "Performance profiles over all settings, with bands of 95 % at each point."
    )
    return result


def _profiles(scores: Mapping[Key, FloatArray]) -> dict[Key, tuple[FloatArray, ...]]:
    """By policy: the points, the share, and the ends of its band."""
    everything = np.concatenate([values.ravel() for values in scores.values()])
    least, most = np.quantile(everything[everything > 0.0], [0.005, 0.995])
    points = np.geomspace(least, most, POINTS)
    return {key: (points, *profile(values, points)) for key, values in scores.items()}
