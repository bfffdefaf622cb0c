"""Linear-quadratic control: the optimum is exact, and no controller loses its system."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from tests.control.tools import (
    CONTROLLERS,
    IDENTIFIERS,
    NORMAL,
    SYSTEMS,
    T15,
    T21,
    cautious,
    controller,
    drive,
)

import heavytail as ht
from heavytail import control
from heavytail.control import riccati
from heavytail.control.systems import solve_riccati, spectral_radius


@pytest.fixture(params=SYSTEMS, ids=lambda make: make.__name__)
def system(request):
    return request.param(NORMAL)


def test_the_riccati_solution_is_one_and_stabilises(system):
    A, B, P, K = system.A, system.B, system.P, system.K
    right = system.Q + A.T @ P @ A + A.T @ P @ B @ K
    np.testing.assert_allclose(P, right, atol=1e-9 * np.abs(P).max())
    assert spectral_radius(A + B @ K) < 1.0


def test_the_optimal_cost_is_that_of_the_stationary_state(system):
    closed = system.A + system.B @ system.K
    state = solve_discrete_lyapunov(closed, np.eye(system.n))
    cost = np.trace((system.Q + system.K.T @ system.R @ system.K) @ state)
    assert system.optimal_cost == pytest.approx(cost, rel=1e-8)
    assert system.cost(system.K) == pytest.approx(system.optimal_cost, rel=1e-8)


def test_no_other_gain_is_cheaper(system):
    rng = np.random.default_rng(0)
    for _ in range(20):
        K = system.K + 0.05 * rng.standard_normal(system.K.shape)
        assert system.cost(K) > system.optimal_cost


def test_the_cost_is_infinite_where_the_noise_has_no_variance():
    system = control.laplacian(T15)
    assert math.isinf(system.optimal_cost)
    assert math.isinf(system.cost(system.K))
    assert math.isfinite(control.laplacian(T21).optimal_cost)


def stack(system, theta=None):
    """The system as the Riccati kernels take it."""
    theta = system.theta if theta is None else theta
    m = max(system.n, system.d)
    W, room = np.zeros((len(riccati.STACK), m, m)), np.zeros((m, 3 * m))
    riccati.lay(W, riccati.A, theta.T[:, : system.n])
    riccati.lay(W, riccati.B, theta.T[:, system.n :])
    riccati.lay(W, riccati.Q, system.Q)
    W[riccati.R] = np.eye(m)
    W[riccati.R, : system.d, : system.d] = system.R
    return W, room


def test_the_doubling_kernel_agrees_with_scipy(system):
    W, room = stack(system)
    assert riccati.optimal_gain(W, room)
    n, d = system.n, system.d
    np.testing.assert_allclose(W[riccati.VALUE, :n, :n], system.P, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(W[riccati.GAIN, :d, :n], system.K, rtol=1e-9, atol=1e-12)
    assert riccati.lyapunov(W, n)
    closed = system.A + system.B @ system.K
    want = solve_discrete_lyapunov(closed, np.eye(n))
    np.testing.assert_allclose(W[riccati.COVARIANCE, :n, :n], want, rtol=1e-9, atol=1e-9)


def test_the_kernel_says_so_where_there_is_no_gain():
    system = control.laplacian(NORMAL)
    theta = np.vstack([1.5 * np.eye(3), np.zeros((3, 3))])  # unstable, and no input does anything
    W, room = stack(system, theta)
    assert not riccati.optimal_gain(W, room)


def test_the_gradient_of_the_optimal_cost_is_that_of_differences(system):
    W, room = stack(system)
    n = system.n
    assert riccati.optimal_gain(W, room)
    assert riccati.lyapunov(W, n)
    found = np.zeros((n, n + system.d))
    riccati.gradient(W, n, found, 0)
    step = 1e-5
    for i, j in ((0, 0), (n - 1, 1), (1, n)):
        cost = []
        for sign in (1.0, -1.0):
            moved = system.theta.T.copy()
            moved[i, j] += sign * step
            cost.append(np.trace(solve_riccati(moved[:, :n], moved[:, n:], system.Q, system.R)))
        slope = (cost[0] - cost[1]) / (2.0 * step)
        assert found[i, j] == pytest.approx(slope, rel=1e-4, abs=1e-4 * np.abs(found).max())


# --- controllers


@pytest.mark.parametrize("kind", CONTROLLERS)
@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_every_controller_works_with_every_identifier_and_learns(kind, identifier):
    system = control.double_integrator(NORMAL)
    one = controller(kind, system, identifier, warmup=30)
    steps = 120
    x = np.zeros(2)
    rng = np.random.default_rng(1)
    for w in system.sample(rng, steps):
        u = one.act(x)
        y = system.A @ x + system.B @ u + w
        one.update(x, u, y)
        x = y
    assert one.steps == steps
    assert one.refreshes >= 1
    assert system.cost(one.gain) < 2.0 * system.optimal_cost


@pytest.mark.compiled
def test_regret_of_the_learned_gain_vanishes():
    system = control.laplacian(NORMAL)
    for kind in CONTROLLERS:
        one = controller(kind, system)
        control.loop.run_trial(one, system, 0, 0, np.array([20_000]))
        assert system.cost(one.gain) < 1.2 * system.optimal_cost < system.cost(cautious(system))


def test_optimism_finds_a_cheaper_model_inside_the_set():
    system = control.laplacian(NORMAL)
    one = controller(control.OFULQ, system, warmup=500, radius_scale=0.05)
    for step in drive(system, 60):
        one.update(*step)
    one.renew()
    n = system.n
    offset = one._F[:n]
    V = np.linalg.inv(one.identifier.inverse_gram)
    size = math.sqrt(np.trace(offset @ V @ offset.T))
    assert size <= 0.05 * one.identifier.radius * (1.0 + 1e-9)
    theta = one.identifier.theta.T
    model = theta + offset
    cheap = np.trace(solve_riccati(model[:, :n], model[:, n:], system.Q, system.R))
    plain = np.trace(solve_riccati(theta[:, :n], theta[:, n:], system.Q, system.R))
    assert cheap < plain


def test_samples_lie_in_the_set_and_differ():
    system = control.double_integrator(NORMAL)
    one = controller(control.ThompsonLQ, system, warmup=500, radius_scale=0.05)
    for step in drive(system, 60):
        one.update(*step)
    V = np.linalg.inv(one.identifier.inverse_gram)
    sizes = []
    for seed in range(60):
        one.reseed(seed)
        one.renew()
        offset = one._F[: system.n]
        sizes.append(math.sqrt(np.trace(offset @ V @ offset.T)))
    share = np.array(sizes) / (0.05 * one.identifier.radius)
    assert share.max() <= 1.0 + 1e-9
    # Uniform in a ball of n (n + d) = 6 dimensions: a median of 0.5^(1/6) = 0.89.
    assert 0.8 < np.median(share) < 0.96


def test_a_diverging_state_is_caught_and_counted():
    system = control.laplacian(NORMAL)
    one = controller(control.CertaintyEquivalence, system, warmup=20, excitation=0.1)
    for step in drive(system, 40):
        one.update(*step)
    assert one.fallbacks == 0
    one._W[control.steering.IN_USE, :3, :3] = np.eye(3)  # a gain that blows the state up
    x, norms = np.ones(3), []
    for _ in range(60):
        x = (system.A + system.B @ one.gain) @ x
        one.act(x)
        norms.append(np.linalg.norm(x))
        if one.fallbacks:
            break
    assert one.fallbacks == 1
    np.testing.assert_array_equal(one.gain, cautious(system))
    for _ in range(200):
        x = system.A @ x + system.B @ one.act(x)
    assert np.linalg.norm(x) < max(norms)


def test_a_gain_too_large_is_refused_and_the_fallback_steers():
    system = control.laplacian(NORMAL)
    one = controller(control.CertaintyEquivalence, system, warmup=5, gain_limit=1e-6)
    for step in drive(system, 20):
        one.update(*step)
    assert one.refusals == one.refreshes > 0
    np.testing.assert_array_equal(one.gain, cautious(system))


def test_a_fallback_that_does_not_stabilise_is_reported():
    system = control.laplacian(NORMAL)
    one = control.CertaintyEquivalence(
        control.SystemIdentifier(3, 3),
        Q=system.Q,
        R=system.R,
        fallback=np.eye(3),
        warmup=10_000,
    )
    with pytest.raises(OverflowError, match="does not stabilise"):
        control.simulate_control({"a": one}, system, steps=2_000, trials=1, seed=0, jobs=1)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", CONTROLLERS)
def test_no_run_ends_in_overflow(kind):
    # benchmarks/control.py does a thousand of them.
    for make in SYSTEMS:
        for noise in (T15, ht.noise.Pareto(1.5)):
            system = make(noise)
            results = control.simulate_control(
                {"a": controller(kind, system), "b": controller(kind, system, IDENTIFIERS[1])},
                system,
                steps=500,
                trials=5,
                seed=2,
                jobs=1,
            )
            for run in results.values():
                assert np.isfinite(run.cost).all()
                assert np.isfinite(run.error).all()


def test_a_controller_does_not_move_another():
    system = control.double_integrator(T21)
    one, two = (controller(kind, system) for kind in CONTROLLERS[:2])
    options = {"steps": 100, "trials": 2, "seed": 3, "jobs": 1}
    alone = control.simulate_control({"one": one}, system, **options)
    both = control.simulate_control({"two": two, "one": one}, system, **options)
    np.testing.assert_array_equal(alone["one"].regret, both["one"].regret)
    assert one.steps == 0


def test_the_loop_and_the_calls_from_python_agree_to_the_bit():
    system = control.double_integrator(T21)
    for kind in CONTROLLERS:
        loop, calls = controller(kind, system), controller(kind, system)
        control.loop.run_trial(loop, system, 7, 0, np.array([150]))
        root = control.loop.trial_seed(7, 0)
        calls.reseed(int(root.generate_state(1, np.uint32)[0] >> 1))
        x = np.zeros(2)
        for w in system.sample(np.random.default_rng(root), 150):
            u = calls.act(x)
            y = np.zeros(2)
            control.loop.advance(system.A, system.B, x, u, w[None], 0, y)
            calls.update(x, u, y)
            x = y
        assert np.array_equal(loop.identifier.theta, calls.identifier.theta)
        assert np.array_equal(loop.gain, calls.gain)


# --- the experiment
