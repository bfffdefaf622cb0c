"""The experiment of policies with a link: what it runs and what it shows."""

from __future__ import annotations

from heavytail.experiments.experiment import Request, carry_out
from heavytail.reproduction.glb import GLB


def test_a_quick_look_shows_every_policy_and_the_coverage(tmp_path):
    request = Request(out=tmp_path, quick=True, trials=2, rounds=120, progress=False, jobs=1)
    (section,) = carry_out([GLB], request)
    regret, ratios, times, coverage = section.tables
    shown = {row[0].partition(",")[0] for row in regret.rows}
    assert shown == {"GLB-OMD", "Twin-UCB", "GLOC", "OL2M", "GLM-UCB", "ECOLog", "Hvt-GLB"}
    assert len(ratios.rows) == 7
    assert len(times.rows) == len(regret.rows)
    assert all(row[1] == "100 of 100" for row in coverage.rows)
    assert set(section.figures) == {"glb"}
