"""Files name the slots of a policy: they load by name, in any order, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.storage_tools import rewrite

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.kernels.layout import COMMON, slot_names
from heavytail.policies import ALL, PackedPolicy

TAIL, VARIANCE = ht.MomentBound(order=1.5, scale=1.2), ht.MomentBound(order=2.0, scale=0.8)
T = 400


def play(policy: ht.Policy, rounds: int) -> np.ndarray:
    """``rounds`` rounds among eight arms in the plane; the arms."""
    rng = np.random.default_rng(7)
    arms = rng.uniform(-1, 1, (8, 2))
    arms /= np.linalg.norm(arms, axis=1)[:, None]
    for _ in range(rounds):
        arm = policy.select(arms)
        policy.update(arms[arm], paid(policy, float(arms[arm].sum() + rng.standard_t(1.7))))
    return arms


def build(kind: type[ht.Policy]) -> ht.Policy:
    return ht.make_policy(kind.name, dim=2, horizon=2000, tail=VARIANCE, arms=8)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_the_state_is_a_dict_by_name(kind: type[ht.Policy]) -> None:
    policy = build(kind)
    assert isinstance(policy, PackedPolicy)
    play(policy, 5)
    scalars = policy.state["scalars"]
    assert scalars["rounds"] == 5.0
    assert scalars["radius"] == policy.radius
    assert list(scalars)[: len(COMMON)] == [name.lower() for name in COMMON._fields]
    assert len(scalars) == len(slot_names(*policy.algorithm.slots))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    policy = ht.HvtUCB(2, tail=TAIL)
    play(policy, 50)
    policy.save(tmp_path / "policy.npz")
    return tmp_path / "policy.npz"


def exchange(header: dict, arrays: dict, *, names: bool, values: bool) -> None:
    slots = header["slots"]["scalars"]
    a, b = slots.index("stability"), slots.index("energy")
    if names:
        slots[a], slots[b] = slots[b], slots[a]
    if values:
        arrays["scalars"][[a, b]] = arrays["scalars"][[b, a]]


def test_slots_in_another_order_load_by_their_names(file: Path) -> None:
    before = ht.load(file)
    rewrite(file, lambda header, arrays: exchange(header, arrays, names=True, values=True))
    after = ht.load(file)
    assert after.state["scalars"] == before.state["scalars"]


def test_a_file_with_two_slots_exchanged_is_refused(file: Path) -> None:
    with np.load(file) as archive:
        arrays = dict(archive)
    a, b = 10, 12
    arrays["scalars"][[a, b]] = arrays["scalars"][[b, a]]
    np.savez(file, **arrays)
    with pytest.raises(ValueError, match="changed since it was saved"):
        ht.load(file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda header, _: header["slots"]["scalars"].remove("energy"), "'energy'.* missing"),
        (lambda header, _: header["slots"]["scalars"].append("heat"), "'heat'.* unknown here"),
        (lambda header, _: header.pop("slots"), "does not name the slots"),
        (lambda header, _: header.update(slots={}), "does not name the slots"),
        (lambda _, arrays: arrays.update(extra=np.zeros(3)), "arrays that HvtUCB has not"),
        (lambda _, arrays: arrays.pop("inverse"), "does not fit"),
    ],
    ids=["a slot gone", "a slot more", "no names", "empty names", "an array more", "an array gone"],
)
def test_what_is_missing_or_foreign_is_refused_by_name(file: Path, change, says: str) -> None:
    rewrite(file, change)
    with pytest.raises(ValueError, match=says) as error:
        ht.load(file)
    assert str(error.value).count(str(file)) == 1


def before_looks(header: dict, arrays: dict) -> None:
    """Twin-UCB's file of 0.2.0 named its slots otherwise."""
    slots = header["slots"]["scalars"]
    slots[slots.index("patience")] = "turn"


def test_a_file_of_a_policy_that_is_gone_or_was_another_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    ht.TwinUCB(2).save(path)
    rewrite(path, before_looks)
    with pytest.raises(ValueError, match=r"version of TwinUCB.*'turn'.*; learn its log anew\.$"):
        ht.load(path)
    rewrite(path, lambda header, _: header.update(policy="HurdleUCB"))
    with pytest.raises(ValueError, match=r"'HurdleUCB'.*; learn its log anew with TwinUCB\.$"):
        ht.load(path)


def before_links(header: dict, arrays: dict) -> None:
    """CRTM's file as it was written before it had a link."""
    slots = header["slots"]["scalars"]
    for name in ("link", "fractions"):
        arrays["scalars"] = np.delete(arrays["scalars"], slots.index(name))
        slots.remove(name)
        header["arguments"].pop(name)


@pytest.mark.parametrize("form", ["newton", "least squares"])
def test_a_file_of_crtm_before_it_had_a_link_goes_on_with_the_identity(
    tmp_path: Path, form
) -> None:
    policy = ht.CRTM(2, horizon=T, tail=TAIL, form=form)
    arms = play(policy, 30)
    policy.save(tmp_path / "policy.npz")
    rewrite(tmp_path / "policy.npz", before_links)
    loaded = ht.load(tmp_path / "policy.npz")
    assert loaded.link is ht.links.identity
    for _ in range(20):
        arm = policy.select(arms)
        assert loaded.select(arms) == arm
        for one in (policy, loaded):
            one.update(arms[arm], 0.3)
    assert all(
        np.array_equal(a, loaded.state_arrays()[k]) for k, a in policy.state_arrays().items()
    )


@pytest.mark.parametrize("gone", ["level", "rounds"])
def test_what_crtm_always_had_must_be_there(tmp_path: Path, gone: str) -> None:
    ht.CRTM(2, horizon=T, tail=TAIL).save(tmp_path / "policy.npz")
    rewrite(tmp_path / "policy.npz", lambda header, _: header["slots"]["scalars"].remove(gone))
    with pytest.raises(ValueError, match=f"'{gone}'.* missing"):
        ht.load(tmp_path / "policy.npz")


def test_slots_that_came_later_are_for_ever_what_the_arguments_say_or_begin_at_0() -> None:
    from heavytail.kernels.layout import slot_kinds
    from heavytail.policies.core.state import LATER

    by_name = {kind.__name__: kind for kind in ALL}
    kinds = {
        one: slot_kinds(*by_name[name].algorithm.slots)[one]
        for name in LATER
        for one in LATER[name]
    }
    counted = {one for one, kind in kinds.items() if kind != "fixed"}
    assert counted == {"astray", "units"}
    for name in LATER:
        fresh = build(by_name[name]).state["scalars"]
        assert not any(fresh[one] for one in counted if one in fresh)


@pytest.mark.parametrize("options", [{}, {"clip": 1.345}, {"target": "typical"}])
def test_a_file_from_before_the_unit_was_set_anew_goes_on_to_the_bit(
    tmp_path: Path, options: dict[str, object]
) -> None:
    policy = (ht.TwinUCB if "target" in options else ht.HvtUCB)(2, **options)
    arms = play(policy, 30)
    policy.save(tmp_path / "policy.npz")

    def before(header, arrays) -> None:
        slots, scalars = header["slots"]["scalars"], arrays["scalars"]
        for name in ("astray", "units"):
            place = slots.index(name)
            if place < scalars[slots.index("sizes")]:
                scalars[slots.index("sizes")] -= 1  # the sizes lay further ahead
            scalars = np.delete(scalars, place)
            slots.remove(name)
        arrays["scalars"] = scalars

    rewrite(tmp_path / "policy.npz", before)
    loaded = ht.load(tmp_path / "policy.npz")
    for _ in range(20):
        arm = policy.select(arms)
        assert loaded.select(arms) == arm
        for each in (policy, loaded):
            each.update(arms[arm], 0.3)
    assert all(
        np.array_equal(a, loaded.state_arrays()[k]) for k, a in policy.state_arrays().items()
    )


def test_the_header_says_who_wrote_it(file: Path) -> None:
    seen = {}
    rewrite(file, lambda header, _: seen.update(header))
    assert seen["library"] == ht.__version__
    assert seen["version"] == 2


def test_a_file_that_says_it_is_older_than_it_is_is_refused(file: Path) -> None:
    for version in (1, True):  # which is 1 to Python
        rewrite(file, lambda header, _, version=version: header.update(version=version))
        with pytest.raises(
            ValueError, match=f"is of format version {version}, written by heavytail"
        ):
            ht.load(file)


@pytest.mark.parametrize("slots", [5, None, {"scalars": 5}, {"scalars": [[1]]}])
def test_names_that_are_none_are_refused(file: Path, slots) -> None:
    rewrite(file, lambda header, _: header.update(slots=slots))
    with pytest.raises(ValueError, match="does not name the slots"):
        ht.load(file)


def test_a_file_says_the_defaults_too(tmp_path: Path) -> None:
    """A later version may have others."""
    policy = ht.OFUL(2, noise_scale=0.5)
    policy.save(tmp_path / "policy.npz")
    with np.load(tmp_path / "policy.npz") as file:
        told = json.loads(str(file["header"]))["arguments"]
    assert told["radius_scale"] == 0.3
    assert repr(ht.load(tmp_path / "policy.npz")) == repr(policy) == "OFUL(dim=2, noise_scale=0.5)"
