"""The policies, as ``__init__.pyi`` lists them: the one list, which type checkers read too."""

from __future__ import annotations

from typing import Any

from heavytail._lazy import lazy, stub

__all__ = ["NAMES", "WHERE", "load", "load_all"]

WHERE = stub(__file__)  # name -> module
# Modules of one algorithm each; the others hold what policies are made of and made by.
NAMES = tuple(name for name, module in WHERE.items() if not module.startswith((".core", ".build")))

load = lazy("heavytail.policies", WHERE)


def load_all() -> tuple[Any, ...]:
    """Every policy class, in the order of the list."""
    return tuple(load(name) for name in NAMES)
