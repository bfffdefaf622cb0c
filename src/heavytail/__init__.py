"""heavytail: decide and learn under heavy-tailed rewards, in one pass.

>>> import heavytail as ht
>>> policy = ht.TwinUCB(2)
>>> arms = [[1.0, 0.0], [0.0, 1.0]]
>>> arm = policy.select(arms)
>>> policy.update(arms[arm], reward=3.0)

Names load when they are first used, so that importing the package costs little. They are listed in
``__init__.pyi``; every policy of ``heavytail.policies`` can be had from here by its name too.
"""

from __future__ import annotations

from heavytail._lazy import lazy, missing, stub
from heavytail._version import __version__ as __version__

_WHERE = stub(__file__)
_lookup = lazy(__name__, _WHERE)

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> object:
    from heavytail.policies import _table

    if name in _WHERE:
        return _lookup(name)
    if name in _table.NAMES:
        return _table.load(name)
    raise missing(__name__, name, (*_WHERE, *_table.NAMES))


def __dir__() -> list[str]:
    from heavytail.policies import _table

    return sorted({*__all__, *_table.NAMES, "__version__"})
