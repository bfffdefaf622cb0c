"""Policies that keep their history, round by round beside plain NumPy twins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.naive import history as naive

import heavytail as ht
from heavytail._typing import FloatArray

ORDERS = (1.3, 1.6, 2.0)
DIMS = (1, 2, 5)
ROUNDS = 50
NU = 0.7
CLOSE = 1e-9
UNIT = 30.0  # of rewards, so that estimates divided by sigma's floors are of order one


def draw_arms(rng: np.random.Generator, count: int, dim: int) -> FloatArray:
    """Arms of any direction and of lengths 0.03 to 1."""
    x = rng.normal(size=(count, dim))
    return x * 10 ** rng.uniform(-1.5, 0.0, (count, 1)) / np.linalg.norm(x, axis=1, keepdims=True)


def play(
    policy: Any, twin: Any, arms_of: Any, *, seed: int = 0, rounds: int = ROUNDS, **how: Any
) -> None:
    """Let both choose and learn, from the same rewards, and compare them after every round."""
    rng = np.random.default_rng(seed)
    theta = np.full(policy.dim, 0.8 / math.sqrt(policy.dim))
    for t in range(rounds):
        arms = arms_of(rng, t)
        choice = policy.select(arms)
        assert choice == twin.select(arms), f"choice of round {t + 1}"
        # Not every choice is followed: they must agree off their own path too.
        x = arms[choice] if t % 3 else arms[rng.integers(len(arms))]
        size = how.get("noise", 1.0) * 10 ** rng.uniform(-2.0, 0.5)
        scale = float(size) if how.get("scaled") and t % 4 else None
        reward = how.get("unit", 1.0) * float(x @ theta + size * rng.standard_t(1.5))
        policy.update(x, reward, scale=scale)
        twin.update(x, reward, scale)
        compare(policy, twin, rng, how.get("accuracy", CLOSE), f"round {t + 1}")
    assert policy.rounds == rounds


def compare(policy: Any, twin: Any, rng: np.random.Generator, accuracy: float, where: str) -> None:
    size = max(float(np.linalg.norm(twin.theta)), 1e-2)
    np.testing.assert_allclose(
        policy.theta, twin.theta, rtol=0.0, atol=accuracy * size, err_msg=where
    )
    assert policy.radius == pytest.approx(twin.radius, rel=1e-11), where
    for name in ("sigma", "tau"):
        if hasattr(twin, name):
            assert getattr(policy, name) == pytest.approx(getattr(twin, name), rel=1e-9), where
    if isinstance(twin, naive.Optimist):
        np.testing.assert_allclose(
            policy.inverse_gram, twin.inverse_gram, rtol=1e-7, atol=1e-9 / twin.V[0, 0]
        )


def changing(count: int, dim: int, bound: float = 1.0) -> Any:
    return lambda rng, t: bound * draw_arms(rng, count, dim)


def pool(count: int, dim: int) -> Any:
    arms = draw_arms(np.random.default_rng(9), count, dim)
    arms /= np.linalg.norm(arms, axis=1, keepdims=True) ** 0.8  # of more equal lengths
    return lambda rng, t: arms


def subsets(count: int, dim: int, offered: int) -> Any:
    """A part of a fixed pool every round, in any order."""
    arms = pool(count, dim)(None, 0)
    return lambda rng, t: arms[rng.permutation(count)[:offered]]


def each_with_a_problem(knobs: dict[str, Any]) -> list[tuple[str, float, int]]:
    """Every set of knobs once, and every (order, dim) once, in one list of cases."""
    problems = [(order, dim) for dim in DIMS for order in ORDERS]
    names = list(knobs)
    count = max(len(names), len(problems))
    return [(names[i % len(names)], *problems[i % len(problems)]) for i in range(count)]


# --- HEAVY-OFUL and AdaOFUL

ADAPTIVE = {
    "defaults": {},
    "wide radius": {"radius_scale": 0.3},
    "clipping": {"threshold_scale": 0.02, "radius_scale": 0.02},
    "hard clipping in a small ball": {"threshold_scale": 0.003, "theta_bound": 0.1, "ridge": 0.05},
    "small ball": {"theta_bound": 0.3, "ridge": 0.2, "sigma_min": 0.2},
    "no ball": {"theta_bound": math.inf, "threshold_scale": 0.05, "delta": 0.05, "ridge": 0.3},
    "large": {"theta_bound": 3.0, "arm_bound": 2.0, "sigma_min": 0.4, "radius_scale": 0.05},
    "delta": {"delta": 0.2, "ridge": 7.0, "threshold_scale": 0.1},
    "coarse": {"sigma_min": 4.0, "ridge": 7.0, "threshold_scale": 0.2},  # kappa < 2 d
    "ridge regression": {"threshold_scale": math.inf, "ridge": 0.5},
}


def adaptive_pair(
    make: Any, twin: Any, dim: int, order: float, knobs: dict[str, Any], **own: Any
) -> tuple[Any, Any]:
    tail = ht.MomentBound(order=order, scale=NU)
    default = 0.001 if twin is naive.HeavyOFUL else 0.0003
    told = {"horizon": 90, **knobs}
    other = {"radius_scale": default, **told}
    return make(dim, tail=tail, **told, **own), twin(dim, order=order, scale=NU, **other)


def clipped(policy: Any) -> float:
    share = policy.diagnostics().clipped_share
    assert share is not None
    return share * policy.rounds


@pytest.mark.parametrize(
    ("make", "twin", "order"),
    [(ht.HeavyOFUL, naive.HeavyOFUL, 1.4), (ht.AdaOFUL, naive.AdaOFUL, 2.0)],
)
def test_every_term_of_sigma_rules_somewhere(make: Any, twin: Any, order: float) -> None:
    """Long arms, short arms and rounds of any scale: all four terms are the largest at times."""
    told = {"sigma_min": 0.05, "theta_bound": 1.7, "arm_bound": 1.3, "threshold_scale": 0.03}
    policy, other = adaptive_pair(make, twin, 3, order, told)
    rng = np.random.default_rng(2)
    for t in range(80):
        x = draw_arms(rng, 1, 3)[0] * (1.0, 1e-2, 1e-4)[t % 3]
        scale = 10 ** rng.uniform(-4.0, 1.0)
        reward = float(x.sum() + scale * rng.standard_t(1.5))
        policy.update(x, reward, scale=scale)
        other.update(x, reward, scale)
        compare(policy, other, rng, CLOSE, f"round {t + 1}")
    assert min(other.ruled.count(term) for term in range(4)) >= 5


def test_arms_of_zero_length_change_nothing_but_the_round() -> None:
    for make, twin, order in (
        (ht.HeavyOFUL, naive.HeavyOFUL, 1.5),
        (ht.AdaOFUL, naive.AdaOFUL, 2.0),
    ):
        policy, other = adaptive_pair(make, twin, 2, order, {})
        for t, reward in enumerate((0.3, -2.0, 5.0, 1.0)):
            x = np.array([0.5, 0.1]) * (t % 2)
            policy.update(x, reward)
            other.update(x, reward)
            compare(policy, other, np.random.default_rng(0), CLOSE, f"round {t + 1}")


@pytest.mark.parametrize("solver", ["lazy", "newton"])
@pytest.mark.parametrize(("knobs", "order", "dim"), each_with_a_problem(ADAPTIVE))
def test_heavy_oful_is_its_formulas(knobs: str, order: float, dim: int, solver: str) -> None:
    told = ADAPTIVE[knobs]
    policy, twin = adaptive_pair(ht.HeavyOFUL, naive.HeavyOFUL, dim, order, told, solver=solver)
    arms_of = changing(6, dim, told.get("arm_bound", 1.0))
    play(policy, twin, arms_of, scaled=True, unit=UNIT)
    assert clipped(policy) == pytest.approx(twin.clipped)
    if told.get("threshold_scale", 1.0) < 0.1:
        assert twin.clipped > 0
    if told.get("theta_bound", math.inf) < 1.0 and dim > 1:
        assert twin.held > 0


@pytest.mark.parametrize(("order", "dim"), [(1.3, 5), (1.6, 2), (2.0, 2)])
def test_heavy_oful_holds_its_estimate_in_the_ball(order: float, dim: int) -> None:
    told = {"threshold_scale": 0.1, "radius_scale": 0.01, "theta_bound": 0.2, "ridge": 0.5}
    policy, twin = adaptive_pair(ht.HeavyOFUL, naive.HeavyOFUL, dim, order, told)
    play(policy, twin, changing(6, dim), scaled=True, seed=1, unit=UNIT)
    assert 0 < twin.held
    assert 0 < twin.clipped < ROUNDS


@pytest.mark.parametrize("solver", ["lazy", "newton"])
@pytest.mark.filterwarnings("ignore:HeavyOFUL. round")
@pytest.mark.parametrize(
    ("dim", "theta_bound", "threshold", "more"),
    [
        (1, math.inf, 0.1, {}),
        (2, math.inf, 0.2, {"ridge": 100.0, "arm_bound": 10.0}),  # rows longer than 1
        (2, 5.0, 0.1, {}),
        (5, 12.0, 0.06, {}),
    ],
)
def test_heavy_oful_follows_rows_in_and_out_of_their_threshold(
    dim: int, theta_bound: float, threshold: float, more: dict[str, float], solver: str
) -> None:
    """A large theta* that is reached slowly: what is clipped at first is not later on.

    sigma_t >= sqrt(23 l) n lets V grow by 1 + 1/(23 l) per round, so l is made as small as it can.
    """
    told = {"threshold_scale": threshold, "theta_bound": theta_bound, "ridge": 1.0}
    told |= {"horizon": 1, "delta": 0.99, "sigma_min": 0.01, "radius_scale": 0.01, **more}
    policy, twin = adaptive_pair(ht.HeavyOFUL, naive.HeavyOFUL, dim, 1.6, told, solver=solver)
    arms_of = changing(6, dim, told.get("arm_bound", 1.0))
    play(policy, twin, arms_of, noise=0.2, unit=UNIT, rounds=90)
    assert twin.turned >= 5


@pytest.mark.parametrize("solver", ["gd", "lbfgs"])
@pytest.mark.parametrize(("order", "dim"), [(1.3, 2), (1.6, 1), (2.0, 5)])
@pytest.mark.parametrize("theta_bound", [0.02, math.inf])
def test_the_solvers_that_only_come_near_do_so(
    solver: str, order: float, dim: int, theta_bound: float
) -> None:
    told = {"threshold_scale": 0.05, "theta_bound": theta_bound, "ridge": 3.0, "sigma_min": 1.0}
    own = {"solver": solver, "tolerance": 1e-10}
    policy, twin = adaptive_pair(ht.HeavyOFUL, naive.HeavyOFUL, dim, order, told, **own)
    play(policy, twin, changing(6, dim), rounds=20, accuracy=1e-8, unit=UNIT)
    assert twin.held > 0 or theta_bound == math.inf


def test_gradient_descent_stops_where_its_tolerance_says() -> None:
    told = {"threshold_scale": 0.05, "theta_bound": math.inf, "ridge": 1.0}
    errors = []
    for tolerance in (1e-1, 1e-3, 1e-5):
        own = {"solver": "gd", "tolerance": tolerance}
        policy, twin = adaptive_pair(ht.HeavyOFUL, naive.HeavyOFUL, 2, 1.5, told, **own)
        rng = np.random.default_rng(0)
        for x in draw_arms(rng, 25, 2):
            reward = float(rng.standard_t(1.5))
            policy.update(x, reward)
            twin.update(x, reward)
        errors.append(float(np.linalg.norm(policy.theta - twin.theta)))
        assert errors[-1] <= tolerance
    assert errors[0] > errors[1] > errors[2] > 0.0


@pytest.mark.parametrize(("knobs", "_", "dim"), each_with_a_problem(ADAPTIVE))
def test_ada_oful_is_its_formulas(knobs: str, _: float, dim: int) -> None:
    told = ADAPTIVE[knobs]
    policy, twin = adaptive_pair(ht.AdaOFUL, naive.AdaOFUL, dim, 2.0, told)
    play(policy, twin, changing(6, dim, told.get("arm_bound", 1.0)), scaled=True, unit=UNIT)
    assert clipped(policy) == pytest.approx(twin.clipped)


# --- TOFU

TOFU = {
    "defaults": {},
    "truncating": {"threshold_scale": 0.2, "radius_scale": 0.3},
    "bounds": {"theta_bound": 0.4, "arm_bound": 1.5, "ridge": 0.2, "delta": 0.1},
    "hardly truncating": {"threshold_scale": 3.0, "horizon": 5000, "ridge": 4.0},
    "never truncating": {"threshold_scale": math.inf},
}


@pytest.mark.parametrize(("knobs", "order", "dim"), each_with_a_problem(TOFU))
def test_tofu_is_its_formulas(knobs: str, order: float, dim: int) -> None:
    told = {"horizon": 90, **TOFU[knobs]}
    policy = ht.TOFU(dim, tail=ht.MomentBound(order=order, scale=NU), **told)
    twin = naive.TOFU(dim, order=order, scale=NU, **told)
    assert policy.radius == pytest.approx(twin.radius, rel=1e-12)
    play(policy, twin, changing(6, dim, told.get("arm_bound", 1.0)), scaled=True)
    assert policy.truncated == twin.truncated
    assert (twin.truncated > 0) == (knobs != "never truncating")


# --- BTC

BTC = {
    "defaults": {},
    "truncating": {"threshold_scale": 0.3, "radius_scale": 0.01},
    "bounds": {"theta_bound": 0.4, "arm_bound": 1.5, "ridge": 0.2, "delta": 0.1},
    "never truncating": {"threshold_scale": math.inf, "arms": 30, "horizon": 5000},
}


def btc_pair(dim: int, order: float, knobs: dict[str, Any]) -> tuple[Any, Any]:
    told = {"horizon": 90, "arms": 6, **knobs}
    policy = ht.BTC(dim, tail=ht.MomentBound(order=order, scale=NU), **told)
    twin = naive.BTC(dim, order=order, scale=NU, **told)
    assert policy.radius == pytest.approx(twin.radius, rel=1e-12)
    return policy, twin


@pytest.mark.filterwarnings("ignore:invalid value")  # inf * 0 without rewards, compiler off
@pytest.mark.parametrize(("knobs", "order", "dim"), each_with_a_problem(BTC))
def test_btc_is_its_formulas(knobs: str, order: float, dim: int) -> None:
    policy, twin = btc_pair(dim, order, BTC[knobs])
    fixed = pool(4, dim)(None, 0)
    fixed[1] = np.concatenate([fixed[0, :1], -fixed[0, 1:]])  # the first coordinate is not the arm
    own = BTC[knobs].get("arm_bound", 1.0) * fixed
    fresh = changing(2, dim)
    play(policy, twin, lambda rng, t: np.concatenate([own, fresh(rng, t)]))
    for x in own:
        assert policy.expected(x) == pytest.approx(twin.predict(x), rel=1e-9, abs=1e-10)


SUP = {
    "narrow": {"radius_scale": 0.02},
    "middle": {"radius_scale": 0.08, "threshold_scale": 0.5},
    "short": {"horizon": 20, "radius_scale": 0.02},
    "exploiting": {"horizon": 18, "radius_scale": 0.01},
    "one reward is enough": {"ridge": 0.01, "radius_scale": 0.004},  # stage 1 ends below 1/sqrt(T)
    "finest": {"radius_scale": 0.008},  # 2^-4 < widths of stage 4 < 1/sqrt(T)
    "long": {"horizon": 3000, "radius_scale": 0.01, "theta_bound": 0.4, "ridge": 0.5},
}


@pytest.mark.filterwarnings("ignore:BTC. round")
@pytest.mark.parametrize(("knobs", "order", "dim"), each_with_a_problem(SUP))
def test_sup_btc_is_its_stages(knobs: str, order: float, dim: int) -> None:
    policy, twin = btc_pair(dim, order, {"sup": True, **SUP[knobs]})
    play(policy, twin, pool(6, dim), noise=0.3)


def test_sup_btc_of_one_stage_is_its_stage() -> None:
    policy, twin = btc_pair(2, 1.6, {"sup": True, "horizon": 7, "radius_scale": 0.02})
    play(policy, twin, pool(6, 2), rounds=7, noise=0.3)


@pytest.mark.filterwarnings("ignore:BTC. round")
def test_the_stages_of_sup_btc_end_in_every_way() -> None:
    ways: set[str] = set()
    for knobs in SUP.values():
        policy, twin = btc_pair(2, 1.6, {"sup": True, **knobs})
        arms = pool(6, 2)(None, 0)
        twice = np.concatenate([arms, arms])  # ties go to the first
        play(policy, twin, lambda rng, t, arms=twice: arms, noise=0.3, seed=1, rounds=30)
        ways |= set(twin.ways)
    assert ways >= {"exploit", "explore 1", "explore 2", "explore 3", "out of stages"}


# --- Huber-Bandit

HUBER = {
    "defaults": {},
    "clipping": {"threshold_scale": 0.3, "ridge": 0.1},
    "gap": {"gap": 1.0, "radius_scale": 0.7, "forced": 1},
    "delta": {"delta": 0.3, "forced": 3, "threshold_scale": 0.5},
    "least squares": {"threshold_scale": math.inf, "ridge": 0.5},
}


def huber_pair(dim: int, order: float, arms: int, **knobs: Any) -> tuple[Any, Any]:
    policy = ht.HuberBandit(dim, tail=ht.MomentBound(order=order, scale=NU), arms=arms, **knobs)
    return policy, naive.HuberBandit(dim, order=order, scale=NU, arms=arms, **knobs)


def near_a_pool(count: int, dim: int) -> Any:
    """Every arm at a random point near its own."""
    arms = 0.8 * pool(count, dim)(None, 0)
    return lambda rng, t: arms + rng.uniform(-0.05, 0.05, (count, dim))


@pytest.mark.parametrize(("knobs", "order", "dim"), each_with_a_problem(HUBER))
@pytest.mark.parametrize("shared", [False, True])
def test_huber_bandit_is_its_formulas(knobs: str, order: float, dim: int, shared: bool) -> None:
    policy, twin = huber_pair(dim, order, 4, shared=shared, **HUBER[knobs])
    offered = (pool(4, dim), near_a_pool(4, dim))[len(knobs) % 2]
    play(policy, twin, offered)
    for fit, other in zip(policy.models, twin.fits, strict=False):
        np.testing.assert_allclose(fit, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("arms", "offered"), [(5, 5), (5, 3), (5, 1), (3, 6)])
@pytest.mark.parametrize("shared", [False, True])
def test_huber_bandit_plays_any_part_of_the_pool(arms: int, offered: int, shared: bool) -> None:
    policy, twin = huber_pair(2, 1.6, arms, shared=shared)
    play(policy, twin, subsets(max(arms, offered), 2, offered))


def test_a_reserved_round_plays_its_own_arm_wherever_it_is_offered() -> None:
    arms = pool(4, 2)(None, 0)
    policy, twin = huber_pair(2, 1.6, 4, forced=2)
    for t in range(1, 9):  # phase 0 over the whole pool: arm k is its index
        k = policy.select(arms)
        assert k == (t - 1) // 2
        policy.update(arms[k], 0.1)
    for t in range(9, 33):
        k = twin.reserved.get(t)
        for offered in ([3, 1, 0, 2], [2, 3], [1, 0], [0]):
            if k in offered:
                assert offered[policy.select(arms[offered])] == k
            elif k is not None:
                near = min(offered, key=lambda i: float(np.sum((arms[i] - arms[k]) ** 2)))
                assert offered[policy.select(arms[offered])] == near
        policy.update(arms[t % 4], 0.1)


def test_a_reserved_round_of_an_unknown_arm_plays_the_first_unknown_one() -> None:
    arms = pool(5, 2)(None, 0)
    policy, _ = huber_pair(2, 1.6, 5, forced=1)
    policy.update(arms[2], 0.1)  # arm 0
    assert policy.select(arms[[2, 4, 3]]) == 1  # reserved for arm 1
    policy.update(arms[4], 0.1)
    assert policy.select(arms[[4, 2, 0]]) == 2
    assert policy.select(arms[[4, 2]]) == 0  # both known: the offered in turn, 2 % 2


def test_over_a_fixed_pool_a_reserved_arm_is_its_index() -> None:
    arms = pool(5, 3)(None, 0)
    policy, twin = huber_pair(3, 1.6, 5, forced=2)
    rng = np.random.default_rng(0)
    for t in range(1, 151):
        choice = policy.select(arms)
        if t in twin.reserved:
            assert choice == twin.reserved[t]
        policy.update(arms[choice], float(arms[choice].sum() + rng.standard_t(1.5)))
