"""Taking turns: what several threads share serves them one after another.

Kernels run without the interpreter's lock, so two threads could write to one state. Whoever works
on it therefore says so in ``_inside`` and whoever comes meanwhile waits: the state is that of some
order of the calls. A real lock costs a tenth of a small round; a field costs a hundredth. Testing
it and setting it is one step, because the interpreter changes threads only where a function is
called or a loop jumps back: between the two there must be neither.

A thread that calls without a pause would keep the others out: whoever waits is woken while a
kernel runs, and never in between. So the first of them leaves its name in ``_next_turn``, and
whoever ends a call hands the turn over.

A signal handler runs in the middle of a call and in its thread: waiting would never end, and going
on would find a state half changed. It is refused with a RuntimeError, since its arguments are right
and only its time is wrong. We walk the call stack to recognise a handler, and only if the object is
busy.

A forked process has one thread. An object that another thread was using at the fork may stay half
changed and is refused there instead of waited for: a turn therefore also names the process in which
it began, counted in forks.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any, TypeVar

from heavytail._signals import is_handler

__all__ = ["AT_WORK", "TakingTurns", "alone", "deserted"]

F = TypeVar("F", bound=Callable[..., Any])

MOMENT = 2e-5  # seconds between two looks at what another thread works on

Turn = tuple[int, int | None]  # the forks that led to the process, and the thread
AT_WORK: Turn = (0, None)  # the turn of a method that calls nothing that asks who is at work

_FIELDS = ("_inside", "_next_turn")
_ALONE: set[int] = set()  # the code, which lives for ever, of methods that may call others


class TakingTurns:
    """A base of objects that threads may share. A method called every round takes its own turn::

        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        try:
            ...  # calls nothing that takes turns
        finally:
            self._inside = outer or self._next_turn

    All others are :func:`alone`.
    """

    _inside: Turn | None = None  # whose turn it is
    _next_turn: Turn | None = None  # whose turn is next

    def __getstate__(self) -> dict[str, Any]:
        """A copy is not in use yet."""
        return {key: value for key, value in vars(self).items() if key not in _FIELDS}

    def _ours(self) -> bool:
        """Tell whether this thread already has the turn; otherwise wait a moment for it."""
        turn = self._inside
        if turn is None:
            return False
        forks, thread = turn
        if forks != AT_WORK[0]:
            if turn is self._next_turn:  # handed over to a thread that did not begin
                self._next_turn = self._inside = None
                return False
            if self._is_deserted(turn):
                raise deserted(type(self).__name__)
        if thread == get_ident():
            if id(sys._getframe(2).f_code) not in _ALONE and _interrupts(sys._getframe(1), self):
                raise _refusal(self)
            return True
        if thread is None and _holder(sys._getframe(1), self) is not None:
            raise _refusal(self)
        self._wait()
        return False

    def _wait(self) -> None:
        """A moment, or until the turn is handed over: then nobody is at work."""
        me = AT_WORK[0], get_ident()
        if self._next_turn is None:
            self._next_turn = me
        try:
            time.sleep(MOMENT)
        finally:  # an interrupt too
            if self._next_turn is me:
                self._next_turn = None
            if self._inside is me:
                self._inside = None

    def _is_deserted(self, turn: Turn) -> bool:
        """Tell whether the thread of a turn from before a fork is not the one that forked. That one
        comes back from its call; then the turn is another, and never this one again.
        """
        frames = sys._current_frames().values()
        return all(_holder(frame, self) is None for frame in frames) and self._inside is turn


def alone(method: F) -> F:
    """The method with no other thread at work on its object; it may call others of its kind."""
    _ALONE.add(id(method.__code__))

    @functools.wraps(method)
    def in_turn(self: TakingTurns, *args: object, **kwargs: object) -> object:
        me = AT_WORK[0], get_ident()
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, me
        try:
            return method(self, *args, **kwargs)
        finally:
            self._inside = outer or self._next_turn

    return in_turn  # type: ignore[return-value]


def _holder(frame: FrameType | None, subject: TakingTurns) -> FrameType | None:
    """The call, this one or further out, that is at work on the object; None if there is none."""
    while frame is not None:
        if "outer" in frame.f_code.co_varnames:
            local_names = frame.f_locals
            if local_names.get("self") is subject and "outer" in local_names:
                return frame
        frame = frame.f_back
    return None


def _interrupts(entrant: FrameType, subject: TakingTurns) -> bool:
    """Tell whether a handler runs between the call that has the turn and this one."""
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


def deserted(name: str) -> RuntimeError:
    """The error for an object that a thread of the parent was working on at the fork."""
    return RuntimeError(
        f"{name}: this process was forked while another thread was in the middle "
        "of one of its calls, so that here it may be half changed for ever. Nothing was done; fork "
        "with a copy that no other thread uses (clone, copy.deepcopy), or load it in the child."
    )


def _count_forks() -> None:
    global AT_WORK
    AT_WORK = (AT_WORK[0] + 1, None)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_forks)
