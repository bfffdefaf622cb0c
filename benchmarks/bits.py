"""``python -m benchmarks.bits``: a digest of what every policy, in every mode, and a Decider do.

Played at two commits on one machine, equal lines say that a change of the code behind a policy
changed no bit of it: its choices, its state, what it answers and what it saves. Records of numbers
made before such a change still stand, so their stamps may be renewed (``--renew`` of
``python -m benchmarks.evidence``).
"""

from __future__ import annotations

import argparse
import hashlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import heavytail as ht
from heavytail.policies import ALL

ROUNDS = 400
TAIL = ht.MomentBound(order=1.5, scale=0.7)
SQUARE = ht.MomentBound(order=2.0, scale=0.7)
DIM = 3
PROBLEM: dict[str, Any] = {"dim": DIM, "horizon": 4000, "tail": TAIL, "arms": 6}
LINKS = ("identity", "logistic", "log", "probit")
LINKED = ("GLB-OMD", "GLM-UCB", "GLOC")
MODES: dict[str, list[dict[str, Any]]] = {
    "Hvt-UCB": [
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 2.0},
        {"radius": "sharp", "theta_bound": 2.0, "tail": "symmetric", "horizon": None},
        {"clip": 1.345},
        {"forget": 0.99},
        {"forget": "auto", "clip": 1.5},
        {"intercept": False, "theta_bound": 0.5},
    ],
    "Twin-UCB": [
        {"target": "typical"},
        {"target": "typical", "forget": 0.98},
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 2.0},
        {"forget": 0.99},
        {"forget": "auto"},
        {"patience": 0.0},
        {"patience": 5.0},
        {"tail": None},
    ],
    "HEAVY-OFUL": [{"solver": "gd"}, {"solver": "lbfgs"}],
    "BTC": [{"sup": True}],
    "BMM": [{"sup": True}],
    "RobustUCB": [{"estimator": "median of means"}, {"estimator": "catoni", "tail": SQUARE}],
    "Huber-Bandit": [{"shared": True}],
    "CRTM": [{"form": "least squares"}, {"link": "log"}, {"link": "logistic"}],
    "OL2M": [{"radius": "theory"}, {"link": "probit"}],
    "ECOLog": [{"radius": "theory", "theta_bound": 1.0}],
    "Hvt-GLB": [
        {"link": "log", "tail": None},
        {"link": "log", "rewards": "amounts", "tail": None},
        {"target": "typical"},
        {"intercept": False},
    ],
    "Hvt-LowRank": [{"d1": 3, "d2": 2, "form": "pairs"}, {"d1": 3, "d2": 3, "rank": 1}],
    "LowESTR": [{"d1": 3, "d2": 2, "form": "pairs", "explore": 30}],
    "LOTUS": [{"d1": 3, "d2": 2, "rank": 1}],
    "LinTS": [{"seed": 5}],
    "EpsilonGreedy": [{"epsilon": 0.2}],
    **{name: [{"link": link} for link in LINKS[1:]] for name in LINKED},
}
MODES["GLB-OMD"] += [{"radius": "theory", "link": "logistic"}, {"step": "linear", "theta_bound": 1}]
MODES["GLM-UCB"] += [{"radius": "theory", "link": "logistic"}, {"radius": "theory"}]
MODES["GLOC"] += [{"radius": "theory"}]


def policies() -> Iterator[tuple[str, ht.Policy]]:
    """Every policy in every mode, under a name for the table."""
    for kind in ALL:
        for options in [{}, *MODES.get(kind.name, [])]:
            problem = {**PROBLEM, **{k: options[k] for k in PROBLEM if k in options}}
            if kind.name == "AdaOFUL":
                problem["tail"] = SQUARE
            own = {key: value for key, value in options.items() if key not in PROBLEM}
            if "d1" in own:
                problem.pop("dim")
            taken = kind.taken({k: v for k, v in problem.items() if v is not None}, own)
            if isinstance(problem["tail"], str):
                taken["tail"] = problem["tail"]
            label = ", ".join(f"{key}={value}" for key, value in options.items())
            yield f"{kind.name} {label}".strip(), kind(**{**taken, **own})


def reward_of(policy: ht.Policy, mean: float, rng: np.random.Generator) -> float:
    """A reward that the policy's link can have, heavy-tailed where it may be."""
    link = getattr(policy, "link", None)
    noise = 0.7 * rng.standard_t(1.6)
    if policy.info.rewards == "0 or 1" or (link is not None and link.rewards == "0 or 1"):
        return float(rng.random() < 0.5 + 0.4 * np.tanh(mean))
    if link is not None and link.name == "log":
        return float(rng.poisson(np.exp(min(mean, 3.0))))
    return float(mean + noise) if rng.random() < 0.9 else 0.0


def digest(policy: ht.Policy, seed: int) -> str:
    """A hash of what a policy does in a game: choices, state, answers, saved arguments."""
    rng = np.random.default_rng(seed)
    length = policy.dim
    theta, offset = rng.normal(size=length), rng.normal()
    told = hashlib.sha256()

    def add(value: object) -> None:
        told.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())

    fixed = rng.uniform(-1.0, 1.0, (6, length)) / np.sqrt(length)
    for t in range(ROUNDS):
        arms = fixed if seed % 2 else rng.uniform(-1.0, 1.0, (6, length)) / np.sqrt(length)
        arm = policy.select(arms)
        add(arm)
        scale = 1.0 if t % 3 else 0.5 + rng.random()
        reward = reward_of(policy, float(arms[arm] @ theta + offset), rng)
        policy.update(arms[arm], reward, scale=scale if policy.info.uses_scale else None)
        if t % 97 == 40:
            for answer in (policy.predict, policy.explain, policy.width):
                try:
                    add(answer(arms[0] if answer != policy.explain else arms))
                except ValueError as error:
                    add(str(error))
            add(policy.diagnostics())
            add(policy.theta)
            add(policy.radius)
        if t % 131 == 60 and not policy.info.repeats:
            token = policy.decide(arms, explore=0.3, now=float(t))
            add((token.arm, token.probability, token.score))
            policy.learn(token, reward_of(policy, 0.3, rng))
    add(policy.select_many(np.stack([fixed, -fixed])))
    rows = fixed[:3]
    policy.update_many(rows, np.array([reward_of(policy, 0.1, rng) for _ in rows]))
    for key, array in sorted(policy.saved_arrays().items()):
        add(key)
        add(array)
    add(policy.slot_names())
    add(sorted(policy.constructor_arguments().items(), key=str))
    add(repr(policy))
    return told.hexdigest()[:16]


DECIDERS: list[dict[str, Any]] = [
    {},
    {"explore": 0.0},
    {"forget": 0.995},
    {"offers": None, "prices": ht.Grid(5, 50, 10)},
    {"context": []},
]


def decider_digest(options: dict[str, Any], seed: int) -> str:
    """A hash of what a Decider does in a shop whose rewards bend: choices, forecasts, state."""
    rng = np.random.default_rng(seed)
    offers = [{"sku": f"s{k}", "price": 5.0 + k, "kind": "ab"[k % 2]} for k in range(5)]
    named = {"offers": offers, "ids": "sku", "context": ["segment", "basket", "hour"], **options}
    shop = ht.Decider(**{key: v for key, v in named.items() if key != "ids" or named["offers"]})
    told = hashlib.sha256()
    for _ in range(1100):
        visit = {
            "segment": str(rng.choice(["new", "loyal"])),
            "basket": float(rng.lognormal(3.4, 0.7)),
            "hour": int(rng.integers(24)),
        }
        choice = shop.decide({name: visit[name] for name in named["context"]})
        told.update(repr((choice.id, choice.probability, choice.expected)).encode())
        bend = np.sin(visit["hour"] / 4.0) * (visit["segment"] == "new")
        paid = 20.0 + 5.0 * bend + 0.1 * visit["basket"] + 3.0 * rng.standard_t(2.1)
        shop.reward(choice.token, max(paid, 0.0) * (rng.random() < 0.6))
    told.update(repr(shop.expected({name: visit[name] for name in named["context"]})).encode())
    for key, array in sorted(shop.policy.saved_arrays().items()):
        told.update(key.encode() + array.tobytes())
    return told.hexdigest()[:16]


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    warnings.simplefilter("ignore")
    whole = hashlib.sha256()
    for seed in (1, 2):
        for name, policy in policies():
            line = f"{name:60} {seed} {digest(policy, seed)}"
            whole.update(line.encode())
            print(line, flush=True)
        for options in DECIDERS:
            label = ", ".join(f"{key}={value}" for key, value in options.items())
            line = f"{f'Decider {label}'.strip():60} {seed} {decider_digest(options, seed)}"
            whole.update(line.encode())
            print(line, flush=True)
    print(whole.hexdigest()[:16])


if __name__ == "__main__":
    main()
