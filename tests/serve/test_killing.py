"""A killed service loses nothing that it acknowledged. Longer: python -m tests.serve.killing."""

from __future__ import annotations

from tests.serve.killing import FACTS, run


def test_killed_under_load_nothing_acknowledged_is_lost(tmp_path):
    check(run(kills=2, seed=1, where=str(tmp_path / "store")))


def test_workers_and_their_database_are_killed_and_nothing_is_lost(server, address):
    check(run(kills=3, seed=2, where=address, workers=2, database=server))


def check(counts):
    facts = {what: counts.pop(what) for what in FACTS}
    assert facts["decisions"] > 10
    assert facts["rewards"] > 3
    assert not any(counts.values()), counts
