"""Policies of a user's own class: which these are, and what to say where their code fails."""

from __future__ import annotations

import os
import traceback

from heavytail._validate import printable

__all__ = ["failure", "is_own", "replaces"]


def is_own(kind: type) -> bool:
    """Tell whether a class is not the library's."""
    return not _ours(kind.__module__)


def replaces(kind: type, method: str) -> bool:
    """Tell whether a class has put a method of its own in the place of the library's."""
    return not _ours(getattr(getattr(kind, method), "__module__", None) or "")


def failure(what: str, error: BaseException) -> ValueError:
    """An error of a user's code in one sentence: what failed, how, and at which line."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame for frame in frames if os.sep + "heavytail" + os.sep not in frame.filename]
    where = ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({os.path.basename(error.filename)}, line {error.lineno})"
    elif lines:
        where = f" ({os.path.basename(lines[-1].filename)}, line {lines[-1].lineno})"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ValueError(printable(f"{what} failed: {said}{where}."))


def _ours(module: str) -> bool:
    return module == "heavytail" or module.startswith("heavytail.")
