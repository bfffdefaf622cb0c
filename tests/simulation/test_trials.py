"""Simulations are fair, reproducible, and the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.simulation import distribution

TAIL = ht.MomentBound(1.5, 2.0)
WORLDS = {
    "pool": ht.LinearBandit(2, 20, ht.noise.StudentT(2.1)),
    "part": ht.LinearBandit(3, 20, ht.noise.StudentT(1.7), offered=8),
    "fresh": ht.LinearBandit(2, 10, ht.noise.Pareto(1.6), fresh=True),
    "scaled": ht.LinearBandit(5, 10, ht.noise.Scaled(ht.noise.StudentT(1.7), 1.5)),
}


def policies(dim):
    return {
        "hvt": ht.HvtUCB(dim, tail=TAIL),
        "plain": ht.HvtUCB(dim, tail=TAIL, intercept=False),
        "theory": ht.HvtUCB(dim, tail=TAIL, radius="theory", horizon=400, radius_scale=1e-3),
        "oful": ht.OFUL(dim, noise_scale=1.0),
        "uniform": ht.Uniform(dim),
    }


@pytest.mark.parametrize("name", WORLDS)
def test_the_compiled_engine_agrees_with_the_reference(name):
    world = WORLDS[name]
    arguments = {"rounds": 400, "trials": 2, "seed": 3}
    fast = ht.simulate(policies(world.dim), world, **arguments)
    slow = ht.simulate(policies(world.dim), world, engine="reference", jobs=1, **arguments)
    for key in fast:
        assert np.allclose(fast[key].regret, slow[key].regret, atol=1e-9), key


def test_adding_or_renaming_a_policy_does_not_move_the_others():
    world = WORLDS["part"]
    alone = ht.simulate({"a": ht.HvtUCB(3, tail=TAIL)}, world, rounds=300, trials=3, seed=1)
    more = ht.simulate(
        {"u": ht.Uniform(3), "z": ht.HvtUCB(3, tail=TAIL), "o": ht.OFUL(3, noise_scale=1.0)},
        world,
        rounds=300,
        trials=3,
        seed=1,
    )
    assert np.array_equal(alone["a"].regret, more["z"].regret)


def test_results_do_not_depend_on_jobs_nor_on_the_number_of_trials():
    world = WORLDS["pool"]
    one = ht.simulate(policies(2), world, rounds=200, trials=4, seed=5, jobs=1)
    two = ht.simulate(policies(2), world, rounds=200, trials=4, seed=5, jobs=2)
    few = ht.simulate(policies(2), world, rounds=200, trials=2, seed=5)
    for key in one:
        assert np.array_equal(one[key].regret, two[key].regret)
        assert np.array_equal(one[key].regret[:2], few[key].regret)


def test_a_shorter_run_is_the_beginning_of_a_longer_one():
    world = WORLDS["scaled"]
    short = ht.simulate([ht.HvtUCB(5, tail=TAIL)], world, rounds=100, trials=2, seed=0)
    long = ht.simulate([ht.HvtUCB(5, tail=TAIL)], world, rounds=5000, trials=2, seed=0)
    assert np.array_equal(short["Hvt-UCB"].regret, long["Hvt-UCB"].regret[:, :100])


def test_the_policies_given_are_not_changed():
    policy = ht.HvtUCB(2, tail=TAIL)
    ht.simulate([policy], WORLDS["pool"], rounds=50, trials=2, seed=0)
    assert policy.rounds == 0


def test_regret_is_noiseless_and_against_the_best_arm_offered():
    results = ht.simulate(policies(3), WORLDS["part"], rounds=300, trials=2, seed=0)
    for run in results.values():
        assert (np.diff(run.regret, axis=1) >= 0).all()
        assert (run.regret[:, 0] <= 2.0).all()


class LastArm(ht.Policy):
    """A user's own policy in plain Python."""

    name = "Last arm"
    info = ht.Uniform.info
    theta = property(lambda self: np.zeros(self.dim))
    radius = property(lambda self: 0.0)
    rounds = property(lambda self: self._rounds)

    def __init__(self, dim):
        self._start(dim, None, None)
        self._rounds = 0

    def select(self, arms):
        return len(arms) - 1

    def update(self, x, reward, *, scale=None):
        self._rounds += 1

    def state_arrays(self):
        return {"rounds": np.array([float(self._rounds)])}

    def restore(self, arrays):
        self._rounds = int(arrays["rounds"][0])


def test_a_policy_without_kernels_runs_in_the_compiled_engine_too():
    world = WORLDS["pool"]
    results = ht.simulate([LastArm(2), ht.Uniform(2)], world, rounds=50, trials=2, seed=0, jobs=1)
    regret = results["Last arm"].regret
    assert np.allclose(np.diff(regret, axis=1), regret[:, :1])


def test_results_survive_parquet(tmp_path):
    results = ht.simulate(policies(2), WORLDS["pool"], rounds=60, trials=3, seed=0, record=6)
    assert results.rounds.tolist() == [10, 20, 30, 40, 50, 60]
    path = tmp_path / "r.parquet"
    results.save(path)
    again = ht.Results.load(path)
    assert list(again) == list(results)
    assert again.settings == results.settings
    for key in results:
        assert np.array_equal(again[key].regret, results[key].regret)
        assert np.array_equal(again[key].seconds, results[key].seconds)
    assert "hvt" in again.table()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="not results saved by heavytail"):
        ht.Results.load(path)


def test_what_cannot_be_simulated_is_refused_by_name():
    world = WORLDS["pool"]
    with pytest.raises(ValueError, match="simulate: rounds"):
        ht.simulate([ht.Uniform(2)], world, rounds=0, trials=1, seed=0)
    with pytest.raises(ValueError, match="dim=3, the world has dim=2"):
        ht.simulate([ht.Uniform(3)], world, rounds=5, trials=1, seed=0)
    with pytest.raises(ValueError, match="two policies are called 'Uniform'"):
        ht.simulate([ht.Uniform(2), ht.Uniform(2)], world, rounds=5, trials=1, seed=0)
    with pytest.raises(ValueError, match="simulate: engine"):
        ht.simulate([ht.Uniform(2)], world, rounds=5, trials=1, seed=0, engine="warp")
    with pytest.raises(KeyError, match="no policy 'x'"):
        ht.simulate([ht.Uniform(2)], world, rounds=5, trials=1, seed=0)["x"]


@pytest.mark.compiled
def test_lemma_1_covers_the_truth_in_every_round_of_every_trial():
    for noise, order in ((ht.noise.StudentT(2.1), 1.99), (ht.noise.Pareto(1.5), 1.49)):
        world = ht.LinearBandit(2, 50, noise)
        policy = ht.HvtUCB(2, tail=noise.tail(order), radius="theory", horizon=500)
        counted = distribution(policy, world, rounds=500, trials=1000, seed=0, cover=True)
        assert counted.share == 1.0
        assert counted.at_least(0.99) > 0.995


@pytest.mark.compiled
def test_coverage_counts_failures_too():
    world = ht.LinearBandit(2, 20, ht.noise.Gaussian())
    tiny = ht.HvtUCB(2, tail=ht.MomentBound(2.0, 1.0), exploration=0.01)
    counted = distribution(tiny, world, rounds=300, trials=20, seed=0, cover=True)
    assert counted.share < 0.2
    assert counted.worst.min() > 0.5


@pytest.mark.compiled
def test_the_empirical_radius_at_exploration_1_covers_most_trials_even_under_skew():
    for noise in (ht.noise.Gaussian(), ht.noise.StudentT(2.1), ht.noise.Pareto(1.5)):
        world = ht.LinearBandit(2, 50, noise)
        policy = ht.HvtUCB(2, tail=noise.tail(1.4), exploration=1.0)
        assert distribution(policy, world, rounds=1000, trials=60, seed=1, cover=True).share > 0.7
