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
def progress(quiet: bool, rows: int | None, readings: int) -> Iterator[Callable[[int], None]]:
    """Something to call with every few rows that are read, of a log of ``rows``, or None where
    that is not known, which is read ``readings`` times.
    """
    total = None if rows is None else rows * readings
    title = "rows" if readings == 1 else f"rows of {readings} readings"
    if quiet:
        yield lambda rows: None
    elif sys.stderr.isatty():
        with progress_bar(True, title, total) as bar:
            yield bar.advance
    else:
        lines = _Lines(title, total)
        thread = threading.Thread(target=lines.write, daemon=True)
        thread.start()
        try:
            yield lines.advance
        finally:
            lines.done.set()
            thread.join()


class _Lines:
    """Lines on standard error, written beside the work: also while nothing is counted yet."""

    def __init__(self, title: str, total: int | None) -> None:
        self.title, self.total, self.rows = title, total, 0
        self.done = threading.Event()

    def advance(self, rows: int) -> None:
        self.rows += rows

    def write(self) -> None:
        start, wait = time.monotonic(), FIRST
        while not self.done.wait(wait):
            of = "" if self.total is None else f" of {self.total:,}"
            spent = time.monotonic() - start
            words = f"heavytail evaluate: {self.rows:,}{of} {self.title}, {spent:.0f} s"
            print(words, file=sys.stderr, flush=True)
            wait = NEXT
