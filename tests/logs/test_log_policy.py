"""A learned policy is played, logged and saved; files are believed in nothing."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.logs.test_learning import drawn
from tests.storage_tools import rewrite

import heavytail as ht

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])


@pytest.fixture(scope="module")
def learned() -> ht.LogPolicy:
    return ht.LogPolicy(seed=7, reward_unit=2.0, reward_floor=-1.0).fit(drawn(0, 300))


@pytest.fixture
def policy(learned: ht.LogPolicy) -> ht.LogPolicy:
    return learned.clone()


def state(policy: ht.LogPolicy) -> dict[str, bytes]:
    return {key: array.tobytes() for key, array in policy.saved_arrays().items()}


# --- playing


def test_own_draws_fall_to_arms_as_often_as_said(policy: ht.LogPolicy) -> None:
    chosen = [policy.select(ARMS) for _ in range(4_000)]
    shares = policy.probabilities(ARMS[None])[0]
    np.testing.assert_allclose(np.bincount(chosen, minlength=3) / 4_000, shares, atol=0.03)


def test_a_decision_says_its_probability_and_its_arm(policy: ht.LogPolicy) -> None:
    shares = policy.probabilities(ARMS[None])[0]
    for token in range(20):
        decision = policy.decide(ARMS)
        assert decision.token == token
        assert decision.probability == pytest.approx(shares[decision.arm], rel=1e-12)
        np.testing.assert_array_equal(decision.x, ARMS[decision.arm])
        assert ht.Decision.from_dict(decision.to_dict()).arm == decision.arm


def test_a_decision_is_what_select_would_have_drawn(policy: ht.LogPolicy) -> None:
    twin = policy.clone()
    mine = [policy.decide(ARMS).arm for _ in range(50)]
    assert mine == [twin.select(ARMS) for _ in range(50)]
    assert len(set(mine)) > 1


def test_with_explore_no_arm_is_rarer_than_its_share(policy: ht.LogPolicy) -> None:
    shares = 0.4 * policy.probabilities(ARMS[None])[0] + 0.2
    found = [policy.decide(ARMS, explore=0.6) for _ in range(4_000)]
    for one in found[:50]:
        assert one.probability == pytest.approx(shares[one.arm], rel=1e-12)
    counts = np.bincount([one.arm for one in found], minlength=3)
    np.testing.assert_allclose(counts / 4_000, shares, atol=0.03)
    assert policy.decide(ARMS, explore=1.0).probability == pytest.approx(1 / 3, rel=1e-12)


def test_a_given_draw_takes_none_of_its_own(policy: ht.LogPolicy) -> None:
    before = state(policy)
    policy.select(ARMS, draw=0.3)
    assert state(policy) == before
    first = [policy.clone().select(ARMS) for _ in range(3)]
    assert len(set(first)) == 1


def test_another_seed_draws_otherwise(policy: ht.LogPolicy) -> None:
    other = ht.LogPolicy(seed=8, reward_unit=2.0, reward_floor=-1.0)
    other.restore({key: array.copy() for key, array in policy.saved_arrays().items()})
    one, two = ([p.decide(ARMS, explore=1.0).arm for _ in range(60)] for p in (policy, other))
    assert one != two


def test_learning_anew_does_not_repeat_a_token(policy: ht.LogPolicy) -> None:
    policy.decide(ARMS)
    policy.fit(drawn(1, 50))
    assert policy.decide(ARMS).token == 1


def test_its_decisions_make_a_log_that_evaluates_it(policy: ht.LogPolicy, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    with ht.DecisionLog(tmp_path / "log", group=500) as log:
        for _ in range(500):
            arms = rng.normal(size=(3, 2))
            decision = policy.decide(arms, explore=0.2)
            log.decided(decision, arms)
            log.rewarded(decision, float(rng.exponential()))
    found = ht.evaluate(str(tmp_path / "log"), policy)
    assert found.rows == 500
    assert found.propensities_ok
    assert found.value == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.select(np.array([[np.nan, 1.0]])),
        lambda p: p.select(np.array([[np.inf, 1.0]])),
        lambda p: p.select(np.array([[1e200, 1.0]])),
        lambda p: p.select(np.zeros((0, 2))),
        lambda p: p.select(np.eye(3)),
        lambda p: p.select(ARMS, draw=1.0),
        lambda p: p.select(ARMS, draw=-0.1),
        lambda p: p.decide(ARMS, explore=1.5),
        lambda p: p.decide(np.array([[np.nan, 1.0]])),
        lambda p: p.probabilities(np.full((1, 2, 2), np.nan)),
        lambda p: p.probabilities(np.array([[[1.0, np.nan]]])),
        lambda p: p.probabilities(ARMS),
    ],
)
def test_what_cannot_be_played_is_refused_and_no_draw_is_lost(
    policy: ht.LogPolicy, call: Any
) -> None:
    before = state(policy)
    with pytest.raises(ValueError, match="LogPolicy"):
        call(policy)
    assert state(policy) == before


# --- saving


def test_what_is_loaded_is_the_same_to_the_bit_and_goes_on(
    policy: ht.LogPolicy, tmp_path: Path
) -> None:
    policy.decide(ARMS)
    policy.save(tmp_path / "it.npz")
    twins = [
        ht.load(tmp_path / "it.npz"),
        pickle.loads(pickle.dumps(policy)),
        copy.deepcopy(policy),
        policy.clone(),
    ]
    probabilities = policy.probabilities(ARMS[None]).tobytes()
    following = [policy.decide(ARMS).arm for _ in range(40)]
    for twin in twins:
        assert type(twin) is ht.LogPolicy
        assert (twin.theta.tobytes(), twin.spread, twin.smoothing, twin.lower, twin.rows) == (
            policy.theta.tobytes(), policy.spread, policy.smoothing, policy.lower, policy.rows,
        )  # fmt: skip
        assert type(twin.rows) is int
        assert (twin.level, twin.reward_unit, twin.reward_floor, twin.seed) == (0.95, 2.0, -1.0, 7)
        assert twin.probabilities(ARMS[None]).tobytes() == probabilities
        assert [twin.decide(ARMS).arm for _ in range(40)] == following


def test_one_that_has_not_learned_is_saved_too(tmp_path: Path) -> None:
    ht.LogPolicy(seed=4).save(tmp_path / "it.npz")
    twin = ht.load(tmp_path / "it.npz")
    assert twin.seed == 4
    with pytest.raises(ValueError, match="fit"):
        twin.decide(ARMS)
    with pytest.raises(ValueError, match="no place"):
        ht.LogPolicy().fit(drawn(1, 30)).restore({})


def slot(name: str, value: float) -> Any:
    def change(header: Any, arrays: Any) -> None:
        arrays["scalars"][header["slots"]["scalars"].index(name)] = value

    return change


def array(key: str, make: Any) -> Any:
    def change(header: Any, arrays: Any) -> None:
        arrays[key] = make(arrays[key])

    return change


def argument(name: str, value: Any) -> Any:
    return lambda header, arrays: header["arguments"].update({name: value})


FORGERIES = {
    "a spread beside the grid": slot("spread", 3.0),
    "a smoothing that is no power of two": slot("smoothing", 0.3),
    "a smoothing beyond the grid": slot("smoothing", 2.0**41 / 2.0),
    "a smoothing of 0": slot("smoothing", 0.0),
    "a bound below the floor": slot("lower", -1.5),
    "a bound of no number": slot("lower", np.nan),
    "a bound beyond all rewards": slot("lower", 1e300),
    "an infinite bound": slot("lower", np.inf),
    "no rows": slot("rows", 0.0),
    "half a row": slot("rows", 10.5),
    "more rows than count": slot("rows", 2.0**53),
    "draws below 0": slot("drawn", -1.0),
    "half a draw": slot("drawn", 0.5),
    "theta of no number": array("theta", lambda a: a * np.nan),
    "infinite theta": array("theta", lambda a: a + np.inf),
    "theta too far for its rows": array("theta", lambda a: a * 1e4),
    "huge theta": array("theta", lambda a: a * 1e200),
    "theta of single precision": array("theta", lambda a: a.astype("f4")),
    "theta of two axes": array("theta", lambda a: a[None]),
    "no features": array("theta", lambda a: a[:0]),
    "a scalar less": array("scalars", lambda a: a[:-1]),
    "scalars of integers": array("scalars", lambda a: a.astype("i8")),
    "no theta": lambda header, arrays: arrays.pop("theta"),
    "no scalars": lambda header, arrays: arrays.pop("scalars"),
    "an array more": lambda header, arrays: arrays.update(odd=np.zeros(2)),
    "a level of 1": argument("level", 1.0),
    "a unit of 0": argument("reward_unit", 0.0),
    "another unit, which the smoothing does not fit": argument("reward_unit", 3.0),
    "a floor above the bound": argument("reward_floor", 1e6),
    "a seed of no number": argument("seed", "x"),
    "another argument": argument("odd", 1),
    "another class": lambda header, arrays: header.update({"log policy": "OFUL"}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_file_is_refused(policy: ht.LogPolicy, tmp_path: Path, forgery: str) -> None:
    path = tmp_path / "it.npz"
    policy.save(path)
    rewrite(path, lambda header, arrays: None)
    assert state(ht.load(path)) == state(policy)
    rewrite(path, FORGERIES[forgery])
    words = {"no rows": "'rows'", "a spread beside the grid": "'spread'"}
    with pytest.raises(ValueError, match=words.get(forgery, r"it\.npz|LogPolicy")):
        ht.load(path)


def test_with_a_baseline_a_smoothing_that_it_rules_out_is_refused(tmp_path: Path) -> None:
    path, log = tmp_path / "it.npz", drawn(0, 100)
    policy = ht.LogPolicy(reward_baseline=1.0, least_propensity=0.02).fit(log)
    policy.save(path)
    assert state(ht.load(path)) == state(policy)
    rewrite(path, slot("smoothing", 1.0))
    with pytest.raises(ValueError, match="'smoothing'"):
        ht.load(path)


def test_a_refused_state_changes_nothing(policy: ht.LogPolicy) -> None:
    before = state(policy)
    arrays = {key: array.copy() for key, array in policy.saved_arrays().items()}
    arrays["scalars"][0] = 3.0
    with pytest.raises(ValueError, match="'spread'"):
        policy.restore(arrays)
    assert state(policy) == before


def test_what_was_learned_cannot_be_written_to(policy: ht.LogPolicy) -> None:
    with pytest.raises(ValueError, match="read-only"):
        policy.theta[0] = np.nan
