"""The log of a model as Parquet, in the columns of a DecisionLog, which ``ht.evaluate`` reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from heavytail.ledger.details import as_floats, unpack
from heavytail.ledger.layout import CONTEXT, DECISIONS, IDS
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import time_of

__all__ = ["write_log"]


def write_log(store: Store, model: int, dim: int | None, path: str | os.PathLike[str]) -> int:
    """Write every decision of a model that has an outcome, in order; how many there are.

    Decisions that wait are left out: what they pay is not known yet. With the ids and the context
    the log can be encoded anew, by another encoder's catalogue. ``by_default`` tells what nobody
    rewarded. ``dim`` is None of a model that cannot be opened.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    dim = dim or store.width(model) or 0
    schema = pa.schema(
        {
            "time": pa.float64(),
            "action": pa.int64(),
            "propensity": pa.float64(),
            "reward": pa.float64(),
            "reward_time": pa.float64(),
            "by_default": pa.bool_(),
            "score": pa.float64(),
            "arms": pa.list_(pa.list_(pa.float64(), dim)),
            IDS: pa.list_(pa.string()),
            CONTEXT: pa.string(),
        },
        metadata=DECISIONS,
    )
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True) as writer:
        for rows in store.logged(model):
            told = [row for row in _rows(rows, dim) if row["reward"] is not None]
            if told:
                writer.write_table(pa.Table.from_pylist(told, schema=schema))
            count += len(told)
    return count


def _rows(rows: list[tuple[Any, ...]], dim: int) -> Iterator[dict[str, Any]]:
    for key, arm, packed, reward, when, by_default in rows:
        detail = unpack(bytes(packed))
        arms = None if detail.arms is None else as_floats(detail.arms, dim).tolist()
        ids = None if detail.ids is None else [str(one) for one in detail.ids]
        yield {
            "time": time_of(bytes(key)) if detail.made is None else detail.made,
            "action": arm,
            "propensity": detail.probability,
            "reward": reward,
            "reward_time": when,
            "by_default": None if by_default is None else bool(by_default),
            "score": detail.score,
            "arms": arms,
            IDS: ids,
            CONTEXT: None if detail.context is None else json.dumps(detail.context),
        }
