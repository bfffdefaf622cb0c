"""The GPU engine, on numba's simulator where there is no GPU: the same trials as the CPU's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies import ALL
from heavytail.simulation import cuda
from heavytail.simulation.counter import describe
from heavytail.simulation.distribution import distribution

pytestmark = pytest.mark.compiled

# Every policy whose state does not grow, and modes that have kernels of their own.
CASES: dict[str, dict[str, Any]] = (
    {
        kind.name: {"name": kind.name}
        for kind in ALL
        if kind.algorithm.history is None and kind.info.rewards == "any"
    }
    | {
        "Hvt-UCB, theory": {"name": "Hvt-UCB", "radius": "theory", "radius_scale": 1e-4},
        "Twin-UCB, theory": {"name": "Twin-UCB", "radius": "theory", "radius_scale": 1e-4},
        "Hvt-UCB, auto": {"name": "Hvt-UCB", "tail": "auto"},
        "Hvt-UCB, forgetting": {"name": "Hvt-UCB", "forget": 0.9},
        "Twin-UCB, forgetting": {"name": "Twin-UCB", "forget": 0.9},
        "Twin-UCB in a shop": {"name": "Twin-UCB", "skew": "dear"},
        "SupBMM": {"name": "BMM", "sup": True, "copies": 3},
        "RobustUCB, medians": {"name": "RobustUCB", "estimator": "median of means"},
        "arms in global memory, in batches": {"name": "Uniform", "shared": False},
        "GLB-OMD, clicks": {"name": "GLB-OMD", "link": "logistic", "linked": {}},
        "GLB-OMD, probit": {"name": "GLB-OMD", "link": "probit", "linked": {"base": -0.5}},
        "GLB-OMD, counts": {
            "name": "GLB-OMD",
            "link": "log",
            "linked": {"base": 2.0, "theta_bound": 3.0, "outliers": 0.1},
            "cover": True,
        },
        "coverage under changing scales": {"name": "Hvt-UCB", "cover": True},
    }
    | {
        f"Hvt-UCB, {skew}": {"name": "Hvt-UCB", "skew": skew, "cover": True}
        for skew in ht.environments.SKEWS
    }
)

PLAYED = """
import json, sys
import heavytail as ht
from heavytail.simulation import cuda
from heavytail.simulation.distribution import distribution
assert cuda.available(), cuda.explain()
found = {}
for case, options in json.loads(sys.argv[1]).items():
    if not options.pop("shared", True):
        cuda.SHARED_BYTES, cuda.BATCH = 0, 2
        cuda._kernel.cache_clear()
    cover = options.pop("cover", False)
    noise = ht.noise.StudentT(1.7)
    if cover:
        noise = ht.noise.Scaled(ht.noise.Pareto(1.8), 1.0)
    world = ht.LinearBandit(2, arms=6, noise=noise)
    if "skew" in options:
        world = ht.SkewedBandit(2, arms=6, skew=options.pop("skew"))
    if "linked" in options:
        world = ht.LinkBandit(2, 6, options["link"], **options.pop("linked"))
    problem = dict(dim=2, horizon=20000, tail=ht.MomentBound(order=2.0, scale=1.0), arms=6)
    policy = ht.make_policy(**{**problem, **options})
    run = dict(rounds=25, trials=3, seed=4, record=3, cover=cover)
    found[case] = []
    for engine in ("compiled", "cuda"):
        played = distribution(policy, world, engine=engine, **run)
        worst = played.worst.tolist() if cover else []
        found[case].append([*played.regret.ravel().tolist(), *worst])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def played() -> dict[str, list[list[float]]]:
    """Regret of every case on the CPU and on the GPU, or numba's simulator where there is none.
    That is plain Python, and so is the CPU's part then: to compile 37 engines takes minutes.
    """
    simulator = {"NUMBA_ENABLE_CUDASIM": "1", "NUMBA_DISABLE_JIT": "1"}
    if cuda.available():
        simulator = {}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PLAYED, json.dumps(CASES)],
        env={**os.environ, **simulator},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[float]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_gpu_plays_the_trials_of_the_cpu(
    case: str, played: dict[str, list[list[float]]]
) -> None:
    cpu, gpu = played[case]
    assert cpu
    np.testing.assert_allclose(gpu, cpu, rtol=1e-9)


@pytest.mark.skipif(cuda.available(), reason="there is a GPU")
def test_without_a_gpu_the_engine_says_what_is_missing() -> None:
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian())
    with pytest.raises(RuntimeError, match=r'engine="cuda" needs'):
        ht.simulate([ht.Uniform(2)], world, rounds=5, trials=2, seed=0, engine="cuda")


def test_a_gpu_without_numba_cuda_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    there = types.SimpleNamespace(is_available=lambda: True)
    monkeypatch.setattr(cuda, "_numba_cuda", lambda: there)
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'heavytail[cuda]'" in cuda.explain()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: there)
    assert cuda.available()


def test_a_trial_is_the_same_whatever_the_batch() -> None:
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.StudentT(2.1))
    policy = ht.HvtUCB(2, tail=world.noise.tail(1.9))
    many = distribution(policy, world, rounds=200, trials=70, seed=1, record=4)
    few = distribution(policy, world, rounds=200, trials=3, seed=1, record=4, jobs=1)
    np.testing.assert_array_equal(many.regret[:, :3], few.regret)


@pytest.mark.parametrize("skew", ["", *ht.environments.SKEWS])
def test_both_ways_to_draw_a_world_have_the_same_regret(skew: str) -> None:
    world: Any = ht.LinearBandit(2, arms=10, noise=ht.noise.StudentT(2.1))
    if skew:
        world = ht.SkewedBandit(2, arms=10, skew=skew)
    policy = ht.HvtUCB(2, tail=world.tail(1.4) if skew else world.noise.tail(1.9))
    counted = distribution(policy, world, rounds=400, trials=600, seed=1).regret[-1]
    dealt = ht.simulate([policy], world, rounds=400, trials=600, seed=1, record=1)["Hvt-UCB"].final
    error = np.hypot(counted.std(), dealt.std()) / np.sqrt(600)
    assert abs(counted.mean() - dealt.mean()) < 5 * error


@pytest.mark.parametrize(
    "noise",
    [
        ht.noise.Gaussian(2.0),
        ht.noise.Uniform(2.0),
        ht.noise.Contaminated(0.1, 3.0),
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
