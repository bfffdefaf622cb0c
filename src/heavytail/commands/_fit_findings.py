"""The results of ``heavytail fit``: coefficients with intervals, and the rows that do not fit."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytail._terminal import as_table, paragraph, width
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import printable
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.tails import diagnose

if TYPE_CHECKING:
    from heavytail.commands._fit_design import Design
    from heavytail.estimators.one_pass_huber import OnePassHuberRegressor

__all__ = ["Findings"]

ENOUGH = 50  # residuals whose tail can be looked at
EXACT = 1e-9  # of the largest value: a residual below is rounding
WHAT = {
    "mean": "the change of the mean when one feature rises by 1 and the others stay fixed",
    "typical": "the change of the typical value, which ignores outliers, when one feature rises by "
    "1 and the others stay fixed",
}


@dataclass(frozen=True)
class Findings:
    """A fitted model and the rows it was fitted to.

    Attributes:
        model: the regression.
        path: what the table is called.
        target: the column explained.
        at: the row numbers in the table.
        design: their features.
        y: their targets.
        skipped: number of rows left out for a missing value.
        beyond: the distance, in scales of the noise, beyond which a row is an outlier.
        listed: the number of outliers to show.
    """

    model: OnePassHuberRegressor
    path: str
    target: str
    at: IntArray
    design: Design
    y: FloatArray
    skipped: int
    beyond: float
    listed: int

    @property
    def features(self) -> list[str]:
        """The names of the features, safe for printing."""
        return [printable(name) for name in self.design.features]

    @functools.cached_property
    def expected(self) -> FloatArray:
        """The fitted value of each row."""
        return np.asarray(self.design.X @ self.model.coef_ + self.model.intercept_)

    @functools.cached_property
    def residuals(self) -> FloatArray:
        """The residual of each row."""
        return np.asarray(self.y - self.expected)

    @functools.cached_property
    def away(self) -> FloatArray:
        """The distance of each row from the typical row: its residual minus the median residual. A
        few rows may pull the mean away from nearly all others.
        """
        return np.asarray(self.residuals - np.median(self.residuals))

    @functools.cached_property
    def scale(self) -> float:
        """The scale of the noise: the median absolute distance in units of a standard normal law,
        independent of the order of the rows; the model's own scale if more than half of the rows
        fit exactly.
        """
        middle = float(np.median(np.abs(self.away)))
        return NORMAL_CONSISTENCY * middle or float(self.model.scale_)

    @functools.cached_property
    def limit(self) -> float:
        """The distance beyond which a row is an outlier."""
        rounding = EXACT * float(np.max(np.abs(self.y), initial=0.0))
        return max(self.beyond * self.scale, rounding)

    @functools.cached_property
    def outliers(self) -> IntArray:
        """Indices of the rows beyond the limit, furthest first."""
        size = np.abs(self.away)
        order = np.argsort(-size, kind="stable")
        return np.asarray(order[size[order] > self.limit])

    def coefficients(self) -> list[tuple[str, float, float, float]]:
        """Name, value and both ends of the interval, for the intercept and then every slope."""
        zero = np.zeros((1, len(self.features)))
        model = self.model
        names = {"feature_names_in_": model.__dict__.pop("feature_names_in_")}
        try:  # without which scikit-learn warns of an array that names nothing
            constant = [float(end[0]) for end in model.predict(zero, return_interval=True)]
        finally:
            model.__dict__.update(names)
        low, high = model.coef_interval()
        slopes = zip(
            self.features, *(numbers.tolist() for numbers in (model.coef_, low, high)), strict=True
        )
        return [("(constant)", constant[0], constant[1], constant[2]), *slopes]

    def text(self) -> str:
        """The results as text for the terminal."""
        return "\n".join([*self._head(), "", self._slopes(), *self._notes(), "", *self._far()])

    def _head(self) -> list[str]:
        count, names = len(self.y), self.features
        by = f"{len(names)} features" if len(names) > 1 else names[0]
        head = [
            f"{self.path}: the {self.model.target} {printable(self.target)} by {by}; {count:,} rows"
        ]
        if self.skipped:
            head.append(f"{self.skipped:,} rows without all values were left out.")
        return head

    def _slopes(self) -> str:
        level = f"{100.0 * self.model.level_:g} %"
        columns = ("", "coefficient", f"{level} from", "to")
        rows = [
            (name, *(f"{value:.6g}" for value in numbers)) for name, *numbers in self.coefficients()
        ]
        return as_table(columns, rows, most=width(), right=True)

    def _notes(self) -> list[str]:
        notes = [
            f"A coefficient is {WHAT[self.model.target]}. Its interval is approximate and for "
            "this coefficient alone. It assumes independent rows, a linear relation and noise "
            "whose size does not depend on the features. It covers less often than stated if the "
            "noise is skewed and has infinite variance. The fit does not limit outliers among the "
            "features."
        ]
        still = [
            name for name, x in zip(self.features, self.design.X.T, strict=True) if not np.ptp(x)
        ]
        if still:
            notes.append(f"Constant in all rows, so their effect is unknown: {', '.join(still)}.")
        compared = [f"{name} {word}" for name, word in self.design.most_frequent.items()]
        if compared:
            notes.append(
                f"Words are compared to the most frequent: {printable(', '.join(compared))}."
            )
        noise = f"The noise has scale {self.scale:.6g}"
        if len(self.y) >= ENOUGH and self.scale > 0.0:
            tail = diagnose(self.residuals)
            if tail.apart:
                noise += ". The furthest rows lie too far out to estimate its tail with them "
                noise += f"(index {tail.low:.2f} or more)"
            elif not tail.clear:
                noise += ", and there are too few rows to estimate its tail "
                noise += f"(index {tail.low:.2f} or more)"
            else:
                noise += (
                    f" and a tail of index {tail.index:.2f}" if tail.heavy else " and no heavy tail"
                )
        return [paragraph(note) for note in (*notes, f"{noise}.")]

    def _far(self) -> list[str]:
        count, outliers = len(self.y), self.outliers
        far = f"further than {self.beyond:g} scales ({self.limit:.6g}) from the typical row"
        if not len(outliers):
            return [f"No outliers: no row lies {far}."]
        are = "row lies" if len(outliers) == 1 else "rows lie"
        lines = [f"Outliers: {len(outliers):,} of {count:,} {are} {far}."]
        if self.listed:
            if len(outliers) > self.listed:
                lines.append(f"The {self.listed} furthest:")
            lines.append(self._rows(outliers[: self.listed]))
        return lines

    def _rows(self, places: IntArray) -> str:
        scale = self.scale
        names = [printable(name) for name in self.design.columns]
        columns = ("row", printable(self.target), "fitted", "scales away", *names)
        rows = []
        for i in places:
            away = f"{self.away[i] / scale:+.1f}" if scale > 0.0 else "-"
            numbers = [f"{value:.6g}" for value in (self.y[i], self.expected[i])]
            rows.append((str(self.at[i]), *numbers, away, *self.design.row(i)))
        return as_table(columns, rows, most=width(), right=True)
