"""Taking turns: what several threads share serves them one after another.

Kernels run without the interpreter's lock, so two threads could write to one state. Whoever works
on it therefore says so in ``_inside`` and whoever comes meanwhile waits: the state is that of some
order of the calls. A real lock costs a tenth of a small round; a field costs a hundredth. Testing
it and setting it is one step, because the interpreter changes threads only where a function is
called or a loop jumps back: between the two there must be neither.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, TypeVar

__all__ = ["Shared", "alone"]

F = TypeVar("F", bound=Callable[..., Any])

MOMENT = 2e-5  # seconds between two looks at what another thread works on


class Shared:
    """What threads may share. A method that every round calls takes its turn by itself::

        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, True
        try:
            ...  # calls nothing that takes turns
        finally:
            self._inside = outer

    All others are :func:`alone`.
    """

    _inside: int | None = None  # the thread at work on it; True where that calls nothing that asks

    def _ours(self) -> bool:
        """Whether the thread at work is this one; another one is given a moment."""
        if self._inside == get_ident():
            return True
        time.sleep(MOMENT)
        return False


def alone(method: F) -> F:
    """The method with no other thread at work on its object; it may call others of its kind."""

    @functools.wraps(method)
    def in_turn(self: Any, *args: Any, **kwargs: Any) -> Any:
        me = get_ident()
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, me
        try:
            return method(self, *args, **kwargs)
        finally:
            self._inside = outer

    return in_turn  # type: ignore[return-value]
