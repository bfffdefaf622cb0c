"""What every policy promises, defaults that depend on the problem, and bounds of arguments."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.confidence import lemma_1, lsvi_radius
from heavytail.policies.crtm import crtm_constants

TAIL = ht.MomentBound(order=2.0, scale=0.7)
# Of Info: what is true of the policy beside its moment; then the class's own promises.
PROMISES: dict[str, tuple[str, set[str]]] = {
    "AdaOFUL": ("central", {"horizon", "uses_scale"}),
    "BMM": ("central", {"horizon", "repeats"}),
    "BTC": ("raw", {"horizon"}),
    "CRMM": ("central", {"horizon", "repeats", "symmetric"}),
    "CRT": ("raw", {"horizon", "rank_one"}),
    "CRTM": ("raw", {"horizon", "rank_one"}),
    "ECOLog": ("none", {"rank_one"}),
    "EpsilonGreedy": ("sub-Gaussian", {"randomised"}),
    "GLMUCB": ("sub-Gaussian", set()),
    "GLOC": ("sub-Gaussian", {"rank_one"}),
    "HeavyOFUL": ("central", {"horizon", "uses_scale"}),
    "HuberBandit": ("central", set()),
    "HvtUCB": ("central", {"uses_scale", "rank_one", "takes_prior"}),
    "LinTS": ("sub-Gaussian", {"randomised"}),
    "MENU": ("central", {"horizon", "repeats"}),
    "MoM": ("central", {"horizon", "repeats"}),
    "OFUL": ("sub-Gaussian", {"rank_one", "takes_prior"}),
    "OL2M": ("none", {"rank_one"}),
    "RobustUCB": ("raw", {"horizon", "fixed_arms"}),
    "TOFU": ("raw", {"horizon"}),
    "TwinUCB": ("central", {"uses_scale", "rank_one", "takes_prior"}),
    "Uniform": ("none", {"randomised"}),
}
OF_INFO = ("horizon", "repeats", "symmetric", "fixed_arms", "uses_scale", "randomised")
OF_ALGORITHM = ("rank_one", "takes_prior")


def build(name: str, **options: Any) -> Any:
    problem = {"dim": 2, "horizon": 5000, "tail": TAIL, "arms": 4}
    return ht.make_policy(name, **{**problem, **options})


def options_of(name: str) -> list[str]:
    """The arguments of a policy that need not be given."""
    parameters = inspect.signature(getattr(ht, name)).parameters.values()
    return [p.name for p in parameters if p.default is not p.empty]


@pytest.mark.parametrize("name", PROMISES)
def test_a_policy_promises_what_the_table_says(name: str) -> None:
    kind = type(build(name))
    moment, promised = PROMISES[name]
    assert kind.info.moment == moment
    assert {flag for flag in OF_INFO if getattr(kind.info, flag)} | {
        flag for flag in OF_ALGORITHM if getattr(kind.algorithm, flag)
    } == promised
    assert kind.info.only_order == (2.0 if name == "AdaOFUL" else None)


def test_only_the_randomised_policies_have_a_key() -> None:
    for name, (_, promised) in PROMISES.items():
        policy = build(name)
        if "randomised" in promised:
            policy.reseed(17)
            assert policy._s[policy.algorithm.key_slot] == 17.0
        else:
            assert policy.algorithm.key_slot == -1


@pytest.mark.parametrize("name", ["EpsilonGreedy", "LinTS", "Uniform"])
def test_a_key_is_the_seed_below_two_to_the_53_so_that_a_float_holds_it(name: str) -> None:
    policy = build(name)
    for seed, key in ((0, 0.0), (2**53 - 1, 2.0**53 - 1.0), (2**53 + 5, 5.0), (3 * 2**53, 0.0)):
        policy.reseed(seed)
        assert policy._s[policy.algorithm.key_slot] == key
    with pytest.raises(ValueError, match="seed"):
        policy.reseed(-1)


# --- Defaults that depend on the problem


@pytest.mark.parametrize("name", ["AdaOFUL", "HeavyOFUL"])
def test_adaptive_regression_takes_lambda_delta_and_the_floor_from_the_problem(name: str) -> None:
    for bound in (1.0, 3.0):
        named = build(
            name,
            theta_bound=bound,
            ridge=2.0 / bound**2,
            delta=1.0 / (8.0 * 5000),
            sigma_min=5000**-0.5,
        )
        np.testing.assert_array_equal(build(name, theta_bound=bound)._s, named._s)


def test_hvt_ucb_takes_lambda_delta_and_the_floor_from_the_problem() -> None:
    theory = build("HvtUCB", radius="theory")
    named = {"alpha": 4.0, "ridge": 2.0, "delta": 1.0 / 40_000.0, "sigma_min": 5000**-0.5}
    np.testing.assert_array_equal(theory._s, build("HvtUCB", radius="theory", **named)._s)
    practice = build("HvtUCB", alpha=1.0, ridge=0.02, delta=0.01, intercept=True)
    np.testing.assert_array_equal(build("HvtUCB")._s, practice._s)
    assert build("HvtUCB")._M.shape == practice._M.shape


@pytest.mark.parametrize("name", ["OFUL", "LinTS"])
@pytest.mark.parametrize(
    ("horizon", "delta"), [(None, 0.01), (1, 0.5), (2, 0.5), (3, 1 / 3), (5000, 1 / 5000)]
)
def test_a_baseline_fails_with_one_over_the_horizon_at_most_one_half(
    name: str, horizon: int | None, delta: float
) -> None:
    own, named = (build(name, horizon=horizon, **how) for how in ({}, {"delta": delta}))
    np.testing.assert_array_equal(own._s, named._s)


@pytest.mark.parametrize(("horizon", "delta"), [(1, 0.5), (2, 0.5), (3, 1 / 3), (900, 1 / 900)])
def test_tofu_fails_with_one_over_the_horizon_at_most_one_half(horizon: int, delta: float) -> None:
    own, named = (build("TOFU", horizon=horizon, **how) for how in ({}, {"delta": delta}))
    np.testing.assert_array_equal(own._s, named._s)


@pytest.mark.parametrize("name", ["OFUL", "LinTS"])
def test_a_baseline_takes_the_scale_of_the_tail_and_needs_one_of_both(name: str) -> None:
    kind = type(build(name))
    np.testing.assert_array_equal(kind(2, tail=TAIL)._s, kind(2, tail=TAIL, noise_scale=0.7)._s)
    assert kind(2, noise_scale=0.3).radius == kind(2, noise_scale=0.3, tail=TAIL).radius
    with pytest.raises(ValueError, match="got neither"):
        kind(2)


def test_oful_states_its_prior_in_the_unit_of_the_noise() -> None:
    assert ht.OFUL(2, noise_scale=0.3)._prior_unit == pytest.approx(0.09)
    assert ht.OFUL(2, noise_scale=3.0)._prior_unit == pytest.approx(9.0)
    assert ht.OFUL(2, noise_scale=0.0)._prior_unit == 1.0


def test_lemma_1_has_the_constants_of_the_paper_where_nothing_is_said() -> None:
    T, dim = 700, 3
    for order in (1.5, 2.0):
        named = lemma_1(
            dim,
            order,
            T,
            alpha=4.0,
            ridge=3.0,
            theta_bound=1.0,
            arm_bound=1.0,
            sigma_min=T**-0.5,
            delta=1.0 / (8.0 * T),
        )
        assert lemma_1(dim, order, T) == named
        assert named.kappa == pytest.approx(dim * math.log(1.0 + T * T / (3.0 * 4.0 * dim)))


@pytest.mark.parametrize(
    "knobs",
    [
        {"alpha": 2.5},
        {"ridge": 0.4},
        {"theta_bound": 3.0},
        {"arm_bound": 2.0},
        {"sigma_min": 0.3},
        {"delta": 0.7},
        {"horizon": 1},
    ],
    ids=str,
)
def test_lemma_1_is_its_formulas(knobs: dict[str, Any]) -> None:
    dim, order = 3, 1.5
    T = knobs.pop("horizon", 700)
    lemma = lemma_1(dim, order, T, **knobs)
    alpha, ridge = knobs.get("alpha", 4.0), knobs.get("ridge", 3.0)
    S, L = knobs.get("theta_bound", 1.0), knobs.get("arm_bound", 1.0)
    floor, delta = knobs.get("sigma_min", T**-0.5), knobs.get("delta", 1.0 / (8.0 * T))
    kappa = dim * math.log(1.0 + L**2 * T / (floor**2 * ridge * alpha * dim))
    ell = math.log(2.0 * T**2 / delta)
    a = (2.0 - order) / (2.0 * order)
    tau_0 = math.sqrt(2.0 * kappa) * math.log(3.0 * T) ** a / ell ** (1.0 / order)
    beta_0 = math.sqrt(ridge * (2.0 + 4.0 * S**2))
    assert lemma.kappa == pytest.approx(kappa)
    assert lemma.ell == pytest.approx(ell)
    assert lemma.tau_0 == pytest.approx(tau_0)
    assert lemma.beta_0 == pytest.approx(beta_0)
    assert lemma.order == order
    assert lemma.slope == pytest.approx(107.0 * ell * tau_0)
    assert lemma.beta(0) == pytest.approx(beta_0)
    for t in (1, 2, 50):
        assert lemma.beta(t) == pytest.approx(107.0 * ell * tau_0 * t**a + beta_0)


@pytest.mark.parametrize(
    ("d", "H", "K", "delta"), [(1, 1, 1, 0.5), (4, 3, 50, 0.01), (2, 7, 9, 0.99)]
)
def test_the_bonus_of_lsvi_is_its_formula(d: int, H: int, K: int, delta: float) -> None:
    expected = d * H * math.sqrt(math.log(2 * d * K * H / delta))
    assert lsvi_radius(d, H, K, delta) == pytest.approx(expected)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_a_failure_probability_lies_between_0_and_1_both_left_out(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        lsvi_radius(2, 3, 4, delta)
    with pytest.raises(ValueError, match="delta"):
        lemma_1(2, 1.5, 10, delta=delta)
    for name in PROMISES:
        if "delta" in options_of(name):
            more = {"radius": "theory"} if name == "HvtUCB" else {}
            for how in ({}, more):
                with pytest.raises(ValueError, match="delta"):
                    build(name, delta=delta, **how)


@pytest.mark.parametrize("delta", [1e-9, 0.75, 1.0 - 1e-9])
def test_any_other_failure_probability_is_taken(delta: float) -> None:
    assert lsvi_radius(2, 3, 4, delta) > 0.0
    assert lemma_1(2, 1.5, 10, delta=delta).ell > 0.0
    for name in PROMISES:
        if "delta" in options_of(name):
            more = {"radius": "sharp", "theta_bound": 1.0} if name == "TwinUCB" else {}
            assert build(name, horizon=100_000, delta=delta, **more).radius > 0.0


@pytest.mark.parametrize("argument", ["ridge", "sigma_min"])
def test_lemma_1_refuses_0_and_takes_what_is_above(argument: str) -> None:
    with pytest.raises(ValueError, match=argument):
        lemma_1(2, 1.5, 10, **{argument: 0.0})
    assert lemma_1(2, 1.5, 10, **{argument: 0.01}).kappa > 0.0


def test_crtm_weighs_x_by_one_half_where_nothing_is_said() -> None:
    problem = {"ridge": 0.7, "theta_bound": 1.5, "arm_bound": 2.0, "delta": 0.02}
    named = crtm_constants(3, 1.5, 700, 2.0, **problem, weight=0.5)
    assert crtm_constants(3, 1.5, 700, 2.0, **problem) == named
    A = 3 * math.log(1.0 + 0.5 * 4.0 * 700 / (0.7 * 3))
    ell, a = math.log(4 * 700 / 0.02), 0.5 / 3.0
    noise = 896 * A * 4.0 * ell ** (1.0 / 1.5) * 700 ** (2 * a)
    assert named[0] == pytest.approx(math.sqrt(noise + 2 * 0.7 * 1.5**2 + 48 * 1.5 * A))
    assert named[1] == pytest.approx(2 * math.sqrt(A) * 2.0 / ell ** (1 / 1.5) * 700**a)


# --- Bounds of arguments

AT_ZERO = {  # whether 0 itself is taken
    "theta_bound": False,
    "arm_bound": False,
    "ridge": False,
    "sigma_min": False,
    "threshold_scale": False,
    "tolerance": False,
    "gap": False,
    "alpha": False,
    "clip": False,
    "radius_scale": True,
    "exploration": True,
    "noise_scale": True,
    "epsilon": True,
}


@pytest.mark.parametrize(
    ("name", "argument"),
    [(name, a) for name in PROMISES for a in options_of(name) if a in AT_ZERO],
)
def test_a_number_is_taken_down_to_its_bound_and_refused_below(name: str, argument: str) -> None:
    theory = (name, argument) == ("HvtUCB", "sigma_min") or name == "TwinUCB"
    how: dict[str, Any] = {"radius": "theory"} if theory else {}
    assert build(name, **how, **{argument: 0.25}).rounds == 0
    with pytest.raises(ValueError, match=argument):
        build(name, **how, **{argument: -0.25})
    if AT_ZERO[argument] and (name, argument) != ("GLOC", "noise_scale"):  # there it is a unit
        assert build(name, **how, **{argument: 0.0}).rounds == 0
    else:
        with pytest.raises(ValueError, match=argument):
            build(name, **how, **{argument: 0.0})


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        *((name, "arms") for name in ("BMM", "BTC", "HuberBandit", "RobustUCB")),
        ("BMM", "copies"),
        ("MENU", "copies"),
        ("CRMM", "repeats"),
        ("HuberBandit", "forced"),
        ("MoM", "groups"),
    ],
)
def test_a_count_is_at_least_one(name: str, argument: str) -> None:
    assert build(name, **{argument: 1}).rounds == 0
    with pytest.raises(ValueError, match=argument):
        build(name, **{argument: 0})


def test_a_batch_of_mom_has_a_pull_for_every_group() -> None:
    assert build("MoM", groups=3, repeats=3).repeats == 3
    with pytest.raises(ValueError, match="repeats"):
        build("MoM", groups=3, repeats=2)


def test_a_share_of_exploration_is_at_most_one() -> None:
    assert build("EpsilonGreedy", epsilon=1.0, radius_scale=1.0).epsilon == 1.0
    with pytest.raises(ValueError, match="epsilon"):
        build("EpsilonGreedy", epsilon=1.5)


def test_btc_needs_a_horizon_of_one_stage_and_huber_bandit_a_round_that_is_free() -> None:
    assert build("BTC", horizon=3, sup=True).rounds == 0
    with pytest.raises(ValueError, match="horizon"):
        build("BTC", horizon=2)
    assert build("HuberBandit", arms=3, forced=2, horizon=7).rounds == 0
    with pytest.raises(ValueError, match="smallest horizon that works is 7"):
        build("HuberBandit", arms=3, forced=2, horizon=6)


@pytest.mark.parametrize("name", [n for n in PROMISES if "threshold_scale" in options_of(n)])
def test_an_infinite_threshold_is_taken_where_it_means_that_nothing_is_clipped(name: str) -> None:
    if name in ("HvtUCB", "RobustUCB"):
        with pytest.raises(ValueError, match="threshold_scale"):
            build(name, threshold_scale=math.inf)
    else:
        assert build(name, threshold_scale=math.inf).rounds == 0


def test_hvt_ucb_takes_an_infinite_clip_and_an_infinite_ball() -> None:
    policy = build("HvtUCB", clip=math.inf, theta_bound=math.inf)
    policy.update([1.0, 0.0], 100.0)
    assert policy.tau == math.inf


def test_hvt_ucb_begins_with_the_radius_of_its_prior() -> None:
    for ridge in (2.0, 0.5):
        policy = build("HvtUCB", ridge=ridge, exploration=1.0, delta=0.2)
        assert policy.radius == pytest.approx(math.sqrt(ridge + math.log(5.0)))


def test_before_the_first_reward_hvt_ucb_has_no_effective_samples() -> None:
    policy = build("HvtUCB", horizon=None)
    assert policy.diagnostics().effective_samples == 0.0
    for _ in range(6):  # the first five set the unit
        policy.update([1.0, 0.0], 3.0, scale=50.0)
    assert policy.diagnostics().effective_samples == pytest.approx(1.0)
