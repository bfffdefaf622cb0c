"""Vectors of random schemas: those of the naive formulas, and to the bit those of before curves."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.encoding.naive import vector

import heavytail as ht
from heavytail.tables.frames import table

TEXTS: list[Any] = ["new", "loyal", "gone", 3, None, "odd", True]
RECORDED = json.loads(Path(__file__).with_name("bits.json").read_text())


def world(k: int) -> tuple[dict[str, Any], list[dict[str, Any]], np.random.Generator]:
    """A random schema without curves and maps, rows, and the draws that follow."""
    rng = np.random.default_rng(k)
    numbers = ["a", "b", "c"][: rng.integers(0, 4)]
    categories = ["d", "e"][: rng.integers(0, 3)]
    hashed = {name: int(rng.integers(1, 9)) for name in ["f", "g"][: rng.integers(0, 3)]}
    known, crosses = [*numbers, *categories, *hashed], {}
    for _ in range(int(rng.integers(0, 5))):
        size, is_hashed = int(rng.integers(2, 5)), rng.random() < 0.4
        pool = [*known, "h"] if is_hashed else known
        if len(known) > 1:
            names = tuple(sorted(map(str, rng.permutation(pool)[:size])))
            crosses[names] = [*names, *([int(rng.integers(1, 12))] if is_hashed else [])]
    arguments = {
        "numbers": numbers if known else ["a"],
        "categories": categories,
        "hashed": hashed,
        "crosses": list(crosses.values()),
        "bound": float(rng.uniform(0.5, 2.0)),
        "clip": float(rng.uniform(1.0, 4.0)),
        "missing": str(rng.choice(["centre", "indicator"])),
        "other": bool(rng.random() < 0.5),
        "seed": int(rng.integers(0, 5)),
    }
    rows = [row(rng, first=not i) for i in range(int(rng.integers(3, 25)))]
    return arguments, rows, rng


def row(rng: np.random.Generator, first: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in "abc":
        value = float(rng.standard_t(1.2) * 10.0 ** rng.integers(-3, 4))
        made[name] = None if rng.random() < 0.1 and not first else value
    for name in "deh":
        made[name] = TEXTS[int(rng.integers(0, 3 if first else 7))]
    for name in "fg":
        made[name] = f"sku-{rng.integers(0, 40)}" if rng.random() < 0.95 else None
    return made


def digest(k: int) -> str:
    """Of the vectors of a table, of arms, of a log with a catalogue, of schema and names."""
    arguments, rows, rng = world(k)
    encoder = ht.Encoder(**arguments).fit(rows)
    fresh = [{**one, "d": "never", "a": float(rng.normal() * 1e3)} for one in rows]
    hashed = hashlib.blake2b(digest_size=8)
    hashed.update(encoder.transform(rows).tobytes() + encoder.transform(fresh).tobytes())
    shared = [name for name in "abcdefgh" if rng.random() < 0.5]
    offers = [{c: v for c, v in one.items() if c not in shared} for one in fresh]
    context = {name: rows[0][name] for name in shared}
    hashed.update(np.asarray(encoder.arms(context, offers)).tobytes())
    if {*shared} & {*encoder.columns}:
        n, catalogue = len(rows), encoder.catalogue(offers)
        row, which = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
        hashed.update(catalogue.vectors(table(rows, "log"), row, which).tobytes())
    hashed.update(json.dumps(encoder.schema()).encode())
    hashed.update("|".join(encoder.get_feature_names_out()).encode())
    return hashed.hexdigest()


@pytest.mark.parametrize("tens", range(len(RECORDED) // 10))
def test_encoders_without_curves_give_the_bits_that_they_gave_before_there_were_any(tens):
    seeds = range(10 * tens, 10 * tens + 10)
    assert [digest(k) for k in seeds] == RECORDED[10 * tens : 10 * tens + 10]


@pytest.mark.parametrize("k", range(60))
def test_vectors_are_those_of_the_naive_formulas_with_curves_and_without(k):
    arguments, rows, rng = world(k)
    numbers = {name: ht.Spline(int(rng.integers(2, 7))) for name in arguments["numbers"][:2]}
    numbers |= dict.fromkeys(arguments["numbers"][2:])
    for given in (arguments, {**arguments, "numbers": numbers}):
        encoder = ht.Encoder(**given).fit(rows)
        X = encoder.transform(rows)
        wanted = np.array([vector(encoder, one) for one in rows])
        assert X == pytest.approx(wanted, rel=1e-12, abs=1e-15)
        assert (np.linalg.norm(X, axis=1) <= encoder.bound * (1.0 + 1e-12)).all()
        assert len(set(encoder.get_feature_names_out())) == encoder.dim
