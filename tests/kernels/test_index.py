"""The choice by a linear index, against NumPy; ties, bounds, and scores that are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.kernels.tools import inverse, state

from heavytail.kernels import index as kernel
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CONSTANT,
    INVERSE,
    NO_ARM,
    RADIUS,
    ROUNDS,
    THETA,
)
from heavytail.kernels.scores import AGE, AT, MEAN, SCORES, SQUARED


def indices(s, M, arms):
    """mean + radius ‖x‖ under P, for every arm."""
    X = np.hstack([arms, np.full((len(arms), M.shape[1] - arms.shape[1]), s[CONSTANT])])
    width = np.sqrt(np.einsum("ni,ij,nj->n", X, inverse(M), X))
    return arms @ M[THETA, : arms.shape[1]] + s[RADIUS] * width


def test_an_index_must_be_beaten_by_one_part_in_ten_thousand_million():
    assert kernel.beyond(2.0) - 2.0 == pytest.approx(2e-10, rel=1e-3)
    assert kernel.beyond(-2.0) + 2.0 == pytest.approx(2e-10, rel=1e-3)


def test_an_arm_may_win_where_its_width_covers_the_gap():
    assert kernel.may_win(1.0, 4.0, 9.0, 7.0)  # 1 + 3 * 2, exactly
    assert kernel.may_win(1.0, 4.0, 9.0, 6.9)
    assert not kernel.may_win(1.0, 4.0, 9.0, 7.1)
    assert kernel.may_win(5.0, 0.0, 9.0, 1.0)  # ahead by its mean alone
    assert not kernel.may_win(5.0, 0.0, 9.0, 5.5)
    assert kernel.may_win(1.0, 4.0, 9.0, -math.inf)


def test_an_index_is_its_formula_and_a_negative_square_is_0():
    assert kernel.index_of(1.5, 4.0, 3.0) == 7.5
    assert kernel.index_of(1.5, 0.25, 3.0) == 3.0
    assert kernel.index_of(1.5, -1e-17, 3.0) == 1.5


@pytest.mark.parametrize("intercept", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_arm_is_chosen_where_its_index_is_the_largest(size, intercept):
    rng = np.random.default_rng(10 * size + intercept)
    for count in range(1, 10):
        for radius in (0.0, 0.3, 0.9, 3.0, 3.0, 30.0):
            s, M = state(rng, size + intercept)
            s[RADIUS] = radius
            arms = rng.standard_normal((count, size))
            expected = indices(s, M, arms)
            assert kernel.select(s, M, arms) == np.argmax(expected)
            # The upper half of P is never read.
            M[INVERSE : INVERSE + size + intercept] += np.triu(
                np.full((size + intercept,) * 2, 9.0), 1
            )
            assert kernel.select(s, M, arms) == np.argmax(expected)


@pytest.mark.parametrize("place", range(8))
def test_means_and_widths_count_at_every_place_of_four(place):
    s, M = state(np.random.default_rng(0), 2)
    M[THETA], M[INVERSE], M[INVERSE + 1] = [1.0, 0.0], [1.0, 0.0], [0.0, 4.0]
    s[RADIUS] = 0.5
    wide = np.tile([0.1, 0.0], (8, 1))
    wide[place] = [0.0, 0.2]  # 0.2 by width alone, where the others have 0.1 + 0.05
    assert kernel.select(s, M, wide) == place
    worse = np.tile([0.1, 0.0], (8, 1))
    worse[place] = [0.0, 0.149]
    assert kernel.select(s, M, worse) == (0 if place else 1)
    crossed = np.tile([0.3, -0.2], (8, 1))
    crossed[place] = [0.3, 0.2]
    M[INVERSE], M[INVERSE + 1] = [1.0, 0.5], [0.5, 4.0]  # x'P x has 2 * 0.5 * x_1 * x_2
    assert kernel.select(s, M, crossed) == place


@pytest.mark.parametrize("place", range(1, 8))
def test_the_constant_feature_counts_at_every_place_of_four(place):
    s, M = state(np.random.default_rng(0), 3)
    M[THETA] = 0.0
    M[INVERSE : INVERSE + 3] = np.eye(3)
    M[INVERSE + 2, :2] = [0.3, 0.0]  # ‖x‖² + 2 * 0.3 * x_1 * constant + constant²
    s[CONSTANT] = 2.0
    arms = np.tile([-0.5, 0.5], (8, 1))
    arms[place] = [0.5, 0.3]  # 0.34 + 0.6 beats 0.5 - 0.6
    assert kernel.select(s, M, arms) == place
    arms[place] = [-0.4, -0.5]  # 0.41 - 0.48 beats 0.5 - 0.6
    assert kernel.select(s, M, arms) == place
    arms[place] = [-0.5, -0.49]
    assert kernel.select(s, M, arms) == 0


def test_diagonal_and_crossed_terms_are_weighed_against_each_other():
    s, M = state(np.random.default_rng(0), 2)
    M[THETA], M[INVERSE], M[INVERSE + 1] = 0.0, [1.0, 0.5], [0.5, 1.0]
    assert kernel.select(s, M, np.array([[0.55, 0.55], [1.0, 0.0]])) == 1  # 0.9075 and 1
    assert kernel.select(s, M, np.array([[0.6, 0.6], [1.0, 0.0]])) == 0  # 1.08 and 1
    assert kernel.select(s, M, np.array([[0.6, -0.6], [0.55, 0.0]])) == 0  # 0.36 and 0.3025


@pytest.mark.parametrize(("mean", "chosen"), [(0.5, 0), (0.65, 1)])
def test_the_square_of_the_constant_is_weighed_against_the_mean(mean, chosen):
    """Widths sqrt(4 + 4) and sqrt(1 + 4): apart by 0.59, where 0.46 or 0.72 would be wrong."""
    s, M = state(np.random.default_rng(0), 3)
    M[THETA], M[INVERSE : INVERSE + 3] = [0.0, mean, 9.0], np.eye(3)
    s[CONSTANT], s[RADIUS] = 2.0, 1.0
    assert kernel.select(s, M, np.array([[2.0, 0.0], [0.0, 1.0]])) == chosen


def test_where_all_indices_are_0_the_first_arm_wins():
    s, M = state(np.random.default_rng(0), 2)
    arms = np.zeros((8, 2))
    assert kernel.select(s, M, arms) == 0
    _, pool, scores = kept(arms)
    assert kernel.select_kept(s, M, pool, scores) == 0
    assert kernel.choose_offered(s, scores, np.arange(8)[None, :], 0) == 0


@pytest.mark.parametrize("place", range(1, 8))
@pytest.mark.parametrize(("better", "wins"), [(3e-10, True), (1.5e-10, True), (0.6e-10, False)])
def test_indices_equal_to_ten_digits_tie_and_the_first_arm_wins(place, better, wins):
    s, M = state(np.random.default_rng(0), 2)
    M[INVERSE : INVERSE + 2] = np.eye(2)
    for theta in ([0.0, 0.0], [1.0, 0.0]):
        M[THETA] = theta
        arms = np.tile([1.0, 0.0], (8, 1))
        arms[place] *= 1.0 + better
        assert kernel.select(s, M, arms) == (place if wins else 0)
        _, pool, scores = kept(arms)
        assert kernel.select_kept(s, M, pool, scores) == (place if wins else 0)
        offered = np.arange(8)[None, :]
        assert kernel.choose_offered(s, scores, offered, 0) == (place if wins else 0)


def test_arms_that_are_not_usable_are_refused_and_no_arms_are_no_arm():
    s, M = state(np.random.default_rng(0), 2)
    s[ARM_LIMIT] = 25.0
    assert kernel.select(s, M, np.array([[3.0, 4.0], [0.0, 1.0]])) >= 0
    for bad in ([3.0, 4.01], [math.nan, 0.0], [0.0, -math.inf]):
        for arms in ([[0.0, 1.0], bad], [bad, [0.0, 1.0]]):
            assert kernel.select(s, M, np.array(arms)) == BAD_X
            assert not kernel.usable(np.array(arms), 25.0)
    assert kernel.usable(np.array([[3.0, 4.0]]), 25.0)
    assert kernel.select(s, M, np.empty((0, 2))) == NO_ARM
    rows, pool, scores = kept(np.empty((0, 2)))
    assert kernel.select_again(s, M, np.empty((0, 2)), rows, pool, scores) == NO_ARM


def kept(arms):
    """Room for arms that are kept: rows, pool and scores, laid but not rated."""
    scores = np.full((SCORES, max(len(arms), 1)), 3.3)
    scores[AT, 0] = -1.0
    return arms.copy(), np.ascontiguousarray(arms.T), scores


def scored(rng, count):
    scores = rng.standard_normal((SCORES, count))
    scores[SQUARED] = scores[SQUARED] ** 2
    return scores


def test_a_choice_from_scores_is_the_largest_index():
    rng = np.random.default_rng(0)
    s, _ = state(rng, 2)
    for count in (1, 2, 7):
        for radius in (0.0, 0.3, 0.9, 3.0, 30.0) * 4:
            s[RADIUS] = radius
            scores = scored(rng, count)
            expected = scores[MEAN] + s[RADIUS] * np.sqrt(scores[SQUARED])
            assert kernel.choose(s, scores) == np.argmax(expected)
            offered = rng.integers(0, count, (3, 4))
            for t in range(3):
                chosen = kernel.choose_offered(s, scores, offered, t)
                assert chosen == np.argmax(expected[offered[t]])
    assert kernel.choose(s, np.empty((SCORES, 0))) == NO_ARM
    assert kernel.choose_offered(s, scores, np.empty((1, 0), dtype=np.int64), 0) == NO_ARM


def test_kept_scores_are_followed_over_one_update_and_rated_anew_after_more():
    """Scores that are wrong on purpose stay wrong where they are followed or left alone."""
    rng = np.random.default_rng(1)
    s, M = state(rng, 3)
    arms = rng.standard_normal((5, 3))
    _, pool, scores = kept(arms)
    best = int(np.argmax(indices(s, M, arms)))
    s[ROUNDS] = 7.0

    def chosen(wrong, at, age):
        scores[MEAN] = 0.0
        scores[MEAN, wrong] = 1e6
        scores[AT, 0], scores[AGE, 0] = at, age
        answer = kernel.select_kept(s, M, pool, scores)
        assert scores[AT, 0] == 7.0
        return answer, scores[AGE, 0]

    wrong = (best + 1) % 5
    assert chosen(wrong, 7.0, 5.0) == (wrong, 5.0)  # nothing happened since
    assert chosen(wrong, 6.0, 5.0) == (wrong, 6.0)  # followed
    assert chosen(wrong, 6.0, 9_999.0) == (wrong, 10_000.0)
    assert chosen(wrong, 6.0, 10_000.0) == (best, 0.0)  # too old
    assert chosen(wrong, 5.0, 5.0) == (best, 0.0)  # two updates behind
    assert chosen(wrong, 8.0, 5.0) == (best, 0.0)  # of a later state
    s[ROUNDS] = 0.0
    scores[AT, 0], scores[AGE, 0] = -1.0, 5.0  # never rated, though one behind
    assert kernel.select_kept(s, M, pool, scores) == best
    assert (scores[AT, 0], scores[AGE, 0]) == (0.0, 0.0)
    s[ROUNDS] = 1.0
    assert kernel.select_kept(s, M, pool, scores) == best
    assert (scores[AT, 0], scores[AGE, 0]) == (1.0, 1.0)  # rated at 0, followed since


def test_a_pool_that_is_refused_counts_as_never_rated():
    s, M = state(np.random.default_rng(1), 2)
    s[ROUNDS] = 7.0
    _, pool, scores = kept(np.array([[1.0, 0.0], [math.nan, 0.0]]))
    scores[AT, 0] = 3.0
    assert kernel.select_kept(s, M, pool, scores) == BAD_X
    assert scores[AT, 0] == -1.0


def test_arms_are_compared_entry_by_entry_and_laid_out_by_feature():
    rng = np.random.default_rng(2)
    arms = rng.standard_normal((3, 2))
    rows, pool = np.empty((3, 2)), np.empty((2, 3))
    kernel.lay(arms, rows, pool)
    assert np.array_equal(rows, arms)
    assert np.array_equal(pool, arms.T)
    assert kernel.same(arms, rows)
    for i in range(3):
        for j in range(2):
            other = arms.copy()
            other[i, j] += 1e-12
            assert not kernel.same(other, rows)
            other[i, j] = math.nan
            assert not kernel.same(other, other)


@pytest.mark.parametrize("rounds", [0.0, 1.0, 2.0, 7.0])
def test_arms_offered_again_keep_their_scores_and_others_are_rated(rounds):
    rng = np.random.default_rng(3)
    s, M = state(rng, 3)
    s[ROUNDS] = rounds
    arms, others = rng.standard_normal((2, 5, 3))
    rows, pool, scores = kept(arms)
    assert kernel.select_again(s, M, arms, rows, pool, scores) == np.argmax(indices(s, M, arms))
    best = int(np.argmax(indices(s, M, others)))
    wrong = (best + 1) % 5
    scores[MEAN, wrong] = 1e6
    assert kernel.select_again(s, M, arms, rows, pool, scores) == wrong
    assert kernel.select_again(s, M, others, rows, pool, scores) == best
    assert np.array_equal(rows, others)


def test_every_set_is_chosen_from_until_one_is_refused():
    rng = np.random.default_rng(4)
    s, M = state(rng, 3)
    sets = rng.standard_normal((4, 5, 3))
    sets[1] = sets[1][np.argsort(-indices(s, M, sets[1]))]  # the first arm is no refusal
    rows, pool, scores = kept(sets[0])
    choices = np.full(4, -9)
    assert kernel.select_each(s, M, sets, rows, pool, scores, choices) == -1
    assert choices.tolist() == [int(np.argmax(indices(s, M, arms))) for arms in sets]
    for bad in (0, 2):
        broken = sets.copy()
        broken[bad, 1, 1] = math.nan
        choices[:] = -9
        assert kernel.select_each(s, M, broken, rows, pool, scores, choices) == bad
        assert choices[bad] == BAD_X
        assert (choices[bad + 1 :] == -9).all()
