"""Any interleaving of calls on a policy, beside its naive twin and a clone that saw no refusal.

After every call the policy remembers what the clone does, bit for bit, and its estimate and choices
are the twin's, which is written from the formulas alone.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from typing import Any, ClassVar

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.fuzz.player import same, through_file
from tests.fuzz.policies import PolicyPlayer
from tests.fuzz.values import dresses
from tests.naive import (
    baselines,
    epochs,
    generalised,
    history,
    linked,
    low_rank,
    one_pass,
    practice,
)
from tests.naive.sharp import HvtSharp
from tests.naive.twin import TwinUCB
from tests.naive.two_estimates import TwinSharp, TwinTheory

import heavytail as ht
from heavytail.checks.policies import paid

DIM, ORDER, SCALE, HORIZON = 2, 1.6, 0.7, 1000
CLOSE = 1e-9
ARMS = 0.9 * np.array([[1.0, 0.0], [0.5, 0.6], [-0.3, 0.8], [0.1, -0.7]])

# The policy, its twin, what both are told, and what the policy alone or the twin alone is.
Pair = tuple[str, Any, dict[str, Any], dict[str, Any], dict[str, Any]]
LONG = {"horizon": HORIZON}
BALL = {"theta_bound": 1.0}
POOL = {**LONG, "arms": 6}
NO_TAIL = {"order": None, "scale": None}
UNTUNED = {**NO_TAIL, "radius_scale": 0.4}
PAIRS: dict[str, Pair] = {
    "OFUL": ("OFUL", one_pass.OFUL, {}, {}, {}),
    "CRT": ("CRT", one_pass.CRT, LONG, {}, {}),
    "CRTM": ("CRTM", one_pass.CRTM, LONG, {}, {}),
    "Hvt-UCB": ("HvtUCB", practice.HvtPractice, {}, {}, {}),
    "Hvt-UCB in theory": ("HvtUCB", one_pass.HvtTheory, LONG, {"radius": "theory"}, {}),
    "Hvt-UCB, sharp": ("HvtUCB", HvtSharp, BALL, {"radius": "sharp"}, {}),
    "Twin-UCB": ("TwinUCB", TwinUCB, {}, {"tail": None}, NO_TAIL),
    "Twin-UCB in theory": ("TwinUCB", TwinTheory, LONG, {"radius": "theory"}, {}),
    "Twin-UCB, sharp": ("TwinUCB", TwinSharp, BALL, {"radius": "sharp"}, {}),
    "HEAVY-OFUL": ("HeavyOFUL", history.HeavyOFUL, LONG, {}, {"radius_scale": 0.001}),
    "AdaOFUL": ("AdaOFUL", history.AdaOFUL, LONG, {}, {"radius_scale": 0.0003, "order": 2.0}),
    "TOFU": ("TOFU", history.TOFU, LONG, {}, {}),
    "BTC": ("BTC", history.BTC, POOL, {}, {}),
    "SupBTC": ("BTC", history.BTC, {**POOL, "sup": True}, {}, {}),
    "Huber-Bandit": ("HuberBandit", history.HuberBandit, {"arms": 4}, {}, {}),
    "CRMM": ("CRMM", epochs.CRMM, {**LONG, "repeats": 3}, {}, {}),
    "MENU": ("MENU", epochs.MENU, {**LONG, "copies": 4}, {}, {}),
    "MoM": ("MoM", epochs.MoM, {**LONG, "groups": 3, "repeats": 7}, {}, {}),
    "BMM": ("BMM", epochs.BMM, {**POOL, "copies": 3}, {}, {}),
    "LinTS": ("LinTS", baselines.LinTS, {}, {}, {}),
    "epsilon-greedy": ("EpsilonGreedy", baselines.EpsilonGreedy, {}, {}, {}),
    "Robust UCB": ("RobustUCB", baselines.RobustUCB, {**LONG, "arms": 4}, {}, {}),
    "Uniform": ("Uniform", baselines.Uniform, {}, {}, {}),
    "GLB-OMD": ("GLBOMD", linked.GLBOMD, {"link": "logistic"}, {}, UNTUNED),
    "GLB-OMD for counts": ("GLBOMD", linked.GLBOMD, {"link": "log"}, {}, UNTUNED),
    "Hvt-GLB": ("HvtGLB", linked.HvtGLB, {}, {"link": "log", "tail": None}, NO_TAIL),
    "GLM-UCB": ("GLMUCB", generalised.GLMUCB, {"link": "logistic"}, {}, NO_TAIL),
    "OL2M": ("OL2M", generalised.OL2M, {}, {}, NO_TAIL),
    "GLOC": ("GLOC", generalised.GLOC, {"link": "logistic"}, {}, NO_TAIL),
    "ECO-Log": ("ECOLog", generalised.ECOLog, {}, {}, NO_TAIL),
    "Hvt-LowRank": ("HvtLowRank", low_rank.HvtLowRank, {}, {}, {}),
    "LowESTR": ("LowESTR", low_rank.LowESTR, {**LONG, "explore": 6}, {}, NO_TAIL),
    "LOTUS": ("LOTUS", low_rank.LOTUS, {"threshold_scale": np.inf}, {}, {}),
}


def pair(name: str) -> tuple[Any, Any]:
    """A policy and its twin, built alike."""
    kind, twin, told, own, theirs = PAIRS[name]
    order = theirs.get("order") or ORDER
    policy = ht.make_policy(
        kind, **{"dim": DIM, "tail": ht.MomentBound(order, SCALE), **told, **own}
    )
    given = {"order": order, "scale": SCALE, **told, **theirs}
    return policy, twin(DIM, **{k: v for k, v in given.items() if v is not None})


seeds, places = st.integers(0, 10**6), st.integers(0, len(ARMS) - 1)


class Beside(RuleBasedStateMachine):
    """A policy, the clone that sees only what is accepted, and the twin."""

    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.twin = pair(self.name)
        self.shadow = self.policy.clone()
        self.waiting: list[Any] = []

    def reward(self, seed: int) -> float:
        """Heavy-tailed, and sometimes nothing."""
        rng = np.random.default_rng(seed)
        return paid(self.policy, 0.0 if rng.random() < 0.2 else float(rng.standard_t(1.5)))

    def choose(self) -> int:
        return getattr(self.twin, "choose", getattr(self.twin, "select", None))(ARMS)

    def is_choice(self, arm: int) -> bool:
        """Tell whether the twin chooses the same, or what differs from it by rounding alone."""
        theirs = self.choose()
        if arm == theirs or not hasattr(self.twin, "values"):
            return arm == theirs
        values = self.twin.values(ARMS)
        return bool(abs(values[arm] - values[theirs]) <= CLOSE)

    def taught(self, x: Any, reward: float) -> None:
        getattr(self.twin, "learn", getattr(self.twin, "update", None))(np.array(x), reward)

    @rule(form=st.integers(0, 12))
    def select(self, form: int) -> None:
        forms = [ht.Pool(ARMS), *dresses(ARMS)]
        chosen = self.policy.select(forms[form % len(forms)])
        assert chosen == self.shadow.select(ARMS)
        assert self.is_choice(chosen)

    @rule(arm=places, seed=seeds)
    def update(self, arm: int, seed: int) -> None:
        for one in (self.policy, self.shadow):
            one.update(ARMS[arm], self.reward(seed))
        self.taught(ARMS[arm], self.reward(seed))

    @rule(rows=st.lists(st.tuples(places, seeds), min_size=1, max_size=4))
    def update_many(self, rows: list[tuple[int, int]]) -> None:
        X, rewards = ARMS[[arm for arm, _ in rows]], [self.reward(seed) for _, seed in rows]
        for one in (self.policy, self.shadow):
            one.update_many(X, rewards)
        for x, each in zip(X, rewards, strict=True):
            self.taught(x, each)

    @precondition(lambda self: not (self.policy.info.repeats and self.policy.pending))
    @rule()
    def decide(self) -> None:
        mine, theirs = self.policy.decide(ARMS, now=0.0), self.shadow.decide(ARMS, now=0.0)
        assert (mine.token, mine.arm) == (theirs.token, theirs.arm)
        assert self.is_choice(mine.arm)
        self.waiting.append(mine)

    @precondition(lambda self: self.waiting)
    @rule(place=seeds, seed=seeds)
    def learn(self, place: int, seed: int) -> None:
        decision = self.waiting.pop(place % len(self.waiting))
        self.policy.learn(decision, self.reward(seed))
        self.shadow.learn(decision.token, self.reward(seed))
        self.taught(decision.x, self.reward(seed))

    @precondition(lambda self: self.waiting)
    @rule(seed=seeds)
    def learn_all(self, seed: int) -> None:
        rewards = [self.reward(seed + k) for k in range(len(self.waiting))]
        self.policy.learn(self.waiting, rewards)
        self.shadow.learn([one.token for one in self.waiting], rewards)
        for one, each in zip(self.waiting, rewards, strict=True):
            self.taught(one.x, each)
        self.waiting = []

    @rule(age=st.integers(0, 3))
    def expire(self, age: int) -> None:
        assert self.policy.expire(age) == self.shadow.expire(age)
        self.waiting = [one for one in self.waiting if one.token in self.policy.pending]

    @rule()
    def clone(self) -> None:
        self.policy = self.policy.clone()

    @rule()
    def save_and_load(self) -> None:
        self.policy = through_file(self.policy)

    @rule(seed=seeds)
    def refused(self, seed: int) -> None:
        player = PolicyPlayer(lambda: self.policy, np.random.default_rng(seed), Counter())
        player.waiting = list(self.waiting)
        name, call = player.bad()
        try:
            call()
        except (ValueError, TypeError):
            return
        raise AssertionError(f"accepted {name}")

    @invariant()
    def remembers_what_the_clone_does(self) -> None:
        assert same(self.policy.saved_arrays(), self.shadow.saved_arrays())
        assert self.policy.pending == self.shadow.pending

    @invariant()
    def estimates_as_its_twin(self) -> None:
        size = max(float(np.linalg.norm(self.twin.theta)), 1e-2)
        assert np.abs(self.policy.theta - self.twin.theta).max() <= CLOSE * size
        assert abs(self.policy.radius - self.twin.radius) <= CLOSE * abs(self.twin.radius)


def play(name: str, examples: int, steps: int) -> None:
    """So many interleavings of so many calls; raises where one goes wrong."""
    machine = type(f"Beside{PAIRS[name][0]}", (Beside,), {"name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


def fuzz_machines(examples: int) -> dict[str, Counter]:
    """So many interleavings of up to 50 calls for every policy."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PAIRS:
            found[name] = Counter(interleavings=examples)
            try:
                play(name, examples, 50)
            except Exception:
                traceback.print_exc()
                found[name]["gone wrong"] += 1
    return found
