"""Calls made from the document. Longer: python -m tests.serve.schemas --cases 10000."""

from __future__ import annotations

from tests.serve.schemas import run


def test_no_call_that_the_document_describes_fails():
    found, bad = run(cases=200)
    assert not bad, bad[:3]
    assert found[200] + found[201] > 30
