"""Parquet files, a part at a time; a damaged one is refused by name and row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from heavytail._extras import need
from heavytail._typing import FloatArray
from heavytail.tables.columns import numbers
from heavytail.tables.file import File, Reader
from heavytail.tables.frames import Table, table
from heavytail.tables.place import Place
from heavytail.tables.streams import damaged

__all__ = ["MAGIC", "Parquet", "parquet", "parquet_parts"]

MAGIC = b"PAR1"  # a Parquet file begins and ends with it


def parquet(file: Any, source: str) -> Any:
    """The Parquet file of a path or stream."""
    need(f"{source}, Parquet,", "pyarrow", extra="logs")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file, page_checksum_verification=True)
        _ = opened.schema_arrow.names  # which may be no text
        return opened
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise damaged(source, error, of="not a Parquet file, or is ") from None


def parquet_parts(
    file: Any,
    source: str,
    size: int,
    columns: Sequence[str],
    *,
    groups: Sequence[int] | None = None,
    first: int = 0,
) -> Iterator[Table]:
    """Such columns of a Parquet file, or of some of its groups of rows, some rows at a time; they
    are numbered from ``first``.
    """
    import pyarrow as pa

    chosen = range(file.num_row_groups) if groups is None else groups
    stop = first + sum(file.metadata.row_group(group).num_rows for group in chosen)
    batches = file.iter_batches(size, row_groups=list(chosen), columns=list(dict.fromkeys(columns)))
    row = first
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise damaged(source, error, row) from None
        if batch is None:
            break
        yield table(batch, source, row)
        row += len(batch)
    if row != stop:
        raise ValueError(
            f"{source}, row {row}: the file ends here, but its footer says {stop - row} rows more. "
            "It is damaged: write it again."
        )


class Parquet(File):
    """A file of Parquet."""

    def __init__(self, file: Any, path: str) -> None:
        super().__init__(path, list(file.schema_arrow.names))
        self._file = file

    def parts(self, columns: Sequence[str], size: int, *, skip_missing: bool) -> Iterator[Table]:
        return parquet_parts(self._file, self.path, size, columns, first=1)

    def reader(self) -> Reader:
        return _finite


def _finite(column: Any, place: Place) -> FloatArray:
    """Numbers of which none is infinite, NaN where one is missing."""
    values = numbers(column, place, may_miss=True)
    endless = np.isinf(values)
    if endless.any():
        row = int(np.argmax(endless))
        place.refuse(row, f"{values[row]} is not a finite number.")
    return values
