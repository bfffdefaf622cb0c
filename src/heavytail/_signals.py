"""Tell whether a signal handler is at work: Python calls one between any two instructions, in the
middle of whatever the main thread does.
"""

from __future__ import annotations

import inspect
from types import FrameType

__all__ = ["is_handler", "raised_by_handler"]


def is_handler(frame: FrameType) -> bool:
    """Tell whether the frame is a signal handler's: only a handler receives its caller's frame."""
    back, code = frame.f_back, frame.f_code
    if back is None:
        return False
    names = [*code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:  # its name comes after those that are keywords only
        names.append(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
    arguments = [frame.f_locals.get(name) for name in names]
    return any(
        value is back or (type(value) is tuple and any(part is back for part in value))
        for value in arguments
    )  # never ==, which an array answers with an array


def raised_by_handler(error: BaseException) -> bool:
    """Tell whether an exception comes from a signal handler, not from the code it interrupted."""
    trace = error.__traceback__
    while trace is not None:
        if is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False
