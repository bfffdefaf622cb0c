"""Lower bounds of soft targets, and how often ``ht.compare`` decides, rightly and wrongly.

python -m benchmarks.logs --part soft --trials 200
python -m benchmarks.logs --part few --trials 100
python -m benchmarks.logs --part pairs --trials 100
python -m benchmarks.logs --part jackpots --trials 200
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import heavytail as ht
from benchmarks.log_laws import LAWS, RARE, Law, exponential, seldom, spikes, weibull

UNIFORM = (0.0, 0.001, 0.01, 0.1)  # draws that are mixed into a target
ARMS = 12
MOST_ROWS = 50_000  # that a predicted number of rows is tried with
PLAYED = np.array([0.2, 0.2, 0.05, 0.4, 0.15])  # by the log of two targets
SOFT: dict[str, tuple[int, Law]] = {  # rows and rewards
    **{name: (2000, LAWS[name]) for name in ("gamma(0.7)", "Frechet(1.3)", "6 % Weibull(0.8)")},
    **{name: (2000, RARE[name]) for name in ("compound Poisson", "1.5 % log-normal spikes")},
    "4 % exponential": (2000, seldom(0.04, exponential)),
    "1.5 % exponential": (2000, seldom(0.015, exponential)),
    "1.5 % exponential, more rows": (8000, seldom(0.015, exponential)),
    "0.7 % Weibull(1.5)": (2000, seldom(0.007, weibull(1.5))),
    "0.7 % Weibull(1.5), more rows": (8000, seldom(0.007, weibull(1.5))),
}


def soft(trials: int, seed: int) -> None:
    """Print bounds of a target that plays one arm, and of the same with uniform draws mixed in."""
    _kept({name: (*world, None) for name, world in SOFT.items()}, trials, seed)


def few(trials: int, seed: int) -> None:
    """The same where the log has few rows of the target's arm, about 4, 10 and 8."""
    laws = {name: LAWS[name] for name in ("Weibull(0.45)", "inverse gamma(1.6)")}
    laws["2^k jackpots"] = RARE["2^k jackpots"]
    _kept(
        {
            f"{name}, {odds:.1%} of {rows:,}": (rows, law, odds)
            for name, law in laws.items()
            for rows, odds in ((400, 0.01), (1000, 0.01), (4000, 0.002))
        },
        trials,
        seed,
    )


def _kept(worlds: dict[str, tuple[int, Law, float | None]], trials: int, seed: int) -> None:
    """Print bounds in worlds of so many rows, rewards and odds of the best arm in the log."""
    print(f"\n## At least, as a part of the value; {trials} logs each\n")
    print("Kept: beside the bound of one arm alone, with 0.1 %, 1 % and 10 % of uniform draws; and")
    print("the share of logs that keep less than nine tenths of it, with 1 %.\n")
    print("| rewards | rows | paid by the arm | one arm | kept | less than 0.9 | holds |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, (rows, law, odds) in worlds.items():
        drawn = [_soft_bounds(law, rows, [seed + s, 101], odds) for s in range(trials)]
        bounds, paid = np.array([part[0] for part in drawn]), np.mean([part[1] for part in drawn])
        means = bounds.mean(axis=0)
        kept = ", ".join(f"{part:.2f}" for part in means[1:] / means[0])
        less = np.mean(bounds[:, 2] < 0.9 * bounds[:, 0])
        held = ", ".join(f"{share:.1%}" for share in np.mean(bounds <= 1.0, axis=0))
        print(
            f"| {name} | {rows:,} | {paid:.0f} | {means[0]:.3f} | {kept} | {less:.1%} | {held} |",
            flush=True,
        )


def _soft_bounds(
    law: Law, rows: int, seed: Any, odds: float | None = None
) -> tuple[list[float], int]:
    """The bound over the value at each share of uniform draws, on one log; and how many rows of
    the target's own arm paid.
    """
    rng = np.random.default_rng(seed)
    logging = 0.6 * rng.dirichlet(np.ones(ARMS)) + 0.4 / ARMS
    means = rng.uniform(0.3, 1.5, ARMS)
    if odds is not None:
        logging[np.argmax(means)] = 0.0
        logging *= (1.0 - odds) / logging.sum()
        logging[np.argmax(means)] = odds
    action = rng.choice(ARMS, size=rows, p=logging)
    log = {
        "action": action,
        "reward": means[action] * law(rng, rows),
        "propensity": logging[action],
    }
    bounds = []
    for uniform in UNIFORM:
        target = np.full(ARMS, uniform / ARMS)
        target[np.argmax(means)] += 1.0 - uniform
        lower = ht.evaluate(log, np.tile(target, (rows, 1))).lower
        assert lower is not None
        bounds.append(lower / float(target @ means))
    return bounds, int(np.sum((action == np.argmax(means)) & (log["reward"] > 0.0)))


def pairs(trials: int, seed: int) -> None:
    """Print how often ``ht.compare`` decides between targets that differ, and that do not."""
    few = max(trials // 4, 1)
    print(f"\n## Comparisons at 95 %: {trials} logs, {few} of 20,000 rows\n")
    print("1.86 against 0.83 at 1,000 rows, and 71 % more at 20,000: decided rightly, wrongly.")
    print("Equal: decided, of logs of 1,000 rows; alike, one logged more often, one of light tail,")
    print("and all of the log of light tail but one. Holds: of the 95 % intervals of these logs.")
    print("Needed: the median of the rows that would decide 1.86 against 0.83, by those of 1,000")
    print("rows that did not, and how often so many rows decide.\n")
    print(
        "| rewards | 1.86 to 0.83 | 71 % more | equal: alike | odds | tails | alone | holds | "
        "needed |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, law in (LAWS | RARE).items():
        far = [_pair(law, (1.86, 0.83), 1000, [seed + s, 102]) for s in range(trials)]
        more = [_pair(law, (1.71, 1.0), 20_000, [seed + s, 103]) for s in range(few)]
        equal = _equals(law, trials, seed)
        everything = [
            (found, truth)
            for group, truth in ((far, 1.03), (more, 0.71), *((group, 0.0) for group in equal))
            for found in group
        ]
        holds = np.mean([_holds(found, truth) for found, truth in everything])
        decided = " | ".join(f"{_share(g, 'a'):.0%}, {_share(g, 'b'):.0%}" for g in (far, more))
        wrong = " | ".join(f"{1.0 - _share(g, None):.1%}" for g in equal)
        print(
            f"| {name} | {decided} | {wrong} | {holds:.1%} | {_needed(law, far, few, seed)} |",
            flush=True,
        )


def jackpots(trials: int, seed: int) -> None:
    """Print how often ``ht.compare`` decides between equals of which one earns half in jackpots."""
    print("\nEqual policies, of which one earns half in jackpots of one size, and the other has a")
    print("light tail; decided, of logs of so many rows, a fifth of them the policy's, and logs")
    print("without a jackpot of it.\n")
    print("| rows | jackpots expected | the log has others | the log has no others | none |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for rows, expected in (
        *((50, 0.5), (100, 0.5), (200, 0.5), (1000, 0.5), (200, 1), (1000, 1)),
        *((1000, 2), (1000, 3), (1000, 4), (1000, 8)),
    ):
        law = spikes(expected / (0.2 * rows), 0.5, lambda rng, n: np.ones(n), exponential)
        pair = functools.partial(_pair, law, (1.0, 1.0), rows)
        groups = [
            [pair([seed + s, at], light=light) for s in range(trials)]
            for at, light in ((106, (1,)), (108, (1, 2, 3, 4)))
        ]
        shares = " | ".join(f"{1.0 - _share(group, None):.1%}" for group in groups)
        none = (1.0 - expected / (0.2 * rows) * 0.2) ** rows
        print(f"| {rows:,} | {expected} | {shares} | {none:.1%} |", flush=True)


def _equals(law: Law, trials: int, seed: int) -> list[list[ht.Comparison]]:
    """Targets of one value: alike, one logged more often, one of light tail, and all but one."""
    pair = functools.partial(_pair, law, (1.0, 1.0), 1000)
    return [
        [pair([seed + s, 104]) for s in range(trials)],
        [pair([seed + s, 105], (2, 3)) for s in range(trials)],
        [pair([seed + s, 106], light=(1,)) for s in range(trials)],
        [pair([seed + s, 108], light=(1, 2, 3, 4)) for s in range(trials)],
    ]


def _pair(
    law: Law,
    means: tuple[float, float],
    rows: int,
    seed: Any,
    arms: tuple[int, int] = (0, 1),
    light: tuple[int, ...] = (),
) -> ht.Comparison:
    """Two targets that play an arm each, compared; the arms ``light`` pay gamma(4)."""
    rng = np.random.default_rng(seed)
    action = rng.choice(len(PLAYED), size=rows, p=PLAYED)
    reward = law(rng, rows)
    steady = np.isin(action, light)
    reward[steady] = rng.gamma(4.0, 0.25, int(steady.sum()))
    for arm, mean in zip(arms, means, strict=True):
        reward[action == arm] *= mean
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
