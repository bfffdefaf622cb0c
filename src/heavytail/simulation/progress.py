"""Progress on standard error: a bar with the time left where a person is looking, elsewhere a line
every few seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress_bar", "progress_lines"]

FIRST, NEXT = 2.0, 5.0  # seconds until a line


class Progress(Protocol):
    """Something that can be told of a step done."""

    def advance(self, steps: int = 1) -> None:
        """``steps`` more are done."""


class _Silent:
    def advance(self, steps: int = 1) -> None:
        """Say nothing."""


@contextmanager
def progress_bar(show: bool | None, title: str, total: int | None) -> Iterator[Progress]:
    """A bar over ``total`` steps, None where nobody knows how many; shown on a terminal unless
    ``show`` says otherwise. Where it is asked for and there is no terminal, lines.
    """
    terminal = sys.stderr.isatty()
    if show is False or (show is None and not terminal):
        yield _Silent()
    elif not terminal:
        with progress_lines(title, total) as lines:
            yield lines
    else:
        with _bar(title, total) as bar:
            yield bar


@contextmanager
def _bar(title: str, total: int | None) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    with RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as rich:
        task = rich.add_task(title, total=total)

        class _Bar:
            def advance(self, steps: int = 1) -> None:
                rich.advance(task, steps)

        yield _Bar()


@contextmanager
def progress_lines(title: str, total: int | None) -> Iterator[Progress]:
    """Lines, a terminal or not: for what is mostly done before the first."""
    lines = _Lines(title, total)
    thread = threading.Thread(target=lines.write, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        lines.done.set()
        thread.join()
    lines.end()  # unless it failed


class _Lines:
    """Lines that are written beside the work: also while nothing is counted yet."""

    def __init__(self, title: str, total: int | None) -> None:
        self.title, self.total, self.steps = title, total, 0
        self.done, self._start = threading.Event(), time.monotonic()

    def advance(self, steps: int = 1) -> None:
        self.steps += steps

    def write(self) -> None:
        wait = FIRST
        while not self.done.wait(wait):
            self.say()
            wait = NEXT

    def end(self) -> None:
        """A last line, where there was time for one."""
        if time.monotonic() - self._start >= FIRST:
            self.say()

    def say(self) -> None:
        spent = time.monotonic() - self._start
        words = f"{self.title}: {self.steps:,}"
        if self.total is not None:
            words += f" of {self.total:,}"
        words += f", {spent:.0f} s"
        if self.total is not None and 0 < self.steps < self.total:
            words += f", about {spent * (self.total / self.steps - 1.0):.0f} s left"
        print(words, file=sys.stderr, flush=True)
