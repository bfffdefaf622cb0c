"""Steps of one change that are taken all or none, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Step", "take"]

Step = tuple[Callable[[], Any], Callable[[], bool]]  # what is to be done, and whether it is


def take(steps: Sequence[Step], undo: Callable[[], Any] | None = None) -> None:
    """Take the steps, each of which is whole or not at all.

    Whatever stops the first leaves everything as it was; whatever stops a later one, an interrupt,
    comes out after the last. Where a later one is refused, ``undo`` takes all of them back.
    """
    try:
        for act, _ in steps:
            act()
    except BaseException:
        if steps[0][1]():
            try:
                for act, is_done in steps:
                    if not is_done():
                        act()
            except ValueError:
                if undo is None:
                    raise
                undo()
        raise
