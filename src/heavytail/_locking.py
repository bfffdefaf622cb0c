"""A file that one process holds, on any system; the lock of a dead process is gone with it."""

from __future__ import annotations

import errno
import importlib
import os

__all__ = ["BUSY", "hold", "opened"]

BUSY = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)  # another holds it
FLAGS = os.O_RDWR | os.O_CREAT
CAREFUL = ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY")  # where they are


def opened(path: str | os.PathLike[str], mode: int) -> int:
    """A handle of the file ``path``, created if missing; no link is followed."""
    flags = FLAGS
    for name in CAREFUL:
        flags |= getattr(os, name, 0)
    return os.open(path, flags, mode)


def hold(handle: int) -> None:
    """Lock it until it is closed; OSError with a number of BUSY if another process holds it."""
    if os.name == "posix":
        fcntl = importlib.import_module("fcntl")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        msvcrt = importlib.import_module("msvcrt")
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
