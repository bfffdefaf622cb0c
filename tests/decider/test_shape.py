"""Curves and products are seen where they are, and not where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from heavytail.decider import shape
from heavytail.decider.contexts import Contexts
from heavytail.decider.offers import Offers
from heavytail.tables.frames import table

N = 600


def world(seed: int, noise: str, effect: Any = None) -> shape.Shape:
    """The shape that is found of three numbers and one category, with linear rewards and noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    kind, places = rng.integers(3, size=N), rng.integers(3, size=N)
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "kind": [f"k{i}" for i in kind]}
    rows = table(columns, "here")
    contexts = Contexts(list(columns))
    raw, texts = contexts.code_table(rows)
    contexts.settle_table(rows, texts)
    offers = Offers("sku", ["x", "y", "z"], {})
    mean = x[:, 0] * (places - 1.0) + 0.5 * kind + places
    if effect is not None:
        mean = mean + effect(x, places)
    if noise == "zeros":
        rewards = np.where(rng.random(N) < 0.1, 20.0 + 5.0 * mean, 0.0)
    else:
        draws = {"t": rng.standard_t(2.1, N), "pareto": rng.pareto(1.8, N) - 1.25}
        rewards = mean + draws[noise]
    return shape.learn_shape(contexts, offers, raw, places, rewards)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["t", "pareto", "zeros"])
def test_nothing_is_found_where_all_is_straight(noise):
    alarms = [bool(found.curves or found.pairs) for found in (world(s, noise) for s in range(30))]
    assert sum(alarms) <= 3


@pytest.mark.slow
def test_a_bump_and_a_product_are_found():
    bumps = [world(s, "t", lambda x, _: 3.0 * (np.abs(x[:, 1]) < 0.7)) for s in range(8)]
    assert sum("b" in found.curves for found in bumps) >= 7
    apart = [world(s, "t", lambda x, o: 2.0 * x[:, 1] * x[:, 2] * (o - 1)) for s in range(8)]
    assert sum(("b", "c") in found.pairs for found in apart) >= 7
    assert all({"b", "c"} <= {*found.curves} for found in apart if ("b", "c") in found.pairs)


def test_columns_that_show_nothing_are_doubted_and_those_that_do_are_not():
    doubts = [world(s, "t", lambda x, o: 2.0 * x[:, 1] * (o - 1)).doubted for s in range(6)]
    assert not any("b" in found for found in doubts)
    assert sum("c" in found for found in doubts) >= 4


def naive_hats(values: list[float]) -> list[list[float]]:
    """Hats of ranks, by loops."""
    known = [v for v in values if v == v]
    rows = []
    for v in values:
        if v != v:
            rows.append([0.0] * shape.KNOTS)
            continue
        below, same = sum(w < v for w in known), sum(w == v for w in known)
        rank = (2 * below + same) / len(known) - 1.0
        at = [-1.0 + (2 * k + 1) / shape.KNOTS for k in range(shape.KNOTS)]
        rank = min(max(rank, at[0]), at[-1])
        rows.append([max(0.0, 1.0 - abs(rank - knot) * shape.KNOTS / 2.0) for knot in at])
    return rows


def test_hats_are_those_of_a_naive_twin_and_add_up_to_1():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=60), [np.nan, np.nan, 5.0, 5.0, 5.0, -1e100, 1e100]])
    part = shape._of_number(rng.permutation(values))
    values = rng.permutation(values)
    part = shape._of_number(values)
    np.testing.assert_allclose(part.curve, naive_hats(values.tolist()), atol=1e-12)
    known = np.isfinite(values)
    np.testing.assert_allclose(part.curve[known].sum(axis=1), 1.0)
    np.testing.assert_array_equal(part.line[~known], 0.0)
    ranks = stats.rankdata(values[known])
    np.testing.assert_allclose(part.line[known, 0], (2 * ranks - 1) / known.sum() - 1)


def naive_log_p(design: Any, block: Any, y: Any, variances: Any) -> float:
    """Rao's score statistic with all of the matrices, for residuals of least squares."""
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    rest = block - design @ np.linalg.lstsq(design, block, rcond=None)[0]
    score = rest.T @ np.diag(1 / variances) @ left
    plain = rest.T @ np.diag(1 / variances) @ rest
    sandwich = rest.T @ np.diag(left**2 / variances**2) @ rest
    statistics = [score @ np.linalg.solve(C, score) for C in (plain, sandwich)]
    return max(float(stats.chi2.logsf(S, block.shape[1])) for S in statistics)


def test_the_score_test_is_that_of_a_naive_twin():
    rng, n = np.random.default_rng(1), 200
    design = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    block = rng.normal(size=(n, 4)) + design[:, 1:2]
    variances = rng.uniform(0.5, 3.0, n)
    y = design @ np.ones(4) + 0.3 * block[:, 0] + np.sqrt(variances) * rng.normal(size=n)
    basis = shape._basis(design)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-10)
    rest = shape._beyond(basis, {("b",): block})["b",]
    left = y - basis @ (basis.T @ y)
    both, weights = np.column_stack([left, left]), 1 / np.column_stack([variances, variances])
    expected = naive_log_p(design, block, y, variances)
    assert shape._log_p(rest, both, weights) == pytest.approx(expected + np.log(2), rel=1e-6)


def test_robust_residuals_hold_outliers_back():
    rng, n = np.random.default_rng(2), 300
    basis = shape._basis(np.column_stack([np.ones(n), rng.normal(size=n)]))
    y = rng.normal(size=n)
    y[:5] = 1e6
    plain, robust = shape._residuals(basis, y).T
    np.testing.assert_allclose(plain, y - basis @ (basis.T @ y), atol=1e-6)
    assert np.abs(robust).max() < 4.0
    np.testing.assert_allclose(basis.T @ plain, 0.0, atol=1e-6)
    np.testing.assert_allclose(basis.T @ robust, 0.0, atol=0.1)


def test_variances_are_those_of_each_offer_shown_often():
    residuals = np.column_stack([np.r_[np.ones(20), 3 * np.ones(20), 9.0]] * 2)
    places = np.r_[np.zeros(20), np.ones(20), 2].astype(int)
    variances = shape._variances(residuals, places)[:, 0]
    overall = (20 + 180 + 81) / 41
    np.testing.assert_allclose(variances[[0, 20, 40]], [1.0, 9.0, overall])
    tiny = shape._variances(np.column_stack([np.r_[np.zeros(20), np.ones(20), 9.0]] * 2), places)
    np.testing.assert_allclose(tiny[0, 0], 1e-3 * (20 + 81) / 41)


def test_rewards_are_cut_at_their_outermost_values():
    rewards = np.arange(1000.0)
    np.testing.assert_array_equal(shape._cut(rewards), np.clip(rewards, 5, 994))
    np.testing.assert_array_equal(shape._cut(np.arange(100.0)), np.clip(np.arange(100.0), 3, 96))
    assert np.abs(shape._cut(rewards * 1e305)).max() == 1.0


def test_pairs_are_looked_at_as_far_as_there_is_room():
    parts = {f"c{i}": shape._Part(np.zeros((2, 20)), np.zeros((2, 20))) for i in range(5)}
    assert shape._products(parts, list(parts)) == 0  # 400 each are too many
    parts = {f"c{i}": shape._Part(np.zeros((2, 10)), np.zeros((2, 10))) for i in range(5)}
    assert shape._products(parts, list(parts)) == 10 * 100
