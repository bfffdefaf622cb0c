"""The experiment on linear MDPs: its section, its protocol, its resuming."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from heavytail.experiments.experiment import Request, carry_out
from heavytail.experiments.tune import APART, Tuned
from heavytail.reproduction.catalogue import SEED
from heavytail.reproduction.mdp import FINALISTS, GRID, MDP, grid_of, retune, tuning_units, unit
from heavytail.reproduction.mdp_trials import AGENTS, NOISES, applies, environment_of
from heavytail.reproduction.protocol import TUNED


@pytest.mark.compiled
def test_the_experiment_gives_tables_figures_and_paired_ratios(tmp_path):
    request = Request(tmp_path, trials=2, rounds=20, tuned=Tuned.read(TUNED))
    (section,) = carry_out([MDP], request)
    assert set(section.figures) == {f"mdp-{noise}" for noise in NOISES}
    regret, ratios, cost = section.tables
    assert {row[0] for row in regret.rows} == {row[0] for row in cost.rows} == set(AGENTS)
    assert all(len(row) == len(table.columns) for table in section.tables for row in table.rows)
    assert {row[-1] for row in ratios.rows} <= {"yes", "no"}
    before = len(list(tmp_path.rglob("*.npz")))
    (again,) = carry_out([MDP], request)  # from the store: the same to the bit
    assert again.tables == section.tables
    assert len(list(tmp_path.rglob("*.npz"))) == before


def test_a_trial_has_one_world_for_all_agents_and_tuning_has_others():
    one, two = (environment_of("t1.7", SEED, 3) for _ in range(2))
    np.testing.assert_array_equal(one.means, two.means)
    apart = environment_of("t1.7", SEED + APART, 3)
    assert not np.array_equal(one.means, apart.means)


def test_no_trial_that_multipliers_are_chosen_on_is_reported():
    request = Request(Path("unused"), trials=20, seed=SEED)
    reported = [u.arguments["seed"] for units in MDP.plan(request).values() for u in units]
    tuning = tuning_units(request, ("t1.7", "LSVI-UCB"), grid_of("LSVI-UCB")[0], range(16))
    assert not {u.arguments["seed"] for u in tuning} & set(reported)


def test_a_unit_s_key_tells_everything_apart():
    units = [
        unit(name, noise, episodes, SEED, trial, options)
        for name in AGENTS
        for noise in NOISES
        for episodes in (10, 20)
        for trial in (0, 1)
        for options in ({}, {"value_bonus": 0.1})
    ]
    assert len({one.key for one in units}) == len(units)


def test_one_grid_serves_all_agents():
    for name in AGENTS:
        for point in grid_of(name):
            assert all(value in GRID[key] for key, value in point.items())
    assert len(grid_of("LSVI-UCB")) == len(GRID["reward_bonus"]) * len(GRID["value_bonus"])
    assert grid_of("Uniform") == [{}]


def test_vara_is_left_out_where_the_variance_is_infinite():
    assert applies("VARA", "gaussian")
    assert applies("VARA", "t2.1")
    assert not applies("VARA", "t1.7")
    assert not applies("VARA", "pareto")


@pytest.mark.compiled
def test_tuning_keeps_the_whole_grid_and_what_was_there(tmp_path):
    first = Request(tmp_path, trials=1, rounds=3, seed=SEED, progress=False)
    before = retune(first, ["LSVI-UCB"])
    path = tmp_path / "tuned.json"
    before.write(path)
    assert Tuned.read(path) == before
    second = Request(tmp_path, trials=1, rounds=3, seed=SEED, progress=False, tuned=before)
    tuned = retune(second, ["Heavy-LSVI-UCB"])
    for noise in NOISES:
        here = tuned.settings[f"mdp-{noise}"]
        assert here["LSVI-UCB"] == before.settings[f"mdp-{noise}"]["LSVI-UCB"]
        found = here["Heavy-LSVI-UCB"]
        assert len(found["grid"]) == len(grid_of("Heavy-LSVI-UCB"))
        assert len(found["finals"]) == FINALISTS
        best = min(found["finals"], key=lambda row: row["regret"])
        assert found["options"] == {k: v for k, v in best.items() if k != "regret"}
        assert tuned.provenance[f"mdp-{noise}"]["trials"] == 1
