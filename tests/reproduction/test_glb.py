"""The experiment of policies with a link: what it runs and what it shows."""

from __future__ import annotations

from heavytail import cli
from heavytail.environments import LinkBandit
from heavytail.experiments.experiment import Request, carry_out
from heavytail.reproduction.claims import CLAIMS
from heavytail.reproduction.glb import GLB
from heavytail.reproduction.reproduce import asked_claims


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
    assert "T = 120" in section.text[0]
    looks = {}
    for axis in section.figures["glb"].axes:
        for line in axis.get_lines():
            look = (line.get_color(), line.get_linestyle(), line.get_marker())
            looks.setdefault(look, set()).add(line.get_label())
    assert all(len(labels) == 1 for labels in looks.values())


def test_only_what_was_asked_for_is_shown(tmp_path, capsys, monkeypatch):
    worlds = {"clicks, S = 1": LinkBandit(2, 3, "logistic")}
    monkeypatch.setattr("heavytail.reproduction.glb._worlds", lambda: worlds)
    monkeypatch.setattr("heavytail.reproduction.glb._covered", lambda: worlds)
    asked = ["glb", "--quick", "--rounds", "60", "--jobs", "1", "--out", str(tmp_path)]
    assert cli.main(["reproduce", *asked]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Regret: mean (median, worst)")
    assert "not measured" not in said
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="verdicts"' not in page
    assert 'id="speedup"' not in page
    assert not (tmp_path / "verdicts.parquet").exists()


def test_claims_are_judged_where_an_experiment_they_need_is_asked_for():
    assert asked_claims(["glb"]) == []
    assert [one.name for one in asked_claims(["coverage"])] == ["C10", "sharp"]
    assert asked_claims([]) == list(CLAIMS)
