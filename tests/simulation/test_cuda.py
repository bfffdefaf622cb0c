"""The GPU engine, on numba's simulator where there is no GPU: the same trials as the CPU's."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import heavytail as ht
from heavytail.simulation.counter import describe
from heavytail.simulation.distribution import distribution

pytestmark = pytest.mark.compiled

SIMULATED = """
import numpy as np
import heavytail as ht
from heavytail.policies import ALL, PackedPolicy
from heavytail.simulation import cuda
from heavytail.simulation.distribution import distribution
assert cuda.available()
tail = ht.MomentBound(order=2.0, scale=1.0)
run = dict(rounds=25, seed=4, record=3)
world = ht.LinearBandit(2, arms=6, noise=ht.noise.StudentT(1.7))
played = []
for kind in ALL:
    policy = ht.make_policy(kind.name, dim=2, horizon=20000, tail=tail, arms=6)
    if isinstance(policy, PackedPolicy) and len(policy.packed) == 2:
        cpu = distribution(policy, world, trials=3, engine="compiled", **run)
        gpu = distribution(policy, world, trials=3, engine="cuda", **run)
        np.testing.assert_allclose(gpu.regret, cpu.regret, rtol=1e-9)
        played.append(policy.name)
one_pass = ["Hvt-UCB", "OFUL", "CRTM", "CRMM", "MENU", "CRT", "MoM", "BMM", "LinTS"]
assert played == [*one_pass, "EpsilonGreedy", "RobustUCB", "Uniform"], played
world = ht.LinearBandit(3, arms=6, noise=ht.noise.Scaled(ht.noise.Pareto(1.8), 1.0))
policy = ht.HvtUCB(3, tail=tail)
cpu = distribution(policy, world, trials=3, engine="compiled", cover=True, **run)
gpu = distribution(policy, world, trials=3, engine="cuda", cover=True, **run)
np.testing.assert_allclose(gpu.regret, cpu.regret, rtol=1e-9)
np.testing.assert_allclose(gpu.worst, cpu.worst, rtol=1e-9)
policy = ht.Uniform(3)
cpu = distribution(policy, world, trials=3, engine="compiled", **run)
cuda.SHARED_BYTES = 0  # arms in the device's memory
cuda._kernel.cache_clear()
cuda.BATCH = 2  # and a trial is the same whatever the batch
gpu = distribution(policy, world, trials=3, engine="cuda", **run)
np.testing.assert_allclose(gpu.regret, cpu.regret, rtol=1e-9)
results = ht.simulate([policy], world, rounds=25, trials=3, seed=4, engine="cuda", record=3)
np.testing.assert_allclose(results["Uniform"].regret, gpu.regret.T)
print("equal")
"""


def test_the_simulated_gpu_plays_the_trials_of_the_cpu() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIMULATED],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "equal", done.stderr


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a GPU")
def test_without_a_gpu_the_engine_says_what_is_missing() -> None:
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian())
    with pytest.raises(RuntimeError, match=r'engine="cuda" needs'):
        ht.simulate([ht.Uniform(2)], world, rounds=5, trials=2, seed=0, engine="cuda")


def test_a_trial_is_the_same_whatever_the_batch() -> None:
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.StudentT(2.1))
    policy = ht.HvtUCB(2, tail=world.noise.tail(1.9))
    many = distribution(policy, world, rounds=200, trials=70, seed=1, record=4)
    few = distribution(policy, world, rounds=200, trials=3, seed=1, record=4, jobs=1)
    np.testing.assert_array_equal(many.regret[:, :3], few.regret)


def test_both_ways_to_draw_a_world_have_the_same_regret() -> None:
    world = ht.LinearBandit(2, arms=10, noise=ht.noise.StudentT(2.1))
    policy = ht.HvtUCB(2, tail=world.noise.tail(1.9))
    counted = distribution(policy, world, rounds=400, trials=600, seed=1).regret[-1]
    dealt = ht.simulate([policy], world, rounds=400, trials=600, seed=1, record=1)["Hvt-UCB"].final
    error = np.hypot(counted.std(), dealt.std()) / np.sqrt(600)
    assert abs(counted.mean() - dealt.mean()) < 5 * error


@pytest.mark.parametrize(
    "noise",
    [
        ht.noise.Gaussian(2.0),
        ht.noise.StudentT(2.1),
        ht.noise.Pareto(2.5),
        ht.noise.Lomax(2.5),
        ht.noise.Fisk(2.5),
        ht.noise.LogNormal(0.7),
        ht.noise.Stable(1.8, 0.5),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_noise_drawn_by_counters_has_the_quantiles_of_the_noise(noise: ht.noise.Noise) -> None:
    setting = describe(ht.Uniform(2), ht.LinearBandit(2, arms=2, noise=noise))
    grid = (np.arange(200) + 0.5) / 200
    values = np.sort([setting.draw(u, v, setting.a, setting.b) for u in grid for v in grid[::5]])
    sample = np.sort(noise.sample(np.random.default_rng(0), 200_000))
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(
        np.quantile(values, levels), np.quantile(sample, levels), atol=0.05, rtol=0.05
    )


def test_what_counters_cannot_draw_is_refused_in_words() -> None:
    fresh = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian(), fresh=True)
    with pytest.raises(ValueError, match="cannot be drawn by counters"):
        distribution(ht.Uniform(2), fresh, rounds=5, trials=2, seed=0)
