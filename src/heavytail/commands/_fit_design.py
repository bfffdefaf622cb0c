"""Columns of a table as the features of ``heavytail fit``: numbers as they are, words as groups."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytail._validate import printable, shown

if TYPE_CHECKING:
    from heavytail._typing import FloatArray

__all__ = ["Design"]


@dataclass(frozen=True)
class Design:
    """Some columns of some rows.

    A column of words gives a feature for each word except the most frequent one: 1 in the rows with
    the word, 0 in the others. Its coefficient is the difference from the most frequent word.

    Attributes:
        columns: their names.
        values: (n, columns); of a column of words, the words' numbers.
        words: the words of each such column, in the order of their numbers.
    """

    columns: list[str]
    values: FloatArray
    words: dict[str, list[str]]

    @functools.cached_property
    def most_frequent(self) -> dict[str, str]:
        """The word of each column of words to which the others are compared."""
        return {
            column: min(counts, key=lambda word: (-counts[word], word))
            for column, counts in self._counts.items()
        }

    @functools.cached_property
    def _counts(self) -> dict[str, dict[str, int]]:
        """The number of rows with each word; words that occur only in skipped rows do not count."""
        all_counts = {}
        for column, words in self.words.items():
            values = self.values[:, self.columns.index(column)]
            numbers, counts = np.unique(values.astype(int), return_counts=True)
            all_counts[column] = {words[i]: int(n) for i, n in zip(numbers, counts, strict=True)}
        return all_counts

    @functools.cached_property
    def _features(self) -> list[tuple[str, FloatArray]]:
        features: list[tuple[str, FloatArray]] = []
        for column, values in zip(self.columns, self.values.T, strict=True):
            if column not in self.words:
                features.append((column, values))
                continue
            others = set(self._counts[column]) - {self.most_frequent[column]}
            for word in sorted(others):
                has = np.equal(values, self.words[column].index(word))
                features.append((f"{column}={word}", has.astype(float)))
        return features

    @property
    def features(self) -> list[str]:
        """The names of the features; of a word, ``column=word``."""
        return [name for name, _ in self._features]

    @functools.cached_property
    def X(self) -> FloatArray:
        """The features, (n, features)."""
        blank = np.empty((len(self.values), 0))
        return np.column_stack([blank, *(values for _, values in self._features)])

    def check(self, path: str) -> None:
        """Refuse a table without features, or with duplicate names of features."""
        twice = [name for name, count in Counter(self.features).items() if count > 1]
        if twice:
            raise ValueError(
                f"{path} has a column {shown(twice[0])}, also the name of a word's feature. "
                "Rename the column."
            )
        if not self.features:
            raise ValueError(f"{path}: all words of --categories are the same. Name other columns.")

    def row(self, i: int) -> list[str]:
        """The cells of a row, safe for printing."""
        cells = []
        for column, value in zip(self.columns, self.values[i], strict=True):
            words = self.words.get(column)
            cells.append(f"{value:.6g}" if words is None else printable(words[int(value)]))
        return cells
