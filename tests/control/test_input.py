"""What control refuses, and the sentence it refuses it with."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail import control

NORMAL = ht.noise.Gaussian()
I2 = np.eye(2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"A": np.zeros((2, 3))}, r"LQSystem\.A must have shape \(2, 2\); got \(2, 3\)"),
        ({"B": np.ones((3, 1))}, r"LQSystem\.B must have shape \(2, 1\).*A has 2"),
        ({"Q": np.eye(3)}, r"LQSystem\.Q must have shape \(2, 2\).*weighs the state"),
        ({"R": np.eye(2)}, r"LQSystem\.R must have shape \(1, 1\).*weighs the input"),
        ({"Q": np.diag([1.0, -0.5])}, r"Q must be positive semidefinite.*eigenvalue is -0\.5"),
        ({"R": [[0.0]]}, r"R must be positive definite; its smallest eigenvalue is 0"),
        ({"R": [[-1.0]]}, r"R must be positive definite; its smallest eigenvalue is -1"),
        ({"Q": [[1.0, 1.0], [0.0, 1.0]]}, r"Q must be symmetric"),
        ({"A": np.diag([1.2, 0.5]), "B": [[0.0], [1.0]]}, r"stabilisable.*eigenvalue 1\.2"),
        ({"Q": np.diag([0.0, 1.0]), "A": np.diag([1.2, 0.5])}, r"Q must see every mode.*1\.2"),
        ({"A": [[np.nan, 0.0], [0.0, 1.0]]}, r"LQSystem\.A must be finite; got nan at \(0, 0\)"),
    ],
)
def test_a_system_that_cannot_be_is_refused_with_the_reason(change, says):
    good = {"A": np.diag([0.9, 0.5]), "B": [[1.0], [1.0]], "Q": I2, "R": [[1.0]]}
    with pytest.raises(ValueError, match=says):
        control.LQSystem(**{**good, **change}, noise=NORMAL)


def test_a_mode_that_dies_out_need_not_be_reached():
    system = control.LQSystem(np.diag([1.2, 0.5]), [[1.0], [0.0]], I2, [[1.0]], NORMAL)
    assert system.optimal_cost > 0.0


@pytest.mark.parametrize("noise", [1.0, ht.noise.Scaled(NORMAL, 1.0)])
def test_noise_must_be_a_noise_of_constant_scale(noise):
    with pytest.raises(TypeError, match=r"LQSystem\.noise must be a noise of constant scale"):
        control.laplacian(noise)


def test_matrices_must_be_matrices_of_numbers():
    with pytest.raises(TypeError, match=r"LQSystem\.A must be a matrix of numbers"):
        control.LQSystem("no", I2, I2, I2, NORMAL)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": "median"}, "target"),
        ({"n": 0}, r"SystemIdentifier\.n"),
        ({"scale": 0.0}, r"SystemIdentifier\.scale"),
        ({"clip": -1.0}, r"SystemIdentifier\.clip"),
        ({"ridge": 0.0}, r"SystemIdentifier\.ridge"),
        ({"delta": 1.0}, r"SystemIdentifier\.delta"),
        ({"exploration": -1.0}, r"SystemIdentifier\.exploration"),
    ],
)
def test_an_identifier_refuses_by_name(options, says):
    with pytest.raises(ValueError, match=says):
        control.SystemIdentifier(**{"n": 2, "d": 1, **options})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fallback": np.eye(3)}, r"CertaintyEquivalence\.fallback must have shape \(1, 2\)"),
        ({"Q": -I2}, r"CertaintyEquivalence\.Q must be positive semidefinite"),
        ({"R": I2}, r"CertaintyEquivalence\.R must have shape \(1, 1\)"),
        ({"R": [[0.0]]}, r"CertaintyEquivalence\.R must be positive definite"),
        ({"warmup": 0}, r"CertaintyEquivalence\.warmup"),
        ({"excitation": -1.0}, r"CertaintyEquivalence\.excitation"),
        ({"state_limit": 0.0}, r"CertaintyEquivalence\.state_limit"),
        ({"gain_limit": 0.0}, r"CertaintyEquivalence\.gain_limit"),
        ({"growth": 0.0}, r"CertaintyEquivalence\.growth"),
        ({"seed": -1}, r"CertaintyEquivalence\.seed"),
    ],
)
def test_a_controller_refuses_by_name(options, says):
    good = {"Q": I2, "R": [[1.0]], "fallback": [[-0.2, -0.8]]}
    with pytest.raises(ValueError, match=says):
        control.CertaintyEquivalence(control.SystemIdentifier(2, 1), **{**good, **options})


def test_a_controller_wants_a_fresh_identifier():
    used = control.SystemIdentifier(1, 1)
    used.update([1.0], [0.0], [1.0])
    for bad in (used, "no"):
        with pytest.raises(TypeError, match="fresh"):
            control.OFULQ(bad, Q=[[1.0]], R=[[1.0]], fallback=[[0.0]])


def test_states_of_the_wrong_length_are_refused():
    identifier = control.SystemIdentifier(2, 1)
    with pytest.raises(ValueError, match=r"update: x_next must be 2 numbers; got shape \(3,\)"):
        identifier.update([0.0, 0.0], [0.0], [0.0, 0.0, 0.0])
    one = control.ThompsonLQ(identifier, Q=I2, R=[[1.0]], fallback=[[-0.2, -0.8]])
    with pytest.raises(ValueError, match=r"act: x must be finite"):
        one.act([np.nan, 0.0])
    with pytest.raises(ValueError, match=r"act: x must be 2 numbers"):
        one.act([0.0])


def test_a_simulation_refuses_what_does_not_fit():
    one = control.ThompsonLQ(
        control.SystemIdentifier(2, 1), Q=I2, R=[[1.0]], fallback=[[-0.2, -0.8]]
    )
    with pytest.raises(ValueError, match=r"'a' is for n, d = \(2, 1\)"):
        control.simulate_control({"a": one}, control.laplacian(NORMAL), steps=9, trials=1, seed=0)
    system = control.double_integrator(NORMAL)
    with pytest.raises(ValueError, match="record must be steps from 1 on and end at steps=9"):
        control.simulate_control({"a": one}, system, steps=9, trials=1, seed=0, record=[3])
    results = control.simulate_control({"a": one}, system, steps=9, trials=1, seed=0, jobs=1)
    with pytest.raises(KeyError, match="no controller 'b'"):
        results["b"]
    assert len(results.table().splitlines()) == 2
