"""The self-tuning threshold: its equation, its invariants, and what it makes of a stream."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.self_tuning import binned, exact

from heavytail.kernels import self_tuning
from heavytail.kernels.huber import score
from heavytail.kernels.jit import compiled, jit

FLOOR = 1.345


def histogram(sizes, floor=FLOOR, at=0):
    H = np.zeros(at + self_tuning.ROOM)
    for size in sizes:
        self_tuning.note(H, at, float(size), floor)
    return H


def noise(name, n, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "normal": lambda: rng.standard_normal(n),
        "t(2.1)": lambda: rng.standard_t(2.1, n),
        "t(1.7)": lambda: rng.standard_t(1.7, n),
        "pareto": lambda: rng.pareto(1.5, n) - 2.0,
        "jackpot": lambda: np.where(rng.random(n) < 0.01, 50.0, rng.uniform(-1.0, 1.0, n)),
    }[name]()


WORLDS = ("normal", "t(2.1)", "t(1.7)", "pareto", "jackpot")


@jit
def stream(z, H, floor, m):
    """tau before each value, as a policy or a regression would follow it."""
    taus = np.empty(z.shape[0])
    tau = floor
    for i in range(z.shape[0]):
        taus[i] = tau
        tau = self_tuning.follow(H, 0, abs(z[i]), tau, i + 1.0, m, 1.0, floor)
    return taus


def test_the_layout_is_the_number_beyond_the_floor_that_of_each_bin_and_squares():
    assert (self_tuning.BINS, self_tuning.ROOM, self_tuning.EVERY) == (64, 128, 32)
    H = histogram([0.0, 1.0, 2.0, 2.1, 1e300], floor=1.0, at=3)
    assert np.flatnonzero(H).tolist() == [3, 5, 6, 66, 67, 69, 70, 130]
    assert H[[3, 5, 6, 66]].tolist() == [3.0, 1.0, 1.0, 1.0]
    assert H[[67, 69, 70, 130]] == pytest.approx([1.0, 4.0, 2.1**2, 2.0**63])


@pytest.mark.parametrize("k", [1, 2, 3, 10, 62])
def test_a_bin_ends_with_its_edge(k):
    edge = math.sqrt(2.0**k)
    while edge * edge > 2.0**k:
        edge = math.nextafter(edge, 0.0)
    assert histogram([edge], floor=1.0)[k] == 1.0
    assert histogram([edge * (1 + 1e-15)], floor=1.0)[k + 1] == 1.0


def test_all_up_to_the_floor_is_one_bin_and_all_beyond_the_last_edge_another():
    H = histogram([0.0, 1e-300, FLOOR])
    assert H[: self_tuning.BINS].sum() == 0.0
    assert H[self_tuning.BINS] == pytest.approx(1.0)
    assert histogram([FLOOR * 2.0**31.6, 1e154, 1e300, math.inf])[self_tuning.BINS - 1] == 4.0


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("n", [3, 40, 2000])
@pytest.mark.parametrize("floor", [0.3, FLOOR])
def test_tau_is_the_equations_within_a_half_octave_and_the_binned_one_exactly(world, n, floor):
    z = noise(world, n)
    need = 4.0 + math.log(n)
    tau = self_tuning.solve(histogram(z, floor), 0, need, floor)
    assert tau == pytest.approx(binned(z, need, floor), rel=1e-12)
    assert (1 - 1e-9) * exact(z, need, floor) <= tau <= math.sqrt(2) * exact(z, need, floor)
    beyond = np.count_nonzero(np.abs(z) > tau)
    assert beyond <= need or tau == floor


@given(
    st.lists(st.floats(0.0, 1e12), min_size=1, max_size=60),
    st.floats(0.5, 30.0),
    st.floats(0.1, 10.0),
)
def test_tau_is_the_binned_equations_for_any_sizes(sizes, need, floor):
    tau = self_tuning.solve(histogram(sizes, floor), 0, need, floor)
    assert floor <= tau <= floor * 2.0**31
    # A size on an edge, or a sum on its bound, may fall on either side by rounding.
    around = [binned(sizes, need * (1 + e), floor * (1 + e)) for e in (-1e-12, 0.0, 1e-12)]
    assert min(around) * (1 - 1e-9) <= tau <= max(around) * (1 + 1e-9)


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_tau_is_equivariant_to_the_bit_in_powers_of_two(unit):
    z = noise("pareto", 500)
    tau = self_tuning.solve(histogram(z), 0, 9.0, FLOOR)
    scaled = self_tuning.solve(histogram(unit * z, unit * FLOOR), 0, 9.0, unit * FLOOR)
    assert scaled == unit * tau > unit * FLOOR


@pytest.mark.parametrize("unit", [1e-9, 3.0, 1e9])
def test_tau_is_equivariant_in_any_unit(unit):
    z = noise("pareto", 500)
    tau = self_tuning.solve(histogram(z), 0, 9.0, FLOOR)
    scaled = self_tuning.solve(histogram(unit * z, unit * FLOOR), 0, 9.0, unit * FLOOR)
    assert scaled == pytest.approx(unit * tau, rel=1e-12)


def test_few_or_small_values_leave_tau_at_its_floor():
    for sizes in ([], [5.0, 100.0, 1e300], np.full(50, 0.2)):
        assert self_tuning.solve(histogram(sizes), 0, 4.0, FLOOR) == FLOOR
    assert self_tuning.solve(histogram([0.0] * 4), 0, 4.0, FLOOR) == FLOOR


def test_more_values_beyond_the_last_edge_than_are_clipped_stop_there():
    assert self_tuning.solve(histogram([1e200] * 10), 0, 4.0, FLOOR) == FLOOR * 2.0**31


def test_an_infinite_floor_is_no_threshold():
    H = histogram([1.0, 1e300], floor=math.inf)
    assert self_tuning.solve(H, 0, 4.0, math.inf) == math.inf


def test_faded_values_count_for_their_weight():
    old, new = noise("pareto", 300, 1), noise("pareto", 300, 2)
    H = histogram(old)
    self_tuning.fade(H, 0, 0.25)
    for size in new:
        self_tuning.note(H, 0, abs(size), FLOOR)
    weights = np.repeat([0.25, 1.0], 300)
    want = binned(np.concatenate([old, new]), 9.0, FLOOR, weights=weights)
    assert self_tuning.solve(H, 0, 9.0, FLOOR) == pytest.approx(want, rel=1e-12)


def test_tau_is_found_anew_every_32nd_value_and_beyond_it():
    H = histogram(noise("pareto", 500))
    for t, size, tau, anew in (
        (48.0, 1.0, 7.0, False),
        (64.0, 1.0, 7.0, True),
        (48.0, 8, 7.0, True),
    ):
        twin, again = H.copy(), H.copy()
        found = self_tuning.follow(twin, 0, float(size), tau, t, 4.0, 1.0, FLOOR)
        self_tuning.note(again, 0, float(size), FLOOR)
        assert found == (self_tuning.solve(again, 0, 4.0 + math.log(t), FLOOR) if anew else tau)
        np.testing.assert_array_equal(twin, again)


def test_a_value_has_no_say_in_its_own_threshold():
    z = noise("pareto", 300)
    taus = stream(z, np.zeros(self_tuning.ROOM), FLOOR, 3.0)
    for at in (0, 31, 200):
        wild = z.copy()
        wild[at:] = 1e12
        again = stream(wild, np.zeros(self_tuning.ROOM), FLOOR, 3.0)
        np.testing.assert_array_equal(again[: at + 1], taus[: at + 1])


@pytest.mark.compiled
@pytest.mark.parametrize("world", WORLDS)
def test_few_rows_are_clipped_and_normal_noise_hardly_ever(world):
    n, m = 100_000, 6.0
    z = noise(world, n)
    z = z / (1.4826 * np.median(np.abs(z)))
    taus = stream(z, np.zeros(self_tuning.ROOM), FLOOR, m)
    late = np.arange(n) >= 100
    clipped = np.count_nonzero((np.abs(z) > taus)[late])
    assert clipped <= m * math.log(n) + math.log(n) ** 2 / 2
    if world == "normal":
        assert clipped == 0
        assert taus[-1] == pytest.approx(math.sqrt(n / (m + math.log(n))), rel=0.02)


@pytest.mark.compiled
@pytest.mark.parametrize(("world", "fixed"), [("pareto", 1.0), ("jackpot", 0.45)])
def test_the_mean_of_skewed_values_is_found_where_a_fixed_clip_is_off_for_ever(world, fixed):
    """One coordinate, no weights: a running mean of clipped residuals."""
    n, errors = 100_000, []
    for seed in range(5):
        values = noise(world, n, seed)
        mean = 0.5 if world == "jackpot" else 0.0
        scale = 1.4826 * np.median(np.abs(values - np.median(values)))
        errors.append(running_mean(values, scale, np.zeros(self_tuning.ROOM)) - mean)
        assert abs(running_mean(values, scale, np.empty(0)) - mean) > fixed * (1 - 0.1)
    assert np.mean(np.abs(errors)) < 0.15 * fixed


@jit
def running_mean(values, scale, H):
    theta, tau = 0.0, FLOOR
    for i in range(values.shape[0]):
        z = (values[i] - theta) / scale
        theta += scale * score(z, tau) / (i + 1.0)
        if H.shape[0] > 0:
            tau = self_tuning.follow(H, 0, abs(z), tau, i + 1.0, 1.0, 1.0, FLOOR)
    return theta


@pytest.mark.skipif(not compiled(), reason="needs the compiler")
@pytest.mark.compiled
def test_compiled_and_plain_python_agree_to_the_bit():
    z = noise("t(1.7)", 200)
    H, plain = np.zeros(self_tuning.ROOM), np.zeros(self_tuning.ROOM)
    for i, value in enumerate(z):
        self_tuning.note(H, 0, abs(value), FLOOR)
        self_tuning.note.py_func(plain, 0, abs(value), FLOOR)
        assert self_tuning.solve(H, 0, 3.0 + math.log(i + 1), FLOOR) == self_tuning.solve.py_func(
            plain, 0, 3.0 + math.log(i + 1), FLOOR
        )
    np.testing.assert_array_equal(H, plain)
