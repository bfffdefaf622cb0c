"""The policies of ``heavytail evaluate``, from its command line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import heavytail as ht
from heavytail._memory import check_memory
from heavytail._signals import raised_by_handler
from heavytail._typing import FloatArray
from heavytail._validate import check_count, printable, shown
from heavytail.encoding import Catalogue
from heavytail.logs.fixed import Always
from heavytail.logs.models import as_propensities
from heavytail.logs.reading import chunks
from heavytail.logs.reading.rows import LOGGED, MOST_ARMS, Rows, offered
from heavytail.logs.reading.source import Source
from heavytail.logs.target import Target

__all__ = ["Weights", "is_column", "is_saved", "policy_of", "propensities_of", "saved_policy"]

COLUMN, UNIFORM, SAVED, ALWAYS = "column:", "uniform", ".npz", "always:"
UNREAD = ("propensity", "probabilities", "arms", "context", "time")  # beside a target's column
PER_OCTAVE = 4  # bars of the histogram of weights
Shares = Callable[[Rows], Any]


def is_column(words: str) -> bool:
    """Tell whether these words name a column of the log."""
    return words.startswith(COLUMN)


def is_saved(words: str) -> bool:
    """Tell whether these words name a file that ``policy.save`` wrote."""
    if is_column(words) or _is_uniform(words) or words == LOGGED or words.startswith(ALWAYS):
        return False
    return words.endswith(SAVED) or os.path.isfile(words)


def _is_uniform(words: str) -> bool:
    return words == UNIFORM or words.startswith(f"{UNIFORM}:")


def policy_of(words: str, source: Source, option: str) -> Any:
    """The policy named by ``words``, as :class:`heavytail.logs.target.Target` takes it."""
    if is_column(words):
        return _Column(words.removeprefix(COLUMN), source, option)
    if _is_uniform(words):
        return _Uniform(words, option)
    if words == LOGGED:
        return words
    if words.startswith(ALWAYS):
        return _always(words.removeprefix(ALWAYS), option)
    if is_saved(words):
        return saved_policy(words, option)
    if ":" in words:
        return _Called(_imported(words, option), words, option)
    raise ValueError(
        f"{option} must be a file {SAVED} that policy.save wrote, {COLUMN}NAME, {ALWAYS}ACTION, "
        f"{LOGGED}, {UNIFORM}, or MODULE:FUNCTION; got {shown(words)}."
    )


def _always(action: str, option: str) -> Always:
    """One action in every row; a number is that, too, where actions are texts."""
    if not action:
        raise ValueError(f"{option} {ALWAYS} must be followed by an action; got nothing.")
    number = action.isdecimal() and len(action) < 9 and str(int(action)) == action
    return Always(int(action) if number else action)


def propensities_of(words: str | None, source: Source) -> Callable[[Rows], FloatArray] | None:
    """Propensities in place of the log's own: frequencies, counted once, or a function's."""
    if words is None:
        return None
    if words == "frequencies":
        return as_propensities(words, source)
    option = "--propensities"
    if ":" not in words:
        raise ValueError(
            f"{option} must be 'frequencies' or MODULE:FUNCTION; got {shown(words)}. A column of "
            "the log is named by --column propensity=NAME."
        )
    return as_propensities(_Called(_imported(words, option), words, option), source)


def saved_policy(words: str, option: str) -> Any:
    """The policy in a file."""
    policy = ht.load(words)
    if not isinstance(policy, ht.Policy | ht.LogPolicy):
        raise ValueError(
            f"{option} {words}: holds a {type(policy).__name__}, which chooses no arms. Pass a "
            "policy's file."
        )
    return policy


def _imported(words: str, option: str) -> Any:
    """Import a function from a module; the module's code runs and may fail in any way."""
    module, _, name = words.partition(":")
    sys.path.insert(0, "")  # a function of the user's own, in the current folder
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        if raised_by_handler(error):
            raise
        raise ValueError(
            f"{option} {shown(words)}: cannot be imported ({_failure(error)}); it must be "
            "MODULE:FUNCTION, importable from the current folder or installed."
        ) from None
    finally:
        sys.path.remove("")
    if not callable(function) or isinstance(function, type):
        raise ValueError(
            f"{option} {shown(words)}: must be a function of "
            f"heavytail.logs.reading.rows.Rows giving probabilities; got {shown(function)}."
        )
    return function


def _failure(error: Exception) -> str:
    return printable(f"{type(error).__name__}: {error}")


class _Called:
    """A function of the user; its failures are reported with its name and the rows."""

    def __init__(self, function: Any, words: str, option: str) -> None:
        self.function, self.option, self.__name__ = function, option, printable(words)

    def __call__(self, rows: Rows) -> Any:
        try:
            return self.function(rows)
        except Exception as error:
            if raised_by_handler(error):
                raise
            last = rows.start + len(rows.action) - 1
            raise ValueError(
                f"{self.option} {self.__name__}: failed on rows {rows.start} to {last} "
                f"({_failure(error)})."
            ) from error


class _Uniform:
    """Equal probabilities for all offered arms."""

    def __init__(self, words: str, option: str) -> None:
        self.__name__, self.option = words, option
        _, colon, count = words.partition(":")
        number = int(count) if count.isdecimal() and len(count) < 10 else count
        name = f"{option} {UNIFORM}:K, K"
        self.count = check_count(name, number, most=MOST_ARMS) if colon else None

    def __call__(self, rows: Rows) -> FloatArray:
        counts = offered(rows)
        if counts is None and self.count is None:
            raise ValueError(
                f"{self.option} {UNIFORM}: {rows.source} does not say how many arms there are. "
                f"Pass {UNIFORM}:K, or log the arms."
            )
        if counts is None:
            counts = np.full(len(rows.action), self.count)
        elif self.count is not None and np.any(counts != self.count):
            row = int(np.argmax(counts != self.count))
            raise ValueError(
                f"{self.option} {self.__name__}: {rows.at(row)}, offers "
                f"{counts[row]} arms. Pass {UNIFORM} alone."
            )
        width = max(int(counts.max(initial=1)), 0 if rows.arms is None else rows.arms.shape[1])
        check_memory(
            f"{self.option} {self.__name__}: probabilities of {width:,} arms for "
            f"{len(counts):,} rows",
            float(width) * len(counts),
            "Name fewer arms.",
        )
        each = 1.0 / counts[:, None]
        return np.asarray(np.where(np.arange(width) < counts[:, None], each, 0.0))


class _Column:
    """A column of the log, read in parallel with it: every reading of a log has the same chunks."""

    def __init__(self, name: str, source: Source, option: str) -> None:
        if not name:
            raise ValueError(
                f"{option} {COLUMN} must be followed by the column's name; got nothing."
            )
        self.name, self.__name__ = name, f"column {printable(name)}"
        left_out: Mapping[str, Any] = dict.fromkeys(UNREAD)
        columns = dict(source.columns or {})
        if isinstance(columns.get("arms"), Catalogue):  # by which actions are known, and chunks cut
            left_out = {key: None for key in left_out if key != "arms"}
        self.columns = {**columns, **left_out, "target": name}
        self.source = source
        self.parts: Iterator[Rows] = iter(())

    def __call__(self, rows: Rows) -> FloatArray:
        if rows.start == 0:
            self.parts = chunks(
                self.source.log, columns=self.columns, default_reward=self.source.default_reward
            )
        part = next(self.parts, None)
        same = part is not None and part.start == rows.start
        if part is None or not same or not np.array_equal(part.action, rows.action):
            raise ValueError(f"{rows.source} changed while it was read. Start again.")
        assert part.target is not None
        return part.target


class Weights:
    """A target that counts its weights, in bars of a quarter of an octave.

    Attributes:
        label: the policy's name, safe for printing.
        counting: whether the present rows are counted.
        zeros: rows of weight 0.
        bars: other rows, by floor(4 log2 w).
    """

    def __init__(
        self, label: str, target: Target, propensities: Shares | None, tick: Callable[[int], None]
    ) -> None:
        self.label, self.__name__ = label, label
        self.target, self.propensities, self.tick = target, propensities, tick
        self.counting = False
        self.zeros = 0
        self.bars: dict[int, int] = {}

    def __call__(self, rows: Rows) -> FloatArray:
        stated = None if self.propensities is None else self.propensities(rows)
        shares = self.target(rows, stated)
        if self.counting:
            p = rows.propensity if stated is None else stated
            if self.target.of_log(rows):
                self._count(np.ones(len(rows.action)))
            elif p is not None:
                row = np.arange(len(rows.action))
                with np.errstate(over="ignore"):  # a weight may be infinite; it is refused later
                    self._count((shares if shares.ndim == 1 else shares[row, rows.action]) / p)
        self.tick(len(rows.action))
        return shares

    def _count(self, weights: FloatArray) -> None:
        self.zeros += int(np.sum(weights == 0.0))
        some = weights[(weights > 0.0) & np.isfinite(weights)]
        bars, counts = np.unique(np.floor(PER_OCTAVE * np.log2(some)), return_counts=True)
        for bar, count in zip(bars.tolist(), counts.tolist(), strict=True):
            self.bars[int(bar)] = self.bars.get(int(bar), 0) + count

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Edges of the bars, from the smallest weight to the largest, and their counts."""
        if not self.bars:
            return np.array([1.0, 2.0]), np.zeros(1)
        first, last = min(self.bars), max(self.bars)
        counts = np.array([self.bars.get(bar, 0) for bar in range(first, last + 1)], dtype=float)
        return np.exp2(np.arange(first, last + 2) / PER_OCTAVE), counts
