"""``select``: the best of many policies on one log, with what can be promised of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from heavytail._validate import Check, shown
from heavytail.logs import estimates
from heavytail.logs.estimates import METHODS
from heavytail.logs.evaluating import finish, plan_of, target_of
from heavytail.logs.means import skew_corrected
from heavytail.logs.models import as_model
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import Source, merged
from heavytail.logs.results import Evaluation, Selection
from heavytail.logs.sketch import Pairs
from heavytail.logs.summary import Plan, Summary, look, modelled, of_seen
from heavytail.logs.target import Target

__all__ = ["select"]

MODELLED = ("dm", "dros", "switch-dr")  # estimates with a model that propose a policy, too
FOLDS = 2  # of that model


def select(
    log: Any,
    policies: Mapping[Any, Any] | Sequence[Any],
    *,
    by: str = "bound",
    model: Any = "arms",
    level: float = 0.95,
    scale: float | None = None,
    columns: Mapping[str, Any] | None = None,
    default_reward: float | None = None,
    explore: float = 0.0,
    draws: int | None = None,
    reward_floor: float = 0.0,
    propensities: Any = None,
    dask: Any = None,
) -> Selection:
    """The best of ``policies``, all judged in one pass over ``log``.

    Whatever it is chosen by, the lower bounds hold for all m policies at once with probability
    ``level``, hence for the chosen one: each is a betting sequence at (1 - level)/m.

    - "bound": the estimates propose and the bound decides. The default estimate of
      :func:`heavytail.evaluate`, and with ``model`` "dm", "dros" and "switch-dr" (M the root of the
      number of rows), each propose the policy that they think best; of these, the one with the
      largest lower bound is chosen. No estimate is best everywhere, and this rule stays near the
      best one where measured.
    - "value": the default estimate of :func:`heavytail.evaluate`.
    - "ls": logarithmic smoothing at one common lambda = sqrt(2 log(2m/delta)/n)/scale. If
      ``scale`` is stated beforehand, then with probability 1 - delta the best policy is better
      than the chosen one by at most lambda S + 2 log(2m/delta)/(lambda n), where
      S = E[X²/(1 + lambda X)] is the best one's (Sakhi, Aouali, Alquier and Chopin 2024).
    - "lower": the lower bound itself; cautious.

    Args:
        log: as in evaluate.
        policies: by name, or a list; each as in evaluate.
        by: "bound", "value", "ls" or "lower".
        model: of "bound": "arms" (each action's robust mean), a callable or a regressor as in
            evaluate, None for none. The log is read once more for it, so that none is used with an
            iterator, nor where a target's probabilities of the logged actions alone are known.
        level: 1 - delta.
        scale: a typical size of the weighted rewards, for lambda; None takes the median over
            policies of their root mean square, and the guarantee of "ls" is then approximate.
        columns: as in evaluate.
        default_reward: as in evaluate.
        explore: as in evaluate.
        draws: as in evaluate.
        reward_floor: a number that no reward can be below.
        propensities: as in evaluate.
        dask: as in evaluate.
    """
    check = Check("select")
    check.choice("by", by, ("bound", "value", "ls", "lower"))
    named = _named(policies)
    if not named:
        raise ValueError("select.policies must have at least one policy; got none.")
    if any(isinstance(policy, str) for policy in named.values()):
        raise TypeError("select: pass policies as callables or arrays, not as names of columns.")
    plan, source = plan_of(
        "select", Source(log, columns, default_reward), method="snips", mean="huber",
        interval="betting", tail=None, level=level, model=None, folds=2, clip=None,
        reward_range=None, reward_floor=reward_floor, propensities=propensities,
    )  # fmt: skip
    targets = tuple(target_of(policy, explore, draws) for policy in named.values())
    count = source.count()
    fitted = None
    if by == "bound" and count.rows is not None:
        fitted = as_model(model, source, FOLDS)
    call = functools.partial(
        _all, targets=targets, plan=plan, model=fitted, clip=math.sqrt(max(count.rows or 1, 1))
    )
    parts = merged(source.map(call, dask))
    summaries, pairs = parts[: len(named)], parts[len(named) :]
    for target in targets:
        target.finish(summaries[0].rows)
    each = 1.0 - (1.0 - level) / len(named)
    found = [
        finish(one, plan, mean="huber", tail=None, level=each, smoothing=None,
               horizon=count.rows, asked=propensities, notes=target.notes, waiting=count.waiting)
        for one, target in zip(summaries, targets, strict=True)
    ]  # fmt: skip
    if scale is not None:
        scale = check.number("scale", scale, above=0.0)
    guesses = {"snips": [one.value for one in found]}
    for i, method in enumerate(MODELLED[: len(pairs)]):
        guesses[method] = [skew_corrected(p.cells()).value for p in pairs[i :: len(MODELLED)]]
    proposals = {method: _best(np.array(values)) for method, values in guesses.items()}
    return _chosen(list(named), summaries, found, plan, by, level, scale, proposals)


def _named(policies: Any) -> dict[Any, Any]:
    """Policies by their names, or by their places in a list."""
    if isinstance(policies, Mapping):
        return dict(policies)
    flat = isinstance(policies, np.ndarray) and policies.ndim != 3
    if flat or isinstance(policies, str | bytes) or not isinstance(policies, Iterable):
        raise TypeError(
            "select.policies must be a dict of policies by name, or a list of them; got "
            f"{shown(policies)}. One policy alone is for ht.evaluate."
        )
    return dict(enumerate(policies))


def _all(
    rows: Rows, targets: tuple[Target, ...], plan: Plan, model: Any, clip: float
) -> tuple[Summary | Pairs, ...]:
    """The summary of every target, then of every target the terms of each estimate with a model."""
    looks = [look(rows, target, plan) for target in targets]
    summaries = tuple(of_seen(seen, plan) for seen in looks)
    if model is None or any(seen.mass is None for seen in looks):
        return summaries
    looks = [modelled(seen, model) for seen in looks]
    return summaries + tuple(
        Pairs(*METHODS[method].terms(seen, clip)) for seen in looks for method in MODELLED
    )


def _best(scores: Any) -> int:
    return int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))


def _chosen(
    names: list[Any],
    summaries: Sequence[Summary],
    found: list[Evaluation],
    plan: Plan,
    by: str,
    level: float,
    scale: float | None,
    proposals: Mapping[str, int],
) -> Selection:
    n = summaries[0].rows
    room = math.log(2.0 * len(names) / (1.0 - level))
    strength = math.sqrt(2.0 * room / n) / (scale or _typical(summaries))
    smooth, moments = np.empty(len(names)), np.empty(len(names))
    for i, one in enumerate(summaries):
        assert one.values is not None
        smooth[i] = estimates.log_smoothing(one.values, strength) + plan.floor
        cells = one.values.cells()
        moments[i] = float(cells.count @ (cells.mean**2 / (1.0 + strength * cells.mean))) / n
    values = np.array([one.value for one in found])
    lower = np.array([np.nan if one.lower is None else one.lower for one in found])
    proposed = np.isin(np.arange(len(names)), list(proposals.values()))
    judged = np.where(proposed, lower, np.nan)
    scores = {"bound": judged, "value": values, "ls": smooth, "lower": lower}[by]
    best = _best(scores)
    bound = strength * float(moments.max()) + 2.0 * room / (strength * n)
    said = [f"{names[best]}: {sentence}" for sentence in found[best].advice]
    return Selection(
        chosen=names[best],
        names=tuple(names),
        scores=scores,
        values=values,
        lower=lower,
        smoothing=strength,
        regret_bound=bound if by == "ls" else math.nan,
        level=level,
        rows=n,
        guarantee=_guarantee(names[best], by, level, lower[best], bound, scale),
        advice=tuple(said),
        proposals={method: names[place] for method, place in proposals.items()},
    )


def _typical(summaries: Sequence[Summary]) -> float:
    """The median over policies of the root mean square of their weighted rewards."""
    sizes = []
    for one in summaries:
        assert one.values is not None
        cells = one.values.cells()
        square = cells.count @ (cells.variance + cells.mean**2)
        sizes.append(math.sqrt(float(square) / one.rows))
    return float(np.median(sizes)) or 1.0


def _guarantee(
    name: Any, by: str, level: float, lower: float, bound: float, scale: float | None
) -> str:
    words = f"With probability {level:.0%} {name} earns at least {lower:.4g} per row."
    if by == "ls":
        how = "" if scale is not None else "about (the scale was read off this log) "
        words += f" The best policy earns {how}at most {bound:.4g} more, at the moments seen."
    return words
