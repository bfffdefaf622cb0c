"""Lack of fit: seldom a false alarm, whatever the noise, and a bump is seen."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.encoding.fit import hats, lack_of_fit

NOISES = ("t", "growing", "pareto", "zeros")


def world(noise: str, seed: int, bump: float = 0.0, n: int = 1500):
    """Rewards whose mean is linear in the features, but for a bump in the hour."""
    rng = np.random.default_rng(seed)
    told = {"basket": rng.lognormal(3.0, 1.0, n), "hour": rng.uniform(0.0, 24.0, n)}
    told["age"] = rng.standard_t(3.0, n)
    segment = rng.choice(list("xyz"), n)
    encoder = ht.Encoder(
        numbers=list(told), categories=["segment"], crosses=[("basket", "segment")]
    )
    X = encoder.fit_transform({**told, "segment": segment})
    shape = bump * np.exp(-(((told["hour"] - 12.0) / 3.0) ** 2))
    mean = X @ rng.normal(size=X.shape[1])
    if noise == "zeros":  # 95 % of them; what sells is worth a Pareto number
        chance = 0.05 * (1.0 + 0.5 * mean / np.abs(mean).max() + 2.0 * shape)
        rewards = (rng.random(n) < chance) * (1.0 + rng.pareto(2.1, n))
    elif noise == "pareto":
        rewards = mean + shape + rng.pareto(2.1, n)
    else:
        size = 0.2 + 3.0 * np.abs(X[:, 1]) if noise == "growing" else 1.0
        rewards = mean + shape + size * rng.standard_t(2.1, n)
    return X, rewards, told


@pytest.mark.parametrize("noise", NOISES)
def test_straight_worlds_alarm_about_as_often_as_the_level_says(noise):
    alarms = [bool(lack_of_fit(*world(noise, seed))) for seed in range(200)]
    assert sum(alarms) <= 8  # 2 expected at the level of 0.01; more than 8 once in 5000


@pytest.mark.parametrize("noise", NOISES)
def test_at_a_higher_level_alarms_are_as_many_more(noise):
    alarms = [bool(lack_of_fit(*world(noise, seed), level=0.2)) for seed in range(150)]
    assert 10 <= sum(alarms) <= 50


@pytest.mark.parametrize("noise", NOISES)
def test_a_bump_is_seen_in_its_column_and_a_curve_takes_it_away(noise):
    seen = [lack_of_fit(*world(noise, seed, bump=1.5, n=3000)) for seed in range(20)]
    assert sum([misfit.column for misfit in made] == ["hour"] for made in seen) >= 17
    curved = 0
    for seed in range(20):
        X, rewards, told = world(noise, seed, bump=1.5, n=3000)
        curve = ht.Encoder(numbers={"hour": ht.Spline(5)}).fit_transform(told)
        curved += bool(lack_of_fit(np.column_stack([X, curve]), rewards, told))
    assert curved <= 2


def test_a_misfit_says_what_to_try():
    (misfit,) = lack_of_fit(*world("t", 0, bump=3.0, n=3000))
    assert str(misfit) == (
        "Straight lines in 'hour' leave a pattern (p < 0.001): try numbers={'hour': ht.Spline(5)}."
    )


def test_the_unit_and_missing_numbers_and_columns_without_a_curve_do_not_matter():
    X, rewards, told = world("t", 1, bump=3.0, n=3000)
    told["hour"] = np.where(np.arange(3000) % 10 == 0, np.nan, told["hour"])
    told |= {"flag": np.arange(3000) % 2, "same": np.ones(3000)}
    made = [lack_of_fit(X, unit * rewards, told) for unit in (1.0, 1e-90, 1e90)]
    assert [[misfit.column for misfit in one] for one in made] == [["hour"]] * 3
    assert made[1][0].p == pytest.approx(made[0][0].p, rel=1e-6, abs=1e-300)
    assert lack_of_fit(X, np.zeros(3000), told) == []
    assert lack_of_fit(X, rewards, {}) == []


def test_hats_are_those_of_an_encoder():
    values = np.random.default_rng(0).lognormal(0.0, 2.0, 500)
    X = ht.Encoder(numbers={"v": ht.Spline(5)}, bound=np.sqrt(2.0)).fit_transform({"v": values})
    assert hats(values, 5) == pytest.approx(X[:, 1:], abs=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.full((200, 1), np.nan)}, "X must be finite"),
        ({"X": np.ones(200)}, r"X must have shape \(any, any\)"),
        ({"rewards": np.full(200, np.inf)}, "rewards must be finite"),
        ({"rewards": np.ones(199)}, r"rewards must have shape \(200,\)"),
        ({"columns": ["a"]}, r"columns must be a dict of arrays by name; got \['a'\]"),
        ({"columns": {"a": np.full(200, np.nan)}}, "'a' must have numbers that are finite"),
        ({"columns": {"a": np.ones(3)}}, r"'a' must have shape \(200,\)"),
        ({"level": 0.0}, "level must be a number in"),
        ({"X": np.ones((200, 99))}, r"200 rows are too few for 99 features and 1 columns\. Pass"),
    ],
)
def test_what_cannot_be_tested_is_refused(change, words):
    rng = np.random.default_rng(0)
    told = {
        "X": rng.normal(size=(200, 1)), "rewards": rng.normal(size=200),
        "columns": {"a": rng.normal(size=200)}, **change,
    }  # fmt: skip
    with pytest.raises((ValueError, TypeError), match=words):
        lack_of_fit(**told)
