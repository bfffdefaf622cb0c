"""The practical mode's own formulas, each beside its definition: the unit, the floors, what the
clip took, intervals, what is advised, and the turns of Twin-UCB.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm
from tests.naive.common import game, near, together
from tests.naive.forgetting import TwinFading

import heavytail as ht
from heavytail.kernels.layout import CLIPPED, INVERSE, LOG_DET, RADIUS, ROUNDS, THETA, THETA_BOUND
from heavytail.kernels.scores import MEAN, SQUARED
from heavytail.policies.core import practice, twin_choice, two_estimates
from heavytail.policies.core.every_round import EVERY_ROUND as E
from heavytail.policies.core.forgetting import MEMORY
from heavytail.policies.core.practice import PRACTICE as P
from heavytail.policies.core.practice_report import unseen
from heavytail.policies.core.twin import OWN
from heavytail.policies.core.two_estimates import TWO as S

ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [-0.5, 0.5]])
PRIOR = np.array([[4.0, 0.3], [0.3, 0.5]])


def rounds(count, seed=0, wild=0.05):
    """Feature vectors and rewards, now and then one far off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        x = rng.uniform(-0.7, 0.7, 2)
        outlier = 40.0 * (rng.random() < wild) * (1.0 + x[0])
        yield x, float(3.0 + x @ [1.0, -0.5] + 0.5 * rng.standard_normal() + outlier)


def fed(policy, count=150, **options):
    for x, reward in rounds(count, **options):
        policy.update(x, reward)
    return policy


# --- the unit, and a start from an earlier estimate


def test_the_unit_is_ten_times_the_median_of_the_first_five_in_any_order():
    for sizes in itertools.permutations([1.0, 2.0, 3.0, 7.0, 7.5]):
        policy = ht.HvtUCB(2)
        s, M = policy.packed
        for k, size in enumerate(sizes):
            assert s[P.UNIT] == 0.0
            policy.update(ARMS[k % 4], -size if k % 2 else size)
        assert s[P.UNIT] == 30.0
        assert s[P.TYPICAL] == 30.0 / 1.4826
        np.testing.assert_array_equal(M[INVERSE : INVERSE + 3], np.eye(3) * 900.0 / s[P.RIDGE])
        assert s[P.FIRST_1 : P.FIRST_5 + 1].tolist() == sorted(sizes)


@pytest.mark.parametrize(("size", "unit"), [(1e-80, 1e-70), (1e80, 1e70), (1e-60, 1e-59)])
def test_the_unit_is_one_whose_square_is_a_number(size, unit):
    policy = ht.HvtUCB(2)
    for k in range(5):
        policy.update(ARMS[k % 4], size)
    assert policy.packed[0][P.UNIT] == pytest.approx(unit, rel=1e-12)


@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_log_det_is_that_of_the_gram_matrix_after_the_unit_is_found(make):
    policy = fed(make(2), 60)
    s = policy.packed[0]
    V = np.linalg.inv(policy.inverse_gram)
    want = np.linalg.slogdet(V)[1] - 3.0 * math.log(s[P.RIDGE])
    assert s[LOG_DET] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("scale", [None, 3.0])
@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_an_earlier_estimate_brings_its_unit_along(make, scale):
    policy = make(2, tail=None if scale is None else ht.MomentBound(2.0, scale))
    policy.start_from([0.2, -0.1], PRIOR)
    s, M = policy.packed
    unit = math.sqrt(4.0 * s[P.RIDGE]) / (scale or 1.0)
    assert s[P.UNIT] == pytest.approx(unit, rel=1e-14)
    assert M[INVERSE + 2, 2] == 4.0
    np.testing.assert_array_equal(policy.inverse_gram[:2, :2], PRIOR)
    typical = unit if scale is None else 1.0
    assert s[P.TYPICAL] == pytest.approx(typical / 1.4826, rel=1e-14)
    assert s[P.TELLING] == 5.0
    if make is ht.TwinUCB:
        np.testing.assert_array_equal(policy.bulk, [0.2, -0.1])


@pytest.mark.parametrize(("variance", "nu", "unit"), [(1e-100, 1e90, 1e-70), (1e100, 1e-90, 1e70)])
def test_the_unit_of_an_earlier_estimate_is_one_whose_square_is_a_number(variance, nu, unit):
    policy = ht.HvtUCB(2, tail=ht.MomentBound(2.0, nu))
    policy.start_from([0.0, 0.0], variance * np.eye(2))
    assert policy.packed[0][P.UNIT] == unit


def test_theory_begins_from_an_earlier_estimate_in_its_own_unit():
    for make in (ht.HvtUCB, ht.TwinUCB):
        policy = make(2, tail=ht.MomentBound(2.0, 1.0), horizon=100, radius="theory")
        policy.start_from([0.2, -0.1], PRIOR)
        s = policy.packed[0]
        assert (s[P.UNIT], s[P.TELLING]) == (1.0, 0.0)


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**10, 1000.0])
@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_the_unit_of_the_scales_does_not_matter(make, factor):
    """Without a tail, a round's scale only says how it compares with other rounds."""
    one, two = make(2), make(2)
    for k, (x, reward) in enumerate(rounds(80)):
        scale = 1.0 + k % 3
        arms = np.array([x, -x, [x[1], -x[0]]])
        assert one.select(arms) == two.select(arms)
        one.update(x, reward, scale=scale)
        two.update(x, reward, scale=factor * scale)
    np.testing.assert_allclose(one.theta, two.theta, rtol=1e-9)
    assert one.diagnostics().scale == pytest.approx(two.diagnostics().scale, rel=1e-9)
    assert one.packed[0][P.NU] == pytest.approx((1.0 + 2.0 + 3.0 + 1.0 + 2.0) / 5.0)


def test_a_constant_scale_is_no_scale():
    plain, told = ht.TwinUCB(2), ht.TwinUCB(2)
    for x, reward in rounds(80):
        plain.update(x, reward)
        told.update(x, reward, scale=1024.0)
    np.testing.assert_array_equal(plain.theta, told.theta)


# --- scales and floors


@pytest.mark.parametrize("bound", [1.0, 2.0])
def test_the_scale_has_a_floor_that_keeps_the_gram_matrix_exact(bound):
    policy = fed(ht.HvtUCB(2, arm_bound=bound), 40)
    s = policy.packed[0]
    s[P.TYPICAL] = 0.0
    assert s[P.FINEST] == pytest.approx(3e-7 / math.sqrt(0.02), rel=1e-14)
    want = s[P.FINEST] * s[P.UNIT] * math.sqrt(40 - 5 + 1)
    assert practice.scale_of(s, 0.0, 1.0) == pytest.approx(want, rel=1e-14)
    assert practice.scale_of(s, 9.0, 1.0) == 3.0
    s[P.TYPICAL] = 2.0
    assert practice.scale_of(s, 9.0, 4.0) == 4.0 * 1.4826 * 2.0


def test_without_noise_the_typical_size_ends_at_a_billionth_of_the_unit():
    s = fed(ht.HvtUCB(2)).packed[0]
    s[P.TYPICAL] = 1.1e-9 * s[P.UNIT]
    for _ in range(100):
        practice.watch(s, 1.0, 0.0)
    assert s[P.TYPICAL] == pytest.approx(1e-9 * s[P.UNIT], rel=1e-12)


def test_a_vector_of_zeros_is_a_round_and_teaches_nothing():
    for make in (ht.HvtUCB, ht.TwinUCB):
        policy = fed(make(2, **({"intercept": False} if make is ht.HvtUCB else {})))
        s = policy.packed[0]
        before, energy = policy.theta, s[P.ENERGY]
        policy.update([0.0, 0.0], 5.0)
        if make is ht.HvtUCB:
            np.testing.assert_array_equal(policy.theta, before)
            assert s[P.ENERGY] == energy


def test_a_ball_is_made_ten_times_as_large_after_32_rounds_on_it_net_of_others():
    policy = ht.HvtUCB(1, theta_bound=0.01, intercept=False)
    s = policy.packed[0]
    pressed = bound = 0.0
    for k in range(90):
        reward = 5.0 if k % 7 else 0.001  # now and then one that leaves the ball alone
        policy.update([1.0], reward)
        on = abs(abs(policy.theta[0]) - (bound or 0.01)) < 1e-12
        if s[P.UNIT] == 0.0 or s[ROUNDS] <= 5:
            bound = s[THETA_BOUND]
            continue
        pressed = pressed + 1.0 if on else max(pressed - 1.0, 0.0)
        if pressed >= 32.0:
            pressed, bound = 0.0, 10.0 * bound
        assert s[THETA_BOUND] == bound
        assert s[P.PRESSED] == pressed
    assert bound > 0.01


# --- what the clip took, and intervals


def test_what_the_clip_took_is_summed_in_the_rewards_unit():
    policy, lost = ht.HvtUCB(2, clip=1.2), 0.0
    s = policy.packed[0]
    for x, reward in rounds(120):
        residual = reward - policy.predict(x).mean
        known = s[P.UNIT] > 0.0
        policy.update(x, reward)
        if known:
            lost += max(abs(residual) - 1.2 * policy.sigma, 0.0)
    assert lost > 100.0
    assert s[P.LOST] == pytest.approx(lost, rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_an_interval_is_its_formula(make, level):
    for count in (6, 150):
        policy = fed(make(2), count)
        s = policy.packed[0]
        t = count - 5.0
        spread = math.sqrt((1.0 + s[P.ENERGY]) / (1.0 + max(t, 1.0)))
        half = 1.05 * norm.ppf(0.5 + level / 2.0) * spread * np.array([*map(policy.width, ARMS)])
        half += 2.0 * s[P.LOST] / max(t, 1.0)
        found = policy.predict(ARMS, level=level)
        np.testing.assert_allclose(found.high - found.mean, half, rtol=1e-9)
        np.testing.assert_allclose(found.mean - found.low, half, rtol=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_an_interval_of_conversion_times_amount_is_its_formula(level):
    """Each factor lies off with half of the probability that the level leaves over."""
    policy = ht.TwinUCB(2)
    for k, (x, reward) in enumerate(rounds(150)):
        policy.update(x, 0.0 if k % 3 == 1 else reward)
    s, M = policy.packed
    normal = 1.05 * norm.ppf(1.0 - (1.0 - level) / 4.0)
    U, features = M[policy._rows["tried_inverse"]], np.hstack([ARMS, np.ones((4, 1))])
    share_off = normal * math.sqrt((1.0 + s[E.CONVERSION_ENERGY]) / 151.0)
    share_off *= np.sqrt(np.sum(features @ U * features, axis=1))
    amount_off = (
        normal * math.sqrt((1.0 + s[P.ENERGY]) / 96.0) * np.array([*map(policy.width, ARMS)])
    )
    amount_off += max(2.0 * s[P.LOST] / 95.0, unseen(s))  # 100 amounts, of which five set the unit
    share, amount = (np.array([*map(f, ARMS)]) for f in (policy.conversion, policy.amount))
    half = (share + share_off) * (np.abs(amount) + amount_off) - share * np.abs(amount)
    found = policy.predict(ARMS, level=level)
    np.testing.assert_allclose(found.high - found.mean, half, rtol=1e-9)
    np.testing.assert_allclose(found.mean - found.low, half, rtol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda: ht.HvtUCB(2, clip=1.345), lambda: ht.TwinUCB(2, target="typical")]
)
def test_an_interval_for_a_typical_reward_leaves_out_what_was_clipped(make):
    policy = fed(make())
    s = policy.packed[0]
    assert s[CLIPPED] > 5
    spread = math.sqrt((1.0 + s[P.ENERGY]) / 146.0) * 146.0 / (146.0 - s[CLIPPED])
    half = 1.05 * norm.ppf(0.975) * spread * np.array([*map(policy.width, ARMS)])
    found = policy.predict(ARMS)
    np.testing.assert_allclose(found.high - found.mean, half, rtol=1e-9)


@pytest.mark.parametrize("make", [ht.HvtUCB, ht.TwinUCB])
def test_an_interval_of_the_theory_is_its_confidence_set(make):
    policy = fed(make(2, tail=ht.MomentBound(2.0, 1.0), horizon=400, radius="theory"))
    found = policy.predict(ARMS)
    want = policy.radius * np.array([*map(policy.width, ARMS)])
    np.testing.assert_allclose(found.high - found.mean, want, rtol=1e-12)


# --- what is said


def words(policy):
    return " ".join(policy.diagnostics().advice)


def test_nothing_is_advised_before_a_hundred_rewards():
    policy = fed(ht.HvtUCB(2, clip=0.1), 104)
    assert policy.diagnostics().advice == ()
    policy.update([0.1, 0.2], 3.0)
    assert "clipped" in words(policy)
    policy.packed[0][P.UNIT] = 0.0
    assert policy.diagnostics().advice == ()


@pytest.mark.parametrize(
    ("slot", "quiet", "loud", "said"),
    [
        (CLIPPED, 0.29, 0.31, "were clipped"),
        (CLIPPED, 0.3, 0.301, "30% of the rewards"),
    ],
)
def test_a_share_of_clips_above_three_in_ten_is_said(slot, quiet, loud, said):
    policy = fed(ht.TwinUCB(2), 205)
    s = policy.packed[0]
    for share, heard in ((quiet, False), (loud, True)):
        s[slot] = share * 200.0
        assert (said in words(policy)) is heard


def test_theta_on_the_ball_is_said_and_near_it_is_not():
    policy = fed(ht.HvtUCB(2, theta_bound=1e3), 205, wild=0.0)
    M = policy.packed[1]
    for length, heard in ((0.6, False), (0.9985, False), (0.9995, True)):
        M[THETA, :2] = [length * 1e3, 0.0]
        assert ("on the ball of radius 1e+03" in words(policy)) is heard


def test_few_rounds_that_carry_all_weight_are_said():
    policy = fed(ht.TwinUCB(2), 205)
    s = policy.packed[0]
    for weight, heard in ((10.1, False), (9.9, True), (6.0, True)):
        s[P.WEIGHT], s[P.WEIGHT_SQUARES] = weight, weight  # weight² / weight rounds of 200
        assert ("A few rounds dominate" in words(policy)) is heard
        assert policy.diagnostics().effective_samples == pytest.approx(weight)
    assert "6 of equal weight would count as much as these 200" in words(policy)


@pytest.mark.parametrize(
    ("ratio", "heard"),
    [(0.0099, True), (0.0101, False), (1.0, False), (99.0, False), (101.0, True)],
)
def test_a_stated_scale_a_hundred_times_off_is_said(ratio, heard):
    policy = fed(ht.TwinUCB(2, tail=ht.MomentBound(2.0, 5.0)), 205)
    policy.packed[0][P.TYPICAL] = ratio / 1.4826
    assert ("the scale stated is 5" in words(policy)) is heard
    learned = fed(ht.TwinUCB(2), 205)
    learned.packed[0][P.TYPICAL] = ratio / 1.4826
    assert "scale stated" not in words(learned)


@pytest.mark.parametrize(("ratio", "heard"), [(10.0, False), (299.0, False), (301.0, True)])
def test_rewards_far_from_0_beside_their_noise_are_said(ratio, heard):
    policy = fed(ht.TwinUCB(2), 205)
    s = policy.packed[0]
    s[P.TYPICAL] = s[P.UNIT] / (10.0 * 1.4826 * ratio)
    assert (f"{ratio:.0f} times as large as their noise" in words(policy)) is heard


# --- Twin-UCB


@pytest.mark.parametrize("forget", [1.0, 0.95])
def test_what_sets_the_two_estimates_apart_is_summed_and_fades(forget):
    policy, total = ht.TwinUCB(2, forget=forget), 0.0
    s, M = policy.packed
    for x, reward in rounds(150):
        feature = np.array([*x, 1.0])
        mean = reward - float(feature @ M[THETA])
        bulk = reward - float(feature @ M[two_estimates.bulk_row(M)])
        tau, known = s[P.TAU], s[P.UNIT] > 0.0
        policy.update(x, reward)
        if known:
            z, y = mean / s[P.SIGMA], bulk / s[P.SIGMA]
            total += (np.clip(z, -tau, tau) - np.clip(y, -1.345, 1.345)) ** 2
            total *= forget
    assert total > 0.01
    assert s[S.APART] == pytest.approx(total, rel=1e-9)


def test_the_level_of_residuals_is_in_units_of_the_stated_scale():
    policy, mirror = ht.TwinUCB(2, forget=0.95), TwinFading(2, forget=0.95)
    together(policy, mirror, game(2, 100, noise=0.4, scales=True))
    near(policy.state_arrays()["memory"][MEMORY.LEVEL], mirror.level, "level")


def test_hausmans_statistic_is_its_formula():
    for count in (1, 7, 150):
        policy = fed(ht.TwinUCB(2), count)
        t = max(count - 5.0, 3.0)
        C = policy.inverse_gram[:2, :2] * max(policy.packed[0][S.APART] / t, 1e-300)
        D = policy.theta - policy.bulk
        sure = math.log(100.0) + 2.0 * math.log(math.log(t))
        H, most = policy.hausman()
        assert H == pytest.approx(D @ np.linalg.inv(C) @ D, rel=1e-9, abs=1e-9)
        assert most == pytest.approx(2.0 + 2.0 * math.sqrt(2.0 * sure) + 2.0 * sure, rel=1e-12)


def test_hausmans_statistic_is_told_where_a_determinant_would_be_0():
    dim, rng = 150, np.random.default_rng(0)
    policy, X = ht.TwinUCB(dim), rng.normal(size=(25_000, dim))
    X[:, 0] = 0.0  # nothing is known of one direction, and much of all others
    X /= 1.001 * np.linalg.norm(X, axis=1, keepdims=True)
    policy.update_many(X, X[:, 1] + rng.standard_t(2.0, len(X)))
    C = policy.inverse_gram[:dim, :dim]
    assert np.linalg.det(C / C.max()) == 0.0
    assert policy.hausman()[0] > 1.0


@pytest.mark.parametrize("size", [1e-160, 1e-300])
def test_the_smallest_rewards_leave_diagnostics_whole(size):
    policy = ht.TwinUCB(2)
    for x, reward in rounds(130):
        policy.update(x, size * reward)
    assert math.isfinite(policy.diagnostics().mean_differs)


@pytest.mark.parametrize("count", range(140, 148))
def test_an_explanation_has_the_parts_of_the_index(count):
    policy = fed(ht.TwinUCB(2), count, wild=0.2)
    s, _ = policy.packed
    found, widths = policy.explain(ARMS), np.array([*map(policy.width, ARMS)])
    mean = ARMS @ policy.theta + policy.intercept
    np.testing.assert_allclose(found.parts["mean"], mean, rtol=1e-12)
    assert set(found.parts) == {"mean", "judge", "index"}
    if s[OWN.AUDIT] == 4.0:  # the judge is heard
        mean = np.maximum(mean, found.parts["judge"])
    if s[OWN.AUDIT]:
        np.testing.assert_allclose(found.parts["index"], mean + policy.radius * widths)
        return
    bulk = ARMS @ policy.bulk + s[OWN.SHIFT] + policy.intercept
    reach = 0.12 / 0.65 * policy.radius * widths
    believed = np.minimum(np.maximum(bulk, mean - reach), mean + reach)
    judge = found.parts["judge"]
    worth = np.clip(believed, judge - s[OWN.HELD], judge + s[OWN.HELD])
    np.testing.assert_allclose(found.parts["index"], worth + s[S.BULK_RADIUS] * widths)


def test_the_bulk_is_held_near_the_mean_and_both_near_the_judge():
    """Index_of from made-up numbers: what binds is the nearer end of either."""
    s = fed(ht.TwinUCB(2)).packed[0]
    s[OWN.AUDIT] = s[OWN.SHIFT] = s[OWN.LEVEL] = s[OWN.JUDGE_LEVEL] = s[S.BULK_RADIUS] = 0.0
    s[OWN.TRUSTED], s[OWN.HELD] = 0.5, 2.0
    for mean, bulk, judge, worth in (
        (1.0, 1.3, 1.0, 1.3),
        (1.0, 9.0, 1.0, 1.5),
        (1.0, -9.0, 1.0, 0.5),
        (1.0, 1.0, 4.0, 2.0),
        (1.0, 1.0, -4.0, -2.0),
    ):
        assert (
            twin_choice.index_of(twin_choice.rule_of(s), mean, bulk, judge, 0.0, 1.0, 0.0) == worth
        )
    s[OWN.AUDIT], s[RADIUS] = 1.0, 0.25  # an audit is the mean's alone
    assert twin_choice.index_of(twin_choice.rule_of(s), 1.0, 9.0, 9.0, 0.0, 4.0, 0.0) == 1.5
    s[OWN.AUDIT] = 4.0  # every fourth hears the judge, where it says more
    assert twin_choice.index_of(twin_choice.rule_of(s), 1.0, 9.0, 9.0, 0.0, 4.0, 0.0) == 9.5
    assert twin_choice.index_of(twin_choice.rule_of(s), 1.0, 9.0, -9.0, 0.0, 4.0, 0.0) == 1.5


def test_what_is_explained_says_by_which_rule():
    told = {"tail": ht.MomentBound(2.0, 1.0), "horizon": 400, "radius": "theory"}
    assert "where it is 3 times wider" in fed(ht.TwinUCB(2, **told)).explain(ARMS).rule
    typical = fed(ht.TwinUCB(2, target="typical")).explain(ARMS)
    assert typical.rule == "the largest mean + radius * width"
    assert set(typical.parts) == {"mean", "bonus", "index"}


def test_an_explanation_is_printed_in_columns():
    lines = str(fed(ht.TwinUCB(2)).explain(ARMS)).splitlines()[1:]
    assert len({len(line.rstrip(" <")) for line in lines}) == 1


@pytest.mark.parametrize("audit", [0.0, 1.0])
def test_of_the_arms_offered_the_first_of_largest_index_is_taken(audit):
    rng = np.random.default_rng(3)
    s = fed(ht.TwinUCB(2)).packed[0]
    s[OWN.AUDIT], s[OWN.KNOWN], s[OWN.LEVEL], s[OWN.HELD] = audit, 0.5, 0.0, 0.3
    late = 0
    for _ in range(200):
        scores = np.zeros((twin_choice.UNKNOWN + 1, 12))
        scores[[MEAN, twin_choice.BULK, twin_choice.JUDGED]] = rng.normal(size=(3, 12))
        scores[SQUARED] = rng.exponential(size=12)
        scores[twin_choice.UNKNOWN] = rng.exponential(size=12) ** 2
        offered = rng.integers(0, 12, size=(3, 5))
        offered[1, 4] = offered[1, 0]
        for t in range(3):
            mean, bulk, judge = scores[[MEAN, twin_choice.BULK, twin_choice.JUDGED]][:, offered[t]]
            width = np.sqrt(scores[SQUARED][offered[t]])
            reach = s[OWN.TRUSTED] * width
            value = np.clip(bulk + s[OWN.SHIFT], mean - reach, mean + reach)
            judge = judge + s[OWN.JUDGE_LEVEL]
            value = np.clip(value, judge - 0.3, judge + 0.3) + s[S.BULK_RADIUS] * width
            overdue = 0.2 * scores[twin_choice.UNKNOWN][offered[t]] / 0.5
            if audit:
                value = mean + 0.65 / 0.12 * reach
                value = overdue if overdue.max() > 1.0 else value
                late += overdue.max() > 1.0
            assert twin_choice.choose_offered(s, scores, offered, t) == int(np.argmax(value))
    assert 50 < late < 550 or not audit


def test_the_bulk_of_the_theory_steps_by_clipped_residuals():
    policy = ht.TwinUCB(2, tail=ht.MomentBound(1.5, 1.0), horizon=400, radius="theory")
    s, M = policy.packed
    total = 0.0
    for x, reward in rounds(100):
        z = reward - float(x @ M[THETA])
        y = reward - float(x @ M[two_estimates.bulk_row(M)])
        policy.update(x, reward)
        sigma, tau = s[P.SIGMA], s[P.TAU]
        total += (np.clip(z / sigma, -tau, tau) - np.clip(y / sigma, -1.345, 1.345)) ** 2
    assert s[S.APART] == pytest.approx(total, rel=1e-9)
    apart = s[S.APART]
    policy.update([0.0, 0.0], 7.0)
    assert s[S.APART] == apart
