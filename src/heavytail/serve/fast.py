"""Arms that are vectors, read from JSON straight into arrays: most of a decision's time is here.

simdjson fills an array without a list of Python's numbers in between. What is not plain, and all
that is refused, is read again by ``wire``'s classes, which say why.
"""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["ASKED", "CHOICE", "Plain", "plain"]

CHOICE = {"arms", "ids", "explore"}  # keys of a choice, and of what is asked about arms
ASKED = {"arms", "ids", "level"}
BRACKET = ord("[")
SHORT = 2000  # bytes of a body below which nothing is gained

_parser: Any = None
if importlib.util.find_spec("simdjson") is not None:
    import simdjson

    _parser = simdjson.Parser()


class Plain(NamedTuple):
    """Vectors as ``DecideAmongVectors`` and ``PredictVectors`` of ``wire`` have them."""

    arms: FloatArray
    ids: list[str | int] | None = None
    explore: float | None = None
    level: float = 0.95


def plain(body: bytes, dim: int, known: set[str]) -> list[Plain] | Plain | None:
    """What a body with the ``known`` keys asks for; None where another reader has to look at it."""
    if _parser is None or len(body) < SHORT:
        return None
    try:
        read = _parser.parse(body)
        many = isinstance(read, simdjson.Array)
        found = [_one(each, dim, known) for each in (read if many else [read])]
        rows = sum(1 + len(one.arms) + (one.ids is not None) for one in found)
        brackets = np.count_nonzero(np.frombuffer(body, dtype=np.uint8) == BRACKET)
        if brackets != rows + many:  # lists in lists, which a buffer does not show
            return None
        return found if many else found[0]
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError):
        return None


def _one(read: Any, dim: int, known: set[str]) -> Plain:
    keys = list(read.keys())
    if len(set(keys)) < len(keys) or not set(keys) <= known:
        raise KeyError
    arms = read["arms"]
    if set(map(len, arms)) != {dim}:
        raise ValueError
    matrix = np.frombuffer(arms.as_buffer(of_type="d")).reshape(len(arms), dim)
    ids = read["ids"].as_list() if "ids" in keys else None
    if ids is not None and not all(type(one) is str and len(one) <= 200 for one in ids):
        raise TypeError
    explore = read["explore"] if "explore" in keys else None
    if explore is not None and not (type(explore) in (float, int) and 0.0 <= explore <= 1.0):
        raise TypeError
    level = read["level"] if "level" in keys else 0.95
    if type(level) not in (float, int) or not 0.0 < level < 1.0:
        raise TypeError
    return Plain(matrix, ids, None if explore is None else float(explore), float(level))
