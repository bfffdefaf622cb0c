"""An encoder is saved alone and with a policy; files are believed in nothing."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from tests.encoding.tools import columns, fitted
from tests.storage_tools import rewrite

import heavytail as ht

TOLD = columns(60, seed=4)


def bits(encoder: ht.Encoder) -> Any:
    arrays = {key: array.tobytes() for key, array in encoder.saved_arrays().items()}
    return encoder.schema(), arrays, encoder.transform(TOLD).tobytes()


@pytest.mark.parametrize("more", [{}, {"other": True, "missing": "indicator", "seed": 7}])
def test_what_is_loaded_is_the_same_to_the_bit_and_goes_on_as_if_never_saved(tmp_path, more):
    encoder = fitted(**more)
    encoder.save(tmp_path / "it.npz")
    for load in (ht.load, ht.Encoder.load):
        twin = load(tmp_path / "it.npz")
        assert bits(twin) == bits(encoder)
        again = copy.deepcopy(encoder).partial_fit(columns(5000, seed=5))
        assert bits(twin.partial_fit(columns(5000, seed=5))) == bits(again)
    for twin in (pickle.loads(pickle.dumps(encoder)), copy.deepcopy(encoder)):
        assert bits(twin) == bits(encoder)


def test_an_encoder_that_was_not_fitted_or_need_not_be_is_saved_too(tmp_path):
    fresh = ht.Encoder(numbers=["a"], categories={"b": None})
    fresh.save(tmp_path / "it.npz")
    assert ht.load(tmp_path / "it.npz").schema() == fresh.schema()
    stated = fitted().fixed()
    stated.save(tmp_path / "it.npz")
    assert bits(ht.load(tmp_path / "it.npz")) == bits(stated)
    ht.OFUL(2, noise_scale=1.0).save(tmp_path / "it.npz")
    with pytest.raises(ValueError, match="encoder saved by heavytail"):
        ht.Encoder.load(tmp_path / "it.npz")


def policy() -> ht.Policy:
    encoder = fitted()
    made = ht.TwinUCB(encoder.dim)
    made.encoder = encoder
    made.update(encoder.transform(TOLD)[0], 2.0)
    return made


def test_a_policy_carries_its_encoder_through_files_clones_and_pickles(tmp_path):
    made = policy()
    made.save(tmp_path / "it.npz")
    for twin in (
        ht.load(tmp_path / "it.npz"), made.clone(), made.clone().clone(), copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
    ):  # fmt: skip
        assert bits(twin.encoder) == bits(made.encoder)
        assert (twin.theta == made.theta).all()
        assert twin.encoder is not made.encoder


def test_a_policy_takes_a_copy_that_learns_no_more():
    encoder = fitted()
    made = ht.TwinUCB(encoder.dim)
    assert made.encoder is None
    made.encoder = encoder
    before = bits(made.encoder)
    encoder.partial_fit({**columns(5, 8), "segment": ["another"] * 5})
    made.encoder.partial_fit({**columns(5, 8), "segment": ["another"] * 5})
    assert bits(made.encoder)[::2] == before[::2]
    made.encoder = None
    assert made.encoder is None
    assert made.clone().encoder is None


def test_an_encoder_that_does_not_fit_the_policy_is_refused():
    made = ht.TwinUCB(3)
    with pytest.raises(ValueError, match=r"TwinUCB.encoder must give 3 features.*dim=encoder.dim"):
        made.encoder = fitted()
    with pytest.raises(ValueError, match="nothing was fitted"):
        made.encoder = ht.Encoder(numbers=["a", "b", "c"])
    with pytest.raises(TypeError, match=r"TwinUCB.encoder must be an Encoder or None; got 'x'"):
        made.encoder = "x"
    assert made.encoder is None


def test_a_policy_is_not_saved_with_an_encoder_that_was_changed_under_it(tmp_path):
    made = policy()
    made.save(tmp_path / "it.npz")
    whole = (tmp_path / "it.npz").read_bytes()
    made.encoder.set_params(hashed={"sku": 17})
    for act in (lambda: made.save(tmp_path / "it.npz"), made.clone):
        with pytest.raises(ValueError, match=r"TwinUCB.encoder must give \d+ features"):
            act()
    assert (tmp_path / "it.npz").read_bytes() == whole


def header(path: Any) -> dict[str, Any]:
    with np.load(path) as archive:
        return json.loads(str(archive["header"]))


def test_files_without_an_encoder_are_as_they_were(tmp_path):
    made = policy()
    made.save(tmp_path / "it.npz")
    assert header(tmp_path / "it.npz")["version"] == 3
    made.encoder = None
    made.save(tmp_path / "it.npz")
    told = header(tmp_path / "it.npz")
    assert told["version"] == 2
    assert "carried" not in told
    assert ht.load(tmp_path / "it.npz").encoder is None


def at(header: dict[str, Any]) -> dict[str, Any]:
    return header["carried"]["encoder"]


FORGERIES = {
    "no encoder": lambda h: h.pop("carried"),
    "none of it": lambda h: h.update(carried={}),
    "a number": lambda h: h.update(carried=3),
    "two": lambda h: h["carried"].update(other=at(h)),
    "by another name": lambda h: h.update(carried={"other": at(h)}),
    "text": lambda h: h["carried"].update(encoder="x"),
    "a policy": lambda h: h["carried"].update(
        encoder={"policy": "OFUL", "arguments": {"dim": 2, "noise_scale": 1.0}}
    ),
    "nobody's": lambda h: h["carried"].update(encoder={"encoder": "Odd", "arguments": {}}),
    "other features": lambda h: at(h)["arguments"].update(hashed={"items": [["sku", 17]]}),
    "a million features": lambda h: at(h)["arguments"].update(hashed={"items": [["sku", 10**6]]}),
    "not stated": lambda h: at(h)["arguments"].update(numbers=["price", "age"]),
    "no bound": lambda h: at(h)["arguments"].update(bound=float("nan")),
    "an odd argument": lambda h: at(h)["arguments"].update(odd=1),
    "a long name": lambda h: at(h)["arguments"].update(hashed={"items": [["s" * 10**4, 16]]}),
    "a key that is none": lambda h: at(h)["arguments"].update(hashed={"items": [[[], 16]]}),
    "a version before": lambda h: h.update(version=2),
    "version 1": lambda h: h.update(version=1),
    "a version to come": lambda h: h.update(version=4),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_encoder_in_a_policys_file_is_refused(tmp_path, forgery):
    policy().save(tmp_path / "it.npz")
    rewrite(tmp_path / "it.npz", lambda header, _: FORGERIES[forgery](header))
    with pytest.raises(ValueError) as caught:
        ht.load(tmp_path / "it.npz")
    assert len(str(caught.value)) < 1500
    assert "it.npz" in str(caught.value)


def test_other_things_carry_no_encoder(tmp_path):
    encoder = fitted()
    encoder.save(tmp_path / "it.npz")
    inner = {"encoder": "Encoder", "arguments": {"hashed": {"items": [["a", 2]]}}}
    rewrite(
        tmp_path / "it.npz",
        lambda header, _: header.update(version=3, carried={"encoder": inner}),
    )
    with pytest.raises(ValueError, match=r"it\.npz: Encoder carries nothing; got"):
        ht.load(tmp_path / "it.npz")


def texts(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


ARRAYS: dict[str, Any] = {
    "seen": [np.array([0]), np.array([-1]), np.array([1, 2]), np.array([2.0]), np.array([2**60])],
    "counts": [np.array([200]), np.array([-1, 401]), np.array([5000, -4600]), np.array([0, 0])],
    "rows": [np.zeros(400, dtype=int), np.arange(400) - 1, np.arange(400)[::-1], np.arange(3)],
    "values": [np.full(400, np.nan), np.full(400, np.inf), np.full(400, 1e300), np.zeros(399)],
    "categories": [
        texts([]), texts({}), texts({"segment": ["a"], "region": ["b"]}), texts("x"),
        texts({"region": ["b", "a"], "segment": []}), texts({"region": [1], "segment": []}),
        texts({"region": ["a\n"], "segment": []}), np.array([255], dtype=np.uint8),
        texts({"region": sorted(map(str, range(10001))), "segment": []}),
        np.frombuffer(b"[" * 10**5, dtype=np.uint8),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "k"), [(key, k) for key in ARRAYS for k in range(len(ARRAYS[key]))]
)
def test_a_forged_state_of_an_encoder_is_refused(tmp_path, key, k):
    fitted().save(tmp_path / "it.npz")
    rewrite(tmp_path / "it.npz", lambda _, arrays: arrays.update({key: ARRAYS[key][k]}))
    with pytest.raises(ValueError, match=r"it\.npz: Encoder: the saved state's '\w+' is d"):
        ht.load(tmp_path / "it.npz")


def test_an_array_more_or_less_is_refused(tmp_path):
    for change in (lambda a: a.pop("seen"), lambda a: a.update(odd=np.zeros(1))):
        fitted().save(tmp_path / "it.npz")
        rewrite(tmp_path / "it.npz", lambda _, arrays, change=change: change(arrays))
        with pytest.raises(ValueError, match="damaged"):
            ht.load(tmp_path / "it.npz")
