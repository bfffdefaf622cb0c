"""``evaluate``: an estimate of what a policy would have earned on the log of another."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._validate import Check
from heavytail.logs import advice, estimates, intervals, means
from heavytail.logs.bounds import OF_VALUES, Bernstein, Betting, Bound, Catoni, Huber
from heavytail.logs.estimators import (
    ESTIMATORS,
    LS,
    LSE,
    Averaged,
    Estimator,
    Modelled,
    is_fitted,
)
from heavytail.logs.models import Propensities, as_model, as_propensities
from heavytail.logs.reading.files import Count
from heavytail.logs.reading.source import Source, merged
from heavytail.logs.results import Evaluation
from heavytail.logs.sketch import Sketch
from heavytail.logs.summary import Plan, Summary, summarise
from heavytail.logs.target import Chooser, Target
from heavytail.logs.values import as_value, refuse_gone
from heavytail.tails import MomentBound, TailReport, diagnose

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["evaluate", "finish", "plan_of", "target_of"]

LEAST_TAIL = 50  # rows below which nothing is said about a tail
MOST_TAIL = 2**17  # values that a tail is read from


@refuse_gone
def evaluate(
    log: object,
    policy: Chooser | None = None,
    *,
    estimator: Estimator | str = "snips",
    bound: Bound | str | None = "betting",
    level: float = 0.95,
    columns: Mapping[str, Any] | None = None,
    default_reward: float | None = None,
    propensities: Propensities = None,
    explore: float = 0.0,
    draws: int | None = None,
    dask: Client | str | bool | None = None,
) -> Evaluation:
    """Estimate what ``policy`` would have earned per row of ``log``, with bounds for heavy tails.

    The default is the self-normalised estimate with Huber's tuning-free threshold, the m with sum
    psi_tau(w (r - m)) = 0, corrected for skewness (:func:`heavytail.logs.means.skew_corrected`),
    and a lower bound by betting: with probability ``level`` it holds at every row of this log at
    once, for any rewards with a finite mean that are not below 0, or another ``floor``. An upper
    bound needs more: the rewards' range, or a moment of the weighted rewards. One pass, O(1)
    memory.

    >>> import numpy as np, heavytail as ht
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(2, size=5000)
    >>> log = {"action": action, "reward": rng.pareto(2.5, 5000) * (1 + action),
    ...        "propensity": np.full(5000, 0.5)}
    >>> found = ht.evaluate(log, lambda rows: np.tile([0.1, 0.9], (len(rows.action), 1)))
    >>> found.lower < 1.9 / 1.5 and abs(found.value - 1.9 / 1.5) < 0.1  # the true value
    True

    Args:
        log: a dict of arrays, a frame, Parquet files, ...; see :mod:`heavytail.logs.reading`.
        policy: a frozen policy of the library, a callable of Rows giving (n, K) probabilities, an
            array of them over the whole log, :func:`heavytail.always` one action, "logged" for the
            policy that wrote the log, or the name of a column; None: the log's ``target``.
        estimator: a value of :mod:`heavytail.logs.estimators` or its name: "ips", "snips",
            "clipped", "ls", "lse"; ``DM(model)``, ``DR(model)``, ``SwitchDR(model)``,
            ``DRos(model)``.
        bound: a value of :mod:`heavytail.logs.bounds` or its name: "betting", the lower one;
            ``Betting(floor, ceiling)``, ``Catoni(tail)`` or ``Bernstein(floor, ceiling)``, both;
            "huber", both, approximate; None for none.
        level: of the bounds. One bound alone has all of 1 - level, two have half each.
        columns: where the log has other names: ours -> its own. ``{"arms": catalogue}`` lets an
            encoder fill in the arms of a raw log (:meth:`heavytail.encoding.Encoder.catalogue`).
        default_reward: what a reward that never came counts as.
        propensities: None for the log's own; "frequencies" estimates them by how often each action
            was played; a callable of Rows, or an array over the whole log.
        explore: share of uniform draws that the target is mixed with.
        draws: per row, for a policy that draws and does not know its probabilities.
        dask: a client, an address or True: chunks are summarised there, with equal results.
    """
    estimator = as_value("evaluate.estimator", estimator, ESTIMATORS)
    bound = None if bound is None else as_value("evaluate.bound", bound, OF_VALUES)
    source = Source(log, columns, default_reward).naming(policy)
    plan, source = plan_of("evaluate", source, estimator, bound, level, propensities)
    target = target_of(policy, explore, draws)
    call = functools.partial(summarise, target=target, plan=plan)
    summary = merged(source.map(call, dask))
    target.finish(summary.rows, summary.counts)
    return finish(summary, plan, level, source.count(), propensities, target.notes)


def target_of(policy: Chooser | None, explore: float, draws: int | None) -> Target:
    """The source of the target's probabilities; without a policy, the log's own column."""
    return Target("target" if policy is None else policy, explore=explore, draws=draws)


def plan_of(
    who: str,
    source: Source,
    estimator: Estimator,
    bound: Bound | None,
    level: float,
    propensities: Propensities,
) -> tuple[Plan, Source]:
    """The checked arguments as a plan, and the log, held in memory if it must be read more than
    once.
    """
    Check(who).number("level", level, above=0.0, below=1.0)
    if isinstance(bound, Huber) and not estimator.unbiased:
        unbiased = ", ".join(kind.__name__ for kind in ESTIMATORS if kind.unbiased)
        raise ValueError(
            f"{who}.bound: Huber() is of an estimate by {unbiased} alone; got {estimator}."
        )
    estimator, bound = _clipping(who, estimator, source), _clipping(who, bound, source)
    model = estimator.model if isinstance(estimator, Modelled) else None
    if is_fitted(model) or isinstance(propensities, str):
        source = source.held()
    if isinstance(estimator, Modelled):
        estimator = replace(estimator, model=as_model(model, source, estimator.folds))
    return Plan(estimator, bound, as_propensities(propensities, source)), source


def _clipping(who: str, value: Any, source: Source) -> Any:
    """The same with a number to clip at, if it clips: the root of the number of rows by default."""
    if getattr(value, "clip", 0.0) is not None:
        return value
    rows = source.length()
    if rows is None:
        raise ValueError(
            f"{who}: how many rows the log has is not known before it is read, so clip= "
            "must be stated; with n rows it is sqrt(n) otherwise."
        )
    return replace(value, clip=math.sqrt(max(rows, 1)))


def point(summary: Summary, plan: Plan, level: float) -> means.Estimate:
    """The estimate of a summary."""
    cells, estimator = summary.pairs.cells(), plan.estimator
    if estimator.weights and not float(np.sum(cells.u)) > 0.0:
        return means.Estimate(math.nan, math.nan)  # no row has weight
    if isinstance(estimator, LS):
        assert summary.values is not None
        lam = estimator.smoothing or estimates.smoothing(summary.values, 1.0 - level)
        end = estimates.log_sum_exp if isinstance(estimator, LSE) else estimates.log_smoothing
        return means.Estimate(end(summary.values, lam) + plan.floor, math.nan)
    assert isinstance(estimator, Averaged)
    match estimator.mean:
        case "huber":
            return means.skew_corrected(cells)
        case "plain":
            return means.plain_mean(cells)
        case "median-of-means":
            return means.median_of_means(summary.blocks)
        case "minsker-ndaoud":
            return means.minsker_ndaoud(summary.blocks)
        case mean:
            tail = mean if isinstance(mean, MomentBound) else None
            return means.catoni_mean(cells, 1.0 - level, tail)


def bounds_of(
    summary: Summary, plan: Plan, level: float, rows: int | None, seen: TailReport | None
) -> tuple[float | None, float | None, intervals.Sequence | None]:
    """Lower and upper bound, and the lower one's course."""
    alpha, bound, values = 1.0 - level, plan.bound, summary.values
    if values is None:
        return None, None, None
    match bound:
        case Huber():
            estimate = means.skew_corrected(summary.pairs.cells())
            hidden = intervals.hidden_mean(estimate.beyond, 0.0 if seen is None else seen.low)
            return *intervals.huber_interval(estimate, hidden, level), None
        case Catoni():
            sketch = summary.pseudo if summary.pseudo is not None else values
            horizon = None if bound.growing else rows
            return *intervals.catoni(sketch, bound.tail, alpha, horizon), None
        case Bernstein():
            return *_bernstein(summary, bound, plan.floor, alpha / 2.0), None
        case Betting():
            side = alpha if bound.ceiling is None else alpha / 2.0
            horizon = None if bound.growing else rows
            course = intervals.betting_lower(values, side, horizon, summary.paid)
            upper = None
            if summary.above is not None and bound.ceiling is not None:
                above = intervals.betting_lower(summary.above, side, horizon)
                upper = bound.ceiling - above.best
            return plan.floor + course.best, upper, course
    return None, None, None


def _bernstein(
    summary: Summary, bound: Bernstein, floor: float, delta: float
) -> tuple[float, float]:
    """min(w, M) (r - floor) and min(w, M) (ceiling - r) lie in [0, M width] and their means are at
    most V - floor and ceiling - V.
    """
    assert bound.clip is not None
    most = bound.clip * (bound.ceiling - floor)
    s = summary.moments
    low = intervals.bernstein_lower(summary.rows, s[0], s[1], most, delta)
    high = intervals.bernstein_lower(summary.rows, s[2], s[3], most, delta)
    return floor + low, bound.ceiling - high


def tail_of(sketch: Sketch | None, effective: float) -> TailReport | None:
    """The tail of as many of the largest values as there are effective rows; None of too few, or
    of values that are all alike.

    Rows of small weight are no part of it: with them, what is a mixture of weights looks like a
    tail (Lomax(1.5) rewards, an action logged in a fifth of 2,000 rows: index 1.2 of all rows, 1.5
    of these; logged in 1 % of 20,000: 0.6 and 1.4).
    """
    if sketch is None or math.isnan(effective):
        return None
    values = sketch.largest(max(effective, LEAST_TAIL), MOST_TAIL)
    if len(values) < LEAST_TAIL:
        return None
    return diagnose(values) if np.ptp(values) > 0.0 else None


def finish(
    summary: Summary,
    plan: Plan,
    level: float,
    count: Count,
    asked: object = None,
    notes: tuple[str, ...] = (),
) -> Evaluation:
    """The evaluation of a summary; ``asked`` is what was said about propensities."""
    summary.check_unit()
    estimate, estimator = point(summary, plan, level), plan.estimator
    sketch = summary.pseudo if summary.pseudo is not None else summary.values
    looked = advice.diagnostics(summary)
    seen = tail_of(sketch, looked["effective_size"])
    lower, upper, course = bounds_of(summary, plan, level, count.rows, seen)
    mean, plain = "smoothed", estimate
    if isinstance(estimator, Averaged):
        mean = estimator.mean if isinstance(estimator.mean, str) else "catoni"
        plain = point(summary, replace(plan, estimator=replace(estimator, mean="plain")), level)
    evaluation = Evaluation(
        value=estimate.value,
        lower=lower,
        upper=upper,
        lower_reason="" if lower is not None else advice.no_lower(plan),
        upper_reason="" if upper is not None else advice.no_upper(plan, summary),
        level=level,
        method=estimator.name,
        mean=mean,
        interval=None if plan.bound is None else plan.bound.name,
        rows=summary.rows,
        tail=seen,
        error=estimate.error,
        advice=(),
        waiting=count.waiting,
        plain=plain.value,
        _rows=np.empty(0) if course is None else course.rows,
        _path=np.empty(0) if course is None else np.maximum.accumulate(course.lower) + plan.floor,
        **looked,
    )
    limited = advice.at_limit(summary, plan, evaluation.half_side)
    said = advice.sentences(evaluation, asked, estimate.side, limited, advice.explored(summary))
    return replace(evaluation, advice=(*notes, *said))
