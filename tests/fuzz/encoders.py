"""Calls on encoders, and a policy that carries one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import policies
from tests.fuzz.player import Call, Player, deep, through_file
from tests.fuzz.values import NO_NUMBERS, NOT_FINITE, pd, shown

import heavytail as ht

ROWS = 5
BAD_NAMES: list[Any] = ["", "a\x00", "x" * 999, None, 3, b"price", ("price",)]
NO_ROWS: list[Any] = [None, 3, "price", np.ones((2, 2)), [1], [[1.0]], {"price": 1.0}, object()]


def rows(rng: np.random.Generator) -> list[dict[str, Any]]:
    """A few rows; a number may be missing, never in the first, so that fit sees one."""
    return [
        {
            "price": float(rng.standard_t(1.5)),
            "age": None if row and rng.random() < 0.2 else int(rng.integers(18, 90)),
            "kind": "abc"[rng.integers(3)],
            "sku": int(rng.integers(1000)),
        }
        for row in range(ROWS)
    ]


class EncoderPlayer(Player):
    """An encoder that has seen a few rows."""

    def acts(self, subject: Any) -> Any:
        return subject.transform(rows(np.random.default_rng(3))).tobytes(), subject.schema()

    def copied(self) -> Any:
        return deep(self.subject)

    def good(self) -> None:
        kind, told = self.rng.integers(7), rows(self.rng)
        if kind < 2:
            columns = {key: [row[key] for row in told] for key in told[0]}
            dresses = [told, columns] + ([] if pd is None else [pd.DataFrame(columns)])
            self.subject.partial_fit(self.pick(dresses))
        elif kind == 2:
            self.subject.fit(told)
        elif kind == 3:
            arms = [{key: row[key] for key in ("price", "sku")} for row in told]
            self.subject.arms({"age": 20, "kind": "a"}, arms, ids=list("vwxyz"))
        elif kind == 4:
            self.subject = deep(self.subject)
        elif kind == 5:
            length = np.linalg.norm(self.subject.transform(told), axis=1)
            assert (length <= 1.0 + 1e-12).all()
        elif self.rng.random() < 0.1:
            self.subject = through_file(self.subject)

    def bad(self) -> Call:
        told, other = rows(self.rng), self.pick(NO_ROWS)
        spoiled, short = [dict(row) for row in told], [dict(row) for row in told]
        value, name = self.pick([*NO_NUMBERS, *NOT_FINITE]), self.pick(BAD_NAMES)
        spoiled[2]["price"] = value
        del short[3]["kind"]
        method = self.pick(["fit", "partial_fit", "transform"])
        call, arms = getattr(self.subject, method), self.subject.arms
        options: list[Call] = [
            (f"{method}(price={shown(value)})", lambda: call(spoiled)),
            (f"{method}({shown(other)})", lambda: call(other)),
            (f"{method}(no kind)", lambda: call(short)),
            ("arms(twice)", lambda: arms(told[0], told)),
            ("arms(ids)", lambda: arms({}, told, ids=[1, 1, 2, 3, 4])),
            ("set_params(bound)", lambda: self.subject.set_params(bound=self.pick(NO_NUMBERS))),
            ("set_params(numbers)", lambda: self.subject.set_params(numbers=[name])),
            ("set_params(odd)", lambda: self.subject.set_params(odd=1)),
        ]
        return self.pick(options)


def learning() -> ht.Encoder:
    """One that learns all it can, from a few rows."""
    made = ht.Encoder(
        numbers={"price": ht.Spline(4), "age": None},
        categories={"kind": None},
        hashed={"sku": 8},
        maps={"shape": ht.Fourier(["price", "age"], 3)},
        crosses=[("kind", "price"), ("kind", "sku", 4), ("kind", "shape")],
        missing={"age": "indicator"},
    )
    return made.fit(rows(np.random.default_rng(0)))


def carrying() -> ht.Policy:
    """A policy with an encoder."""
    made = ht.TwinUCB(policies.DIM)
    made.encoder = ht.Encoder(hashed={"sku": policies.DIM})
    return made


def encoders() -> list[Callable[[], Any]]:
    return [learning]


def builders() -> list[Callable[[], Any]]:
    """All of this that saves."""
    return [learning, carrying]
