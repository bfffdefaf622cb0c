"""Nothing that a file, a thread or a caller does corrupts what learns, by census."""

from __future__ import annotations

import os
import socket
import stat
import threading
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T21, controller, drive
from tests.storage_tools import rewrite
from tests.test_storage import WORLD, agent, play

import heavytail as ht
from heavytail import _archive, _storage, control, estimators, mdp
from heavytail.checks.policies import paid
from heavytail.estimators.base import Regression
from heavytail.policies import ALL

TAIL = ht.MomentBound(order=2.0, scale=0.5)
SYSTEM = control.laplacian(T21)
ARMS = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 3))
MODES: dict[str, list[dict[str, Any]]] = {
    "HvtUCB": [{}, {"radius": "theory"}],
    "TwinUCB": [{}, {"radius": "theory"}],
    "BTC": [{}, {"sup": True}],
    "BMM": [{}, {"sup": True}],
    "HuberBandit": [{}, {"shared": True}],
    "HeavyOFUL": [{}, {"solver": "newton"}],
    "GLBOMD": [{}, {"link": "logistic"}, {"link": "log"}],
    "GLMUCB": [{}, {"link": "logistic", "radius": "theory"}, {"link": "log"}],
    "OL2M": [{}, {"radius": "theory"}],
    "GLOC": [{}, {"link": "logistic", "radius": "theory"}, {"link": "log"}],
    "ECOLog": [{}, {"radius": "theory"}],
    "CRTM": [{}, {"link": "log"}],
    "RobustUCB": [{}, {"estimator": "catoni"}, {"estimator": "median of means"}],
}
BAD = (-1.0, 0.5, -5.5, 1e300, np.inf, -np.inf, np.nan, 1e9, 63.0)


def teach(policy: Any, rounds: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        try:
            arm = policy.select(ARMS)
            policy.update(ARMS[arm], paid(policy, float(rng.standard_t(2.1))))
        except ValueError as error:  # a forged state may be near the end of the range
            assert "floating-point range" in str(error) or "finite index" in str(error)  # noqa: PT017


def policy(name: str, options: dict[str, Any]) -> Any:
    made = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6, **options)
    teach(made, 23)
    if not made.info.repeats:
        made.decide(ARMS)
    return made


def regression(name: str) -> Any:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70, 3))
    return getattr(estimators, name)().fit(X, X.sum(axis=1) + rng.standard_t(2.1, 70))


def identifier(kind: Any) -> Any:
    made = kind(SYSTEM.n, SYSTEM.d)
    for step in drive(SYSTEM, 25):
        made.update(*step)
    return made


def controlling(kind: Any) -> Any:
    made = controller(kind, SYSTEM, seed=5)
    for x, _, y in drive(SYSTEM, 60):
        made.update(x, made.act(x), y)
    return made


def acting(kind: Any) -> Any:
    made = agent(kind)
    play(made, 0, 31)
    return made


CENSUS = {
    **{
        f"{kind.__name__} {options or ''}": lambda kind=kind, options=options: policy(
            kind.name, options
        )
        for kind in ALL
        for options in MODES.get(kind.__name__, [{}])
    },
    **{kind.__name__: lambda kind=kind: acting(kind) for kind in mdp.ALL},
    **{kind.__name__: lambda kind=kind: identifier(kind) for kind in IDENTIFIERS},
    **{kind.__name__: lambda kind=kind: controlling(kind) for kind in CONTROLLERS},
    **{name: lambda name=name: regression(name) for name in estimators.ALL},
}
SHORT = [name for name in CENSUS if "sup" not in name]


def snapshot(subject: Any) -> dict[str, bytes]:
    return {key: array.tobytes() for key, array in subject.saved_arrays().items()}


@pytest.mark.parametrize("name", SHORT)
def test_a_changed_byte_and_a_lost_end_are_seen(name, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS[name]().save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(3)
    ht.load(path)
    for at in {0, len(whole) - 1, *rng.integers(0, len(whole), 25).tolist()}:
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=r"damaged|seal|format version"):
            ht.load(path)
        path.write_bytes(whole[:at])
        with pytest.raises(ValueError, match=r"damaged|seal"):
            ht.load(path)


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


@pytest.mark.parametrize("name", [name for name in SHORT if hasattr(ht.policies, name.split()[0])])
def test_sizes_that_a_file_only_claims_are_not_believed(name, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS[name]().save(path)
    whole = path.read_bytes()
    for argument in ("dim", "arms", "horizon"):
        for claim in (10**6, 10**12, 10**400):
            path.write_bytes(whole)
            rewrite(path, lambda header, _, a=argument, c=claim: header["arguments"].update({a: c}))
            try:
                ht.load(path)
            except ValueError as error:
                assert len(str(error)) < 1000  # noqa: PT017


def test_an_archive_that_claims_more_than_it_has_is_refused(tmp_path):
    path = tmp_path / "it.npz"
    subject = ht.OFUL(2, noise_scale=1.0)
    subject.save(path)
    content = path.read_bytes()
    huge = content.replace(b"'shape': (2, 2), ", b"'shape': (2, 99),", 1)
    assert huge != content
    with pytest.raises(ValueError, match="damaged"):
        path.write_bytes(huge) and ht.load(path)
    with pytest.raises(ValueError, match="damaged"):
        path.write_bytes(content + b"more") and ht.load(path)


@pytest.mark.parametrize("name", SHORT)
def test_threads_that_share_it_read_and_copy_a_whole_state(name):
    subject, failed = CENSUS[name](), []

    def use() -> None:
        try:
            for _ in range(6):
                if isinstance(subject, Regression):
                    subject.partial_fit(np.eye(3), np.ones(3))
                    subject.predict(np.eye(3))
                elif isinstance(subject, ht.Policy):
                    teach(subject, 2)
                elif isinstance(subject, control.Controller):
                    subject.update(np.zeros(3), subject.act(np.zeros(3)), np.ones(3))
                elif isinstance(subject, control.Identifier):
                    subject.update(np.zeros(3), np.ones(3), np.ones(3))
                else:
                    _ = subject.policy
                for array in subject.saved_arrays().values():
                    assert not np.isnan(array).any() if array.dtype.kind == "f" else True
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    if hasattr(subject, "clone"):
        assert snapshot(subject.clone()) == snapshot(subject)


def test_a_decision_is_learned_once_whoever_learns_it():
    policy = ht.OFUL(3, noise_scale=1.0)
    for _ in range(30):
        decision, refused = policy.decide(ARMS), []

        def learn(decision=decision, refused=refused) -> None:
            try:
                policy.learn(decision, 1.0)
            except ValueError as error:
                refused.append(error)

        threads = [threading.Thread(target=learn) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 2
    assert (policy.rounds, policy.pending) == (30, ())


@pytest.mark.skipif(os.name != "posix", reason="modes and links as POSIX has them")
def test_saving_keeps_modes_follows_links_and_sweeps_what_was_left(tmp_path):
    policy, path = ht.OFUL(2, noise_scale=1.0), tmp_path / "it.npz"
    before = os.umask(0o027)
    try:
        policy.save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o664)
    link = tmp_path / "link.npz"
    link.symlink_to(path.name)
    left = [Path(f"{path}.0.{pid}{_archive.PART}") for pid in (2**22 + 1, os.getpid())]
    for each in left:
        each.touch()
    policy.update([1.0, 0.0], 1.0)
    policy.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert ht.load(path).rounds == ht.load(link).rounds == 1
    assert [each.exists() for each in left] == [False, True]


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


@pytest.mark.parametrize("value", [1 + 2j, np.complex128(1), True, "1", b"1", None, 10**400])
def test_what_is_no_real_number_is_refused_everywhere(value):
    policy = ht.OFUL(3, noise_scale=1.0)
    decision, x = policy.decide(ARMS), ARMS[0]
    for call in (
        lambda: policy.update(x, value),
        lambda: policy.learn([decision], [value]),
        lambda: policy.update_many([x], [value]),
        lambda: policy.update([value, 0.0, 0.0], 1.0),
        lambda: policy.width([value, 0.0, 0.0]),
        lambda: ht.OFUL(3, noise_scale=1.0, ridge=value),
        lambda: ht.OFUL(value, noise_scale=1.0),
        lambda: ht.MomentBound(1.5, value),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert (policy.rounds, policy.pending) == (0, (0,))


def test_masks_words_and_matrices_are_seen():
    policy = ht.OFUL(3, noise_scale=1.0)
    with pytest.raises(ValueError, match="masked"):
        policy.update(np.ma.array(ARMS[0], mask=[True, False, False]), 1.0)
    with pytest.raises(TypeError, match="True or False"):
        ht.HvtUCB(3, intercept="no")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be finite"):
        policy.width([np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"together leave|between"):
        ht.CRMM(3, horizon=10**4, tail=TAIL, theta_bound=1e160)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        decision = policy.decide(np.asmatrix(ARMS))
    policy.learn(decision, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        ht.Pool(ARMS)[0][0] = 1.0


@pytest.mark.parametrize("kind", estimators.ALL)
def test_a_regression_on_numbers_too_large_is_refused_and_goes_on(kind):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    for rows in (20, 60):
        model = getattr(estimators, kind)().fit(X[:rows], X[:rows].sum(axis=1))
        before = snapshot(model)
        try:
            model.partial_fit(1e139 * X, 1e299 * X.sum(axis=1))
        except ValueError:
            assert snapshot(model) == before
        assert np.isfinite(model.coef_).all()


def test_all_objects_in_a_file_share_one_budget(tmp_path):
    path = tmp_path / "it.npz"
    ht.OFUL(2, noise_scale=1.0).save(path)
    inner = {"policy": "OFUL", "arguments": {"dim": 900, "noise_scale": 1.0}}  # 6 MB or more each
    rewrite(path, lambda header, _: header["arguments"].update(dim=[inner] * 200))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="far more memory"):
            ht.load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * _storage.SMALL
    finally:
        tracemalloc.stop()
    ht.OFUL(2, noise_scale=1.0).save(path)
    assert ht.load(path).rounds == 0


@pytest.mark.skipif(os.name != "posix", reason="devices, pipes and holes as POSIX has them")
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    policy, pipe, folder = ht.OFUL(2, noise_scale=1.0), tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        nodes = [pipe, folder, tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")]
        modes = [node.stat().st_mode for node in nodes]
        for node in nodes:
            with pytest.raises((ValueError, OSError)):
                ht.load(node)
            with pytest.raises(ValueError, match="is no file"):
                policy.save(node)
        assert [node.stat().st_mode for node in nodes] == modes


@pytest.mark.skipif(os.name != "posix", reason="holes as POSIX has them")
def test_a_file_of_holes_is_refused_at_once(tmp_path):
    path = tmp_path / "it.npz"
    ht.OFUL(2, noise_scale=1.0).save(path)
    whole = path.read_bytes()
    for first, last in ((b"", b""), (whole[:64], whole[-64:])):
        with open(path, "wb") as stream:
            stream.write(first)
            stream.seek(2**40)
            stream.write(last or b"\0")
        with pytest.raises(ValueError, match="damaged"):
            ht.load(path)
    path.unlink()


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_a_refused_round_past_the_horizon_leaves_the_word_for_the_honest_one(name):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    if policy.horizon is None:
        policy.horizon = 2000
    policy._s[0] = 2000.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="finite"):
            policy.update(ARMS[0], np.nan)
        with pytest.raises(ValueError, match="finite"):
            policy.update_many(ARMS[:1], [np.nan])
    assert not policy._late
    if not policy.grows:
        with pytest.warns(UserWarning, match="past horizon"):
            policy.update(ARMS[0], 1.0)
        assert policy._late


def test_a_refusal_quotes_no_more_than_fits_a_line():
    policy, long = ht.OFUL(3, noise_scale=1.0), "x" * 10**7
    policy.decide(ARMS)
    model = estimators.OnePassHuberRegressor()
    for call in (
        lambda: policy.learn(10**5000, 1.0),
        lambda: policy.learn(-(10**5000), 1.0),
        lambda: policy.learn([10**5000], [1.0]),
        lambda: policy.learn([long], [1.0]),
        lambda: policy.update(ARMS[0], long),
        lambda: policy.update(ARMS[0], 1.0, scale=long),
        lambda: policy.update(long, 1.0),
        lambda: policy.width([long, 1.0, 2.0]),
        lambda: policy.width(np.full(3, np.nan)),
        lambda: ht.OFUL(long, noise_scale=1.0),
        lambda: ht.OFUL(3, noise_scale=long),
        lambda: ht.CRT(3, horizon=100, tail=long),
        lambda: ht.make_policy(long, dim=3),
        lambda: agent(mdp.LSVIUCB).update(long, 0, 0, 1.0, 0),
        lambda: agent(mdp.LSVIUCB).update(10**5000, 0, 0, 1.0, 0),
        lambda: control.CertaintyEquivalence(long, Q=SYSTEM.Q, R=SYSTEM.R, fallback=SYSTEM.A),
        lambda: estimators.OnePassHuberRegressor(scale=long).fit(np.eye(3), np.ones(3)),
        lambda: model.fit(np.eye(3), np.ones(3), sample_scale=[1.0, 2.0, long]),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            call()
        assert len(str(caught.value)) < 1000
        assert "digits" not in str(caught.value)
        assert str(caught.value).isprintable()


def forge(path: Path, key: str, place: Any, value: float) -> None:
    """Put one number into a saved array, at a place or a named slot, under a seal that fits."""

    def change(header: Any, arrays: Any) -> None:
        at = header["slots"][key].index(place) if isinstance(place, str) else place
        arrays[key][..., at] = value

    rewrite(path, change)


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


def test_masks_and_bools_are_seen_at_any_depth():
    masked = np.ma.array(ARMS[0], mask=[True, False, False])
    policy = ht.OFUL(3, noise_scale=1.0)
    with pytest.raises(ValueError, match="masked"):
        policy.select_many([[masked, ARMS[1]]])
    with pytest.raises(ValueError, match="masked"):
        ht.Pool([masked, ARMS[1]])
    with pytest.raises(TypeError, match="bool"):
        ht.Pool([[True, 0.1, 0.2]])
    with pytest.raises(ValueError, match=r"arms\[1\] must be finite"):
        ht.Pool([ARMS[0], [np.nan, 0.0, 0.0]])


@pytest.mark.parametrize("kind", estimators.ALL)
def test_a_regression_takes_only_numbers_for_numbers(kind):
    X, y = np.ones((3, 2)), np.arange(3.0)
    dates = np.full((3, 2), "2020", dtype="datetime64[Y]")
    for rows, answers in (
        (X.astype(bool), y),
        ([[True, 0.1]] * 3, y),
        (np.array([[True, 0.1]] * 3, dtype=object), y),
        (dates, y),
        (X.astype(str), y),
        ([[10**400, 1]] * 3, y),
        (np.ma.array(X, mask=X > 0), y),
        (X, [True, 0.1, 0.2]),
        (X, [10**400, 1, 2]),
    ):
        with pytest.raises((ValueError, TypeError)):
            getattr(estimators, kind)().fit(rows, answers)
    model = regression(kind)  # past its start
    with pytest.raises(ValueError, match="masked"):
        model.partial_fit(np.ones((3, 3)), np.ma.array(y, mask=[True, False, False]))
    for scales in (["1"] * 3, [10**400] * 3, [1j] * 3, [True] * 3):
        with pytest.raises((ValueError, TypeError)):
            getattr(estimators, kind)().fit(X, y, scales)


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_a_question_that_is_refused_changes_no_identifier(kind):
    one = identifier(kind)
    before, shape = snapshot(one), (SYSTEM.n + SYSTEM.d, SYSTEM.n)
    for bad in (np.full(shape, np.nan), np.full(shape, np.inf), np.zeros(2), [[True]]):
        for ask in (one.error, one.contains):
            with pytest.raises((ValueError, TypeError)):
                ask(bad)
    assert snapshot(one) == before


def test_a_size_beyond_all_memory_is_refused_at_once():
    for kind in IDENTIFIERS:
        with pytest.raises((ValueError, MemoryError)):
            kind(2**53, 1)


def test_agents_and_worlds_look_at_every_argument():
    features, theta = agent(mdp.UniformAgent).features, WORLD.theta.tolist()
    theta[0][0] = True
    told = {"tail": TAIL, "episodes": 50}
    for call in (
        lambda: mdp.LSVIUCB(features, 3, tail=TAIL, episodes={}),
        lambda: mdp.LSVIUCB(features, 3, tail=TAIL, delta=None),
        lambda: mdp.HeavyLSVIUCB(features, 3, **told, delta=None),
        lambda: mdp.HvtLSVIUCB(features, 3, tail=None),
        lambda: mdp.HvtLSVIUCB(features, 3, tail=TAIL, intercept=None),
        lambda: mdp.random_mdp(3, noise=T21, bias="no"),
        lambda: mdp.LinearMDP(WORLD.features, theta, WORLD.mu, T21),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_features_of_no_length_leave_what_can_be_copied_and_saved(name, tmp_path):
    policy = ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, arms=6)
    for x in (np.zeros(3), ARMS[0], np.zeros(3)):
        policy.update(x, 1.0)
        policy.save(tmp_path / "it.npz")
        for twin in (policy.clone(), ht.load(tmp_path / "it.npz")):
            assert snapshot(twin) == snapshot(policy)


@pytest.mark.parametrize("kind", mdp.ALL)
def test_features_of_no_length_leave_an_agent_that_can_be_copied(kind):
    features = np.zeros((2, 2, 3))
    features[0, 0] = 0.5
    told = agent(kind)._arguments | {"features": features}
    one = kind(**told)
    for stage in range(3):
        one.update(stage, 1, 1, 1.0, 0)
        assert snapshot(one.clone()) == snapshot(one)


@pytest.mark.parametrize("kind", estimators.ALL)
@pytest.mark.parametrize("size", [1e200, 1e300])
def test_a_regression_comes_back_from_one_huge_feature(kind, size):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(99, 2))
    y, wild = X.sum(axis=1) + rng.standard_t(2.1, 99), X.copy()
    wild[40, 0] = size
    model = getattr(estimators, kind)().fit(X, y)
    before = snapshot(model)
    try:
        model.partial_fit(wild, y)
    except ValueError:
        assert snapshot(model) == before
    assert np.isfinite(model.predict(X)).all()
