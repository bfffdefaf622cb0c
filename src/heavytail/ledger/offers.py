"""The offers that a service keeps for a model: a decision then states their ids, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.encoding import Encoder
from heavytail.ledger.details import Detail
from heavytail.ledger.layout import ModelRow

if TYPE_CHECKING:
    from heavytail.ledger.store import Store

__all__ = ["Catalogues", "OfferTable", "packed", "unpacked"]

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


class Catalogues:
    """The catalogues of a model in the store: what its decisions have from them is not logged."""

    def __init__(self, store: Store, model: ModelRow) -> None:
        self._store, self._model = store, model
        self._offers: dict[int, dict[str, Any]] = {}
        self._tables: dict[int, OfferTable] = {}

    def with_ids(self, detail: Detail) -> Detail:
        """A detail with the ids of what was offered."""
        if detail.catalogue is None:
            return detail
        names: list[str | int] = [*self._read(detail.catalogue)]
        if detail.which is not None:
            names = [names[place] for place in detail.which]
        return msgspec.structs.replace(detail, ids=names)

    def with_arms(self, detail: Detail, dim: int) -> Detail:
        """A detail with the ids and the vectors of what was offered."""
        if detail.catalogue is None:
            return detail
        number = detail.catalogue
        if number not in self._tables:
            schema = json.loads(self._model.spec).get("encoder")
            encoder = None if schema is None else Encoder.from_schema(schema).fixed()
            self._tables[number] = OfferTable(number, self._read(number), encoder, dim)
        which = None if detail.which is None else np.array(detail.which, dtype=np.int64)
        context = {} if detail.context is None else detail.context
        arms = self._tables[number].vectors(context, which).astype("<f8", copy=False)
        return msgspec.structs.replace(self.with_ids(detail), arms=arms.tobytes())

    def _read(self, number: int) -> dict[str, Any]:
        if number not in self._offers:
            content = self._store.catalogue(self._model.id, number)
            if content is None:
                raise ValueError(f"catalogue {number} is missing")
            self._offers[number] = unpacked(content)
        return self._offers[number]
