"""The inverse stays an inverse."""

from __future__ import annotations

import pytest

drift = pytest.importorskip("benchmarks.drift")


@pytest.mark.compiled
def test_after_a_million_updates_the_inverse_is_right_to_1e_11(capsys):
    assert drift.main(1_000_000) <= 1e-11


@pytest.mark.slow
@pytest.mark.compiled
def test_after_ten_million_updates_the_inverse_is_right_to_1e_11(capsys):
    assert drift.main(10_000_000) <= 1e-11
