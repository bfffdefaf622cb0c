"""The choice of multipliers: its trials, how sure it is, and that a stale record is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heavytail import cli
from heavytail.environments.noise import StudentT
from heavytail.experiments.experiment import Request
from heavytail.experiments.setting import build, trial_units
from heavytail.experiments.tune import APART, Tuned
from heavytail.reproduction import tuning
from heavytail.reproduction.catalogue import OURS, SEED, SETTINGS, setting
from heavytail.reproduction.protocol import PAPER, TUNED, options_of, trials_of
from heavytail.reproduction.reproduce import EXPERIMENTS, _used
from heavytail.reproduction.tuning import check_fresh, retune, stale, stamp, tuning_units

STUDENT, GAUSSIAN, ARMS_50 = setting("student"), setting("gaussian"), setting("arms-50")


def test_tuning_has_seeds_of_its_own(tmp_path) -> None:
    request = Request(tmp_path, trials=20, seed=5)
    point = {"radius_scale": 0.5, "threshold_scale": 0.1}
    units = tuning_units(request, STUDENT, "HeavyOFUL", point, 12)
    assert sum(unit.arguments["trials"] for unit in units) == 12
    first = units[0].arguments
    assert first["seed"] == STUDENT.seed(5 + 1_000_003)
    assert first["rounds"] == 18_000
    assert first["policy"]._arguments | point == first["policy"]._arguments
    plain = trial_units(STUDENT, first["policy"], 18_000, 12, 5)
    assert first["seed"] != plain[0].arguments["seed"]
    short = tuning_units(Request(tmp_path, rounds=40), STUDENT, "OFUL", {}, 2)
    assert short[0].arguments["rounds"] == 40


def test_what_is_recorded_was_chosen_on_forty_trials_of_the_tuning_seeds_by_this_code() -> None:
    tuned = Tuned.read(TUNED)
    worlds = [one for one in (*SETTINGS, *OURS) if not one.repeats]
    chosen = [tuned.provenance[one.name] for one in worlds]
    assert {(one["seed"], one["trials"]) for one in chosen} == {(SEED + APART, 40)}
    assert stale(tuned, worlds, PAPER) == []
    request = Request(TUNED, trials=20)
    for one in worlds:
        for name in PAPER:
            others = tuned.others(one.name, name)
            assert all(share >= tuning.LEAST_SHARE for share, _ in others)
            counts = {len(regret) for _, regret in others}
            assert counts <= {trials_of(name, "tuned", request)}


def fake_run(units: Any, request: Any, title: str) -> dict[str, Any]:
    """Regret is least at the radius 0.1 under Student's t and at 1 under the Gaussian.

    Under the Gaussian 10 ** -0.5 is as good on average: better in every second trial.
    """
    found = {}
    for unit in units:
        told = unit.arguments
        student = isinstance(told["environment"].noise, StudentT)
        radius = told["policy"]._arguments["radius_scale"]
        regret = 10.0 + 100.0 * abs(radius - (0.1 if student else 1.0))
        values = np.full(told["trials"], regret)
        if not student and 0.3 < radius < 0.4:
            places = told["first"] + np.arange(told["trials"])
            values = np.where(places % 2 == 0, 8.0, 12.2)
        found[unit.key] = {"regret": values[:, None]}
    return found


@pytest.mark.parametrize(("trials", "run", "screened"), [(3, 6, 3), (20, 40, 10)])
def test_tuning_chooses_in_every_world_once_and_says_on_which_seeds(
    trials, run, screened, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(tuning, "run_units", fake_run)
    before = Tuned({"other": {}}, {"other": {"date": "then"}})
    request = Request(
        tmp_path, trials=trials, rounds=20, seed=5, policies=("OFUL", "Uniform"), tuned=before
    )
    found = retune([STUDENT, GAUSSIAN, ARMS_50], request)
    assert set(found.settings) == {"other", "student", "gaussian"}  # arms-50 is student's world
    assert set(found.settings["student"]) == {"OFUL"}  # Uniform has nothing to tune
    assert found.options("student", "OFUL") == {"radius_scale": pytest.approx(0.1)}
    assert found.options("gaussian", "OFUL") == {"radius_scale": 1.0}
    assert len(found.settings["student"]["OFUL"]["finals"]) == tuning.FINALISTS
    made = SimpleNamespace(**found.provenance["student"])
    assert (made.trials, made.screened, made.seed) == (run, screened, 5 + APART)


def test_what_resamples_choose_instead_is_run_on_the_reported_trials(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tuning, "run_units", fake_run)
    request = Request(tmp_path, trials=20, rounds=20, seed=5, policies=("OFUL",))
    found = retune([STUDENT, GAUSSIAN], request)
    assert found.others("student", "OFUL") == ()  # one is best in every trial
    ((share, regret),) = found.others("gaussian", "OFUL")
    assert 0.2 < share < 0.5  # 10 against 10.1 on average of 40, give or take 0.33
    np.testing.assert_array_equal(regret, np.tile([8.0, 12.2], 100))


def test_a_record_stands_until_its_code_changes_and_then_only_it_is_chosen_anew(
    tmp_path, monkeypatch
) -> None:
    ran: list[Any] = []

    def watched(units: Any, request: Any, title: str) -> dict[str, Any]:
        ran.extend(units)
        return fake_run(units, request, title)

    monkeypatch.setattr(tuning, "run_units", watched)
    request = Request(tmp_path, trials=20, rounds=20, seed=5, policies=("OFUL", "CRMM"))
    first = retune([GAUSSIAN], request)
    check_fresh(first, [GAUSSIAN], ("OFUL", "CRMM"))
    ran.clear()
    request = Request(
        tmp_path, trials=20, rounds=20, seed=5, policies=("OFUL", "CRMM"), tuned=first
    )
    assert retune([GAUSSIAN], request) == first
    assert ran == []
    first.settings["gaussian"]["CRMM"]["source"] = "of before"
    assert stale(first, [GAUSSIAN], ("OFUL", "CRMM")) == [("gaussian", "CRMM")]
    with pytest.raises(ValueError, match=r"multipliers of CRMM .* reproduce --retune --tuned FILE"):
        check_fresh(first, [GAUSSIAN], ("OFUL", "CRMM"), " --tuned FILE")
    confirmed = retune([GAUSSIAN], request)  # other code, the same regret: three points tell
    assert {type(unit.arguments["policy"]).__name__ for unit in ran} == {"CRMM"}
    few = len(ran)
    check_fresh(confirmed, [GAUSSIAN], ("OFUL", "CRMM"))
    ran.clear()
    grid = first.settings["gaussian"]["CRMM"]["grid"]
    grid[-1]["regret"] += 0.01
    again = retune([GAUSSIAN], request)
    assert {type(unit.arguments["policy"]).__name__ for unit in ran} == {"CRMM"}
    assert len(ran) > 2 * few
    check_fresh(again, [GAUSSIAN], ("OFUL", "CRMM"))


def test_a_stale_record_is_refused_by_the_command_with_what_to_run(tmp_path, capsys) -> None:
    tuned = Tuned.read(TUNED)
    tuned.settings["pareto"]["CRTM"]["source"] = "of before"
    tuned.write(tmp_path / "old.json")
    asked = ["--tuned", str(tmp_path / "old.json"), "--out", str(tmp_path / "out")]
    assert cli.main(["reproduce", "pareto", *asked]) == 2
    assert "multipliers of CRTM were chosen with other code" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_stamp_is_of_the_policy_its_kernels_and_the_world() -> None:
    stamps = {
        stamp(build(name, one, 100, **options_of(name, "tuned")), one)
        for name in PAPER
        for one in (STUDENT, setting("jackpot"))
    }
    assert len(stamps) == 10


def test_multipliers_are_checked_in_the_settings_that_use_them() -> None:
    def used(*names: str) -> list[str]:
        return [one.name for one in _used([EXPERIMENTS[name] for name in names])]

    assert used("pareto") == ["pareto"]
    assert used("student", "glb") == ["student"]
    assert used("mdp", "lowrank") == []
    assert set(used("horizon")) == {one.name for one in (*SETTINGS, *OURS)}
    (repeat,) = [one for one in SETTINGS if one.repeats][:1]
    assert used(repeat.name) == [repeat.tuned_as]
