"""A progress bar with the time left, on standard error, where a person is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["Progress", "progress_bar"]


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
    ``show`` says otherwise.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield _Silent()
        return
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
