"""Names that load when they are first used (PEP 562), so that importing a package costs little."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of ``package``: a name is taken from its module, and kept.

    Args:
        package: ``__name__`` of the package.
        where: for each name, the module that has it, or the name itself where it is a module; as
            in an import, a leading dot is the package.
    """

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(where[name], package)
        value = module if where[name] == f".{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return load
