"""A test of whether straight lines are enough: do curves explain what they leave?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, as_rows, check_number, shown
from heavytail.encoding.curves import centre_and_scale, knots_of

__all__ = ["Misfit", "fewest_rows", "hats", "lack_of_fit", "score_test"]

KNOTS: Final = 5
LEVEL: Final = 0.01
CLIP: Final = 3.0
STEPS: Final = 50  # of the robust fit
SETTLED: Final = 1e-9
PER_FEATURE: Final = 5  # rows
NEGLIGIBLE: Final = 1e-6  # share of the hats' squares that the features do not explain already
FEWEST_CLIPPED: Final = 5
LEAST_SPREAD: Final = 1e-3  # of a direction in the variance of a score, beside the largest


@dataclass(frozen=True)
class Misfit:
    """A column in which straight lines leave a pattern.

    Attributes:
        column: its name.
        p: of such a pattern or a larger one by chance, in any of the columns tested (Holm).
    """

    column: str
    p: float

    @property
    def chance(self) -> str:
        """The p-value in words."""
        return "p < 0.001" if self.p < 0.001 else f"p = {self.p:.3f}"

    @property
    def sentence(self) -> str:
        """The finding in words, and what to try."""
        return (
            f"Straight lines in {self.column!r} leave a pattern ({self.chance}): try "
            f"numbers={{{self.column!r}: ht.Spline({KNOTS})}}."
        )

    def __str__(self) -> str:
        return self.sentence


def lack_of_fit(
    X: ArrayLike,
    rewards: ArrayLike,
    columns: Mapping[str, ArrayLike],
    *,
    level: float = LEVEL,
) -> list[Misfit]:
    """The columns in which a curve explains rewards beyond the features, the clearest first.

    A robust linear fit of the rewards on a constant, the features and a straight line in each
    column leaves residuals r. Huber's score psi(r) = min(max(r, -tau), tau) has tau at the
    ceil(sqrt(n) / 2)-th largest residual, so that no reward has much weight, however heavy the
    tails. H are hats on 5 knots in a column, and H~ what the features leave of them, each row
    weighted by psi'(r). The score S = sum H~_i psi(r_i) has variance V = sum H~_i H~_i' psi(r_i)²
    whatever the noise's size depends on (the sandwich), and S'V^-1 S is chi-squared where straight
    lines are right. The same is asked with the V of noise of one size, and the smaller value
    counts: where few rewards differ from 0, the sandwich is small just where they are fewest by
    chance. Holm's correction makes ``level`` the probability of any false alarm.

    That is so where the noise has one shape in all rows, or is symmetric, whatever its size. Where
    skewed noise grows with a column, cutting the largest residuals bends the line, which many rows
    may show.

    Cost: O(n dim²).

    >>> rng = np.random.default_rng(0)
    >>> basket = rng.uniform(0.0, 100.0, 4000)
    >>> rewards = np.where(abs(basket - 50.0) < 15.0, 2.0, 0.0) + rng.standard_t(2.1, 4000)
    >>> for misfit in lack_of_fit((basket[:, None] - 50.0) / 50.0, rewards, {"basket": basket}):
    ...     print(misfit)
    Straight lines in 'basket' leave a pattern (p < 0.001): try numbers={'basket': ht.Spline(5)}.

    Args:
        X: features of the rows that were played, (n, dim), as ``Encoder.transform`` gives them.
        rewards: (n,).
        columns: the numbers before encoding, (n,) each, by name; NaN where one is missing.
        level: of any false alarm among the columns.
    """
    where = "lack_of_fit"
    level = check_number(f"{where}: level", level, above=0.0, below=1.0)
    features = as_rows(X, (None, None), f"{where}: X")
    n = len(features)
    y = as_rows(rewards, (n,), f"{where}: rewards")
    if not isinstance(columns, Mapping):
        raise TypeError(f"{where}: columns must be a dict of arrays by name; got {shown(columns)}.")
    values = {name: as_rows(given, (n,), f"{where}: {name!r}") for name, given in columns.items()}
    for name, array in {"X": features, "rewards": y}.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{where}: {name} must be finite; got NaN or an infinite number.")
    for name, array in values.items():
        if np.isinf(array).any() or np.isnan(array).all():
            raise ValueError(f"{where}: {name!r} must have numbers that are finite, or NaN.")
    if n < fewest_rows(features.shape[1], len(values)):
        raise ValueError(
            f"{where}: {n} rows are too few for {features.shape[1]} features and {len(values)} "
            f"columns. Pass at least {PER_FEATURE} for each feature and knot."
        )
    y = y / max(float(np.abs(y).max()), 1.0 / GREATEST)
    lines = [_line(array) for array in values.values()]
    design = _orthonormal(np.column_stack([np.ones(n), features, *lines]))
    residuals, tau = _robust(design, y)
    inside = np.abs(residuals) <= tau
    score = np.clip(residuals, -tau, tau)
    curves = [hats(array, KNOTS) for array in values.values()]
    rests = _beyond(design, inside, curves)
    chances = [_chance(score, curve, rest) for curve, rest in zip(curves, rests, strict=True)]
    return _holm([*zip(values, chances, strict=True)], level)


def fewest_rows(features: int, columns: int) -> int:
    """The number of rows that ``lack_of_fit`` needs for so many features and columns."""
    return PER_FEATURE * (features + KNOTS * max(columns, 1))


def hats(values: FloatArray, count: int) -> FloatArray:
    """Hat functions on knots at quantiles, (n, knots), 0 where a value is missing."""
    there = ~np.isnan(values)
    knots = np.array(knots_of(values[there], count))
    made = np.zeros((len(values), len(knots)))
    for k, row in enumerate(np.eye(len(knots))):
        made[there, k] = np.interp(values[there], knots, row)
    return made


def _line(values: FloatArray) -> FloatArray:
    there = ~np.isnan(values)
    centre, scale = centre_and_scale(values[there])
    z = np.zeros(len(values))
    z[there] = np.clip((values[there] - centre) / (CLIP * scale), -1.0, 1.0)
    return z


def _orthonormal(features: FloatArray) -> FloatArray:
    """An orthonormal basis of the columns' span; those that others explain add nothing."""
    sizes = np.linalg.norm(features, axis=0)
    scaled = features[:, sizes > 0.0] / sizes[sizes > 0.0]
    spread, vectors = np.linalg.eigh(scaled.T @ scaled)
    kept = spread > NEGLIGIBLE * spread[-1]
    return np.asarray(scaled @ (vectors[:, kept] / np.sqrt(spread[kept])))


def _robust(design: FloatArray, y: FloatArray) -> tuple[FloatArray, float]:
    """Residuals of Huber's fit, and the size at which its score cuts them."""
    clipped = max(FEWEST_CLIPPED, math.ceil(math.sqrt(len(y)) / 2.0))
    theta = design.T @ y
    tau = math.inf
    for step in range(STEPS):
        residuals = y - design @ theta
        if step < STEPS // 2:
            tau = float(np.partition(np.abs(residuals), -clipped)[-clipped])
        move = design.T @ np.clip(residuals, -tau, tau)
        theta = theta + move
        if np.linalg.norm(move) <= SETTLED * (np.linalg.norm(theta) + tau):
            break
    return y - design @ theta, tau


def _beyond(
    design: FloatArray, inside: NDArray[np.bool_], blocks: list[FloatArray]
) -> list[FloatArray]:
    """The part of each block that the design does not explain in the rows ``inside``."""
    if not blocks:
        return []
    rows, joint = design[inside], np.column_stack(blocks)
    explained = np.linalg.lstsq(rows.T @ rows, rows.T @ joint[inside], rcond=None)[0]
    ends = np.cumsum([block.shape[1] for block in blocks])[:-1]
    return np.split(joint - design @ explained, ends, axis=1)


def _chance(score: FloatArray, curve: FloatArray, rest: FloatArray) -> float:
    """The p-value of the rest of a curve; 1 where the features have its curve already."""
    spread, vectors = np.linalg.eigh(rest.T @ rest)
    kept = spread > NEGLIGIBLE * float((curve**2).sum())
    if not kept.any():
        return 1.0
    rest = rest @ vectors[:, kept] / np.sqrt(spread[kept])
    return math.exp(score_test(rest, score))


def score_test(rest: FloatArray, residuals: FloatArray, weights: FloatArray | None = None) -> float:
    """The logarithm of the p-value of Rao's test that features add nothing to a linear fit.

    The score g = B' (w r), of residuals r with weights w = 1 / v, has the variance B' diag(w) B
    where v are the variances, and B' diag(w² r²) B (the sandwich) whatever they are. g' C^-1 g is
    chi-squared with either; the larger p-value counts. O(n k²) for k features.

    Args:
        rest: B, (n, k), what the features are beyond those of the fit.
        residuals: of the fit, (n,); if all are 0, the p-value is 1.
        weights: (n,); None: the same for all, by the residuals' variance.
    """
    from scipy.stats import chi2

    if weights is None:
        variance = float(np.mean(residuals**2))
        if variance == 0.0:
            return 0.0
        weights = np.full(len(residuals), 1.0 / variance)
    weighted = rest * weights[:, None]
    score, heard = weighted.T @ residuals, weighted * residuals[:, None]
    larger = -math.inf
    for spread in (weighted.T @ rest, heard.T @ heard):
        values, vectors = np.linalg.eigh(spread)
        kept = values > LEAST_SPREAD * values[-1]
        turned = vectors[:, kept].T @ score
        statistic = float((np.square(turned) / values[kept]).sum())
        larger = max(larger, float(chi2.logsf(statistic, int(kept.sum()))))
    return larger


def _holm(chances: list[tuple[str, float]], level: float) -> list[Misfit]:
    """The columns that Holm's procedure rejects, with adjusted p-values."""
    made: list[Misfit] = []
    p = 0.0
    ordered: list[tuple[str, Any]] = sorted(chances, key=lambda pair: pair[1])
    for rank, (name, own) in enumerate(ordered):
        p = max(p, min(1.0, own * (len(chances) - rank)))
        if p > level:
            break
        made.append(Misfit(name, p))
    return made
