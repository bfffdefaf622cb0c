"""What the untuned defaults promise against OFUL, on seeds they were not chosen on."""

from __future__ import annotations

import pytest

import heavytail as ht

T = 18_000
WORLDS = {
    # noise, and the most that regret may be of OFUL's at its best radius: Twin-UCB's, its typical
    # target's, Hvt-UCB's
    "normal": (ht.noise.Gaussian(), 2.0, 2.1, 2.1),
    "t(2.1)": (ht.noise.StudentT(2.1), 1.5, 1.1, 1.8),
    "t(1.7) x 10^U(0,1.5)": (ht.noise.Scaled(ht.noise.StudentT(1.7), 1.5), 0.25, 0.15, 0.3),
    "t(1.7) x 10^U(0,2.5)": (ht.noise.Scaled(ht.noise.StudentT(1.7), 2.5), 0.2, 0.15, 0.25),
    "Pareto(1.5)": (ht.noise.Pareto(1.5), 1.4, 0.5, 2.0),
    "log-normal(1.5)": (ht.noise.LogNormal(1.5), 1.25, 0.6, 1.9),
}
SKEWED = {"jackpot": 0.8, "catastrophe": 0.4}  # likewise, of Twin-UCB


def oful(dim: int, scale: float) -> dict[str, ht.Policy]:
    return {
        f"OFUL {r}": ht.OFUL(dim, noise_scale=scale, radius_scale=r, horizon=T)
        for r in (1, 0.3, 0.1)
    }


@pytest.mark.compiled
@pytest.mark.parametrize("name", WORLDS)
def test_the_untuned_policies_keep_up_with_oful_at_its_best_radius(name):
    noise, *most = WORLDS[name]
    world = ht.LinearBandit(2, 50, noise)
    ours = {
        "Twin-UCB": ht.TwinUCB(2),
        "typical": ht.TwinUCB(2, target="typical"),
        "Hvt-UCB": ht.HvtUCB(2),
    }
    policies = {**oful(2, 1.0), **ours}
    results = ht.simulate(policies, world, rounds=T, trials=40, seed=78, record=1)
    best = min(run.final.mean() for key, run in results.items() if key not in ours)
    for key, mark in zip(ours, most, strict=True):
        assert results[key].final.mean() <= mark * best, key


@pytest.mark.compiled
@pytest.mark.parametrize("kind", SKEWED)
def test_where_the_shape_depends_on_the_arm_twin_ucb_finds_the_mean(kind):
    """OFUL is told a bound on the noise of every arm; the typical target is led astray."""
    world = ht.SkewedBandit(3, 10, kind)
    policies = {
        **oful(3, world.tail(1.4).scale),
        "Twin-UCB": ht.TwinUCB(3),
        "typical": ht.TwinUCB(3, target="typical"),
    }
    results = ht.simulate(policies, world, rounds=T, trials=20, seed=78, record=2)
    best = min(run.final.mean() for key, run in results.items() if key.startswith("OFUL"))
    found = results["Twin-UCB"].regret.mean(axis=0)
    assert found[-1] <= SKEWED[kind] * best
    assert found[-1] - found[0] <= 0.45 * found[-1]
    assert found[-1] <= 0.5 * results["typical"].final.mean()


@pytest.mark.compiled
@pytest.mark.parametrize("noise_scale", [1e-9, 1e-6, 1e-3, 0.01])
def test_with_hardly_any_noise_there_is_hardly_any_regret(noise_scale):
    noise = ht.noise.Gaussian(noise_scale)
    world = ht.LinearBandit(2, 50, noise)
    tails = {"stated": noise.tail(2.0), "too large": ht.MomentBound(2.0, 1.0), "auto": "auto"}
    policies = {name: ht.HvtUCB(2, tail=tail) for name, tail in tails.items()}
    results = ht.simulate(policies, world, rounds=T, trials=5, seed=6, record=2)
    for name, run in results.items():
        assert run.final.max() < 50.0, name
