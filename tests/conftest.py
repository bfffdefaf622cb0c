"""Shared by all tests."""

from __future__ import annotations

import os

import pytest

from heavytail.kernels.jit import compiled

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands that tests start compile once, not each


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``compiled`` say why they are left out when the compiler is off."""
    if not compiled():
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="the compiler is off (NUMBA_DISABLE_JIT)"))


@pytest.fixture(autouse=True)
def _any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as they are: who runs tests in parallel states a width of 80 columns."""
    monkeypatch.delenv("COLUMNS", raising=False)
