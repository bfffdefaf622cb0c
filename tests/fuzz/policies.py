"""Calls on every policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.player import Call, Player, through_file
from tests.fuzz.values import BAD_COUNTS, BAD_NUMBERS, BAD_SCALES, bad_tables, bad_vectors, shown

import heavytail as ht
from heavytail.checks.policies import paid
from heavytail.policies import ALL

DIM, ARMS = 2, 4
TAIL = ht.MomentBound(order=2.0, scale=1.0)

ASKS = (
    "width",
    "predict",
)  # questions that some policies answer; ``expected`` looks at nothing yet
NO_ANSWER = "more than one estimate"


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Vectors no longer than one."""
    x = rng.normal(size=(*shape, DIM))
    return x / np.linalg.norm(x, axis=-1, keepdims=True) * rng.uniform(0.1, 0.99)


class PolicyPlayer(Player):
    """A policy, its arms, and the decisions that wait."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self.arms = unit(self.rng, ARMS)
        self.pool = ht.Pool(self.arms)
        self.waiting: list[Any] = []

    def acts(self, subject: Any) -> Any:
        return subject.select(self.pool if self.found["calls"] % 2 else self.arms)

    def reward(self) -> float:
        size = float(self.rng.standard_t(1.5) * 10.0 ** self.rng.uniform(-3, 3))
        return paid(self.subject, size)

    def rewards(self, count: int) -> np.ndarray:
        return np.array([paid(self.subject, one) for one in self.rng.normal(size=count)])

    def good(self) -> None:
        rng, policy = self.rng, self.subject
        kind = rng.integers(12)
        if kind < 3:
            arm = policy.select(self.pool if rng.random() < 0.5 else self.dressed(self.arms))
            reward = self.reward()
            self.alike(lambda one, x: one.update(x, reward), self.arms[arm])
        elif kind == 3 and not (policy.info.repeats and policy.pending):
            self.waiting.append(policy.decide(self.pool))
        elif kind == 4 and self.waiting:
            policy.learn(self.waiting.pop(int(rng.integers(len(self.waiting)))), 1.0)
        elif kind == 5:
            self.many()
        elif kind == 6:
            self.subject = policy.clone()
        elif kind == 7:
            policy.diagnostics()
            self.look(self.dressed(self.arms[0]))
        elif kind == 8 and not (policy.info.repeats and policy.pending):
            self.waiting.append(policy.decide(self.dressed(self.arms)))
        elif kind == 9 and rng.random() < 0.1:
            self.subject = through_file(policy)
        elif kind == 10 and rng.random() < 0.2:
            policy.expire(int(rng.integers(3)))
            self.waiting = [one for one in self.waiting if one.token in policy.pending]
        elif kind == 11 and self.waiting:
            policy.learn(self.waiting, self.rewards(len(self.waiting)))
            self.waiting = []

    def many(self) -> None:
        X, rewards = unit(self.rng, 3), self.rewards(3)
        clothed = self.dressed(rewards)
        scale = self.pick([None, 1.0, [1.0, 2.0, 0.5], np.ones(3)])
        if self.rng.random() < 0.5:
            self.alike(lambda one, rows: one.update_many(rows, rewards, scale=scale), X)
        else:
            self.subject.update_many(self.dressed(X), clothed, scale=scale)

    def look(self, x: Any) -> None:
        for name in ASKS:
            if hasattr(self.subject, name):
                try:
                    getattr(self.subject, name)(x)
                except ValueError as error:
                    if NO_ANSWER not in str(error):
                        raise

    def bad(self) -> Call:
        p, x = self.subject, self.arms[0]
        number, scale, count = map(self.pick, (BAD_NUMBERS, BAD_SCALES, BAD_COUNTS))
        vector, table = self.pick(bad_vectors(DIM)), self.pick(bad_tables(3, DIM))
        rows = np.array([x, x, x])
        options: list[Call] = [
            (f"update(x, {shown(number)})", lambda: p.update(x, number)),
            (f"update({shown(vector)}, 1)", lambda: p.update(vector, 1.0)),
            (f"update(scale={shown(scale)})", lambda: p.update(x, 1.0, scale=scale)),
            (f"select({shown(table)})", lambda: p.select(table)),
            (f"decide({shown(table)})", lambda: p.decide(table)),
            ("select(no arms)", lambda: p.select(np.zeros((0, DIM)))),
            (f"learn({shown(count)})", lambda: p.learn(count, 1.0)),
            ("learn(unknown token)", lambda: p.learn(10**9, 1.0)),
            (
                f"update_many(., [1, {shown(number)}])",
                lambda: p.update_many(rows, [1.0, 1.0, number]),
            ),
            (f"update_many({shown(table)})", lambda: p.update_many(table, [1.0, 1.0, 1.0])),
            (
                f"update_many(scale=[1, {shown(scale)}])",
                lambda: p.update_many(rows, [1.0] * 3, scale=[1.0, 1.0, scale]),
            ),
            ("update_many(lengths)", lambda: p.update_many(rows, [1.0])),
            (f"expire({shown(count)})", lambda: p.expire(count)),
            (f"reseed({shown(number)})", lambda: self.reseed(number)),
        ]
        if hasattr(p, "select_many"):
            options.append((f"select_many({shown(table)})", lambda: p.select_many([table])))
        for name in ASKS:
            if hasattr(p, name):
                ask, what = getattr(p, name), table if name == "predict" else vector
                options.append((f"{name}({shown(what)})", lambda ask=ask, what=what: ask(what)))
        if self.waiting:
            token = self.waiting[0]
            options += [
                (f"learn(., {shown(number)})", lambda: p.learn(token, number)),
                (f"learn([.], [{shown(number)}])", lambda: p.learn([token], [number])),
                ("learn(twice)", lambda: p.learn([token, token], [1.0, 1.0])),
            ]
        return self.pick(options)

    def reseed(self, seed: Any) -> None:
        """Policies that draw refuse what is no whole number; the others ignore it."""
        if not self.subject.info.randomised or isinstance(seed, int):
            raise TypeError("ignored, or good")
        self.subject.reseed(seed)

    def fail(self, what: str, how: str) -> None:
        super().fail(what, how)
        self.waiting = []


def builders() -> list[Callable[[], ht.Policy]]:
    """Every policy, and the modes of those that have some."""
    told = {"dim": DIM, "horizon": 100_000, "tail": TAIL, "arms": ARMS}
    modes: list[tuple[str, dict[str, Any]]] = [
        *((kind.name, {}) for kind in ALL),
        ("GLBOMD", {"link": "logistic"}),
        ("GLBOMD", {"link": "log"}),
        ("GLMUCB", {"link": "log"}),
        ("HvtGLB", {"link": "log", "tail": None}),
        ("HvtGLB", {"link": "log", "tail": None, "rewards": "amounts"}),
        ("TwinUCB", {"tail": None, "horizon": None}),
        ("TwinUCB", {"target": "typical"}),
        ("TwinUCB", {"radius": "theory"}),
        ("TwinUCB", {"radius": "sharp", "theta_bound": 1.0}),
        ("HvtUCB", {"tail": None, "horizon": None}),
        ("HvtUCB", {"clip": np.inf, "theta_bound": 2.0}),
        ("HvtUCB", {"radius": "theory"}),
        ("HvtUCB", {"radius": "sharp", "theta_bound": 1.0}),
        ("HvtUCB", {"radius": "sharp", "theta_bound": 1.0, "tail": "symmetric"}),
        ("HeavyOFUL", {"solver": "newton"}),
        ("BTC", {"sup": True}),
        ("BMM", {"sup": True}),
        ("HuberBandit", {"shared": True}),
        ("RobustUCB", {"estimator": "catoni"}),
        ("RobustUCB", {"estimator": "median of means"}),
        ("OFUL", {"dim": DIM, "noise_scale": 1.0}),
    ]
    return [
        lambda name=name, own=own: ht.make_policy(name, **{**told, **own})  # type: ignore[misc]
        for name, own in modes
    ]
