"""How far ``ht.evaluate``'s value lies off, and how often its sentences are false or missing.

    python -m benchmarks.logs --part values --trials 400
    python -m benchmarks.logs --part sentences --trials 400
    python -m benchmarks.logs --part judges --trials 60

``values``: mean and median of estimate/truth - 1 and the root of its mean square, for Huber's
estimate alone (the value until 1.3), the value, and the plain mean; and how often it is said that
it lies low, or high, if there are larger rewards, and in how many of these logs it does.
``sentences``: the share of logs of which a sentence is said, beside the test by the normal law that
it rested on before. ``judges``: what each rule of ``ht.select`` gains of what the best of 20
policies has over a policy drawn at random, with and without a context.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import heavytail as ht
from benchmarks.log_laws import RARE, Law, Rng
from heavytail.logs import means
from heavytail.logs.sketch import Pairs

LOGGING = np.array([0.35, 0.25, 0.15, 0.1, 0.1, 0.05])
OLD_ERRORS = 3.29


def some(rng: Rng, n: int, share: float) -> Any:
    """1/share in this share of the rows, 0 in the others."""
    return (rng.random(n) < share) / share


def log_normal(rng: Rng, n: int, spread: float) -> Any:
    """Log-normal values of mean 1."""
    return np.exp(spread * rng.standard_normal(n) - 0.5 * spread**2)


REWARDS: dict[str, Law] = {  # of mean 1, costs of -1
    "zeros and log-normal(1.5)": lambda rng, n: some(rng, n, 0.1) * log_normal(rng, n, 1.5),
    "zeros and Pareto(1.5)": lambda rng, n: some(rng, n, 0.1) * (1.0 + rng.pareto(1.5, n)) / 3.0,
    "jackpots": lambda rng, n: 0.5 * rng.exponential(size=n) + 0.5 * some(rng, n, 0.01),
    "zeros and Weibull(0.4)": lambda rng, n: (
        some(rng, n, 0.05) * rng.weibull(0.4, n) / math.gamma(3.5)
    ),
    "Frechet(1.4)": lambda rng, n: rng.exponential(size=n) ** (-1 / 1.4) / math.gamma(1 - 1 / 1.4),
    "log-logistic(1.6)": lambda rng, n: (
        (1.0 / rng.random(n) - 1.0) ** (-1 / 1.6) * math.sin(math.pi / 1.6) * 1.6 / math.pi
    ),
    "exponentials, 2 % 40 times as large": lambda rng, n: (
        rng.exponential(size=n) * np.where(rng.random(n) < 0.02, 40.0, 1.0) / 1.78
    ),
    "0/1": lambda rng, n: some(rng, n, 0.2),
    **{name: RARE[name] for name in ("compound Poisson", "1.5 % log-normal spikes")},
    "costs: -2^k jackpots": lambda rng, n: -RARE["2^k jackpots"](rng, n),
    "costs: exponentials, 0.5 % 100 times": lambda rng, n: (
        -RARE["exponentials, 0.5 % 100 times"](rng, n)
    ),
    "normal": lambda rng, n: 1.0 + rng.standard_normal(n),
    "t(1.6), both signs": lambda rng, n: 1.0 + 0.5 * rng.standard_t(1.6, n),
}


def values(trials: int, seed: int) -> None:
    """Bias and error of the value: a target that plays one of six arms most of the time."""
    print("\n| rewards | rows | Huber: mean, median, error | value | plain | said, does |")
    print("| --- | --- | --- | --- | --- | --- |")
    arm = 4
    target = np.full(6, 0.05) + 0.7 * np.eye(6)[arm]
    for name, draw in REWARDS.items():
        truth = -1.0 if name.startswith("costs") else 1.0
        for rows in (1_000, 10_000):
            rng = np.random.default_rng([seed, rows, arm])
            off, right = np.empty((trials, 3)), []
            for k in range(trials):
                action = rng.choice(6, size=rows, p=LOGGING)
                reward, w = draw(rng, rows), target[action] / LOGGING[action]
                log = {"action": action, "reward": reward, "propensity": LOGGING[action]}
                found = ht.evaluate(log, np.tile(target, (rows, 1)), bound=None)
                huber = means.huber(Pairs(w, w * reward).cells()).value
                off[k] = np.array([huber, found.value, found.plain]) / truth - 1.0
                words = [line for line in found.advice if "too rare for this log" in line]
                right += [("lies low" in line) == (found.value < truth) for line in words]
            parts = zip(off.mean(0), np.median(off, 0), np.sqrt((off**2).mean(0)), strict=True)
            told = " | ".join("{:+.0%}, {:+.0%}, {:.0%}".format(*part) for part in parts)
            claim = f"{len(right) / trials:.0%}, {np.mean(right or [0]):.0%}" if right else "never"
            print(f"| {name} | {rows:,} | {told} | {claim} |", flush=True)


NEW = tuple(name for name in REWARDS if "costs" in name or name in RARE)
CHANCES: dict[str, Law] = {  # of the action that the target plays, by row
    "1/p log-normal(1.5)": lambda rng, n: np.exp(-np.abs(1.5 * rng.standard_normal(n))),
    "1/p at most 60": lambda rng, n: np.exp(-rng.uniform(0.0, math.log(60.0), n)),
    "w of index 1.5": lambda rng, n: rng.random(n) ** 2,
    "w of index 3": lambda rng, n: rng.random(n) ** 0.5,
    "1/2, 0.0003 in a tenth": lambda rng, n: np.where(rng.random(n) < 0.9, 0.5, 0.0003),
    "0.4, 0 in a fifth": lambda rng, n: np.where(rng.random(n) < 0.8, 0.4, 0.0),
    "1/2": lambda rng, n: np.full(n, 0.5),
}
PAID: dict[str, Law] = {
    **{name: RARE[name] for name in ("exponentials, 3 % 25 times", "1.5 % log-normal spikes")},
    "exponential": lambda rng, n: rng.exponential(size=n),
    "0/1": lambda rng, n: 1.0 * (rng.random(n) < 0.3),
    "log-normal(1)": lambda rng, n: log_normal(rng, n, 1.0),
    "log-normal(1.5)": lambda rng, n: log_normal(rng, n, 1.5),
    "log-normal(2)": lambda rng, n: log_normal(rng, n, 2.0),
    "Weibull(0.5)": lambda rng, n: rng.weibull(0.5, n),
    "Lomax(1.3)": lambda rng, n: rng.pareto(1.3, n),
    "Frechet(1.7)": lambda rng, n: rng.exponential(size=n) ** (-1 / 1.7),
}
FINITE, INFINITE = "variance finite", "variance infinite"
WITHIN = "all moments finite"
WORLDS: tuple[tuple[str, str, str, float], ...] = (  # with a factor of the logged propensities
    ("1/p log-normal(1.5)", "0/1", FINITE, 1.0),
    ("1/p at most 60", "log-normal(1)", FINITE, 1.0),
    ("w of index 3", "Weibull(0.5)", FINITE, 1.0),
    ("1/p log-normal(1.5)", "log-normal(1.5)", FINITE, 1.0),
    ("1/2", "log-normal(2)", FINITE, 1.0),
    ("1/2", "exponential", WITHIN, 1.0),
    ("1/2", "exponentials, 3 % 25 times", WITHIN, 1.0),
    ("1/2", "1.5 % log-normal spikes", WITHIN, 1.0),
    ("w of index 1.5", "0/1", INFINITE, 1.0),
    ("1/2", "Lomax(1.3)", INFINITE, 1.0),
    ("1/p at most 60", "Lomax(1.3)", INFINITE, 1.0),
    ("1/2", "Frechet(1.7)", INFINITE, 1.0),
    ("1/2, 0.0003 in a tenth", "0/1", "played, but too rarely to be seen", 1.0),
    ("0.4, 0 in a fifth", "0/1", "not played in a fifth of the rows", 1.0),
    ("1/2", "0/1", "propensities 0.9 of the true ones", 0.9),
    ("1/2", "0/1", "propensities 1.1 of the true ones", 1.1),
    ("1/p log-normal(1.5)", "0/1", "propensities 0.8 of the true ones", 0.8),
)
SAID = {  # what each sentence of today has in it
    "above 1": "cannot be above 1",
    "below 1": "and should be 1",
    "squares": "half of the sum of squares",
    "half": "Half of all gains and losses",
}


def said(log: dict[str, Any]) -> Iterator[bool]:
    """Tell whether each sentence was said before, and whether it is said now."""
    found = ht.evaluate(log, np.tile([0.0, 1.0], (len(log["action"]), 1)), bound=None)
    mean, _, high = found.mean_weight
    error = (high - mean) / 1.96
    wrong = abs(mean - 1.0) > OLD_ERRORS * error + 1e-6
    yield wrong and mean > 1.0
    yield wrong and mean < 1.0
    yield not wrong and high < 1.0
    yield from (any(words in line for line in found.advice) for words in SAID.values())


def sentences(trials: int, seed: int, rows: int = 2_000) -> None:
    """The share of logs of which each sentence is said."""
    print(
        f"\n{rows:,} rows. Before: 'wrong' above 1, below 1, 'could not play'; now: "
        f"{', '.join(SAID)}."
    )
    print("\n| chance of the action | rewards | what is true | before | now |")
    print("| --- | --- | --- | --- | --- |")
    for chance, paid, truth, factor in WORLDS:
        rng = np.random.default_rng([seed, rows])
        rates = np.zeros(3 + len(SAID))
        for _ in range(trials):
            p = CHANCES[chance](rng, rows)
            action = (rng.random(rows) < p).astype(int)
            propensity = np.minimum(factor * np.where(action == 1, p, 1.0 - p), 1.0)
            reward = PAID[paid](rng, rows)
            log = {"action": action, "reward": reward, "propensity": propensity}
            rates += list(said(log))
        told = [f"{rate:.1%}" for rate in rates / trials]
        before, now = ", ".join(told[:3]), ", ".join(told[3:])
        print(f"| {chance} | {paid} | {truth} | {before} | {now} |", flush=True)


def choice(rng: Rng, reward: Callable[[Rng, int], Any], context: bool) -> tuple[Any, list[float]]:
    """The values of 20 policies for 8 arms, and of those that each rule chooses of 1,500 rows."""
    rows, arms, kinds = 1_500, 8, 3 if context else 1
    logging = 0.8 * rng.dirichlet(np.ones(arms)) + 0.2 / arms
    worth = rng.uniform(0.3, 1.5, (kinds, arms))
    kind, action = rng.integers(kinds, size=rows), rng.choice(arms, size=rows, p=logging)
    log = {
        "action": action,
        "reward": worth[kind, action] * reward(rng, rows),
        "propensity": logging[action],
    }
    shares = np.exp(2.5 * rng.standard_normal((20, kinds, arms)))
    shares /= shares.sum(axis=2, keepdims=True)
    worths = np.einsum("pka,ka->p", shares, worth) / kinds
    found = ht.select(log, [one[kind] for one in shares])
    rules = [found.chosen, *found.proposals.values(), int(np.argmax(found.lower))]
    return worths, [float(worths[rule]) for rule in rules]


def judges(trials: int, seed: int) -> None:
    """What each rule gains over a policy drawn at random, 1 being the best of the twenty."""
    names = ("bound", "snips", "dm", "dros", "switch-dr", "lower")
    print(f"\n| rewards | context | {' | '.join(names)} |")
    print("| --- " * (2 + len(names)) + "|")
    laws = [name for name in REWARDS if name not in ("normal", "t(1.6), both signs", *NEW)]
    total = []
    for name in laws:
        for context in (False, True):
            rng = np.random.default_rng([seed, context])
            drawn = [choice(rng, REWARDS[name], context) for _ in range(trials)]
            best, mean = (np.mean([end(v) for v, _ in drawn]) for end in (np.max, np.mean))
            gain = (np.mean([chosen for _, chosen in drawn], axis=0) - mean) / (best - mean)
            total.append(gain)
            told = " | ".join(f"{part:.2f}" for part in gain)
            print(f"| {name} | {'yes' if context else 'no'} | {told} |", flush=True)
    told = " | ".join(f"{part:.2f}" for part in np.mean(total, axis=0))
    print(f"| mean of all | | {told} |")
