"""How far to trust an estimate from a log: what the weights say, and sentences about it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heavytail.logs.results import Evaluation
from heavytail.logs.sketch import Sketch
from heavytail.logs.summary import Plan, Summary

__all__ = ["APPROXIMATE", "diagnostics", "no_lower", "no_upper", "sentences"]

Z95 = 1.96
Z999 = 3.29  # propensities are called wrong only beyond this many standard errors
FEW = 100.0  # effective rows below which an estimate is called rough
DOMINANT = 0.1  # share of the total that one row may have
TOP = 0.01
APPROXIMATE = "The interval takes the tail to go on as this log shows it: no guarantee."


def diagnostics(summary: Summary) -> dict[str, Any]:
    """Effective size, shares, the test of the propensities and the support, by their names."""
    missing, share = _support(summary)
    found: dict[str, Any] = {"unsupported": missing, "unsupported_share": share}
    if summary.weights is None or summary.values is None:
        none = {"effective_size": math.nan, "largest_share": math.nan, "top_share": math.nan}
        return {**found, **none, "mean_weight": (math.nan,) * 3, "propensities_ok": True}
    n, total, square, _ = summary.weights
    mean = total / n
    error = math.sqrt(max(square / n - mean * mean, 0.0) / n)
    least = 1.0 - (0.0 if math.isnan(share) else share)  # 1 where only chance left actions out
    off = max(least - mean, mean - 1.0, 0.0)
    largest, top = _shares(summary.values if summary.pseudo is None else summary.pseudo)
    return {
        **found,
        "effective_size": total * total / square if square > 0.0 else 0.0,
        "largest_share": largest,
        "top_share": top,
        "mean_weight": (float(mean), float(mean - Z95 * error), float(mean + Z95 * error)),
        "propensities_ok": bool(off <= Z999 * error + 1e-6),
    }


def _shares(sketch: Sketch) -> tuple[float, float]:
    """What the largest row, and the largest 1 % of the rows, have of the sum of |X|."""
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


def _support(summary: Summary) -> tuple[tuple[int, ...], float]:
    """Actions that the target plays and the log never has, and their probability."""
    if summary.mass is None:
        return (), math.nan
    played = np.pad(summary.played, (0, max(len(summary.mass) - len(summary.played), 0)))
    missing = np.flatnonzero((summary.mass > 0.0) & (played[: len(summary.mass)] == 0.0))
    return tuple(int(k) for k in missing), float(summary.mass[missing].sum()) / summary.rows


def no_lower(plan: Plan) -> str:
    """Why there is no lower bound."""
    if plan.interval is None:
        return "interval=None"
    return "without propensities nothing bounds a model's error"


def no_upper(plan: Plan, summary: Summary) -> str:
    """Why there is no upper bound, and what would give one."""
    if plan.interval != "betting" or summary.values is None:
        return no_lower(plan)
    return (
        "a reward that is large and rare enough is in no log. State reward_range=, or a moment of "
        "the weighted rewards by interval='catoni', tail=MomentBound(...), or take "
        "interval='huber', which is approximate"
    )


def sentences(found: Evaluation, propensities: Any) -> tuple[str, ...]:
    """What to think of an evaluation, warnings first."""
    said = [*_about_weights(found), *_about_rewards(found)]
    if found.waiting:
        said.insert(0, _about_silence(found.waiting))
    if isinstance(propensities, str):  # "frequencies"
        said.insert(
            0,
            "The propensities are the actions' frequencies: if the log's policy looked at the "
            "context, value and bounds are wrong, and the mean weight cannot show it.",
        )
    if found.interval == "huber":
        said.append(APPROXIMATE)
    if found.method == "dm":
        said.append("The direct method is as good as its model; no row corrects it.")
    if found.method == "clipped":
        said.append("Clipping weights does not tame large rewards, and pulls the value to 0.")
    if found.lower is not None and found.value < found.lower:
        said.append(
            f"The estimate lies below its own lower bound, {found.lower:.4g}, which is the better "
            "guess: a few large rows were clipped."
        )
    if not said:
        said.append("Weights, support and tail give no reason for doubt.")
    return tuple(said)


def _about_silence(waiting: int) -> str:
    who = "1 decision waits for its" if waiting == 1 else f"{waiting:,} decisions wait for their"
    are = "is" if waiting == 1 else "are"
    return (
        f"{who} reward and {are} left out, as if silence said nothing. If it means that nothing "
        "was earned, pass default_reward=0.0."
    )


def _about_weights(found: Evaluation) -> list[str]:
    said = []
    mean, low, high = found.mean_weight
    if not found.propensities_ok:
        said.append(
            f"The mean weight is {mean:.3g} ({low:.3g} to {high:.3g}) and should be 1: the logged "
            "propensities, or the target's probabilities, are wrong. Trust nothing here before "
            "that is explained."
        )
    elif high < 1.0 and not found.unsupported:
        said.append(
            f"The mean weight is {mean:.3g} ({low:.3g} to {high:.3g}) and should be 1: in some "
            "rows the log could not play what the target plays, and says nothing about those."
        )
    if found.unsupported:
        some = ", ".join(map(str, found.unsupported[:5]))
        more = ", ..." if len(found.unsupported) > 5 else ""
        said.append(
            f"The target plays actions that the log never has ({some}{more}), with probability "
            f"{found.unsupported_share:.1%}: what they pay cannot be known from it."
        )
    if found.effective_size < FEW:
        said.append(
            f"The {found.rows:,} rows are worth {found.effective_size:.0f} of the target's own: "
            "the two policies differ much. Log with more exploration."
        )
    return said


def _about_rewards(found: Evaluation) -> list[str]:
    said = []
    if found.largest_share > DOMINANT:
        said.append(f"One row has {found.largest_share:.0%} of the total.")
    bounded = found.upper is not None and found.interval in ("betting", "bernstein")
    if found.tail is not None and found.tail.index <= 2.0 and not bounded:
        said.append(
            f"The weighted rewards' tail index is about {found.tail.index:.2f}: their variance is "
            "infinite, and normal or bootstrap intervals are far too short."
        )
    return said
