"""A state that was made up is refused before a kernel sees it, and nothing has changed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.storage_tools import rewrite
from tests.unbreakable.census import (
    ARMS,
    BAD,
    CENSUS,
    TAIL,
    forge,
    policy,
    teach,
)

import heavytail as ht
from heavytail import estimators
from heavytail.policies import ALL


# A forged file may hold anything; what is taken over must be safe to go on from.
@pytest.mark.parametrize("name", CENSUS)
def test_a_forged_state_is_refused_unchanged_or_safe_to_go_on_from(name, tmp_path):
    subject = CENSUS[name]()
    path, rng, taken = tmp_path / "it.npz", np.random.default_rng(4), 0
    subject.save(path)
    names, whole = subject.slot_names(), path.read_bytes()
    for key, array in subject.saved_arrays().items():
        if array.dtype.kind not in "fi" or array.size == 0:
            continue
        count = array.shape[-1] if key in names else 4
        for slot in range(count):
            value = BAD[int(rng.integers(len(BAD)))]
            if array.dtype.kind == "i":
                value = int(rng.choice([-1, -(2**40), 2**40, 10**6]))

            def change(header, arrays, key=key, slot=slot, value=value):
                place = slot if key in names else int(rng.integers(arrays[key].size))
                arrays[key].reshape(-1)[place] = value

            path.write_bytes(whole)
            rewrite(path, change)
            try:
                found = ht.load(path)
            except ValueError:
                continue
            taken += 1
            if isinstance(found, ht.Policy):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    teach(found, 3)
    assert taken < 100


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_a_refused_state_leaves_what_is_pending(name):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    policy.decide(ARMS)
    arrays = policy.saved_arrays()
    arrays["scalars"][0] = -5.5
    arrays["pending.made"][0] = 7.0
    with pytest.raises(ValueError, match=r"damaged|does not fit"):
        policy.resume(arrays)
    assert policy.pending == (0,)
    assert policy.rounds == 0


GRAMS = [name for name in CENSUS if name not in estimators.ALL and "RobustUCB" not in name]


@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("value", [1e300, -1e300, 1e5, -1e5, -40.0])
def test_a_forged_log_det_is_refused(name, value, tmp_path):
    path, subject = tmp_path / "it.npz", CENSUS[name]()
    for key, names in subject.slot_names().items():
        if "log_det" in names:
            subject.save(path)
            forge(path, key, "log_det", value)
            with pytest.raises(ValueError, match="log_det cannot be"):
                ht.load(path)


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.5, 3.0, 1e6, 1e300])
def test_a_forged_ball_is_refused(value, tmp_path):
    path = tmp_path / "it.npz"
    for name in CENSUS:
        if not hasattr(ht.policies, name.split()[0]):
            continue
        CENSUS[name]().save(path)
        forge(path, "scalars", "theta_bound", value)
        with pytest.raises(ValueError, match=r"theta_bound cannot be|outside its ball"):
            ht.load(path)


def test_a_ball_that_was_widened_is_loaded(tmp_path):
    policy = ht.HvtUCB(1, theta_bound=0.01, intercept=False)
    for t in range(300):
        policy.update([1.0], 5.0 + 0.1 * (t % 3))
    bound = policy.state["scalars"]["theta_bound"]
    assert bound > 0.02
    policy.save(tmp_path / "it.npz")
    assert ht.load(tmp_path / "it.npz").state["scalars"]["theta_bound"] == bound
    policy.restore(ht.HvtUCB(1, theta_bound=0.01, intercept=False).state_arrays())
    forge(tmp_path / "it.npz", "scalars", "theta_bound", 0.03)
    with pytest.raises(ValueError, match="theta_bound cannot be"):
        ht.load(tmp_path / "it.npz")


@pytest.mark.parametrize("name", [name for name in CENSUS if hasattr(ht.policies, name.split()[0])])
@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308])
def test_forged_features_and_estimates_too_large_to_square_are_refused(name, value, tmp_path):
    path, subject = tmp_path / "it.npz", CENSUS[name]()
    arrays = subject.state_arrays()
    for key in {"history", "theta", *getattr(subject, "_rows", {})} & set(arrays):
        if key.endswith("inverse") or arrays[key].size == 0:
            continue
        subject.save(path)
        forge(path, key, 0, value)
        with pytest.raises(ValueError, match="damaged"):
            ht.load(path)


@pytest.mark.parametrize(
    ("slot", "value"),
    [
        ("size_mean", 1e300),
        ("size_mean", -1e5),
        ("size_factor", 1e9),
        ("mean_factor", -1e9),
        ("middle", 1e200),
        ("size_energy", -1.0),
        ("conversion_energy", 1e300),
        ("first_size", 0.0),
    ],
)
def test_parts_of_a_hurdle_that_cannot_be_are_refused(slot, value, tmp_path):
    path = tmp_path / "it.npz"
    policy("HurdleUCB", {}).save(path)
    forge(path, "scalars", slot, value)
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)
