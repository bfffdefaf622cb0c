"""Promises of a policy to its users, one function per promise."""

from __future__ import annotations

import inspect
import math
import pickle
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._load import load
from heavytail._typing import FloatArray
from heavytail.checks.battery import refused, refused_as, require, snapshot
from heavytail.policies import Policy, Pool
from heavytail.tails import MomentBound

__all__ = ["POLICY_CHECKS", "paid"]

ROUNDS = 60
ARMS = 7
IN_REWARDS = {"tail", "theta_bound", "noise_scale", "sigma_min", "gap"}  # arguments in their unit


def _arms(policy: Policy, seed: int = 0, count: int = ARMS) -> FloatArray:
    """Arms of length at most one."""
    arms = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, policy.dim))
    return np.asarray(arms / np.linalg.norm(arms, axis=1).max())


def _taken(policy: Policy) -> str:
    """The range of rewards that it takes: "any", "0 or 1" or "at least 0"."""
    return str(getattr(getattr(policy, "link", None), "rewards", "any"))


def paid(policy: Policy, reward: float) -> float:
    """``reward`` as a policy with a link takes it: 0 or 1 by its sign, or its size."""
    taken = _taken(policy)
    if taken == "0 or 1":
        return 1.0 if reward > 0.0 else 0.0
    return abs(reward) if taken == "at least 0" else reward


def _paid_many(policy: Policy, rewards: FloatArray) -> FloatArray:
    """The same of each."""
    return np.array([paid(policy, float(r)) for r in rewards.ravel()]).reshape(rewards.shape)


def _play(policy: Policy, rounds: int = ROUNDS, seed: int = 1, unit: float = 1.0) -> list[int]:
    """Some rounds with heavy-tailed rewards, times ``unit``; the arms chosen."""
    rng = np.random.default_rng(seed)
    theta = np.full(policy.dim, 1.0 / math.sqrt(policy.dim))
    arms = _arms(policy)
    chosen = []
    for _ in range(rounds):
        arm = policy.select(arms)
        reward = unit * float(arms[arm] @ theta + rng.standard_t(2.1))
        policy.update(arms[arm], paid(policy, reward))
        chosen.append(int(arm))
    return chosen


def declares_itself(policy: Policy) -> None:
    """It has a name, a dimension, a row for the table, and a repr that names its class."""
    require(isinstance(policy.name, str) and policy.name != "", "has no name")
    require(policy.dim >= 1, "has no dim")
    for key in ("method", "reference", "regret", "cost", "storage", "moment"):
        require(bool(getattr(policy.info, key, "")), f"declares no info.{key}")
    require(type(policy).__name__ in repr(policy), "has a repr that does not name its class")
    require(policy.rounds == 0, "has learned something already; pass a fresh policy")


def selects_an_offered_arm(policy: Policy) -> None:
    """``select`` returns an int in range, for 1 arm and for many; the same when asked twice, or,
    where it draws, when a clone is asked.
    """
    policy = policy.clone()
    for count in (1, 2, ARMS, 50):
        arms = _arms(policy, count=count)
        twin = policy.clone() if policy.info.randomised else policy
        arm = policy.select(arms)
        require(isinstance(arm, int), f"selects {arm!r}, which is not an int")
        require(0 <= arm < count, f"selects {arm} among {count} arms")
        require(twin.select(arms) == arm, "selects another arm when asked twice")


def counts_its_rounds(policy: Policy) -> None:
    """``rounds`` is the number of rewards learned; selecting learns nothing, and changes nothing
    but the count of draws where the policy declares that it draws.
    """
    policy = policy.clone()
    for t in range(5):
        require(policy.rounds == t, f"says rounds={policy.rounds} after {t}")
        before, theta = snapshot(policy), policy.theta
        arms = _arms(policy, seed=t)
        arm = policy.select(arms)
        same = snapshot(policy) == before
        if policy.info.randomised:
            require(not same, "does not count its draws in its state")
            require(np.array_equal(policy.theta, theta), "learns when it selects")
        else:
            require(same, "changes its state when it selects")
        policy.update(arms[arm], paid(policy, 0.5))


def reports_its_estimate(policy: Policy) -> None:
    """``theta`` is finite, of shape (dim,), and a copy; ``radius`` is a number at least 0."""
    policy = policy.clone()
    _play(policy)
    theta = policy.theta
    require(theta.shape == (policy.dim,), f"has theta of shape {theta.shape}")
    require(bool(np.isfinite(theta).all()), f"has theta {theta}")
    before = snapshot(policy)
    theta[:] = 1e9
    require(snapshot(policy) == before, "hands out its own theta, not a copy")
    require(policy.radius >= 0.0, f"has radius {policy.radius}")


def takes_what_numpy_takes(policy: Policy) -> None:
    """Lists, integers, float32, read-only and strided arrays work, and are never written to."""
    policy = policy.clone()
    arms = _arms(policy)
    plain = policy.clone().select(arms)
    wide = np.zeros((ARMS, 2 * policy.dim))
    wide[:, ::2] = arms
    frozen = arms.copy()
    frozen.flags.writeable = False
    for form in (arms.tolist(), wide[:, ::2], frozen, np.asfortranarray(arms)):
        require(policy.clone().select(form) == plain, "selects another arm for the same numbers")
    policy.select((0.999 * arms).astype(np.float32))  # which rounds lengths up, too
    policy.select(np.eye(policy.dim, dtype=int))
    policy.update(frozen[plain], np.float32(paid(policy, 0.5)))  # type: ignore[arg-type]
    policy.update(arms[plain].tolist(), 1)
    policy.update(wide[plain, ::2], np.int64(1), scale=1)  # type: ignore[arg-type]
    require(
        np.array_equal(frozen, arms) and np.array_equal(wide[:, ::2], arms), "writes to its input"
    )


def refuses_bad_arms(policy: Policy) -> None:
    """NaN, infinity, wrong shapes, no arms, text and objects are refused and nothing changes."""
    policy = policy.clone()
    _play(policy, 5)
    d = policy.dim
    bad: dict[str, Any] = {
        "no arms": np.empty((0, d)),
        "arms with a NaN": np.vstack([_arms(policy), np.full(d, np.nan)]),
        "arms with an infinity": np.vstack([np.full(d, np.inf), _arms(policy)]),
        "arms of the wrong dimension": np.zeros((3, d + 1)),
        "a single vector of arms": np.zeros(d),
        "arms of text": [["a"] * d],
        "arms of objects": np.array([[None] * d]),
        "arms of complex numbers": np.ones((2, d), dtype=complex),
    }
    for what, arms in bad.items():
        refused(policy, lambda arms=arms: policy.select(arms), what)  # type: ignore[misc]
    policy.select(_arms(policy))


def refuses_bad_observations(policy: Policy) -> None:
    """A bad x, reward or scale is refused, nothing changes, and the next good call works."""
    policy = policy.clone()
    _play(policy, 5)
    x = _arms(policy)[0]
    broken = x.copy()
    broken[0] = np.nan
    endless = x.copy()
    endless[-1] = np.inf
    calls: dict[str, Callable[[], Any]] = {
        "a reward of NaN": lambda: policy.update(x, np.nan),
        "an infinite reward": lambda: policy.update(x, -np.inf),
        "a reward of text": lambda: policy.update(x, "1.0"),  # type: ignore[arg-type]
        "no reward": lambda: policy.update(x, None),  # type: ignore[arg-type]
        "x with a NaN": lambda: policy.update(broken, 1.0),
        "x with an infinity": lambda: policy.update(endless, 1.0),
        "x of the wrong length": lambda: policy.update(np.zeros(policy.dim + 1), 1.0),
        "x of the wrong shape": lambda: policy.update(x[None], 1.0),
        "x of text": lambda: policy.update(["a"] * policy.dim, 1.0),
        "a scale of zero": lambda: policy.update(x, 1.0, scale=0.0),
        "a negative scale": lambda: policy.update(x, 1.0, scale=-1.0),
        "a scale of NaN": lambda: policy.update(x, 1.0, scale=np.nan),
    }
    for what, call in calls.items():
        refused(policy, call, what)
    rounds = policy.rounds
    policy.update(x, 1.0)
    require(policy.rounds == rounds + 1, "does not learn after a refused call")


def survives_extremes(policy: Policy) -> None:
    """A zero vector and rewards of ±1e300 are learned, or refused untouched; all stays finite."""
    policy = policy.clone()
    _play(policy, 10)
    arms = _arms(policy)
    policy.update(np.zeros(policy.dim), 1.0)
    for reward in (1e300, -1e300, 1e-300, 0.0):
        arm = policy.select(arms)
        before = snapshot(policy)
        try:
            policy.update(arms[arm], reward)
        except ValueError:
            require(snapshot(policy) == before, f"refuses a reward of {reward} but has changed")
        require(bool(np.isfinite(policy.theta).all()), f"has theta {policy.theta} after {reward}")
        require(0 <= policy.select(arms) < ARMS, f"cannot select after a reward of {reward}")
    policy.update(arms[0], 1.0)


def clones_stand_apart(policy: Policy) -> None:
    """A clone has learned what its origin had and goes its own way."""
    policy = policy.clone()
    _play(policy, 20)
    twin = policy.clone()
    require(snapshot(twin) == snapshot(policy), "has a clone that knows something else")
    before = snapshot(policy)
    chosen = _play(twin, 20, seed=2)
    require(snapshot(policy) == before, "learns when its clone does")
    require(_play(policy, 20, seed=2) == chosen, "and its clone part ways on the same rewards")


def repeats_itself(policy: Policy) -> None:
    """The same seed and rewards give the same choices and the same state, to the bit."""
    first, second = policy.clone(), policy.clone()
    first.reseed(5)
    second.reseed(5)
    require(_play(first) == _play(second), "chooses otherwise on the same rewards")
    require(snapshot(first) == snapshot(second), "ends in another state on the same rewards")


def resumes_to_the_bit(policy: Policy) -> None:
    """Saved, loaded and continued equals never having stopped, at any round."""
    for stop in (0, 1, 17):
        straight, stopped = policy.clone(), policy.clone()
        _play(straight, stop)
        _play(stopped, stop)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.npz"
            stopped.save(path)
            resumed = load(path, kinds=(type(policy),))
        require(snapshot(resumed) == snapshot(straight), f"is another after a save at round {stop}")
        chosen = _play(straight, ROUNDS, seed=3)
        require(_play(resumed, ROUNDS, seed=3) == chosen, f"goes on otherwise after round {stop}")
        require(snapshot(resumed) == snapshot(straight), f"drifts after a save at round {stop}")


def names_its_state(policy: Policy) -> None:
    """``state`` shows what is remembered, every slot of a packed array by a name of its own."""
    policy = policy.clone()
    _play(policy, 5)
    arrays = policy.state_arrays()
    for key, names in policy.slot_names().items():
        require(key in arrays, f"names the slots of {key!r}, which it does not remember")
        width = arrays[key].shape[-1]
        require(len(names) == width, f"has {len(names)} names for the {width} slots of {key!r}")
        require(len(set(names)) == len(names), f"has a name twice among the slots of {key!r}")
    require(set(policy.state) == set(arrays), "shows another state than it remembers")


def learns_batches_as_rounds(policy: Policy) -> None:
    """Many rows in one call are learned as one by one, or none of them; likewise choices."""
    arms, rng = _arms(policy), np.random.default_rng(6)
    X, rewards = arms[rng.integers(0, ARMS, 12)], _paid_many(policy, rng.standard_t(2.1, 12))
    single, many = policy.clone(), policy.clone()
    for x, reward in zip(X, rewards, strict=True):
        single.update(x, float(reward))
    many.update_many(X, rewards)
    require(snapshot(many) == snapshot(single), "learns a batch otherwise than its rows")
    bad = np.where(np.arange(12) == 7, np.nan, rewards)
    refused(many, lambda: many.update_many(X, bad), "a batch with a reward of NaN")
    sets = np.stack([arms, arms[::-1], -arms])
    if hasattr(many, "select_many"):
        chosen = many.select_many(sets).tolist()
        require(chosen == [single.select(each) for each in sets], "chooses many otherwise than one")
        require(many.select(Pool(arms)) == single.select(arms), "chooses otherwise from a Pool")


def travels_whole(policy: Policy) -> None:
    """A pickle and a clone know what their origin knows, decisions that wait among it."""
    policy = policy.clone()
    _play(policy, 20)
    if not policy.info.repeats:
        policy.decide(_arms(policy))
    for how, twin in {
        "pickle": pickle.loads(pickle.dumps(policy)),
        "clone": policy.clone(),
    }.items():
        require(snapshot(twin) == snapshot(policy), f"has a {how} that knows something else")
        require(twin.pending == policy.pending, f"has a {how} that forgets what is pending")


def is_as_before_after_a_refusal(policy: Policy) -> None:
    """After refused rewards it chooses as a clone does, which remembers none of them."""
    policy = policy.clone()
    arms, rng = _arms(policy, count=4 * ARMS), np.random.default_rng(7)
    pool = Pool(arms) if hasattr(policy, "select_many") else arms
    for _ in range(15):
        policy.select(pool)
        policy.update(arms[rng.integers(len(arms))], paid(policy, float(rng.standard_t(2.1))))
        for bad in (np.nan, 1e200, -1e300):
            before = snapshot(policy)
            twin = policy.clone()
            try:
                policy.update(arms[rng.integers(len(arms))], bad)
            except ValueError:
                require(snapshot(policy) == before, f"refuses {bad} but has changed its state")
                same = policy.select(pool) == twin.select(pool)
                require(same, f"chooses otherwise since it refused a reward of {bad}")


def hands_out_copies(policy: Policy) -> None:
    """Whoever writes to what it hands out does not change it."""
    policy = policy.clone()
    _play(policy, 5)
    before = snapshot(policy)
    for array in (*policy.state_arrays().values(), *policy.saved_arrays().values()):
        if array.flags.writeable:
            array[...] = 7.0
    require(snapshot(policy) == before, "hands out its own state, not a copy")


def serves_threads_in_turn(policy: Policy) -> None:
    """All that several threads teach it at once is learned, and can be copied."""
    policy, arms = policy.clone(), _arms(policy)
    rewards = _paid_many(policy, np.random.default_rng(8).standard_t(2.1, (4, 30)))
    failed: list[Exception] = []

    def teach(mine: FloatArray) -> None:
        try:
            for i, reward in enumerate(mine):
                policy.select(arms)
                policy.update(arms[i % ARMS], float(reward))
            policy.update_many(arms[:5], mine[:5])
            policy.clone()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=teach, args=(mine,)) for mine in rewards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    require(not failed, f"fails where threads share it: {failed[:1]}")
    taught = rewards.size + 5 * len(rewards)
    require(policy.rounds == taught, f"learned {policy.rounds} of {taught} rewards of four threads")
    require(snapshot(policy.clone()) == snapshot(policy), "has a clone that knows something else")


def keeps_its_memory_bounded(policy: Policy) -> None:
    """Where info.storage is O(1), the state is of one size for ever; else it may grow."""
    policy = policy.clone()
    _play(policy, 10)
    small = policy.state_bytes
    _play(policy, 300)
    if policy.info.storage == "O(1)":
        require(policy.state_bytes == small, f"grows from {small} to {policy.state_bytes} bytes")
    require(policy.state_bytes > 0, "says that it remembers nothing")


def says_when_the_horizon_is_past(policy: Policy) -> None:
    """Rounds beyond a given horizon keep working and say so once; where a warning is an error,
    nothing is learned and what was decided waits on.
    """
    horizon = policy.horizon
    if horizon is None or horizon > 2000:
        return
    policy = policy.clone()
    arms = _arms(policy)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(horizon + 3):
            policy.update(arms[policy.select(arms)], paid(policy, 0.1))
    late = policy.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decision = late.decide(arms)
        reward = paid(late, 0.1)
        refused_as(
            late, lambda: late.learn(decision, reward), "a reward past its horizon", UserWarning
        )
    require(late.pending == (decision.token,), "forgets a decision that it warns of")
    spoken = [w for w in seen if "horizon" in str(w.message)]
    require(len(spoken) == 1, f"speaks {len(spoken)} times of its horizon being past, not once")


def learns_the_better_arm(policy: Policy) -> None:
    """Of two clearly different arms and little noise, the better is played most at the end."""
    arms = np.zeros((2, policy.dim))
    arms[0, 0], arms[1, 0] = -1.0, 1.0
    rounds, tail, taken = 600, 200, _taken(policy)
    for better in (0, 1):
        learner, rng, late = policy.clone(), np.random.default_rng(4), 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t in range(rounds):
                arm = learner.select(arms)
                mean = 1.0 if arm == better else -1.0
                reward = float(mean + 0.1 * rng.standard_normal())
                if taken == "at least 0":
                    reward = max(reward, 0.0)  # the size of -1 is that of 1
                learner.update(arms[arm], paid(learner, reward))
                late += t >= rounds - tail and arm == better
        require(
            late >= 0.8 * tail, f"plays the better of two arms in {late} of the last {tail} rounds"
        )


def _in_another_unit(policy: Policy, factor: float) -> Policy:
    """The same policy, told everything that it is told of rewards in a unit 1 / ``factor``."""
    arguments = {
        name: parameter.default
        for name, parameter in inspect.signature(type(policy)).parameters.items()
        if name in IN_REWARDS and parameter.default is not parameter.empty
    }
    arguments |= policy._arguments
    for name in IN_REWARDS & set(arguments):
        value = arguments[name]
        if isinstance(value, MomentBound):
            arguments[name] = MomentBound(value.order, value.scale * factor)
        elif isinstance(value, (int, float)):
            arguments[name] = value * factor
    return type(policy)(**arguments)


def has_no_unit(policy: Policy) -> None:
    """Where rewards, the stated scale and theta_bound are multiplied by one number, it chooses the
    same arms: to the bit by powers of two, and to rounding otherwise.

    Not asked with a link but the identity: 0 and 1, counts and scores have no unit to change.
    """
    if getattr(getattr(policy, "link", None), "name", "identity") != "identity":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = _play(policy.clone(), 2 * ROUNDS)
        for factor in (2.0**-20, 2.0**30, 1e-9, 1e9):
            other = _in_another_unit(policy, factor)
            choices = _play(other, 2 * ROUNDS, unit=factor)
            same = sum(a == b for a, b in zip(plain, choices, strict=True))
            require(
                same == len(plain),
                f"chooses otherwise in {len(plain) - same} of {len(plain)} rounds where the "
                f"rewards are multiplied by {factor:g}",
            )


POLICY_CHECKS: dict[str, Callable[[Policy], None]] = {
    check.__name__: check
    for check in (
        declares_itself,
        selects_an_offered_arm,
        counts_its_rounds,
        reports_its_estimate,
        takes_what_numpy_takes,
        refuses_bad_arms,
        refuses_bad_observations,
        survives_extremes,
        clones_stand_apart,
        repeats_itself,
        resumes_to_the_bit,
        names_its_state,
        learns_batches_as_rounds,
        travels_whole,
        is_as_before_after_a_refusal,
        hands_out_copies,
        serves_threads_in_turn,
        keeps_its_memory_bounded,
        says_when_the_horizon_is_past,
        learns_the_better_arm,
        has_no_unit,
    )
}
