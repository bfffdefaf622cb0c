"""Statistics over several settings, against naive twins, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats
from tests.naive import across as naive

from heavytail.experiments import across
from heavytail.experiments.unit import Trials, Unit

RNG = np.random.default_rng(3)
SHAPES = [(1, 7), (3, 6), (4, 8)]


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(across, "DRAWS", 150)
    across.resamples.cache_clear()
    yield
    across.resamples.cache_clear()


def scores(shape, shift=0.0):
    """Heavy-tailed, with ties."""
    return np.round(RNG.pareto(1.5, shape) + shift, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_interquartile_mean_and_its_interval_are_those_of_the_naive_twin(shape):
    values = scores(shape)
    got = across.interquartile_mean(values)
    assert got.value == pytest.approx(naive.interquartile_mean(values.tolist()), rel=1e-12)
    assert got.value == pytest.approx(scipy_stats.trim_mean(values, 0.25, axis=None), rel=1e-12)
    counts = across.resamples(*shape).tolist()
    ends = naive.bootstrap(naive.interquartile_mean, (values.tolist(), counts))
    assert (got.low, got.high) == pytest.approx(ends, rel=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_profile_and_its_band_are_those_of_the_naive_twin(shape):
    values, points = scores(shape), np.array([0.0, 0.3, 0.7, 1.0, 50.0])
    share, low, high = across.profile(values, points)
    counts = across.resamples(*shape).tolist()
    for k, point in enumerate(points.tolist()):
        assert share[k] == pytest.approx(naive.profile(values.tolist(), point), rel=1e-12)
        ends = naive.bootstrap(lambda s, p=point: naive.profile(s, p), (values.tolist(), counts))
        assert (low[k], high[k]) == pytest.approx(ends, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_probability_of_improvement_is_that_of_the_naive_twin(shape):
    mine, other = scores(shape), scores((shape[0], shape[1] + 2), 0.2)
    got = across.improvement(mine, other)
    assert got.value == pytest.approx(naive.improvement(mine.tolist(), other.tolist()), rel=1e-12)
    counts = across.resamples(*mine.shape, 0).tolist(), across.resamples(*other.shape, 1).tolist()
    pairs = (mine.tolist(), counts[0]), (other.tolist(), counts[1])
    ends = naive.bootstrap(naive.improvement, *pairs)
    assert (got.low, got.high) == pytest.approx(ends, rel=1e-10)
    u = np.mean(
        [scipy_stats.mannwhitneyu(b, a).statistic / (len(a) * len(b))
         for a, b in zip(mine, other, strict=True)]
    )  # fmt: skip
    assert got.value == pytest.approx(u, rel=1e-12)


def test_a_resample_draws_every_setting_apart_and_as_many_trials_as_it_has():
    counts = across.resamples(3, 9)
    assert counts.shape == (150, 3, 9)
    assert (counts.sum(axis=2) == 9).all()
    assert not np.array_equal(counts[:, 0], counts[:, 1])
    assert counts[:, 0].std() > 0.5
    assert not np.array_equal(counts, across.resamples(3, 9, 1))


def test_one_bad_trial_moves_no_interquartile_mean_and_the_mean():
    values = np.full((2, 20), 1.0)
    values[0, 0] = 1e9
    got = across.interquartile_mean(values)
    assert (got.value, got.low, got.high) == (1.0, 1.0, 1.0)


def test_who_always_wins_has_probability_1_and_ties_count_by_half():
    low, high = np.ones((2, 5)), np.full((2, 4), 2.0)
    assert across.improvement(low, high).value == 1.0
    assert across.improvement(high, low).value == 0.0
    assert across.improvement(low, low).value == 0.5


def runs(**final):
    unit = Unit("none", {"marks": (1,), "rounds": 1})
    return {
        (name, "tuned"): Trials([unit], {"regret": np.array(values, float)[:, None]})
        for name, values in final.items()
    }


FOUND = {
    "a": runs(A=[1, 1, 2], B=[3, 3, 4], C=[9, 9, 9]),
    "b": runs(A=[100, 100], B=[300, 300, 300]),
}
SHOWN = {name: list(found) for name, found in FOUND.items()}


def test_regret_is_relative_to_the_mean_of_the_policies_in_each_setting():
    keys = [("A", "tuned"), ("B", "tuned")]
    relative = across.relative(FOUND, keys)
    unit = (4 / 3 + 10 / 3) / 2
    np.testing.assert_allclose(relative["A", "tuned"], [[1 / unit, 1 / unit], [0.5, 0.5]])
    assert relative["B", "tuned"].shape == (2, 3)


def test_a_section_compares_the_policies_of_all_settings_with_the_best():
    section = across.section(FOUND, SHOWN)
    (table,) = section.tables
    assert [row[0] for row in table.rows] == ["A, tuned", "B, tuned"]
    assert table.rows[0][-1] == "-"
    assert table.rows[1][-1].startswith("0.00 [")
    assert table.columns[-1] == "probability of less regret than A, tuned"
    assert list(section.figures) == ["across"]
    assert across.section({"a": FOUND["a"]}, SHOWN) is None
    assert across.section({}, {}) is None
