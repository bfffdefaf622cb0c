"""How far a log is read: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heavytail.simulation.progress import progress_bar

__all__ = ["progress"]

FIRST, NEXT = 2.0, 5.0  # seconds: what is done sooner needs no line


@contextmanager
def progress(quiet: bool, total: int | None) -> Iterator[Callable[[int], None]]:
    """Something to call with every few rows that are read, of ``total``, None if not known."""
    if quiet:
        yield lambda rows: None
    elif sys.stderr.isatty():
        with progress_bar(True, "rows", total) as bar:
            yield bar.advance
    else:
        lines = _Lines(total)
        thread = threading.Thread(target=lines.write, daemon=True)
        thread.start()
        try:
            yield lines.advance
        finally:
            lines.done.set()
            thread.join()


class _Lines:
    """Lines on standard error, written beside the work: also while nothing is counted yet."""

    def __init__(self, total: int | None) -> None:
        self.total, self.rows, self.done = total, 0, threading.Event()

    def advance(self, rows: int) -> None:
        self.rows += rows

    def write(self) -> None:
        start, wait = time.monotonic(), FIRST
        while not self.done.wait(wait):
            of = "" if self.total is None else f" of {self.total:,}"
            spent = time.monotonic() - start
            print(f"heavytail evaluate: {self.rows:,}{of} rows, {spent:.0f} s", file=sys.stderr)
            wait = NEXT
