"""Results of evaluations: values, bounds, and advice on how far to trust them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._extras import need_to_draw
from heavytail._typing import FloatArray
from heavytail.tails import TailReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ALL", "Comparison", "Evaluation", "Selection"]

ALL = "of all gains and losses together"  # of sum |X|

LIGHTEST = 100.0  # a tail index from here on is none


@dataclass(frozen=True)
class Evaluation:
    """An estimate of what a policy would have earned per row.

    Attributes:
        value: the estimate. Over many logs it is too low if large gains are rare, and too high if
            large losses are rare: see ``plain``.
        lower: a lower bound of the true value, with probability ``level`` (both bounds together, if
            there are two), or None.
        upper: an upper bound, or None.
        lower_reason: why there is no lower bound, "" if there is one.
        upper_reason: why there is no upper bound, "" if there is one.
        level: of the bounds.
        method: the name of the estimator.
        mean: the name of the mean that averages the rows.
        interval: the name of the bounds' method, or None.
        rows: rows of the log.
        effective_size: (sum w)² / sum w², the number of rows of weight 1 with as much information;
            nan without w.
        largest_share: the part of sum w |r| (of the terms of "dr", with "catoni") in one row.
        top_share: the part in the largest 1 % of the rows.
        tail: the tail of the weighted rewards, or None if too little is known.
        half_rows: how many rows have half of sum w |r|; 0 where nothing was paid.
        half_side: 1 where these are all gains, -1 where all are losses, between where they differ.
        square_rows: how many rows have half of sum (w r)².
        mean_weight: the mean of w, which is 1 if the propensities are right, and a 95 % interval by
            the normal law, which heavy-tailed weights leave more often: it tests nothing.
        propensities_ok: False where a test at 0.1 % proves that this mean is above 1, or that it
            is below 1 by more than ``unsupported_share`` unless weights larger than any of the log
            are possible: without such rows, right propensities look so, too.
        unsupported: actions that the target plays and the log never has, by name or number.
        unsupported_share: the target's probability of them, and of actions in rows whose logged
            ``probabilities`` of them are 0.
        error: standard error suggested by the estimate's own rows; not a bound.
        advice: what to think of it, warnings first.
        waiting: decisions of a DecisionLog that wait for their reward and are left out.
        plain: the same estimate by the plain mean, which counts the largest rows in full.
    """

    value: float
    lower: float | None
    upper: float | None
    lower_reason: str
    upper_reason: str
    level: float
    method: str
    mean: str
    interval: str | None
    rows: int
    effective_size: float
    largest_share: float
    top_share: float
    tail: TailReport | None
    half_rows: int
    half_side: float
    square_rows: int
    mean_weight: tuple[float, float, float]
    propensities_ok: bool
    unsupported: tuple[int | str, ...]
    unsupported_share: float
    error: float
    advice: tuple[str, ...]
    waiting: int = 0
    plain: float = math.nan
    _rows: FloatArray = field(repr=False, compare=False, default_factory=lambda: np.empty(0))
    _path: FloatArray = field(repr=False, compare=False, default_factory=lambda: np.empty(0))

    def __str__(self) -> str:
        index = "none"
        if self.tail is not None and self.tail.index < LIGHTEST:
            index = f"{self.tail.index:.2f}   ({self.tail.low:.2f} to {self.tail.high:.2f})"
        lines = [
            f"value            {self.value:.6g}   ({self.method}, {self.mean})",
            f"at least         {_number(self.lower, self.lower_reason)}",
            f"at most          {_number(self.upper, self.upper_reason)}",
            f"level            {self.level:.0%}   ({self.interval or 'no interval'})",
            f"rows             {self.rows:,}",
            f"effective size   {self.effective_size:,.0f}",
            f"largest row      {self.largest_share:.1%} {ALL}",
            f"largest 1 %      {self.top_share:.1%} {ALL}",
            f"tail index       {index}",
            f"mean weight      {self._mean_weight()}",
        ]
        return "\n".join([*lines, *(f"- {sentence}" for sentence in self.advice)])

    def _mean_weight(self) -> str:
        mean, low, high = self.mean_weight
        if math.isnan(mean):
            return "none: no propensities"
        ok = self.propensities_ok
        test = "approximate; a test finds nothing wrong" if ok else "should be 1"
        return f"{mean:.3f}   ({low:.3f} to {high:.3f}; {test})"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the value, and the lower bound along the log. Returns the matplotlib axes."""
        ax = _axes(ax)
        if len(self._rows):
            ax.plot(self._rows, self._path, label=f"lower bound, {self.level:.0%} at all times")
            ax.set_xscale("log")
        ax.axhline(self.value, color="black", label=f"{self.method}, {self.mean}")
        if self.upper is not None:
            ax.axhline(self.upper, linestyle="--", label="upper bound")
        ax.set_xlabel("rows")
        ax.set_ylabel("value")
        ax.legend()
        return ax


@dataclass(frozen=True)
class Comparison:
    """An estimate of how much more policy ``a`` would have earned per row than policy ``b``.

    Attributes:
        value: the estimate of V_a - V_b: ``a.value - b.value``.
        lower: and
        upper: its interval, both sides together of probability ``level``, or None.
        reason: why there is no interval, "" if there is one.
        guaranteed: whether the interval rests only on stated assumptions; False for the approximate
            one.
        level: of the interval.
        interval: where it comes from.
        error: standard error suggested by the rows' differences; not a bound.
        rows: rows of the log.
        rows_needed: about how many rows in total would decide, if the estimated difference is
            correct and no larger rewards come (:func:`heavytail.compare`). None if the interval
            decides, if there is none, or if no number of rows like these would decide.
        a: the evaluation of ``a``.
        b: the evaluation of ``b``.
        advice: what to think of it, warnings first.
    """

    value: float
    lower: float | None
    upper: float | None
    reason: str
    guaranteed: bool
    level: float
    interval: str | None
    error: float
    rows: int
    rows_needed: float | None
    a: Evaluation
    b: Evaluation
    advice: tuple[str, ...]

    @property
    def better(self) -> str | None:
        """ "a" or "b" if the interval decides, else None."""
        if self.lower is not None and self.lower > 0.0:
            return "a"
        if self.upper is not None and self.upper < 0.0:
            return "b"
        return None

    def __str__(self) -> str:
        needed = ""
        if self.rows_needed is not None:
            needed = f"   (at least {float(f'{self.rows_needed:.1e}'):,.0f} to decide)"
        lines = [
            f"a - b            {self.value:.6g}",
            f"at least         {_number(self.lower, self.reason)}",
            f"at most          {_number(self.upper, self.reason)}",
            f"level            {self.level:.0%}   ({self.interval or 'no interval'})",
            f"rows             {self.rows:,}{needed}",
            f"a                {self.a.value:.6g}",
            f"b                {self.b.value:.6g}",
        ]
        return "\n".join([*lines, *(f"- {sentence}" for sentence in self.advice)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot both values and the difference with its interval. Returns the matplotlib axes."""
        return _intervals(
            ax, ["a", "b", "a - b"], [self.a.value, self.b.value, self.value],
            [self.a.lower, self.b.lower, self.lower], [self.a.upper, self.b.upper, self.upper],
        )  # fmt: skip


@dataclass(frozen=True)
class Selection:
    """The best of several policies.

    Attributes:
        chosen: its name, or its index if the policies were a list.
        names: names of all policies.
        scores: the maximised quantity, see ``by`` of :func:`heavytail.select`; nan if no estimate
            proposed the policy.
        values: the estimates that :func:`heavytail.evaluate` would give.
        lower: bounds that hold for all policies at once.
        smoothing: lambda.
        regret_bound: by how much the best policy may beat the chosen one, with probability
            ``level``, at the observed second moments.
        level: of the bounds.
        rows: rows of the log.
        guarantee: the statement in words.
        advice: what to think of it, warnings first.
        proposals: the best policy by each estimate.
    """

    chosen: Any
    names: tuple[Any, ...]
    scores: FloatArray
    values: FloatArray
    lower: FloatArray
    smoothing: float
    regret_bound: float
    level: float
    rows: int
    guarantee: str
    advice: tuple[str, ...]
    proposals: Mapping[str, Any]

    def __str__(self) -> str:
        order = np.lexsort((-self.values, -self.scores))
        head = f"{'policy':<20} {'score':>12} {'value':>12} {'at least':>12}"
        lines = [
            f"{self.names[i]!s:<20} {_or_dash(self.scores[i])} {self.values[i]:>12.6g} "
            f"{self.lower[i]:>12.6g}"
            for i in order
        ]
        notes = [f"- {sentence}" for sentence in (*self.advice, self.guarantee)]
        return "\n".join([f"chosen: {self.chosen}", head, *lines, *notes])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot every policy's value and lower bound. Returns the matplotlib axes."""
        return _intervals(
            ax, self.names, list(self.values), list(self.lower), [None] * len(self.names)
        )


def _or_dash(score: float) -> str:
    return f"{'-':>12}" if math.isnan(score) else f"{score:>12.6g}"


def _number(value: float | None, reason: str) -> str:
    return f"{value:.6g}" if value is not None else f"none: {reason}"


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    need_to_draw("plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(6.0, 4.0), layout="constrained").subplots()


def _intervals(
    ax: Axes | None,
    names: Sequence[Any],
    values: Sequence[float],
    lower: Sequence[float | None],
    upper: Sequence[float | None],
) -> Axes:
    """Draw a line per name from its lower to its upper bound; an open end is drawn to the value."""
    ax = _axes(ax)
    for i, (value, low, high) in enumerate(zip(values, lower, upper, strict=True)):
        left = value if low is None or math.isnan(low) else low
        ax.plot([left, value if high is None else high], [i, i], color="C0")
        ax.plot([value], [i], "o", color="C0")
    ax.set_yticks(range(len(names)), [str(name) for name in names])
    ax.set_xlabel("value")
    return ax
