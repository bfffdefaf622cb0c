"""The formulas of an encoder a second time: one row, one block, one feature after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import heavytail as ht
from heavytail.encoding.text import Buckets
from heavytail.tables.categories import key


def hats(knots: list[float], value: float) -> list[float]:
    """Hat functions by their definition."""
    made = []
    for k, knot in enumerate(knots):
        if value <= knots[0] or value >= knots[-1]:
            made.append(float(knot == (knots[0] if value <= knots[0] else knots[-1])))
        elif value <= knot:
            low = knots[k - 1] if k else -math.inf
            made.append(max(0.0, (value - low) / (knot - low)) if k else 0.0)
        else:
            high = knots[k + 1] if k + 1 < len(knots) else math.inf
            made.append(max(0.0, (high - value) / (high - knot)))
    return made


def number(schema: dict[str, Any], name: str, value: Any) -> list[float]:
    """(z) or (z, hats) / sqrt(2)."""
    stated = schema["numbers"][name]
    spline = isinstance(stated, dict)
    centre, scale = (stated["centre"], stated["scale"]) if spline else stated
    gone = value is None or math.isnan(value)
    z = 0.0 if gone else min(max((value - centre) / (schema["clip"] * scale), -1.0), 1.0)
    if not spline:
        return [z]
    own = [0.0] * len(stated["spline"]) if gone else hats(stated["spline"], value)
    return [entry / math.sqrt(2.0) for entry in (z, *own)]


def one_hot(place: int, size: int) -> list[float]:
    return [float(k == place) for k in range(size)]


def elementary(schema: dict[str, Any], name: str, row: dict[str, Any]) -> list[float]:
    """The elementary vector of a column."""
    if name in schema["numbers"]:
        return number(schema, name, row[name])
    text = key(row[name])
    if name in schema["categories"]:
        listed = schema["categories"][name]
        place = listed.index(text) if text in listed else len(listed) if schema["other"] else -1
        return one_hot(place, len(listed) + schema["other"])
    size = schema["hashed"][name]
    return one_hot(-1 if text is None else Buckets(schema["seed"], (name,), size)[text], size)


def vector(encoder: ht.Encoder, row: dict[str, Any]) -> np.ndarray:
    """The vector of one row; no maps."""
    schema = encoder.schema()
    blocks: dict[str, list[float]] = {}
    for name in schema["numbers"]:
        gone = row[name] is None or math.isnan(row[name])
        flag = [float(gone)] if schema["missing"][name] == "indicator" else []
        blocks[name] = [*elementary(schema, name, row), *flag]
    for name in (*schema["categories"], *schema["hashed"]):
        blocks[name] = elementary(schema, name, row)
    for cross in schema["crosses"]:
        names, product = [name for name in cross if isinstance(name, str)], np.ones(1)
        label = "*".join(names)
        if isinstance(cross[-1], int):
            texts = tuple(name for name in names if name not in schema["numbers"])
            keys = tuple(key(row[name]) for name in texts)
            buckets = Buckets(schema["seed"], texts, cross[-1])
            place = 0 if not keys else -1 if None in keys else buckets[keys]
            product = np.array(one_hot(place, cross[-1]))
            names = [name for name in names if name not in texts]
        for name in names:
            product = np.kron(product, elementary(schema, name, row))
        blocks[label] = list(product)
    shares = {name: schema["shares"].get(name, 1.0) for name in blocks}
    weight = {name: math.sqrt(a / sum(shares.values())) for name, a in shares.items()}
    return np.concatenate(
        [schema["bound"] * weight[name] * np.array(block) for name, block in blocks.items()]
    )
