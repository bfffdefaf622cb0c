"""What identifiers and controllers begin with, and the ends of the range of each option."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T21, drive

from heavytail import control
from heavytail.control import identify

FALLBACK = [[-0.2, -0.8]]


def build(kind, **options):
    if kind in IDENTIFIERS:
        return kind(**{"n": 2, "d": 1, **options})
    given = {"Q": np.eye(2), "R": [[1.0]], "fallback": FALLBACK}
    return kind(control.SystemIdentifier(2, 1), **{**given, **options})


def scalars(one):
    return dict(zip(one.slot_names()["scalars"], one.state_arrays()["scalars"], strict=True))


def test_every_identifier_and_controller_is_built_from_its_defaults():
    assert set(control.ALL) == {*IDENTIFIERS, *CONTROLLERS}
    assert [build(kind).steps for kind in control.ALL] == [0] * len(control.ALL)


def test_the_batch_identifier_alone_keeps_what_it_saw():
    kept = {kind: kind.one_pass for kind in IDENTIFIERS}
    assert [kind for kind in kept if not kept[kind]] == [control.BatchHuberIdentifier]
    for kind in IDENTIFIERS:
        assert ("history" in build(kind).state_arrays()) is not kept[kind]


def test_a_huber_identifier_begins_with_what_its_options_say():
    options = {"scale": 4.0, "clip": 0.7, "ridge": 9.0, "exploration": 0.6, "theta_bound": 3.0}
    state = scalars(build(control.SystemIdentifier, **options, delta=0.2))
    want = {"scale": 4.0, "clip": 0.7, "ridge": 9.0, "exploration": 0.6}
    assert {key: state[key] for key in want} == want
    assert state["prior"] == pytest.approx(9.0 * 9.0 / 16.0)  # lambda S² / nu²
    assert state["log_inverse_delta"] == pytest.approx(math.log(5.0))
    assert (state["seen"], state["inside"], state["keeps"], state["fresh"]) == (1.0, 1.0, 0.0, 0.0)
    assert (state["noise_bound"], state["prior_root"]) == (0.0, 0.0)
    assert state["typical_0"] == state["typical_1"] == 1.0 / 1.4826
    assert (state["tau_0"], state["tau_1"], state["tunes"]) == (0.7, 0.7, 0.0)
    assert (state["stability_0"], state["energy_1"]) == (0.0, 0.0)
    identifier = build(control.SystemIdentifier, **options)
    np.testing.assert_array_equal(identifier.inverse_gram, np.eye(3) / 9.0)
    np.testing.assert_allclose(identifier.spread, [4.0, 4.0])
    assert (identifier.theta == 0.0).all()


def test_a_ridge_identifier_begins_with_what_its_options_say():
    state = scalars(
        build(control.RidgeIdentifier, noise_bound=0.3, ridge=4.0, delta=0.1, theta_bound=3.0)
    )
    assert (state["noise_bound"], state["prior_root"]) == (2 * 0.3, 2.0 * 3.0)
    assert (state["scale"], state["clip"]) == (1.0, math.inf)
    assert state["radius"] == pytest.approx(0.6 * math.sqrt(2.0 * math.log(10.0)) + 6.0)


@pytest.mark.parametrize("kind", CONTROLLERS, ids=lambda kind: kind.__name__)
def test_a_controller_begins_with_what_its_options_say(kind):
    own = {"warmup": 7, "excitation": 0.5, "state_limit": 3.0, "seed": 2**31 + 2**20 + 5}
    searching = kind is not control.CertaintyEquivalence
    own |= {"radius_scale": 0.4, "theta_limit": 3.0, "epoch": 6} if searching else {}
    own |= {} if searching else {"decay": 0.6, "growth": 0.3}
    state = scalars(build(kind, **own))
    want = {
        "warmup": 7,
        "excitation": 0.5,
        "state_limit": 3.0,
        "key": 2**20 + 5,  # 31 bits of the seed
    }
    want |= {"steps": 0, "next": 0, "last_log_det": 0, "diverging": 0, "refused": 0}
    if searching:
        want |= {"radius_scale": 0.4, "theta_limit": 9.0, "epoch": 6, "doubling": math.log(2.0)}
        want |= {"after": 0, "decay": 0, "growth": 0}
    else:
        want |= {"decay": 0.6, "growth": 0.3, "after": 1, "epoch": 1, "doubling": 0}
        want |= {"theta_limit": math.inf}
    assert {key: state[key] for key in want} == want
    norm = math.sqrt(0.2**2 + 0.8**2)
    assert state["gain_limit"] == pytest.approx(10.0 * (1.0 + norm))


AT_THE_END = [
    # kind, option, values taken, values refused
    (control.SystemIdentifier, "n", [1], [0]),
    (control.SystemIdentifier, "d", [1], [0]),
    (control.SystemIdentifier, "ridge", [1e-12], [0.0, math.inf]),
    (control.SystemIdentifier, "scale", [1e-12], [0.0, math.inf]),
    (control.SystemIdentifier, "clip", [1e-12, math.inf], [0.0]),
    (control.SystemIdentifier, "theta_bound", [1e-12], [0.0]),
    (control.SystemIdentifier, "exploration", [0.0], [-1e-12]),
    (control.SystemIdentifier, "delta", [1e-12, 1.0 - 1e-12], [0.0, 1.0]),
    (control.RidgeIdentifier, "theta_bound", [1e-12], [0.0]),
    (control.RidgeIdentifier, "noise_bound", [1e-12], [0.0]),
    (control.RidgeIdentifier, "delta", [1e-12, 1.0 - 1e-12], [0.0, 1.0]),
    (control.CertaintyEquivalence, "warmup", [1], [0]),
    (control.CertaintyEquivalence, "excitation", [0.0], [-1e-12]),
    (control.CertaintyEquivalence, "state_limit", [1e-12], [0.0, math.inf]),
    (control.CertaintyEquivalence, "gain_limit", [1e-12], [0.0, math.inf]),
    (control.CertaintyEquivalence, "decay", [0.0], [-1e-12]),
    (control.CertaintyEquivalence, "growth", [1e-12], [0.0]),
    (control.CertaintyEquivalence, "seed", [0], [-1]),
    (control.OFULQ, "radius_scale", [0.0], [-1e-12]),
    (control.OFULQ, "theta_limit", [1e-12, math.inf], [0.0]),
    (control.OFULQ, "epoch", [1], [0]),
]


@pytest.mark.parametrize(("kind", "option", "taken", "refused"), AT_THE_END)
def test_an_option_is_taken_up_to_the_end_of_its_range(kind, option, taken, refused):
    for value in taken:
        if option in ("n", "d"):
            assert getattr(build(kind, **{option: value}), option) == value
        else:
            build(kind, **{option: value})
    for value in refused:
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.{option} "):
            build(kind, **{option: value})


# --- what an identifier remembers


@pytest.mark.parametrize("kind", IDENTIFIERS, ids=lambda kind: kind.__name__)
def test_the_bytes_are_those_of_the_arrays_and_of_the_steps_kept(kind):
    identifier = kind(2, 1)
    s, M, _ = identifier.packed
    for t, step in enumerate(drive(control.double_integrator(T21), 5)):
        kept = 0 if identifier.one_pass else t * 8 * (3 + 1 + 2)
        assert identifier.state_bytes == s.nbytes + M.nbytes + kept
        identifier.update(*step)


def test_room_for_steps_doubles_and_keeps_what_is_there():
    identifier = control.BatchHuberIdentifier(2, 1)
    identifier.reserve(3)
    assert identifier.packed[2].shape == (3, 6)
    steps = list(drive(control.double_integrator(T21), 4))
    for step in steps[:3]:
        identifier.update(*step)
    assert identifier.packed[2].shape == (3, 6)
    identifier.update(*steps[3])
    assert identifier.packed[2].shape == (6, 6)
    x, u, y = (np.array(part) for part in zip(*steps, strict=True))
    history = identifier.packed[2][:4]
    np.testing.assert_array_equal(history[:, :3], np.hstack([x, u]))
    np.testing.assert_array_equal(history[:, 4:], y)
    identifier.reserve(9)
    assert identifier.packed[2].shape == (13, 6)
    one_pass = control.SystemIdentifier(2, 1)
    one_pass.reserve(100)
    assert one_pass.packed[2].size == 0


@pytest.mark.parametrize("kind", IDENTIFIERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    ("slot", "value"),
    [("rounds", -1.0), ("rounds", 2.5), ("rounds", math.inf), ("rounds", 7.0), ("keeps", 0.5)],
)
def test_a_damaged_state_is_refused(kind, slot, value):
    identifier = kind(2, 1)
    for step in drive(control.double_integrator(T21), 3):
        identifier.update(*step)
    arrays = {key: array.copy() for key, array in identifier.state_arrays().items()}
    arrays["scalars"][identifier.slot_names()["scalars"].index(slot)] = value
    twin = kind(2, 1)
    if slot == "rounds" and value == 7.0 and identifier.one_pass:
        twin.restore(arrays)  # nothing kept contradicts it
        assert twin.steps == 7
        return
    with pytest.raises(ValueError, match="saved state"):
        twin.restore(arrays)
    assert twin.steps == 0


@pytest.mark.parametrize("kind", IDENTIFIERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_identifier_goes_on_as_the_first(kind, steps):
    one, two = kind(2, 1), kind(2, 1)
    done = list(drive(control.double_integrator(T21), 6))
    for step in done[:steps]:
        one.update(*step)
    two.restore({key: array.copy() for key, array in one.state_arrays().items()})
    for step in done[steps:]:
        one.update(*step)
        two.update(*step)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (two.steps, two.radius) == (6, one.radius)
    arrays = two.state_arrays()
    assert (arrays["theta"].shape, arrays["inverse"].shape) == ((2, 3), (3, 3))


def test_the_set_is_closed_and_distances_are_frobenius():
    identifier = control.RidgeIdentifier(2, 1, ridge=1.0, delta=0.5)
    edge = np.zeros((3, 2))
    edge[1, 0] = identifier.radius
    assert identifier.contains(edge) is True
    edge[2, 1] = 1e-3
    assert identifier.contains(edge) is False
    assert identifier.error([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]) == 5.0
    with pytest.raises(TypeError, match=r"x must be 2 numbers; got dtype bool"):
        identifier.update([True, False], [0.0], [0.0, 0.0])
    identifier.update([1, 0], [0], [2, 0])  # whole numbers are numbers
    np.testing.assert_allclose(identifier.A, [[1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(identifier.B, [[0.0], [0.0]])


def test_an_estimate_that_is_up_to_date_is_not_solved_for_again(monkeypatch):
    identifier, calls = control.BatchHuberIdentifier(2, 1), []
    solve = identify.newton
    monkeypatch.setattr(identify, "newton", lambda *given: calls.append(0) or solve(*given))
    for asked, step in enumerate(drive(control.double_integrator(T21), 3), start=1):
        identifier.update(*step)
        np.testing.assert_array_equal(identifier.theta, identifier.theta)
        assert len(calls) == 2 * asked  # one for each row


@pytest.mark.parametrize("ridge", [1.0, 1e100])
def test_a_state_is_taken_up_to_a_length_of_1e150_and_weighs_at_most_1e14_ridges(ridge):
    identifier = control.SystemIdentifier(1, 1, ridge=ridge)
    with pytest.raises(ValueError, match=r"a step of size 1\.01e\+150 would take"):
        identifier.update([1.01e150], [0.0], [0.0])
    identifier.update([0.99e150], [0.0], [0.0])
    assert identifier.log_det == pytest.approx(math.log1p(1e14))


def test_two_long_states_in_a_row_leave_what_is_known_of_the_other_directions():
    identifier = control.SystemIdentifier(2, 1)
    for step in drive(control.double_integrator(T21), 40):
        identifier.update(*step)
    theta, P = identifier.theta, identifier.inverse_gram
    for size in (1e54, 1e84, -1e70):
        identifier.update([0.3, -0.2], [size], [0.1, 0.2])
    assert np.linalg.eigvalsh(identifier.inverse_gram)[0] > -1e-15
    given = P[:2, :2] - np.outer(P[:2, 2], P[2, :2]) / P[2, 2]  # of the states, the input's known
    assert identifier.inverse_gram[:2, :2] == pytest.approx(given, rel=0.2)
    assert identifier.theta[:2] == pytest.approx(theta[:2], rel=0.2, abs=0.05)
    np.testing.assert_array_equal(identifier.clone().theta, identifier.theta)


def test_a_step_beyond_the_float_range_is_refused_with_its_size():
    identifier = control.SystemIdentifier(1, 1)
    with pytest.raises(ValueError, match=r"a step of size 1e\+160 would take the estimate out"):
        identifier.update([1e160], [-2.0], [3.0])
    with pytest.raises(ValueError, match=r"u must be finite; got inf at 0\. Nothing was learned"):
        identifier.update([1.0], [math.inf], [3.0])
    assert identifier.steps == 0
