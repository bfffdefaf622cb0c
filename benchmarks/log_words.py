"""How often sentences about logs are said, and are true: before, and now.

    python -m benchmarks.logs --part words --trials 300 --seed 7700

Three tables. A value "in which the largest rows count in part" lies on a side over many logs: said
before by the sign of plain - value in that one log, now where nearly all large rows stand there. A
mean weight below 1, with right propensities: before, chance was said to be ruled out; now, that
rows of larger weight than the log's are missing or the propensities are wrong, which is false only
where the log has the largest weight there can be. And the rewards that would overturn a comparison:
how far from equal they make both policies, in parts of the difference, and how many logs have none.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

import heavytail as ht
from benchmarks.log_laws import Law, Rng

ALL_ONES = np.array([0.0, 1.0])
SIDES: dict[str, Law] = {
    "t(1.2) about 0.3": lambda rng, n: 0.3 + rng.standard_t(1.2, n),
    "t(1.5) about 2": lambda rng, n: 2.0 + 3.0 * rng.standard_t(1.5, n),
    "symmetric log-normal(2)": lambda rng, n: (
        rng.choice([-1.0, 1.0], n) * np.exp(2.0 * rng.standard_normal(n)) + 0.5
    ),
    "normal, 2 % 60 times": lambda rng, n: (
        1.0 + rng.standard_normal(n) * np.where(rng.random(n) < 0.02, 60.0, 1.0)
    ),
    "inverse gamma(1.2)": lambda rng, n: 0.2 / rng.gamma(1.2, size=n),
    "log-normal(2.2)": lambda rng, n: np.exp(2.2 * rng.standard_normal(n) - 2.42),
    "losses: Burr(1.25)": lambda rng, n: -0.8 * (1.0 / rng.random(n) - 1.0) ** 0.8,
}
MEANS = {"t(1.2) about 0.3": 0.3, "t(1.5) about 2": 2.0, "symmetric log-normal(2)": 0.5}
MEANS |= {"normal, 2 % 60 times": 1.0, "inverse gamma(1.2)": 1.0, "log-normal(2.2)": 1.0}
MEANS["losses: Burr(1.25)"] = -0.8 * (math.pi / 1.25) / math.sin(math.pi / 1.25)


def played(rng: Rng, p: Any, reward: Any) -> dict[str, Any]:
    """A log of two actions, of which 1 has probability ``p`` by row."""
    action = (rng.random(len(p)) < p).astype(int)
    return {"action": action, "reward": reward, "propensity": np.where(action == 1, p, 1.0 - p)}


def sides(trials: int, seed: int, rows: int = 2_000) -> None:
    """How often a side is named, and how often it is not that on which the mean value lies."""
    print(
        "\n| rewards | value's bias in parts of its spread | before: low, high | now: low, high |"
    )
    print("| --- | --- | --- | --- |")
    for name, draw in SIDES.items():
        rng = np.random.default_rng([seed, rows])
        value, before, now = np.empty(trials), np.zeros(2), np.zeros(2)
        for k in range(trials):
            log = played(rng, np.full(rows, 0.25), draw(rng, rows))
            found = ht.evaluate(log, np.tile(ALL_ONES, (rows, 1)), bound=None)
            words = " ".join(found.advice)
            value[k] = found.value
            gap = found.plain - found.value
            before += np.array([gap > 0.0, gap < 0.0]) * ("count in part" in words)
            now += ["in part lies low" in words, "in part lies high" in words]
        bias = (value.mean() - MEANS[name]) / value.std()
        told = [", ".join(f"{part:.0%}" for part in each / trials) for each in (before, now)]
        print(f"| {name} | {bias:+.2f} | {told[0]} | {told[1]} |", flush=True)


def weights(trials: int, seed: int) -> None:
    """Right propensities; action 1 is liked in a share of the rows and else rare."""
    print("\n| rows | liked in | odds else | said, and false before | false now |")
    print("| --- | --- | --- | --- | --- |")
    for rows, share, odds in (
        *((150, 0.5, 0.04), (500, 0.7, 0.015), (1_500, 0.4, 0.004), (1_500, 0.8, 0.02)),
        (4_000, 0.6, 0.002),
    ):
        rng = np.random.default_rng([seed, rows])
        p = np.where(np.arange(rows) < share * rows, 1.0 - odds, odds)
        said = wrong = 0
        for _ in range(2 * trials):
            log = played(rng, p, np.ones(rows))
            found = ht.evaluate(log, np.tile(ALL_ONES, (rows, 1)), bound=None)
            if not found.propensities_ok:
                said += 1
                wrong += bool(np.any((log["action"] == 1) & (p < 0.5)))
        told = f"{said / (2 * trials):.1%} | {wrong / (2 * trials):.2%}"
        print(f"| {rows:,} | {share:.0%} | {odds} | {told} |", flush=True)


def overturned(trials: int, seed: int, rows: int = 3_000) -> None:
    """Two actions of means 2 and 0.6; b plays the worse one more often than a."""
    print("\n| b's odds of the worse action | its odds in the log | decided | before | now |")
    print("| --- | --- | --- | --- | --- |")
    for soft in (1.0, 0.8, 0.6):
        for few in (0.5, 0.1):
            rng = np.random.default_rng([seed, int(10 * soft), int(10 * few)])
            p = np.where(rng.random(rows) < 0.5, 0.5, few)
            left: list[list[float]] = []
            for _ in range(max(trials // 10, 1)):
                log = played(rng, p, np.zeros(rows))
                log["reward"] = rng.gamma(2.0, np.where(log["action"] == 0, 1.0, 0.3))
                pair = [np.tile([q, 1.0 - q], (rows, 1)) for q in (soft, 1.0 - soft)]
                found = ht.compare(log, *pair)
                words = re.search("If 1 in ([0-9,]+) .* paid ([^ ]+) more", " ".join(found.advice))
                if words is None:
                    continue
                gap = np.maximum((pair[1] - pair[0])[:, 1] * log["action"] / p, 0.0)
                each = rows / (np.sum(gap**2) / gap.sum() * math.log(20.0))
                size = 0.5 * (found.a.value + found.b.value) + abs(found.value) * each
                old = each * soft, size - 0.6  # of b's own rounds, in place of what was paid
                now = float(words[1].replace(",", "")), float(words[2])
                row = []
                for one_in, more in (old, now):
                    gain = (2.0 * soft - 1.0) * more / one_in
                    row += [
                        1.0 - gain / ((2.0 * soft - 1.0) * 1.4),
                        float(np.prod(1.0 - p / one_in)),
                    ]
                left.append(row)
            means = np.mean(left, axis=0)
            told = " | ".join(f"{means[k]:+.0%}, {means[k + 1]:.1%}" for k in (0, 2))
            share = len(left) / max(trials // 10, 1)
            odds = "1/2" if few == 0.5 else f"1/2 or {few}"
            print(f"| {soft:g} | {odds} | {share:.0%} | {told} |", flush=True)


def words(trials: int, seed: int) -> None:
    """All three tables."""
    sides(trials, seed)
    weights(trials, seed)
    overturned(trials, seed)
