"""Logged data with heavy tails: errors, coverage and choice, beside what others compute.

    python -m benchmarks.logs --trials 2000 --jobs 16
    python -m benchmarks.logs --part fresh --trials 500 --jobs 16
    python -m benchmarks.logs --part learner --trials 5
    python -m benchmarks.logs --part soft --trials 1000
    python -m benchmarks.logs --part pairs --trials 200
    python -m benchmarks.logs --part values --trials 400

Ten arms logged with probabilities 0.5 to 0.01, 2,000 rows; the target plays one arm 82 % of the
time: one logged in a fifth of the rows ("easy") or in a hundredth ("rare"). Rewards are 0 or 2,
log-normal or Lomax, with means from 0.55 to 1.3. ``fresh`` draws other environments at random. The
estimators of Open Bandit Pipeline (obp) are written here from their formulas; those with a model
have the arms' means of the other half of the rows. ``learner`` is about
``ht.LogPolicy``: see :mod:`benchmarks.log_policy`. ``soft`` and ``pairs`` are about lower bounds of
targets that explore, and about ``ht.compare``: see :mod:`benchmarks.log_bounds`; ``values``,
``sentences`` and ``judges`` are :mod:`benchmarks.log_truth`'s, ``words`` is
:mod:`benchmarks.log_words`'s.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from scipy.integrate import quad

import heavytail as ht
from benchmarks import log_bounds, log_policy, log_truth, log_words
from heavytail.logs import intervals
from heavytail.logs.sketch import Sketch, epochs

LOGGING = np.array([0.5, 0.2, 0.1, 0.05, 0.05, 0.03, 0.03, 0.02, 0.01, 0.01])
MEANS = np.linspace(0.55, 1.3, 10)
TARGETS = {"easy": 1, "rare": 9}
DELTA = 0.05
Z = 1.6448536269514722  # one-sided 95 %
RESAMPLES = 200
FAR = 30.0  # log of where a Lomax tail is a power law to all digits
POLICIES = 20
OBP = (
    "IPW", "IPW, w <= sqrt n", "SNIPW", "sub-Gaussian IPW", "DM", "DR", "SNDR",
    "Switch-DR", "DRos(10)", "DRos(1000)",
)  # fmt: skip
OURS = {
    "heavytail": "snips",
    "IPS, Huber": "ips",
    "LS": "ls",
    "LSE": "lse",
    "SNIPS, Catoni": ht.logs.SNIPS(mean="catoni"),
    "SNIPS, Minsker-Ndaoud": ht.logs.SNIPS(mean="minsker-ndaoud"),
    "SNIPS, median of means": ht.logs.SNIPS(mean="median-of-means"),
}

MOMENTS: dict[str, ht.MomentBound] = {}  # computed once per process


@dataclass(frozen=True)
class Environment:
    """How rewards and actions of a log are drawn; ``shape`` is that of the noise."""

    name: str
    noise: str
    shape: float
    target: Any
    logging: Any = None
    means: Any = None
    rows: int = 2000

    @property
    def heavy(self) -> bool:
        """Tell whether rewards are heavy-tailed."""
        return self.noise in ("log-normal", "Lomax")

    def arms(self) -> tuple[Any, Any]:
        """Probabilities of the log, and mean rewards."""
        logging = LOGGING if self.logging is None else self.logging
        return logging, MEANS if self.means is None else self.means

    def rewards(self, rng: np.random.Generator, mean: Any) -> Any:
        """One reward per entry of ``mean``."""
        a, n = self.shape, len(mean)
        if self.noise == "0/2":
            return 2.0 * (rng.random(n) < mean / 2.0)
        if self.noise == "log-normal":
            return mean * np.exp(a * rng.standard_normal(n) - 0.5 * a * a)
        if self.noise == "Lomax":
            return mean * (a - 1.0) * rng.pareto(a, n)
        if self.noise == "zeros":  # nine in ten, else log-normal
            some = rng.random(n) < 0.1
            return mean * some * 10.0 * np.exp(a * rng.standard_normal(n) - 0.5 * a * a)
        return mean * rng.exponential(size=n)

    def draw(self, seed: int) -> tuple[dict[str, Any], Any, float]:
        """A log, the target's probabilities per row, and its value."""
        rng = np.random.default_rng(seed)
        logging, means = self.arms()
        action = rng.choice(len(logging), size=self.rows, p=logging)
        reward = self.rewards(rng, means[action])
        log = {"action": action, "reward": reward, "propensity": logging[action]}
        return log, np.tile(self.target, (self.rows, 1)), float(self.target @ means)

    def moment(self) -> ht.MomentBound:
        """The true E|X - V|^p of the weighted rewards, p below the tail's index."""
        if self.name in MOMENTS:
            return MOMENTS[self.name]
        p = {"Lomax": {1.5: 1.4, 1.1: 1.05}.get(self.shape, 1.05)}.get(self.noise, 2.0)
        logging, means = self.arms()
        value, total = float(self.target @ means), 0.0
        for share, mean, pi in zip(logging, means, self.target, strict=True):
            total += share * _moment(self.noise, self.shape, mean * pi / share, value, p, mean)
        return MOMENTS.setdefault(self.name, ht.MomentBound(p, total ** (1.0 / p)))


def _moment(noise: str, a: float, size: float, value: float, p: float, mean: float) -> float:
    """E|size Y - value|^p for noise Y of mean 1."""
    if noise == "0/2":
        chance = mean / 2.0
        return chance * abs(size / chance - value) ** p + (1.0 - chance) * value**p
    if noise == "log-normal":
        return size**2 * math.exp(a * a) - 2.0 * size * value + value**2

    def inside(t: float) -> float:  # y = exp(t)
        y = math.exp(t)
        return abs(size * (a - 1.0) * y - value) ** p * a * (1.0 + y) ** (-a - 1.0) * y

    near = sum(quad(inside, t, t + 2.0, limit=200)[0] for t in np.arange(-40.0, FAR, 2.0))
    return near + a * (size * (a - 1.0)) ** p * math.exp((p - a) * FAR) / (a - p)


def main_environments() -> list[Environment]:
    """The eight: four kinds of rewards, an easy and a rare target."""
    kinds = (("0/2", 0.0), ("log-normal", 1.5), ("Lomax", 1.5), ("Lomax", 1.1))
    found = []
    for noise, shape in kinds:
        for name, arm in TARGETS.items():
            target = np.full(10, 0.02)
            target[arm] += 0.8
            title = f"{noise}({shape:g}), {name}" if shape else f"{noise}, {name}"
            found.append(Environment(title, noise, shape, target))
    return found


def fresh_environments(count: int) -> list[Environment]:
    """Others, drawn: 2 to 20 arms, 300 to 6,000 rows, any logging, any target."""
    kinds = (
        ("0/2", 0.0), ("exponential", 0.0), ("log-normal", 1.0), ("log-normal", 2.0),
        ("Lomax", 1.3), ("Lomax", 1.8), ("Lomax", 2.5), ("zeros", 1.0),
    )  # fmt: skip
    found = []
    for i in range(count):
        rng = np.random.default_rng(77_000 + i)
        noise, shape = kinds[i % len(kinds)]
        k = int(rng.integers(2, 21))
        rows = int(np.exp(rng.uniform(np.log(300), np.log(6000))))
        logging = 0.95 * rng.dirichlet(np.full(k, 0.7)) + 0.05 / k
        target = rng.dirichlet(np.full(k, 0.3))
        name = f"{noise}({shape:g}) #{i}"
        found.append(
            Environment(name, noise, shape, target, logging, rng.uniform(0.2, 1.8, k), rows)
        )
    return found


def obp(log: dict[str, Any], pi: Any) -> dict[str, float]:
    """obp's estimators."""
    action, r = log["action"], log["reward"]
    n, at = len(r), np.arange(len(r))
    w = pi[at, action] / log["propensity"]
    half, k = at % 2, pi.shape[1]
    q = np.empty((2, k))
    for h in (0, 1):
        other = half != h
        count = np.bincount(action[other], minlength=k)
        total = np.bincount(action[other], r[other], minlength=k)
        q[h] = np.where(count > 0, total / np.maximum(count, 1), r[other].mean())
    direct, surprise = np.sum(pi * q[half], axis=1), r - q[half, action]
    lam = 1.0 / math.sqrt(n)
    found = [
        np.mean(w * r), np.mean(np.minimum(w, math.sqrt(n)) * r), np.sum(w * r) / np.sum(w),
        np.mean(w / (1.0 - lam + lam * w) * r), np.mean(direct), np.mean(direct + w * surprise),
        np.mean(direct) + np.sum(w * surprise) / np.sum(w),
        np.mean(direct + np.where(w <= math.sqrt(n), w, 0.0) * surprise),
        *(np.mean(direct + c * w / (w * w + c) * surprise) for c in (10.0, 1000.0)),
    ]  # fmt: skip
    return dict(zip(OBP, map(float, found), strict=True))


def errors(environment: Environment, seed: int) -> dict[str, float]:
    """Each estimate less the value."""
    log, pi, value = environment.draw(seed)
    found = obp(log, pi)
    for name, estimator in OURS.items():
        found[name] = ht.evaluate(log, pi, estimator=estimator, bound=None).value
    return {name: estimate - value for name, estimate in found.items()}


def most_wealth(course: intervals.Sequence, x: Any, mean: float) -> float:
    """The log of the largest wealth there ever was, had one bet against the true mean."""
    epoch = epochs(0, len(x))
    total = np.zeros(len(x))
    for bets, starts, shares in zip(
        course.bets[:, epoch], course.starts, course.shares, strict=True
    ):
        factor = np.log1p(bets * x) - np.log1p(bets * mean)
        for start, share in zip(starts, shares, strict=True):
            total += share * np.exp(np.cumsum(np.where(epoch < start, 0.0, factor)))
    return float(np.log(total.max()))


def covered(environment: Environment, seed: int) -> dict[str, float]:
    """Tell whether each bound holds, and the lower ones themselves."""
    log, pi, value = environment.draw(seed)
    n, r = len(log["reward"]), log["reward"]
    x = pi[np.arange(n), log["action"]] / log["propensity"] * r
    epoch = epochs(0, n)
    found: dict[str, float] = {}
    for name, horizon in (("betting", n), ("betting, rows not known", None)):
        lower = intervals.betting_lower(Sketch(x, epoch), DELTA, horizon)
        found[f"{name}: at least"] = lower.best
        found[f"{name}: holds"] = lower.best <= value
        found[f"{name}: holds at every time"] = most_wealth(lower, x, value) <= math.log(
            1.0 / DELTA
        )
    low, high = intervals.catoni(Sketch(x, epoch), environment.moment(), DELTA, n)
    found |= {"Catoni: holds": low <= value <= high, "Catoni: width": high - low}
    guess = ht.evaluate(log, pi, bound="huber")
    assert guess.lower is not None
    assert guess.upper is not None
    found["Huber, approximate: holds"] = guess.lower <= value <= guess.upper
    found["Huber, approximate: width"] = guess.upper - guess.lower
    error = x.std(ddof=1) / math.sqrt(n)
    found["normal: lower holds"] = x.mean() - Z * error <= value
    found["normal: upper holds"] = x.mean() + Z * error >= value
    rng = np.random.default_rng([seed, 1])
    means = rng.poisson(1.0, (RESAMPLES, n)) @ x / n
    found["bootstrap: lower holds"] = float(np.quantile(means, DELTA)) <= value
    found["bootstrap: upper holds"] = float(np.quantile(means, 1.0 - DELTA)) >= value
    found["normal: at least"] = x.mean() - Z * error
    return found


def chosen(environment: Environment, seed: int) -> dict[str, float]:
    """The value of the policy that each rule chooses among twenty; arms' means are shuffled."""
    rng = np.random.default_rng([seed, 2])
    means = rng.permutation(MEANS)
    action = rng.choice(10, size=environment.rows, p=LOGGING)
    reward = environment.rewards(rng, means[action])
    log = {"action": action, "reward": reward, "propensity": LOGGING[action]}
    shares = np.exp(2.5 * rng.standard_normal((POLICIES, 10)))
    shares /= shares.sum(axis=1, keepdims=True)
    w = shares[:, action] / LOGGING[action]
    values = shares @ means
    policies = [np.tile(one, (environment.rows, 1)) for one in shares]
    found_by_bound = ht.select(log, policies)
    by = {
        "bound": found_by_bound.chosen,
        "value": int(np.argmax(found_by_bound.values)),
        "ls": ht.select(log, policies, by="ls").chosen,
        "lower": int(np.argmax(found_by_bound.lower)),
    }
    by |= {"IPS": int(np.argmax(w @ reward)), "SNIPS": int(np.argmax(w @ reward / w.sum(axis=1)))}
    found = {rule: float(values[place]) for rule, place in by.items()}
    return {**found, "the best": float(values.max()), "at random": float(values.mean())}


def compared(environment: Environment, seed: int) -> dict[str, float]:
    """Tell whether the interval of a comparison with the log's own policy holds."""
    log, pi, value = environment.draw(seed)
    logging, means = environment.arms()
    truth = value - float(logging @ means)
    own = np.tile(logging, (len(pi), 1))
    bound = ht.logs.Betting(0.0, 2.0) if environment.noise == "0/2" else "hindsight"
    found = ht.compare(log, pi, own, bound=bound)
    assert found.lower is not None
    assert found.upper is not None
    holds = found.lower <= truth <= found.upper
    return {"holds": holds, "width": found.upper - found.lower, "bias": found.value - truth}


def table(
    title: str,
    environments: Iterable[Environment],
    call: Callable[[Environment, int], dict[str, float]],
    args: argparse.Namespace,
    squares: bool = False,
) -> dict[str, dict[str, float]]:
    """Means over trials (or roots of mean squares), printed one environment at a time."""
    print(f"\n## {title}: {args.trials} logs each", flush=True)
    found = {}
    with joblib.Parallel(n_jobs=args.jobs) as parallel:
        for environment in environments:
            rows = parallel(
                joblib.delayed(call)(environment, args.seed + s) for s in range(args.trials)
            )
            names = list(dict.fromkeys(name for row in rows for name in row))
            columns = {k: np.array([row[k] for row in rows if k in row], float) for k in names}
            power = 2.0 if squares else 1.0
            found[environment.name] = {
                k: float(np.mean(np.abs(v) ** 2) ** 0.5 if power == 2.0 else np.mean(v))
                for k, v in columns.items()
            }
            print(f"\n{environment.name}")
            for name, number in found[environment.name].items():
                print(f"  {name:<36} {number:8.4f}", flush=True)
    return found


def ratios(found: dict[str, dict[str, float]], environments: list[Environment]) -> None:
    """Our default over the best of obp's, and whether the mark is met."""
    print("\n| environment | best of obp | its error | heavytail | ratio | mark | met |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for environment in environments:
        row = found[environment.name]
        best = min(OBP, key=lambda name, row=row: row[name])  # type: ignore[misc]
        ratio, mark = row["heavytail"] / row[best], 1.05 if environment.heavy else 1.25
        print(
            f"| {environment.name} | {best} | {row[best]:.3f} | {row['heavytail']:.3f} | "
            f"{ratio:.2f} | {mark} | {'yes' if ratio <= mark else 'NO'} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    fresh_tables = {
        **{name: getattr(log_bounds, name) for name in ("soft", "few", "pairs", "jackpots")},
        **{name: getattr(log_truth, name) for name in ("values", "sentences", "judges")},
        "words": log_words.words,
    }
    parts = ("errors", "coverage", "choice", "comparison", "fresh", "learner", *fresh_tables)
    parser.add_argument("--part", choices=parts, action="append", help="the first four if none")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--fresh", type=int, default=16, help="environments of the part fresh")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    wanted = args.part or parts[:4]
    eight = main_environments()
    if "errors" in wanted:
        ratios(table("Root mean square error", eight, errors, args, squares=True), eight)
    if "coverage" in wanted:
        table("Bounds at 95 %", eight, covered, args)
    if "choice" in wanted:
        kinds = [replace(one, name=one.name.removesuffix(", easy")) for one in eight[::2]]
        table("Mean value of the chosen of 20", kinds, chosen, args)
    if "comparison" in wanted:
        table("Comparison with the log's own policy", eight, compared, args)
    if "fresh" in wanted:
        others = fresh_environments(args.fresh)
        ratios(table("Fresh environments", others, errors, args, squares=True), others)
    if "learner" in wanted:
        log_policy.learner(args.trials, args.seed)
    for name in fresh_tables.keys() & wanted:
        fresh_tables[name](args.trials, args.seed)


if __name__ == "__main__":
    main()
