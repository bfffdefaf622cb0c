"""Bounds on the mean of a stream of values, valid at every time, from a sketch with epochs.

Within an epoch the bet lambda is constant, and it is read off the epochs before (it is
predictable), so that a product over rows is a product over epochs, and a sketch per epoch is all
that must be held. In cells, sums are bounded on the safe side: a bound from cells never claims more
than the values would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs.means import Estimate
from heavytail.logs.sketch import Cells, Sketch, cell_numbers, epoch_starts
from heavytail.tails import MomentBound, TailReport

__all__ = [
    "Sequence",
    "bernstein_lower",
    "betting_lower",
    "catoni",
    "huber_interval",
]

ROUGH = 8  # cells per octave of the past that bets are read off
STAKES = 2.0 ** np.arange(-22.0, 3.01, 0.25)  # bets tried, in units of 1 / mean of the past
HORIZONS: FloatArray = 4.0 ** np.arange(
    3.0, 16.0
)  # rows for which bets are best where their number is not known
ZEROS = 1.0  # rows of value 0 put before the past: without a loss seen a bet would be infinite
STEPS = 60  # of Newton's method
CLOSE = 1e-9
LEAST_INDEX = 1.1  # of a tail, whatever a log shows


class Sequence(NamedTuple):
    """A lower confidence sequence at the ends of epochs.

    Attributes:
        rows: rows seen by the end of each epoch.
        bets: lambda of each epoch.
        lower: the bound there; all of them hold at once.
    """

    rows: FloatArray
    bets: FloatArray
    lower: FloatArray

    @property
    def best(self) -> float:
        """The largest bound so far, which holds too; 0 before any row."""
        return float(np.max(self.lower, initial=0.0))


def betting_lower(sketch: Sketch, delta: float, horizon: float | None = None) -> Sequence:
    """Lower bounds of the mean of non-negative values with a finite mean; nothing else is assumed.

    At the true mean m, prod (1 + lambda_s X_s)/(1 + lambda_s m) is a non-negative martingale: the
    wealth of one who bets against it. By Ville's inequality all of

        L_t = inf{m >= 0 : sum log(1 + lambda_s X_s) - sum log(1 + lambda_s m) <= log(1/delta)}

    hold at once with probability 1 - delta, rows being independent or only E[X_s | past] = m.
    The bet of an epoch is the constant one that would give the largest bound at ``horizon`` rows,
    were they like the past. Without a horizon the wealth is spread over several, 4^3, 4^4, ...,
    with shares pi_j, and log sum_j pi_j prod takes the place of the sum. O(epochs² + cells) each.
    """
    cells = sketch.cells()
    last = int(np.max(cells.epoch, initial=-1)) + 1
    rows = _rows(cells, last)
    horizons = HORIZONS if horizon is None else np.array([float(max(horizon, 1))])
    shares = 1.0 / np.arange(1.0, len(horizons) + 1.0) ** 2
    shares /= shares.sum()
    bets = _bets(cells, last, math.log(1.0 / delta), horizons)
    gains = np.stack([_gains(cells, bet, last) for bet in bets])
    wealth = gains + np.log(shares)[:, None]
    return Sequence(np.cumsum(rows), bets, _solve(wealth, rows, bets, math.log(1.0 / delta)))


def _rows(cells: Cells, last: int) -> FloatArray:
    """Rows of each epoch."""
    return np.bincount(cells.epoch, cells.count, minlength=last).astype(np.float64)


def _gains(cells: Cells, bets: FloatArray, last: int) -> FloatArray:
    """sum log(1 + lambda X) by the end of each epoch, from below: log(1 + lambda x) is at least
    its tangent at a cell's mean less half its largest curvature there.
    """
    stake = bets[cells.epoch]
    bend = stake / (1.0 + stake * cells.low) * np.sqrt(cells.variance)
    gain = cells.count * (np.log1p(stake * cells.mean) - 0.5 * bend**2)
    return np.asarray(np.cumsum(np.bincount(cells.epoch, gain, minlength=last)))


def _solve(
    wealth: FloatArray, rows: FloatArray, bets: FloatArray, log_inverse: float
) -> FloatArray:
    """For each t, the m >= 0 at which

        log sum_j exp(wealth_j - sum_{e <= t} n_e log(1 + lambda_je m)) = log(1/delta).

    The function is convex and falls, so that Newton's steps come from below and stay there: a step
    too few errs on the safe side.
    """
    past = np.tri(len(rows)) * rows
    m = np.zeros(len(rows))
    for _ in range(STEPS):
        cost = np.stack([np.sum(past * np.log1p(b * m[:, None]), axis=1) for b in bets])
        slope = np.stack([np.sum(past * b / (1.0 + b * m[:, None]), axis=1) for b in bets])
        part = wealth - cost
        top = part.max(axis=0)
        each = np.exp(part - top)
        over = top + np.log(each.sum(axis=0)) - log_inverse
        fall = np.sum(each * slope, axis=0) / each.sum(axis=0)
        step = np.where((over > 0.0) & (fall > 0.0), over / np.where(fall > 0.0, fall, 1.0), 0.0)
        m += step
        if np.all(step <= 1e-12 * m):
            break
    return m


def _bets(cells: Cells, last: int, log_inverse: float, horizons: FloatArray) -> FloatArray:
    """lambda for each horizon h and epoch, from the values of the epochs before it; 0 until a
    positive one was seen.

    It maximises (exp(mean log(1 + lambda x) - log(1/delta)/h) - 1)/lambda over the past values x
    and one row of value 0.
    """
    rough = cell_numbers(cells.mean, ROUGH)
    found, place = np.unique(rough, return_inverse=True)
    at = cells.epoch * len(found) + place
    shape = (last, len(found))
    size = last * len(found)
    count = np.bincount(at, cells.count, minlength=size).reshape(shape).cumsum(axis=0)
    total = np.bincount(at, cells.count * cells.mean, minlength=size).reshape(shape).cumsum(axis=0)
    bets = np.zeros((len(horizons), last))
    for e in range(1, last):
        n, s = count[e - 1], total[e - 1]
        rows, seen = n.sum(), (s > 0.0)
        if not seen.any():
            continue
        n, x = n[seen], s[seen] / n[seen]
        tried = STAKES * (rows / float(s.sum()))
        growth = np.log1p(tried[:, None] * x) @ n / (rows + ZEROS)
        bound = np.expm1(growth - log_inverse / horizons[:, None]) / tried
        bets[:, e] = tried[np.argmax(bound, axis=1)]
    return bets


def catoni(
    sketch: Sketch, tail: MomentBound, alpha: float, horizon: int | None = None
) -> tuple[float, float]:
    """Both ends of Catoni's confidence sequence (Wang and Ramdas 2023), E|X - m|^p <= nu^p known.

    With phi(x) = sign(x) log(1 + |x| + |x|^p/p) and lambda_i = (2 p log(2/alpha)/i)^(1/p)/(2 nu),

        {m : |sum phi(lambda_i (X_i - m))| <= sum log(1 + (lambda_i nu)^p/p) + log(2/alpha)}

    holds the mean at every time with probability 1 - alpha, alpha/2 on each side. With a
    ``horizon`` of n rows lambda = (p log(2/alpha)/(2 (p - 1) n))^(1/p)/nu throughout, which is
    narrowest there. O(cells) per step of two bisections.

    Note:
        lambda is that of an epoch's first row throughout the epoch, and has no bound of 1: the
        inequality needs none, and with one the interval would depend on the unit of the reward.
    """
    cells = sketch.cells()
    p, nu = tail.order, tail.scale
    last = int(np.max(cells.epoch, initial=-1)) + 1
    bets = _catoni_bets(p, math.log(2.0 / alpha), last, horizon) / nu
    rows = _rows(cells, last)
    room = float(rows @ np.log1p((bets * nu) ** p / p)) + math.log(2.0 / alpha)
    stake = bets[cells.epoch]
    middle = float(cells.count @ cells.mean) / float(rows.sum())

    def below(m: float) -> bool:
        return _phi_sum(cells, stake, m, p, 1) > room

    def above(m: float) -> bool:
        return -_phi_sum(cells, stake, m, p, -1) > room

    return _end(below, middle, 1, nu), _end(above, middle, -1, nu)


def _end(outside: Callable[[float], bool], middle: float, side: int, size: float) -> float:
    """Where ``outside`` begins below ``middle`` (side 1) or above it (side -1), to 1e-9 of
    ``size``, on the outer side.
    """
    step, inside = size, middle
    while outside(inside):  # the mean itself may be: one row can be that large
        inside += side * step
        step *= 2.0
    step, far = size, inside - side * size
    while not outside(far):
        inside, step = far, 2.0 * step
        far = inside - side * step
    while abs(inside - far) > CLOSE * size:
        half = 0.5 * (far + inside)
        if half in (far, inside):
            break
        inside, far = (inside, half) if outside(half) else (half, far)
    return far


def _catoni_bets(p: float, room: float, last: int, horizon: int | None) -> FloatArray:
    """nu lambda of each epoch."""
    if horizon is not None:
        return np.full(last, (p * room / (2.0 * (p - 1.0) * max(horizon, 1))) ** (1.0 / p))
    first = epoch_starts(last).astype(np.float64) + 1.0
    return np.asarray(0.5 * (2.0 * p * room / first) ** (1.0 / p))


def _phi_sum(cells: Cells, stake: FloatArray, m: float, p: float, side: int) -> float:
    """sum phi(lambda (X - m)), bounded from below for side 1 and from above for side -1.

    In a cell the values are not known, but phi at their mean is wrong by at most half of its
    largest curvature there times their variance, and phi at the cell's end bounds it too.
    """
    x = stake * (cells.mean - m)
    middle = _phi(x, p)
    if not np.any(cells.variance):
        return float(cells.count @ middle)
    low, high = stake * (cells.low - m), stake * (cells.high - m)
    near = np.where(low * high > 0.0, np.minimum(np.abs(low), np.abs(high)), 0.0)
    far = np.maximum(np.abs(low), np.abs(high))
    below = 1.0 + near + near**p / p
    with np.errstate(divide="ignore"):
        bend = (p - 1.0) * near ** (p - 2.0) / below + ((1.0 + far ** (p - 1.0)) / below) ** 2
    with np.errstate(invalid="ignore"):
        wrong = np.where(cells.variance > 0.0, 0.5 * bend * stake**2 * cells.variance, 0.0)
    edge = _phi(low if side > 0 else high, p)
    safe = np.maximum(middle - wrong, edge) if side > 0 else np.minimum(middle + wrong, edge)
    return float(cells.count @ safe)


def _phi(x: FloatArray, p: float) -> FloatArray:
    size = np.abs(x)
    return np.asarray(np.sign(x) * np.log1p(size + size**p / p))


def huber_interval(found: Estimate, tail: TailReport | None, level: float) -> tuple[float, float]:
    """Both ends about Huber's estimate, approximate: for where nothing is known beforehand.

    value ± (q error + beyond/(a - 1)), q the normal quantile, a the lower end of the interval of
    the tail's index that the log shows, at least 1.1: the second part is what clipping may hide
    if the tail goes on as it does. No bound can be guaranteed without an assumption; in the eight
    environments of ``benchmarks.logs`` this one is measured beside the others.
    """
    index = max(LEAST_INDEX, tail.low) if tail is not None else LEAST_INDEX
    half = NormalDist().inv_cdf(0.5 + 0.5 * level) * found.error + found.beyond / (index - 1.0)
    return found.value - half, found.value + half


def bernstein_lower(count: float, total: float, square: float, bound: float, delta: float) -> float:
    """Maurer and Pontil's (2009) empirical Bernstein bound for values in [0, bound], at one n.

    With probability 1 - delta the mean is at least

        average - sqrt(2 var log(2/delta)/n) - 7 bound log(2/delta)/(3 (n - 1))
    """
    if count < 2:
        return 0.0
    mean, room = total / count, math.log(2.0 / delta)
    variance = max(square - count * mean * mean, 0.0) / (count - 1.0)
    lower = mean - math.sqrt(2.0 * variance * room / count)
    return max(lower - 7.0 * bound * room / (3.0 * (count - 1.0)), 0.0)
