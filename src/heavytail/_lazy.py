"""Names that load when they are first used (PEP 562), so that importing a package costs little."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["lazy", "stub"]

IMPORT = re.compile(r"^from (\.[\w.]*) import (\w+) as \2$", re.MULTILINE)


def stub(file: str) -> dict[str, str]:
    """The names that the ``__init__.pyi`` beside ``file`` imports, and the module of each.

    So that one list serves type checkers, editors and the interpreter.
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

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if where[name] == ".":  # a module of the package
            value: Any = importlib.import_module(f".{name}", package)
        else:
            value = getattr(importlib.import_module(where[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
