"""Policies, one file each; ``heavytail policies`` prints them as a table.

They are listed in ``__init__.pyi`` and nowhere else. A policy loads when it is first named; ``ALL``
names them all.
"""

from __future__ import annotations

from heavytail.policies import _table

NAMES = _table.NAMES  # of the classes in ALL


def __getattr__(name: str) -> object:
    return _table.load_all() if name == "ALL" else _table.load(name)


def __dir__() -> list[str]:
    return ["ALL", *sorted(_table.WHERE)]
