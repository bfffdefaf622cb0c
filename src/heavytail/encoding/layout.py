"""The layout of the features in a vector, and the writing of rows to it.

A vector is made of blocks: one for each column of numbers, of categories, of hashed categories,
and for each cross. In every row a block has at most one feature that is not 0, of size at most 1
times the block's weight w_j. With w_j = L sqrt(a_j / (a_1 + ... + a_m)), a_j the block's share,

    |x|² <= w_1² + ... + w_m² = L²,

whatever the row holds: a number beyond its clip, a category that nobody has seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.encoding.learned import checked_numbers
from heavytail.encoding.schema import INDICATOR, MOST_FEATURES, Cross, Schema
from heavytail.encoding.text import Buckets
from heavytail.tables.categories import Keys, keys_of
from heavytail.tables.frames import Table

__all__ = ["Layout", "Read", "lay_out"]

MANY: Final = 1024  # rows from which on a combination of texts is looked for before it is hashed
Read = FloatArray | Keys  # a column: numbers, NaN where one is missing, or categories


class Block(NamedTuple):
    """Features ``start`` to ``start + size`` of a column, or of a cross of several."""

    name: str
    start: int
    size: int
    weight: float


class Coded(NamedTuple):
    """A column, or a cross, as the place of the feature that is not 0 (-1: none) and its value,
    each an array of one entry per row, or of one for all rows.
    """

    place: IntArray | None  # None: there is but one feature
    value: FloatArray | None  # None: it is 1


class Layout:
    """The blocks of a schema whose centres, scales and categories are all known."""

    def __init__(
        self,
        schema: Schema,
        numbers: Mapping[str, tuple[float, float]],
        categories: Mapping[str, tuple[str, ...]],
    ) -> None:
        self.schema = schema
        self.numbers, self.categories = numbers, categories
        self.places = {
            name: {text: i for i, text in enumerate(listed)} for name, listed in categories.items()
        }
        sizes = {name: 1 + (schema.missing[name] == INDICATOR) for name in numbers}
        sizes |= {name: len(listed) + schema.other for name, listed in categories.items()}
        sizes |= schema.hashed
        self._sizes = dict(sizes)
        sizes |= {cross.name: self._width(cross) for cross in schema.crosses}
        self.dim = sum(sizes.values())
        if self.dim > MOST_FEATURES:
            largest = max(sizes, key=sizes.__getitem__)
            raise ValueError(
                f"Encoder: {self.dim} features are more than {MOST_FEATURES}; {sizes[largest]} of "
                f"them are of {largest!r}. Hash it to fewer: hashed= or crosses=[(..., 256)]."
            )
        self.buckets = {
            name: Buckets(schema.seed, (name,), size) for name, size in schema.hashed.items()
        }
        for cross in schema.crosses:
            if cross.buckets is not None:
                texts = [name for name in cross.columns if name not in numbers]
                self.buckets[cross.name] = Buckets(schema.seed, texts, cross.buckets)
        weights = _weights(schema, list(sizes))
        starts = itertools.accumulate(sizes.values(), initial=0)
        self.blocks = {
            name: Block(name, start, sizes[name], weights[name])
            for name, start in zip(sizes, starts, strict=False)
        }

    def _width(self, cross: Cross) -> int:
        if cross.buckets is not None:
            return cross.buckets
        return math.prod(self._sizes[name] for name in cross.columns if name not in self.numbers)

    def names(self) -> list[str]:
        """The name of each feature."""
        own: dict[str, list[str]] = {}
        for name in self.numbers:
            flag = [f"{name} is missing"] if self.schema.missing[name] == INDICATOR else []
            own[name] = [name, *flag]
        for name, listed in self.categories.items():
            other = [f"{name} is other"] if self.schema.other else []
            own[name] = [*(f"{name}={text}" for text in listed), *other]
        for name, size in self.schema.hashed.items():
            own[name] = [f"{name}#{k}" for k in range(size)]
        for cross in self.schema.crosses:
            if cross.buckets is not None:
                own[cross.name] = [f"{cross.name}#{k}" for k in range(cross.buckets)]
                continue
            parts = [[name] if name in self.numbers else own[name] for name in cross.columns]
            own[cross.name] = ["*".join(part) for part in itertools.product(*parts)]
        return list(itertools.chain.from_iterable(own.values()))

    def fill(self, rows: Mapping[str, Table], length: int) -> FloatArray:
        """The vectors, (length, dim); ``rows`` says which table has each column, of one row where
        all rows share it. O(length (dim + columns)).
        """
        return self.write(self.read(rows), length)

    def read(self, rows: Mapping[str, Table]) -> dict[str, Read]:
        """The columns that ``rows`` has a table for, as numbers or as keys."""
        columns: dict[str, Read] = {}
        for name in [*self.numbers, *self.categories, *self.schema.hashed, *self.schema.columns]:
            if name not in rows or name in columns:
                continue
            if name in self.numbers:
                columns[name] = checked_numbers(rows[name], name, self.schema.missing[name])
            else:
                columns[name] = keys_of(rows[name].column(name), rows[name].place(name))
        return columns

    def write(self, columns: Mapping[str, Any], length: int) -> FloatArray:
        """The vectors, (length, dim), of what :meth:`read` gave for all columns."""
        X = np.zeros((length, self.dim))
        flat, first = X.reshape(-1), np.arange(length) * self.dim
        coded: dict[str, Coded] = {}
        for name in self.numbers:
            coded[name] = self._number(X, columns[name], name)
        for name in self.categories:
            coded[name] = self._category(columns[name], name)
            self._write(flat, first, self.blocks[name], coded[name])
        for name in self.schema.hashed:
            coded[name] = Coded(_hashed(self.buckets[name], [columns[name]]), None)
            self._write(flat, first, self.blocks[name], coded[name])
        for cross in self.schema.crosses:
            self._write(flat, first, self.blocks[cross.name], self._cross(cross, coded, columns))
        return X

    def _number(self, X: FloatArray, values: FloatArray, name: str) -> Coded:
        """z = (v - centre) / (clip scale), cut to [-1, 1]; 0 where v is missing."""
        schema, block = self.schema, self.blocks[name]
        centre, scale = self.numbers[name]
        z = (values - centre) / (schema.clip * scale)
        z = np.minimum(np.maximum(z, -1.0), 1.0)
        gone = np.isnan(z)
        if gone.any():
            z[gone] = 0.0
            if block.size > 1:
                X[:, block.start + 1] = block.weight * gone
        X[:, block.start] = block.weight * z
        return Coded(None, z)

    def _category(self, keys: Keys, name: str) -> Coded:
        places, listed = self.places[name], len(self.categories[name])
        unknown = listed if self.schema.other else -1
        looked = [places.get(text, unknown) for text in keys.values]
        return Coded(np.array([*looked, unknown])[keys.codes], None)  # code -1: the last

    def _cross(self, cross: Cross, coded: Mapping[str, Coded], keys: Mapping[str, Any]) -> Coded:
        """The product of the columns' features, which has one that is not 0 as they have."""
        place: IntArray | None = None
        value: Any = None
        for name in cross.columns:
            if name in self.numbers:
                z = coded[name].value
                value = z if value is None else value * z
        categories = [name for name in cross.columns if name not in self.numbers]
        if cross.buckets is not None:
            texts = [keys[name] for name in categories]
            return Coded(_hashed(self.buckets[cross.name], texts) if categories else None, value)
        for name in categories:
            more = coded[name].place
            assert more is not None
            if place is None:
                place = more
            else:
                known = (place >= 0) & (more >= 0)
                place = np.where(known, place * self._sizes[name] + more, -1)
        return Coded(place, value)

    @staticmethod
    def _write(flat: FloatArray, first: IntArray, block: Block, coded: Coded) -> None:
        """One block of all rows."""
        place, value = coded
        index = first + block.start if place is None else first + (block.start + place)
        entries = block.weight if value is None else block.weight * value
        if place is not None and place.min(initial=0) < 0:
            known = np.broadcast_to(place >= 0, index.shape)
            index = index[known]
            if value is not None:
                entries = np.broadcast_to(entries, known.shape)[known]
        flat[index] = entries


def _hashed(buckets: Buckets, keys: list[Keys]) -> IntArray:
    """The bucket of each row's texts; -1 where one is missing."""
    if len(keys) == 1:
        places = [buckets[text] for text in keys[0].values]
        return np.array([*places, -1])[keys[0].codes]
    length = max(len(column.codes) for column in keys)
    if length >= MANY:
        return _hashed_once(buckets, keys, length)
    texts = [_texts(column, length) for column in keys]
    return np.fromiter(map(buckets.__getitem__, zip(*texts, strict=False)), np.int64, length)


def _hashed_once(buckets: Buckets, keys: list[Keys], length: int) -> IntArray:
    """The same, looking at each combination of texts once."""
    joint = np.zeros(length, dtype=np.int64)
    for column in keys:
        joint = joint * (len(column.values) + 1) + column.codes
        _, first, joint = np.unique(joint, return_index=True, return_inverse=True)
    codes = [np.broadcast_to(column.codes, length)[first] for column in keys]
    texts = [
        _texts(Keys(own, column.values), len(first))
        for own, column in zip(codes, keys, strict=True)
    ]
    places = map(buckets.__getitem__, zip(*texts, strict=True))
    return np.fromiter(places, np.int64, len(first))[joint]


def _texts(keys: Keys, length: int) -> Iterable[str | None]:
    """The text of each row, None where it is missing; without end where all rows share it."""
    texts = map([*keys.values, None].__getitem__, keys.codes.tolist())
    return texts if len(keys.codes) == length else itertools.repeat(next(texts))


def _weights(schema: Schema, names: list[str]) -> dict[str, float]:
    """w_j = L sqrt(a_j / sum a), rounded down until their length is at most L."""
    shares = np.array([schema.shares.get(name, 1.0) for name in names])
    weights = schema.bound * np.sqrt(shares / shares.sum())
    while math.hypot(*weights) > schema.bound:
        weights = np.nextafter(weights, 0.0)
    return dict(zip(names, weights.tolist(), strict=True))


def lay_out(schema: Schema, numbers: Mapping[str, Any], categories: Mapping[str, Any]) -> Layout:
    """The layout of a schema; what it does not state is taken from what was learned."""
    scaled = {name: own or numbers[name] for name, own in schema.numbers.items()}
    listed = {name: own or categories[name] for name, own in schema.categories.items()}
    return Layout(schema, scaled, listed)
