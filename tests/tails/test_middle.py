"""What robust estimates gain, in a number and in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.tails import TailMonitor, diagnose
from heavytail.tails.middle import Middle

N = 20_000
LITTLE = "averages and least squares are fine, and robust methods gain little here."


def of_normals(shares, sizes):
    return lambda rng, n: rng.standard_normal(n) * rng.choice(sizes, n, p=shares)


MIXTURES = {  # with the ratio of the errors of average and Huber's estimate, by simulation
    "of three sizes": (of_normals([0.85, 0.13, 0.02], [1.0, 8.0, 60.0]), 49.0),
    "a tenth of 20": (of_normals([0.9, 0.1], [1.0, 20.0]), 27.0),
    "a thirtieth of 30": (of_normals([0.97, 0.03], [1.0, 30.0]), 23.0),
    "a twentieth of 25": (of_normals([0.8, 0.15, 0.05], [1.0, 5.0, 25.0]), 18.0),
}
LIGHT = {
    "normal": (lambda rng, n: rng.standard_normal(n), 0.95),
    "uniform": (lambda rng, n: rng.random(n), 0.98),
    "logistic": (lambda rng, n: rng.logistic(size=n), 1.08),
    "Poisson": (lambda rng, n: rng.poisson(3.0, n), 0.95),
    "binomial": (lambda rng, n: rng.binomial(20, 0.15, n), 0.92),
}


@pytest.mark.parametrize("law", MIXTURES)
def test_of_a_mixture_with_a_wide_part_it_is_said_how_much_robust_estimates_gain(law):
    draw, gain = MIXTURES[law]
    said = []
    for seed in range(10):
        report = diagnose(draw(np.random.default_rng(seed), N))
        assert report.gain == pytest.approx(gain, rel=0.3)
        assert "gain little" not in report.advice
        words = f", but robust estimates have about {1.0 / report.gain:.0%} of their variance."
        said.append(words in report.advice)
        assert ("Only the largest" in report.advice) == (not report.agree)
    assert sum(said) >= 8  # of some samples an index below 4 is said


@pytest.mark.parametrize("law", LIGHT)
def test_of_light_values_it_is_said_that_robust_methods_gain_little(law):
    draw, gain = LIGHT[law]
    said = []
    for seed in range(10):
        report = diagnose(draw(np.random.default_rng(seed), N))
        assert report.gain == pytest.approx(gain, abs=0.1)
        said.append(LITTLE in report.advice)
    assert sum(said) >= 9


def test_of_skewed_values_it_is_said_that_a_robust_middle_is_not_the_mean():
    for seed in range(5):
        values = np.random.default_rng(seed).lognormal(0.0, 0.5, N)
        for one in (values, -values):
            report = diagnose(one)
            assert report.gain == pytest.approx(1.44, abs=0.15)
            assert "are fine, but robust slopes have about" in report.advice
            assert "A robust middle is not the mean of values as skewed as these." in report.advice


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_where_half_are_equal_no_gain_is_named(sign):
    rng = np.random.default_rng(3)
    values = sign * np.where(rng.random(N) < 0.95, 0.0, rng.exponential(size=N))
    report = diagnose(values)
    assert report.gain == math.inf
    assert "squares are fine. Half of the values or more are equal, and a robust" in report.advice
    assert diagnose((rng.random(N) < 0.3) * 1.0).gain == math.inf
    assert diagnose(np.full(60, 2.5)).gain == 1.0


def test_the_gain_of_a_slope_is_that_of_skewed_noise_too():
    rng, plain, robust = np.random.default_rng(5), [], []
    for _ in range(300):
        x, y = rng.standard_normal(300), rng.exponential(size=300)
        design = np.column_stack([np.ones(300), x])
        theta = np.linalg.lstsq(design, y, rcond=None)[0]
        plain.append(theta[1])
        for _ in range(20):
            left = y - design @ theta
            reach = 1.345 * 1.4826 * np.median(np.abs(left - np.median(left)))
            weighted = design * np.minimum(1.0, reach / np.maximum(np.abs(left), 1e-9))[:, None]
            theta = np.linalg.solve(weighted.T @ design, weighted.T @ y)
        robust.append(theta[1])
    gain = diagnose(rng.exponential(size=N)).gain
    assert gain == pytest.approx(1.85, abs=0.1)
    assert np.var(plain) / np.var(robust) == pytest.approx(gain, rel=0.25)


def test_units_and_shifts_do_not_change_the_gain():
    values = MIXTURES["a tenth of 20"][0](np.random.default_rng(0), 2_000)
    gain = diagnose(values).gain
    for moved in (1e-150 * values, 1e150 * values, 1e306 * values, -values, values + 1e4):
        assert diagnose(moved).gain == pytest.approx(gain, rel=1e-6)


def test_no_values_are_too_far_apart_for_a_gain():
    values = 1e-100 * np.random.default_rng(0).standard_normal(100)
    samples = [[1.7e308], [-1.7e308] * 30, [1.7e308, -1.7e308] * 20, [5e-324], [0.0] * 99]
    samples = [np.append(values, far) for far in samples]
    for ends in ([-1.7e308, 1.7e308], [0.0, 5e-324], [0.0, 0.0, 0.0, 1e-320, 1e308], [0.1, 1e308]):
        samples.append(np.repeat(ends, 30))
    for sample in samples:
        middle = Middle(sample)
        middle.take(sample)
        assert middle.gain > 0.0


def test_a_stream_knows_the_gain_of_all_its_values():
    draw, gain = MIXTURES["of three sizes"]
    values = draw(np.random.default_rng(1), 100_000)
    stream = TailMonitor(keep=1_000)
    for part in np.array_split(values, 70):
        stream.update(part)
    assert stream.report().gain == pytest.approx(diagnose(values).gain, rel=0.05)
    assert stream.report().gain == pytest.approx(gain, rel=0.1)
    few = TailMonitor()
    few.update(values[:60])
    assert few.report().gain == diagnose(values[:60]).gain
