"""The experiment on linear MDPs: its section, its protocol, its resuming."""

from __future__ import annotations

import json

import numpy as np
import pytest

from heavytail.experiments.catalogue import SEED
from heavytail.experiments.registry import EXPERIMENTS, Settings, extra_units, load_experiment
from heavytail.mdp.experiments import AGENTS, NOISES, applies, unit
from heavytail.mdp.tuning import APART, FINALISTS, GRID, finals, grid_of, retune


class Counter:
    steps = 0

    def advance(self, steps: int = 1) -> None:
        self.steps += steps


@pytest.mark.compiled
def test_the_experiment_gives_tables_figures_and_paired_ratios(tmp_path):
    settings = Settings(out=tmp_path, trials=2, rounds=20)
    counter = Counter()
    section = load_experiment("mdp")(settings, counter)
    assert counter.steps == sum(one.weight for one in extra_units("mdp", settings))
    assert set(section.figures) == {f"mdp-{noise}" for noise in NOISES}
    regret, ratios, cost = section.tables
    assert {row[0] for row in regret.rows} == {row[0] for row in cost.rows} == set(AGENTS)
    assert all(len(row) == len(table.columns) for table in section.tables for row in table.rows)
    assert {row[-1] for row in ratios.rows} <= {"yes", "no"}
    again = Counter()
    second = load_experiment("mdp")(settings, again)  # from the store: the same to the bit
    assert second.tables == section.tables
    assert EXPERIMENTS["mdp"].title.startswith("Linear MDPs")


def test_a_trial_has_one_world_for_all_agents_and_tuning_has_others():
    one, two = (unit(name, "t1.7", 10, SEED, 3, {}).world for name in list(AGENTS)[:2])
    np.testing.assert_array_equal(one.means, two.means)
    apart = unit("LSVI-UCB", "t1.7", 10, SEED + APART, 3, {}).world
    assert not np.array_equal(one.means, apart.means)


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
    path = tmp_path / "tuned.json"
    retune(path, names=["LSVI-UCB"], episodes=3, trials=1, show=False)
    before = json.loads(path.read_text())
    retune(path, names=["Heavy-LSVI-UCB"], episodes=3, trials=1, show=False)
    record = json.loads(path.read_text())
    for noise in NOISES:
        assert record["noises"][noise]["LSVI-UCB"] == before["noises"][noise]["LSVI-UCB"]
        found = record["noises"][noise]["Heavy-LSVI-UCB"]
        assert len(found["grid"]) == len(grid_of("Heavy-LSVI-UCB"))
        best = min(found["grid"], key=lambda row: row["regret"])
        assert found["options"] == {k: v for k, v in best.items() if k != "regret"}
    assert record["provenance"]["trials"] == 1
    finals(path, names=["LSVI-UCB"], episodes=3, trials=1, show=False)
    record = json.loads(path.read_text())
    for noise in NOISES:
        found = record["noises"][noise]["LSVI-UCB"]
        best = min(found["finals"], key=lambda row: row["regret"])
        assert len(found["finals"]) == FINALISTS
        assert found["options"] == {k: v for k, v in best.items() if k != "regret"}
        assert record["noises"][noise]["Heavy-LSVI-UCB"].get("finals") is None
