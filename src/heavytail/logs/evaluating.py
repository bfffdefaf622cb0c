"""``evaluate``: what a policy would have earned on a log that another one wrote."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from heavytail._validate import Check, shown
from heavytail.logs import advice, estimates, intervals, means
from heavytail.logs.estimates import METHODS
from heavytail.logs.models import as_model, as_propensities
from heavytail.logs.reading.source import Source, merged
from heavytail.logs.results import Evaluation
from heavytail.logs.sketch import Sketch
from heavytail.logs.summary import Plan, Summary, summarise
from heavytail.logs.target import Target
from heavytail.tails import MomentBound, TailReport, diagnose

__all__ = ["evaluate", "finish", "plan_of", "target_of"]

UNBIASED = ("ips", "snips", "dr")
INTERVALS = ("betting", "catoni", "bernstein", "huber")
LEAST_TAIL = 50  # rows below which nothing is said about a tail
MOST_TAIL = 2**17  # values that a tail is read from


def evaluate(
    log: Any,
    policy: Any = None,
    *,
    method: str = "auto",
    mean: str = "huber",
    interval: str | None = "betting",
    tail: MomentBound | None = None,
    level: float = 0.95,
    model: Any = None,
    folds: int = 5,
    columns: Mapping[str, Any] | None = None,
    default_reward: float | None = None,
    explore: float = 0.0,
    draws: int | None = None,
    clip: float | None = None,
    smoothing: float | None = None,
    reward_range: tuple[float, float] | None = None,
    reward_floor: float = 0.0,
    propensities: Any = None,
    growing: bool = False,
    dask: Any = None,
) -> Evaluation:
    """What ``policy`` would have earned per row of ``log``, with bounds that heavy tails respect.

    The default is the self-normalised estimate with Huber's tuning-free threshold, the m with
    sum psi_tau(w (r - m)) = 0, corrected for skewness
    (:func:`heavytail.logs.means.skew_corrected`), and a lower bound by betting: with probability
    ``level`` it holds at every row of this log at once, for any rewards not below ``reward_floor``
    whose mean is finite. Its bets aim at the log's length: say ``growing`` for bounds that hold
    together when a log is looked at again and again. An upper bound needs more: the rewards' range,
    or a moment of the weighted rewards. One pass, O(1) memory.

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
            array of them over the whole log, the name of a column; None: the log's ``target``.
        method: "ips", "snips", "clipped", "dm", "dr", "switch-dr", "dros", "ls", "lse"
            (:mod:`heavytail.logs.estimates`); "auto" is "dr" with a model, else "snips".
        mean: "huber", "catoni", "minsker-ndaoud", "median-of-means" or "plain".
        interval: "betting"; "catoni", both sides, with ``tail``; "bernstein", both sides, with
            ``reward_range``; "huber", both sides of Huber's estimate, approximate
            (:func:`heavytail.logs.intervals.huber_interval`); None for none.
        tail: E|X - V|^p <= scale^p of the weighted rewards X = w r (of the terms v of "dr"), for
            "catoni".
        level: of the bounds. One bound alone has all of 1 - level, two have half each.
        model: callable of Rows giving (n, K) predicted rewards, or a regressor with fit and
            predict (or partial_fit), which is fitted on the other folds of the log first; "arms"
            predicts each action's own mean, which is robust and knows no context.
        folds: of that fit.
        columns: where the log has other names: ours -> its own. ``{"arms": catalogue}`` lets an
            encoder fill in the arms of a raw log (:meth:`heavytail.encoding.Encoder.catalogue`).
        default_reward: what a reward that never came counts as.
        explore: share of uniform draws that the target is mixed with.
        draws: per row, for a policy that draws and does not know its probabilities.
        clip: M of "clipped", "switch-dr", "dros" and "bernstein"; the root of the number of rows
            if None.
        smoothing: lambda of "ls" and "lse"; read off the log if None.
        reward_range: least and largest reward there can be; then both bounds can be had.
        reward_floor: a number that no reward can be below.
        propensities: None for the log's own; "frequencies" estimates them by how often each action
            was played; a callable of Rows, or an array over the whole log.
        growing: the log is evaluated while it grows, and all of these bounds are to hold at once;
            each is a little lower then.
        dask: a client, an address or True: chunks are summarised there, with equal results.
    """
    plan, source = plan_of(
        "evaluate", Source(log, columns, default_reward), method=method, mean=mean,
        interval=interval, tail=tail, level=level, model=model, folds=folds, clip=clip,
        reward_range=reward_range, reward_floor=reward_floor, propensities=propensities,
    )  # fmt: skip
    if smoothing is not None:
        smoothing = Check("evaluate").number("smoothing", smoothing, above=0.0)
    target = target_of(policy, explore, draws)
    call = functools.partial(summarise, target=target, plan=plan)
    summary = merged(source.naming(policy).map(call, dask))
    target.finish(summary.rows)
    count = source.count()
    return finish(
        summary, plan, mean=mean, tail=tail, level=level, smoothing=smoothing,
        horizon=None if growing else count.rows, asked=propensities, notes=target.notes,
        waiting=count.waiting,
    )  # fmt: skip


def target_of(policy: Any, explore: float, draws: int | None) -> Target:
    """What gives probabilities; without a policy those that the log carries."""
    return Target("target" if policy is None else policy, explore=explore, draws=draws)


def plan_of(who: str, source: Source, **given: Any) -> tuple[Plan, Source]:
    """The checked arguments as a plan, and the log, held where it must be read more than once."""
    check = Check(who)
    check.number("level", given["level"], above=0.0, below=1.0)
    check.choice("mean", given["mean"], means.MEANS)
    name = check.choice("method", given["method"], ("auto", *METHODS))
    interval = given["interval"]
    if interval is not None:
        check.choice("interval", interval, INTERVALS)
    method = METHODS[name if name != "auto" else "snips" if given["model"] is None else "dr"]
    if method.model and given["model"] is None:
        raise ValueError(f"{who}: method {method.name!r} needs a model=; got None.")
    if interval == "huber" and method.name not in UNBIASED:
        raise ValueError(f"{who}: interval 'huber' is that of {', '.join(UNBIASED)} alone.")
    _check_tail(who, interval, given["tail"])
    floor, ceiling = _range(check, given["reward_range"], given["reward_floor"])
    if interval == "bernstein" and ceiling is None:
        raise ValueError(f"{who}: interval 'bernstein' needs reward_range=(least, largest).")
    clip = math.inf
    if method.clips or interval == "bernstein":
        clip = _clip(check, given["clip"], source)
    elif given["clip"] is not None:
        raise ValueError(
            f"{who}.clip is used by 'clipped', 'switch-dr', 'dros' and 'bernstein' alone."
        )
    folds = check.count("folds", given["folds"], least=2)
    if (
        isinstance(given["model"], str)
        or hasattr(given["model"], "predict")
        or isinstance(given["propensities"], str)
    ):
        source = source.held()
    model = as_model(given["model"], source, folds) if method.model else None
    propensities = as_propensities(given["propensities"], source)
    return Plan(method.name, interval, clip, floor, ceiling, model, propensities), source


def _check_tail(who: str, interval: str | None, tail: Any) -> None:
    if interval == "catoni" and tail is None:
        raise ValueError(
            f"{who}: interval 'catoni' needs tail=MomentBound(order, scale), a bound on the moment "
            "E|X - V|^order of the weighted rewards X. interval='huber' needs none, and is "
            "approximate."
        )
    if tail is not None and not isinstance(tail, MomentBound):
        raise TypeError(f"{who}.tail must be a MomentBound or None; got {shown(tail)}.")


def _range(check: Check, both: Any, floor: Any) -> tuple[float, float | None]:
    if both is None:
        return check.number("reward_floor", floor), None
    if not isinstance(both, tuple | list) or len(both) != 2:
        raise TypeError(f"{check.owner}.reward_range must be (least, largest); got {shown(both)}.")
    low = check.number("reward_range[0]", both[0])
    return low, check.number("reward_range[1]", both[1], above=low)


def _clip(check: Check, clip: Any, source: Source) -> float:
    if clip is not None:
        return check.number("clip", clip, above=0.0)
    rows = source.length()
    if rows is None:
        raise ValueError(
            f"{check.owner}: how many rows the log has is not known before it is read, so clip= "
            "must be stated; with n rows it is sqrt(n) otherwise."
        )
    return math.sqrt(max(rows, 1))


def point(
    summary: Summary, plan: Plan, mean: str, level: float, tail: Any, smoothing: float | None
) -> means.Estimate:
    """The estimate of a summary."""
    cells = summary.pairs.cells()
    if METHODS[plan.method].weights and not float(np.sum(cells.u)) > 0.0:
        return means.Estimate(math.nan, math.nan)  # no row has weight
    if METHODS[plan.method].one_sign:
        assert summary.values is not None
        lam = smoothing or estimates.smoothing(summary.values, 1.0 - level)
        end = estimates.log_smoothing if plan.method == "ls" else estimates.log_sum_exp
        return means.Estimate(end(summary.values, lam) + plan.floor, math.nan)
    bound = tail if isinstance(tail, MomentBound) else None
    if mean == "catoni":
        return means.catoni_mean(cells, 1.0 - level, bound)
    if mean == "huber":
        return means.skew_corrected(cells)
    if mean == "plain":
        return means.plain_mean(cells)
    end_of_blocks = means.median_of_means if mean == "median-of-means" else means.minsker_ndaoud
    return end_of_blocks(summary.blocks)


def bounds(
    summary: Summary,
    plan: Plan,
    tail: MomentBound | None,
    level: float,
    horizon: int | None,
    seen: TailReport | None,
) -> tuple[float | None, float | None, intervals.Sequence | None]:
    """Lower and upper bound, and the lower one's course."""
    alpha = 1.0 - level
    values = summary.values
    if plan.interval is None or values is None:
        return None, None, None
    if plan.interval == "huber":
        found = means.skew_corrected(summary.pairs.cells())
        hidden = intervals.hidden_mean(found.beyond, 0.0 if seen is None else seen.low)
        return *intervals.huber_interval(found, hidden, level), None
    if plan.interval == "catoni":
        sketch = summary.pseudo if summary.pseudo is not None else values
        assert tail is not None
        return *intervals.catoni(sketch, tail, alpha, horizon), None
    side = alpha if plan.ceiling is None else alpha / 2.0
    if plan.interval == "bernstein":
        return *_bernstein(summary, plan, side), None
    course = intervals.betting_lower(values, side, horizon, summary.paid)
    upper = None
    if summary.above is not None and plan.ceiling is not None:
        upper = plan.ceiling - intervals.betting_lower(summary.above, side, horizon).best
    return plan.floor + course.best, upper, course


def _bernstein(summary: Summary, plan: Plan, delta: float) -> tuple[float, float]:
    """min(w, M) (r - floor) and min(w, M) (ceiling - r) lie in [0, M width] and their means are at
    most V - floor and ceiling - V.
    """
    assert plan.ceiling is not None
    most = plan.clip * (plan.ceiling - plan.floor)
    s = summary.moments
    low = intervals.bernstein_lower(summary.rows, s[0], s[1], most, delta)
    high = intervals.bernstein_lower(summary.rows, s[2], s[3], most, delta)
    return plan.floor + low, plan.ceiling - high


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
    *,
    mean: str,
    tail: Any,
    level: float,
    smoothing: float | None,
    horizon: int | None,
    asked: Any = None,
    notes: tuple[str, ...] = (),
    waiting: int = 0,
) -> Evaluation:
    """The evaluation of a summary."""
    summary.check_unit()
    found = point(summary, plan, mean, level, tail, smoothing)
    sketch = summary.pseudo if summary.pseudo is not None else summary.values
    looked = advice.diagnostics(summary)
    seen = tail_of(sketch, looked["effective_size"])
    lower, upper, course = bounds(summary, plan, tail, level, horizon, seen)
    evaluation = Evaluation(
        value=found.value,
        lower=lower,
        upper=upper,
        lower_reason="" if lower is not None else advice.no_lower(plan),
        upper_reason="" if upper is not None else advice.no_upper(plan, summary),
        level=level,
        method=plan.method,
        mean="smoothed" if METHODS[plan.method].one_sign else mean,
        interval=plan.interval,
        rows=summary.rows,
        tail=seen,
        error=found.error,
        advice=(),
        waiting=waiting,
        plain=point(summary, plan, "plain", level, tail, smoothing).value,
        _rows=np.empty(0) if course is None else course.rows,
        _path=np.empty(0) if course is None else np.maximum.accumulate(course.lower) + plan.floor,
        **looked,
    )
    limited = advice.at_limit(summary, plan, evaluation.half_side)
    said = advice.sentences(evaluation, asked, found.side, limited)
    return replace(evaluation, advice=(*notes, *said))
