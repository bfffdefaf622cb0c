"""Lower bounds of soft targets, and how often ``ht.compare`` decides, rightly and wrongly.

python -m benchmarks.logs --part soft --trials 1000
python -m benchmarks.logs --part pairs --trials 200
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import heavytail as ht
from heavytail.logs import intervals
from heavytail.logs.sketch import Sketch, epochs

DELTA = 0.05
UNIFORM = (0.0, 0.01, 0.1)  # draws that are mixed into a target
ROWS = 2000
ARMS = 12
MOST_ROWS = 50_000  # that a predicted number of rows is tried with
PLAYED = np.array([0.2, 0.2, 0.05, 0.4, 0.15])  # by the log of two targets

Law = Callable[[np.random.Generator, int], Any]


def _frechet(a: float) -> Law:
    return lambda rng, n: rng.exponential(size=n) ** (-1.0 / a) / math.gamma(1.0 - 1.0 / a)


def _weibull(k: float) -> Law:
    return lambda rng, n: rng.weibull(k, n) / math.gamma(1.0 + 1.0 / k)


def _seldom(share: float, law: Law) -> Law:
    return lambda rng, n: (rng.random(n) < share) * law(rng, n) / share


def _log_logistic(b: float) -> Law:
    mean = math.pi / b / math.sin(math.pi / b)
    return lambda rng, n: np.exp(rng.logistic(size=n) / b) / mean


LAWS: dict[str, Law] = {  # of mean 1
    "gamma(0.7)": lambda rng, n: rng.gamma(0.7, 1.0 / 0.7, n),
    "Weibull(0.45)": _weibull(0.45),
    "log-logistic(1.9)": _log_logistic(1.9),
    "inverse gamma(1.6)": lambda rng, n: 0.6 / rng.gamma(1.6, 1.0, n),
    "Frechet(1.3)": _frechet(1.3),
    "6 % Weibull(0.8)": _seldom(0.06, _weibull(0.8)),
    "20 % Frechet(1.9)": _seldom(0.2, _frechet(1.9)),
}


def soft(trials: int, seed: int) -> None:
    """Print bounds of a target that plays one arm, and of the same with uniform draws mixed in."""
    print(f"\n## At least, as a part of the value; {ROWS:,} rows, {trials} logs each\n")
    print("| rewards | one arm | 1 % uniform | 10 % uniform | kept, 1 % | kept, 10 % | holds |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, law in LAWS.items():
        found = np.array([_soft_bounds(law, [seed + s, 101]) for s in range(trials)])
        part = found.mean(axis=0)
        held = "/".join(f"{share:.1%}" for share in np.mean(found <= 1.0, axis=0))
        shown = " | ".join(f"{one:.3f}" for one in (*part, *part[1:] / part[0]))
        print(f"| {name} | {shown} | {held} |", flush=True)


def _soft_bounds(law: Law, seed: Any) -> list[float]:
    """The bound over the value at each share of uniform draws, on one log."""
    rng = np.random.default_rng(seed)
    logging = 0.6 * rng.dirichlet(np.ones(ARMS)) + 0.4 / ARMS
    means = rng.uniform(0.3, 1.5, ARMS)
    action = rng.choice(ARMS, size=ROWS, p=logging)
    reward, epoch = means[action] * law(rng, ROWS), epochs(0, ROWS)
    bounds = []
    for uniform in UNIFORM:
        target = np.full(ARMS, uniform / ARMS)
        target[np.argmax(means)] += 1.0 - uniform
        x = target[action] / logging[action] * reward
        lower = intervals.betting_lower(Sketch(x, epoch), DELTA, ROWS).best
        bounds.append(lower / float(target @ means))
    return bounds


def pairs(trials: int, seed: int) -> None:
    """Print how often ``ht.compare`` decides between targets that differ, and that do not."""
    few = max(trials // 4, 1)
    print(f"\n## Comparisons at 95 %: {trials} logs, {few} of 20,000 rows\n")
    print("1.86 against 0.83 at 1,000 rows, and 71 % more at 20,000: decided rightly, wrongly.")
    print("Equal: decided, of logs of 1,000 rows; alike, one logged more often, one of light tail.")
    print("Holds: of the 95 % intervals of all these logs. Sign: unlike a.value - b.value.")
    print("Needed: the median of the rows that would decide 1.86 against 0.83, by those of 1,000")
    print("rows that did not, and how often so many rows decide.\n")
    print(
        "| rewards | 1.86 to 0.83 | 71 % more | equal: alike | odds | tails | holds | sign | "
        "needed |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, law in LAWS.items():
        far = [_pair(law, (1.86, 0.83), 1000, [seed + s, 102]) for s in range(trials)]
        more = [_pair(law, (1.71, 1.0), 20_000, [seed + s, 103]) for s in range(few)]
        alike = [_pair(law, (1.0, 1.0), 1000, [seed + s, 104]) for s in range(trials)]
        odds = [_pair(law, (1.0, 1.0), 1000, [seed + s, 105], (2, 3)) for s in range(trials)]
        tails = [_pair(law, (1.0, 1.0), 1000, [seed + s, 106], light=1) for s in range(trials)]
        everything = [
            (found, truth)
            for group, truth in ((far, 1.03), (more, 0.71), (alike, 0.0), (odds, 0.0), (tails, 0.0))
            for found in group
        ]
        holds = np.mean([_holds(found, truth) for found, truth in everything])
        turned = np.mean([f.value * (f.a.value - f.b.value) < 0.0 for f, _ in everything])
        decided = " | ".join(f"{_share(g, 'a'):.0%}, {_share(g, 'b'):.0%}" for g in (far, more))
        wrong = " | ".join(f"{1.0 - _share(g, None):.1%}" for g in (alike, odds, tails))
        print(
            f"| {name} | {decided} | {wrong} | {holds:.1%} | {turned:.1%} | "
            f"{_needed(law, far, few, seed)} |",
            flush=True,
        )


def _pair(
    law: Law, means: tuple[float, float], rows: int, seed: Any, arms: Any = (0, 1), light: int = -1
) -> ht.Comparison:
    """Two targets that play an arm each, compared; that of place ``light`` pays gamma(4)."""
    rng = np.random.default_rng(seed)
    action = rng.choice(len(PLAYED), size=rows, p=PLAYED)
    reward = law(rng, rows)
    for place, (arm, mean) in enumerate(zip(arms, means, strict=True)):
        at = action == arm
        reward[at] *= mean
        if place == light:
            reward[at] = mean * rng.gamma(4.0, 0.25, int(at.sum()))
    log = {"action": action, "reward": reward, "propensity": PLAYED[action]}
    one, two = (np.tile(np.eye(len(PLAYED))[arm], (rows, 1)) for arm in arms)
    return ht.compare(log, one, two)


def _share(found: list[ht.Comparison], verdict: str | None) -> float:
    return float(np.mean([one.better == verdict for one in found]))


def _holds(found: ht.Comparison, truth: float) -> bool:
    assert found.lower is not None
    assert found.upper is not None
    return found.lower <= truth <= found.upper


def _needed(law: Law, found: list[ht.Comparison], trials: int, seed: int) -> str:
    """The median of the predicted rows, and how often logs of that size decide."""
    predicted = [one.rows_needed for one in found if one.rows_needed is not None]
    if not predicted:
        return "none"
    median = float(f"{np.median(predicted):.1e}")
    if median > MOST_ROWS:
        return f"{median:,.0f}, not tried"
    again = [_pair(law, (1.86, 0.83), int(median), [seed + s, 107]) for s in range(trials)]
    return f"{median:,.0f}, {1.0 - _share(again, None):.0%}"
