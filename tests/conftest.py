"""Shared by all tests."""

from __future__ import annotations

import os

import pytest

from heavytail.kernels.jit import compiled
from heavytail.policies import ALL

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands that tests start compile once, not each


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``compiled`` say why they are left out when the compiler is off; those of one
    policy run in one worker, which compiles its kernels once.
    """
    if not compiled():
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="the compiler is off (NUMBA_DISABLE_JIT)"))
    names = {name: kind.name for kind in ALL for name in (kind.name, kind.__name__)}
    by_length = sorted(names, key=len, reverse=True)  # Hvt-UCB is no test of a name it is part of
    for item in items:
        parameters = item.name.partition("[")[2]
        policy = next((name for name in by_length if name in parameters), None)
        if policy is not None:
            item.add_marker(pytest.mark.xdist_group(names[policy]))


@pytest.fixture(autouse=True)
def _any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as they are: who runs tests in parallel states a width of 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
