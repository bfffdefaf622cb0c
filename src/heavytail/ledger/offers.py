"""The offers that a service keeps for a model: a decision then states their ids, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding import Encoder
from heavytail.ledger.layout import ModelRow

__all__ = ["OfferTable", "packed", "table_of", "unpacked"]

Features = Mapping[str, Any] | Sequence[float]


def packed(offers: Mapping[str, Features]) -> bytes:
    """Offers as bytes for the store; their order is kept."""
    return msgspec.msgpack.encode(dict(offers))


def unpacked(content: bytes) -> dict[str, Any]:
    """The offers that ``packed`` gave."""
    return msgspec.msgpack.decode(content, type=dict[str, Any])


class OfferTable:
    """Offers by id, and their vectors in a context.

    Args:
        number: the catalogue's in the store.
        offers: named features or a vector by id; all must have the same columns.
        encoder: of the model; None if offers are vectors.
        dim: length of a vector.

    Attributes:
        ids: in the order of the catalogue.
        places: of the ids in it.
    """

    def __init__(
        self, number: int, offers: Mapping[str, Any], encoder: Encoder | None, dim: int
    ) -> None:
        self.number, self.offers = number, dict(offers)
        self.ids = [*self.offers]
        self.places = {name: place for place, name in enumerate(self.ids)}
        if encoder is None:
            self._encoded, self._rows = None, _matrix(self.offers, dim)
        else:
            self._encoded = encoder.catalogue(_table(self.offers), self.ids)

    def vectors(self, context: Mapping[str, Any], which: IntArray | None = None) -> FloatArray:
        """The vectors (n, dim) of all offers or of some, in a context."""
        if self._encoded is not None:
            return self._encoded.arms(context, which)
        return self._rows if which is None else self._rows[which]

    def columns(self) -> tuple[str, ...] | None:
        """The columns that a context must have; None if offers are vectors."""
        return None if self._encoded is None else self._encoded.context


def _matrix(offers: Mapping[str, Any], dim: int) -> FloatArray:
    rows = np.empty((len(offers), dim))
    for place, (name, vector) in enumerate(offers.items()):
        if not isinstance(vector, list) or len(vector) != dim:
            got = f"{len(vector)} numbers" if isinstance(vector, list) else shown(vector)
            raise ValueError(f"offer {shown(name)} must be a list of {dim} numbers; got {got}.")
        rows[place] = vector
    return rows


def _table(offers: Mapping[str, Any]) -> list[dict[str, Any]]:
    first: Any = next(iter(offers.values()))
    for name, features in offers.items():
        if not isinstance(features, Mapping):
            raise ValueError(
                f"offer {shown(name)} must have features by name, as the model has an encoder; got "
                f"{shown(features)}."
            )
        if set(features) != set(first):
            raise ValueError(
                f"offer {shown(name)} must have the columns {shown(sorted(first))}; got "
                f"{shown(sorted(features))}."
            )
    return [dict(features) for features in offers.values()]


def table_of(number: int, content: bytes, model: ModelRow, dim: int) -> OfferTable:
    """The offers of a catalogue in the store."""
    schema = json.loads(model.spec).get("encoder")
    encoder = None if schema is None else Encoder.from_schema(schema).fixed()
    return OfferTable(number, unpacked(content), encoder, dim)
