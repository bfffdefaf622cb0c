"""Bad files are refused and cost nothing. Longer: python -m tests.serve.uploads."""

from __future__ import annotations

from tests.serve.uploads import run


def test_damaged_and_crafted_files_make_no_model_and_take_no_memory():
    counts, bad = run(files=8)
    assert bad == []
    assert counts[422] > 40
    assert counts["log 422"] > 4
