"""A killed service loses nothing that it acknowledged. Longer: python -m tests.serve.killing."""

from __future__ import annotations

from tests.serve.killing import run


def test_killed_under_load_nothing_acknowledged_is_lost(tmp_path):
    found = run(kills=2, seed=1, folder=str(tmp_path / "store"))
    assert found.pop("decisions") > 10
    assert found.pop("rewards") > 3
    assert not any(found.values()), found
