"""Names that load when they are first used (PEP 562), so that importing a package costs little."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["GONE", "lazy", "missing", "nearest", "stub"]

GONE: Final = {"HurdleUCB": "TwinUCB"}  # classes of earlier versions, and their successors
IMPORT = re.compile(r"^from (\.[\w.]*) import (\w+) as \2$", re.MULTILINE)


def stub(file: str) -> dict[str, str]:
    """The names that the ``__init__.pyi`` beside ``file`` imports, and the module of each.

    One list thus serves type checkers, editors and the interpreter.
    """
    text = Path(file).with_name("__init__.pyi").read_text(encoding="utf-8")
    return {name: module for module, name in IMPORT.findall(text)}


def lazy(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``: a name is taken from its module, and kept.

    Args:
        package: ``__name__`` of the package.
        where: for each name, the module that has it; as in an import, a leading dot is the
            package, and a dot alone says that the name is a module of it.
    """

    def load(name: str) -> object:
        if name not in where:
            raise missing(package, name, where)
        if where[name] == ".":  # a module of the package
            value: object = importlib.import_module(f".{name}", package)
        else:
            value = getattr(importlib.import_module(where[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def missing(package: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that ``package`` lacks, with the nearest name it has."""
    problem = f"module {package!r} has no attribute {name!r}"
    near = None if name.startswith("_") else nearest(name, known)  # tools ask for private ones
    if name in GONE:
        problem += f": {GONE[name]} does its work now."
    elif near:
        problem += f". Did you mean {near!r}?"
    return AttributeError(problem, name=name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name among ``known`` that looks most like ``name``: case and underscores do not count."""
    import difflib

    plain = {candidate.replace("_", "").lower(): candidate for candidate in known}
    plain |= {old.lower(): GONE[old] for old in GONE if GONE[old].lower() in plain}
    near = difflib.get_close_matches(name.replace("_", "").replace("-", "").lower(), plain, n=1)
    return plain[near[0]] if near else None
