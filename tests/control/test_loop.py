"""The loop: what a trial records, against a loop written out."""

from __future__ import annotations

import numpy as np
import pytest
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T21, controller

from heavytail import control
from heavytail.control import loop
from heavytail.kernels.layout import OVERFLOW

SYSTEM = control.LQSystem(
    [[0.9, 0.2], [-0.1, 0.8]],
    [[1.0, 0.3], [0.0, 0.5]],
    [[1.0, 0.2], [0.2, 0.5]],
    [[1.0, 0.1], [0.1, 2.0]],
    T21,
)


def one(warmup=15, **options):
    return controller(CONTROLLERS[0], SYSTEM, warmup=warmup, **options)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_a_trial_is_the_loop_written_out(identifier):
    kept = np.array([3, 20, 30])
    first, twin = one(identifier=identifier), one(identifier=identifier)
    cost, regret, error, *counts, seconds = loop.run_trial(first, SYSTEM, 7, 2, kept)
    root = loop.trial_seed(7, 2)
    twin.reseed(int(root.generate_state(1, np.uint32)[0] >> 1))
    x, best, total, ideal = np.zeros(2), np.zeros(2), 0.0, 0.0
    A, B, Q, R, K = SYSTEM.A, SYSTEM.B, SYSTEM.Q, SYSTEM.R, SYSTEM.K
    found = []
    for t, w in enumerate(SYSTEM.sample(np.random.default_rng(root), 30)):
        u, v = twin.act(x), K @ best
        total += x @ Q @ x + u @ R @ u
        ideal += best @ Q @ best + v @ R @ v
        y = A @ x + B @ u + w
        twin.update(x, u, y)
        x, best = y, A @ best + B @ v + w
        if t + 1 in kept:
            found.append((total, total - ideal, twin.identifier.error(SYSTEM.theta)))
    want = np.array(found).T
    np.testing.assert_allclose(cost, want[0], rtol=1e-9)
    np.testing.assert_allclose(regret, want[1], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(error, want[2], rtol=1e-7)
    assert counts == [twin.fallbacks, twin.fallback_steps, twin.refusals]
    assert 0.0 < seconds < 100.0
    assert twin.refreshes > 1


def test_a_simulation_has_a_row_per_trial_and_says_what_was_run():
    results = control.simulate_control({"a": one()}, SYSTEM, steps=30, trials=2, seed=0, jobs=1)
    run = results["a"]
    assert run.cost.shape == run.regret.shape == run.error.shape == (2, len(results.steps))
    assert (len(results), list(results), results.steps[-1]) == (1, ["a"], 30)
    assert len(results.steps) == 20
    assert results.settings == {"system": repr(SYSTEM), "steps": 30, "trials": 2, "seed": 0}
    assert not np.array_equal(run.cost[0], run.cost[1])


@pytest.mark.parametrize("option", ["steps", "trials", "seed"])
def test_counts_are_refused_by_name(option):
    good = {"steps": 1, "trials": 1, "seed": 0}
    control.simulate_control({"a": one()}, SYSTEM, **good, jobs=1)
    bad = {**good, option: good[option] - 1}
    with pytest.raises(ValueError, match=f"simulate_control: {option} must be a whole number"):
        control.simulate_control({"a": one()}, SYSTEM, **bad, jobs=1)


def test_records_are_steps_from_1_to_the_last():
    np.testing.assert_array_equal(loop._checkpoints(9, [9, 1, 4, 4]), [1, 4, 9])
    np.testing.assert_array_equal(loop._checkpoints(40, None), np.arange(2, 41, 2))
    for bad in ([0, 9], [], [3], [3, 10]):
        with pytest.raises(ValueError, match="record must be steps from 1 on and end at steps=9"):
            loop._checkpoints(9, bad)


def test_the_table_shows_medians_quartiles_and_microseconds():
    regret = np.array([[0.0, 1.0, last] for last in (4.0, 8.0, 16.0, 32.0, 64.0)])
    run = loop.ControlRun(
        cost=regret,
        regret=regret,
        error=np.array([[9.0, 8.0, 0.25]] * 5),
        fallbacks=np.array([1, 0, 2, 0, 0]),
        fallback_steps=np.zeros(5, int),
        refusals=np.zeros(5, int),
        seconds=np.full(5, 40.0),
    )
    runs = {"short": run, "a longer name": run}
    results = loop.ControlResults(runs=runs, steps=np.array([100, 300, 2000]))
    head, *rows = results.table().splitlines()
    assert head.split() == ["controller", "error", "regret", "quartiles", "caught", "us/step"]
    for name, row in zip(runs, rows, strict=True):
        values = row.removeprefix(name).split()
        assert values == ["0.2500", "16", "8", "32", "3", "20000.00"]
    assert len({len(line) for line in (head, *rows)}) == 1
    assert results.settings == {}


def advance(x, u, w):
    y = np.zeros(2)
    fine = loop.advance(
        SYSTEM.A, SYSTEM.B, np.array(x), np.array(u), np.array([[9.0, 9.0], w]), 1, y
    )
    return fine, y


def test_a_step_is_linear_and_ends_where_the_state_leaves_the_range():
    fine, y = advance([1.0, 2.0], [0.5, -1.0], [0.1, 0.2])
    assert fine is True
    want = SYSTEM.A @ [1.0, 2.0] + SYSTEM.B @ [0.5, -1.0] + [0.1, 0.2]
    np.testing.assert_allclose(y, want)
    zero = [0.0, 0.0]
    assert advance(zero, zero, [0.0, 1e100])[0] is True
    assert advance(zero, zero, [0.0, 1.1e100])[0] is False
    assert advance(zero, zero, [-1.1e100, 0.0])[0] is False
    assert advance(zero, zero, [np.nan, 0.0])[0] is False


def test_the_loop_says_where_it_lost_the_system():
    noise = np.zeros((4, 2))
    noise[2, 0] = np.nan
    twin, x = one(), np.zeros(2)
    u, y = np.zeros(2), np.zeros(2)
    with np.errstate(over="ignore", invalid="ignore"):
        t, cost, code = loop._play(*twin.packed, SYSTEM.A, SYSTEM.B, x, u, y, noise, 0)
    assert (t, code) == (2, OVERFLOW)
    assert cost > 0.0


def test_the_loop_stops_where_a_gain_is_due_and_goes_on_there():
    twin = one(warmup=2)
    noise = SYSTEM.sample(np.random.default_rng(0), 9)
    x, u, y = np.zeros(2), np.zeros(2), np.zeros(2)
    arrays = (SYSTEM.A, SYSTEM.B, x, u, y, noise)
    t, first, code = loop._play(*twin.packed, *arrays, 0)
    assert (t, code, twin.steps) == (2, loop.DUE, 2)
    twin.renew()
    t, second, code = loop._play(*twin.packed, *arrays, t)
    assert twin.steps == t == 3
    assert min(first, second) > 0.0
    np.testing.assert_array_equal(x, y)
