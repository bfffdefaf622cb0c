"""A state that was made up is refused before a kernel sees it, and nothing has changed."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
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
    """It can be copied and saved, learns or says why not, and can then be copied and saved."""
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


def _heavy(tmp_path: Path, solver: str) -> Path:
    one = ht.HeavyOFUL(3, horizon=2000, tail=TAIL, solver=solver, threshold_scale=0.003)
    teach(one, 150)
    assert 20 < one.diagnostics().clipped_share * 150 < 140
    one.save(tmp_path / "it.npz")
    ht.load(tmp_path / "it.npz")
    return tmp_path / "it.npz"


def _swap(a: Any, one: int, other: int) -> None:
    a[[one, other]] = a[[other, one]]


# Each of these rows is possible alone.
FORGED = {
    "another target": lambda H, sums: H[:, 3].__setitem__(_inner(H), H[_inner(H), 3] / 2.0),
    "another threshold": lambda H, sums: H[:, 4].__setitem__(_outer(H), H[_outer(H), 4] / 2.0),
    "another region": lambda H, sums: H[:, 5].__setitem__(_outer(H), 0.0),
    "a row that never comes up": lambda H, sums: H[:, 6].__setitem__(int(H[-1, 7]), 1e300),
    "no heap": lambda H, sums: _swap(H[:, 7], 0, len(H) - 1),
    "another sum": lambda H, sums: sums.__setitem__((3, 0), sums[3, 0] + 1.0),
    "another matrix": lambda H, sums: sums.__setitem__((1, 0), sums[1, 0] + 1.0),
}


def _inner(rows: Any) -> int:
    return int(np.argmax((rows[:, 5] == 0.0) * np.abs(rows[:, 3])))


def _outer(rows: Any) -> int:
    return int(np.argmax(np.abs(rows[:, 5]) * rows[:, 4]))


@pytest.mark.parametrize("how", FORGED)
def test_rows_of_the_lazy_fit_that_contradict_its_sums_are_refused(how, tmp_path):
    path = _heavy(tmp_path, "lazy")
    rewrite(path, lambda _, arrays: FORGED[how](arrays["history"], arrays["sums"]))
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)


@pytest.mark.parametrize("solver", ["lazy", "newton", "gd", "lbfgs"])
def test_features_that_contradict_the_gram_matrix_are_refused(solver, tmp_path):
    path = _heavy(tmp_path, solver)
    rewrite(path, lambda _, arrays: arrays["history"][7].__setitem__(slice(0, 3), 0.3))
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)


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


# Where in GLM-UCB's arrays, and by how much more; a row is x, the sum of its rewards, their count.
MISFITS = {
    "a sum": ("history", (0, 3), 1.0),
    "a count": ("history", (0, 4), 1.0),
    "counts that add up": ("history", (slice(0, 2), 4), [1.0, -1.0]),
    "a row twice": ("history", (1, slice(0, 3)), ARMS[0] - ARMS[1]),
    "theta": ("theta", 0, 1e-3),
    "curvature": ("curvature", (0, 0), 0.1),
    "P": ("inverse", (0, 0), -1e-3),
}


@pytest.mark.parametrize("how", MISFITS)
@pytest.mark.parametrize("link", ["identity", "logistic", "log", "probit"])
def test_a_likelihood_that_its_rows_do_not_have_is_refused(link, how, tmp_path):
    path, one = tmp_path / "it.npz", ht.GLMUCB(3, link=link)
    for t in range(20):
        one.update(ARMS[t % 6], float(t % 7 < 3))
    one.save(path)
    ht.load(path)
    key, place, more = MISFITS[how]

    def change(_, arrays):
        arrays[key][place] += more

    rewrite(path, change)
    with pytest.raises(ValueError, match="damaged"):
        ht.load(path)


@pytest.mark.parametrize("name", ["OL2M", "CRTM", "GLM-UCB", "OFUL", "Hvt-UCB", "Twin-UCB"])
def test_after_a_long_run_p_is_still_held_to_its_rows(name, tmp_path):
    path, rng = tmp_path / "it.npz", np.random.default_rng(0)
    one = ht.make_policy(name, dim=3, horizon=10**5, tail=TAIL, arms=6)
    one.update_many(ARMS[rng.integers(6, size=20_000)], rng.integers(2, size=20_000))
    one.save(path)
    again = ht.load(path)
    assert snapshot(again.clone()) == snapshot(one)
    forgeries = [("inverse", 0, value) for value in (0.0, -1e-6, 1e9)]
    if not (one.takes_prior and name == "OFUL"):  # which does not remember whether it had one
        forgeries.append(("scalars", "log_det", 0.0))
    for forgery in forgeries:
        one.save(path)
        forge(path, *forgery)
        with pytest.raises(ValueError, match="damaged"):
            ht.load(path)


# While LOTUS explores, its radius is that of the batch before, of which nothing else is left; later
# it is held: tests/policies/test_low_rank_refusals.py.
BELIEVED = {"LOTUS"}
POLICIES = [name for name in CENSUS if hasattr(ht.policies, name.split()[0])]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("rounds", [0, 3, 40])
def test_a_forged_radius_is_refused(name, rounds, tmp_path):
    path, one = tmp_path / "it.npz", CENSUS[name]()
    subject = type(one)(**one._arguments)
    teach(subject, rounds)
    own, held = subject._s[1], {*subject.slot_names()["scalars"]} & DERIVED
    for slot in held if rounds == 40 else {"radius"}:
        own = subject.state["scalars"][slot]
        for value in (2.0 * own + 1.0, (1.0 + 1e-6) * own + 1e-6, 1e100):
            subject.save(path)
            assert ht.load(path).radius == subject.radius
            forge(path, "scalars", slot, value)
            if type(subject).__name__ in BELIEVED:
                ht.load(path)
                continue
            with pytest.raises(ValueError, match=f"damaged: {slot} cannot be"):
                ht.load(path)


DERIVED = {"radius", "bulk_radius", "conversion_radius"}


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


@pytest.mark.parametrize("name", ["Hvt-UCB", "Twin-UCB", "OFUL"])
@pytest.mark.parametrize("rounds", [0, 3, 40])
def test_without_a_prior_a_log_det_that_p_has_not_is_refused(name, rounds, tmp_path):
    path, one = tmp_path / "it.npz", ht.make_policy(name, dim=3, horizon=2000, tail=TAIL)
    teach(one, rounds)
    for more in (0.01, 5.0, -0.01):
        one.save(path)
        ht.load(path)
        forge(path, "scalars", "log_det", one.state["scalars"]["log_det"] + more)
        if name == "OFUL" and rounds > 0 and more > 0.0:
            ok = "radius cannot be"  # what it had begun from is not known; its radius tells
        else:
            ok = "log_det cannot be|radius cannot be"
        with pytest.raises(ValueError, match=ok):
            ht.load(path)


def test_p_wider_than_at_first_is_refused_where_there_was_no_prior(tmp_path):
    path, one = tmp_path / "it.npz", ht.HvtUCB(3)
    teach(one, 40)
    one.save(path)
    rewrite(path, lambda _, arrays: arrays["inverse"].__imul__(1e9))
    with pytest.raises(ValueError, match="larger than at first"):
        ht.load(path)
