"""heavytail reproduce: what it writes, and that it can be stopped anywhere."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import heavytail as ht
from heavytail import cli
from heavytail.experiments import machine
from heavytail.experiments.experiment import Request
from heavytail.experiments.tune import Tuned
from heavytail.policies import ALL
from heavytail.reproduction import cost, protocol
from heavytail.reproduction.catalogue import OURS, SETTINGS, TEN, setting
from heavytail.reproduction.protocol import entries, grid_of, policy_names
from heavytail.reproduction.reproduce import EXPERIMENTS, wanted
from heavytail.reproduction.tuning import tuning_units

SMALL = ["--trials", "2", "--rounds", "300", "--jobs", "1"]


def reproduce(out: Path, *more: str) -> int:
    return cli.main(["reproduce", *more, *SMALL, "--out", str(out)])


def test_a_small_reproduction_writes_figures_results_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(tmp_path, "student", "gaussian") == 0
    assert "gaussian" in capsys.readouterr().out
    for kind in ("png", "svg", "pdf"):
        assert (tmp_path / "figures" / f"student.{kind}").stat().st_size > 1000
    assert (tmp_path / "regret.parquet").exists()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Zhi-Hua Zhou, \u201cHeavy-Tailed Linear Bandits" in page
    assert "Its Figure 1 is Student t" in page
    assert "(the paper&#x27;s Figures 1 and 2)" in page


def test_an_unknown_experiment_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(tmp_path, "studnet") == 2
    assert "no experiment is called 'studnet'" in capsys.readouterr().err


def test_the_paper_has_eleven_settings_of_which_two_are_one_run() -> None:
    assert len([one for one in SETTINGS if one.group != "true"]) == 11
    assert len(TEN) == 10
    assert {"student", "arms-50"} - set(TEN) == {"arms-50"}
    request = Request(Path(), policies=("HvtUCB", "OFUL"))
    plans = [EXPERIMENTS[name].plan(request) for name in ("student", "arms-50")]
    student, arms = ([unit.key for units in one.values() for unit in units] for one in plans)
    assert student == arms != []
    names = [one.name for one in (*SETTINGS, *OURS)]
    assert len(set(names)) == len(names)


def test_five_worlds_of_ours_stand_apart_and_their_laws_depend_on_the_arm() -> None:
    assert len(OURS) == 5
    assert {one.group for one in OURS} == {"ours"}
    assert not {one.name for one in OURS} & set(TEN)
    assert all(isinstance(one.environment, ht.SkewedBandit) for one in OURS)


def test_the_papers_nu_stands_beside_the_true_one() -> None:
    assert setting("student").tail(uses_scale=True).scale == 1.31
    assert setting("student-true-nu").tail(uses_scale=True).scale == pytest.approx(4.388, abs=1e-3)


def test_policies_that_cannot_use_a_rounds_scale_are_given_the_worst() -> None:
    one = setting("scale-2")
    ratio = one.tail(uses_scale=False).scale / one.tail(uses_scale=True).scale
    assert ratio == pytest.approx(100.0)


def test_a_policy_travels_to_another_process_with_all_it_learned() -> None:
    policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
    policy.update([1.0, 0.0], reward=3.0)
    twin = pickle.loads(pickle.dumps(policy))
    for name, array in policy.state_arrays().items():
        np.testing.assert_array_equal(array, twin.state_arrays()[name])


def test_every_policy_can_be_built_for_every_setting_in_every_variant() -> None:
    names = policy_names(everyone=True)
    assert {kind.__name__ for kind in ALL if kind.info.rewards == "any"} == set(names)
    for one in (*SETTINGS, *OURS):
        found = entries(one, names, one.rounds, Tuned())
        assert {variant for _, variant in found} == {"untuned", "theory", "sharp"}
        assert len(found) == 2 * len(names)  # no theory of Twin-UCB; Hvt-UCB sharp
    for name in names:
        assert len(grid_of(name)) in (0, 9, 45)


def drawn(units):
    """Which trials of which seeds units run."""
    return {
        (told["seed"], told["first"] + k)
        for told in (unit.arguments for unit in units)
        for k in range(told["trials"])
    }


def test_no_trial_that_multipliers_are_chosen_on_is_reported(tmp_path: Path) -> None:
    request = Request(tmp_path, trials=20, seed=2025, policies=("HvtUCB", "OFUL"))
    for one in (*SETTINGS, *OURS):
        reported = EXPERIMENTS[one.name].plan(request)
        point = grid_of("HvtUCB")[0]
        tuning = drawn(tuning_units(request, one, "HvtUCB", point, 40))
        assert len(tuning) == 40
        assert not tuning & drawn([unit for units in reported.values() for unit in units])


def test_the_recorded_multipliers_are_the_best_of_the_best_of_the_whole_grid() -> None:
    tuned = Tuned.read(protocol.TUNED)

    def points(rows):
        return [{k: v for k, v in row.items() if k != "regret"} for row in rows]

    for one in (*SETTINGS, *OURS):
        for name in protocol.PAPER if not one.repeats else ():
            rows, finals = (tuned.settings[one.name][name][which] for which in ("grid", "finals"))
            best = min(finals, key=lambda row: row["regret"])
            assert [tuned.options(one.name, name)] == points([best])
            assert points(rows) == grid_of(name)
            ranked = points(sorted(rows, key=lambda row: row["regret"]))
            assert all(point in ranked[:7] for point in points(finals))  # 6, and a tie as shown


def test_without_names_all_run_but_what_takes_long() -> None:
    left_out = set(EXPERIMENTS) - {one.name for one in wanted([])}
    assert left_out == {"speedup", "mdp", "control", "glb", "lowrank"}


def test_an_installed_package_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = protocol.TUNED.read_bytes()
    monkeypatch.setattr(machine, "source_tree", lambda: None)
    assert reproduce(tmp_path / "out", "student", "--retune") == 2
    assert "name a file: --tuned FILE" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()  # refused before the work starts
    assert cli.main(["coverage", "student", "--trials", "2", "--rounds", "9", "--record"]) == 2
    assert "name a file: --record FILE" in capsys.readouterr().err
    assert protocol.TUNED.read_bytes() == before


def test_a_quick_look_does_not_take_the_place_of_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = protocol.TUNED.read_bytes()
    asked = ["reproduce", "student", "--retune", "--quick", "--out", str(tmp_path / "out")]
    assert cli.main(asked) == 2
    assert "--retune with --quick" in capsys.readouterr().err
    assert protocol.TUNED.read_bytes() == before


def test_multipliers_are_recorded_in_the_file_that_is_named(tmp_path: Path) -> None:
    before, mine = protocol.TUNED.read_bytes(), tmp_path / "mine.json"
    small = ["--trials", "1", "--rounds", "60", "--jobs", "1", "--out", str(tmp_path / "out")]
    assert cli.main(["reproduce", "student", "--retune", "--tuned", str(mine), *small]) == 0
    tuned = Tuned.read(mine)
    assert set(tuned.settings) == {"student"}
    assert set(tuned.settings["student"]) == set(protocol.PAPER)
    assert len(tuned.grids("student")["HvtUCB"]) == 45
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "a grid of 9 or 45 on 1 trials of 60 rounds, the 6 best on 2." in page  # as it was
    assert "may differ in the third digit" in page
    assert protocol.TUNED.read_bytes() == before


def test_a_quick_look_gives_no_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["coverage", "--quick", "--rounds", "30", "--jobs", "1", "--out", str(tmp_path)]
    assert cli.main(["reproduce", *asked]) == 0
    assert "C10  too few trials" in capsys.readouterr().out


def test_every_row_and_line_says_whose_a_policy_is_and_whether_it_is_tuned(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    names = ["student", "jackpot"]
    assert reproduce(tmp_path / "out", *names, "--docs", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    for label in (
        "Hvt-UCB, tuned (paper's)",
        "Hvt-UCB, untuned (our constants)",
        "Twin-UCB, untuned (ours)",
    ):
        assert label in text
    assert "20 of Hvt-UCB, untuned (our constants); " in text  # how many trials, of each
    for image in re.findall(r"\]\((.*?)\)", text):
        assert (tmp_path / image).stat().st_size < 150_000


def test_a_shortened_speedup_is_kept_in_the_results_alone(tmp_path: Path) -> None:
    before = cost.RECORD.read_bytes()
    assert cli.main(["reproduce", "speedup", "--rounds", "60", "--out", str(tmp_path)]) == 0
    found = cost.read_speedup(tmp_path / "speedup.json")
    assert {noise: set(runs) for noise, runs in found.items()} == {
        noise: {"gd", "lbfgs"} for noise in cost.NOISES
    }
    assert cost.RECORD.read_bytes() == before
