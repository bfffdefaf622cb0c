"""Taking turns: what several threads share serves them one after another.

Kernels run without the interpreter's lock, so two threads could write to one state. Whoever works
on it therefore says so in ``_inside`` and whoever comes meanwhile waits: the state is that of some
order of the calls. A real lock costs a tenth of a small round; a field costs a hundredth. Testing
it and setting it is one step, because the interpreter changes threads only where a function is
called or a loop jumps back: between the two there must be neither.

A signal handler comes in the middle of a call and in its thread, so that waiting would last for
ever and going on would find a state half changed. It is refused, with a RuntimeError: nothing is
wrong with what it passes, only with when. Who it is, the frames tell, which are looked at only
where somebody is at work already.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar

from heavytail._signals import is_handler

__all__ = ["TakingTurns", "alone"]

F = TypeVar("F", bound=Callable[..., Any])

MOMENT = 2e-5  # seconds between two looks at what another thread works on

_ALONE: set[int] = set()  # the code, which lives for ever, of methods that may call others


class TakingTurns:
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
        """Whether this thread is at work and calls itself; another one is given a moment."""
        if self._inside == get_ident():
            if id(sys._getframe(2).f_code) not in _ALONE and _interrupts(sys._getframe(1), self):
                raise _refusal(self)
            return True
        if self._inside is True and _holder(sys._getframe(1), self) is not None:
            raise _refusal(self)
        time.sleep(MOMENT)
        return False


def alone(method: F) -> F:
    """The method with no other thread at work on its object; it may call others of its kind."""
    _ALONE.add(id(method.__code__))

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


def _holder(entrant: FrameType, subject: TakingTurns) -> FrameType | None:
    """The call further out in this thread that is at work on the object; None if there is none."""
    frame = entrant.f_back
    while frame is not None:
        if "outer" in frame.f_code.co_varnames:
            told = frame.f_locals
            if told.get("self") is subject and "outer" in told:
                return frame
        frame = frame.f_back
    return None


def _interrupts(entrant: FrameType, subject: TakingTurns) -> bool:
    """Whether between the call that is at work on the object and this one a handler stands."""
    holder, frame = _holder(entrant, subject), entrant.f_back
    while frame is not None and frame is not holder:
        if not frame.f_globals.get("__name__", "").startswith("heavytail.") and is_handler(frame):
            return True
        frame = frame.f_back
    return False


def _refusal(subject: TakingTurns) -> RuntimeError:
    return RuntimeError(
        f"{type(subject).__name__}: a signal handler, or whatever else came in between, called it "
        "in the middle of one of its own calls. Nothing was done; let the handler set a flag, and "
        "look at that when the call has returned."
    )
