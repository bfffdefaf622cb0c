"""A state that was made up is refused before a kernel sees it, and nothing has changed."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
from tests.fuzz.player import through_file
from tests.fuzz.subjects import use
from tests.storage_tools import rewrite
from tests.unbreakable.census import ARMS, BAD, CENSUS, TAIL, forge, policy, snapshot, teach

import heavytail as ht
from heavytail import estimators
from heavytail.policies import ALL

FORGERIES = 25  # of each; ``make fuzz`` makes the others


# A forged file may hold anything; what is taken over must be safe to go on from.
@pytest.mark.parametrize("name", CENSUS)
def test_a_forged_state_is_refused_unchanged_or_safe_to_go_on_from(name, tmp_path):
    subject, rng, taken = CENSUS[name](), np.random.default_rng(4), 0
    path = tmp_path / "it.npz"
    subject.save(path)
    _goes_on(ht.load(path))
    names, whole = subject.slot_names(), path.read_bytes()
    places = [
        (key, slot if key in names else int(rng.integers(array.size)))
        for key, array in subject.saved_arrays().items()
        if array.dtype.kind in "fi" and array.size > 0
        for slot in range(array.shape[-1] if key in names else 4)
    ]
    for key, at in rng.permutation(np.array(places, dtype=object))[:FORGERIES]:
        path.write_bytes(whole)
        rewrite(path, lambda _, arrays, k=key, at=at: _spoil(arrays[k].reshape(-1), at, rng))
        try:
            found = ht.load(path)
        except ValueError:
            continue
        taken += 1
        _goes_on(found)
    assert taken < FORGERIES


NESTED = [
    {"encoder": "Encoder", "arguments": {"numbers": ["price"]}},
    {"regression": "OnlineRidge", "arguments": {}},
]
ODD = [None, True, 1, 3, 3.0, 0.5, 1e-300, 1e150, "3", "auto", [1.0], {"order": 2, "scale": 3}]


@pytest.mark.parametrize("name", CENSUS)
def test_what_is_loaded_with_another_argument_can_be_copied_and_saved_again(name, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS[name]().save(path)
    whole, taken = path.read_bytes(), 0
    for key in ht.load(path).constructor_arguments():
        for odd in [*ODD, *NESTED]:
            path.write_bytes(whole)
            rewrite(path, lambda header, _, k=key, v=odd: header["arguments"].update({k: v}))
            try:
                found = ht.load(path)
            except ValueError:
                continue
            taken += 1
            _copied(found)
            _copied(through_file(found))
    assert taken


@pytest.mark.parametrize("value", NESTED)
@pytest.mark.parametrize("name", estimators.ALL)
def test_an_argument_that_could_not_be_saved_is_not_loaded(name, value, tmp_path):
    """A regression looks at its arguments when it is fitted, as scikit-learn has it."""
    path = tmp_path / "it.npz"
    getattr(estimators, name)().save(path)
    rewrite(path, lambda header, _: header["arguments"].update(level=value))
    with pytest.raises(ValueError, match="refuses: an argument cannot be"):
        ht.load(path)


@pytest.mark.parametrize("value", [{}, {"order": 2}, 3, None, "x", [], {"array": "theta"}])
def test_what_cannot_be_carried_along_is_refused(value, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS["TwinUCB with an encoder"]().save(path)
    rewrite(path, lambda header, _: header["carried"].update(encoder=value))
    with pytest.raises(ValueError, match="does not say what it carries"):
        ht.load(path)


def _spoil(numbers: Any, at: int, rng: np.random.Generator) -> None:
    """Another number in the place of one: one that cannot be, one near it, or its neighbour."""
    if numbers.dtype.kind == "i":
        numbers[at] = int(rng.choice([-1, -(2**40), 2**40, 10**6]))
    elif rng.random() < 0.1:
        _swap(numbers, at, (at + 1) % len(numbers))
    else:
        own = numbers[at]
        numbers[at] = rng.choice([*BAD, 0.0, -own, 2.0 * own, own / 2.0, (1.0 + 1e-3) * own])


def _goes_on(found: Any) -> None:
    """It can be copied and saved, learns or says why not, and can then be copied and saved, or is
    refused where numbers that no honest rounds gave left the floating-point range.
    """
    _copied(found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(found, ht.Policy):
            teach(found, 20)
        else:
            rng = np.random.default_rng(6)
            for _ in range(20):
                with contextlib.suppress(ValueError):
                    use(found, rng)
    with contextlib.suppress(ValueError):
        _copied(found)


def _copied(subject: Any) -> None:
    """A copy of it is as it is; what has no clone is copied by a file."""
    copy = subject.clone() if hasattr(subject, "clone") else through_file(subject)
    assert snapshot(copy) == snapshot(subject)


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
        ("zeros", 1e6),
        ("due", 1.5),
        ("share", -0.1),
        ("audit", 0.5),
        ("size_energy", -1.0),
        ("size_factor", -1e9),
        ("conversion_energy", -1.0),
        ("patience", 3.0),
    ],
)
def test_parts_of_a_twin_that_cannot_be_are_refused(slot, value, tmp_path):
    path = tmp_path / "it.npz"
    policy("TwinUCB", {}).save(path)
    forge(path, "scalars", slot, value)
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)


def _swap(a: Any, one: int, other: int) -> None:
    a[[one, other]] = a[[other, one]]


@pytest.mark.parametrize("size", [1e101, 1e200, 1.7e308])
def test_rewards_of_an_epoch_that_could_not_be_learned_are_refused(size, tmp_path):
    path, one = tmp_path / "it.npz", ht.CRMM(2, horizon=100, tail=TAIL, repeats=3)
    one.update([1.0, 0.0], 1.0)
    one.update([1.0, 0.0], size)  # the median of three does not mind one
    one.save(path)
    ht.load(path)
    rewrite(path, lambda _, arrays: arrays["rewards"].__setitem__(0, size))
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)


@pytest.mark.parametrize("name", ["Hvt-UCB", "Twin-UCB", "OFUL"])
def test_a_start_from_an_earlier_estimate_can_be_saved_at_once_and_later(name, tmp_path):
    for options in ({}, {"radius": "theory"}) if name != "OFUL" else ({},):
        one = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, **options)
        one.start_from(0.1 * np.ones(3), np.diag([0.5, 2.0, 7.0]))
        for rounds in (0, 1, 20):
            teach(one, rounds)
            one.save(tmp_path / "it.npz")
            assert snapshot(ht.load(tmp_path / "it.npz")) == snapshot(one)


@pytest.mark.parametrize("name", CENSUS)
def test_a_file_that_lost_an_array_is_refused(name, tmp_path):
    path, subject = tmp_path / "it.npz", CENSUS[name]()
    subject.save(path)
    whole = path.read_bytes()
    for key in subject.saved_arrays():

        def lose(_: Any, arrays: Any, key: str = key) -> None:
            del arrays[key]

        path.write_bytes(whole)
        rewrite(path, lose, names=False)
        with pytest.raises(ValueError, match="it should hold"):
            ht.load(path)


@pytest.mark.parametrize("name", ["TwinUCB ", "HeavyOFUL "])
def test_a_mask_hides_no_number_from_the_checks(name):
    one = CENSUS[name]()
    before = snapshot(one)
    for key, array in one.saved_arrays().items():
        bad = array.copy()
        bad.flat[:1] = np.nan
        arrays = one.saved_arrays() | {key: np.ma.MaskedArray(bad, mask=np.isnan(bad))}
        with pytest.raises(ValueError, match=r"does not fit|damaged"):
            one.resume(arrays)
        assert snapshot(one) == before


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool, complex, object, str])
def test_a_history_or_a_count_of_another_type_is_refused(kind):
    one = CENSUS["HeavyOFUL "]()
    before = snapshot(one)
    for key in ("history", "pending.made"):
        arrays = one.saved_arrays()
        arrays[key] = arrays[key].astype(kind)
        with pytest.raises(ValueError, match=r"does not fit|damaged"):
            one.resume(arrays)
        assert snapshot(one) == before
