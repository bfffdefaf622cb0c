"""The results of ``heavytail evaluate``: warnings, tables and sentences, for terminal and page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heavytail._validate import on_one_line
from heavytail.commands._log_targets import Weights
from heavytail.experiments.experiment import Table
from heavytail.logs.comparing import ROOM_LEFT
from heavytail.logs.results import ALL, Comparison, Evaluation, Selection

__all__ = ["Findings", "in_options", "number", "tail_index"]

FREQUENCIES = (
    "The propensities are the actions' frequencies in this log: right only if the policy that "
    "wrote it did not look at the context."
)
NO_TAIL = 100.0  # an index from which on nothing is heavy: as TailReport prints it
NO_DOUBT = "no reason for doubt"  # in what advice says where it has no warning
OPTIONS = {  # the library's words for what to do, and the command's
    r"columns=\{'(\w+)': its name\}": r"--column \1=NAME",
    r"columns=\{'(\w+)': None\}": r"--column \1=",
    r"the rewards' range by bound=Betting\(floor, ceiling\)": "--reward-range",
    r"bound=Betting\(floor, ceiling\) or bound=Catoni\(tail\)": "--reward-range or --tail",
    r"bound=Catoni\(.*?\)+": "--interval catoni --tail ORDER,SCALE",
    r"bound='huber'": "--interval huber",
    r"bound=None": "--interval none",
    r"bound '(\w+)' needs": r"interval '\1' needs",
    r"estimator '(\w+)' needs": r"method '\1' needs",
    r"\(floor, ceiling\) = ": "--reward-range ",
    r"mean='huber'": "--mean huber",
    r"floor = ": "--reward-floor ",
    r"State a floor": "State a --reward-floor",
    r"default_reward=\.": "--default-reward.",
    r"clip= must be stated": "--clip must be stated",
    r"columns=\{'arms': policy\.encoder\.catalogue\(\.\.\.\)\}, of": "--catalogue FILE,",
    r"pass default_reward=0\.0": "pass --default-reward 0",
    r"columns=\{'(\w+)': NAME\}": r"--column \1=NAME",
    r"propensities='frequencies' is": "--propensities frequencies is",
    r", and estimator=DM\(model\) is as good as its model": "",
    r"Pass draws=100": "Pass --draws 100",
    r" A policy that is text names .* of the library\.": "",
}
VERDICTS: dict[str | None, str] = {"a": "better", "b": "worse", None: "not decided"}


@dataclass(frozen=True)
class Findings:
    """All results by the policies' labels, which are safe for printing.

    Attributes:
        policies: the evaluation of each policy; the baseline's comes last.
        weights: their weights.
        against: the baseline's label, or None.
        comparisons: each policy minus the baseline.
        selection: the best of several policies, if there is no baseline.
        level: the level of all comparisons together, and of each single evaluation.
        frequencies: whether the propensities are frequencies of actions.
    """

    policies: dict[str, Evaluation]
    weights: dict[str, Weights]
    against: str | None
    comparisons: dict[str, Comparison]
    selection: Selection | None
    level: float
    frequencies: bool

    @property
    def rows(self) -> int:
        """Number of rows of the log."""
        return next(iter(self.policies.values())).rows

    def warnings(self) -> list[str]:
        """Warnings, one sentence per line, each once with its policies; the worst first."""
        about: dict[str, list[str]] = {}
        for label, evaluation in sorted(
            self.policies.items(), key=lambda item: item[1].propensities_ok
        ):
            for sentence in evaluation.advice:
                if NO_DOUBT not in sentence:
                    about.setdefault(in_options(sentence), []).append(label)
        sentences = [FREQUENCIES] if self.frequencies else []
        sentences += [
            f"{', '.join(labels)}: {sentence}" if len(self.policies) > 1 else sentence
            for sentence, labels in about.items()
        ]
        if self._approximate:
            sentences.append(f"The differences: {ROOM_LEFT}")
        return [on_one_line(sentence) for sentence in sentences]

    @property
    def _approximate(self) -> bool:
        """True if an interval of a difference has no guarantee."""
        comparisons = self.comparisons.values()
        return any(
            comparison.interval == "hindsight" and comparison.lower != comparison.upper
            for comparison in comparisons
        )

    def tables(self) -> list[Table]:
        """The tables of values and of differences."""
        tables = [self._values()]
        if self.comparisons:
            tables.append(self._differences())
        if self.selection is not None:
            tables.append(self._chosen(self.selection))
        return tables

    def _values(self) -> Table:
        columns: dict[str, Callable[[Evaluation], str]] = {
            "value": lambda e: number(e.value),
            "at least": lambda e: number(e.lower),
            "at most": lambda e: number(e.upper),
            "effective size": lambda e: number(e.effective_size, ",.0f"),
            "largest row": lambda e: number(e.largest_share, ".1%"),
            "largest 1 %": lambda e: number(e.top_share, ".1%"),
            "tail index": lambda e: "-" if e.tail is None else tail_index(e.tail.index),
            "mean weight": _mean_weight,
        }
        rows = [
            (label, *(show(evaluation) for show in columns.values()))
            for label, evaluation in self.policies.items()
        ]
        first = next(iter(self.policies.values()))
        note = (
            f"{self.rows:,} rows; {first.method}, {first.mean} mean; bounds: "
            f"{first.interval or 'none'}, level {first.level:g} for each line by itself. The mean "
            "weight should be 1; the interval in brackets is approximate, and a test finds nothing "
            "wrong unless 'not 1' follows it. Largest row, largest 1 %: their part "
            f"{ALL}."
        )
        return Table("What each policy would have earned per row", ("policy", *columns), rows, note)

    def _differences(self) -> Table:
        rows = [
            (
                label,
                number(comparison.value),
                number(comparison.lower),
                number(comparison.upper),
                VERDICTS[comparison.better],
                ("yes" if comparison.guaranteed else "no, approximate")
                if comparison.interval
                else in_options(comparison.reason),
            )
            for label, comparison in self.comparisons.items()
        ]
        columns = ("policy", "difference", "at least", "at most", "verdict", "guaranteed")
        note = (
            f"Estimated from the rows' own differences; level {self.level:g} for all lines "
            "together."
        )
        return Table(f"Difference to {self.against}", columns, rows, note)

    def _chosen(self, selection: Selection) -> Table:
        rows = [
            (str(name), number(value), number(low), "chosen" if name == selection.chosen else "")
            for name, value, low in zip(
                selection.names, selection.values, selection.lower, strict=True
            )
        ]
        note = (
            "Chosen: of the policies that one of the estimates thinks best, the one with the "
            "largest lower bound; --method does not affect the choice. The bounds hold for all "
            f"lines together, level {selection.level:g}, hence for the chosen one."
        )
        return Table(
            f"The best: {selection.chosen}", ("policy", "value", "at least", ""), rows, note
        )

    def words(self) -> list[str]:
        """The results in sentences; for a missing bound the reason, and what would give one."""
        sentences = [_in_words(label, evaluation) for label, evaluation in self.policies.items()]
        for label, comparison in self.comparisons.items():
            sentences.append(_comparison(label, str(self.against), comparison))
        if self.selection is not None:
            sentences.append(self.selection.guarantee)
        reasons = {
            evaluation.upper_reason
            for evaluation in self.policies.values()
            if evaluation.upper_reason
        }
        sentences += [f"There is no upper bound: {reason}." for reason in sorted(reasons)]
        return [on_one_line(in_options(sentence)) for sentence in sentences]

    def text(self) -> str:
        """The results as text for the terminal, warnings first."""
        warnings = self.warnings()
        parts = (
            ["Warnings", *(f"- {sentence}" for sentence in warnings)]
            if warnings
            else ["No warnings."]
        )
        for table in self.tables():
            parts += ["", table.text(), on_one_line(table.note)]
        parts += ["", *(f"- {sentence}" for sentence in self.words())]
        return "\n".join(parts)


def in_options(words: str) -> str:
    """Replace the library's arguments in a sentence by the command's options."""
    for argument, option in OPTIONS.items():
        words = re.sub(argument, option, words)
    return words


def number(value: Any, form: str = ".6g") -> str:
    """A number as a cell; an unknown number is a dash."""
    if value is None or math.isnan(value):
        return "-"
    return format(float(value), form)


def tail_index(value: float) -> str:
    """A tail index as a cell; 100 or more means that values tie and there is no tail."""
    return f"{value:.2f}" if value < NO_TAIL else "none"


def _mean_weight(evaluation: Evaluation) -> str:
    mean, low, high = evaluation.mean_weight
    if math.isnan(mean):
        return "-"
    return f"{mean:.3f} ({low:.3f} to {high:.3f}){'' if evaluation.propensities_ok else ': not 1'}"


def _in_words(label: str, evaluation: Evaluation) -> str:
    if math.isnan(evaluation.value):
        return f"{label}: no row of the log has weight, so nothing is known of its value."
    sides = [
        f"{side} {number(bound)}"
        for side, bound in (("at least", evaluation.lower), ("at most", evaluation.upper))
        if bound is not None
    ]
    sure = f"; {' and '.join(sides)} with probability {evaluation.level:g}" if sides else ""
    words = f"{label} would have earned about {number(evaluation.value)} per row{sure}."
    if not sides and evaluation.lower_reason:
        words += f" There is no bound: {evaluation.lower_reason}."
    if not math.isnan(evaluation.effective_size):
        words += (
            f" The {evaluation.rows:,} rows of the log tell as much about it "
            f"as {evaluation.effective_size:,.0f} of its own would."
        )
    if evaluation.tail is not None and evaluation.tail.heavy and evaluation.tail.clear:
        words += f" Its weighted rewards have a tail of index {evaluation.tail.index:.2f}."
    return words


def _comparison(label: str, against: str, comparison: Comparison) -> str:
    if comparison.better is None:
        words = f"This log does not decide between {label} and {against}"
        if comparison.rows_needed is None:
            return f"{words}."
        return (
            f"{words}; about {float(f'{comparison.rows_needed:.1e}'):,.0f} rows like these would."
        )
    word, bound = (
        ("more", comparison.lower) if comparison.better == "a" else ("less", comparison.upper)
    )
    assert bound is not None
    sure = f"at least {abs(bound):.4g} {word} per row than {against}"
    about = "" if comparison.guaranteed else ", by an approximate interval"
    return f"{label} earns {sure}{about}."
