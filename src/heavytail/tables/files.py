"""Files as bytes: gzipped or plain, Parquet; a damaged one is refused by name and row."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from heavytail._extras import need
from heavytail._validate import printable
from heavytail.tables.frames import Table, table

__all__ = [
    "PARQUET",
    "PLAIN_ERRORS",
    "ZIPPED",
    "damaged",
    "need_arrow",
    "parquet",
    "parquet_parts",
    "unzipped",
]

PARQUET, ZIPPED = b"PAR1", b"\x1f\x8b"  # what such files begin with
PLAIN_ERRORS = (OSError, EOFError, zlib.error)  # of reading what may be gzipped


def damaged(source: str, error: Exception, row: int | None = None, *, of: str = "") -> ValueError:
    """The error for a file that cannot be read, from a row on where one is given; ``of`` is what
    else may be the matter.
    """
    place = source if row is None else f"{source}, row {row}: cannot be read from here on, the file"
    why = printable(str(error))
    return ValueError(f"{place} is {of}cut short or damaged ({why}). Write or fetch it again.")


def unzipped(stream: Any) -> BinaryIO:
    """The bytes of a stream that can be peeked into, unpacked where they are gzipped."""
    if stream.peek(2)[:2] != ZIPPED:
        return stream
    return io.BufferedReader(gzip.GzipFile(fileobj=stream))


def need_arrow(who: str) -> None:
    """Refuse, on behalf of ``who``, where pyarrow is not installed."""
    need(who, "pyarrow", extra="logs")


def parquet(file: Any, source: str) -> Any:
    """The Parquet file of a path or stream."""
    need_arrow(f"{source}, Parquet,")
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
        yield table(batch, source)._replace(number=row.__add__)
        row += len(batch)
    if row != stop:
        raise ValueError(
            f"{source}, row {row}: the file ends here, but its footer says {stop - row} rows more. "
            "It is damaged: write it again."
        )
