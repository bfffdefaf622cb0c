"""What the untuned default promises against OFUL, on seeds it was not chosen on."""

from __future__ import annotations

import pytest

import heavytail as ht

T = 18_000
WORLDS = {
    # noise, the order stated to Hvt-UCB, the most its regret may be of OFUL at its best
    "normal": (ht.noise.Gaussian(), 2.0, 1.5),
    "t(2.1)": (ht.noise.StudentT(2.1), 1.99, 1.5),
    "t(1.7) x 10^U(0,1.5)": (ht.noise.Scaled(ht.noise.StudentT(1.7), 1.5), 1.69, 0.2),
    "t(1.7) x 10^U(0,2.5)": (ht.noise.Scaled(ht.noise.StudentT(1.7), 2.5), 1.69, 0.2),
    "Pareto(1.5)": (ht.noise.Pareto(1.5), 1.49, 1.25),
    "log-normal(1.5)": (ht.noise.LogNormal(1.5), 2.0, 1.25),
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", WORLDS)
def test_untuned_hvt_ucb_keeps_up_with_oful_at_its_best_radius(name):
    noise, order, most = WORLDS[name]
    world = ht.LinearBandit(2, 50, noise)
    policies = {
        f"OFUL {r}": ht.OFUL(2, noise_scale=1.0, radius_scale=r, horizon=T) for r in (1, 0.3, 0.1)
    }
    policies["Hvt-UCB"] = ht.HvtUCB(2, tail=noise.tail(order))
    results = ht.simulate(policies, world, rounds=T, trials=20, seed=77, record=1)
    oful = min(results[key].final.mean() for key in results if key != "Hvt-UCB")
    assert results["Hvt-UCB"].final.mean() <= most * oful


@pytest.mark.compiled
@pytest.mark.parametrize("noise_scale", [1e-9, 1e-6, 1e-3, 0.01])
def test_with_hardly_any_noise_there_is_hardly_any_regret(noise_scale):
    noise = ht.noise.Gaussian(noise_scale)
    world = ht.LinearBandit(2, 50, noise)
    tails = {"stated": noise.tail(2.0), "too large": ht.MomentBound(2.0, 1.0), "auto": "auto"}
    policies = {name: ht.HvtUCB(2, tail=tail) for name, tail in tails.items()}
    results = ht.simulate(policies, world, rounds=T, trials=5, seed=6, record=2)
    for name, run in results.items():
        assert run.final.max() < 15.0, name
