"""Progress of reading a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heavytail.simulation.progress import progress_bar

__all__ = ["progress"]


@contextmanager
def progress(quiet: bool, rows: int | None, readings: int) -> Iterator[Callable[[int], None]]:
    """Return a callback for the number of rows just read. ``rows`` is the length of the log, or
    None if unknown; the log is read ``readings`` times.
    """
    total = None if rows is None else rows * readings
    title = "rows" if readings == 1 else f"rows, each read {readings} times"
    with progress_bar(not quiet, title, total) as bar:
        yield bar.advance
