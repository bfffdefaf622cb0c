"""The protocol: what a variant is, what is tried in tuning, and on which seeds."""

from __future__ import annotations

import pytest

from heavytail.experiments.experiment import Request
from heavytail.experiments.tune import Tuned
from heavytail.policies import ALL
from heavytail.reproduction import protocol
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import VARIANTS, built, entries, grid_of, options_of

FIVE = ("HvtUCB", "HeavyOFUL", "OFUL", "CRTM", "CRMM")
STUDENT, GAUSSIAN = setting("student"), setting("gaussian")


def test_the_names_are_the_papers_five_and_ours_then_the_rest_and_a_users_own() -> None:
    assert protocol.PAPER == FIVE
    assert protocol.policy_names() == (*FIVE, "TwinUCB")
    everyone = protocol.policy_names(everyone=True)
    assert everyone[:6] == (*FIVE, "TwinUCB")
    assert sorted(everyone) == sorted(kind.__name__ for kind in ALL if kind.info.rewards == "any")
    assert protocol.policy_names(own=("MoM",)) == (*FIVE, "TwinUCB", "MoM")
    with pytest.raises(ValueError, match="NoSuchPolicy"):
        protocol.policy_names(own=("NoSuchPolicy",))


@pytest.mark.parametrize(
    ("name", "variant", "options"),
    [
        ("HvtUCB", "untuned", {}),
        ("HvtUCB", "tuned", {"radius": "theory"}),
        ("HvtUCB", "sharp", {"radius": "sharp"}),
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
    assert grid_of("Uniform") == grid_of("TwinUCB") == []


def test_of_what_is_ours_the_untuned_alone_is_shown() -> None:
    assert set(entries(STUDENT, ("TwinUCB",), 50, Tuned())) == {("Twin-UCB", "untuned")}


def test_a_policy_to_be_tuned_is_left_out_where_nothing_is_recorded() -> None:
    assert built("OFUL", "tuned", STUDENT, 50, Tuned()) is None
    assert set(entries(STUDENT, ("OFUL",), 50, Tuned())) == {
        ("OFUL", "untuned"),
        ("OFUL", "theory"),
    }
    tuned = Tuned().with_search("student", "OFUL", [{"radius_scale": 0.25}], [1.0], None)
    found = entries(STUDENT, ("OFUL", "HeavyOFUL"), 50, tuned)
    assert [key[1] for key in found if key[0] == "OFUL"] == [*VARIANTS[:3]]
    name, policy = found["OFUL", "tuned"]
    assert policy._arguments["radius_scale"] == 0.25
    assert (name, found["HEAVY-OFUL", "theory"][0]) == ("OFUL", "HeavyOFUL")
    assert built("OFUL", "tuned", GAUSSIAN, 50, tuned) is None


def test_two_settings_that_are_one_world_have_one_choice_of_multipliers() -> None:
    tuned = Tuned().with_search("student", "OFUL", [{"radius_scale": 0.25}], [1.0], None)
    again = setting("arms-50")
    policy = built("OFUL", "tuned", again, 50, tuned)
    assert repr(policy) == repr(built("OFUL", "tuned", STUDENT, 50, tuned))
    assert repr(again.environment) == repr(STUDENT.environment)
    assert again.seed(7) == STUDENT.seed(7)


@pytest.mark.parametrize(
    ("name", "variant", "times"),
    [
        ("OFUL", "tuned", 10),
        ("HvtUCB", "untuned", 10),
        ("TwinUCB", "untuned", 10),
        ("HeavyOFUL", "tuned", 2),
        ("HeavyOFUL", "untuned", 1),
        ("OFUL", "untuned", 1),
        ("HvtUCB", "theory", 1),
        ("HvtUCB", "sharp", 10),
    ],
)
def test_what_is_compared_and_cheap_has_ten_times_the_trials(name, variant, times, tmp_path):
    assert protocol.trials_of(name, variant, Request(tmp_path, trials=20)) == 20 * times
    assert protocol.trials_of(name, variant, Request(tmp_path, trials=4, quick=True)) == 4


def test_a_policy_is_of_one_pass_where_its_round_does_not_grow_with_t() -> None:
    assert all(map(protocol.one_pass, ("HvtUCB", "OFUL", "MENU", "TwinUCB")))
    assert not any(map(protocol.one_pass, ("HeavyOFUL", "TOFU")))


@pytest.mark.parametrize(
    ("asked", "rounds"), [({}, 18_000), ({"quick": True}, 6_000), ({"rounds": 70}, 70)]
)
def test_rounds_are_those_asked_for_or_the_settings_or_a_third_when_quick(
    asked, rounds, tmp_path
) -> None:
    assert protocol.rounds_of(STUDENT, Request(tmp_path, **asked)) == rounds
