"""The layout of the features in a vector: blocks of columns, of maps, and of their products.

A vector is made of blocks: one for each column of numbers, of categories, of hashed categories, for
each map, and for each cross. A column or map j has an elementary vector f_j with |f_j| <= 1: one
feature of size at most 1, a curve's (z, h_1, ..., h_K) / sqrt(2), a map's features of length at
most 1. A cross has the Kronecker product of its columns' elementary vectors, whose length is the
product of theirs. Block j is f_j times its weight w_j = L sqrt(a_j / (a_1 + ... + a_m)), a_j the
block's share, hence

    |x|² <= w_1² + ... + w_m² = L²,

whatever the row holds: a number beyond its clip, a category that nobody has seen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray, Matrices
from heavytail.encoding.curves import Line, Spline
from heavytail.encoding.learned import checked_numbers
from heavytail.encoding.maps import Map
from heavytail.encoding.schema import INDICATOR, MOST_FEATURES, Schema
from heavytail.encoding.text import Buckets, Places
from heavytail.encoding.writing import (
    BLOCK,
    CONTEXT,
    FACTOR,
    GIVEN,
    NUMBER,
    OFFER,
    PLACE,
    TOGETHER,
    code,
    code_and_write,
    write,
)
from heavytail.tables.categories import Keys, keys_of
from heavytail.tables.frames import Table

__all__ = ["Layout", "Read", "Sides", "indices"]

MANY: Final = 1024  # rows from which on a combination of texts is looked for before it is hashed
CHUNK: Final = 2**8  # rows of a table that are coded at a time
REMEMBERED: Final = 16  # ways to divide the columns between context and arms
Read = FloatArray | Keys  # a column: numbers, NaN where one is missing, or categories
Alone = tuple[str, int, Places | Buckets | None]  # a column, the slot of its number, its texts
Joint = tuple[tuple[str, ...], int, Buckets]
Whole: Final = slice(None)


class Block(NamedTuple):
    """Features ``start`` to ``start + size`` of a column, or of a cross of several."""

    name: str
    start: int
    size: int
    weight: float


@dataclass(frozen=True)
class Column:
    """A column, a map or the joint bucket of several texts, as the kernels take it."""

    sources: tuple[str, ...]  # columns of a row
    kind: int
    features: tuple[str, ...]  # in crosses
    flag: tuple[str, ...] = ()  # of a missing number, in its own block alone
    entries: int = 1  # in crosses
    inputs: int = 1  # raw numbers
    size: int = 0
    numbers: list[float] = field(default_factory=list)


class Layout:
    """The blocks of a schema of which everything is known."""

    def __init__(
        self,
        schema: Schema,
        numbers: Mapping[str, Line | Spline],
        categories: Mapping[str, tuple[str, ...]],
        maps: Mapping[str, Map],
    ) -> None:
        self.schema = schema
        self.numbers, self.categories, self.maps = numbers, categories, maps
        self.buckets = {
            name: Buckets(schema.seed, (name,), size) for name, size in schema.hashed.items()
        }
        self.places = {
            name: Places(listed, len(listed) if schema.other else -1)
            for name, listed in categories.items()
        }
        columns = {name: self._number(name) for name in numbers}
        columns |= {name: self._category(name) for name in categories}
        columns |= {name: _bucketed((name,), size, name) for name, size in schema.hashed.items()}
        for name, made in maps.items():
            entries, kind, inputs = made.entries, made.kind, len(made.columns)
            columns[name] = Column(
                tuple(made.columns), kind, made.features(name), (), entries, inputs, made.size,
                made.numbers(name, schema.seed, schema.clip),
            )  # fmt: skip
        parts: dict[str, tuple[str, ...]] = {name: (name,) for name in columns}  # of each block
        for cross in schema.crosses:
            parts[cross.name] = cross.columns
            if cross.buckets is not None:
                texts = tuple(name for name in cross.columns if name not in {*numbers, *maps})
                self.buckets[cross.name] = Buckets(schema.seed, texts, cross.buckets)
                columns[cross.name] = _bucketed(texts, cross.buckets, cross.name)
                rest = [name for name in cross.columns if name not in texts]
                parts[cross.name] = (cross.name, *rest)
        self.columns, self._parts = columns, parts
        sizes = {name: self._width(name) for name in parts}
        self.dim = sum(sizes.values())
        if self.dim > MOST_FEATURES:
            largest = max(sizes, key=sizes.__getitem__)
            raise ValueError(
                f"Encoder: {self.dim} features are more than {MOST_FEATURES}; {sizes[largest]} of "
                f"them are of {largest!r}. Hash it to fewer: hashed= or crosses=[(..., 256)]."
            )
        weights = _weights(schema, list(sizes))
        starts = itertools.accumulate(sizes.values(), initial=0)
        self.blocks = {
            name: Block(name, start, sizes[name], weights[name])
            for name, start in zip(sizes, starts, strict=False)
        }
        self._plan()
        self._sides: dict[frozenset[str], Sides] = {}

    def _number(self, name: str) -> Column:
        made = self.numbers[name]
        line = made.line if isinstance(made, Spline) else made
        knots = made.places if isinstance(made, Spline) else ()
        flag = self.schema.missing[name] == INDICATOR
        return Column(
            (name,),
            NUMBER,
            (name, *(f"{name}~{knot!r}" for knot in knots)),
            (f"{name} is missing",) if flag else (),
            3 if knots else 1,
            numbers=[line[0], self.schema.clip * line[1], len(knots), *knots, flag],
        )

    def _category(self, name: str) -> Column:
        listed = [f"{name}={text}" for text in self.categories[name]]
        other = [f"{name} is other"] if self.schema.other else []
        return Column((name,), PLACE, (*listed, *other))

    def _width(self, block: str) -> int:
        columns = [self.columns[name] for name in self._parts[block]]
        own = len(columns[0].flag) if len(columns) == 1 else 0
        return own + math.prod(len(column.features) for column in columns)

    def _plan(self) -> None:
        """The arguments of the kernels: columns, blocks and parameters as arrays."""
        order = {name: f for f, name in enumerate(self.columns)}
        self._factors = np.zeros((len(order), len(FACTOR)), dtype=np.int64)
        numbers: list[float] = []
        entry = raw = 0
        for column, row in zip(self.columns.values(), self._factors, strict=True):
            own = column.entries + len(column.flag)
            row[:] = (
                column.kind, 0, entry, own, column.entries, len(column.features), raw,
                column.inputs, column.size, len(numbers),
            )  # fmt: skip
            numbers += column.numbers
            entry, raw = entry + own, raw + column.inputs
        self.entries, self.raws = entry, raw
        first = len(numbers)
        self._numbers = np.array([*numbers, *(block.weight for block in self.blocks.values())])
        parts = list(self._parts.values())
        self._products = np.zeros((len(parts), len(BLOCK) + max(map(len, parts))), dtype=np.int64)
        self.room = 1
        for b, (block, names) in enumerate(zip(self.blocks.values(), parts, strict=True)):
            row = self._products[b]
            row[: len(BLOCK)] = block.start, first + b, len(names)
            row[len(BLOCK) : len(BLOCK) + len(names)] = [order[name] for name in names]
            most = math.prod(self.columns[name].entries for name in names[:-1])
            self.room = max(self.room, most)

    def names(self) -> list[str]:
        """The name of each feature."""
        own: list[str] = []
        for block, names in self._parts.items():
            columns = [self.columns[name] for name in names]
            if names[0] == block:  # hashed: a straight line is a factor without a name
                columns = [columns[0], *(c for c in columns[1:] if len(c.features) > 1)]
            own += map("*".join, itertools.product(*(column.features for column in columns)))
            own += columns[0].flag if names == (block,) else ()
        return own

    def read(self, rows: Mapping[str, Table]) -> dict[str, Read]:
        """The columns that ``rows`` has a table for, as numbers or as keys."""
        columns: dict[str, Read] = {}
        own: tuple[Iterable[str], ...] = (
            self.numbers,
            self.categories,
            self.schema.hashed,
            self.schema.columns,
        )
        for name in itertools.chain.from_iterable(own):
            if name not in rows or name in columns:
                continue
            if name in self.schema.missing:
                columns[name] = checked_numbers(rows[name], name, self.schema.missing[name])
            else:
                columns[name] = keys_of(rows[name].column(name), rows[name].place(name))
        return columns

    def raw(self, name: str, columns: Mapping[str, Any]) -> list[Any]:
        """The raw numbers of a column, from which its entries are coded, one per row."""
        column = self.columns[name]
        if column.kind != PLACE:
            return [columns[source] for source in column.sources]
        if name in self.places:
            keys, places = columns[name], self.places[name]
            return [np.array([*map(places.__getitem__, keys.values), places.unknown])[keys.codes]]
        if not column.sources:
            return []  # a hashed cross without a text: all rows are in bucket 0
        return [_hashed(self.buckets[name], [columns[source] for source in column.sources])]

    def sides(self, context: Collection[str]) -> Sides:
        """The columns, divided into those of a context that has these and those of the arms."""
        key = frozenset(context)
        made = self._sides.get(key)
        if made is None:
            made = Sides(self, key)
            if len(self._sides) < REMEMBERED:
                self._sides[key] = made
        return made

    def fill(self, columns: Mapping[str, Any], length: int) -> FloatArray:
        """The vectors, (length, dim), of rows of which :meth:`read` gave all columns.

        O(length (features that are not 0)), and memory for the vectors and the columns alone.
        """
        sides, X = self.sides(()), np.zeros((length, self.dim))
        raw, order = sides.raw(OFFER, columns), np.arange(min(length, CHUNK))
        rows, work = np.stack([order] * 3), sides.work(len(order))
        for start in range(0, length, CHUNK):
            part = X[start : start + CHUNK]
            sides.code(
                work, 0, OFFER, sides.stacked(raw, slice(start, start + len(part)), len(part))
            )
            sides.write(part, work, rows[:, : len(part)].copy())
        return X


class Work(NamedTuple):
    """Entries of rows, and space for the products of some."""

    coded: Matrices
    room: FloatArray


class Sides:
    """The columns of a layout, divided between a context and its arms."""

    def __init__(self, layout: Layout, context: frozenset[str]) -> None:
        self._layout = layout
        self.factors = layout._factors.copy()
        self.names: tuple[list[str], ...] = ([], [], [])
        for (name, column), row in zip(layout.columns.items(), self.factors, strict=True):
            inside = [source in context for source in column.sources]
            side = OFFER if not any(inside) else CONTEXT if all(inside) else TOGETHER
            row[FACTOR.SIDE] = side
            self.names[side].append(name)
        self.slots = {
            name: int(row[FACTOR.RAW])
            for name, row in zip(layout.columns, self.factors, strict=True)
        }
        self._starts = dict(zip(layout.columns, self.factors[:, FACTOR.ENTRY], strict=True))

    def readers(self) -> tuple[list[Alone], list[Joint]]:
        """Readers of the context's raw numbers, one value at a time: each column with the
        place of its number and the places of its texts, then texts that are hashed together.
        """
        alone: list[Alone] = []
        joint: list[Joint] = []
        for name in self.names[CONTEXT]:
            column, slot = self._layout.columns[name], self.slots[name]
            if column.kind != PLACE:
                alone += [(source, slot + i, None) for i, source in enumerate(column.sources)]
            elif len(column.sources) > 1:
                joint.append((column.sources, slot, self._layout.buckets[name]))
            else:
                texts = self._layout.places.get(name) or self._layout.buckets[name]
                alone.append((column.sources[0], slot, texts))
        return alone, joint

    def raw(self, side: int, columns: Mapping[str, Any]) -> list[tuple[int, Any]]:
        """The raw numbers of a side's columns, by where they are to lie."""
        return [
            (self.slots[name] + i, array)
            for name in self.names[side]
            for i, array in enumerate(self._layout.raw(name, columns))
        ]

    def stacked(self, raw: list[tuple[int, Any]], part: slice, rows: int) -> FloatArray:
        """A part of the rows of raw numbers, (rows, raws)."""
        numbers = np.zeros((rows, self._layout.raws))
        for slot, array in raw:
            numbers[:, slot] = array[part]
        return numbers

    def by_kernels(self, side: int) -> bool:
        """Tell whether kernels code all of a side's columns."""
        return all(self._layout.columns[name].kind != GIVEN for name in self.names[side])

    def work(self, rows: int) -> Work:
        """Space for the entries of so many rows."""
        layout = self._layout
        return Work(np.zeros((rows, layout.entries, 2)), np.empty((layout.room, 2)))

    def code(self, work: Work, begin: int, side: int, raw: FloatArray) -> None:
        """Code a side's columns of all rows of ``raw``, from row ``begin`` of ``work`` on."""
        code(work.coded, begin, raw, self.factors, self._layout._numbers, side)
        for name in self.names[side]:
            if self._layout.columns[name].kind == GIVEN:
                self._give(work.coded[begin : begin + len(raw)], raw, name)

    def _give(self, coded: Matrices, raw: FloatArray, name: str) -> None:
        """The entries of a map that is no kernel's."""
        column, first, slot = self._layout.columns[name], self._starts[name], self.slots[name]
        values = self._layout.maps[name].given(name, raw[:, slot : slot + column.inputs])
        gone = np.isnan(values[:, :1])
        end = first + column.entries
        coded[:, first:end, 0] = np.where(gone, -1.0, np.arange(column.entries))
        coded[:, first:end, 1] = np.where(gone, 0.0, values)

    def write(self, X: FloatArray, work: Work, rows: IntArray) -> None:
        """Write to X, which is 0, the vectors of such rows of ``work``."""
        layout = self._layout
        write(X, self.factors, layout._products, layout._numbers, work.room, work.coded, rows)

    def code_and_write(self, X: FloatArray, raw: FloatArray, work: Work, rows: IntArray) -> None:
        """The same where one context alone, of ``raw``, is to be coded, by the kernels alone."""
        layout = self._layout
        code_and_write(
            X, raw, self.factors, layout._products, layout._numbers, work.room, work.coded, rows
        )

    def code_together(
        self, work: Work, begin: int, context: Mapping[str, Any], row: IntArray,
        own: Mapping[str, Any], which: IntArray,
    ) -> None:  # fmt: skip
        """Code what context and arm have together: the texts of a hashed cross, the numbers of a
        map.
        """
        together = self.names[TOGETHER]
        needed = {source for name in together for source in self._layout.columns[name].sources}
        columns = {
            name: _taken(context[name], row) if name in context else _taken(own[name], which)
            for name in needed
        }
        if needed:
            raw = self.raw(TOGETHER, columns)
            self.code(work, begin, TOGETHER, self.stacked(raw, Whole, len(row)))

    def vectors(
        self, context: Mapping[str, Any], row: IntArray, own: Mapping[str, Any], which: IntArray
    ) -> FloatArray:
        """(m, dim): vector i is that of arm ``which[i]`` in the context ``row[i]``."""
        counts = [
            max(map(_length, columns.values()), default=int(index.max(initial=0)) + 1)
            for columns, index in ((context, row), (own, which))
        ]
        together = len(row) if self.names[TOGETHER] else 1
        work = self.work(sum(counts) + together)
        begins = (0, counts[0], sum(counts))
        for side, columns in ((CONTEXT, context), (OFFER, own)):
            raw = self.stacked(self.raw(side, columns), Whole, counts[side])
            self.code(work, begins[side], side, raw)
        self.code_together(work, begins[TOGETHER], context, row, own, which)
        X = np.zeros((len(row), self._layout.dim))
        self.write(X, work, indices(row, which, begins))
        return X


def indices(row: IntArray, which: IntArray, begins: tuple[int, int, int]) -> IntArray:
    """The rows of entries that each vector is made of, by side."""
    order = np.arange(len(row))
    return np.stack([begins[0] + row, begins[1] + which, begins[2] + order])


def _bucketed(sources: tuple[str, ...], size: int, name: str) -> Column:
    features = tuple(f"{name}#{k}" for k in range(size))
    return Column(sources, PLACE, features)


def _length(column: Read) -> int:
    return len(column.codes if isinstance(column, Keys) else column)


def _taken(column: Read, index: IntArray) -> Read:
    """The column's values at these places."""
    if isinstance(column, Keys):
        return Keys(column.codes[index], column.values)
    return column[index]


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
