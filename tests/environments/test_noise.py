"""Noise by its formulas: moments by another integral, draws by another expression."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, special, stats

import heavytail as ht
from heavytail.environments.noise import describe
from heavytail.noise import (
    Contaminated,
    Fisk,
    Gaussian,
    LogNormal,
    Lomax,
    Noise,
    Pareto,
    Scaled,
    Stable,
    StudentT,
    Uniform,
)


def integral(density, power, kink, low, high):
    """The integral of power(v) density(v) from low to high, in pieces around the kink."""
    cuts = [low, *(kink + d for d in (-5.0, -1.0, 0.0, 1.0, 5.0, 20.0)), high]
    cuts = [c for c in cuts if low <= c <= high]
    pairs = zip(cuts[:-1], cuts[1:], strict=True)
    pieces = [integrate.quad(lambda v: power(v) * density(v), a, b, limit=400)[0] for a, b in pairs]
    return sum(pieces)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.7, 3.0])
def test_the_normal_moments(order):
    expected = 2.0 * integrate.quad(lambda z: z**order * stats.norm.pdf(z, scale=0.7), 0.0, 12.0)[0]
    assert Gaussian(0.7).moment(order) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.7, 3.0])
def test_the_moments_of_uniform_and_contaminated_noise(order):
    expected = integrate.quad(lambda z: z**order / 0.7, 0.0, 0.7)[0]
    assert Uniform(0.7).moment(order) == pytest.approx(expected, rel=1e-9)
    expected = 0.9 * Gaussian().moment(order) + 0.1 * Gaussian(9.0).moment(order)
    assert Contaminated(0.1, 9.0).moment(order) == pytest.approx(expected, rel=1e-12)
    assert (Uniform().bound, Contaminated().share, Contaminated().factor) == (1.0, 0.05, 50.0)
    draws = Contaminated(0.1, 9.0).sample(np.random.default_rng(0), 100_000)
    assert np.mean(np.abs(draws) > 4.5) == pytest.approx(0.1 * 0.617, rel=0.05)


@pytest.mark.parametrize(("df", "order"), [(2.1, 1.0), (2.1, 2.05), (1.7, 0.5), (5.0, 3.0)])
def test_students_moments(df, order):
    expected = df ** (order / 2.0) * special.beta((order + 1.0) / 2.0, (df - order) / 2.0)
    expected /= special.beta(0.5, df / 2.0)
    assert StudentT(df).moment(order) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("b", "order"), [(1.5, 1.0), (1.5, 1.2), (3.0, 2.0), (2.2, 0.6)])
def test_paretos_moments_on_the_log_scale(b, order):
    """x = e^(v/b) with v exponential."""
    mean = b / (b - 1.0)
    far = 60.0 / (1.0 - order / b)
    expected = integral(
        lambda v: math.exp(-v),
        lambda v: abs(math.exp(v / b) - mean) ** order,
        b * math.log(mean),
        0.0,
        far,
    )
    assert Pareto(b).moment(order) == pytest.approx(expected, rel=1e-8)
    assert Lomax(b).moment(order) == Pareto(b).moment(order)
    assert Pareto(b).mean == pytest.approx(mean, rel=1e-14)


def test_the_variance_of_a_pareto_is_the_closed_form():
    assert Pareto(3.0).moment(2.0) == pytest.approx(3.0 / 4.0, rel=1e-9)  # b / ((b-1)² (b-2))


@pytest.mark.parametrize(("c", "order"), [(1.5, 1.0), (1.5, 1.2), (3.0, 2.0), (2.2, 0.6)])
def test_fisks_moments_on_the_log_scale(c, order):
    """x = e^(v/c) with v logistic."""
    mean = special.beta(1.0 + 1.0 / c, 1.0 - 1.0 / c)
    far = 60.0 / (1.0 - order / c)
    expected = integral(
        lambda v: 0.25 / math.cosh(v / 2.0) ** 2,
        lambda v: abs(math.exp(v / c) - mean) ** order,
        c * math.log(mean),
        -60.0,
        far,
    )
    assert Fisk(c).mean == pytest.approx(mean, rel=1e-12)
    assert Fisk(c).moment(order) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("sigma", [0.3, 1.5, 2.5])
def test_the_lognormal_moments_of_order_1_and_2(sigma):
    mean = math.exp(sigma**2 / 2.0)
    first = 2.0 * mean * (2.0 * stats.norm.cdf(sigma / 2.0) - 1.0)
    assert LogNormal(sigma).moment(1.0) == pytest.approx(first, rel=1e-9)
    second = mean**2 * math.expm1(sigma**2)
    assert LogNormal(sigma).moment(2.0) == pytest.approx(second, rel=1e-9)


@pytest.mark.parametrize(("alpha", "beta"), [(1.7, 0.0), (1.7, 0.8), (1.3, -0.5)])
@pytest.mark.parametrize("order", [0.7, 1.0, 1.2])
def test_stable_moments_from_the_characteristic_function(alpha, beta, order):
    """E|X|^p is (2/pi) Gamma(1+p) sin(pi p/2) times the integral of (1 - Re phi(t)) / t^(1+p)."""
    skew = beta * math.tan(math.pi * alpha / 2.0)

    def inner(y):  # t = e^y
        t = math.exp(y)
        return (
            -math.expm1(-(t**alpha))
            if skew == 0.0
            else 1.0 - math.exp(-(t**alpha)) * math.cos(skew * t**alpha)
        )

    pieces = [
        integrate.quad(lambda y: inner(y) * math.exp(-order * y), a, a + 2.0, limit=200)[0]
        for a in np.arange(-14.0, 40.0, 2.0)
    ]
    start = math.exp(-14.0) ** (alpha - order) / (alpha - order)  # 1 - Re phi ~ t^alpha below
    expected = 2.0 / math.pi * math.gamma(1.0 + order) * math.sin(math.pi * order / 2.0)
    expected *= sum(pieces) + start
    assert Stable(alpha, beta).moment(order) == pytest.approx(expected, rel=1e-5)


def test_stable_noise_at_2_is_normal_with_every_moment():
    assert Stable(2.0).index == math.inf
    assert Stable(2.0).scale(3.0) == pytest.approx(Gaussian(math.sqrt(2.0)).scale(3.0), rel=1e-12)
    assert Stable(1.9).index == 1.9


@pytest.mark.parametrize(("alpha", "beta"), [(1.5, 0.0), (1.5, 0.7), (1.2, -1.0), (2.0, 0.0)])
def test_stable_draws_have_the_characteristic_function(alpha, beta):
    draws = Stable(alpha, beta).sample(np.random.default_rng(3), 200_000)
    assert draws.shape == (200_000,)
    for t in (0.2, 0.7, 1.5):
        phase = beta * math.tan(math.pi * alpha / 2.0) * t**alpha
        expected = math.exp(-(t**alpha)) * complex(math.cos(phase), math.sin(phase))
        assert np.mean(np.exp(1j * t * draws)) == pytest.approx(expected, abs=0.01)


def rng():
    return np.random.default_rng(8)


def mixed(draws):
    """A negative second number multiplies the first by 9."""
    return [z * (9.0 if which < 0.0 else 1.0) for z, which in draws]


def symmetric_stable(alpha, draws):
    """Chambers, Mallows and Stuck's without skewness: pairs of an angle and an exponential."""
    angle, weight = math.pi * (draws[:, 0] - 0.5), -np.log(1.0 - draws[:, 1])
    bent = np.cos((1.0 - alpha) * angle) / weight
    return np.sin(alpha * angle) * np.cos(angle) ** (-1.0 / alpha) * bent ** (1.0 / alpha - 1.0)


@pytest.mark.parametrize(
    ("noise", "draws"),
    [
        (Gaussian(0.7), 0.7 * rng().standard_normal(9)),
        (Uniform(0.7), 1.4 * rng().random(9) - 0.7),
        (Contaminated(0.5, 9.0), mixed(rng().standard_normal((9, 2)))),
        (StudentT(1.7), rng().standard_t(1.7, 9)),
        (Pareto(1.5), rng().pareto(1.5, 9) + 1.0 - 3.0),
        (Lomax(1.5), rng().pareto(1.5, 9) - 2.0),
        (Fisk(1.5), (1.0 / rng().random(9) - 1.0) ** (1 / 1.5) - Fisk(1.5).mean),
        (Stable(1.5), symmetric_stable(1.5, rng().random((9, 2)))),
        (LogNormal(1.5), np.exp(1.5 * rng().standard_normal(9)) - math.exp(1.125)),
    ],
    ids=str,
)
def test_draws_are_those_of_the_law_less_its_mean(noise, draws):
    np.testing.assert_allclose(noise.sample(rng(), 9), draws, rtol=1e-9)


@pytest.mark.parametrize(
    "noise",
    [
        *(Gaussian(), Uniform(), Contaminated(), StudentT(1.7), Pareto(1.5)),
        *(Lomax(1.5), Fisk(1.5), Stable(1.5, 0.3)),
    ],
    ids=str,
)
def test_a_shorter_stretch_of_draws_is_the_beginning_of_a_longer_one(noise):
    assert np.array_equal(noise.sample(rng(), 9)[:4], noise.sample(rng(), 4))


def test_draws_at_the_edge_of_the_unit_interval_are_finite():
    zeros = SimpleNamespace(random=lambda size: np.zeros(size))
    assert np.isfinite(Fisk(1.5).sample(zeros, 3)).all()
    edge = SimpleNamespace(random=lambda size: np.tile([0.25, 0.0], (size[0], 1)))
    assert np.isfinite(Stable(1.5).sample(edge, 3)).all()


@pytest.mark.parametrize(
    ("noise", "order"),
    [
        (Pareto(2.0), 2.0),
        (StudentT(2.0), 2.0),
        (Fisk(2.0), 2.0),
        (Lomax(1.5), 1.5),
        (Stable(1.7), 1.7),
        (Scaled(StudentT(1.7), 1.0), 1.7),
        (Gaussian(), 0.0),
        (Gaussian(), -1.0),
    ],
    ids=str,
)
def test_an_order_without_a_finite_moment_is_refused(noise, order):
    with pytest.raises(ValueError, match="order"):
        noise.scale(order)


def test_a_scale_is_the_root_of_a_moment_and_a_raw_one_has_the_mean_on_top():
    noise = StudentT(1.7)
    assert noise.scale(0.5) == pytest.approx(noise.moment(0.5) ** 2, rel=1e-12)
    assert noise.raw(1.5) == noise.scale(1.5) + 1.0
    assert noise.raw(1.5, -3.0) == noise.scale(1.5) + 3.0
    assert noise.tail(1.5) == ht.MomentBound(1.5, noise.scale(1.5))
    assert noise.factors(rng(), 5) is None
    assert Gaussian().sd == 1.0
    assert Stable(1.5).beta == 0.0


def test_every_noise_knows_its_index_and_its_symmetry():
    found = {
        Gaussian(): (math.inf, True),
        Uniform(): (math.inf, True),
        Contaminated(): (math.inf, True),
        StudentT(1.7): (1.7, True),
        Pareto(1.5): (1.5, False),
        Lomax(1.5): (1.5, False),
        Fisk(1.5): (1.5, False),
        Stable(1.5): (1.5, True),
        Stable(1.5, 0.1): (1.5, False),
        LogNormal(1.0): (math.inf, False),
        Scaled(Pareto(1.5), 1.0): (1.5, False),
        Scaled(Gaussian(), 1.0): (math.inf, True),
    }
    for noise, expected in found.items():
        assert (noise.index, noise.symmetric) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(0.0),
        lambda: Uniform(0.0),
        lambda: Contaminated(0.0),
        lambda: Contaminated(1.0),
        lambda: Contaminated(0.5, 0.0),
        lambda: StudentT(1.0),
        lambda: Pareto(1.0),
        lambda: Lomax(1.0),
        lambda: Fisk(1.0),
        lambda: Stable(1.0),
        lambda: Stable(2.01),
        lambda: Stable(1.5, -1.01),
        lambda: Stable(1.5, 1.01),
        lambda: LogNormal(0.0),
        lambda: Scaled(Gaussian(), -0.01),
        lambda: Scaled(Gaussian(), 100.5),
    ],
)
def test_noise_outside_its_range_is_refused(make):
    with pytest.raises(ValueError, match="must be a number"):
        make()


def test_noise_at_the_edges_of_its_range_exists():
    made = [Gaussian(0.5), StudentT(1.01), Pareto(1.01), Lomax(1.01), Fisk(1.01), LogNormal(0.1)]
    made += [Stable(1.01), Stable(2.0), Stable(1.5, -1.0), Stable(1.5, 1.0)]
    made += [Uniform(0.1), Contaminated(0.01, 0.5), Contaminated(0.99)]
    made += [Scaled(Gaussian(), 0.0), Scaled(Gaussian(), 100.0)]
    assert all(isinstance(noise, Noise) for noise in made)


@pytest.mark.parametrize("inner", [3.0, Scaled(Gaussian(), 1.0)], ids=str)
def test_what_is_scaled_is_a_noise_of_constant_scale(inner):
    with pytest.raises(TypeError, match="constant scale"):
        Scaled(inner, 1.0)


def test_scaled_noise_speaks_of_factor_1_and_its_worst_of_the_largest():
    noise = Scaled(StudentT(1.7), 1.5)
    assert noise.moment(1.5) == StudentT(1.7).moment(1.5)
    assert np.array_equal(noise.sample(rng(), 9), StudentT(1.7).sample(rng(), 9))
    assert noise.worst(1.5).scale == pytest.approx(10**1.5 * noise.scale(1.5), rel=1e-12)
    assert noise.worst(1.5).order == 1.5
    np.testing.assert_allclose(noise.factors(rng(), 9), 10.0 ** (1.5 * rng().random(9)), rtol=1e-9)


def test_noise_is_described_as_plain_data():
    assert describe(Stable(1.5, 0.3)) == {"noise": "Stable", "alpha": 1.5, "beta": 0.3}


@pytest.mark.parametrize(
    ("noise", "broken"), [(Pareto(2.0), 1), (Pareto(2.1), 0), (Stable(2.0), 0)]
)
def test_a_moment_of_order_2_is_missed_where_the_index_is_2_and_not_in_normal_noise(noise, broken):
    environment = ht.LinearBandit(2, 5, noise)
    policy = ht.HvtUCB(2, tail=ht.MomentBound(2.0, 1.0))
    assert len(environment.broken_needs(policy)) == broken


SIZES = [
    (ht.noise.Gaussian, "sd", 1e150),
    (ht.noise.Uniform, "bound", 1e150),
    (ht.noise.Contaminated, "factor", 1e150),
    (ht.noise.LogNormal, "sigma", 26.2),
]


@pytest.mark.parametrize(("law", "key", "most"), SIZES)
def test_a_law_whose_draws_or_mean_leave_the_range_is_refused_with_the_largest_that_works(
    law, key, most
):
    for value in (1.01 * most, 1.7e308):
        with pytest.raises(
            ValueError, match=rf"{law.__name__}.{key} must be .*{re.escape(format(most, 'g'))}"
        ):
            law(**{key: value})
    largest = law(**{key: most})
    assert np.isfinite(largest.sample(np.random.default_rng(0), 10**5)).all()
    worst = ht.noise.Scaled(largest, 100.0)
    rng = np.random.default_rng(0)
    assert np.isfinite(worst.factors(rng, 10**4) * worst.sample(rng, 10**4)).all()


def test_a_moment_that_leaves_the_range_is_refused_in_words():
    for law, order in ((ht.noise.LogNormal(26.0), 2.0), (ht.noise.Gaussian(1e150), 3.0)):
        with pytest.raises(ValueError, match="leaves the floating-point range"):
            law.scale(order)
