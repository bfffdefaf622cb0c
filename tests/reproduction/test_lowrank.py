"""The experiment of low-rank matrices: what it runs and what it shows."""

from __future__ import annotations

from heavytail.experiments.experiment import Request, carry_out
from heavytail.reproduction import lowrank


def test_a_quick_look_shows_every_policy_and_every_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(lowrank, "ARMS", 3)
    worlds = {
        key: (max(d // 3, 2), min(r, 2), law) for key, (d, r, law) in lowrank._worlds().items()
    }
    monkeypatch.setattr(lowrank, "_worlds", lambda: worlds)
    request = Request(out=tmp_path, quick=True, trials=2, rounds=80, progress=False, jobs=1)
    (section,) = carry_out([lowrank.LOWRANK], request)
    regret, swept, times = section.tables
    shown = {row[1].partition(",")[0] for row in regret.rows}
    assert shown == {"Hvt-LowRank", "LowESTR", "LOTUS", "Hvt-UCB", "Twin-UCB", "OFUL"}
    assert len(regret.rows) == 2 * len(times.rows)
    assert len(swept.rows) == len(worlds) - 2
    assert set(section.figures) == {"lowrank", "lowrank_sweeps"}
    assert "T = 80" in section.text[0]
    ticks = [
        [text.get_text() for text in axis.get_xticklabels()]
        for axis in section.figures["lowrank_sweeps"].axes
    ]
    assert ticks == [["1", "2", "4"], ["5", "10", "14"], ["t(1.4)", "t(1.7)", "t(2.5)", "normal"]]


def test_every_world_of_a_sweep_is_run():
    named = {name for names in lowrank.SWEEPS.values() for name in names} - {"t(1.7)"}
    assert named <= set(lowrank._worlds())
