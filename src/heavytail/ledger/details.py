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
        count: arms that were offered.
        probability: with which the arm was chosen; None where that is not known.
        score: the mean reward that was expected of it.
        id: the arm's own name.
        ids: all names.
        arms: features of all arms, little-endian doubles; None where they are not logged.
        asked: digest of the request, where it has an idempotency key.
        context: as it was sent, for a model with an encoder.
        made: when, by the clock on the wall; None where its key says the same.
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


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Detail).decode


def as_floats(raw: bytes, dim: int) -> FloatArray:
    """Features, a row per arm or decision."""
    return np.frombuffer(raw, dtype="<f8").reshape(-1, dim)
