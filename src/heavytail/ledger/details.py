"""Logged details of a decision, beyond its key, its arm and that arm's features."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from heavytail._typing import FloatArray

__all__ = ["Detail", "as_floats", "pack", "unpack"]


class Detail(Struct, frozen=True, array_like=True):
    """A decision's surroundings.

    Attributes:
        count: number of offered arms.
        probability: the probability of the choice; None if unknown.
        score: the predicted mean reward.
        id: the arm's own name.
        ids: all names.
        arms: features of all arms, little-endian doubles; None if they are not logged.
        asked: digest of the request, if it has an idempotency key.
        context: the context as sent, for a model with an encoder.
        made: wall-clock time of the decision; None if its key has the same time.
        why: the reason in words, of a Decider's.
        catalogue: the number of the catalogue in the store that ``ids`` and ``arms`` are from;
            they are then not logged.
        which: the places in it of the arms that were offered; None for all.
        unit: who the decision was for.
    """

    count: int
    probability: float | None
    score: float | None
    id: str | int | None
    ids: list[str | int] | None
    arms: bytes | None
    asked: bytes | None
    context: dict[str, Any] | None
    made: float | None = None
    why: str | None = None
    catalogue: int | None = None
    which: list[int] | None = None
    unit: str | int | None = None


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Detail).decode


def as_floats(raw: bytes, dim: int) -> FloatArray:
    """Features, a row per arm or decision."""
    return np.frombuffer(raw, dtype="<f8").reshape(-1, dim)
