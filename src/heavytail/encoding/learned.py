"""The state of a fit, in one pass and bounded memory: a sample of each number, the categories.

The sample is of the ``KEPT`` rows whose numbers hash lowest, which is a draw without replacement
that depends on a row's number alone: the cut of rows into batches does not matter, and the same
rows give the same sample everywhere. Medians of it have a rank within 0.8 % (one standard
deviation) of the half; with at most ``KEPT`` rows they are exact.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._invariants import damaged
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import GREATEST, shown
from heavytail.encoding.curves import Line, Spline, centre_and_scale
from heavytail.encoding.maps import Map
from heavytail.encoding.schema import REFUSE, Schema, category_problem
from heavytail.encoding.text import text_problem
from heavytail.tables.categories import keys_of
from heavytail.tables.frames import Table

__all__ = ["Known", "Learned", "checked_numbers"]

KEPT: Final = 4096  # rows of a sample
MOST_ROWS: Final = 2**53


class Sample(NamedTuple):
    """Values of one column with the numbers of their rows, in order of row."""

    rows: IntArray
    values: FloatArray


class Known(NamedTuple):
    """All that vectors depend on beside the schema's own settings."""

    numbers: dict[str, Line | Spline]
    categories: dict[str, tuple[str, ...]]
    maps: dict[str, Map]


NOTHING: Final = Sample(np.empty(0, dtype=np.int64), np.empty(0))


def mix(rows: IntArray) -> NDArray[np.uint64]:
    """A hash of row numbers, 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def checked_numbers(rows: Table, name: str, way: str) -> FloatArray:
    """A column of numbers within the range of sizes; a missing one is NaN, or refused."""
    hint = f" Convert the column, or list {name!r} under categories or hashed."
    values = rows.numbers(name, hint)
    bad = np.isinf(values)
    if bad.any():
        row = int(np.argmax(bad))
        do = "Pass None where it is not known."
        rows.place(name).refuse(row, f"the number must be finite; got {float(values[row])}. {do}")
    if way == REFUSE:
        bad = np.isnan(values)
        if bad.any():
            rows.place(name).refuse(
                int(np.argmax(bad)),
                "the number is missing (None or NaN). Fill it, or pass "
                f'missing={{{name!r}: "centre"}} or "indicator".',
            )
    return np.minimum(np.maximum(values, -GREATEST), GREATEST)


@dataclass(frozen=True)
class Learned:
    """Samples and categories of the columns that the schema does not state in full. Immutable:
    each batch makes a new one.
    """

    seen: int
    samples: dict[str, Sample]
    categories: dict[str, tuple[str, ...]]  # in order

    @classmethod
    def nothing(cls, schema: Schema) -> Learned:
        """Before the first row."""
        return cls(
            0,
            dict.fromkeys(schema.sampled, NOTHING),
            {name: () for name, stated in schema.categories.items() if stated is None},
        )

    def after(self, schema: Schema, rows: Table) -> Learned:
        """With the rows of one batch. O(rows), and O(1) memory but for the batch."""
        numbers = self.seen + np.arange(rows.length, dtype=np.int64)
        hashes = mix(numbers)
        samples = {
            name: _drawn(sample, numbers, hashes, checked_numbers(rows, name, schema.missing[name]))
            for name, sample in self.samples.items()
        }
        categories = {name: _joined(known, rows, name) for name, known in self.categories.items()}
        return Learned(self.seen + rows.length, samples, categories)

    def known(self, schema: Schema) -> Known | None:
        """All that is stated or was learned of columns; None where one has had no value yet."""
        if not all(len(sample.values) for sample in self.samples.values()):
            return None
        if not all(self.categories.values()):
            return None
        numbers: dict[str, Line | Spline] = {}
        for name, stated in schema.numbers.items():
            if stated is None:
                numbers[name] = centre_and_scale(self.samples[name].values)
            elif isinstance(stated, Spline) and not stated.is_stated:
                numbers[name] = stated.learned(self.samples[name].values)
            else:
                numbers[name] = stated
        categories = {name: own or self.categories[name] for name, own in schema.categories.items()}
        maps = {
            name: made if made.is_stated({}) else self._mapped(made, numbers, schema.clip)
            for name, made in schema.maps.items()
        }
        return Known(numbers, categories, maps)

    def _mapped(self, made: Map, numbers: dict[str, Line | Spline], clip: float) -> Map:
        """A map with scales of its columns, and what it learns from rows that have all of them."""
        scales = []
        for name in made.columns:
            own = numbers.get(name)
            if own is None and name in self.samples:
                own = centre_and_scale(self.samples[name].values)
            scales.append(own.line if isinstance(own, Spline) else own or (0.0, 1.0))
        samples = [self.samples[name] for name in made.columns if name in self.samples]
        rows = np.empty((0, len(made.columns)))
        if len(samples) == len(made.columns):
            shared = samples[0].rows
            for sample in samples[1:]:
                shared = np.intersect1d(shared, sample.rows, assume_unique=True)
            shared = shared[np.argsort(mix(shared), kind="stable")]
            rows = np.stack([s.values[np.searchsorted(s.rows, shared)] for s in samples], axis=1)
        return made.learned(scales, rows, clip)

    def arrays(self) -> dict[str, Any]:
        """All of it as named arrays; texts as JSON, of which an array has the bytes."""
        samples = list(self.samples.values())
        texts = json.dumps(self.categories).encode()
        return {
            "seen": np.array([self.seen], dtype=np.int64),
            "counts": np.array([len(sample.rows) for sample in samples], dtype=np.int64),
            "rows": np.concatenate([NOTHING.rows, *(sample.rows for sample in samples)]),
            "values": np.concatenate([NOTHING.values, *(sample.values for sample in samples)]),
            "categories": np.frombuffer(texts, dtype=np.uint8).copy(),
        }

    @classmethod
    def taken(cls, schema: Schema, arrays: dict[str, Any], where: str) -> Learned:
        """From what ``arrays`` gave, or whatever a file has in its place, which is refused."""
        dtypes = {"seen": "i8", "counts": "i8", "rows": "i8", "values": "f8", "categories": "u1"}
        for name, dtype in dtypes.items():
            array = arrays.get(name)
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != dtype:
                raise damaged(where, name)
        if set(arrays) != set(dtypes):
            raise damaged(where, shown(sorted(set(arrays) - set(dtypes))))
        fresh, counts = cls.nothing(schema), arrays["counts"]
        if arrays["seen"].shape != (1,) or not 0 < arrays["seen"][0] <= MOST_ROWS:
            raise damaged(where, "seen")
        seen = int(arrays["seen"][0])
        if len(counts) != len(fresh.samples) or ((counts < 0) | (counts > min(KEPT, seen))).any():
            raise damaged(where, "counts")
        total = int(counts.sum())
        if len(arrays["rows"]) != total or len(arrays["values"]) != total:
            raise damaged(where, "rows")
        ends = np.cumsum(counts)[:-1]
        samples = {
            name: _sound(Sample(rows, values), seen, where)
            for name, rows, values in zip(
                fresh.samples,
                np.split(arrays["rows"], ends) if len(counts) else [],
                np.split(arrays["values"], ends) if len(counts) else [],
                strict=True,
            )
        }
        return cls(seen, samples, _categories(fresh, bytes(arrays["categories"]), where))


def _drawn(
    old: Sample, numbers: IntArray, hashes: NDArray[np.uint64], values: FloatArray
) -> Sample:
    """The sample of all rows so far: those that ``old`` is drawn from, and new ones."""
    new = ~np.isnan(values)
    if len(old.rows) >= KEPT:
        new &= hashes < mix(old.rows).max()  # the others are never drawn
    rows = np.concatenate([old.rows, numbers[new]])
    kept = np.concatenate([old.values, values[new]])
    if len(rows) > KEPT:
        low = np.sort(np.argpartition(mix(rows), KEPT - 1)[:KEPT])
        rows, kept = rows[low], kept[low]
    return Sample(rows, kept)


def _joined(known: tuple[str, ...], rows: Table, name: str) -> tuple[str, ...]:
    """The categories known and those of new rows, in order of text."""
    keys = keys_of(rows.column(name), rows.place(name))
    present = np.unique(keys.codes[keys.codes >= 0]).tolist()  # a frame may list more
    all_of_them = {*known, *(keys.values[code] for code in present)}
    problem = category_problem(name, len(all_of_them))
    if problem:
        raise ValueError(f"{rows.source}: {problem}")
    for code in present:
        text = keys.values[code]
        problem = text_problem(text)
        if problem:
            row = int(np.argmax(keys.codes == code))
            rows.place(name).refuse(
                row,
                f"the category {shown(text)} {problem}. Clean the column, or hash it: "
                f"hashed={{{name!r}: 256}}.",
            )
    return tuple(sorted(all_of_them))


def _sound(sample: Sample, seen: int, where: str) -> Sample:
    """A sample from a file: rows in order, each once and seen, values in range."""
    rows, values = sample
    if len(rows) and (rows[0] < 0 or rows[-1] >= seen or (np.diff(rows) <= 0).any()):
        raise damaged(where, "rows")
    if not (np.abs(values) <= GREATEST).all():
        raise damaged(where, "values")
    return Sample(rows.copy(), values.copy())


def _categories(fresh: Learned, raw: bytes, where: str) -> dict[str, tuple[str, ...]]:
    """Categories from a file: those columns, and texts that a fit could have learned."""
    try:
        categories = json.loads(raw.decode())
    except (ValueError, RecursionError):
        raise damaged(where, "categories", "it is not JSON") from None
    if not isinstance(categories, dict) or list(categories) != list(fresh.categories):
        raise damaged(where, "categories", "it is of other columns")
    for name, listed in categories.items():
        texts = isinstance(listed, list) and all(isinstance(text, str) for text in listed)
        if not texts or listed != sorted(set(listed)) or category_problem(name, len(listed)):
            raise damaged(where, "categories", f"those of {shown(name)} are not a list of texts")
        if any(map(text_problem, listed)):
            raise damaged(where, "categories", f"{shown(name)} has one that cannot be")
    return {name: tuple(listed) for name, listed in categories.items()}
