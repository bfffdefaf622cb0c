"""The unit of the practical mode: later rewards that contradict it set it anew."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive import practice as naive
from tests.naive import twin as naive_twin
from tests.naive.common import game, together
from tests.naive.forgetting import HvtFading, TwinFading
from tests.storage_tools import rewrite

import heavytail as ht
from heavytail.kernels.layout import INVERSE, PROJECTED, ROUNDS, SET_ANEW, THETA
from heavytail.policies.core.practice import PRACTICE as P

ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0], [-0.5, 0.5]])
POLICIES = {
    "twin": ht.TwinUCB,
    "typical": lambda dim: ht.TwinUCB(dim, target="typical"),
    "twin that forgets": lambda dim: ht.TwinUCB(dim, forget=0.999),
    "twin that begins anew": lambda dim: ht.TwinUCB(dim, forget="auto"),
    "hvt": ht.HvtUCB,
    "hvt, fixed clip": lambda dim: ht.HvtUCB(dim, clip=1.345),
    "hvt that forgets": lambda dim: ht.HvtUCB(dim, forget=0.999),
    "stated": lambda dim: ht.TwinUCB(dim, tail=ht.MomentBound(1.5, 1.0)),
}
EACH = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)


def reward_of(x, rng):
    return float(3.0 + x @ [1.0, -0.3] + 0.3 * rng.standard_t(2.5))


def play(policy, first, count, seed=0, factor=1.0):
    """The arms chosen; the ``first`` rewards are as given."""
    rng = np.random.default_rng(seed)
    chosen = []
    for t in range(count):
        chosen.append(policy.select(ARMS))
        x = ARMS[chosen[-1]]
        ordinary = reward_of(x, rng)
        policy.update(x, factor * (first[t] if t < len(first) else ordinary))
    return np.array(chosen)


@EACH
@pytest.mark.parametrize("absurd", [1e300, 1e9, 1e5, 1e-3, 1e-9, 1e-300])
@pytest.mark.parametrize("of", [3, 12])
def test_absurd_first_rewards_do_not_decide_for_good(make, absurd, of):
    chosen = play(make(2), [absurd] * of, 600)
    assert np.mean(chosen[300:] == 1) > 0.8


@EACH
def test_a_world_in_which_one_reward_in_ten_is_absurd_is_learned(make):
    rng, policy = np.random.default_rng(5), make(2)
    for t in range(200):
        x = ARMS[t % 4]
        ordinary = reward_of(x, rng)
        policy.update(x, 1e300 if t < 3 or rng.random() < 0.1 else ordinary)
    s = policy.packed[0]
    assert 1.0 < s[P.UNIT] < 100.0
    assert 5.0 < s[P.BEGAN] < 150.0


def astray(policy, first, later):
    """Feed it five rewards of size ``first`` and then ``later``; its ASTRAY after each of these."""
    for k, reward in enumerate([first] * 5 + list(later)):
        policy.update(ARMS[k % 4], reward)
        if k >= 5:
            yield float(policy.packed[0][P.ASTRAY])


def test_a_thousand_times_smaller_or_larger_than_the_first_contradicts():
    sides = list(astray(ht.HvtUCB(2), 1.0, [1.001e-3, 0.999e-3, -0.999e-3, 1.0, 1.001e3, 0.0, 1e3]))
    assert sides == [0.0, -1.0, -2.0, 0.0, 4.0, 4.0, 3.0]
    sides = list(astray(ht.HvtUCB(2), 1.0, [1.001e3, -1.001e3, 0.0, 999.0, 1e-4, 1e-4, 1e-4]))
    assert sides == [4.0, 8.0, 8.0, 7.0, 6.0, 5.0, 4.0]


@pytest.mark.parametrize(
    ("sizes", "unit"), [([2e-5, 7e-5, 3e-5, 1e-5], 2e-4), ([4e5, 2e5, 3e5, 9e5], 4e6)]
)
@EACH
def test_32_set_it_anew_and_all_begins_again(make, sizes, unit):
    policy = make(2)
    for _ in astray(policy, 1.0, sizes * 7 + sizes[:3]):  # 31 of them
        assert policy.packed[0][P.UNIT] == 10.0
    policy.update(ARMS[0], sizes[3])
    s, M = policy.packed
    assert s[P.UNIT] == pytest.approx(unit, rel=1e-14)
    assert s[P.TYPICAL] == pytest.approx(unit / 1.4826, rel=1e-14)
    assert (s[P.BEGAN], s[P.TELLING], s[P.ASTRAY]) == (s[ROUNDS], 5.0, 0.0)
    assert s[P.TAU] == s[P.CLIP]
    assert s[PROJECTED] == SET_ANEW  # whoever keeps scores rates anew
    start = np.eye(3) * unit**2 / s[P.RIDGE]
    np.testing.assert_allclose(M[INVERSE : INVERSE + 3], start, rtol=1e-12)
    empty = [P.STABILITY, P.ENERGY, P.LOST, P.WEIGHT, P.WEIGHT_SQUARES, P.NEAR, P.FAR, P.RUN]
    assert not s[empty].any()
    assert not M[THETA].any()
    assert not any(policy.state.get("sizes", np.zeros(1)))
    before = policy.diagnostics()
    copy = make(2)
    copy.restore(policy.state_arrays())  # a state like any other
    assert copy.diagnostics() == before


@pytest.mark.parametrize(
    ("size", "votes", "short"), [(1e-5, [-27.0, -23.0], 4), (1e5, [108.0, 107.0], 1)]
)
def test_the_new_unit_is_ten_times_the_median_of_the_last_five(size, votes, short):
    """Neither one far smaller nor two far larger move it; what was taken back has no say."""
    policy = ht.HvtUCB(2)
    last = [30.0 * size, 0.05 * size, 3.0 * size, 40.0 * size, 2.0 * size]
    steps = list(astray(policy, 1.0, [size] * 26 + [50.0 * size, 1.0] + [size] * short + last))
    assert steps[26:28] == votes
    assert policy.packed[0][P.UNIT] == pytest.approx(30.0 * size)


@EACH
def test_sizes_that_spread_over_orders_of_magnitude_set_a_unit_that_they_keep(make):
    """Three first rewards of nothing, then log-normal ones: the least of them is no unit."""
    rng, policy = np.random.default_rng(8), make(2)
    for t in range(600):
        policy.update(ARMS[t % 4], 1e-12 if t < 3 else float(rng.lognormal(0.0, 2.0)))
    assert 0.3 < policy.packed[0][P.UNIT] < 300.0


@pytest.mark.parametrize("size", [1e-80, 1e-300, 1e80, 1e300])
@EACH
def test_sizes_that_no_unit_can_have_contradict_none(make, size):
    assert not any(astray(make(2), size, [size, 3.0 * size, 0.1 * size] * 30))


def test_a_round_is_measured_in_its_own_scale():
    policy = ht.HvtUCB(2)
    for k in range(60):
        scale = 10.0 ** (5 * (k % 3 - 1))
        policy.update(ARMS[k % 4], 2.0 * scale, scale=scale)
        assert policy.packed[0][P.ASTRAY] == 0.0


def test_an_earlier_estimate_is_not_forgotten():
    policy = ht.TwinUCB(2)
    policy.start_from([0.2, -0.1], 1e14 * np.eye(2))
    for k in range(100):
        policy.update(ARMS[k % 4], 1.0)
    assert (policy.packed[0][P.BEGAN], policy.packed[0][P.ASTRAY]) == (0.0, 0.0)


def test_a_log_link_has_a_unit_of_its_own():
    policy = ht.HvtGLB(2, link="log", rewards="amounts")
    for k in range(100):
        policy.update(ARMS[k % 4], 1e9 if k < 5 else 1.0)
    assert (policy.packed[0][P.UNIT], policy.packed[0][P.BEGAN]) == (1.0, 5.0)


@EACH
@pytest.mark.parametrize("absurd", [2.0**900, 2.0**-900])
def test_the_unit_of_the_rewards_does_not_matter(make, absurd):
    """But where the ends of the range clip the first unit, which the new one does not hang on."""
    if make is POLICIES["stated"]:
        return
    plain, scaled = make(2), make(2)
    first = [absurd] * 4
    np.testing.assert_array_equal(play(plain, first, 200), play(scaled, first, 200, factor=2.0**20))
    assert plain.packed[0][P.BEGAN] == scaled.packed[0][P.BEGAN] > 5.0
    np.testing.assert_array_equal(2.0**20 * plain.theta, scaled.theta)


@EACH
@pytest.mark.parametrize("absurd", [1e300, 1e-9])
def test_it_is_saved_in_between(make, absurd, tmp_path):
    policy = make(2)
    play(policy, [absurd] * 4, 24)
    assert policy.packed[0][P.UNITS] == 0.0 != policy.packed[0][P.ASTRAY]
    policy.save(tmp_path / "policy.npz")
    loaded = ht.load(tmp_path / "policy.npz")
    np.testing.assert_array_equal(play(policy, [], 100, seed=3), play(loaded, [], 100, seed=3))
    np.testing.assert_array_equal(policy.theta, loaded.theta)
    assert policy.packed[0][P.BEGAN] > 24.0


@EACH
def test_a_file_from_before_is_gone_on_with(make, tmp_path):
    policy = make(2)
    play(policy, [], 50)
    policy.save(tmp_path / "policy.npz")

    def drop(header, arrays):
        names = header["slots"]["scalars"]
        kept = [i for i, name in enumerate(names) if name not in ("astray", "dropped")]
        header["slots"]["scalars"] = [names[i] for i in kept]
        arrays["scalars"] = arrays["scalars"][kept]

    rewrite(tmp_path / "policy.npz", drop)
    loaded = ht.load(tmp_path / "policy.npz")
    np.testing.assert_array_equal(policy.packed[0], loaded.packed[0])


# --- beside the twins


LOOK = ("theta", "radius", "inverse_gram")
TWINS = {
    "hvt": (ht.HvtUCB, naive.HvtPractice),
    "twin": (ht.TwinUCB, naive_twin.TwinUCB),
    "twin that forgets": (
        lambda d: ht.TwinUCB(d, forget=0.98),
        lambda d: TwinFading(d, forget=0.98),
    ),
    "hvt that forgets": (lambda d: ht.HvtUCB(d, forget=0.98), lambda d: HvtFading(d, forget=0.98)),
    "hvt that begins anew": (
        lambda d: ht.HvtUCB(d, forget="auto"),
        lambda d: HvtFading(d, restarts=True),
    ),
    "stated": (
        lambda d: ht.TwinUCB(d, tail=ht.MomentBound(2.0, 0.5)),
        lambda d: naive_twin.TwinUCB(d, scale=0.5),
    ),
}


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize("absurd", [1e8, 1e-7])
@pytest.mark.parametrize(("make", "twin"), TWINS.values(), ids=TWINS)
def test_it_is_set_anew_as_in_the_twin(make, twin, absurd, scales):
    policy, mirror, paid = make(2), twin(2), []

    def reward(x, noise):
        paid.append(1.0)
        if len(paid) <= 4:
            return absurd * (1.0 + 0.1 * len(paid))
        return 0.0 if len(paid) % 7 == 3 else float(1.0 + x[0] + noise)

    together(policy, mirror, game(2, 130, scales=scales, noise=0.5), LOOK, reward=reward)
    assert policy.packed[0][P.BEGAN] > 30.0
