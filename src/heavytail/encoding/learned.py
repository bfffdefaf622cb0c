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
from heavytail._validate import GREATEST, LEAST, shown
from heavytail.encoding.schema import REFUSE, Schema, category_problem
from heavytail.encoding.text import text_problem
from heavytail.tables.categories import keys_of
from heavytail.tables.frames import Table

__all__ = ["Learned", "centre_and_scale", "checked_numbers"]

KEPT: Final = 4096  # rows of a sample
NORMAL: Final = 1.4826022185056018  # 1 / Phi^-1(3/4): MAD to standard deviation, of normal ones
MOST_ROWS: Final = 2**53


class Sample(NamedTuple):
    """Values of one column with the numbers of their rows, in order of row."""

    rows: IntArray
    values: FloatArray


NOTHING: Final = Sample(np.empty(0, dtype=np.int64), np.empty(0))


def mix(rows: IntArray) -> NDArray[np.uint64]:
    """A hash of row numbers, 64 bits: the finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    z = (rows.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def centre_and_scale(values: FloatArray) -> tuple[float, float]:
    """c = median(v) and s = 1.4826 median|v - c|, the standard deviation where v is normal.

    Where more than half of the values are equal, so that this is 0, s is the median of the
    deviations that are not; 1 where all are equal. Half of the values may be anything before
    either is.
    """
    centre = float(np.median(values))
    deviations = np.abs(values - centre)
    scale = NORMAL * float(np.median(deviations))
    if scale == 0.0:
        moved = deviations[deviations > 0.0]
        scale = float(np.median(moved)) if moved.size else 1.0
    return centre, min(max(scale, LEAST), GREATEST)


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
            {name: NOTHING for name, stated in schema.numbers.items() if stated is None},
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
