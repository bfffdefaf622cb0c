"""Reward models and propensities that are not in the log: given, or fitted to it.

A regressor is fitted to all folds but one and predicts that one (row number mod folds), so that no
row is judged by a model that has seen it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._memory import check_memory
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import GREATEST, as_rows, check_count, shown
from heavytail.logs.estimators import is_fitted
from heavytail.logs.means import skew_corrected
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.source import Source
from heavytail.logs.sketch import Pairs

__all__ = ["ArmMeans", "CrossFit", "Propensities", "as_model", "as_propensities"]

Propensities = ArrayLike | Callable[[Rows], ArrayLike] | None  # text: how to estimate them

MOST_FOLDS = 1000  # each has a model of its own
OTHERS = 2.0  # rows of the overall mean that are mixed into each action's own mean


def as_model(model: Any, source: Source, folds: int) -> Callable[[Rows], FloatArray]:
    """A callable of Rows: the one given, or a regressor fitted to the log."""
    if not is_fitted(model):
        return model
    check_count("folds", folds, least=2, most=_most_folds(source))
    if isinstance(model, str):
        return ArmMeans.of(source, folds)
    return CrossFit.of(model, source, folds)


def _most_folds(source: Source) -> int:
    """A thousand, or the number of rows if smaller: a fold without rows would have no model."""
    rows = source.length()
    return MOST_FOLDS if rows is None else min(MOST_FOLDS, max(rows, 2))


class CrossFit:
    """One regressor per fold, each fitted to the rows of the others.

    The features of row and action are the action's own (``arms``), or the context beside the
    action's indicator.
    """

    def __init__(self, models: list[Any], actions: int) -> None:
        self.models, self.actions = models, actions

    @classmethod
    def of(cls, model: Any, source: Source, folds: int) -> CrossFit:
        """Fit ``folds`` copies: by partial_fit, chunk by chunk, else by fit on all rows at once."""
        models = [copy.deepcopy(model) for _ in range(folds)]
        actions = 1 + max(
            max(int(rows.action.max(initial=0)), _width(rows) - 1) for rows in source.chunks()
        )
        held: list[list[tuple[FloatArray, FloatArray]]] = [[] for _ in models]
        for rows in source.chunks():
            x = _features(rows, rows.action, actions)
            fold = (rows.start + np.arange(len(rows.action))) % folds
            for k, learner in enumerate(models):
                part = fold != k
                if hasattr(learner, "partial_fit"):
                    learner.partial_fit(x[part], rows.reward[part])
                else:
                    held[k].append((x[part], rows.reward[part]))
        for learner, parts in zip(models, held, strict=True):
            if parts:
                learner.fit(
                    np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
                )
        return cls(models, actions)

    def __call__(self, rows: Rows, width: int | None = None) -> FloatArray:
        """(n, K): the reward that the model of each row's fold predicts for every action."""
        n = len(rows.action)
        fold = (rows.start + np.arange(n)) % len(self.models)
        width = _width(rows) or min(width or self.actions, self.actions)
        q = np.zeros((n, width))
        for action in range(width):
            x = _features(rows, np.full(n, action), self.actions)
            known = np.isfinite(x).all(axis=1)  # an arm that was not offered is not predicted
            for k, model in enumerate(self.models):
                part = known & (fold == k)
                if part.any():
                    size = (int(part.sum()),)
                    q[part, action] = as_rows(model.predict(x[part]), size, "what model predicts")
        return q


class ArmMeans:
    """Each action's robust mean reward in the other folds, whatever the context.

    It is mixed with two rows of the mean over all actions, which stands for actions without rows.
    """

    def __init__(self, means: FloatArray) -> None:
        self.means = means  # (folds, actions + 1); the last is that of all

    @classmethod
    def of(cls, source: Source, folds: int) -> ArmMeans:
        """Robust means of every action's rewards outside every fold."""
        parts = [(rows.action, rows.reward) for rows in source.chunks()]
        action = np.concatenate([part[0] for part in parts])
        reward = np.concatenate([part[1] for part in parts])
        if np.any(np.abs(reward) > GREATEST):
            raise ValueError(
                f"model 'arms': the log's rewards must be at most {GREATEST:g} in size; got "
                f"{np.max(np.abs(reward)):g}. Change the unit."
            )
        fold = np.arange(len(action)) % folds
        order = np.argsort(action, kind="stable")
        seen, first = np.unique(action[order], return_index=True)
        means = np.empty((folds, int(action.max(initial=-1)) + 2))
        for k, row in enumerate(means):
            row[:] = _robust(reward[fold != k])
            for arm, at in zip(seen, np.split(order, first[1:]), strict=True):
                own = reward[at[fold[at] != k]]
                if len(own):
                    row[arm] += (_robust(own) - row[-1]) * len(own) / (len(own) + OTHERS)
        return cls(means)

    def __call__(self, rows: Rows, width: int | None = None) -> FloatArray:
        """(n, K): the mean reward of every action in the other folds."""
        fold = (rows.start + np.arange(len(rows.action))) % len(self.means)
        last = self.means.shape[1] - 1
        arms = np.minimum(np.arange(width or _width(rows) or last), last)
        return np.asarray(self.means[fold[:, None], arms])


def _robust(rewards: FloatArray) -> float:
    return skew_corrected(Pairs(np.ones(len(rewards)), rewards).cells()).value


def _width(rows: Rows) -> int:
    for known in (rows.arms, rows.probabilities, rows.target):
        if known is not None and known.ndim > 1:
            return known.shape[1]
    return 0


def _features(rows: Rows, action: IntArray, actions: int) -> FloatArray:
    if rows.arms is not None:
        return np.asarray(rows.arms[np.arange(len(action)), action])
    check_memory(
        f"{rows.source}: the indicators of {actions:,} actions for {len(action):,} rows",
        float(actions) * len(action),
        "Log the actions' features as 'arms', or number the actions that occur without gaps.",
    )
    marks = (action[:, None] == np.arange(actions)).astype(float)
    return marks if rows.context is None else np.hstack([rows.context, marks])


def as_propensities(given: Propensities, source: Source) -> Callable[[Rows], FloatArray] | None:
    """A callable of Rows giving (n,), or None for the log's own."""
    if given is None:
        return None
    if isinstance(given, str):
        if given != "frequencies":
            raise ValueError(f"propensities must be 'frequencies', ...; got {shown(given)}.")
        counts = np.zeros(0)
        for rows in source.chunks():
            more = np.bincount(rows.action, minlength=len(counts)).astype(float)
            counts = more + np.pad(counts, (0, len(more) - len(counts)))
        return Frequencies(counts / max(counts.sum(), 1.0))
    if callable(given):
        return Checked(given)
    return Checked(Sliced(as_rows(given, (None,), "propensities")))


class Frequencies:
    """The share of the log's rows with each action."""

    def __init__(self, shares: FloatArray) -> None:
        self.shares = shares

    def __call__(self, rows: Rows) -> FloatArray:
        return np.asarray(self.shares[rows.action])


class Sliced:
    """An array over the whole log."""

    def __init__(self, values: FloatArray) -> None:
        self.values = values

    def __call__(self, rows: Rows) -> FloatArray:
        return np.asarray(self.values[rows.start : rows.start + len(rows.action)])


class Checked:
    """Propensities from elsewhere, checked like those of a log."""

    def __init__(self, source: Callable[[Rows], ArrayLike]) -> None:
        self.source = source

    def __call__(self, rows: Rows) -> FloatArray:
        p = as_rows(self.source(rows), (len(rows.action),), "propensities")
        bad = ~((p > 0.0) & (p <= 1.0))
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(
                f"propensities of row {rows.start + at} must be above 0 and at most 1; got {p[at]}."
            )
        return p
