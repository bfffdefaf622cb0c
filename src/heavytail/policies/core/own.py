"""A user's own classes: how they are imported, and what to say where their code fails."""

from __future__ import annotations

import importlib
import os
import traceback
from typing import TypeVar

from heavytail._validate import printable, shown

__all__ = ["failure", "imported", "is_own", "replaces"]

Kind = TypeVar("Kind")


def imported(path: str, base: type[Kind], noun: str) -> type[Kind]:
    """Import the class at "module:Class", a subclass of ``base``; ``noun`` says what it is."""
    module, _, name = path.partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"no {noun} is found at {shown(path)} ({printable(str(error))}); it must be "
            "module:Class, importable from the current folder (of heavytail run, from beside its "
            "file) or installed."
        ) from None
    except (Exception, SystemExit) as error:
        raise failure(f"the import of {shown(path)}", error) from error
    if not (isinstance(kind, type) and issubclass(kind, base)):
        public = {"Noise": "noise.Noise", "Policy": "Policy"}
        right = f"heavytail.{public.get(base.__name__, f'environments.{base.__name__}')}"
        raise ValueError(f"{shown(path)} is {shown(kind)}, not a subclass of {right}.")
    return kind


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
