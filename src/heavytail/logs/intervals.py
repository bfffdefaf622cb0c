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

from heavytail._typing import FloatArray, IntArray
from heavytail.logs.means import Estimate
from heavytail.logs.sketch import Cells, Sketch, cell_numbers, epoch_starts
from heavytail.tails import MomentBound

__all__ = [
    "Sequence",
    "bernstein_lower",
    "betting_lower",
    "catoni",
    "hidden_mean",
    "hindsight_lower",
    "hindsight_rows",
    "huber_interval",
    "ready",
]

ROUGH = 8  # cells per octave of the past that bets are read off
STAKES = 2.0 ** np.arange(-22.0, 3.01, 0.25)  # bets tried, in units of 1 / mean of the past
HORIZONS: FloatArray = 4.0 ** np.arange(
    3.0, 16.0
)  # rows for which bets are best where their number is not known
STARTS: FloatArray = 0.5 ** np.arange(1.0, 5.1, 0.5)  # of betting, in parts of the horizon
OCTAVES: FloatArray = 2.0 ** np.arange(-22.0, 21.0)  # bets in hindsight, in units of 1 / mean
FINE: FloatArray = 2.0 ** np.arange(-1.0, 1.01, 0.125)  # and about the best of these
STEPS = 60  # of Newton's method
CLOSE = 1e-9
PAID = 0.1  # of a row's weight must have been paid before anything is bet
ARRIVED = 0.2  # of a weight of 1 must a row have before all parts but one are bet
LEAST_INDEX = 1.1  # of a tail, whatever a log shows


class Sequence(NamedTuple):
    """A lower confidence sequence at the ends of epochs.

    Attributes:
        rows: rows seen by the end of each epoch.
        bets: (horizons, epochs), lambda of each epoch.
        starts: (horizons, 9), the epochs from which on each part of the wealth is bet.
        shares: (horizons, 9), these parts.
        lower: the bound there; all of them hold at once.
    """

    rows: FloatArray
    bets: FloatArray
    starts: IntArray
    shares: FloatArray
    lower: FloatArray

    @property
    def best(self) -> float:
        """The largest bound so far, which holds too; 0 before any row."""
        return float(np.max(self.lower, initial=0.0))


def betting_lower(
    sketch: Sketch, delta: float, horizon: float | None = None, paid: FloatArray | None = None
) -> Sequence:
    """Lower bounds of the mean of non-negative values with a finite mean; nothing else is assumed.

    At the true mean m the wealth of one who begins at row s and bets lambda_i against m,

        W_st(m) = prod_{s <= i <= t} (1 + lambda_i X_i)/(1 + lambda_i m),

    is a non-negative martingale that starts at 1: lambda_i is read off the rows before i, so that
    E[1 + lambda_i X_i | past] = 1 + lambda_i m. An average of such wealths is one again, and by
    Ville's inequality it passes 1/delta at some t with probability delta at most. So all of

        L_t = inf{m >= 0 : sum_s share_s W_st(m) <= 1/delta}

    hold at once with probability 1 - delta, rows being independent or only E[X_i | past] = m.

    The bet of an epoch is the constant one that would give the largest bound at ``horizon`` rows,
    were they like the past. A ninth of the wealth begins at each of 2^-1, 2^-1.5, ..., 2^-5 of the
    horizon: bets read off rows of another size than most (a trace of exploration has tiny weights,
    and these come first) cost the parts that had begun, and log 9 at the most what begins later.
    Where the first rows are like the others, little is lost but a thirty-second of them. With
    ``paid``, nothing is bet while the target's own actions have paid too little (:func:`ready`),
    and all parts but the last to begin wait until they have come (:func:`arrived`).
    Without a horizon the wealth is spread over several, 4^3, 4^4, ..., with shares that fall like
    1/j². O(epochs² + cells) each.
    """
    cells = sketch.cells()
    last = int(np.max(cells.epoch, initial=-1)) + 1
    rows = _rows(cells, last)
    horizons = HORIZONS if horizon is None else np.array([float(max(horizon, 1))])
    shares = np.tile(1.0 / np.arange(1.0, len(horizons) + 1.0)[:, None] ** 2, len(STARTS))
    shares /= shares.sum()
    starts = np.searchsorted(epoch_starts(last), horizons[:, None] * STARTS)
    begun = (np.arange(last)[:, None] >= starts[:, None, :]).astype(np.float64)
    bets = _bets(cells, last, math.log(1.0 / delta), horizons)
    if paid is not None:
        bets[:, 1:] *= ready(paid)[: last - 1]
        begun[:, 1:, 1:] *= arrived(paid)[: last - 1, None]
    gains = [_gains(cells, bet, last)[:, None] * on for bet, on in zip(bets, begun, strict=True)]
    wealth = np.cumsum(gains, axis=1) + np.log(shares)[:, None, :]
    lower = _solve(wealth, rows, bets, begun, math.log(1.0 / delta))
    return Sequence(np.cumsum(rows), bets, starts, shares, lower)


def ready(paid: FloatArray) -> FloatArray:
    """1 where the rows that paid, up to the end of an epoch, have a tenth of a row's weight or
    more together, else 0.

    ``paid`` has the sums of w, of w², and of w where something was paid, by epoch; a row's weight
    is sum w²/sum w. Before, all that was seen are rewards of actions that the target hardly plays,
    and bets that are read off them are far too large.
    """
    total, square, earned = np.cumsum(paid, axis=1)
    return (earned * total >= PAID * square).astype(np.float64)


def arrived(paid: FloatArray) -> FloatArray:
    """1 where a row's weight, sum w²/sum w up to the end of an epoch, is a fifth of 1 or more, else
    0.

    Weights have mean 1 in all: where all so far are far below it, what the target mostly plays has
    not come, and bets are read off rows that it hardly plays. Where many are 0, as of a target that
    could play in few rows only, the others are above 1, and nothing waits.
    """
    total, square, _ = np.cumsum(paid, axis=1)
    return (square >= ARRIVED * total).astype(np.float64)


def _rows(cells: Cells, last: int) -> FloatArray:
    """Rows of each epoch."""
    return np.bincount(cells.epoch, cells.count, minlength=last).astype(np.float64)


def _gains(cells: Cells, bets: FloatArray, last: int) -> FloatArray:
    """sum log(1 + lambda X) of each epoch, from below: log(1 + lambda x) is at least its tangent
    at a cell's mean less half its largest curvature there.
    """
    stake = bets[cells.epoch]
    bend = stake / (1.0 + stake * cells.low) * np.sqrt(cells.variance)
    gain = cells.count * (np.log1p(stake * cells.mean) - 0.5 * bend**2)
    return np.asarray(np.bincount(cells.epoch, gain, minlength=last))


def _solve(
    wealth: FloatArray, rows: FloatArray, bets: FloatArray, begun: FloatArray, log_inverse: float
) -> FloatArray:
    """For each t, the m >= 0 at which

        log sum_jk exp(wealth_jtk - sum_{e <= t} begun_jek n_e log(1 + lambda_je m)) = log(1/delta).

    The function is convex and falls, so that Newton's steps come from below and stay there: a step
    too few errs on the safe side.
    """
    past = np.tri(len(rows)) * rows
    pairs = list(zip(bets, begun, strict=True))
    m = np.zeros(len(rows))
    for _ in range(STEPS):
        at = m[:, None]
        part = wealth - np.stack([(past * np.log1p(b * at)) @ on for b, on in pairs])
        slope = np.stack([(past * (b / (1.0 + b * at))) @ on for b, on in pairs])
        top = part.max(axis=(0, 2))
        each = np.exp(part - top[:, None])
        total = each.sum(axis=(0, 2))
        over = top + np.log(total) - log_inverse
        fall = np.sum(each * slope, axis=(0, 2)) / total
        step = np.where((over > 0.0) & (fall > 0.0), over / np.where(fall > 0.0, fall, 1.0), 0.0)
        m += step
        if np.all(step <= 1e-12 * m):
            break
    return m


def _bets(cells: Cells, last: int, log_inverse: float, horizons: FloatArray) -> FloatArray:
    """lambda for each horizon h and epoch, from the values of the epochs before it; 0 until a
    positive one was seen.

    It maximises (exp(mean log(1 + lambda x) - log(1/delta)/h) - 1)/lambda over the past values x.
    They are put in cells of their own, in units of the first positive one, so that no unit of the
    rewards matters.
    """
    bets = np.zeros((len(horizons), last))
    if not np.any(cells.mean > 0.0):
        return bets
    rough = cell_numbers(cells.mean / cells.mean[np.argmax(cells.mean > 0.0)], ROUGH)
    numbers, place = np.unique(rough, return_inverse=True)
    at = cells.epoch * len(numbers) + place
    shape = (last, len(numbers))
    size = last * len(numbers)
    count = np.bincount(at, cells.count, minlength=size).reshape(shape).cumsum(axis=0)
    total = np.bincount(at, cells.count * cells.mean, minlength=size).reshape(shape).cumsum(axis=0)
    for e in range(1, last):
        n, s = count[e - 1], total[e - 1]
        rows, seen = n.sum(), (s > 0.0)
        if not seen.any():
            continue
        n, x = n[seen], s[seen] / n[seen]
        tried = STAKES * (rows / float(s.sum()))
        growth = np.log1p(tried[:, None] * x) @ n / rows
        bound = np.expm1(growth - log_inverse / horizons[:, None]) / tried
        bets[:, e] = tried[np.argmax(bound, axis=1)]
    return bets


def hindsight_lower(
    count: FloatArray, mean: FloatArray, variance: FloatArray, delta: float
) -> float:
    """The lower bound of the mean of values that are not below 0, by the bet best in hindsight:

        max over lambda of (exp(mean log(1 + lambda X) - log(1/delta)/n) - 1)/lambda.

    Of all laws on [0, oo) with a smaller mean, none makes the rows more than delta times as likely
    as their own frequencies do (Honda and Takemura 2010): so it finds room for values near 0 that
    never came. As the bet has seen the rows, it is no guarantee. O(cells) for each of 60 bets.
    """
    n, total = float(count.sum()), float(count @ mean)
    if not total > 0.0:
        return 0.0

    def bound(stake: float) -> float:
        gain = float(count @ _log_wealth(stake, mean, variance))
        return math.expm1((gain + math.log(delta)) / n) / stake

    return max(0.0, _best(bound, n / total))


def hindsight_rows(
    count: FloatArray, mean: FloatArray, variance: FloatArray, delta: float, least: float
) -> float:
    """Rows like these that would bring :func:`hindsight_lower` to ``least``: log(1/delta) over
    what a row adds to the logarithm of the best bet's wealth against it; infinity where it loses.
    """
    n, total = float(count.sum()), float(count @ mean)

    def growth(stake: float) -> float:
        return float(count @ _log_wealth(stake, mean, variance)) - n * math.log1p(stake * least)

    if not total > n * least:
        return math.inf
    return n * math.log(1.0 / delta) / _best(growth, n / total)


def _best(score: Callable[[float], float], unit: float) -> float:
    """The largest score of a bet, by octaves of ``unit`` and then about the best of these."""
    best = -math.inf
    for bets in (OCTAVES, FINE):
        scores = [score(stake) for stake in unit * bets]
        best, unit = max(best, *scores), unit * float(bets[int(np.argmax(scores))])
    return best


def _log_wealth(stake: float, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """log(1 + lambda X) at a cell's mean, less half its curvature there times the variance."""
    return np.asarray(np.log1p(stake * mean) - 0.5 * (stake / (1.0 + stake * mean)) ** 2 * variance)


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
    """The point where ``outside`` begins below ``middle`` (side 1) or above it (side -1), to 1e-9
    of ``size``, on the outer side.
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


def hidden_mean(beyond: float, index: float) -> float:
    """The part of the mean hidden by clipping: beyond/(a - 1), a the tail's index, at least 1.1."""
    return beyond / (max(LEAST_INDEX, index) - 1.0)


def huber_interval(found: Estimate, hidden: float, level: float) -> tuple[float, float]:
    """Both ends about Huber's estimate, approximate: for where nothing is known beforehand.

    value -+ (q error + hidden), q the normal quantile. Hidden is
    what clipping may hide if the tail goes on as the log shows it (:func:`hidden_mean` at the
    lower end of the interval of its index), with as many rows as can be clipped. No bound can be
    guaranteed without an assumption; ``benchmarks.logs`` measures this one.
    """
    half = NormalDist().inv_cdf(0.5 + 0.5 * level) * found.error + hidden
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
