"""The experiment on linear-quadratic control: its section, its resuming, its trials."""

from __future__ import annotations

from pathlib import Path

from heavytail.experiments.experiment import Request, carry_out
from heavytail.reproduction.control import CONTROL, trials_of


def test_the_experiment_fills_its_section(tmp_path):
    request = Request(tmp_path, trials=2, rounds=60, quick=True, jobs=1)
    (section,) = carry_out([CONTROL], request)
    errors, regrets = section.tables
    assert [row[1] for row in errors.rows] == ["t(1.5)", "t(2.1)", "t(3)", "normal"]
    assert [row[1] for row in regrets.rows] == ["t(2.1)", "t(3)", "normal"]  # t(1.5): no regret
    assert set(section.figures) == {"control-error", "control-regret"}
    before = len(list(tmp_path.rglob("*.npz")))
    (again,) = carry_out([CONTROL], request)
    assert again.tables[0].rows == errors.rows
    assert len(list(tmp_path.rglob("*.npz"))) == before  # what is done is found, not run anew


def test_fifty_trials_are_the_least():
    request = Request(Path("unused"), trials=20)
    assert trials_of(request, True) == 50
    assert trials_of(request, False) == 200
