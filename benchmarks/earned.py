"""How often ``heavytail earned`` states something false: python -m benchmarks.earned

A model plays worlds whose truth is known, and is looked at many times as it goes on. A run counts
as false if any look states a bound that the truth is beyond. The truth is the average of the mean
rewards given what came before, of the decisions compared. For each world: the share of runs with a
false fact ("it earned at least L more"), with a false interval, decided or not, and with any fact,
and the decisions after which half of the runs have one.

The same for the mean reward: its lower bound, which is guaranteed, and its upper one, which is not;
and for the difference of two streams, as of two models between which traffic is split.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.logs.wealth import Wealths, difference
from heavytail.serve.earned import LEVEL, uplift
from heavytail.serve.folding import Rule

SEED = 20_261_119
SHARES = ("false facts", "false intervals", "decided")
FIRST = 100  # decisions before the first look


class World(NamedTuple):
    """Offers and a model that chooses among them.

    Attributes:
        law: of a reward that is paid, of mean 1.
        pay: the probability that each offer pays; the rule is always the first.
        explore: share of uniform draws.
        learns: whether the model takes the best so far; else it knows the best from the start.
        prize: of each offer, the probability of a prize; its size is the inverse.
    """

    law: str
    pay: tuple[float, ...]
    explore: float
    learns: bool = True
    prize: tuple[float, ...] = ()


def amounts(law: str, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Rewards that are paid, of mean 1."""
    kind, _, number = law.partition(" ")
    if kind == "Pareto":
        index = float(number)
        return (1.0 - rng.random(shape)) ** (-1.0 / index) * (index - 1.0) / index
    if kind == "log-normal":
        return np.exp(rng.normal(0.0, 1.5, shape) - 1.125)
    return np.ones(shape)


def played(world: World, trials: int, rounds: int, rng: np.random.Generator) -> list[FloatArray]:
    """(trials, rounds): weights of the rule, rewards, mean rewards of the choice given what came
    before, and those less the mean of the rule.
    """
    pay, count = np.array(world.pay), len(world.pay)
    prize = np.array(world.prize or (0.0,) * count)
    means = pay + 0.1 * (prize > 0.0)
    total, seen = np.zeros((trials, count)), np.zeros((trials, count))
    weights, rewards, model = (np.empty((trials, rounds)) for _ in range(3))
    rows, share = np.arange(trials), world.explore / count
    for t in range(rounds):
        score = (
            total / np.maximum(seen, 1.0) if world.learns else np.broadcast_to(means, seen.shape)
        )
        best = np.argmax(score + 1e-12 * rng.random((trials, count)), axis=1)
        draw = rng.random(trials) < world.explore
        arm = np.where(draw, rng.integers(count, size=trials), best)
        chance = np.where(arm == best, 1.0 - world.explore + share, share)
        reward = np.where(rng.random(trials) < pay[arm], amounts(world.law, rng, (trials,)), 0.0)
        p = prize[arm]
        reward += np.where(rng.random(trials) < p, 0.1 / np.maximum(p, 1e-300), 0.0)
        total[rows, arm] += reward
        seen[rows, arm] += 1.0
        weights[:, t], rewards[:, t] = np.where(arm == 0, 1.0 / chance, 0.0), reward
        model[:, t] = (1.0 - world.explore) * means[best] + share * means.sum()
    return [weights, rewards, model, model - means[0]]


def looks(rounds: int, count: int) -> IntArray:
    """When it is looked at."""
    return np.unique(np.geomspace(min(FIRST, rounds), rounds, count).astype(np.int64))


def of_uplift(parts: list[FloatArray], times: IntArray) -> dict[str, float]:
    """Shares of runs in which a fact, or an interval, was false at some look."""
    weights, rewards, _, gap = parts
    facts, intervals, when = 0, 0, []
    for w, r, true in zip(weights, rewards, np.cumsum(gap, axis=1), strict=True):
        rule, start, fact, interval, decided = Rule("0"), 0, False, False, math.inf
        for t in times:
            rows = slice(start, int(t))
            rule.compare(w[rows], r[rows])
            rule.counts[0] += t - start
            rule.far = np.maximum(rule.far, [r[rows].max(), 0.0])
            rule.weights.add(np.zeros(t - start, dtype=np.int64), w[rows])
            start = int(t)
            stated = uplift(rule, "always:0")
            if stated.low is None or stated.high is None:
                continue
            before = int(rule.gains.before[0])
            truth = true[t - 1] - (true[before - 1] if before else 0.0)
            room = 1e-9 * abs(true[t - 1])
            wrong = stated.low > truth + room, stated.high < truth - room
            interval |= any(wrong)
            if stated.better is not None:
                decided = min(decided, float(t))
                fact |= wrong[0] if stated.better else wrong[1]
        facts, intervals = facts + fact, intervals + interval
        when.append(decided)
    runs = len(weights)
    return {
        "false facts": facts / runs,
        "false intervals": intervals / runs,
        "decided": float(np.mean(np.isfinite(when))),
        "at": float(np.median(when)),
    }


def of_means(parts: list[FloatArray], times: IntArray) -> dict[str, float]:
    """Shares of runs in which a bound of the mean reward was false at some look."""
    _, rewards, model, _ = parts
    runs, start, stream = len(rewards), 0, Wealths(len(rewards))
    low, high = np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    inverse, true = math.log(2.0 / (1.0 - LEVEL)), np.cumsum(model, axis=1)
    for t in times:
        part = rewards[:, start:t]
        stream.add(np.tile(np.arange(runs), part.shape[1]), part.T.ravel())
        start = int(t)
        mean = true[:, t - 1] / t
        low |= stream.lower(inverse, 0.0) * stream.rows / t > mean
        high |= (stream.upper(inverse) < mean) & (stream.rows >= 20)
    return {"low": float(low.mean()), "high": float(high.mean())}


def of_splits(
    law: str, pay: tuple[float, float], runs: int, times: IntArray, rng: np.random.Generator
) -> dict[str, float]:
    """The same for the difference of two streams of equal traffic."""
    wrong, facts, when = 0, 0, []
    for _ in range(runs):
        both = []
        for share in pay:
            size = int(times[-1])
            paid = rng.random(size) < share
            both.append(np.where(paid, amounts(law, rng, (size,)), 0.0))
        streams, start, fact, interval, decided = (Wealths(), Wealths()), 0, False, False, math.inf
        for t in times:
            for stream, values in zip(streams, both, strict=True):
                part = values[start:t]
                stream.add(np.zeros(len(part), dtype=np.int64), part)
            start = int(t)
            if min(stream.rows[0] for stream in streams) < 20:
                continue
            low, high = difference(*streams, LEVEL)
            bad = low > pay[0] - pay[1] + 1e-12, high < pay[0] - pay[1] - 1e-12
            interval |= any(bad)
            if low > 0.0 or high < 0.0:
                decided = min(decided, float(t))
                fact |= any(bad)
        wrong, facts = wrong + interval, facts + fact
        when.append(decided)
    return {
        "false facts": facts / runs,
        "false intervals": wrong / runs,
        "decided": float(np.mean(np.isfinite(when))),
        "at": float(np.median(when)),
    }


LAWS = ("Pareto 1.5", "Pareto 2", "Pareto 2.5", "log-normal")
ALIKE, BETTER, WORSE = (0.1,) * 5, (0.1, 0.1, 0.3, 0.1, 0.1), (0.3, 0.1, 0.1, 0.1, 0.1)
WORLDS = {
    **{f"{law}, all alike": World(law, ALIKE, 0.1) for law in LAWS},
    **{f"{law}, one is better": World(law, BETTER, 0.1) for law in LAWS},
    **{f"{law}, the rule is best": World(law, WORSE, 0.1) for law in LAWS},
    **{f"{law}, three, one in 100 pays": World(law, (0.01,) * 3, 0.3) for law in LAWS},
    **{f"{law}, three, one is better": World(law, (0.1, 0.2, 0.1), 0.3) for law in LAWS},
    "prizes of 1 in 1,000": World("one", (0.1,) * 3, 0.3, True, (0.001,) * 3),
    "prizes of 1 in 100": World("one", (0.1,) * 3, 0.3, True, (0.01,) * 3),
    "the rule alone has prizes of 1 in 100": World(
        "one", (0.1, 0.15, 0.1), 0.3, False, (0.01, 0.0, 0.0)
    ),
    "the model alone has prizes of 1 in 100": World(
        "one", (0.1, 0.15, 0.1), 0.3, False, (0.0, 0.01, 0.0)
    ),
    **{
        f"unseen prizes of 1 in {round(1 / p):,}, the rule's alone": World(
            "one", (0.1, 0.15, 0.1), 0.3, True, (p, 0.0, 0.0)
        )
        for p in (0.01, 0.001, 0.0001)
    },
}


def line(name: str, values: dict[str, float]) -> str:
    cells = [
        f"{100.0 * values[key]:6.1f} %" for key in ("false facts", "false intervals", "decided")
    ]
    at = values["at"]
    return f"{name:44}" + "".join(f"{cell:>17}" for cell in cells) + f"{at:>10,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--looks", type=int, default=60)
    parser.add_argument("--only", default="", help="part of a world's name")
    args = parser.parse_args()
    times = looks(args.rounds, args.looks)
    head = "".join(f"{name:>17}" for name in SHARES)
    print(f"{args.trials} runs of {args.rounds:,} decisions, {len(times)} looks, level {LEVEL:.0%}")
    print(f"\n{'against always the first':44}{head}{'half by':>10}   mean: low, high false")
    for number, (name, world) in enumerate(WORLDS.items()):
        if args.only in name:
            rng = np.random.default_rng([SEED, number])
            parts = played(world, args.trials, args.rounds, rng)
            means = of_means(parts, times)
            ends = f"{100.0 * means['low']:8.1f} %{100.0 * means['high']:8.1f} %"
            print(line(name, of_uplift(parts, times)) + "   " + ends, flush=True)
    print(f"\n{'two models, each with half':44}{head}{'half by':>10}")
    for number, law in enumerate(LAWS):
        for words, pay in {"alike": (0.1, 0.1), "better": (0.2, 0.1)}.items():
            name = f"{law}, {words}"
            if args.only in name:
                rng = np.random.default_rng([SEED, 1000 + number])
                half = looks(args.rounds // 2, args.looks)
                print(line(name, of_splits(law, pay, args.trials, half, rng)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
