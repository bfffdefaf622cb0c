"""Policies with a link, round by round beside their twins, and what they reduce to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize, root
from tests.naive import generalised as naive
from tests.naive.common import game, near, together

import heavytail as ht

DIMS = (1, 2, 5)
LINKS = ("identity", "logistic", "log", "probit")
CLICKS = ("logistic", "probit")
STATE = ("theta", "radius", "inverse_gram")
ROUNDS = 60


def paying(link: str, dim: int, fractions: bool = False) -> Any:
    """Rewards of the link's kind from an arm and a noise."""
    theta = np.linspace(0.7, -0.4, dim)

    def reward(x: Any, noise: float) -> float:
        y = float(x @ theta) + 0.5 * noise
        if link in CLICKS:
            return float(1.0 / (1.0 + math.exp(-max(y, -30.0)))) if fractions else float(y > 0.0)
        return abs(y) if link == "log" else y

    return reward


def beside(make: Any, twin: Any, dim: int, look: tuple[str, ...] = STATE, **knobs: Any) -> Any:
    """Both, built alike and played side by side."""
    policy, other = make(dim, **knobs), twin(dim, **knobs)
    link = getattr(other, "link", "logistic")
    together(
        policy,
        other,
        game(dim, ROUNDS, length=knobs.get("arm_bound", 1.0)),
        look,
        reward=paying(link, dim, knobs.get("fractions", False)),
    )
    return other


KNOBS: list[dict[str, Any]] = [
    {},
    {"radius": "theory"},
    {"radius": "theory", "theta_bound": 0.3, "ridge": 0.2, "radius_scale": 0.01},
    {"theta_bound": 0.4, "ridge": 0.1, "delta": 0.2},
    {"theta_bound": 2.5, "arm_bound": 2.0, "radius_scale": 0.05},
    {"radius": "theory", "theta_bound": 2.0, "arm_bound": 0.5, "delta": 0.3, "ridge": 3.0},
]


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("knobs", KNOBS, ids=str)
def test_glm_ucb_is_its_formulas(knobs: dict[str, Any], link: str, d: int) -> None:
    beside(ht.GLMUCB, naive.GLMUCB, d, link=link, **knobs)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("knobs", [*KNOBS, {"least_slope": 0.3, "noise_scale": 0.7}], ids=str)
def test_gloc_is_its_formulas(knobs: dict[str, Any], link: str, d: int) -> None:
    beside(ht.GLOC, naive.GLOC, d, (*STATE, "learner"), link=link, **knobs)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("link", CLICKS)
@pytest.mark.parametrize("knobs", [*KNOBS, {"least_slope": 0.2}, {"fractions": True}], ids=str)
def test_ol2m_is_its_formulas(knobs: dict[str, Any], link: str, d: int) -> None:
    beside(ht.OL2M, naive.OL2M, d, link=link, **knobs)


@pytest.mark.parametrize("link", ["identity", "log"])
def test_ol2m_takes_other_links_in_practice_alone(link: str) -> None:
    beside(ht.OL2M, naive.OL2M, 3, link=link)
    with pytest.raises(ValueError, match="rewards of 0 and 1"):
        ht.OL2M(3, link=link, radius="theory")


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("knobs", [*KNOBS, {"fractions": True}], ids=str)
def test_eco_log_is_its_formulas(knobs: dict[str, Any], d: int) -> None:
    beside(ht.ECOLog, naive.ECOLog, d, (*STATE, "apart"), **knobs)


def test_eco_log_counts_rounds_whose_slopes_are_apart() -> None:
    twin = beside(ht.ECOLog, naive.ECOLog, 1, ("theta", "apart"), ridge=0.01)
    assert 0 < twin.apart < ROUNDS


@pytest.mark.parametrize("p", [1.3, 2.0])
@pytest.mark.parametrize("link", ["logistic", "log", "probit"])
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"threshold_scale": 0.05, "radius_scale": 0.01},
        {"theta_bound": 0.3, "ridge": 0.2, "delta": 0.1},
        {"theta_bound": 2.0, "arm_bound": 1.5},
        {"least_slope": 0.4},
    ],
    ids=str,
)
def test_crtm_with_a_link_is_its_formulas(knobs: dict[str, Any], link: str, p: float) -> None:
    d, scale, told = 3, 0.5, {"link": link, "horizon": 300, **knobs}
    policy = ht.CRTM(d, tail=ht.MomentBound(p, scale), **told)
    twin = naive.LinkedCRTM(d, order=p, scale=scale, **told)
    rounds = game(d, ROUNDS, length=knobs.get("arm_bound", 1.0))
    together(policy, twin, rounds, (*STATE, "truncated"), reward=paying(link, d))


# --- reductions


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("radius", ["empirical", "theory"])
def test_glm_ucb_with_the_identity_link_is_oful(d: int, radius: str) -> None:
    told = {"noise_scale": 0.7, "ridge": 0.5, "theta_bound": 1.3, "delta": 0.05}
    mine = ht.GLMUCB(d, radius=radius, **told)
    oful = ht.OFUL(d, radius_scale=0.3 if radius == "empirical" else 1.0, arm_bound=1.0, **told)
    rng = np.random.default_rng(0)
    for arms, noise, _ in game(d, 200, noise=0.5):
        arm = oful.select(arms)
        assert mine.select(arms) == arm
        played = arms[arm] if rng.random() < 0.7 else arms[0]
        for policy in (mine, oful):
            policy.update(played, float(played.sum() + noise))
        near(mine.theta, oful.theta, "theta", 1e-12)
        near(mine.radius, oful.radius, "radius", 1e-12)


@pytest.mark.parametrize("d", DIMS)
def test_ol2m_is_crtm_with_the_logistic_link_that_never_truncates(d: int) -> None:
    told: dict[str, Any] = {"link": "logistic", "least_slope": 0.11, "theta_bound": 0.8}
    told |= {"ridge": 0.7, "radius_scale": 0.0}
    mine = ht.OL2M(d, **told)
    tail = ht.MomentBound(1.5, 0.5)
    crtm = ht.CRTM(d, horizon=1000, tail=tail, threshold_scale=math.inf, **told)
    reward = paying("logistic", d)
    for arms, noise, _ in game(d, 200):
        arm = mine.select(arms)
        assert crtm.select(arms) == arm
        for policy in (mine, crtm):
            policy.update(arms[arm], reward(arms[arm], noise))
        np.testing.assert_array_equal(mine.theta, crtm.theta)
        np.testing.assert_array_equal(mine.inverse_gram, crtm.inverse_gram)


@pytest.mark.parametrize("d", DIMS)
@pytest.mark.parametrize("options", [{}, {"radius": "theory", "theta_bound": 40.0}], ids=str)
def test_the_implicit_step_is_a_numerical_argmin(d: int, options: dict[str, Any]) -> None:
    policy = ht.ECOLog(d, **options)
    eta = 1.0 + options.get("theta_bound", 0.0)
    reward = paying("logistic", d)
    for arms, noise, _ in game(d, 12):
        x, W, before = arms[0], np.linalg.inv(policy.inverse_gram), policy.theta
        y = reward(x, noise)

        def loss(theta: Any, x=x, W=W, before=before, y=y) -> float:
            off, z = theta - before, float(x @ theta)
            return float(off @ W @ off / (2.0 * eta) + np.logaddexp(0.0, z) - y * z)

        def slope(theta: Any, x=x, W=W, before=before, y=y) -> Any:
            return W @ (theta - before) / eta + (naive.expit(x @ theta) - y) * x

        coarse = minimize(loss, before, jac=slope, method="BFGS", options={"gtol": 1e-9})
        found = root(slope, coarse.x, tol=1e-14)  # to the digits that values of the loss hide
        np.testing.assert_allclose(found.x, coarse.x, rtol=0.0, atol=1e-5)
        policy.update(x, y)
        np.testing.assert_allclose(policy.theta, found.x, rtol=0.0, atol=1e-8)


def test_crtm_with_the_identity_link_is_as_without() -> None:
    tail = ht.MomentBound(1.5, 0.5)
    one = ht.CRTM(3, horizon=300, tail=tail)
    two = ht.CRTM(3, horizon=300, tail=tail, link=ht.links.identity)
    for arms, noise, _ in game(3, 60):
        for policy in (one, two):
            policy.update(arms[0], noise)
    assert all(np.array_equal(a, two.state_arrays()[k]) for k, a in one.state_arrays().items())


# --- what is refused


@pytest.mark.parametrize("link", ["logistic", "probit", "log"])
def test_crmm_refuses_links_whose_medians_are_no_means(link: str) -> None:
    tail = ht.MomentBound(2.0, 0.5)
    assert ht.CRMM(2, horizon=1000, tail=tail, link="identity").link is ht.links.identity
    with pytest.raises(ValueError, match="median of 0/1 rewards or counts is no estimate"):
        ht.CRMM(2, horizon=1000, tail=tail, link=link)


def test_crtm_refuses_what_a_link_cannot_have() -> None:
    told: dict[str, Any] = {"horizon": 100, "tail": ht.MomentBound(2.0, 0.5)}
    with pytest.raises(ValueError, match="least squares has no link"):
        ht.CRTM(2, form="least squares", link="log", **told)
    with pytest.raises(ValueError, match="the identity's is 1"):
        ht.CRTM(2, least_slope=0.5, **told)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ht.GLMUCB(2, link="logistic"),
        lambda: ht.GLOC(2, link="logistic"),
        lambda: ht.CRTM(2, link="logistic", horizon=9, tail=ht.MomentBound(2.0, 0.5)),
        lambda: ht.OL2M(2),
        lambda: ht.ECOLog(2),
    ],
)
def test_rewards_that_no_click_pays_are_refused_with_the_reason(make: Any) -> None:
    policy = make()
    with pytest.raises(ValueError, match=r"must be 0 or 1; got 0\.5.*fractions=True"):
        policy.update([1.0, 0.0], 0.5)
    with pytest.raises(ValueError, match="must be 0 or 1; got 2"):
        policy.update([1.0, 0.0], 2.0)
    assert policy.rounds == 0


@pytest.mark.parametrize("make", [ht.GLMUCB, ht.GLOC])
@pytest.mark.parametrize("radius", ["empirical", "theory"])
def test_counts_of_any_size_leave_all_finite(make: Any, radius: str) -> None:
    policy = make(2, link="log", radius=radius)
    with pytest.raises(ValueError, match="at least 0"):
        policy.update([1.0, 0.0], -1.0)
    for count in (1e6, 0.0, 3.0, 1e6, 1.0):
        policy.update([0.6, 0.8], count)
        policy.update([0.8, -0.6], 1.0)
        assert np.isfinite(policy.theta).all()
    assert policy.predict([0.6, 0.8]).mean > policy.predict([0.8, -0.6]).mean


@pytest.mark.parametrize("make", [ht.GLMUCB, ht.OL2M, ht.GLOC])
def test_a_ball_in_which_the_link_is_flat_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="too large for the logistic link"):
        make(2, link="logistic", theta_bound=800.0, radius="theory")


# --- answers


def test_the_arm_that_glm_ucb_explains_is_the_one_it_chooses() -> None:
    policy = ht.GLMUCB(3, link="logistic")
    for arms, noise, _ in game(3, 40):
        found = policy.explain(arms)
        assert found.arm == policy.select(arms)
        index = found.parts["index"]
        assert index[found.arm] >= index.max() - 1e-9
        policy.update(arms[found.arm], float(noise > 0.0))


@pytest.mark.parametrize("radius", ["empirical", "theory"])
@pytest.mark.parametrize(
    "make", [ht.OL2M, ht.ECOLog, lambda d, **o: ht.GLMUCB(d, link="logistic", **o)]
)
def test_a_predicted_mean_lies_between_0_and_1_with_its_interval(make: Any, radius: str) -> None:
    policy, reward = make(2, radius=radius), paying("logistic", 2)
    for arms, noise, _ in game(2, 40):
        policy.update(arms[0], reward(arms[0], noise))
    mean, low, high = policy.predict([[0.6, 0.8], [-1.0, 0.0]])
    assert ((low >= 0.0) & (low < mean) & (mean < high) & (high <= 1.0)).all()


def test_the_bracket_of_gloc_is_a_sum_of_squares_and_its_regret_grows() -> None:
    policy = ht.GLOC(3, link="logistic")
    last = policy.state["scalars"]
    for arms, noise, _ in game(3, 50):
        policy.update(arms[0], float(noise > 0.0))
        now = policy.state["scalars"]
        assert now["residual"] >= last["residual"] >= 0.0
        assert now["regret"] >= last["regret"] > 0.0
        last = now


def test_the_kept_inverse_is_the_inverse_of_the_gram_matrix() -> None:
    policy, V = ht.OL2M(3, least_slope=0.2), np.eye(3)
    for arms, noise, _ in game(3, 300):
        policy.update(arms[1], float(noise > 0.0))
        V = V + 0.1 * np.outer(arms[1], arms[1])
    np.testing.assert_allclose(policy.inverse_gram, np.linalg.inv(V), rtol=1e-11, atol=1e-13)
    assert np.linalg.norm(policy.theta) <= 1.0 + 1e-12
