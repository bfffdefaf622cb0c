"""A killed service loses nothing that it acknowledged. Longer: python -m tests.serve.killing."""

from __future__ import annotations

from tests.serve.killing import run


def test_killed_under_load_nothing_acknowledged_is_lost(tmp_path):
    found = run(kills=2, seed=1, where=str(tmp_path / "store"))
    assert found.pop("decisions") > 10
    assert found.pop("rewards") > 3
    found.pop("snapshots")
    assert not any(found.values()), found


def test_workers_and_their_database_are_killed_and_nothing_is_lost(server, address):
    found = run(kills=3, seed=2, where=address, workers=2, database=server)
    assert found.pop("decisions") > 10
    assert found.pop("rewards") > 3
    found.pop("snapshots")
    assert not any(found.values()), found
