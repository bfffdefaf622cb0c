"""The protocol: what a variant is, what is tried in tuning, and on which seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from heavytail.environments.noise import StudentT
from heavytail.experiments.experiment import Request
from heavytail.experiments.setting import trial_units
from heavytail.experiments.tune import APART, Tuned
from heavytail.policies import ALL
from heavytail.reproduction import protocol
from heavytail.reproduction.catalogue import SEED, SETTINGS, setting
from heavytail.reproduction.protocol import TUNED, VARIANTS, built, entries, grid_of, options_of

FIVE = ("HvtUCB", "HeavyOFUL", "OFUL", "CRTM", "CRMM")
STUDENT, GAUSSIAN = setting("student"), setting("gaussian")


def test_the_names_are_the_papers_five_then_the_rest_and_a_users_own() -> None:
    assert protocol.PAPER == protocol.policy_names() == FIVE
    everyone = protocol.policy_names(everyone=True)
    assert everyone[:5] == FIVE
    assert sorted(everyone) == sorted(kind.__name__ for kind in ALL)
    assert protocol.policy_names(own=("MoM",)) == (*FIVE, "MoM")
    with pytest.raises(ValueError, match="NoSuchPolicy"):
        protocol.policy_names(own=("NoSuchPolicy",))


@pytest.mark.parametrize(
    ("name", "variant", "options"),
    [
        ("HvtUCB", "untuned", {}),
        ("HvtUCB", "tuned", {"radius": "theory"}),
        ("HvtUCB", "theory", {"radius": "theory", "radius_scale": 1.0, "threshold_scale": 1.0}),
        ("HeavyOFUL", "untuned", {"solver": "lazy"}),
        ("HeavyOFUL", "tuned", {"solver": "lazy"}),
        ("HeavyOFUL", "theory", {"solver": "lazy", "radius_scale": 1.0, "threshold_scale": 1.0}),
        ("OFUL", "untuned", {}),
        ("OFUL", "tuned", {}),
        ("OFUL", "theory", {"radius_scale": 1.0}),
        ("Uniform", "theory", {}),
    ],
)
def test_a_variant_is_these_options_and_no_others(name, variant, options) -> None:
    assert options_of(name, variant) == options


def test_the_multipliers_tried_are_half_decades_up_to_one() -> None:
    radii = [1e-4, 10**-3.5, 1e-3, 10**-2.5, 1e-2, 10**-1.5, 1e-1, 10**-0.5, 1.0]
    assert [point.pop("radius_scale") for point in grid_of("OFUL")] == pytest.approx(radii)
    assert grid_of("OFUL")[0].keys() == {"radius_scale"}
    both = grid_of("CRTM")
    assert len(both) == 9 * 5
    thresholds = [1e-2, 10**-1.5, 1e-1, 10**-0.5, 1.0]
    assert [point["threshold_scale"] for point in both[:5]] == pytest.approx(thresholds)
    assert [point["radius_scale"] for point in both[::5]] == pytest.approx(radii)
    assert grid_of("Uniform") == []


def test_a_policy_to_be_tuned_is_left_out_where_nothing_is_recorded() -> None:
    assert built("OFUL", "tuned", STUDENT, 50, Tuned()) is None
    assert set(entries(STUDENT, ("OFUL",), 50, Tuned())) == {
        ("OFUL", "untuned"),
        ("OFUL", "theory"),
    }
    tuned = Tuned().with_search("student", "OFUL", [{"radius_scale": 0.25}], [1.0], None)
    found = entries(STUDENT, ("OFUL", "HeavyOFUL"), 50, tuned)
    assert [key for key in found if key[0] == "OFUL"] == [("OFUL", v) for v in VARIANTS]
    policy, weight = found["OFUL", "tuned"]
    assert policy._arguments["radius_scale"] == 0.25
    assert (weight, found["HEAVY-OFUL", "theory"][1]) == (1, 10)
    assert built("OFUL", "tuned", GAUSSIAN, 50, tuned) is None


@pytest.mark.parametrize(
    ("asked", "rounds"), [({}, 18_000), ({"quick": True}, 6_000), ({"rounds": 70}, 70)]
)
def test_rounds_are_those_asked_for_or_the_settings_or_a_third_when_quick(
    asked, rounds, tmp_path
) -> None:
    assert protocol.rounds_of(STUDENT, Request(tmp_path, **asked)) == rounds


@pytest.mark.parametrize(("trials", "run"), [(3, 3), (10, 10), (20, 10)])
def test_tuning_runs_ten_trials_at_most_on_seeds_of_their_own(trials, run, tmp_path) -> None:
    request = Request(tmp_path, trials=trials, seed=5)
    point = {"radius_scale": 0.5, "threshold_scale": 0.1}
    units = protocol.tuning_units(request, STUDENT, "HeavyOFUL", point)
    assert sum(unit.arguments["trials"] for unit in units) == run
    first = units[0].arguments
    assert first["seed"] == STUDENT.seed(5 + 1_000_003)
    assert first["rounds"] == 18_000
    assert first["policy"]._arguments | point == first["policy"]._arguments
    plain = trial_units(STUDENT, first["policy"], 18_000, run, 5)
    assert [unit.weight for unit in units] == [10 * unit.weight for unit in plain]
    assert first["seed"] != plain[0].arguments["seed"]
    short = protocol.tuning_units(Request(tmp_path, rounds=40), STUDENT, "OFUL", {})
    assert short[0].arguments["rounds"] == 40


def test_what_is_recorded_was_chosen_on_ten_trials_of_the_tuning_seeds() -> None:
    made = Tuned.read(TUNED).provenance
    chosen = [made[one.name] for one in SETTINGS]
    assert {(one["seed"], one["trials"]) for one in chosen} == {(SEED + APART, 10)}


def fake_run(units: Any, request: Any, title: str) -> dict[str, Any]:
    """Regret is least at the radius 0.1 under Student's t and at 1 under the Gaussian."""
    found = {}
    for unit in units:
        noise = unit.arguments["environment"].noise
        aim = 0.1 if isinstance(noise, StudentT) else 1.0
        regret = abs(unit.arguments["policy"]._arguments["radius_scale"] - aim)
        found[unit.key] = {"regret": np.full((unit.arguments["trials"], 1), 10.0 + 100.0 * regret)}
    return found


@pytest.mark.parametrize(("trials", "run"), [(3, 3), (20, 10)])
def test_tuning_again_chooses_in_every_setting_and_says_on_which_seeds(
    trials, run, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(protocol, "run_units", fake_run)
    before = Tuned({"other": {}}, {"other": {"date": "then"}})
    request = Request(
        tmp_path, trials=trials, rounds=20, seed=5, policies=("OFUL", "Uniform"), tuned=before
    )
    found = protocol.retune([STUDENT, GAUSSIAN], request)
    assert set(found.settings) == {"other", "student", "gaussian"}
    assert set(found.settings["student"]) == {"OFUL"}  # Uniform has nothing to tune
    assert found.options("student", "OFUL") == {"radius_scale": pytest.approx(0.1)}
    assert found.options("gaussian", "OFUL") == {"radius_scale": 1.0}
    made = SimpleNamespace(**found.provenance["student"])
    assert (made.trials, made.seed) == (run, 5 + APART)
