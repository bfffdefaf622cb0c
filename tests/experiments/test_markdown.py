"""The documentation's page of an experiment: a table of verdicts, then what was measured."""

from __future__ import annotations

from heavytail.experiments.claim import Claim, Part
from heavytail.experiments.experiment import Section, Table
from heavytail.experiments.report import markdown

MADE = {
    "commit": "c",
    "command": "run",
    "date": "d",
    "machine": "m",
    "versions": {"python": "3"},
    "digits": "Bits are a machine's.",
    "seed": 0,
    "trials": "Few.",
}


def test_the_verdicts_come_first_and_stars_are_no_emphasis() -> None:
    claim = Claim("C1", "It is so", "a rule", (), lambda _: [Part("2 of 2", True), Part("x", None)])
    tables = [Table("t", ("a", "b"), [("0.1*", "0.2*")])]
    page = markdown([claim.judge({})], [Section("s", "Tuned", tables=tables)], MADE, "again")
    assert "| C1 | It is so | **holds in part** |\n\n## What was measured\n" in page
    assert "\n- **C1**: ✓ 2 of 2; ? x\n" in page
    assert r"| 0.1\* | 0.2\* |" in page
