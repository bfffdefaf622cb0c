"""Agents, controllers and identifiers are saved as policies are: whole, open, to the bit."""

from __future__ import annotations

import pickle
import zipfile
from copy import deepcopy

import numpy as np
import pytest
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T15, T21, controller, drive
from tests.storage_tools import rewrite

import heavytail as ht
from heavytail import control, mdp

TAIL = ht.MomentBound(order=1.5, scale=1.0)
WORLD = mdp.random_mdp(
    4, noise=ht.noise.StudentT(1.7), states=5, actions=3, horizon=3, bias=True, seed=2
)
SYSTEM = control.laplacian(T21)


def agent(kind, **options):
    needs = {"tail": ht.MomentBound(2.0, 1.0) if kind is mdp.VARA else TAIL}
    if kind in (mdp.GreedyLSVI, mdp.UniformAgent):
        needs = {}
    if kind in (mdp.HeavyLSVIUCB, mdp.VARA):
        needs["episodes"] = 500
    return kind(WORLD.features, WORLD.horizon, **needs, **options)


def play(learner, start, stop):
    """Stages ``start`` to ``stop`` of one fixed stream of rewards and states; the actions."""
    rng = np.random.default_rng(8)
    rewards, states = rng.standard_t(1.7, 400), rng.integers(0, WORLD.states, 401)
    actions = []
    for t in range(start, stop):
        stage, state = t % WORLD.horizon, int(states[t])
        action = learner.act(stage, state)
        learner.update(stage, state, action, float(rewards[t]), int(states[t + 1]))
        actions.append(action)
    return actions


def steer(learner, start, stop):
    """Steps ``start`` to ``stop`` of one fixed noise, from where the last left the state."""
    noise = SYSTEM.sample(np.random.default_rng(9), 400)
    x = np.zeros(SYSTEM.n) if start == 0 else steer.x[start]
    inputs = []
    for t in range(start, stop):
        u = learner.act(x)
        y = SYSTEM.A @ x + SYSTEM.B @ u + noise[t]
        learner.update(x, u, y)
        inputs.append(u.tobytes())
        x = y
        steer.x[t + 1] = x
    return inputs


steer.x = {}


def snapshot(subject):
    return {key: array.tobytes() for key, array in subject.saved_arrays().items()}


def through_file(subject, tmp_path):
    subject.save(tmp_path / "it.npz")
    return ht.load(tmp_path / "it.npz")


def test_the_census_is_complete():
    for package, bases in (
        (mdp, (mdp.Agent,)),
        (control, (control.Controller, control.Identifier)),
    ):
        found = {v for v in vars(package).values() if isinstance(v, type) and issubclass(v, bases)}
        assert found - set(bases) == set(package.ALL)


# Fresh, inside an episode, between two, and past the room to begin with.
@pytest.mark.parametrize("kind", mdp.ALL, ids=lambda kind: kind.__name__)
def test_an_agent_saved_anywhere_resumes_to_the_bit(kind, tmp_path):
    for stop in (0, 16, 30, 200):
        straight = agent(kind)
        play(straight, 0, stop)
        resumed = through_file(straight, tmp_path)
        assert type(resumed) is kind
        assert snapshot(resumed) == snapshot(straight)
        assert play(resumed, stop, stop + 60) == play(straight, stop, stop + 60)
        assert snapshot(resumed) == snapshot(straight)


@pytest.mark.parametrize("identifier", IDENTIFIERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("kind", CONTROLLERS, ids=lambda kind: kind.__name__)
def test_a_controller_saved_anywhere_resumes_to_the_bit(kind, identifier, tmp_path):
    for stop in (0, 49, 180):
        straight = controller(kind, SYSTEM, identifier, seed=5)
        steer(straight, 0, stop)
        resumed = through_file(straight, tmp_path)
        assert type(resumed) is kind
        assert type(resumed.identifier) is identifier
        assert snapshot(resumed) == snapshot(straight)
        assert steer(resumed, stop, stop + 150) == steer(straight, stop, stop + 150)
        assert snapshot(resumed) == snapshot(straight)
        np.testing.assert_array_equal(resumed.gain, straight.gain)


@pytest.mark.parametrize("identifier", IDENTIFIERS, ids=lambda kind: kind.__name__)
def test_an_identifier_alone_resumes_to_the_bit(identifier, tmp_path):
    system = control.laplacian(T15)
    straight = identifier(system.n, system.d)
    steps = list(drive(system, 80))
    for step in steps[:40]:
        straight.update(*step)
    _ = straight.theta
    resumed = through_file(straight, tmp_path)
    for step in steps[40:]:
        straight.update(*step)
        resumed.update(*step)
    np.testing.assert_array_equal(resumed.theta, straight.theta)
    assert snapshot(resumed) == snapshot(straight)


def test_an_agent_and_a_controller_can_be_pickled_and_copied():
    learner, steering = agent(mdp.HvtLSVIUCB), controller(control.OFULQ, SYSTEM)
    play(learner, 0, 31)
    steer(steering, 0, 120)
    for subject in (learner, steering):
        assert snapshot(pickle.loads(pickle.dumps(subject))) == snapshot(subject)
        assert snapshot(deepcopy(subject)) == snapshot(subject)
        assert snapshot(subject.clone()) == snapshot(subject)
    assert learner.fresh().episodes == 0


def test_what_becomes_of_the_arguments_later_does_not_matter(tmp_path):
    identifier, Q = control.SystemIdentifier(3, 3), SYSTEM.Q.copy()
    steering = control.CertaintyEquivalence(
        identifier, Q=Q, R=SYSTEM.R, fallback=(-0.5 * SYSTEM.A).tolist()
    )
    Q[...] = -1.0
    identifier.update(np.ones(3), np.ones(3), np.ones(3))
    assert snapshot(through_file(steering, tmp_path)) == snapshot(steering)
    assert steering.clone().steps == 0


def saved(subject, tmp_path):
    path = tmp_path / "it.npz"
    subject.save(path)
    return path


def learned(name):
    if name == "controller":
        steering = controller(control.CertaintyEquivalence, SYSTEM, control.BatchHuberIdentifier)
        steer(steering, 0, 60)
        return steering
    learner = agent(mdp.HeavyLSVIUCB)
    play(learner, 0, 16)
    return learner


@pytest.mark.parametrize("name", ["agent", "controller"])
def test_a_truncated_file_is_refused_at_every_length(name, tmp_path):
    path = saved(learned(name), tmp_path)
    whole = path.read_bytes()
    for length in [0, 1, 7, *range(100, len(whole), len(whole) // 40), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(
            ValueError, match=r"saved by heavytail, or is damaged|its seal does not"
        ):
            ht.load(path)


@pytest.mark.parametrize("name", ["agent", "controller"])
def test_a_flipped_byte_is_refused_or_harmless(name, tmp_path):
    subject = learned(name)
    path = saved(subject, tmp_path)
    whole, before = path.read_bytes(), snapshot(subject)
    rng = np.random.default_rng(3)
    for place in rng.integers(0, len(whole), 60):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        path.write_bytes(bytes(broken))
        try:
            again = ht.load(path)
        except ValueError:
            continue
        assert snapshot(again) == before


def put(key, index, value):
    def change(_, arrays):
        arrays[key][index] = value

    return change


def put_steps(value):
    def change(_, arrays):
        arrays["scalars"][0] = arrays["identifier.scalars"][0] = value

    return change


def shorten(key):
    def change(_, arrays):
        arrays[key] = arrays[key][..., :-1]

    return change


AGENT_DAMAGE = {
    "another version": lambda header, _: header.update(version=99),
    "an unknown class": lambda header, _: header.update(agent="os.system"),
    "another noun": lambda header, _: header.update(format="heavytail policy", policy="OFUL"),
    "no class": lambda header, _: header.pop("agent"),
    "an argument it refuses": lambda header, _: header["arguments"].update(horizon=-1),
    "an argument that is missing": lambda _, arrays: arrays.pop("argument.features"),
    "features that are not": lambda _, arrays: arrays.update({"argument.features": np.zeros(3)}),
    "an array that is missing": lambda _, arrays: arrays.pop("value_marks"),
    "an array that does not fit": shorten("value_Q"),
    "an array of another type": lambda _, a: a.update(value_V=a["value_V"].astype(np.float32)),
    "a NaN": put("reward_scalars", (0, 1), np.nan),
    "a NaN in an estimate": put("reward_theta", (1, 0), np.nan),
    "half an episode": put("scalars", 0, 5.5),
    "more episodes than are kept": put("scalars", 0, 6.0),
    "countless episodes": put("scalars", 0, 1e300),
    "a stage that is not": put("scalars", 1, 3.0),
    "an action that is not": put("table", (0, 0), 3),
    "a state that is not": put("value_past", (0, 0, 1), 5),
    "a row that is not": put("value_past", (0, 0, 0), -1),
    "a place in the history that is not": put("reward_history", (0, 0, -1), 1e6),
    "more rewards than are kept": put("reward_scalars", (0, 0), 9.0),
}


@pytest.mark.parametrize("damage", AGENT_DAMAGE)
def test_a_damaged_agent_is_refused(damage, tmp_path):
    path = saved(learned("agent"), tmp_path)
    rewrite(path, AGENT_DAMAGE[damage])
    with pytest.raises(ValueError, match=r"Heavy|heavytail|OFUL"):
        ht.load(path)


CONTROLLER_DAMAGE = {
    "another version": lambda header, _: header.update(version=0),
    "an unknown class": lambda header, _: header.update(controller="Controller"),
    "an unknown identifier": lambda header, _: header["arguments"]["identifier"].update(
        identifier="OFULQ"
    ),
    "an argument it refuses": lambda header, _: header["arguments"]["identifier"][
        "arguments"
    ].update(n=0),
    "an argument that is missing": lambda _, arrays: arrays.pop("argument.Q"),
    "an array that is missing": lambda _, arrays: arrays.pop("gain"),
    "an array that does not fit": shorten("identifier.theta"),
    "a NaN": put("identifier.inverse", (0, 0), np.nan),
    "other steps than the identifier's": put("scalars", 0, 59.0),
    "half a step": put_steps(59.5),
    "countless steps": put_steps(1e300),
    "fewer steps kept than learned": lambda _, a: a.update(
        {"identifier.history": a["identifier.history"][:-1]}
    ),
}


@pytest.mark.parametrize("damage", CONTROLLER_DAMAGE)
def test_a_damaged_controller_is_refused(damage, tmp_path):
    path = saved(learned("controller"), tmp_path)
    rewrite(path, CONTROLLER_DAMAGE[damage])
    with pytest.raises(ValueError, match=r"Certainty|Identifier|heavytail"):
        ht.load(path)


@pytest.mark.parametrize("name", ["agent", "controller"])
def test_refusing_a_state_changes_nothing(name):
    subject, other = learned(name), learned(name)
    arrays = {key: array.copy() for key, array in other.saved_arrays().items()}
    arrays["scalars" if name == "agent" else "identifier.inverse"].flat[0] = np.nan
    before = snapshot(subject)
    with pytest.raises(ValueError, match="damaged"):
        subject.restore(arrays)
    assert snapshot(subject) == before


@pytest.mark.parametrize("name", ["agent", "controller"])
def test_nothing_is_pickled_and_nothing_unpickled(name, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a pickle")

    subject = learned(name)
    ht.load(saved(subject, tmp_path))  # kernels are loaded now: the compiler's cache is pickled
    for function in ("dump", "dumps", "load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, function, refuse)
    path = saved(subject, tmp_path)
    assert snapshot(ht.load(path)) == snapshot(subject)
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            assert member.endswith(".npy")
            assert b"'descr': '|O'" not in archive.read(member)


def test_a_pickle_inside_a_file_is_never_opened(tmp_path):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    path = saved(learned("agent"), tmp_path)
    for key in ("header", "table", "argument.features"):
        path = saved(learned("agent"), tmp_path)
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        arrays[key] = np.array([Trap()], dtype=object)
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match="saved by heavytail, or is damaged"):
            ht.load(path)


def test_an_argument_that_is_no_plain_data_is_refused_by_name(tmp_path):
    class Mine(mdp.UniformAgent):
        def __init__(self, features, horizon, *, odd):
            super().__init__(features, horizon)

    for odd in (object(), np.array([object()])):
        with pytest.raises(TypeError, match="cannot save the argument odd"):
            Mine(WORLD.features, 3, odd=odd).save(tmp_path / "it.npz")
    assert not list(tmp_path.iterdir())


def test_an_array_of_objects_is_refused_by_name_and_nothing_is_written(tmp_path):
    class Mine(mdp.UniformAgent):
        def saved_arrays(self):
            return {**super().saved_arrays(), "odd": np.array([object()])}

    with pytest.raises(TypeError, match=r"Mine\.save: 'odd' is an array of objects"):
        Mine(WORLD.features, 3).save(tmp_path / "it.npz")
    assert not list(tmp_path.iterdir())


def test_a_class_of_ones_own_is_loaded_when_it_is_named(tmp_path):
    class Mine(mdp.UniformAgent):
        pass

    mine = Mine(WORLD.features, 3, seed=4)
    play(mine, 0, 10)
    mine.save(tmp_path / "it.npz")
    with pytest.raises(ValueError, match="pass its class in kinds"):
        ht.load(tmp_path / "it.npz")
    again = ht.load(tmp_path / "it.npz", kinds=(Mine,))
    assert snapshot(again) == snapshot(mine)
