"""The table of arms of ``heavytail evaluate --catalogue``, encoded by the policies' encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from heavytail._validate import printable, shown
from heavytail.encoding import Catalogue

__all__ = ["catalogue_of"]

OPTION = "--catalogue"
DO = "Pass Parquet, or JSON with a list of objects, one per arm."


def catalogue_of(
    path: str, policies: Iterable[Any], ids: str | None, offered: str | None
) -> Catalogue:
    """The arms in the file ``path``, encoded by the common encoder of all policies."""
    carried = [getattr(policy, "encoder", None) for policy in policies]  # a LogPolicy has none
    encoders = [encoder for encoder in carried if encoder is not None]
    if not encoders:
        raise ValueError(
            f"{OPTION} needs an encoder: that of a policy which was saved with policy.encoder set. "
            "None of these carries one."
        )
    if any(encoder.schema() != encoders[0].schema() for encoder in encoders):
        raise ValueError(
            f"{OPTION}: the policies carry different encoders, and a log is encoded once. Evaluate "
            "them one by one."
        )
    try:
        return encoders[0].catalogue(_table(path), ids, offered)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{OPTION} {path}: {error}") from None


def _table(path: str) -> Any:
    """Rows of a file: Parquet, or JSON with a list of objects."""
    with open(path, "rb") as stream:
        parquet = stream.read(4) == b"PAR1"
    if parquet:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"is damaged ({printable(str(error))}). {DO}") from None
    try:
        with open(path, encoding="utf-8") as text:
            rows = json.load(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is neither Parquet nor JSON ({printable(str(error))}). {DO}") from None
    if not isinstance(rows, list):
        raise ValueError(f"must be a list of objects, one per arm; got {shown(rows)}.")
    return rows
