"""A fast reader of vector arms, from JSON straight into arrays: parsing takes most of a decision's
time.

simdjson fills an array without a list of Python numbers in between. Any other body, and any body
that must be refused, is read again by the classes of ``wire``, which give the reason.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import Any, NamedTuple

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["ASKED", "CHOICE", "Plain", "plain"]

CHOICE = frozenset({"arms", "ids", "explore"})  # keys of a choice
ASKED = frozenset({"arms", "ids", "level"})  # and of what is asked about arms
BRACKET = ord("[")
AT_ONCE = 2**16  # numbers that are read without a pause
SHORT = 2000  # bytes of a body below which nothing is gained

FOUND = importlib.util.find_spec("simdjson") is not None
if FOUND:
    import simdjson


class _Parsers(threading.local):
    """One parser per thread."""

    def __init__(self) -> None:
        self.parser = simdjson.Parser()


_parsers = _Parsers() if FOUND else None


class Plain(NamedTuple):
    """The content of a ``DecideAmongVectors`` or ``PredictVectors`` of ``wire``."""

    arms: FloatArray
    ids: list[str | int] | None = None
    explore: float | None = None
    level: float = 0.95


def plain(body: bytes, dim: int, known: frozenset[str]) -> list[Plain] | Plain | None:
    """Read a body with the ``known`` keys; None if the other reader has to read it."""
    if _parsers is None or len(body) < SHORT:
        return None
    try:
        read: Any = _parsers.parser.parse(body)
        many = isinstance(read, simdjson.Array)
        if many and known is not CHOICE:
            return None
        choices = [_choice(each, dim, known) for each in (read if many else [read])]
        rows = sum(1 + len(choice.arms) + (choice.ids is not None) for choice in choices)
        brackets = np.count_nonzero(np.frombuffer(body, dtype=np.uint8) == BRACKET)
        if brackets != rows + many:  # lists in lists, which a buffer does not show
            return None
        return choices if many else choices[0]
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError):
        return None


def _choice(read: Any, dim: int, known: frozenset[str]) -> Plain:
    keys = list(read.keys())
    if len(set(keys)) < len(keys) or not set(keys) <= known:
        raise KeyError
    arms = read["arms"]
    if set(map(len, arms)) != {dim}:
        raise ValueError
    if len(arms) * dim < AT_ONCE:
        matrix = np.frombuffer(arms.as_buffer(of_type="d")).reshape(len(arms), dim)
    else:  # other threads have a turn between two rows
        matrix = np.array([np.frombuffer(arm.as_buffer(of_type="d")) for arm in arms])
    ids = read["ids"].as_list() if "ids" in keys else None
    if ids is not None and not all(map(_is_id, ids)):
        raise TypeError
    explore = read["explore"] if "explore" in keys else None
    if explore is not None and not (type(explore) in (float, int) and 0.0 <= explore <= 1.0):
        raise TypeError
    level = read["level"] if "level" in keys else 0.95
    if type(level) not in (float, int) or not 0.0 < level < 1.0:
        raise TypeError
    return Plain(matrix, ids, None if explore is None else float(explore), float(level))


def _is_id(value: object) -> bool:
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return type(value) is str and len(value) <= 200
