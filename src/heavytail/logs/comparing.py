"""``compare``: how much more one policy would have earned than another, row by row."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs import advice, intervals, means
from heavytail.logs.bounds import OF_DIFFERENCES, Betting, Bound, Catoni
from heavytail.logs.estimators import (
    ESTIMATORS,
    MEANS,
    MEANS_OF_DIFFERENCES,
    Averaged,
    Estimator,
    Seen,
)
from heavytail.logs.evaluating import finish, plan_of, target_of
from heavytail.logs.models import Propensities
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import Source, merged
from heavytail.logs.results import Comparison, Evaluation
from heavytail.logs.sketch import PairCells, Pairs, Sketch, epochs
from heavytail.logs.summary import Plan, Summary, look, of_seen
from heavytail.logs.target import Chooser, Target
from heavytail.logs.values import as_value, refuse_gone

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ROOM_LEFT", "compare"]

ALIKE = 1e-12  # of two weights is rounding
BEYOND = 5.0  # times as far out as a policy's own rows others may lie that never came
COMMON = 0.1  # a reward that this share of the rows pays must be in most logs like this
ROOM_LEFT = (
    "The interval has room for rewards as far out as the farthest of the log, and for rows five "
    "times as far out as the policies' own. If there are farther ones, it may be wrong: no "
    "guarantee."
)
RANGE_OR_TAIL = "bound=Betting(floor, ceiling) or bound=Catoni(tail)"
OUTSIDE = "The difference of the two values lies outside its interval"


@refuse_gone
def compare(
    log: object,
    a: Chooser,
    b: Chooser,
    *,
    estimator: Estimator | str = "snips",
    bound: Bound | str | None = "hindsight",
    level: float = 0.95,
    columns: Mapping[str, Any] | None = None,
    default_reward: float | None = None,
    propensities: Propensities = None,
    explore: float = 0.0,
    draws: int | None = None,
    dask: Client | str | bool | None = None,
) -> Comparison:
    """Estimate V_a - V_b, with an interval from the rows' own differences: narrower than from two
    intervals.

    The estimate is the difference of the two values that :func:`heavytail.evaluate` gives. Its
    interval is that of the mean of (w_a - w_b)(r - c), c the mean of both values: weights have mean
    1, so c changes only the spread, and rows that both policies play alike are 0. The interval has
    both sides:

    - ``Betting(floor, ceiling)`` needs nothing else. For rewards in [l, h], (w_a - w_b)+ (r - l) +
      (w_a - w_b)- (h - r) + (h - l)(1 - D) is nonnegative and has mean V_a - V_b + h - l, D being
      half of sum |pi_a - pi_b|;
    - ``Catoni(tail)`` rests on a MomentBound of the rows' differences w_a r - w_b r;
    - ``Hindsight()`` uses the bet that is best in hindsight, with room for rows that never came. It
      is approximate, and ``guaranteed`` is False. If the estimate lies outside, it becomes an end
      of the interval. There is no interval if the rows that one policy plays more often count like
      fewer than 29 of equal weight, (sum w)²/sum w², at a level of 95 %: in 5.2 % of logs, 28 rows
      lack a reward that one row in ten pays.

    If the interval contains 0, ``rows_needed`` estimates how many rows would decide. In hindsight
    that is :func:`heavytail.logs.intervals.hindsight_rows`. Otherwise the distance d of the value
    to the end beyond 0 falls like n^(1/p - 1), p the order of the stated moment, or 2, so that n
    (d/|value|)^(p/(p - 1)) rows bring that end to 0, if the estimated difference is correct. In
    hindsight it is too low under heavy tails, because larger rewards may come.

    Args:
        log: and
        a: and
        b: and the others as in :func:`heavytail.evaluate`.
        estimator: as in evaluate, except "ls" and "lse", which have one side only; its mean is
            "huber", "catoni" or "plain".
        bound: "hindsight", ``Betting(floor, ceiling)`` or ``Catoni(tail)``; None for none.
        level: of the interval, both sides together.
        columns: as in evaluate.
        default_reward: as in evaluate.
        propensities: as in evaluate.
        explore: as in evaluate.
        draws: as in evaluate.
        dask: as in evaluate.
    """
    estimator = as_value("compare.estimator", estimator, ESTIMATORS)
    bound = None if bound is None else as_value("compare.bound", bound, OF_DIFFERENCES)
    _check_sides(estimator, bound)
    source = Source(log, columns, default_reward)
    plan, source = plan_of("compare", source, estimator, bound, level, propensities)
    held = plan if isinstance(plan.bound, Betting) else replace(plan, bound=None)
    targets = target_of(a, explore, draws), target_of(b, explore, draws)
    summary_a, summary_b, apart = merged(_parts(source, (a, b), targets, held, dask))
    for target, each in zip(targets, (summary_a, summary_b), strict=True):
        target.finish(each.rows, each.counts)
    count = source.count()
    alone = replace(plan, bound=None)
    ends = [
        finish(each, alone, level, count, propensities, target.notes)
        for each, target in zip((summary_a, summary_b), targets, strict=True)
    ]
    value = ends[0].value - ends[1].value
    centre = 0.5 * (ends[0].value + ends[1].value)
    error = _difference(apart, _mean(plan), level, centre).error
    both = _interval(apart, plan, level, count.rows, centre, value)
    said = _named(ends[0].advice, ends[1].advice)
    if both.interval == "hindsight" and np.any(apart.gaps):
        said.append(_overturned(apart, both, summary_a.rows, level, centre, value))
    said += _about_order(both, value, ends, level)
    return Comparison(
        value=value, lower=both.lower, upper=both.upper, reason=both.reason,
        guaranteed=both.guaranteed, level=level, interval=both.interval, error=error,
        rows=summary_a.rows, rows_needed=_enough(value, both, summary_a.rows), a=ends[0], b=ends[1],
        advice=tuple(said),
    )  # fmt: skip


def _check_sides(estimator: Estimator, bound: Bound | None) -> None:
    """Refuse one-sided estimates and bounds: differences have two sides."""
    if not isinstance(estimator, Averaged):
        raise ValueError(
            f"compare.estimator: {estimator} has one side only. Take 'snips' or 'ips'."
        )
    if estimator.mean in MEANS and estimator.mean not in MEANS_OF_DIFFERENCES:
        words = ", ".join(map(repr, MEANS_OF_DIFFERENCES))
        raise ValueError(f"compare.estimator: its mean must be one of {words}; got {estimator}.")
    if isinstance(bound, Betting) and bound.ceiling is None:
        raise ValueError(
            f"compare.bound: a difference has two sides, so rewards need both limits; got {bound}. "
            "Pass Betting(floor, ceiling), or 'hindsight', which is approximate."
        )


def _mean(plan: Plan) -> object:
    """The name of the estimator's mean, or its moment."""
    return getattr(plan.estimator, "mean", None)


@dataclass(frozen=True)
class Apart:
    """Statistics of the row-by-row differences of two policies; they merge as a Summary does.

    Attributes:
        pairs: (w_a - w_b, v_a - v_b), or (0, v_a - v_b) where nothing is self-normalised.
        values: v_a - v_b by epoch.
        gaps: (2, 3), the sums of (w_a - w_b)+ and of its square and how many are not 0, and the
            same of (w_b - w_a)+.
        far: the largest reward of the log, and minus the least one.
        up: by epoch, the value whose mean is V_a - V_b plus the range's width, or None.
        down: the same of V_b - V_a, or None.
    """

    pairs: Pairs
    values: Sketch
    gaps: FloatArray
    far: FloatArray
    up: Sketch | None
    down: Sketch | None

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.pairs + other.pairs,
            self.values + other.values,
            self.gaps + other.gaps,
            np.maximum(self.far, other.far),
            None if self.up is None or other.up is None else self.up + other.up,
            None if self.down is None or other.down is None else self.down + other.down,
        )


def _parts(
    source: Source,
    policies: tuple[Chooser, Chooser],
    targets: tuple[Target, Target],
    plan: Plan,
    dask: Client | str | bool | None,
) -> Iterator[tuple[Summary, Summary, Apart]]:
    """Summarise every chunk. Two columns as targets need two readings side by side."""
    a, b = policies
    if not (source.names_column(a) and source.names_column(b)):
        call = functools.partial(_both, targets=targets, plan=plan)
        for policy in sorted((a, b), key=source.names_column):  # a column last: it hides "logged"
            source = source.naming(policy)
        return source.map(call, dask)
    if source.once or dask is not None:
        raise TypeError(
            "compare: two columns as policies cannot be read from an iterator or with dask=. Pass "
            "one of them as an array or a callable."
        )
    pairs = zip(source.naming(a).chunks(), source.naming(b).chunks(), strict=True)
    return (_joined(rows_a, rows_b, targets, plan) for rows_a, rows_b in pairs)


def _both(rows: Rows, targets: tuple[Target, Target], plan: Plan) -> tuple[Summary, Summary, Apart]:
    return _joined(rows, rows, targets, plan)


def _joined(
    rows_a: Rows, rows_b: Rows, targets: tuple[Target, Target], plan: Plan
) -> tuple[Summary, Summary, Apart]:
    seen_a, seen_b = look(rows_a, targets[0], plan), look(rows_b, targets[1], plan)
    return of_seen(seen_a, plan), of_seen(seen_b, plan), _apart(seen_a, seen_b, plan)


def _apart(one: Seen, two: Seen, plan: Plan) -> Apart:
    (u_a, v_a), (u_b, v_b) = plan.estimator.terms(one), plan.estimator.terms(two)
    epoch = epochs(one.rows.start, len(v_a))
    up = down = None
    if plan.ceiling is not None and one.weight is not None and two.weight is not None:
        up = Sketch(_lifted(one, two, plan.floor, plan.ceiling), epoch)
        down = Sketch(_lifted(two, one, plan.floor, plan.ceiling), epoch)
    r, gap = one.rows.reward, np.zeros(1)
    if one.weight is not None and two.weight is not None:
        gap = one.weight - two.weight
        gap = np.where(np.abs(gap) > ALIKE * (one.weight + two.weight), gap, 0.0)
    sides = [np.maximum(side * gap, 0.0) for side in (1.0, -1.0)]
    gaps = np.array([[side.sum(), side @ side, np.count_nonzero(side)] for side in sides])
    far = np.array([r.max(initial=-np.inf), (-r).max(initial=-np.inf)])
    return Apart(Pairs(u_a - u_b, v_a - v_b), Sketch(v_a - v_b, epoch), gaps, far, up, down)


def _lifted(one: Seen, two: Seen, low: float, high: float) -> FloatArray:
    """Non-negative values of mean V_a - V_b + high - low: see :func:`compare`.

    Where only the logged actions' probabilities are known, min(w_a, w_b) has the mean of 1 - D.
    """
    w_a, w_b, r = one.weight, two.weight, one.rows.reward
    assert w_a is not None
    assert w_b is not None
    gain = np.maximum(w_a - w_b, 0.0) * (r - low) + np.maximum(w_b - w_a, 0.0) * (high - r)
    if one.mass is None or two.mass is None:
        return np.asarray(gain + (high - low) * np.minimum(w_a, w_b))
    same = np.minimum(one.mass, two.mass).sum(axis=1)
    return np.asarray(gain + (high - low) * same)


def _located(apart: Apart, centre: float) -> PairCells:
    """v - c u of the rows, as values beside ones."""
    cells = apart.pairs.cells()
    n, v = cells.count, cells.v - centre * cells.u
    square = cells.vv - 2.0 * centre * cells.uv + centre**2 * cells.uu
    return PairCells(n, n, v, n, v, np.maximum(square, 0.0))


def _difference(apart: Apart, mean: object, level: float, centre: float) -> means.Estimate:
    """The mean of v - c u; z from the effective size of |u|, as few rows may carry all of it."""
    cells, located = apart.pairs.cells(), _located(apart, centre)
    if mean == "plain":
        return means.plain_mean(located)
    if mean != "huber":
        return means.catoni_mean(located, 1.0 - level)
    order = None
    if np.any(cells.u):
        order = means.huber_order(cells._replace(u=np.abs(cells.u)))
    return means.huber(located, order)


class Ends(NamedTuple):
    """An interval of the difference, or why there is none.

    Attributes:
        lower: its lower end, or None.
        upper: its upper end, or None.
        interval: where it comes from.
        guaranteed: whether it rests on stated assumptions alone.
        reason: why there is none.
        order: p where the distance of an end to the value falls like n^(1/p - 1).
        needed: how many rows like these would bring either end to 0; None where ``order`` says it.
    """

    lower: float | None
    upper: float | None
    interval: str | None
    guaranteed: bool
    reason: str
    order: float = 2.0
    needed: tuple[float, float] | None = None


def _interval(
    apart: Apart, plan: Plan, level: float, horizon: int | None, centre: float, value: float
) -> Ends:
    alpha, bound, estimator = 1.0 - level, plan.bound, plan.estimator
    if bound is None:
        return Ends(None, None, None, False, "bound=None")
    if not estimator.weights:
        return Ends(None, None, None, False, "nothing bounds a model's error")
    if not estimator.unbiased:
        why = f"{estimator.name!r} is biased, and nothing bounds by how much"
        return Ends(None, None, None, False, why)
    if isinstance(bound, Betting | Catoni) and bound.growing:
        horizon = None
    if apart.up is not None and apart.down is not None and plan.ceiling is not None:
        width = plan.ceiling - plan.floor
        lower = intervals.betting_lower(apart.up, alpha / 2.0, horizon).best - width
        upper = width - intervals.betting_lower(apart.down, alpha / 2.0, horizon).best
        return Ends(lower, upper, "betting", True, "")
    if isinstance(bound, Catoni):
        ends = intervals.catoni(apart.values, bound.tail, alpha, horizon)
        return Ends(*ends, "catoni", True, "", bound.tail.order)
    if _mean(plan) != "huber":
        return Ends(None, None, None, False, f"state {RANGE_OR_TAIL}, or take mean='huber'")
    if math.isnan(value):
        return Ends(None, None, None, False, "no row of the log has an action of one of the two")
    if np.any(apart.gaps) and not apart.far.sum() > 0.0:
        why = "all rewards of the log are equal, and nothing shows how far another may lie. State "
        return Ends(None, None, None, False, why + RANGE_OR_TAIL)
    few = _too_few(apart, level)
    if few:
        return Ends(None, None, None, False, few)
    (lower, more), (upper, less) = (_hindsight(apart, centre, side, alpha) for side in (1.0, -1.0))
    lower, upper = min(lower, value), max(-upper + 0.0, value)
    return Ends(lower, upper, "hindsight", False, "", needed=(more, less))


def _hindsight(apart: Apart, centre: float, side: float, alpha: float) -> tuple[float, float]:
    """The lower end (side 1), or minus the upper one (side -1), of the mean of e = v - c u, and
    how many rows like these would bring it to 0.

    side e is taken to be no less than -B: the farthest reward of the whole log, at the weight that
    a row of the policy has, or five times what was seen of e itself, whichever is farther out.
    """
    n, _, total, _, _, square = _located(apart, centre)
    mean = side * total / n
    weights = _row_weights(apart)[:: -int(side)]  # gains of b lower the lower end, losses of a do
    away = apart.far + np.array([-centre, centre])
    reach = max(0.0, BEYOND * float(np.max(-mean)), *(weights * away))
    variance = np.maximum(square / n - mean**2, 0.0)
    values = n, mean + reach, variance, alpha
    return intervals.hindsight_lower(*values) - reach, intervals.hindsight_rows(*values, reach)


def _row_weights(apart: Apart) -> FloatArray:
    """sum w²/sum w over the rows that a plays more often, and over those that b does."""
    total, square, _ = apart.gaps.T
    return np.asarray(square / np.where(total > 0.0, total, 1.0))


def _too_few(apart: Apart, level: float) -> str:
    """The reason why the rows of one policy are too few for any approximation: they count like
    (sum w)²/sum w² rows of equal weight, and with a probability above 1 - level that many rows lack
    a reward that one row in ten pays. Empty if they are not too few.
    """
    total, square, _ = apart.gaps.T
    least = math.ceil(math.log1p(-level) / math.log1p(-COMMON))
    size = (1.0 + ALIKE) * total**2 / np.where(square > 0.0, square, 1.0)  # n equal ones make n
    at = int(np.argmin(size))
    if not np.any(apart.gaps) or size[at] >= least:
        return ""
    own, end = f"{'ab'[at]} plays more often than {'ba'[at]}", f"or state {RANGE_OR_TAIL}"
    if not size[at]:
        return f"no row of the log has an action that {own}. Log such actions, {end}"
    return (
        f"the rows with actions that {own} count like {math.floor(size[at])} of equal weight, and "
        f"{least} are needed: {least - 1} of equal weight lack a reward that one row in ten pays "
        f"in {(1.0 - COMMON) ** (least - 1):.1%} of logs. Log more rows, {end}"
    )


def _named(of_a: tuple[str, ...], of_b: tuple[str, ...]) -> list[str]:
    """The warnings of both, each with the policy that it is about."""
    said = [s for s in dict.fromkeys((*of_a, *of_b)) if "no reason" not in s]
    who = {(True, False): "a", (False, True): "b", (True, True): "a and b"}
    return [f"{who[s in of_a, s in of_b]}: {s}" for s in said]


def _about_order(both: Ends, value: float, ends: Sequence[Evaluation], level: float) -> list[str]:
    """A sentence where the value lies outside its interval: what was clipped explains it if the
    difference of the plain means lies inside, or beyond. Nothing if the propensities are wrong.
    """
    lower, upper = both.lower, both.upper
    if lower is None or upper is None or lower <= value <= upper:
        return []
    if not all(end.propensities_ok for end in ends):
        return []
    plain = ends[0].plain - ends[1].plain
    if plain >= lower if value < lower else plain <= upper:
        return [f"{OUTSIDE}, which is the better guess: a few large rows count in part."]
    return [
        f"{OUTSIDE}: either it is off, or what was stated of the rewards is, or this is one of the "
        f"at most {advice.error_share(level)} of logs in which such an interval is."
    ]


def _overturned(
    apart: Apart, ends: Ends, rows: int, level: float, centre: float, value: float
) -> str:
    """A sentence on what the interval takes for granted: where it decides, rewards that would make
    both policies equal, so rare that with probability 1 - level a log like this has none of them.

    If a share q of the rows of actions that b plays more often than a paid x more, V_b - V_a would
    grow by q x D, D the mean of (w_b - w_a)+; N such rows have none with probability (1 - q)^N.
    """
    assert ends.lower is not None
    assert ends.upper is not None
    upward = apart.far[0] - centre >= apart.far[1] + centre  # where the farthest rewards are
    at = int((ends.lower > 0.0) == upward)  # the worse one's large gains, or the better's losses
    total, _, count = apart.gaps[at]
    if ends.lower <= 0.0 <= ends.upper or not count:
        return ROOM_LEFT
    share = -math.expm1(math.log1p(-level) / count)
    size = abs(value) * rows / (share * total)
    return (
        f"If 1 in {1.0 / share:,.0f} of the rows with actions that {'ab'[at]} plays more often "
        f"than {'ba'[at]} paid {size:.3g} {'more' if upward else 'less'}, both would be equal, and "
        f"{1.0 - level:.0%} of such logs would have no such row. Rule that out before you rely on "
        "this difference: no guarantee."
    )


def _enough(value: float, ends: Ends, rows: int) -> float | None:
    """The total number of rows that would bring the end beyond 0 to 0, if the value were right.

    n (d/|value|)^(p/(p - 1)), d the distance from the value to that end, or what the ends say.
    None where the interval decides already, where there is none, or where no number would do.
    """
    lower, upper = ends.lower, ends.upper
    if lower is None or upper is None or not lower <= 0.0 <= upper or not value:
        return None
    if ends.needed is not None:
        needed = ends.needed[0 if value > 0.0 else 1]
        return max(needed, float(rows)) if math.isfinite(needed) else None
    far = value - lower if value > 0.0 else upper - value
    return rows * max(far / abs(value), 1.0) ** (ends.order / (ends.order - 1.0))
