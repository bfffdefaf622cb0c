"""The report on a tail, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._extras import need_to_draw
from heavytail._typing import FloatArray
from heavytail.tails.bound import MomentBound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Hill", "TailReport"]

LIGHT = 4.0  # an index above this is not called heavy: the fourth moment, so the variance's error
GOES_ON = "if the tail goes on like this"  # beyond all values seen, which no sample can tell
ROBUST = "robust methods (Hvt-UCB, OnePassHuberRegressor)"
LINE = 50  # the slope is drawn through one value of so many, the largest
# Below this a gain is called little. Normal, uniform and logistic values have 0.9 to 1.1, of which
# chance seldom makes more in a few hundred values; and a fifth of the variance is little to get
# where the middle may not be the mean.
GAINED = 1.25
NONE = 100.0  # an index from which on there is no tail to speak of


@dataclass(frozen=True, slots=True)
class Hill:
    """Hill's estimate from the ``count`` values beyond a threshold, with a 95 % interval."""

    count: int
    threshold: float
    index: float
    low: float
    high: float


@dataclass(frozen=True)
class TailReport:
    """The tail of |v - centre|: P(|v - centre| > x) falls like x^-index.

    Attributes:
        count: values seen.
        centre: the median (of the first values, where they were streamed).
        index: the tail index, infinity where none was found.
        low: lower end of its 95 % interval; moments of every order below it look finite.
        high: upper end.
        likely: what lies a standard error below the index, on the scale of 1/index, in which the
            estimates are near normal, by the fit of the index or that of the interval, whichever is
            higher. Where this is 1 or less no bound is suggested.
        hills: Hill's estimates from the top 0.1 % to the top 10 %.
        top_share: part of the sum of |v - centre| that the largest 0.1 % hold.
        skewed: whether one side reaches more than twice as far as the other.
        suggested: a bound to hand to a policy, of an order below ``low``, or of the least order,
            1.05, where only ``likely`` is above 1; None where neither is, the values
            are too few to say or the fits do not agree on it, and where the bound would be past the
            range of ``MomentBound``.
        fitted: how many of the largest values the index was fitted to.
        agree: whether fits to fewer values and to more of them gave the same index; if not, the
            interval is of a tenth of ``fitted``, to hold what the largest alone say, and of
            every fit where these are few.
        apart: how many of the largest, fewer than ten, lie too far beyond all others to be of one
            power law with them: the index is that of the others, the interval with and without.
        outliers: how many of the largest hold half of the sum of (v - centre)²; 0 where it takes
            more than ten.
        gain: the variance of averages and least squares over that of robust estimates (Huber's, of
            slopes and of a symmetric middle), infinity where half of the values or more are equal.
    """

    count: int
    centre: float
    index: float
    low: float
    high: float
    likely: float
    hills: tuple[Hill, ...]
    top_share: float
    skewed: bool
    suggested: MomentBound | None
    fitted: int = 0
    agree: bool = True
    apart: int = 0
    outliers: int = 0
    gain: float = 1.0
    _top: FloatArray = field(repr=False, compare=False, default_factory=lambda: np.empty(0))

    @property
    def heavy(self) -> bool:
        """Tell whether the index is below 4; see :attr:`clear` for whether that means something."""
        return self.index < LIGHT

    @property
    def clear(self) -> bool:
        """Tell whether there are enough values to tell: the interval begins at 2 or more, so that
        the
        variance looks finite, or the tail is heavy and the interval has an upper end, and no few
        values lie far beyond all others.
        """
        return not self.apart and (self.low >= 2.0 or (self.heavy and self.high < NONE))

    @property
    def order(self) -> float:
        """The largest order whose moment looks finite: the lower end of the index's interval."""
        return self.low

    @property
    def advice(self) -> str:
        """Advise what to do about the tail, in plain words."""
        if self.apart:
            lie = "value lies" if self.apart == 1 else f"{self.apart} values lie"
            return (
                f"Too few values to tell: the largest {lie} far beyond the other "
                f"{self.count - self.apart:,}, and so few show no tail. The tail index may be as "
                f"low as {self.low:.2f}, or {self._lightest}. Look for mistakes among them, and "
                "use robust methods until there are more."
            )
        if not self.clear:
            return (
                f"Too few values to tell: the tail index may be as low as {self.low:.2f}, or there "
                f"may be no heavy tail.{self._change} Use robust methods{self._with_order} until "
                "there are more."
            )
        if not self.heavy:
            return (
                "No heavy tail seen: if these values show the tail, averages and least squares are "
                f"fine{self._gained}{self._change}"
            )
        largest = "0.1 % hold" if self.count >= 2000 else "value holds"
        share = f"The largest {largest} {self.top_share:.0%} of the total deviation."
        if self.high <= 1.0:
            return (
                f"The tail index is about {self.index:.2f} over the largest {self.fitted:,} of "
                f"{self.count:,} values: {GOES_ON} there is no mean. No sample tells what lies "
                f"beyond its largest value.{self._change} {share} Learn the median or a "
                "transformed value instead of the mean, or state a limit and clip there."
            )
        about = f"The tail index is about {self.index:.2f}"
        if self.low > 2.0:
            return (
                f"{about}: the variance is finite {GOES_ON}.{self._dominant}{self._change} {share} "
                "Robust methods gain something, least squares still converges."
            )
        if self.agree:  # else the ends are said below
            about += f" ({_show(self.low)} to {_show(self.high)})"
        variance, mean, n = "whether the variance is finite", "whether there is a mean", self.count
        verdict = f"the variance is infinite {GOES_ON}"
        if self.high > 2.0:
            verdict = f"{n:,} values do not tell {variance}"
        if self.low <= 1.0:
            verdict += f", and {n:,} values do not tell {mean}"
            if self.high > 2.0:
                verdict = f"{n:,} values tell neither {variance} nor {mean}"
            return (
                f"{about}: {verdict}.{self._dominant}{self._change} {share} If there is none, "
                "learn the median or a transformed value instead; if there is, use "
                f"{ROBUST}{self._with_order}, and look at more."
            )
        either = "" if self.high <= 2.0 else "if it is infinite, "
        cheap = "" if self.high <= 2.0 else "; if it is finite, they cost little"
        return (
            f"{about}: {verdict}.{self._dominant}{self._change} {share} Use "
            f"{ROBUST}{self._with_order}: {either}averages jump with every outlier{cheap}."
        )

    @property
    def _dominant(self) -> str:
        if not self.outliers or self.high <= 2.0:  # where the variance is infinite, some must
            return ""
        hold = "One value holds" if self.outliers == 1 else f"{self.outliers} values hold"
        return f" {hold} half of the sum of squares."

    @property
    def _gained(self) -> str:
        if math.isinf(self.gain):
            return (
                ". Half of the values or more are equal, and a robust estimate of the middle is "
                "that value, whatever the mean."
            )
        if self.gain < GAINED:
            return ", and robust methods gain little here."
        part = f"about {1.0 / self.gain:.0%}" if self.gain < 200.0 else "less than 1%"
        if self.skewed:
            return (
                f", but robust slopes have {part} of their variance. A robust middle is not the "
                "mean of values as skewed as these."
            )
        return (
            f", but robust estimates have {part} of their variance. Where the noise is skewed, "
            "that holds of slopes alone: the middle is not the mean."
        )

    @property
    def _lightest(self) -> str:
        if self.high < LIGHT:
            return f"as high as {self.high:.2f}"
        return "there may be no heavy tail"

    @property
    def _with_order(self) -> str:
        return f" with a moment of order {self.suggested.order:.2f}" if self.suggested else ""

    @property
    def _change(self) -> str:
        if self.agree:
            return ""
        only = (
            f" Only the largest {self.fitted:,} values follow one power law; fits to more disagree"
        )
        if self.low >= NONE:
            return f"{only}."
        return (
            f"{only}, so that the index may be anything from {_show(self.low)} to "
            f"{_show(self.high)}."
        )

    def __str__(self) -> str:
        lines = [
            f"{self.count:,} values, centre {self.centre:.6g}"
            + (", skewed" if self.skewed else ""),
            f"tail index {_show(self.index)}, 95 % interval {_show(self.low)} to "
            f"{_show(self.high)}"
            + ("" if self.agree else f"; fits to more than {self.fitted:,} values disagree"),
        ]
        lines += [
            f"  Hill, {h.count:>7,} values beyond {h.threshold:<10.4g} {h.index:6.2f}  "
            f"({h.low:.2f} to {h.high:.2f})"
            for h in self.hills
        ]
        if self.suggested is not None:
            bound = self.suggested
            lines.append(f"suggested: MomentBound(order={bound.order:g}, scale={bound.scale:.6g})")
        return "\n".join([*lines, self.advice])

    def plot(self, ax: Axes | None = None) -> Any:
        """The share of values beyond x against x, both on log scales, with the fitted slope.

        Returns the matplotlib axes (made where none are given).
        """
        if ax is None:
            need_to_draw("TailReport.plot")
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6.0, 4.0), layout="constrained").subplots()
        x = self._top
        share = np.arange(1, x.shape[0] + 1) / self.count
        ax.loglog(x, share, ".", markersize=3, label="data")
        if math.isfinite(self.index) and x.shape[0] > 10:
            far = x[: max(x.shape[0] // LINE, 1) + 1]
            far = np.log(far[far > 0.0])
            line = -self.index * far
            line += np.mean(np.log(share[: len(far)]) - line)  # through the middle of the values
            there = line <= 0.0  # a share
            ax.loglog(np.exp(far[there]), np.exp(line[there]), label=f"index {self.index:.2f}")
        ax.set_xlabel("|value - centre|")
        ax.set_ylabel("share of values beyond")
        ax.legend()
        return ax


def _show(index: float) -> str:
    return f"{index:.2f}" if index < NONE else "none"
