"""Twin-UCB's rule: no offset, no unit, sizes that follow x, audits by evidence, looks, a judge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import heavytail as ht
from heavytail.kernels.layout import FEATURE, INVERSE, ROUNDS, THETA
from heavytail.policies.core import noise_size, twin, twin_choice
from heavytail.policies.core.every_round import EVERY_ROUND as E
from heavytail.policies.core.every_round import SLOPES
from heavytail.policies.core.noise_size import NOISE_SIZE as N
from heavytail.policies.core.practice import PRACTICE as P
from heavytail.policies.core.twin import OWN as S
from heavytail.policies.core.two_estimates import TWO, bulk_row

ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [-0.5, 0.5]])
MEMORIES = pytest.mark.parametrize("forget", [None, 0.99, "auto"])


def plain(x, rng):
    return 3.0 + x @ [1.0, -0.3] + 0.3 * rng.standard_t(2.5)


def sold(x, rng):
    """Nothing in most rounds."""
    return plain(x, rng) * (rng.random() < 0.3)


def even(x, rng):
    """Nothing in most rounds, and no amount that is far off."""
    return (3.0 + x @ [1.0, -0.3] + rng.uniform(-0.5, 0.5)) * (rng.random() < 0.1)


def play(policy, law, rounds, seed=0, arms=ARMS, change=lambda reward: reward):
    """The arms chosen; each reward is ``change`` of the law's."""
    rng, chosen = np.random.default_rng(seed), []
    for _ in range(rounds):
        chosen.append(policy.select(arms))
        policy.update(arms[chosen[-1]], change(float(law(arms[chosen[-1]], rng))))
    return np.array(chosen)


def by_arm(laws):
    """A law of each coordinate's own."""
    return lambda x, rng: laws[int(np.argmax(x))](rng)


# --- offsets and units


@MEMORIES
@pytest.mark.parametrize("offset", [1000.0, -50.0, 1e6])
def test_an_offset_changes_no_choice(forget, offset):
    chosen, moved = (
        play(ht.TwinUCB(2, forget=forget), plain, 800, change=lambda r, c=c: r + c)
        for c in (0.0, offset)
    )
    np.testing.assert_array_equal(chosen, moved)


@MEMORIES
@pytest.mark.parametrize("law", [plain, sold])
@pytest.mark.parametrize("unit", [2.0**40, 2.0**-60])
def test_a_unit_that_is_a_power_of_two_changes_no_bit(forget, law, unit):
    one, other = ht.TwinUCB(2, forget=forget), ht.TwinUCB(2, forget=forget)
    chosen = play(one, law, 500), play(other, law, 500, change=lambda r: unit * r)
    np.testing.assert_array_equal(*chosen)
    mine, yours = one.predict(ARMS), other.predict(ARMS)
    for side in ("mean", "low", "high"):
        np.testing.assert_array_equal(unit * getattr(mine, side), getattr(yours, side))
    assert [one.conversion(x) for x in ARMS] == [other.conversion(x) for x in ARMS]
    assert one.packed[0][N.SIZE_FACTOR] == other.packed[0][N.SIZE_FACTOR]


@pytest.mark.parametrize("unit", [3.0, 1e6, 1e-9])
def test_any_other_unit_changes_no_choice(unit):
    """Where mean and bulk are one but for rounding, their difference is no evidence."""
    chosen = (play(ht.TwinUCB(2), even, 2_500, change=lambda r, c=c: c * r) for c in (1.0, unit))
    np.testing.assert_array_equal(*chosen)


# --- the start


@pytest.mark.parametrize(
    "first", [[1, 1, 1, 2, 3], [3, 1, 3, 2, 3], [2, 1, 2, 3, 2], [4, 4, 4, 4, 4]]
)
def test_where_three_of_the_first_are_alike_the_unit_is_that_of_their_sizes(first):
    policy = ht.TwinUCB(2)
    for k, reward in enumerate(first):
        policy.update(ARMS[k % 4], float(reward))
    s = policy.packed[0]
    assert (s[S.CENTRE], s[P.UNIT]) == (0.0, 10.0 * np.median(first))


@pytest.mark.parametrize(
    ("level", "other", "centre", "unit"),
    [
        (9_999.0, 0.0, 0.0, 99_990.0),
        (10_001.0, 0.0, 10_001.0, 10.0),
        (10_001.0, 0.5, 10_001.0, 5.0),
    ],
)
def test_unless_they_lie_ten_thousand_times_as_high_as_they_differ(level, other, centre, unit):
    policy = ht.TwinUCB(2)
    for k, above in enumerate([0.0, 1.0, 0.0, other, 0.0]):
        policy.update(ARMS[k % 4], level + above)
    s = policy.packed[0]
    assert (s[S.CENTRE], s[P.UNIT]) == (centre, unit)


def two_sizes(rng, mean):
    """Half of the rewards are ten thousand times as large as the others."""
    return 1e4 * mean * rng.uniform(0.5, 1.5) if rng.random() < 0.5 else rng.uniform(-1.0, 1.0)


@pytest.mark.parametrize("kind", [ht.TwinUCB, ht.HvtUCB])
def test_rewards_of_two_sizes_set_the_unit_a_few_times_and_are_learned(kind):
    policy, rng = kind(2), np.random.default_rng(11)
    units, right = set(), 0
    for t in range(4_000):
        arm = policy.select(ARMS)
        policy.update(ARMS[arm], two_sizes(rng, 1.0 + 0.5 * ARMS[arm] @ [1.0, 0.0]))
        units.add(float(policy.packed[0][P.UNIT]))
        right += t >= 2_000 and arm == int(np.argmax(ARMS @ [1.0, 0.0]))
    assert len(units - {0.0}) <= 4
    assert right > 1_500


def test_the_unit_is_set_anew_ten_times_at_the_most():
    policy = ht.TwinUCB(2)
    s = policy.packed[0]
    play(policy, plain, 50)
    s[P.UNITS], s[P.ASTRAY] = 9.0, -32.0 * 512.0 + 2.0  # it takes twice as many each time
    for expected in ((9.0, -32.0 * 512.0 + 1.0), (10.0, 0.0)):
        policy.update(ARMS[0], s[S.CENTRE] + 1e-9 * s[P.UNIT])
        assert (s[P.UNITS], s[P.ASTRAY]) == expected
    policy.update(ARMS[0], 1e9)
    assert s[P.ASTRAY] == 0.0


def test_else_it_is_that_of_their_distances_from_the_middle():
    policy = ht.TwinUCB(2)
    for k, reward in enumerate([107.0, 101.0, 110.0, 100.0, 102.0]):
        policy.update(ARMS[k % 4], reward)
    s = policy.packed[0]
    assert (s[S.CENTRE], s[P.UNIT]) == (102.0, 20.0)
    assert policy.intercept == pytest.approx(102.0, rel=1e-14)
    np.testing.assert_allclose(policy.explain(ARMS).parts["judge"], 102.0, rtol=1e-14)


@pytest.mark.parametrize("size", [1e5, 1e9, 1e60, 1e200, 1e300])
@pytest.mark.parametrize("count", [3, 4, 8])
def test_first_rewards_that_are_absurd_and_differ_do_not_decide_for_good(size, count):
    policy, first = ht.TwinUCB(2), iter([size * (1.0 + 0.07 * k) for k in range(count)])
    chosen = play(policy, plain, 600, change=lambda reward: next(first, reward))
    assert np.mean(chosen[300:] == 1) > 0.8


@MEMORIES
@pytest.mark.parametrize("size", [1e12, -1e12, 1e300, -1e300])
def test_no_single_reward_decides_for_good(forget, size):
    policy = ht.TwinUCB(2, forget=forget)
    play(policy, plain, 200)
    policy.update(ARMS[1], size)
    chosen = play(policy, plain, 3_000, seed=1)
    assert np.mean(chosen[2_000:] == 1) > 0.8


def test_the_judge_hears_no_more_than_as_many_units_as_there_were_rounds():
    s = ht.TwinUCB(2).packed[0]
    s[P.UNIT], s[P.NU], s[S.CENTRE] = 2.0, 3.0, 10.0
    for rounds, most in ((5.0, 600.0), (150.0, 900.0)):
        s[ROUNDS] = s[P.BEGAN] = rounds  # though none was learned since the unit is known
        heard = [twin.as_judged(s, r) for r in (7.0, 29.0 + most, 1e9, 31.0 - most, -1e9)]
        assert heard == [7.0, 29.0 + most, 30.0 + most, 31.0 - most, 30.0 - most]


# --- the scale that follows x


def test_james_and_steins_factor_is_0_up_to_what_chance_explains():
    assert noise_size.believed(2.0, 2.0) == 0.0
    assert noise_size.believed(-1.0, 2.0) == 0.0
    assert noise_size.believed(8.0, 2.0) == 0.75


@pytest.mark.parametrize(("slope", "power"), [(2.0, 1.0), (50.0, 3.0), (-50.0, -3.0)])
def test_the_scale_at_x_is_within_a_cube_of_e(slope, power):
    s, M = ht.TwinUCB(2).packed
    M[FEATURE], M[bulk_row(M) + SLOPES], s[N.SIZE_FACTOR] = [0.8, 0.0, 1.0], [slope, 0, 9.0], 0.625
    assert noise_size.factor_at(s, M, 2) == pytest.approx(math.exp(power), rel=1e-12)


def fresh_arms(policy, rounds, size, seed):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        x = rng.uniform(-0.7, 0.7, 2)
        policy.update(x, float(x[0] + size(x) * rng.standard_normal()))
    return float(policy.packed[0][N.SIZE_FACTOR])


def test_sizes_that_are_equal_are_taken_for_equal_and_tenfold_ones_are_not():
    equal = [fresh_arms(ht.TwinUCB(2), 400, lambda x: 1.0, seed) for seed in range(20)]
    assert np.mean(np.array(equal) == 0.0) > 0.6
    assert max(equal) < 0.8
    unlike = [
        fresh_arms(ht.TwinUCB(2), 400, lambda x: 10.0 ** (x[1] / 1.4), seed) for seed in range(5)
    ]
    assert min(unlike) > 0.9


def test_quiet_rounds_weigh_more_by_the_square_of_their_size():
    policy = ht.TwinUCB(2)
    fresh_arms(policy, 3_000, lambda x: 10.0 ** (x[1] / 1.4), 3)
    s, M = policy.packed
    ratio = []
    for x in ([0.0, -0.7], [0.0, 0.7]):
        copy, matrix = s.copy(), M.copy()
        twin.pay(copy, matrix, 2, twin.measure(copy, matrix, np.array(x)), 0.1, 1.0, 1.0)
        ratio.append(copy[P.SIGMA])
    assert 6.0 < ratio[1] / ratio[0] < 16.0


# --- audits


def share(law, rounds=3_000, seed=0, dim=2):
    rng, policy = np.random.default_rng(seed), ht.TwinUCB(dim)
    for _ in range(rounds):
        x = rng.uniform(-0.7, 0.7, dim)
        policy.update(x, float(law(x, rng)))
    return policy.packed[0][S.SHARE] / (3.0 * rounds ** (-1.0 / 3.0)), policy


def test_audits_are_few_where_mean_and_bulk_agree_and_many_where_not():
    agree = [share(lambda x, rng: x[0] + rng.standard_normal(), seed=k)[0] for k in range(3)]
    assert min(agree) == pytest.approx(0.2, rel=0.02)
    assert max(agree) < 1.0
    apart, policy = share(lambda x, rng: 30.0 * (rng.random() < 0.2 + 0.2 * x[0]) + rng.normal())
    assert apart > 1.0
    assert policy.packed[0][S.SHARE] <= 0.7


def test_the_share_follows_the_square_of_hausmans_statistic():
    _, policy = share(lambda x, rng: x[0] + rng.standard_normal(), 600)
    s, M = (array.copy() for array in policy.packed)
    H = twin.hausman(s, M, 2, INVERSE, 1.0)
    for wanted, evidence in ((3.0, 0.25), (6.0, 1.0), (9.0, 2.25), (1.0, 0.2), (99.0, 4.0)):
        s[TWO.APART] = policy.packed[0][TWO.APART] * H / wanted
        for t in (450.0, 1e6):  # from 150 rounds a coordinate on
            assert twin.audit_share(s, M, 2, t) == pytest.approx(
                min(3.0 * (t + 1.0) ** (-1.0 / 3.0) * evidence, 0.7), rel=1e-9
            )
        assert twin.audit_share(s, M, 2, 449.0) == pytest.approx(3.0 * 450.0 ** (-1.0 / 3.0))


@pytest.mark.parametrize(("slopes", "level", "ratio"), [(2.0, 2.0, 2.0), (1.0, 2.0, 1.0)])
def test_among_zeros_the_bulk_is_also_heard_as_many_times_as_large_as_the_mean(
    slopes, level, ratio
):
    """Whichever of both says that the two agree is right, and there are few audits."""
    _, policy = share(lambda x, rng: x[0] + rng.standard_normal(), 600)
    s, M = policy.packed
    bulk = bulk_row(M)
    M[bulk], M[bulk + 1] = [0.9, -0.4, 3.0], [0.0, 0.0, s[P.WEIGHT]]  # the average x is 0
    M[THETA] = M[bulk] * [slopes, slopes, level]
    s[E.ZEROS], s[TWO.APART] = 1.0, 1e-6
    assert max(twin.hausman(s, M, 2, INVERSE, by) for by in (1.0, 2.0)) > 100.0
    few = 3.0 * 1_001.0 ** (-1.0 / 3.0) * 0.2
    assert twin.audit_share(s, M, 2, 1_000.0) == pytest.approx(few, rel=1e-12)
    assert s[S.RATIO] == ratio


def test_the_share_is_owed_round_by_round():
    policy, audits, owed = ht.TwinUCB(2), 0, 0.0
    rng, s = np.random.default_rng(4), policy.packed[0]
    for t in range(1, 1_000):
        policy.update(rng.uniform(-0.7, 0.7, 2), float(rng.standard_normal()))
        owed += s[S.SHARE]
        audits += s[S.AUDIT] != 0.0
        assert 0 <= owed - audits < 1.0 + 1e-9, t


# --- looks


LOTTERY = by_arm([lambda rng: 1.0 + 0.2 * rng.normal(), lambda rng: 20.0 * (rng.random() < 0.1)])


@pytest.mark.parametrize("seed", range(3))
def test_a_lottery_is_found(seed):
    chosen = play(ht.TwinUCB(2), LOTTERY, 2_000, seed, np.eye(2))
    assert np.mean(chosen[-500:] == 1) > 0.9


def test_a_prize_of_one_in_fifty_is_mostly_found_beside_sure_arms():
    sure = [lambda rng, k=k: 1.0 - 0.1 * k + 0.2 * rng.normal() for k in range(3)]
    law = by_arm([*sure, lambda rng: 60.0 * (rng.random() < 0.02)])
    plays = [np.sum(play(ht.TwinUCB(4), law, 20_000, seed, np.eye(4)) == 3) for seed in range(4)]
    assert np.sum(np.array(plays) > 1_000) >= 2


def test_arms_that_never_pay_are_soon_left():
    law = by_arm([lambda rng: 1.0 + 0.1 * rng.normal(), lambda rng: 0.0, lambda rng: 0.0])
    chosen = play(ht.TwinUCB(3), law, 2_000, arms=np.eye(3))
    assert np.mean(chosen == 0) > 0.7


@pytest.mark.parametrize(("pays", "patience"), [(True, 1.0), (True, 20.0), (False, 1.0)])
def test_every_direction_is_tried_as_often_as_patience_asks(pays, patience):
    """1 / x'U x is at least 0.1 patience log² t, and ten times that where nothing ever paid."""
    dull = (lambda rng: 0.5 * rng.normal() - 3.0) if pays else (lambda rng: 0.0)
    law = by_arm([lambda rng: 1.0 + 0.1 * rng.normal(), dull, dull])
    policy = ht.TwinUCB(3, patience=patience)
    chosen = play(policy, law, 8_000, arms=np.eye(3))
    U = policy.packed[1][policy._rows["tried_inverse"]]
    rows = np.hstack([np.eye(3), np.ones((3, 1))])
    tried = 1.0 / np.sum(rows @ U * rows, axis=1)
    asked = 0.1 * patience * (1.0 if pays else 10.0) * math.log(8_000) ** 2
    assert tried.min() > 0.9 * asked
    assert np.bincount(chosen)[1:].max() < 1.5 * asked + 200.0
    assert np.bincount(chosen).argmax() == 0


def test_without_patience_nothing_is_looked_at():
    law = by_arm([lambda rng: 1.0 + 0.1 * rng.normal(), lambda rng: rng.normal() - 30.0])
    counts = [
        np.bincount(play(ht.TwinUCB(2, patience=k), law, 5_000, arms=np.eye(2)))[1]
        for k in (0.0, 1.0, 10.0)
    ]
    assert counts[0] < counts[1] < counts[2]
    s = ht.TwinUCB(2, patience=0.0).packed[0]
    s[S.KNOWN] = 1e-9
    assert twin_choice.overdue(s, 0.0, 1e9) == 0.0


def test_an_arm_is_overdue_by_its_formula():
    s = ht.TwinUCB(2, patience=3.0).packed[0]
    s[S.KNOWN], s[S.CONVERSION_LEVEL] = 0.05, 0.1
    assert twin_choice.overdue(s, 0.1, 0.4) == pytest.approx(0.6 * 0.4 / 0.05)
    s[E.ZEROS], s[ROUNDS], s[S.MISSED] = 2.0, 100.0, 5.0
    assert twin_choice.overdue(s, 0.1, 0.4) == pytest.approx(6.0 * 0.4 / 0.05)
    s[S.MISSED] = 5.01
    assert twin_choice.overdue(s, 0.1, 0.4) == pytest.approx(0.6 * 0.4 / 0.05)
    s[S.DIFFER] = 1.0
    assert twin_choice.overdue(s, 0.1, 0.4) == pytest.approx(6.0 * 0.4 / 0.05)
    assert twin_choice.overdue(s, 0.3, 0.13) == pytest.approx(0.6 * 0.13 / 0.05)
    assert twin_choice.overdue(s, -9.0, 0.4) == pytest.approx(6.0 * 0.4 / 0.05)
    s[S.CONVERSION_LEVEL] = 0.0  # paid three times: equal up to rounding
    assert twin_choice.overdue(s, 0.6 * (1.0 - 1e-12), 0.2) == pytest.approx(0.6 * 0.2 / 0.05)


@pytest.mark.parametrize(("spread", "hope"), [(0.25, 3.0), (0.5, 4.0), (2.0, 4.0)])
def test_no_arm_is_hoped_to_pay_more_often_than_always(spread, hope):
    s, inf = ht.TwinUCB(2).packed[0], math.inf
    s[P.UNIT] = 1.0
    rule = twin_choice.rule_of(s)._replace(
        radius=4.0, converts=1.0, paid=0.5, spread=spread, most=inf, below=inf, above=inf, hope=inf
    )
    assert twin_choice.index_of(rule, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0) == hope


@pytest.mark.parametrize("patience", [-1.0, math.nan, math.inf, 1e7, "much"])
def test_patience_is_a_number_of_at_least_0(patience):
    with pytest.raises((ValueError, TypeError), match=r"TwinUCB\.patience"):
        ht.TwinUCB(2, patience=patience)


# --- what it says


@pytest.mark.parametrize(("law", "patience"), [(plain, 20.0), (sold, 5.0)])
def test_an_explanation_names_the_arm_of_largest_index_unless_one_was_overdue(law, patience):
    policy, late = ht.TwinUCB(2, patience=patience), 0
    rng = np.random.default_rng(2)
    for _ in range(300):
        arm, said = policy.select(ARMS), policy.explain(ARMS)
        assert said.arm == arm
        index = said.parts["index"]
        if index[arm] < index.max() - 1e-9 * abs(index.max()):
            assert policy.packed[0][S.AUDIT] != 0.0
            late += 1
        assert ("conversion" in said.parts) == (policy.packed[0][E.ZEROS] > 0.0)
        policy.update(ARMS[arm], float(law(ARMS[arm], rng)))
    assert 0 < late < 200


def test_conversion_times_amount_is_what_is_predicted():
    policy = ht.TwinUCB(2)
    assert policy.conversion([0.3, 0.1]) == 1.0
    rng = np.random.default_rng(0)
    for k in range(4_000):
        x = ARMS[k % 4]
        policy.update(x, float((5.0 + x[1] + rng.normal()) * (rng.random() < 0.4 + 0.3 * x[0])))
    for x in ARMS:
        assert policy.conversion(x) == pytest.approx(0.4 + 0.3 * x[0], abs=0.06)
        assert policy.amount(x) == pytest.approx(5.0 + x[1], abs=0.3)
        found = policy.predict(x)
        assert found.mean == pytest.approx(policy.conversion(x) * policy.amount(x), rel=1e-12)
        assert found.low < (0.4 + 0.3 * x[0]) * (5.0 + x[1]) < found.high
    with pytest.raises(ValueError, match="conversion"):
        policy.conversion([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="amount"):
        policy.amount([math.nan, 0.2])


@pytest.mark.parametrize(
    "options",
    [
        {"target": "typical"},
        {"tail": ht.MomentBound(1.6, 1.0), "theta_bound": 1.0, "radius": "sharp"},
    ],
    ids=str,
)
def test_other_modes_pay_always_and_their_amount_is_their_mean(options):
    policy = ht.TwinUCB(2, **options)
    play(policy, sold, 100)
    assert policy.conversion(ARMS[0]) == 1.0
    assert policy.amount(ARMS[0]) == pytest.approx(policy.predict(ARMS[0]).mean)
    assert (policy.hausman()[0] == 0.0) == ("target" in options)


# --- kept and gone on with


@MEMORIES
@pytest.mark.parametrize("law", [plain, sold])
@pytest.mark.parametrize("rounds", [0, 3, 40, 400])
def test_it_is_saved_and_goes_on_to_the_same_bits(forget, law, rounds, tmp_path):
    policy = ht.TwinUCB(2, forget=forget, patience=2.0)
    play(policy, law, rounds)
    policy.save(tmp_path / "policy.npz")
    loaded = ht.load(tmp_path / "policy.npz")
    chosen = [play(each, law, 200, seed=5) for each in (policy, loaded)]
    np.testing.assert_array_equal(*chosen)
    mine, yours = policy.state_arrays(), loaded.state_arrays()
    for key in mine:
        np.testing.assert_array_equal(mine[key], yours[key])


@MEMORIES
def test_it_starts_from_an_earlier_estimate(forget):
    policy, cov = ht.TwinUCB(2, forget=forget), np.array([[4.0, 0.3], [0.3, 0.5]])
    policy.start_from([0.2, -0.1], cov)
    s, M = policy.packed
    np.testing.assert_array_equal(policy.bulk, [0.2, -0.1])
    np.testing.assert_allclose(policy.explain(ARMS).parts["judge"], ARMS @ [0.2, -0.1], atol=1e-12)
    U = M[policy._rows["tried_inverse"]] * (s[P.UNIT] * s[P.NU]) ** 2
    np.testing.assert_allclose(U, M[INVERSE : INVERSE + 3], rtol=1e-12)
    policy.update(ARMS[0], 1.0)
    assert policy.conversion(ARMS[1]) == 1.0
    assert np.mean(play(policy, plain, 500)[300:] == 1) > 0.8


def test_one_huge_reward_among_tiny_ones_leaves_a_state_that_can_be_saved(tmp_path):
    policy, rng = ht.TwinUCB(1), np.random.default_rng(0)
    with np.errstate(over="ignore"):  # as plain Python the kernels warn
        for t in range(60):
            policy.update([1.0], 1e300 if t == 7 else 1e-10 * (5.0 + rng.normal()))
    policy.save(tmp_path / "it.npz")
    again = ht.load(tmp_path / "it.npz")
    assert np.isfinite(policy.packed[0][[N.SIZE_ENERGY, N.SIZE_SQUARES, N.SIZE_MEAN]]).all()
    assert again.predict([1.0]) == policy.predict([1.0])


def test_conversion_fades_with_every_round_though_nothing_was_ever_paid():
    policy = ht.TwinUCB(2, forget=0.9)
    policy.start_from([1.0, 0.0], np.eye(2))
    for _ in range(300):
        policy.update([1.0, 0.0], 0.0)
    assert policy.packed[0][E.ZEROS] == pytest.approx(9.0, rel=1e-6)


@pytest.mark.parametrize("mode", [{"target": "typical"}, {"radius": "sharp"}, {"radius": "theory"}])
def test_patience_is_refused_where_there_are_no_looks(mode):
    with pytest.raises(ValueError, match=r"TwinUCB\.patience is for radius=\"empirical\""):
        ht.TwinUCB(2, tail=ht.MomentBound(1.5, 1.0), horizon=9, patience=2.0, **mode)
