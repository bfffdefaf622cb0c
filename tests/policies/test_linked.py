"""Policies with a link: against their twins, and where they must be something known already."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.naive import linked as naive
from tests.naive.common import game, together
from tests.naive.links import MEAN

import heavytail as ht
from heavytail.kernels import links as kernels
from heavytail.kernels.linked import implicit_step, linear_step, move
from heavytail.kernels.one_pass import learn, measure

STATE = ("theta", "radius", "inverse_gram", "intercept")
ROUNDS = 60


def paid(link, base=0.0):
    """A reward of the link's kind, made of the noise of a game."""
    mean = MEAN[link]

    def reward(x, noise):
        z = base + float(x @ np.linspace(1.5, -1.0, len(x)))
        if link == "identity":
            return z + noise
        if link == "log":
            return float(math.floor(mean(z) * abs(noise) * 2.0))
        return float(abs(noise) % 1.0 < mean(z))

    return reward


def with_intercept(twin):
    type(twin).intercept = property(
        lambda self: float(self.theta_all[self.dim :].sum()) * self.constant
    )
    return twin


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("link", ["identity", "logistic", "log", "probit"])
def test_glb_omd_in_practice_is_its_twin(link, d):
    twin = naive.GLBOMD(d, link=link, radius_scale=0.4)
    together(ht.GLBOMD(d, link=link), twin, game(d, ROUNDS), STATE, reward=paid(link))


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("link", ["identity", "logistic", "log"])
def test_glb_omd_in_theory_is_the_paper(link, d):
    knobs = {"theta_bound": 1.5, "noise_scale": 0.8, "radius_scale": 0.05}
    policy = ht.GLBOMD(d, link=link, radius="theory", **knobs)
    twin = naive.GLBOMD(d, link=link, theory=True, implicit=False, **knobs)
    together(policy, twin, game(d, ROUNDS), STATE, reward=paid(link))


@pytest.mark.parametrize(
    "knobs",
    [
        {"theta_bound": 0.3},
        {"arm_bound": 2.5},
        {"noise_scale": 3.0},
        {"ridge": 0.7},
        {"delta": 0.2, "radius_scale": 0.5},
        {"intercept": False},
        {"radius_scale": 0.1},
    ],
    ids=str,
)
def test_glb_omd_takes_every_knob(knobs):
    policy = ht.GLBOMD(3, link="log", **knobs)
    twin = naive.GLBOMD(3, link="log", **{"radius_scale": 0.4, **knobs})
    length = knobs.get("arm_bound", 1.0)
    together(policy, twin, game(3, ROUNDS, length=length), STATE, reward=paid("log"))


def test_the_theory_of_longer_arms_is_that_of_shorter_ones_with_a_longer_theta():
    one = ht.GLBOMD(3, link="logistic", radius="theory", theta_bound=3.0)
    two = ht.GLBOMD(3, link="logistic", radius="theory", theta_bound=1.5, arm_bound=2.0)
    rng = np.random.default_rng(0)
    for x in rng.uniform(-0.5, 0.5, (40, 3)):
        one.update(x, float(x[0] > 0))
        two.update(2.0 * x, float(x[0] > 0))
    np.testing.assert_allclose(one.theta, 2.0 * two.theta, rtol=1e-12)
    assert one.radius == pytest.approx(two.radius, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("amounts", [False, True])
@pytest.mark.parametrize("typical", [False, True])
def test_hvt_glb_is_its_twin(d, amounts, typical):
    policy = ht.HvtGLB(
        d,
        link="log",
        rewards="amounts" if amounts else "counts",
        target="typical" if typical else "mean",
    )
    twin = naive.HvtGLB(d, amounts=amounts, typical=typical)

    def reward(x, noise):
        size = math.exp(float(x @ np.linspace(1.5, -1.0, len(x)))) * abs(noise) * 3.0
        return size if amounts else float(math.floor(size))

    look = ("theta", "radius", "inverse_gram", "intercept", "sigma", "tau")
    together(policy, twin, game(d, 3 * ROUNDS, seed=3), look, reward=reward)
    assert policy.diagnostics().clipped_share > 0.0


def test_hvt_glb_is_its_twin_where_counts_are_rare():
    """One count more is then beyond the threshold, and is no outlier even so."""
    policy, twin = ht.HvtGLB(2, link="log"), naive.HvtGLB(2, typical=True)
    look = ("theta", "radius", "inverse_gram", "intercept", "sigma")
    together(policy, twin, game(2, 3 * ROUNDS, seed=4), look, reward=paid("log", base=-2.0))


# --- reductions


@pytest.mark.parametrize("step", ["linear", "implicit"])
def test_with_the_identity_link_glb_omd_is_recursive_ridge_regression(step):
    g, ridge = 0.5, 0.7
    policy = ht.GLBOMD(
        3, step=step, intercept=False, ridge=ridge, noise_scale=math.sqrt(g), theta_bound=1e9
    )
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (500, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.standard_normal(500)
    policy.update_many(X, y)
    V = ridge * np.eye(3) + X.T @ X / g
    np.testing.assert_allclose(policy.theta, np.linalg.solve(V, X.T @ y / g), rtol=1e-12)
    np.testing.assert_allclose(policy.inverse_gram, np.linalg.inv(V), rtol=1e-11)


def fresh(size=3):
    """A state of ``size`` coordinates that has learned something."""
    policy = ht.GLBOMD(size, link="log", intercept=False, ridge=0.4)
    rng = np.random.default_rng(1)
    for x in rng.uniform(-0.5, 0.5, (20, size)):
        policy.update(x, float(rng.poisson(2.0)))
    return policy.packed


@pytest.mark.parametrize("link", ["identity", "logistic", "log", "probit"])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_implicit_step_minimises_the_loss_and_the_distance(link, y):
    s, M = fresh()
    x = np.array([0.3, -0.5, 0.6])
    theta, H = M[0].copy(), np.linalg.inv(M[4:7])
    squared = measure(s, M, x)
    code, z, g, eta = ht.links.LINKS[link].code, float(x @ theta), 0.6, 1.7
    step = implicit_step(code, y, z, squared, g, eta)
    found = theta + step * M[1]
    mean = MEAN[link]

    def gradient(at):
        return (mean(float(x @ at)) - y) / g * x + H @ (at - theta) / eta

    assert np.abs(gradient(found)).max() < 1e-9
    if link != "probit":  # a loss, not only a pull, stands behind it
        losses = {
            "identity": lambda v: 0.5 * v * v - y * v,
            "logistic": lambda v: np.logaddexp(0.0, v) - y * v,
            "log": lambda v: math.exp(v) - y * v,
        }

        def objective(at):
            away = at - theta
            return losses[link](float(x @ at)) / g + 0.5 / eta * away @ H @ away

        best = minimize(objective, theta, jac=gradient, method="BFGS", options={"gtol": 1e-12})
        np.testing.assert_allclose(found, best.x, atol=1e-8)


def step_in_sixty_digits(link, y, z, squared, dispersion, eta):
    """c pull(y, v) at the v of v = z + c squared pull(y, v), c = eta / dispersion, by Newton."""
    pulls = {  # with minus their derivatives
        kernels.IDENTITY: lambda y, v: (y - v, Decimal(1)),
        kernels.LOG: lambda y, v: (y - v.exp(), v.exp()),
        kernels.AMOUNTS: lambda y, v: (y * (-v).exp() - 1, y * (-v).exp()),
    }
    c = eta / dispersion
    v = Decimal(kernels.implicit_score(link, y, z, c * squared))
    with localcontext(prec=60):
        y, z, squared, c = map(Decimal, (y, z, squared, c))
        for _ in range(10):
            force, bend = pulls[link](y, v)
            v -= (v - z - c * squared * force) / (1 + c * squared * bend)
        return c * pulls[link](y, v)[0]


@pytest.mark.parametrize("link", [kernels.IDENTITY, kernels.LOG, kernels.AMOUNTS])
@pytest.mark.parametrize("y", [0.0, 1.0, 40.0, 1e6, 1e9, 1e12, 1e15])
def test_the_implicit_step_keeps_its_digits_whatever_the_count(link, y):
    for z in (-30.0, -3.0, 0.3, 5.0, 13.0, 30.0):
        for squared in (1e-8, 1e-5, 1e-3, 0.1, 1.0, 30.0, 1e4):
            for eta, dispersion in ((1.0, 1.0), (0.3, 1.0), (2.5, 0.125)):
                step = implicit_step(link, y, z, squared, dispersion, eta)
                exact = step_in_sixty_digits(link, y, z, squared, dispersion, eta)
                assert abs(Decimal(step) - exact) <= Decimal("1e-13") * abs(exact), (z, squared)


@pytest.mark.parametrize("bound", [math.inf, 0.2])
def test_the_linear_step_minimises_the_second_order_model_over_the_ball(bound):
    s, M = fresh()
    s[7] = bound  # THETA_BOUND
    x, y, g, eta, link = np.array([0.3, -0.5, 0.6]), 3.0, 0.6, 1.7, kernels.LOG
    theta, H = M[0].copy(), np.linalg.inv(M[4:7])
    squared = measure(s, M, x)
    z = float(x @ theta)
    w = math.exp(z) / g
    assert move(s, M, 3, squared, link, g, eta, linear_step(link, y, z, squared, g, eta)) == 0
    found, model = M[0], H / eta + w * np.outer(x, x)

    def objective(at):
        away = at - theta
        return (math.exp(z) - y) / g * float(x @ away) + 0.5 * away @ model @ away

    ball = {"type": "ineq", "fun": lambda at: bound**2 - at @ at}
    start = np.zeros(3)
    best = minimize(
        objective,
        start,
        constraints=[ball] if bound < math.inf else [],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(found, best.x, atol=1e-6)
    grown = H + math.exp(float(x @ found)) / g * np.outer(x, x)
    np.testing.assert_allclose(np.linalg.inv(M[4:7]), grown, rtol=1e-9)


def test_with_the_identity_link_the_step_is_the_one_pass_huber_step():
    (s, M), (s2, M2) = fresh(), fresh()
    s[7] = s2[7] = 0.5  # a ball that is left
    rng = np.random.default_rng(2)
    for x in rng.uniform(-0.5, 0.5, (30, 3)):
        y, sigma, tau = float(rng.standard_t(1.5)), float(rng.uniform(0.5, 2.0)), 1.3
        squared = measure(s, M, x)
        residual = (y - float(x @ M[0])) / sigma
        kept = float(x @ M[0]) + sigma * min(max(residual, -tau), tau)
        z = float(x @ M[0])
        step = implicit_step(kernels.IDENTITY, kept, z, squared, sigma**2, 1.0)
        assert move(s, M, 3, squared, kernels.IDENTITY, sigma**2, 1.0, step) == 0
        squared = measure(s2, M2, x)
        residual = (y - float(x @ M2[0])) / sigma
        assert learn(s2, M2, 3, squared, residual, sigma, 1.0, tau) == 0
        np.testing.assert_allclose(M[0], M2[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(M[4:7], M2[4:7], rtol=1e-10, atol=1e-14)


def test_hvt_glb_with_the_identity_link_is_hvt_ucb():
    one, two = ht.HvtGLB(3), ht.HvtUCB(3, exploration=0.5)
    together(one, _Twin(two), game(3, ROUNDS), ("theta", "radius", "intercept"))


class _Twin:
    """A policy where a twin is asked for."""

    def __init__(self, policy):
        self._policy = policy

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def choose(self, arms):
        return self._policy.select(arms)

    def learn(self, x, reward, scale):
        self._policy.update(x, reward, scale=scale)


def test_without_a_clip_hvt_glb_is_glb_omd_at_its_dispersion():
    policy = ht.HvtGLB(3, link="log", clip=math.inf)
    rng = np.random.default_rng(4)
    for x in rng.uniform(-0.5, 0.5, (60, 3)):
        before, reward = policy.clone(), float(rng.poisson(2.0))
        policy.update(x, reward)
        if before.rounds < 5:
            continue
        other = ht.GLBOMD(3, link="log", noise_scale=policy.sigma)
        other.packed[1][:8] = before.packed[1][:8]  # theta, work rows and P
        other.update(x, reward)
        np.testing.assert_allclose(policy.theta, other.theta, rtol=1e-12)
        np.testing.assert_allclose(policy.inverse_gram, other.inverse_gram, rtol=1e-12)


# --- what users meet


@pytest.mark.parametrize(
    ("link", "reward", "word"),
    [("logistic", 0.5, "fractions"), ("logistic", 2.0, "0 or 1"), ("log", -1.0, "at least 0")],
)
def test_a_reward_that_the_link_cannot_have_is_refused_with_the_reason(link, reward, word):
    policy = ht.GLBOMD(2, link=link)
    policy.update([1.0, 0.0], 1.0)
    before = policy.saved_arrays()
    with pytest.raises(ValueError, match=word):
        policy.update([1.0, 0.0], reward)
    after = policy.saved_arrays()
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_shares_are_learned_where_fractions_are_allowed():
    policy = ht.GLBOMD(2, link="logistic", fractions=True)
    for _ in range(400):
        policy.update([1.0, 0.0], 0.3)
    assert policy.predict([1.0, 0.0]).mean == pytest.approx(0.3, abs=0.01)


@pytest.mark.parametrize("knobs", [{}, {"radius": "theory"}])
def test_a_count_of_a_million_leaves_everything_finite(knobs):
    policy = ht.GLBOMD(2, link="log", **knobs)
    arms = np.array([[1.0, 0.0], [0.0, 1.0]])
    for reward in (1e6, 0.0, 1e6, 1e12, 3.0):
        policy.update(arms[policy.select(arms)], reward)
    assert not any(np.isnan(array).any() for array in policy.saved_arrays().values())
    assert np.isfinite(policy.theta).all()
    assert np.isfinite(policy.radius)


def test_hvt_glb_does_not_follow_one_count_of_a_million():
    policy = ht.HvtGLB(2, link="log")
    rng = np.random.default_rng(0)
    for _ in range(200):
        policy.update([1.0, 0.0], float(rng.poisson(3.0)))
    policy.update([1.0, 0.0], 1e6)
    assert policy.predict([1.0, 0.0]).mean == pytest.approx(3.0, abs=1.0)


def test_amounts_have_no_unit():
    rng = np.random.default_rng(0)
    arms = rng.uniform(-0.5, 0.5, (5, 2))
    noise = np.exp(rng.standard_normal(200))
    chosen = []
    for unit in (1.0, 2.0**-30, 2.0**40):
        policy = ht.HvtGLB(2, link="log", rewards="amounts")
        mine = []
        for size in noise:
            mine.append(policy.select(arms))
            policy.update(arms[mine[-1]], unit * size * math.exp(arms[mine[-1]][0]))
        chosen.append(mine)
    assert chosen[0] == chosen[1] == chosen[2]


def test_intervals_lie_where_rewards_can():
    policy = ht.GLBOMD(2, link="logistic")
    policy.update([1.0, 0.0], 1.0)
    told = policy.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert np.all((0.0 <= told.low) & (told.low < told.mean) & (told.mean < told.high))
    assert np.all(told.high <= 1.0)


def test_what_theory_does_not_hold_for_is_refused():
    with pytest.raises(ValueError, match="canonical"):
        ht.GLBOMD(2, link="probit", radius="theory")
    with pytest.raises(ValueError, match="intercept"):
        ht.GLBOMD(2, link="log", radius="theory", intercept=True)
    with pytest.raises(ValueError, match="theta_bound"):
        ht.GLBOMD(2, link="log", step="linear")
    with pytest.raises(ValueError, match="GLBOMD"):
        ht.HvtGLB(2, link="logistic")
    with pytest.raises(ValueError, match="tail"):
        ht.HvtGLB(2, link="log", tail=ht.MomentBound(1.5, 1.0))


def test_a_link_is_saved_by_its_name(tmp_path):
    policy = ht.GLBOMD(2, link=ht.links.log)
    policy.update([1.0, 0.0], 3.0)
    policy.save(tmp_path / "p.npz")
    again = ht.load(tmp_path / "p.npz")
    assert again.link is ht.links.log
    assert np.array_equal(again.theta, policy.theta)


@pytest.mark.parametrize("name", list(ht.links.LINKS))
def test_a_link_knows_its_slopes(name):
    link = ht.links.LINKS[name]
    z = np.linspace(-3.0, 3.0, 601)
    np.testing.assert_allclose(np.gradient(link.mean(z), z)[1:-1], link.slope(z)[1:-1], rtol=1e-3)
    assert link.steepest(3.0) == pytest.approx(link.slope(z).max())
    assert link.flattest(3.0) == pytest.approx(link.slope(z).min())
    bend = np.gradient(link.slope(z), z)
    assert np.all(np.abs(bend)[1:-1] <= link.concordance(3.0) * link.slope(z)[1:-1] * 1.01 + 1e-9)
    assert np.isfinite(link.mean([-700.0, 700.0])).all()
    assert np.isfinite(link.slope([-700.0, 700.0])).all()


@pytest.mark.parametrize("name", list(ht.links.LINKS))
@pytest.mark.parametrize("shape", [(), (0,), (5,), (4, 3), (2, 3, 4)])
def test_a_link_of_an_array_is_that_of_each_entry_to_the_bit(name, shape):
    link, z = ht.links.LINKS[name], np.random.default_rng(0).uniform(-40.0, 40.0, shape)
    before = np.array(z)
    for found, kernel in ((link.mean, kernels.link_mean), (link.slope, kernels.link_slope)):
        for order in (z, np.asarray(z).T):  # rows or columns first
            each = [kernel(link.code, float(one)) for one in np.ravel(order)]
            np.testing.assert_array_equal(found(order), np.reshape(each, np.shape(order)))
    assert np.array_equal(z, before)
    assert isinstance(link.mean(0.5), float)


@pytest.mark.parametrize(
    "link", [kernels.IDENTITY, kernels.LOGISTIC, kernels.LOG, kernels.PROBIT, kernels.AMOUNTS]
)
def test_the_implicit_score_solves_its_equation(link):
    for y in (0.0, 0.3, 1.0, 5.0, 1e6, 1e12):
        if y > 1.0 and link in (kernels.LOGISTIC, kernels.PROBIT):
            continue
        for z in (-50.0, -5.0, 0.0, 5.0, 40.0, 600.0):
            for c in (1e-9, 1e-3, 1.0, 20.0, 1e3, 1e6):
                v = kernels.implicit_score(link, y, z, c)
                left = v - z - c * kernels.pull(link, y, v)
                steep = 1.0 + c * kernels.curvature(link, y, v)
                rounding = 1e-12 * (1.0 + abs(v) + abs(z)) + 1e-15 * c * y / steep
                assert abs(left) / steep <= rounding, (y, z, c)
