"""The table of other libraries: what a cell, a difference and a missing library say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import peers
from benchmarks.peer_players import LIBRARIES, Means, Ridge, least_squares, of, ratio, scores
from benchmarks.peer_worlds import JOBS, drawn, noise


def answers(**told: dict[str, list]) -> peers.Answers:
    """What libraries printed of the first world of the arms."""
    every = {f"arms-{i}": {} for i in range(len(JOBS["arms"][1]))}
    return {
        (library, "arms"): {"version": "1", "worlds": {**every, "arms-0": settings}}
        for library, settings in told.items()
    }


FIRST = {"heavytail": {"a": [[10.0, 20.0, 30.0], 4.0], "b": [[1.0, 2.0, 3.0], 9.0]}}


TRUTHS = dict.fromkeys(JOBS["log"][1], 2.0)


def first_row(given: peers.Answers) -> peers.Row:
    made, failed = peers.rows(given, TRUTHS)
    assert failed == []
    return next(row for row in made if row.job == "arms")


def test_a_cell_has_the_first_setting_and_the_best_of_all() -> None:
    row = first_row(answers(**FIRST, river={"x": [[3.0, 4.0, 5.0], 8.0]}))
    assert peers.cell(row, "heavytail") == "20 (2.000)"
    assert peers.cell(row, "river") == "4.000"
    assert peers.cell(row, "obp") == "-"


def test_times_are_ratios_of_the_first_settings() -> None:
    made, _ = peers.rows(answers(**FIRST, river={"x": [[3.0, 4.0, 5.0], 8.0]}), TRUTHS)
    line = next(x for x in peers.table(made).splitlines() if x.startswith("| time, arms"))
    cells = line.split(" | ")
    assert (cells[2], cells[2 + list(LIBRARIES).index("river")]) == ("1", "2")


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ([9.0, 19.0, 29.1], "x | -0.967 | 0.033 | the peer"),
        ([11.0, 21.0, 30.9], "x | 0.967 | 0.033 | heavytail"),
        ([1.0, 20.0, 38.0], "x | -0.333 | 4.910 | not sure"),
    ],
)
def test_a_difference_is_sure_only_beyond_its_error(theirs: list[float], said: str) -> None:
    row = first_row(answers(**FIRST))
    assert peers.difference(row, {"x": np.array(theirs), "y": np.array([50.0] * 3)}) == said


def test_a_setting_that_failed_is_named_and_leaves_no_number() -> None:
    made, failed = peers.rows(answers(**FIRST, river={"x": "ValueError: no"}), TRUTHS)
    assert failed == ["river, x, normal: ValueError: no"]
    assert all(peers.cell(row, "river") == "-" for row in made)


def test_without_their_environment_the_peers_are_said_to_be_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    assert "make .bench/.ready" in peers.run("river", "arms", tmp_path)["missing"]


def test_a_library_that_this_interpreter_lacks_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(peers, "HERE", ("obp",))
    assert "obp" not in sys.modules
    assert peers.run("obp", "log", tmp_path) == {"missing": "not installed"}


def test_a_log_is_scored_by_its_error_its_interval_and_its_bound() -> None:
    told = [[[1.5, 1.0, 3.0, 1.0], [2.0, 2.1, 3.0, 2.1]], 5.0]
    worlds = {f"log-{i}": {"s": told} for i in range(len(JOBS["log"][1]))}
    made, _ = peers.rows({("heavytail", "log"): {"version": "1", "worlds": worlds}}, TRUTHS)
    means = {row.job: row.scores["heavytail"]["s"].mean() for row in made if row.scores}
    wanted = {"log": 0.125, "interval": 50.0, "width": 72.5, "lower": 50.0, "bound": 77.5}
    assert means == pytest.approx(wanted)


@pytest.mark.parametrize("law", ["normal", "t(1.8)", "Pareto(1.6)"])
def test_noise_has_the_mean_0(law: str) -> None:
    values = noise(law, np.random.default_rng(0), (1_000_000,))
    assert abs(values.mean()) < 0.05


@pytest.mark.parametrize("job", ["contexts", "arms"])
def test_what_arms_pay_has_the_means_that_regret_is_counted_in(job: str) -> None:
    for world in JOBS[job][1]:
        play = drawn(job, world)
        off = play["rewards"] - play["means"]
        size = 10.0 * np.median(np.abs(off)) if "1." in world else 3.0 * off.std()
        assert abs(off.mean()) < 5.0 * size / np.sqrt(off.size), world


def test_a_world_is_the_same_in_every_run_and_each_is_another() -> None:
    once, again = drawn("arms", "normal"), drawn("arms", "normal")
    assert np.array_equal(once["rewards"], again["rewards"])
    assert not np.array_equal(once["means"], drawn("arms", "t(1.8)")["means"])


def test_the_ten_lines_do_what_they_say() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 3))
    y = X @ [1.0, -2.0, 0.5] + 7.0
    assert np.allclose(least_squares(X, y, X[:5]), y[:5], atol=1e-2)
    log = {
        "action": np.array([0, 1, 1]),
        "rewards": np.array([1.0, 2.0, 4.0]),
        "odds": np.full((3, 2), 0.5),
        "target": np.tile([0.25, 0.75], (3, 1)),
    }
    assert ratio(log)[0] == pytest.approx((0.5 * 1.0 + 1.5 * 6.0) / 3.5)
    two = np.array([[0.0, 1.0]])
    world = {
        "X": np.ones((2, 300, 1)),
        "rewards": np.tile(two, (2, 300, 1)),
        "means": np.tile(two, (2, 300, 1)),
    }
    for player in (of(Ridge, 0.1), of(Means, 0.0, 1.0)):
        lost, micros = scores("contexts", player, world)
        assert max(lost) < 60.0
        assert micros > 0.0
