"""``select``: the best of many policies on one log, with a guarantee."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import shown
from heavytail.logs import estimates
from heavytail.logs.bounds import Betting, Bound
from heavytail.logs.estimators import DM, SNIPS, DRos, Modelled, SwitchDR, check_model
from heavytail.logs.evaluating import finish, plan_of, target_of
from heavytail.logs.means import skew_corrected
from heavytail.logs.models import Propensities, as_model
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import Source, merged
from heavytail.logs.results import Evaluation, Selection
from heavytail.logs.sketch import Pairs
from heavytail.logs.summary import Plan, Summary, look, modelled, of_seen
from heavytail.logs.target import Chooser, Target
from heavytail.logs.values import Value, as_value, refuse_gone

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["ByBound", "ByLS", "ByLower", "ByValue", "Rule", "select"]

FOLDS = 2  # of the model that proposes


@dataclass(frozen=True, repr=False)
class Rule(Value):
    """The base of the rules that choose the best of many policies."""


@dataclass(frozen=True, repr=False)
class ByBound(Rule):
    """The estimates propose and the bound decides.

    The default estimate of :func:`heavytail.evaluate`, and DM, DRos and SwitchDR with ``model`` (M
    the root of the number of rows), each propose their best policy. The proposal with the largest
    lower bound is chosen. No estimate is best everywhere; in our measurements this rule stays near
    the best one.

    Args:
        model: "arms" (each action's robust mean), a callable or a regressor as of DR, None for
            none. The log is read once more for it. So no model is used with an iterator, or if only
            a target's probabilities of the logged actions are known.
    """

    name: ClassVar[str] = "bound"
    model: object = "arms"

    def __post_init__(self) -> None:
        if self.model is not None:
            check_model("ByBound.model", self.model)


@dataclass(frozen=True, repr=False)
class ByValue(Rule):
    """The largest of the default estimates of :func:`heavytail.evaluate`."""

    name: ClassVar[str] = "value"


@dataclass(frozen=True, repr=False)
class ByLS(Rule):
    """Logarithmic smoothing at one common lambda = sqrt(2 log(2m/delta)/n)/scale.

    If ``scale`` is stated beforehand, then with probability 1 - delta the best policy is better
    than the chosen one by at most lambda S + 2 log(2m/delta)/(lambda n), where
    S = E[X²/(1 + lambda X)] is the best one's (Sakhi, Aouali, Alquier and Chopin 2024).

    Args:
        scale: a typical size of the weighted rewards; None takes the median over policies of their
            root mean square, and the guarantee is then approximate.
    """

    name: ClassVar[str] = "ls"
    scale: float | None = None

    def __post_init__(self) -> None:
        self._check("scale", above=0.0)


@dataclass(frozen=True, repr=False)
class ByLower(Rule):
    """The largest lower bound among all policies; cautious."""

    name: ClassVar[str] = "lower"


RULES: tuple[type[Rule], ...] = (ByBound, ByValue, ByLS, ByLower)


@refuse_gone
def select(
    log: object,
    policies: Mapping[Any, Chooser] | Sequence[Chooser],
    *,
    by: Rule | str = "bound",
    bound: Bound | str = "betting",
    level: float = 0.95,
    columns: Mapping[str, Any] | None = None,
    default_reward: float | None = None,
    propensities: Propensities = None,
    explore: float = 0.0,
    draws: int | None = None,
    dask: Client | str | bool | None = None,
) -> Selection:
    """Choose the best of ``policies``, all evaluated in one pass over ``log``.

    With every rule the lower bounds hold for all m policies at once with probability ``level``,
    hence for the chosen one: each is a betting sequence at (1 - level)/m.

    Args:
        log: as in evaluate.
        policies: by name, or a list; each as in evaluate.
        by: "bound", "value", "ls" or "lower", or one of the rules below.
        bound: ``Betting(floor)``; with a ceiling the lower bounds use half of 1 - level.
        level: 1 - delta, of all lower bounds together.
        columns: as in evaluate.
        default_reward: as in evaluate.
        propensities: as in evaluate.
        explore: as in evaluate.
        draws: as in evaluate.
        dask: as in evaluate.
    """
    rule = as_value("select.by", by, RULES)
    named = _named(policies)
    if not named:
        raise ValueError("select.policies must have at least one policy; got none.")
    source = Source(log, columns, default_reward)
    if any(source.names_column(policy) for policy in named.values()):
        raise TypeError("select: pass policies as callables or arrays, not as names of columns.")
    bound = as_value("select.bound", bound, (Betting,))
    for policy in named.values():
        source = source.naming(policy)
    plan, source = plan_of("select", source, SNIPS(), bound, level, propensities)
    targets = tuple(target_of(policy, explore, draws) for policy in named.values())
    count = source.count()
    judges: tuple[Modelled, ...] = ()
    if isinstance(rule, ByBound) and rule.model is not None and count.rows is not None:
        model, clip = as_model(rule.model, source, FOLDS), math.sqrt(max(count.rows, 1))
        judges = DM(model), DRos(model, clip=clip), SwitchDR(model, clip=clip)
    call = functools.partial(_all, targets=targets, plan=plan, judges=judges)
    parts = merged(source.map(call, dask))
    summaries, pairs = parts[: len(named)], parts[len(named) :]
    for target, result in zip(targets, summaries, strict=False):
        target.finish(result.rows, result.counts)
    each = 1.0 - (1.0 - level) / len(named)
    evaluations = [
        finish(result, plan, each, count, propensities, target.notes)
        for result, target in zip(summaries, targets, strict=True)
    ]
    guesses = {"snips": [result.value for result in evaluations]}
    for i, judge in enumerate(judges if pairs else ()):
        guesses[judge.name] = [skew_corrected(p.cells()).value for p in pairs[i :: len(judges)]]
    proposals = {method: _best(np.array(values)) for method, values in guesses.items()}
    return _chosen(list(named), summaries, evaluations, plan, rule, level, proposals)


def _named(policies: object) -> dict[Any, Any]:
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
    rows: Rows, targets: tuple[Target, ...], plan: Plan, judges: tuple[Modelled, ...]
) -> tuple[Any, ...]:  # Summary of every target, then Pairs
    """The summary of every target, then of every target the terms of each estimate with a model."""
    looks = [look(rows, target, plan) for target in targets]
    summaries = tuple(of_seen(seen, plan) for seen in looks)
    if not judges or any(seen.mass is None for seen in looks):
        return summaries
    looks = [modelled(seen, judges[0].model) for seen in looks]
    return summaries + tuple(Pairs(*judge.terms(seen)) for seen in looks for judge in judges)


def _best(scores: FloatArray) -> int:
    return int(np.argmax(np.where(np.isnan(scores), -np.inf, scores)))


def _chosen(
    names: list[Any],
    summaries: Sequence[Summary],
    found: list[Evaluation],
    plan: Plan,
    rule: Rule,
    level: float,
    proposals: Mapping[str, int],
) -> Selection:
    n, scale = summaries[0].rows, rule.scale if isinstance(rule, ByLS) else None
    room = math.log(2.0 * len(names) / (1.0 - level))
    strength = math.sqrt(2.0 * room / n) / (scale or _typical(summaries))
    smooth, moments = np.empty(len(names)), np.empty(len(names))
    for i, result in enumerate(summaries):
        assert result.values is not None
        smooth[i] = estimates.log_smoothing(result.values, strength) + plan.floor
        cells = result.values.cells()
        moments[i] = float(cells.count @ (cells.mean**2 / (1.0 + strength * cells.mean))) / n
    values = np.array([result.value for result in found])
    lower = np.array([np.nan if result.lower is None else result.lower for result in found])
    proposed = np.isin(np.arange(len(names)), list(proposals.values()))
    judged = np.where(proposed, lower, np.nan)
    scores = {"bound": judged, "value": values, "ls": smooth, "lower": lower}[rule.name]
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
        regret_bound=bound if isinstance(rule, ByLS) else math.nan,
        level=level,
        rows=n,
        guarantee=_guarantee(names[best], rule, level, lower[best], bound),
        advice=tuple(said),
        proposals={method: names[place] for method, place in proposals.items()},
    )


def _typical(summaries: Sequence[Summary]) -> float:
    """The median over policies of the root mean square of their weighted rewards."""
    sizes = []
    for summary in summaries:
        assert summary.values is not None
        cells = summary.values.cells()
        square = cells.count @ (cells.variance + cells.mean**2)
        sizes.append(math.sqrt(float(square) / summary.rows))
    return float(np.median(sizes)) or 1.0


def _guarantee(name: object, rule: Rule, level: float, lower: float, bound: float) -> str:
    words = f"With probability {level:.0%} {name} earns at least {lower:.4g} per row."
    if isinstance(rule, ByLS):
        how = "" if rule.scale is not None else "about (the scale was read off this log) "
        words += f" The best policy earns {how}at most {bound:.4g} more, at the moments seen."
    return words
