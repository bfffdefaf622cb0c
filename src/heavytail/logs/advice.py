"""Diagnostics of an estimate from a log: what its weights show, and sentences about it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.logs.bounds import Betting
from heavytail.logs.results import ALL, Evaluation
from heavytail.logs.sketch import Sketch
from heavytail.logs.summary import Plan, Summary

__all__ = [
    "APPROXIMATE",
    "diagnostics",
    "error_share",
    "explored",
    "no_lower",
    "no_upper",
    "sentences",
]

Z95 = 1.96
SURE = 0.001  # probability with which a sentence that rests on a test may be false
ROOM = math.log(2.0 / SURE)  # log of the wealth that proves a mean weight wrong, on either side
STEPS: FloatArray = np.arange(-9.0, 10.0)  # bets against a mean weight, in octaves
FEW = 100.0  # effective rows below which an estimate is called rough
DOMINANT = 0.1  # share of the total that one row may have
TAKEN = 0.1  # share of the plain mean that clipping takes before it is mentioned
TOP = 0.01
CARRIERS = 30  # rows below which half of the total is said to depend on few
SPREADERS = 10  # the same of the sum of squares
MANY = 0.1  # of the effective rows are not few
CLIPPING = ("huber", "catoni")  # means
ABOUT = 1.25  # times as large are weights that are about as large
ONE_SIDED = 0.9  # of the half that few rows carry, net of signs, before a side is named
APPROXIMATE = "The interval takes the tail to go on as this log shows it: no guarantee."


def diagnostics(summary: Summary) -> dict[str, Any]:
    """Effective size, shares, the test of the propensities and the support, by their names."""
    missing, share = _support(summary)
    support: dict[str, Any] = {"unsupported": missing, "unsupported_share": share}
    if summary.weights is None or summary.values is None:
        names = ("effective_size", "largest_share", "top_share")
        none = dict.fromkeys(names, math.nan)
        none |= {"half_rows": 0, "half_side": 0.0, "square_rows": 0}
        return {**support, **none, "mean_weight": (math.nan,) * 3, "propensities_ok": True}
    cells = summary.weights.cells()
    total = float(cells.count @ cells.mean)
    square = float(cells.count @ (cells.variance + cells.mean**2))
    mean, effective = total / summary.rows, total * total / square if square > 0.0 else 0.0
    error = math.sqrt(max(square / summary.rows - mean * mean, 0.0) / summary.rows)
    known = 1.0 - (0.0 if math.isnan(share) else share)  # 1 where only chance left actions out
    values = summary.values if summary.pseudo is None else summary.pseudo
    largest, top = _shares(values)
    carriers, side = half_rows(values)
    return {
        **support,
        "effective_size": effective,
        "largest_share": largest,
        "top_share": top,
        "half_rows": carriers,
        "half_side": side,
        "square_rows": half_rows(values, 2.0)[0],
        "mean_weight": (mean, mean - Z95 * error, mean + Z95 * error),
        "propensities_ok": max(
            log_wealth(summary.weights, 1.0, 1.0), log_wealth(summary.weights, known, -1.0)
        )
        <= ROOM,
    }


def log_wealth(weights: Sketch, mean: float, side: float) -> float:
    """log of what bets on weights above ``mean`` (side 1), or below it (side -1), made of 1.

    If their mean is ``mean``, prod (1 + side b (w - mean)) is the wealth of one who bets on a fair
    game, as long as no factor can be negative. The wealth is shared out, 1/(1 + k²) of it to the
    bet 2^k sqrt(2 log(2/SURE)/n), at most 1/2. Above, no factor is negative whatever the weights
    (mean <= 1), and the wealth reaches 2/SURE with probability SURE/2 at most.

    Below, a factor is negative at weights above mean + 1/b, and nothing bounds weights: no test of
    a mean below 1 has a level, as the rows that would make it 1 may all be missing. A bet that met
    such a weight is lost. Where the log has the largest weight that there can be, those left can
    never be lost: so the wealth reaches 2/SURE *and* no larger weight is possible with probability
    SURE/2 at most, which is what the sentence says. In cells, from below.
    """
    if mean <= 0.0:
        return 0.0
    cells = weights.cells()
    most = math.sqrt(2.0 * ROOM / float(cells.count.sum()))
    bets = side * np.minimum(2.0**STEPS * most, 0.5)[:, None]
    shares = 1.0 / (1.0 + STEPS**2)
    least = 1.0 + bets * ((cells.high if side < 0.0 else cells.low) - mean)
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = (bets / least) ** 2 * cells.variance
        gain = (np.log1p(bets * (cells.mean - mean)) - 0.5 * bend) @ cells.count
    wealth = np.where((least > 0.0).all(axis=1), gain, -np.inf)
    return float(np.logaddexp.reduce(wealth + np.log(shares / shares.sum())))


def half_rows(sketch: Sketch, power: float = 1.0) -> tuple[int, float]:
    """Count the largest rows that have half of the sum of |X|^power, and say what part of theirs is
    left when signs are kept: 1 where all are gains, -1 where all are losses.
    """
    cells = sketch.cells()
    size = np.abs(cells.mean)
    most = float(np.max(size, initial=0.0))
    if not most > 0.0:
        return 0, 0.0
    order = np.argsort(-size, kind="stable")
    each, count = (size[order] / most) ** power, cells.count[order]
    through = np.cumsum(count * each)
    half = 0.5 * through[-1]
    last = int(np.searchsorted(through, half))
    taken = np.where(np.arange(len(count)) < last, count, 0.0)
    taken[last] = math.ceil((half - taken @ each) / each[last])
    part = taken * each
    return int(taken.sum()), float(part @ np.sign(cells.mean[order]) / part.sum())


def _shares(sketch: Sketch) -> tuple[float, float]:
    """The shares of the largest row, and of the largest 1 % of the rows, in the sum of |X|."""
    cells = sketch.cells()
    size = np.abs(cells.mean)
    total = float(cells.count @ size)
    if not total > 0.0:
        return 0.0, 0.0
    largest = float(np.max(np.maximum(np.abs(cells.low), np.abs(cells.high)))) / total
    order = np.argsort(-size, kind="stable")
    wanted = max(TOP * float(cells.count.sum()), 1.0)
    before = np.cumsum(cells.count[order]) - cells.count[order]
    taken = np.clip(wanted - before, 0.0, cells.count[order])
    return min(largest, 1.0), float(taken @ size[order]) / total


def _support(summary: Summary) -> tuple[tuple[int | str, ...], float]:
    """Actions that the target plays and the log never has, and the target's probability of them
    and of what the log could not play in a row by its own probabilities.
    """
    if summary.mass is None:
        return (), math.nan
    played = np.pad(summary.played, (0, max(len(summary.mass) - len(summary.played), 0)))
    never = (summary.mass > 0.0) & (played[: len(summary.mass)] == 0.0)
    lost = float(summary.mass[never].sum())
    if summary.blocked is not None:
        lost += float(summary.blocked[~never[: len(summary.blocked)]].sum())
    names = summary.actions
    missing = (int(k) if names is None else names[k] for k in np.flatnonzero(never))
    return tuple(missing), lost / summary.rows


def no_lower(plan: Plan) -> str:
    """The reason why there is no lower bound."""
    if plan.bound is None:
        return "bound=None"
    return "without propensities nothing bounds a model's error"


def no_upper(plan: Plan, summary: Summary) -> str:
    """The reason why there is no upper bound, and what would give one."""
    if not isinstance(plan.bound, Betting) or summary.values is None:
        return no_lower(plan)
    return (
        "a reward that is large and rare enough is in no log. State the rewards' range by "
        "bound=Betting(floor, ceiling), or a moment of the weighted rewards by "
        "bound=Catoni(MomentBound(...)), or take bound='huber', which is approximate"
    )


def at_limit(summary: Summary, plan: Plan, side: float) -> bool:
    """Tell whether a row of the target's has the largest reward (side 1) or the least one (side -1)
    that was said to be possible.
    """
    if summary.weights is None or summary.values is None:
        return False
    stated = summary.above is not None or (bool(plan.needs_floor) and side < 0.0)
    room = summary.above if side > 0.0 else summary.values  # w times the distance to the limit
    return stated and room is not None and _zeros(room) > _zeros(summary.weights)


def explored(summary: Summary) -> bool | None:
    """Tell whether even draws of all actions would give weights about as large, so that exploring
    more would gain nothing; None where the target's probabilities of all actions are not known.

    Compared is what w is on average over the target's own plays, sum w²/sum w.
    """
    if summary.weights is None or summary.even is None:
        return None
    cells = summary.weights.cells()
    total = float(cells.count @ cells.mean)
    square = float(cells.count @ (cells.variance + cells.mean**2))
    return square * summary.rows <= ABOUT * summary.even * total


def _zeros(sketch: Sketch) -> float:
    cells = sketch.cells()
    return float(cells.count[cells.mean == 0.0].sum())


def sentences(
    found: Evaluation,
    propensities: object,
    clipped_side: float,
    limited: bool,
    even: bool | None = None,
) -> tuple[str, ...]:
    """Sentences on what to think of an evaluation, warnings first.

    ``clipped_side`` is that of the large rows (:class:`heavytail.logs.means.Estimate`);
    ``limited`` says that no reward can be larger than the rows that have half of the sum
    (:func:`at_limit`); ``even`` is that of :func:`explored`.
    """
    said = [*_about_weights(found, even), *_about_rewards(found, clipped_side, limited)]
    if found.waiting:
        said.insert(0, _about_silence(found.waiting))
    if isinstance(propensities, str):  # "frequencies"
        said.insert(
            0,
            "The propensities are the actions' frequencies: if the log's policy looked at the "
            "context, value and bounds may be wrong, and the mean weight can show it only for a "
            "target that looks at the context, too.",
        )
    if found.interval == "huber":
        said.append(APPROXIMATE)
    if found.method == "dm":
        said.append("The direct method is as good as its model; no row corrects it.")
    if found.method == "clipped":
        said.append("Clipping weights does not tame large rewards, and pulls the value to 0.")
    said += _about_order(found)
    if not said:
        said.append(_nothing(found))
    return tuple(said)


def _nothing(evaluation: Evaluation) -> str:
    """The sentence for a log that gives no reason to doubt the value."""
    if evaluation.tail is not None and evaluation.tail.low > 2.0:
        return "Weights, support and tail give no reason for doubt."
    return (
        "Weights and support give no reason for doubt. Whether the variance is finite is not known."
    )


def _about_silence(waiting: int) -> str:
    who = "1 decision waits for its" if waiting == 1 else f"{waiting:,} decisions wait for their"
    are = "is" if waiting == 1 else "are"
    return (
        f"{who} reward and {are} left out, as if silence said nothing. If it means that nothing "
        "was earned, pass default_reward=0.0."
    )


def _about_order(found: Evaluation) -> list[str]:
    """A sentence if the value lies below its lower bound: clipping explains it if the plain mean
    lies above. None if the propensities are wrong, since the bound rests on them.
    """
    if found.lower is None or not found.value < found.lower or not found.propensities_ok:
        return []
    words = f"The estimate lies below its own lower bound, {found.lower:.4g}"
    if found.plain >= found.lower:
        less = "were clipped" if found.mean in CLIPPING else "count in part, or not at all"
        return [f"{words}, which is the better guess: a few large rows {less}."]
    stated = "or the stated moment is wrong, " if found.interval == "catoni" else ""
    words += (
        f": either it is too low, {stated}or this is one of the at most "
        f"{error_share(found.level)} of logs in which such a bound is too high."
    )
    mean = found.mean_weight[0]
    if found.method == "snips" and mean > 1.0:
        words += f" A mean weight of {mean:.3g} raises the bound and not the estimate."
    return [words]


def error_share(level: float) -> str:
    """The share of logs in which a bound of this level may be wrong, in per cent."""
    return f"{100.0 * (1.0 - level):.3g}%"


def _about_weights(found: Evaluation, even: bool | None) -> list[str]:
    said = []
    mean = found.mean_weight[0]
    if not found.propensities_ok and mean > 1.0:
        said.append(
            f"The mean weight is {mean:.3g} and cannot be above 1 but by chance, which a test at "
            "0.1 % rules out: the logged propensities, or the target's probabilities, are wrong. "
            "Trust nothing here before that is explained."
        )
    elif not found.propensities_ok:
        said.append(
            f"The mean weight is {mean:.3g} and should be 1. Either rows of larger weight than any "
            "of this log's are missing (the target plays what the log could not play, or so rarely "
            "that it shows none), or the propensities are wrong: a test at 0.1 % rules out "
            "anything else."
        )
    if found.unsupported:
        some = ", ".join(map(str, found.unsupported[:5]))
        more = ", ..." if len(found.unsupported) > 5 else ""
        which, pays = "an action that the log never has (action", "it pays"
        if len(found.unsupported) > 1:
            which, pays = "actions that the log never has (actions", "they pay"
        said.append(
            f"The target plays {which} {some}{more}), with probability "
            f"{found.unsupported_share:.1%}: what {pays} cannot be known from it."
        )
    elif found.unsupported_share > 0.0:
        said.append(
            f"With probability {found.unsupported_share:.1%} the target plays what the log could "
            "not play in that row: what it pays there cannot be known from it."
        )
    if found.effective_size < FEW:
        words = f"The {found.rows:,} rows are worth {found.effective_size:.0f} of the target's own"
        if found.effective_size < 0.5 * found.rows:
            words += f": the two policies differ much. {_what_to_log(found, even)}"
        said.append(words.removesuffix(".") + ".")
    return said


def _what_to_log(found: Evaluation, even: bool | None) -> str:
    """Advise how to log more rows that the target would have played."""
    if found.unsupported_share > 0.0 or even is False:
        return "Log with more exploration."
    if even is None or not found.propensities_ok:
        return "Log more rows, or with more exploration."
    return "Log more rows."


def _side(gain: float) -> str:
    """The side on which a value lies if it misses large gains, or large losses."""
    return "low" if gain > 0.0 else "high"


def _about_rewards(found: Evaluation, clipped_side: float, limited: bool) -> list[str]:
    said = []
    if found.half_rows == 0 and found.effective_size > 0.0:
        said.append(
            "No row with an action of the target's paid anything: whether it pays nothing or "
            "rarely, this log cannot say."
        )
    if found.largest_share > DOMINANT:
        said.append(f"One row has {found.largest_share:.0%} {ALL}.")
    few = MANY * found.effective_size
    if 0 < found.half_rows < min(CARRIERS, few):
        words = f"Half {ALL} is in {found.half_rows} of the {found.rows:,} rows"
        if abs(found.half_side) >= ONE_SIDED and not limited:
            larger = "gains" if found.half_side > 0.0 else "losses"
            words += f": if there are larger {larger}, too rare for this log, the value lies "
            words += _side(found.half_side)
        said.append(words + ".")
    missed = found.plain - found.value
    if found.mean == "huber" and abs(missed) > TAKEN * abs(found.plain):
        words = "The largest rows count in part; in full, the mean is "
        words += f"{found.plain:.4g}, and hangs on them."
        if missed * clipped_side > 0.0:
            words += " Over many logs, a value in which they count in part lies "
            words += f"{_side(missed)}: nearly all large rows stand on one side."
        said.append(words)
    bounded = found.upper is not None and found.interval in ("betting", "bernstein")
    if 0 < found.square_rows < min(SPREADERS, few) and not bounded:
        has = "row has" if found.square_rows == 1 else "rows have"
        said.append(
            f"{found.square_rows} {has} half of the sum of squares: the variance that this log "
            "shows hangs on that. Take no normal or bootstrap interval."
        )
    return said
