"""Summaries of a log for one target: sketches and sums, filled chunk by chunk and merged.

A chunk is summarised by itself and summaries are merged in the order of the rows, on one machine as
on many, so that both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, as_numbers
from heavytail.logs.bounds import Bernstein, Betting, Bound, Catoni
from heavytail.logs.estimators import DR, LS, Estimator, Modelled, Seen
from heavytail.logs.means import blocks
from heavytail.logs.models import ArmMeans, CrossFit
from heavytail.logs.reading.rows import Rows, offered
from heavytail.logs.sketch import Pairs, Sketch, epochs
from heavytail.logs.target import Target

__all__ = ["Plan", "Summary", "look", "modelled", "of_seen", "summarise"]

PADDED = ("paid", "played", "mass", "blocked")
SAME = ("actions", "named", "stated")  # in all parts
LEAST_LARGEST = 1e-150  # the largest value's square, and those that count beside it, are no 0


@dataclass(frozen=True)
class Plan:
    """The choice of what is computed for every chunk.

    Attributes:
        estimator: with a number to clip at and a callable for a model, where it has these.
        bound: the same, or None.
        propensities: Rows -> (n,), in place of the log's own, or None.
    """

    estimator: Estimator
    bound: Bound | None
    propensities: Callable[[Rows], FloatArray] | None = None

    @property
    def floor(self) -> float:
        """Rewards are at least this, where a bound or an estimator needs it: 0 unless stated."""
        stated = [getattr(value, "floor", None) for value in (self.estimator, self.bound)]
        return max((floor for floor in stated if floor is not None), default=0.0)

    @property
    def ceiling(self) -> float | None:
        """Rewards are at most this, or None."""
        return getattr(self.bound, "ceiling", None)

    @property
    def needs_floor(self) -> str:
        """The name of what needs rewards above the floor, "" if nothing does."""
        if isinstance(self.estimator, LS):
            return f"estimator {self.estimator.name!r}"
        return f"bound {self.bound.name!r}" if isinstance(self.bound, Betting | Bernstein) else ""


@dataclass(frozen=True)
class Summary:
    """Sums and sketches of one target's rows.

    Attributes:
        rows: how many.
        pairs: (u, v) of the estimator.
        blocks: their sums by row number mod 16.
        weights: w, or None without propensities.
        values: w (r - floor) by epoch, or None.
        above: w (ceiling - r) by epoch, or None.
        pseudo: v by epoch for Catoni's bounds of DR, w r where the floor is not 0; else None.
        paid: (3, epochs), sums of w, of w², and of w where w (r - floor) is not 0, or None.
        moments: sums and squares of min(w, clip) (r - floor) and of min(w, clip) (ceiling - r).
        played: how often the log has each action.
        mass: the target's probability of each action, summed, or None where it is not known.
        blocked: the part of ``mass`` in rows whose logged probability of the action is 0.
        even: what sum w² is on average if all arms on offer are drawn alike, or None.
        actions: their names, if rows have the same arms in the same places, or None.
        named: whether actions have names.
        stated: whether the log says what its rows offered.
    """

    rows: int
    pairs: Pairs
    blocks: FloatArray
    weights: Sketch | None
    values: Sketch | None
    above: Sketch | None
    pseudo: Sketch | None
    paid: FloatArray | None
    moments: FloatArray
    played: FloatArray
    mass: FloatArray | None
    blocked: FloatArray | None
    even: float | None
    actions: tuple[str, ...] | None
    named: bool
    stated: bool

    @property
    def counts(self) -> FloatArray | None:
        """(K,), how often each number is played or, as far as is known, offered; None for names."""
        if self.named:
            return None
        return self.played if self.mass is None or not self.stated else self.mass

    def __add__(self, other: Self) -> Self:
        """Both together, this one's rows first."""
        parts = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        joined: dict[str, Any] = {
            name: None if mine is None or theirs is None else mine + theirs
            for name, (mine, theirs) in parts.items()
            if name not in (*PADDED, *SAME)
        }
        joined |= {name: getattr(self, name) for name in SAME}
        joined |= {name: _padded(*parts[name]) for name in PADDED}
        return type(self)(**joined)

    def check_unit(self) -> None:
        """Refuse values of which none is large enough for its square to be a number."""
        cells = self.pairs.cells()
        most = float(np.max(np.abs(cells.v) / cells.count, initial=0.0))
        if 0.0 < most < LEAST_LARGEST:
            raise ValueError(
                f"the log: the largest of its rewards, weighted, must be at least "
                f"{LEAST_LARGEST:g} in size; got {most:g}. Change the unit."
            )


def _padded(one: FloatArray | None, two: FloatArray | None) -> FloatArray | None:
    """The sum of two arrays of which one may have a shorter last axis; None where one is None."""
    if one is None or two is None:
        return None
    more, less = (one, two) if one.shape[-1] >= two.shape[-1] else (two, one)
    total = more.copy()
    total[..., : less.shape[-1]] += less
    return total


def refuse(
    rows: Rows, bad: np.bool_ | NDArray[np.bool_], column: str, problem: Callable[[int], str]
) -> None:
    """Raise a ValueError that names the first bad row, if there is one."""
    if np.any(bad):
        at = int(np.argmax(bad))
        raise ValueError(f"{rows.at(at)}, column {rows.column(column)!r}: {problem(at)}")


def look(rows: Rows, target: Target, plan: Plan) -> Seen:
    """A chunk as the target sees it: weights, and a model's predictions."""
    estimator = plan.estimator
    stated = None if plan.propensities is None else plan.propensities(rows)
    shares, of_log = target(rows, stated), target.of_log(rows)
    at = np.arange(len(rows.action))
    own = shares if shares.ndim == 1 else shares[at, rows.action]
    propensity = rows.propensity if stated is None else stated
    if of_log:
        own = propensity = np.ones(len(own))
    if propensity is None and estimator.weights:
        raise ValueError(
            f"{rows.source}: estimator {estimator.name!r} needs the propensities of the log, which "
            "has none. Name their column by columns={'propensity': NAME}; where they were not "
            "logged, propensities='frequencies' is right if the log's policy did not look at the "
            "context, and estimator=DM(model) is as good as its model."
        )
    weight = None if propensity is None else _weight(rows, own, propensity)
    seen = Seen(rows, weight, shares if shares.ndim == 2 else None, None, None)
    return modelled(seen, estimator.model) if isinstance(estimator, Modelled) else seen


def modelled(seen: Seen, model: Callable[[Rows], FloatArray]) -> Seen:
    """The same chunk with a model's predictions."""
    rows, shares = seen.rows, seen.mass
    if shares is None:
        raise ValueError(
            f"{rows.source}: a model needs the target's probabilities of every action, (n, K); "
            "got those of the logged ones."
        )
    q = _predictions(model, rows, shares.shape)
    own = q[np.arange(len(rows.action)), rows.action]
    return seen._replace(predicted=own, expected=np.sum(shares * q, axis=1))


def _weight(rows: Rows, own: FloatArray, propensity: FloatArray) -> FloatArray:
    """w = pi/p, of a size whose square is a number."""
    with np.errstate(over="ignore"):
        weight = own / propensity
    refuse(
        rows,
        weight > GREATEST,
        "propensity",
        lambda at: (
            f"gives the row a weight of {weight[at]:g}, above {GREATEST:g}; got {propensity[at]:g},"
            " where the target plays the action. Correct it, or leave the row out and say so."
        ),
    )
    return np.asarray(weight)


def _predictions(model: Callable[[Rows], Any], rows: Rows, shape: tuple[int, ...]) -> FloatArray:
    words = f"rewards of shape {shape}"
    given = model(rows, shape[1]) if isinstance(model, ArmMeans | CrossFit) else model(rows)
    q = as_numbers(given, f"{rows.source}: what model predicts", words)
    if q.shape != shape:
        raise ValueError(
            f"{rows.source}: model must predict rewards of shape {shape}, a row per row of the log "
            f"and a column per action; got shape {q.shape}."
        )
    refuse(rows, ~np.isfinite(q).all(axis=1), "model", lambda _: "predicts NaN or infinity.")
    return q


def summarise(rows: Rows, target: Target, plan: Plan) -> Summary:
    """The summary of one chunk."""
    return of_seen(look(rows, target, plan), plan)


def of_seen(seen: Seen, plan: Plan) -> Summary:
    """The summary of a chunk that was looked at."""
    rows = seen.rows
    n = len(rows.action)
    _check_sides(rows, plan)
    with np.errstate(over="ignore"):
        size = np.abs(rows.reward) * (1.0 if seen.weight is None else seen.weight)
    refuse(
        rows,
        size > GREATEST,
        "reward",
        lambda at: f"weighted, it exceeds {GREATEST:g}; got {rows.reward[at]:g}. Change the unit.",
    )
    u, v = plan.estimator.terms(seen)
    w, epoch = seen.weight, epochs(rows.start, n)
    values = above = weights = paid = None
    moments = np.zeros(4)
    if w is not None:
        weights = Sketch(w)
        gain = w * (rows.reward - plan.floor)
        values = Sketch(gain, epoch)
        parts = (w, w * w, w * (gain != 0.0))
        paid = np.stack([np.bincount(epoch, part).astype(np.float64) for part in parts])
        if plan.ceiling is not None:
            above = Sketch(w * (plan.ceiling - rows.reward), epoch)
        if isinstance(plan.bound, Bernstein):
            assert plan.bound.clip is not None
            light = np.minimum(w, plan.bound.clip)
            low = light * (rows.reward - plan.floor)
            high = light * (plan.bound.ceiling - rows.reward)
            moments = np.array([low.sum(), low @ low, high.sum(), high @ high])
    played = np.bincount(rows.action).astype(float)
    mass = None if seen.mass is None else np.asarray(seen.mass.sum(axis=0))
    blocked = None
    if seen.mass is not None and rows.probabilities is not None and plan.propensities is None:
        known = seen.mass[:, : rows.probabilities.shape[1]]
        could = rows.probabilities[:, : known.shape[1]] > 0.0
        blocked = np.sum(np.where(could, 0.0, known), axis=0)
    even = None
    if seen.mass is not None:
        offers = offered(rows)
        squares = np.sum(seen.mass**2, axis=1)
        even = float(np.sum(squares * (seen.mass.shape[1] if offers is None else offers)))
    pseudo = None
    if isinstance(plan.bound, Catoni) and isinstance(plan.estimator, DR):
        pseudo = Sketch(v, epoch)
    elif w is not None and plan.floor != 0.0:
        pseudo = Sketch(w * rows.reward, epoch)
    return Summary(
        n,
        Pairs(u, v),
        blocks(rows.start, u, v),
        weights,
        values,
        above,
        pseudo,
        paid,
        moments,
        played,
        mass,
        blocked,
        even,
        rows.actions if rows.offers is None else None,
        rows.actions is not None,
        offered(rows) is not None,
    )


def _check_sides(rows: Rows, plan: Plan) -> None:
    """Refuse rewards outside the stated range, where a bound or an estimator relies on it."""
    floor, ceiling = plan.floor, plan.ceiling
    if ceiling is not None:
        refuse(
            rows,
            (rows.reward > ceiling) | (rows.reward < floor),
            "reward",
            lambda at: (
                f"must lie in (floor, ceiling) = ({floor:g}, {ceiling:g}); got "
                f"{rows.reward[at]:g}. State the range that rewards can have."
            ),
        )
    elif plan.needs_floor:
        refuse(
            rows,
            rows.reward < floor,
            "reward",
            lambda at: (
                f"{plan.needs_floor} needs rewards of at least floor = {floor:g}; got "
                f"{rows.reward[at]:g}. State a floor that no reward can pass, or take "
                "bound=Catoni(tail), or bound=None."
            ),
        )
