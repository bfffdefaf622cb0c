"""The distribution of regret over very many trials, and coverage, as recorded and shown."""

from __future__ import annotations

import json

import numpy as np
import pytest

import heavytail as ht
from heavytail.cli import main
from heavytail.experiments.tune import Tuned
from heavytail.kernels.random import uniform_pair
from heavytail.reproduction import spread
from heavytail.simulation import distribution
from heavytail.simulation.counter_world import NOISE, draw_arms, draw_theta, stream, student_t

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module")
def found():
    return spread.measure(("student",), trials=40, rounds=200, seed=5, progress=False)


def test_every_one_pass_policy_of_the_paper_is_measured(found):
    runs = found["runs"]
    assert {run["policy"] for run in runs} == {"Hvt-UCB", "OFUL", "CRTM", "CRMM", "Twin-UCB"}
    for run in runs:
        assert np.all(np.diff(run["quantiles"]) >= 0.0)
        assert run["quantiles"][0] <= run["mean"] <= run["quantiles"][-1]
        assert ("covered" in run) == (run["policy"] != "CRMM")  # its epochs move no set by rank one


def test_only_the_theory_covers_everything(found):
    covered = {(r["policy"], r["variant"]): r["covered"] for r in found["runs"] if "covered" in r}
    assert covered["Hvt-UCB", "theory"] == 40
    assert covered["Hvt-UCB", "untuned"] < 40


def test_a_record_is_read_back_and_shown_with_tables_and_a_figure(found, tmp_path):
    path = tmp_path / "spread.json"
    assert spread.read_record(path) is None
    spread.write_record(found, path)
    section = spread.section(json.loads(path.read_text()))
    assert [table.title for table in section.tables] == ["Quantiles of regret", "Coverage"]
    assert list(section.figures) == ["spread-student"]


def test_what_is_recorded_in_the_repository_is_of_this_code_in_every_world():
    recorded = spread.read_record()
    assert recorded is not None
    assert {run["trials"] for run in recorded["runs"]} <= {2_000, 1_000_000}
    assert {run["world"] for run in recorded["runs"]} == set(spread.SETTINGS)
    tuned = Tuned.read(spread.TUNED)
    assert not any(spread.outdated(run, tuned) for run in recorded["runs"])


def test_the_command_prints_and_draws(tmp_path, capsys):
    asked = ["gaussian", "--trials", "4", "--rounds", "50", "--out", str(tmp_path)]
    assert main(["coverage", *asked]) == 0
    assert "4 of 4" in capsys.readouterr().out
    assert (tmp_path / "figures" / "spread-gaussian.png").exists()
    assert main(["coverage", "arms-30", "--trials", "4", "--rounds", "50"]) == 2
    assert "cannot be drawn by counters" in capsys.readouterr().err


def test_a_policy_without_a_confidence_set_is_refused():
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian())
    with pytest.raises(ValueError, match="no confidence set"):
        distribution(ht.Uniform(2), world, rounds=5, trials=2, seed=0, cover=True)
    with pytest.raises(ValueError, match="was not watched"):
        distribution(ht.Uniform(2), world, rounds=5, trials=2, seed=0).share  # noqa: B018


def test_the_watched_set_is_that_of_the_policy_played_by_hand():
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.StudentT(2.1))
    policy = ht.HvtUCB(2, tail=world.noise.tail(1.9))  # with its intercept, which is free
    counted = distribution(policy, world, rounds=60, trials=2, seed=3, cover=True)
    for trial in range(2):
        twin, worst, regret = policy.clone(), 0.0, 0.0
        theta, arms = np.empty(2), np.empty((5, 2))
        draw_theta(3, trial, theta, 1.0)
        draw_arms(3, trial, arms, 1.0, False)
        for t in range(60):
            arm = twin.select(arms)
            u, v = uniform_pair(stream(3, NOISE), trial, t)
            twin.update(arms[arm], float(arms[arm] @ theta + student_t(u, v, 2.1, 0.0)))
            apart = twin.theta - theta
            squared = apart @ np.linalg.inv(twin.inverse_gram[:2, :2]) @ apart
            worst = max(worst, np.sqrt(squared) / twin.radius)
            regret += (arms @ theta).max() - arms[arm] @ theta
        np.testing.assert_allclose(
            [counted.worst[trial], counted.regret[-1, trial]], [worst, regret]
        )
