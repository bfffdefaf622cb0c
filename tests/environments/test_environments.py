"""Noise is what it says it is, and worlds deal it fairly."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.environments.base import BLOCK

NOISES = [
    ht.noise.Gaussian(0.7),
    ht.noise.Uniform(2.0),
    ht.noise.Contaminated(),
    ht.noise.StudentT(2.1),
    ht.noise.Pareto(1.5),
    ht.noise.Lomax(1.5),
    ht.noise.Fisk(1.5),
    ht.noise.Stable(1.7),
    ht.noise.Stable(1.7, 0.8),
    ht.noise.LogNormal(1.5),
]


@pytest.mark.parametrize(
    ("noise", "order", "scale"),
    [
        (ht.noise.StudentT(2.1), 1.99, 4.388),
        (ht.noise.StudentT(2.1), 1.9, 3.339),
        (ht.noise.StudentT(2.1), 1.5, 1.959),
        (ht.noise.StudentT(1.7), 1.69, 18.71),
        (ht.noise.StudentT(1.7), 1.6, 5.10),
        (ht.noise.StudentT(1.7), 1.5, 3.49),
        (ht.noise.Pareto(1.5), 1.49, 28.6037),
        (ht.noise.Pareto(1.5), 1.4, 6.36),
        (ht.noise.Pareto(1.5), 1.3, 4.06),
        (ht.noise.Lomax(1.5), 1.49, 28.6037),
        (ht.noise.Fisk(1.5), 1.49, 28.6448),
        (ht.noise.Fisk(1.5), 1.4, 6.45),
        (ht.noise.Fisk(1.5), 1.3, 4.16),
        (ht.noise.Gaussian(), 2.0, 1.0),
    ],
    ids=str,
)
def test_scales_are_the_known_ones_even_just_below_the_tail_index(noise, order, scale):
    assert noise.scale(order) == pytest.approx(scale, rel=2e-3)


def test_the_pareto_moment_agrees_with_a_quadrature_on_the_log_scale():
    """x = e^(v/b) with v exponential: the integrand decays like e^(-v(1 - p/b)), smoothly."""
    b, p = 1.5, 1.49
    mean = b / (b - 1)
    v = np.linspace(0.0, 6000.0, 6_000_001)
    values = np.abs(1 - mean * np.exp(-v / b)) ** p * np.exp(-v * (1 - p / b))
    assert ht.noise.Pareto(b).moment(p) == pytest.approx(np.trapezoid(values, v), rel=1e-6)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_noise_is_centred_and_its_low_moment_is_what_it_says(noise):
    draws = noise.sample(np.random.default_rng(0), 400_000)
    # Order 0.7 is low enough for the empirical moment to settle under every tail here.
    assert np.mean(np.abs(draws) ** 0.7) == pytest.approx(noise.moment(0.7), rel=0.02)
    clipped = np.clip(draws, -1e4, 1e4)
    assert abs(clipped.mean()) < 0.25


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_symmetry_is_declared_truthfully(noise):
    draws = noise.sample(np.random.default_rng(1), 200_000)
    assert (abs(np.median(draws)) < 0.02) == noise.symmetric


def test_lognormal_variance_is_the_closed_form():
    sigma = 1.5
    variance = (np.exp(sigma**2) - 1) * np.exp(sigma**2)
    assert ht.noise.LogNormal(sigma).scale(2.0) == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_stable_at_2_is_gaussian_of_variance_2():
    assert ht.noise.Stable(2.0).scale(2.0) == pytest.approx(np.sqrt(2.0))
    near = ht.noise.Stable(1.999999).moment(1.3)
    assert near == pytest.approx(ht.noise.Stable(2.0).moment(1.3), rel=1e-4)


def test_a_moment_that_is_infinite_is_refused_with_the_index():
    with pytest.raises(ValueError, match=r"pass an order below 1\.5"):
        ht.noise.Pareto(1.5).scale(1.5)
    with pytest.raises(ValueError, match=r"pass an order below 1\.7"):
        ht.noise.StudentT(1.7).scale(1.8)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: ht.noise.StudentT(1.0),
        lambda: ht.noise.Pareto(0.9),
        lambda: ht.noise.Stable(2.5),
        lambda: ht.noise.Stable(1.5, 2.0),
        lambda: ht.noise.LogNormal(0.0),
        lambda: ht.noise.Scaled(ht.noise.Gaussian(), -1.0),
    ],
)
def test_noise_that_does_not_exist_is_refused(bad):
    with pytest.raises(ValueError, match="must be a number"):
        bad()


def test_scaled_noise_tells_its_factor_and_multiplies_by_it():
    seed = np.random.SeedSequence(1)
    base = ht.LinearBandit(2, 5, ht.noise.StudentT(1.7))
    world = ht.LinearBandit(2, 5, ht.noise.Scaled(ht.noise.StudentT(1.7), 1.5))
    plain, scaled = (next(iter(w.blocks(seed, 500))) for w in (base, world))
    assert plain.factor is None
    assert scaled.factor.min() >= 1.0
    assert scaled.factor.max() <= 10**1.5
    assert np.allclose(scaled.noise, plain.noise * scaled.factor)
    assert world.noise.worst(1.5).scale == pytest.approx(10**1.5 * base.noise.scale(1.5))


def test_offered_arms_are_a_new_random_part_of_the_pool_each_round():
    world = ht.LinearBandit(2, 50, ht.noise.Gaussian(), offered=40)
    block = next(iter(world.blocks(np.random.SeedSequence(0), 300)))
    assert block.offered.shape == (300, 40)
    assert all(len(set(row)) == 40 for row in block.offered)
    counts = np.bincount(block.offered.ravel(), minlength=50)
    assert counts.min() > 200
    arms, means = block.round(7)
    assert np.array_equal(arms, block.arms[block.offered[7]])
    assert np.array_equal(means, block.means[block.offered[7]])


def test_arms_are_scaled_each_to_unit_or_all_by_the_longest():
    seed = np.random.SeedSequence(0)
    unit = next(iter(ht.LinearBandit(3, 20, ht.noise.Gaussian()).blocks(seed, 1))).arms
    most = next(
        iter(ht.LinearBandit(3, 20, ht.noise.Gaussian(), normalize="max").blocks(seed, 1))
    ).arms
    assert np.allclose(np.linalg.norm(unit, axis=1), 1.0)
    lengths = np.linalg.norm(most, axis=1)
    assert lengths.max() == pytest.approx(1.0)
    assert lengths.min() < 0.95
    assert np.allclose(most / lengths[:, None], unit)


def test_the_world_does_not_depend_on_the_number_of_rounds_asked():
    world = ht.LinearBandit(2, 4, ht.noise.Stable(1.5, 0.3), fresh=True)
    seed = np.random.SeedSequence(9)
    long = list(world.blocks(seed, BLOCK + 10))
    again = list(world.blocks(seed, BLOCK + 3))
    assert np.array_equal(long[1].noise[:3], again[1].noise)
    assert np.array_equal(long[1].arms[:3], again[1].arms)


@pytest.mark.parametrize(
    "options",
    [{"arms": 0}, {"dim": 0}, {"offered": 9}, {"offered": 2, "fresh": True}, {"normalize": "no"}],
    ids=str,
)
def test_a_world_that_cannot_be_is_refused(options):
    arguments = {"dim": 2, "arms": 5, "noise": ht.noise.Gaussian(), **options}
    with pytest.raises(ValueError, match="LinearBandit"):
        ht.LinearBandit(**arguments)
