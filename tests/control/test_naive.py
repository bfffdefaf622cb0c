"""Identifiers and controllers against plain NumPy versions written from the formulas."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest
from tests.control.tools import NORMAL, T15, T21, cautious, drive
from tests.naive import control as naive

import heavytail as ht
from heavytail import control
from heavytail.kernels.random import normal, uniform

# More inputs than states, which none of the systems of the literature has.
WIDE = control.LQSystem(
    [[1.05, 0.2], [-0.1, 0.9]],
    [[1.0, 0.3, 0.0], [0.0, 0.5, -1.0]],
    [[1.0, 0.2], [0.2, 0.5]],
    [[1.0, 0.1, 0.0], [0.1, 2.0, 0.0], [0.0, 0.0, 0.5]],
    T21,
    name="wide",
)
SYSTEMS = (control.double_integrator(T21), control.boeing_747(T15), WIDE)
CASES = {
    "one-pass": (control.SystemIdentifier, naive.OnePass, {}),
    "one-pass, all knobs": (
        control.SystemIdentifier,
        naive.OnePass,
        {
            "scale": 3.0,
            "clip": 0.7,
            "ridge": 0.2,
            "exploration": 0.6,
            "delta": 0.2,
            "theta_bound": 2.5,
        },
    ),
    "one-pass, mean": (control.SystemIdentifier, naive.OnePass, {"target": "mean"}),
    "one-pass, mean, all knobs": (
        control.SystemIdentifier,
        naive.OnePass,
        {"target": "mean", "scale": 3.0, "clip": 0.7, "ridge": 0.2},
    ),
    "one-pass, no clip": (control.SystemIdentifier, naive.OnePass, {"clip": math.inf}),
    "ridge": (control.RidgeIdentifier, naive.Ridge, {}),
    "ridge, all knobs": (
        control.RidgeIdentifier,
        naive.Ridge,
        {"noise_bound": 0.3, "ridge": 4.0, "delta": 0.3, "theta_bound": 2.0},
    ),
}


def same(identifier, twin):
    """All that can be read agrees to rounding."""
    size = np.abs(twin.theta).max() + 1e-12
    np.testing.assert_allclose(identifier.theta, twin.theta, rtol=1e-7, atol=1e-9 * size)
    np.testing.assert_allclose(identifier.inverse_gram @ twin.V, np.eye(twin.size), atol=1e-6)
    np.testing.assert_allclose(identifier.spread, twin.spread, rtol=1e-9)
    assert identifier.radius == pytest.approx(twin.radius, rel=1e-8)
    assert identifier.log_det == pytest.approx(twin.log_det, rel=1e-8, abs=1e-9)
    assert identifier.steps == twin.steps


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
@pytest.mark.parametrize("case", CASES)
def test_every_one_pass_identifier_is_its_formula_over_rounds(case, system):
    kind, twin, options = CASES[case]
    one, two = kind(system.n, system.d, **options), twin(system.n, system.d, **options)
    same(one, two)
    for t, step in enumerate(drive(system, 120)):
        one.update(*step)
        two.update(*step)
        if t < 5 or t % 20 == 19:
            same(one, two)
    if two.clip < math.inf:
        assert one.clipped == two.residuals - two.inside > (0 if two.tunes else 10)


def test_the_spread_follows_as_slowly_as_stated_after_a_thousand_steps():
    system = control.double_integrator(T21)
    one, two = control.SystemIdentifier(2, 1), naive.OnePass(2, 1)
    for step in drive(system, 1100):
        one.update(*step)
        two.update(*step)
    same(one, two)


def test_a_spread_ends_at_a_thousandth_of_the_stated_scale():
    system = control.double_integrator(NORMAL)
    one, two = (kind(2, 1, scale=1e5) for kind in (control.SystemIdentifier, naive.OnePass))
    for step in drive(system, 300):
        one.update(*step)
        two.update(*step)
    same(one, two)
    np.testing.assert_allclose(one.spread, 1.4826e2, rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"scale": 0.3, "clip": 2.0, "ridge": 5.0}, {"target": "mean"}], ids=str
)
@pytest.mark.parametrize("system", SYSTEMS[::2], ids=lambda system: system.name)
def test_the_batch_identifier_is_its_formula_over_rounds(system, options):
    one = control.BatchHuberIdentifier(system.n, system.d, **options)
    two = naive.Batch(system.n, system.d, **options)
    for t, step in enumerate(drive(system, 50)):
        one.update(*step)
        assert np.isfinite(one.theta).all()  # reading it fits it anew, as the twin does
        two.update(*step)
        two.refit()
        if t % 10 == 9:
            np.testing.assert_allclose(one.theta, two.theta, atol=2e-5)
            np.testing.assert_allclose(one.spread, two.spread, rtol=1e-9)
            assert one.radius == pytest.approx(two.radius, rel=1e-4)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_riccati_and_gain_are_those_of_value_iteration(system):
    P = naive.value(system.A, system.B, system.Q, system.R)
    np.testing.assert_allclose(system.P, P, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(system.K, naive.gain(system.A, system.B, system.R, P), atol=1e-8)
    assert system.optimal_cost == pytest.approx(np.trace(P) * system.variance)
    closed = system.A + system.B @ system.K
    cost = np.trace((system.Q + system.K.T @ system.R @ system.K) @ naive.covariance(closed))
    assert cost == pytest.approx(np.trace(P))


COMMON = {"warmup": 15, "excitation": 0.7, "state_limit": 2.5, "seed": 4}
SEARCH = {"radius_scale": 0.4, "theta_limit": 2.6, "epoch": 7}
CONTROLLERS = {
    "certainty": (control.CertaintyEquivalence, naive.Certain, {"warmup": 12}),
    "certainty, all knobs": (
        control.CertaintyEquivalence,
        naive.Certain,
        {**COMMON, "decay": 0.6, "growth": 0.3, "gain_limit": 1.1},
    ),
    "optimism": (control.OFULQ, naive.Optimist, {"warmup": 12}),
    "optimism, all knobs": (control.OFULQ, naive.Optimist, {**COMMON, **SEARCH}),
    "sampling": (control.ThompsonLQ, naive.Sampler, {"warmup": 12}),
    "sampling, all knobs": (control.ThompsonLQ, naive.Sampler, {**COMMON, **SEARCH}),
}
naive.Sampler.uniform = staticmethod(uniform)


@pytest.mark.parametrize("system", SYSTEMS[::2], ids=lambda system: system.name)
@pytest.mark.parametrize("case", CONTROLLERS)
def test_every_controller_is_its_formula_over_steps(case, system):
    kind, twin, options = CONTROLLERS[case]
    given = system.Q, system.R, cautious(system)
    one = kind(
        control.SystemIdentifier(system.n, system.d, ridge=0.3),
        **dict(zip(("Q", "R", "fallback"), given, strict=True)),
        **options,
    )
    two = twin(naive.OnePass(system.n, system.d, ridge=0.3), *given, normal, **options)
    x = np.zeros(system.n)
    for w in system.sample(np.random.default_rng(8), 90):
        u = one.act(x)
        np.testing.assert_allclose(u, two.act(x), rtol=1e-5, atol=1e-5)
        y = system.A @ x + system.B @ u + w
        one.update(x, u, y)
        two.update(x, u, y)
        np.testing.assert_allclose(one.gain, two.gain, rtol=1e-5, atol=1e-5)
        x = y
    for count in ("fallbacks", "fallback_steps", "refusals", "refreshes"):
        assert getattr(one, count) == getattr(two, count), count
    assert one.refreshes > 2
    assert one.fallbacks > 0 or "all knobs" not in case


def test_a_state_is_caught_at_the_limit_and_released_at_half_of_it():
    one = control.CertaintyEquivalence(
        control.SystemIdentifier(2, 1, scale=3.0),
        Q=np.eye(2),
        R=[[1.0]],
        fallback=[[-0.2, -0.8]],
        state_limit=2.0,
    )
    limit = 2.0 * 3.0 * math.sqrt(2.0)  # state_limit ‖spreads‖ log(e + t) at t = 0
    for share, caught in ((0.99, 0), (1.01, 1), (0.99, 1), (0.51, 1), (1.01, 1), (0.49, 1)):
        one.act([share * limit, 0.0])
        assert one.fallbacks == caught
    one.act([1.01 * limit, 0.0])
    assert one.fallbacks == 2


def test_slots_are_numbered_one_behind_the_other_and_named():
    one = control.OFULQ(
        control.SystemIdentifier(2, 1), Q=np.eye(2), R=[[1.0]], fallback=[[-0.2, -0.8]]
    )
    names, arrays = one.slot_names(), one.state_arrays()
    assert set(names) == {"scalars", "identifier.scalars"}
    for key, slots in names.items():
        assert len(slots) == len(set(slots)) == len(arrays[key])
    state = types.SimpleNamespace(**dict(zip(names["scalars"], arrays["scalars"], strict=True)))
    assert (state.warmup, state.epoch, state.radius_scale) == (50, 10, 0.1)
    theirs = dict(zip(names["identifier.scalars"], arrays["identifier.scalars"], strict=True))
    assert theirs["typical_1"] == 1 / 1.4826
    assert (theirs["clip"], theirs["rounds"]) == (1.2, 0)
    assert ht.control.ALL[0].__final__
