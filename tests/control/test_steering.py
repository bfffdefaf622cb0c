"""The kernels that act, watch and choose, each alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.control.tools import T21, controller, drive

from heavytail import control
from heavytail.control import riccati, steering
from heavytail.control.steering import C
from heavytail.kernels.layout import INVERSE, LOG_DET, OK, RADIUS
from heavytail.kernels.random import normal


def taught(kind=control.CertaintyEquivalence, steps=40, **options):
    system = control.double_integrator(T21)
    one = controller(kind, system, warmup=10_000, **options)
    for step in drive(system, steps):
        one.update(*step)
    return one


def test_the_limit_of_a_state_is_its_formula():
    one = taught(state_limit=3.0)
    s = one.identifier.packed[0]
    want = 3.0 * np.linalg.norm(one.identifier.spread) * math.log(math.e + 40.0)
    assert steering.state_limit(one._c, s, 2) == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(
    ("share", "before", "after"),
    [(1.0, 0, 0), (1.0 + 1e-9, 0, 1), (0.5, 1, 0), (0.5 + 1e-9, 1, 1), (math.nan, 0, 1)],
)
def test_a_state_at_the_limit_is_not_caught_and_at_half_of_it_is_released(share, before, after):
    one = taught(state_limit=3.0)
    c, s = one._c, one.identifier.packed[0]
    c[C.DIVERGING], c[C.NEXT], c[C.LAST_LOG_DET] = before, 77.0, 5.0
    length = share * steering.state_limit(c, s, 1)
    steering.watch(c, s, np.array([length]))
    assert c[C.DIVERGING] == after
    assert c[C.FALLBACKS] == max(after - before, 0)
    released = before > after
    assert c[C.NEXT] == (40.0 if released else 77.0)
    assert c[C.LAST_LOG_DET] == (-math.inf if released else 5.0)


@pytest.mark.parametrize(
    ("state", "slot", "steered"),
    [
        ({"STEPS": 9}, steering.FALLBACK, 0),
        ({"STEPS": 10}, steering.IN_USE, 0),
        ({"STEPS": 10, "REFUSED": 1}, steering.FALLBACK, 1),
        ({"STEPS": 10, "DIVERGING": 1}, steering.FALLBACK, 1),
        ({"STEPS": 9, "REFUSED": 1}, steering.FALLBACK, 0),
    ],
)
@pytest.mark.parametrize("size", [0.0, 0.5])
def test_the_input_is_the_gain_in_force_plus_excitation(state, slot, steered, size):
    one = taught(excitation=size, decay=0.5, state_limit=1e9)
    c, W, s = one.packed[:3]
    c[C.WARMUP], c[C.AFTER] = 10.0, 0.8
    for name, value in state.items():
        c[getattr(C, name)] = value
    if c[C.DIVERGING]:
        c[C.STATE_LIMIT] = 1e-9
    W[steering.IN_USE, 0, :2], W[steering.FALLBACK, 0, :2] = (0.3, -0.4), (-0.7, 0.2)
    x, u = np.array([1.0, 2.0]), np.zeros(1)
    steering.act(c, W, s, x, u)
    t = int(state["STEPS"])
    size *= 1.0 if t < 10 else 0.8 * (t - 10.0 + 1.0) ** -0.5
    want = size * normal(int(c[C.KEY]), t, 0) + W[slot, 0, :2] @ x
    assert u[0] == pytest.approx(want, rel=1e-12)
    assert c[C.FALLBACK_STEPS] == steered


def test_excitation_dies_out_as_the_stated_power():
    one = taught(decay=0.5)
    c, W, s = one.packed[:3]
    W[steering.IN_USE] = 0.0
    c[C.WARMUP], c[C.STEPS], u = 10.0, 25.0, np.zeros(1)
    steering.act(c, W, s, np.zeros(2), u)
    assert u[0] == pytest.approx(normal(0, 25, 0) / 4.0)


@pytest.mark.parametrize("first", [-1, 0, 4])
def test_a_model_is_the_estimate_plus_the_offset(first):
    one = taught()
    M, F = one.identifier.packed[1], one._F
    F[...] = np.random.default_rng(0).standard_normal(F.shape)
    want = M[-2:].copy() + (F[first : first + 2] if first >= 0 else 0.0)
    length = steering.lay_model(one._W, F, M, 2, first)
    np.testing.assert_array_equal(one._W[riccati.A, :2, :2], want[:, :2])
    np.testing.assert_array_equal(one._W[riccati.B, :2, :1], want[:, 2:])
    assert length == pytest.approx((want**2).sum())


def test_the_extreme_point_lies_on_the_ellipsoid_against_the_gradient():
    one = taught()
    M, F = one.identifier.packed[1], one._F
    F[2:4] = np.random.default_rng(1).standard_normal((2, 3))
    slope = F[2:4].copy()
    assert steering.lay_extreme(F, M, 2, 0.7) is True
    P = one.identifier.inverse_gram
    want = -0.7 * slope @ P / math.sqrt(np.sum(slope @ P * slope))
    np.testing.assert_allclose(F[4:6], want, rtol=1e-9)
    for bad in (0.0, 1e200, math.inf, math.nan):
        F[2:4] = 0.0
        F[2, 0] = bad
        with np.errstate(invalid="ignore", over="ignore"):
            assert steering.lay_extreme(F, M, 2, 0.7) is False


def scalar(a, b, kind=control.OFULQ, ridge=1.0, **options):
    """A controller of a system of one state and input whose estimate is (a, b)."""
    one = kind(
        control.SystemIdentifier(1, 1, ridge=ridge),
        Q=[[1.0]],
        R=[[1.0]],
        fallback=[[0.0]],
        **options,
    )
    one.identifier.packed[1][-1] = a, b
    return one


def cost(a, b):
    """P of the scalar equation with unit costs, by its closed form."""
    half = (a * a + b * b - 1.0) / 2.0
    return (half + math.sqrt(half * half + b * b)) / (b * b)


@pytest.mark.parametrize(("gap", "taken"), [(0.9e-3, False), (1.1e-3, True)])
def test_a_search_step_must_save_a_thousandth(gap, taken):
    one = scalar(1.0, 1.0)
    M, F = one.identifier.packed[1], one._F
    F[...] = 0.0
    F[2] = -0.2, 0.0  # the extreme point: a = 0.8
    best = cost(0.8, 1.0) / (1.0 - gap)
    # The halved steps lead to larger values still.
    value = steering.improve(one._c, one._W, one._room, F, M, 1, best)
    if taken:
        assert value == pytest.approx(cost(0.8, 1.0), rel=1e-12)
        np.testing.assert_array_equal(F[0], F[2])
    else:
        assert value == best
        assert (F[0] == 0.0).all()


@pytest.mark.parametrize(("halvings", "taken"), [(0, True), (1, True), (3, True), (4, False)])
def test_a_search_step_is_halved_three_times_and_no_further(halvings, taken):
    # A step along a is allowed by the length of the model alone: 1 + (share 8)² + 1.
    share = 0.5**halvings
    one = scalar(0.0, 1.0, theta_limit=math.sqrt(1.0 + (8.0 * share) ** 2) * (1.0 + 1e-9))
    M, F = one.identifier.packed[1], one._F
    F[...] = 0.0
    F[2] = 8.0, 0.0
    value = steering.improve(one._c, one._W, one._room, F, M, 1, 1e9)
    if taken:
        assert F[0, 0] == 8.0 * share
        assert value == pytest.approx(cost(8.0 * share, 1.0))
    else:
        assert value == 1e9


def test_a_halved_step_mixes_the_offset_and_the_extreme_point():
    one = scalar(0.0, 1.0, theta_limit=math.sqrt(1.0 + 2.6**2))
    M, F = one.identifier.packed[1], one._F
    F[0], F[2] = (1.0, 0.0), (4.0, 0.0)
    steering.improve(one._c, one._W, one._room, F, M, 1, 1e9)
    assert F[0, 0] == pytest.approx(0.5 * 1.0 + 0.5 * 4.0)


def test_the_optimist_of_one_dimension_stands_at_the_edge_of_its_set():
    # The cheapest model of the set: |a| as small and b as large as the ellipsoid lets them be.
    one = scalar(1.5, 1.0, ridge=4.0, radius_scale=0.5)
    s, M, _ = one.identifier.packed
    s[RADIUS] = 0.8
    assert steering.choose_optimist(one._c, one._W, one._room, one._F, s, M, 1) is True
    offset = one._F[0]
    edge = 0.5 * 0.8 / 2.0  # radius_scale times radius over sqrt(ridge)
    assert np.linalg.norm(offset) <= edge * (1.0 + 1e-12)
    angles = np.linspace(0.0, 2.0 * math.pi, 10_001)
    cheapest = min(cost(1.5 + edge * math.cos(v), 1.0 + edge * math.sin(v)) for v in angles)
    a, b = 1.5 + offset[0], 1.0 + offset[1]
    assert cost(a, b) <= 1.002 * cheapest
    K = one._W[riccati.GAIN, 0, 0]
    P = cost(a, b)
    assert K == pytest.approx(-a * b * P / (1.0 + b * b * P))


def test_no_gain_means_no_choice():
    for kind in (control.CertaintyEquivalence, control.OFULQ, control.ThompsonLQ):
        one = scalar(
            1.5,
            0.0,
            kind=kind,
            **({} if kind is control.CertaintyEquivalence else {"radius_scale": 0.0}),
        )
        s, M, _ = one.identifier.packed
        assert kind.choose_kernel(one._c, one._W, one._room, one._F, s, M, 1) is False
        one.renew()
        assert (one.refusals, one.refreshes) == (1, 1)


@pytest.mark.parametrize(("norm", "kept"), [(5.0, True), (5.0 + 1e-9, False)])
def test_a_gain_at_the_limit_is_kept(norm, kept):
    one = control.CertaintyEquivalence(
        control.SystemIdentifier(2, 2),
        Q=np.eye(2),
        R=np.eye(2),
        fallback=np.zeros((2, 2)),
        gain_limit=5.0,
    )
    one._W[riccati.GAIN] = np.array([[1.0, 2.0], [2.0, 4.0]]) * (norm / 5.0)
    steering.keep_gain(one._c, one._W, 2, 2, True)
    assert one.refusals == (not kept)
    assert one._c[C.REFUSED] == (not kept)
    assert (one._W[steering.IN_USE] == (one._W[riccati.GAIN] if kept else 0.0)).all()
    steering.keep_gain(one._c, one._W, 2, 2, False)
    assert (one.refreshes, one._c[C.REFUSED]) == (2, 1.0)
    one._W[riccati.GAIN] = 1.0
    steering.keep_gain(one._c, one._W, 2, 2, True)
    assert one._c[C.REFUSED] == 0.0


@pytest.mark.parametrize(
    ("state", "due"),
    [
        ({}, True),
        ({"WARMUP": 42}, False),
        ({"WARMUP": 41}, True),
        ({"NEXT": 42}, False),
        ({"NEXT": 41}, True),
        ({"DOUBLING": 1e9}, False),
    ],
)
def test_a_gain_is_due_from_the_stated_step_on(state, due):
    one = taught()
    c, _, s, M, H = one.packed
    c[C.WARMUP] = c[C.NEXT] = 0.0
    for name, value in state.items():
        c[getattr(C, name)] = value
    x, u, y = next(iter(drive(control.double_integrator(T21), 1)))
    assert steering.learn(c, s, M, H, x, u, y) == (steering.DUE if due else OK)
    assert c[C.STEPS] == 41.0


def test_a_gain_is_due_where_the_determinant_has_just_doubled():
    one = taught()
    c, _, s, M, H = one.packed
    c[C.WARMUP] = 0.0
    twin, x = one.identifier.clone(), np.array([1.0, 1.0])
    twin.update(x, [0.0], x)
    c[C.DOUBLING], c[C.LAST_LOG_DET] = twin.packed[0][LOG_DET] - 1.0, 1.0
    assert steering.learn(c, s, M, H, x, np.zeros(1), x) == steering.DUE
    c[C.DOUBLING] = s[LOG_DET]
    assert steering.learn(c, s, M, H, np.zeros(2), np.zeros(1), x) == OK
    assert steering.DUE > OK  # neither that nor an error


def test_a_model_as_long_as_the_limit_is_taken():
    one = scalar(0.0, 1.0)
    M, F = one.identifier.packed[1], one._F
    one._c[C.THETA_LIMIT] = 10.0
    F[...] = 0.0
    F[2] = 3.0, 0.0
    steering.improve(one._c, one._W, one._room, F, M, 1, 1e9)
    assert F[0, 0] == 3.0


@pytest.mark.parametrize("why", ["no sample is short enough", "the Gram matrix has no root"])
def test_where_nothing_can_be_drawn_the_estimate_is_taken(why):
    one = scalar(1.5, 1.0, kind=control.ThompsonLQ, theta_limit=1e-3)
    s, M, _ = one.identifier.packed
    if "root" in why:
        one._c[C.THETA_LIMIT] = math.inf
        M[INVERSE, 0] = -1.0
        one._F[...] = 5.0
    assert steering.choose_sample(one._c, one._W, one._room, one._F, s, M, 1) is True
    P = cost(1.5, 1.0)
    assert one._W[riccati.GAIN, 0, 0] == pytest.approx(-1.5 * P / (1.0 + P))


def test_the_searches_are_as_long_as_the_classes_say():
    assert (steering.OPTIMISM_STEPS, steering.TRIES) == (10, 10)


@pytest.mark.parametrize(("epoch", "growth", "after"), [(10.0, 0.1, 10.0), (3.0, 0.1, 4.0)])
def test_the_next_gain_waits_for_the_epoch_or_a_share_of_the_steps(epoch, growth, after):
    one = taught()
    one._c[C.EPOCH], one._c[C.GROWTH] = epoch, growth
    s = one.identifier.packed[0]
    steering.postpone(one._c, s)
    assert one._c[C.NEXT] == pytest.approx(40.0 + after)
    assert one._c[C.LAST_LOG_DET] == s[LOG_DET]
