"""The log of a model as Arrow tables and as Parquet, which ``ht.evaluate`` reads.

The columns are the same for a service and for a DecisionLog of your own program.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from typing import IO, Any

import msgspec
import numpy as np

from heavytail._archive import replacing
from heavytail._validate import printable
from heavytail.ledger.details import Detail, unpack
from heavytail.ledger.layout import CONTEXT, IDS, ModelRow
from heavytail.ledger.offers import Catalogues
from heavytail.ledger.store import Store, StoreError, as_bytes
from heavytail.ledger.tokens import Token, int_token, time_of

__all__ = ["LOG", "export_log", "tables", "write_log"]

LOG = '{"log": 1}'  # the spec of the model that a DecisionLog's decisions are kept under


def tables(store: Store, model: ModelRow, size: int) -> Iterator[Any]:
    """Arrow tables of all decisions of a model in order, of ``size`` rows each (the last may be
    shorter). The reward of a waiting decision is null.

    ``token`` is text. ``by_default`` marks default rewards. With the ids and the context another
    encoder's catalogue can encode the log again.
    """
    rows = itertools.chain.from_iterable(store.logged(model.id))
    log = _Log(store, model)
    while part := list(itertools.islice(rows, size)):
        yield _table(part, model, log)


def export_log(store: Store, model: ModelRow, path: str | os.PathLike[str]) -> int:
    """Write all decisions of a model to the file ``path`` and return their number; a failure leaves
    an existing file unchanged. The reward of a waiting decision is null.
    """
    with replacing(path) as stream:
        return write_log(store, model, stream, waiting=True)


def write_log(
    store: Store,
    model: ModelRow,
    file: str | os.PathLike[str] | IO[bytes],
    *,
    waiting: bool = False,
) -> int:
    """Write the decisions of a model as Parquet to a path or stream, in order, and return their
    number. Decisions without an outcome are left out unless ``waiting``.
    """
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    log = _Log(store, model)
    count, empty = 0, _table([], model, log)
    with pq.ParquetWriter(
        file, empty.schema, compression="zstd", write_page_checksum=True
    ) as writer:
        for part in store.logged(model.id):
            table = _table(part, model, log)
            rows = table if waiting else table.filter(pc.is_valid(table["reward"]))
            if len(rows):
                writer.write_table(rows)
            count += len(rows)
    return count


class _Log:
    """A model's log as it is read.

    Attributes:
        width: number of features of an arm.
    """

    def __init__(self, store: Store, model: ModelRow) -> None:
        self.width = store.width(model.id) or 0
        self._catalogues = Catalogues(store, model)

    def detail(self, raw: bytes) -> Detail:
        """The whole detail of a decision."""
        return self._catalogues.with_arms(unpack(raw), self.width)


def _table(rows: list[tuple[Any, ...]], model: ModelRow, log: _Log) -> Any:
    import pyarrow as pa

    texts, numbers = pa.list_(pa.string()), pa.float64()
    try:
        keys = [bytes(row[0]) for row in rows]
        details = [log.detail(as_bytes(row[2])) for row in rows]
        columns = {
            "token": pa.array([_token(row, model) for row in rows], pa.string()),
            "time": pa.array(map(_time, keys, details), numbers),
            "action": pa.array([row[1] for row in rows], pa.int64()),
            "propensity": pa.array([detail.probability for detail in details], numbers),
            "reward": pa.array([row[4] for row in rows], numbers),
            "reward_time": pa.array([row[5] for row in rows], numbers),
            "by_default": pa.array([None if b is None else bool(b) for *_, b in rows], pa.bool_()),
            "score": pa.array([detail.score for detail in details], numbers),
            "arms": _arms(details, log.width),
            IDS: pa.array([None if d.ids is None else [*map(str, d.ids)] for d in details], texts),
            CONTEXT: pa.array([_context(detail) for detail in details], pa.string()),
            "unit": pa.array(
                [None if d.unit is None else str(d.unit) for d in details], pa.string()
            ),
        }
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        words = f"a decision of model {model.name!r} in the store is damaged"
        raise StoreError(f"{words} ({printable(str(error))}). Restore it from a backup.") from None
    return pa.table(columns)


def _token(row: tuple[Any, ...], model: ModelRow) -> str:
    key = bytes(row[0])
    return str(int_token(key) if model.spec == LOG else Token(model.id, row[3], key))


def _time(key: bytes, detail: Detail) -> float:
    return time_of(key) if detail.made is None else detail.made


def _context(detail: Detail) -> str | None:
    if detail.context is None:
        return None
    return json.dumps(detail.context, ensure_ascii=False, separators=(",", ":"))


def _arms(details: list[Detail], width: int) -> Any:
    """Lists of the features of the offered arms; null if they were not logged."""
    import pyarrow as pa

    logged = [detail.arms is not None for detail in details]
    counts = [detail.count if detail.arms is not None else 0 for detail in details]
    flat = np.frombuffer(b"".join(detail.arms or b"" for detail in details), dtype="<f8")
    if any(len(d.arms or b"") != 8 * n * width for d, n in zip(details, counts, strict=True)):
        raise ValueError("arms of another width")
    starts = np.arange(sum(counts) + 1, dtype=np.int64) * width
    inner = pa.LargeListArray.from_arrays(starts, pa.array(flat, pa.float64()))
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return pa.LargeListArray.from_arrays(ends, inner, mask=pa.array(np.logical_not(logged)))
