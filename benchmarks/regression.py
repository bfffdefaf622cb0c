"""The one-pass regression against full-batch and streaming peers: error, coverage, outliers,
zeros, speed.

    python -m benchmarks.regression            # about five minutes
    python -m benchmarks.regression --quick    # fewer repetitions

Designs, coefficients and seeds are none the defaults were chosen on: correlated, skewed features
of different units. river runs in an environment of its own, in the same run:

    python -m venv .bench && .bench/bin/pip install river
"""

from __future__ import annotations

import argparse
import math
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import heavytail as ht

WORLDS = ("t(1.7)", "t(2.1)", "Pareto(1.5)", "log-normal", "5 % gross", "normal")
SKEWED = ("Pareto(1.5)", "log-normal")
CENTS = "to cents: 0 in 90 % of rows, else 100 Weibull(0.7)"
INTERCEPT = -3.0
HERE = Path(__file__).parent


def world(name: str, n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, responses and slopes."""
    rng = np.random.default_rng([20_250, d, seed])
    mix = np.eye(d) + 0.3 * np.tri(d, k=-1) / math.sqrt(d)
    X = (rng.exponential(size=(n, d)) - 1.0) @ mix * np.geomspace(0.5, 2.0, d)
    theta = rng.uniform(-2.0, 2.0, d)
    return X, X @ theta + INTERCEPT + 2.0 * noise(name, n, rng), theta


def noise(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if name == "5 % gross":
        gross = rng.random(n) < 0.05
        return np.where(gross, rng.normal(0.0, 50.0, n), rng.standard_normal(n))
    draws = {
        "t(1.7)": lambda: rng.standard_t(1.7, n),
        "t(2.1)": lambda: rng.standard_t(2.1, n),
        "Pareto(1.5)": lambda: rng.pareto(1.5, n) - 2.0,
        "log-normal": lambda: np.exp(rng.standard_normal(n)) - math.exp(0.5),
        "normal": lambda: rng.standard_normal(n),
    }
    return draws[name]()


def quality(seeds: dict[int, int], n: int = 20_000) -> None:
    """Root mean square errors of the slopes, as ratios, and mean errors of the intercept."""
    from sklearn.linear_model import HuberRegressor, LinearRegression

    print(f"\nError after {n:,} rows; slopes as ratios of root mean squares over seeds.")
    print("intercept: mean |error| of mean, of typical, of HuberRegressor, of least squares\n")
    print("| d | noise | typical / HuberRegressor | mean / least squares | typical / | intercept |")
    print("| --- | --- | --- | --- | --- | --- |")
    for d, count in seeds.items():
        for name in WORLDS:
            slopes: dict[str, list[float]] = {}
            levels: dict[str, list[float]] = {}
            for seed in range(count):
                X, y, theta = world(name, n, d, seed)
                width = X.std(axis=0)
                models = {
                    "mean": ht.OnePassHuberRegressor(),
                    "typical": ht.OnePassHuberRegressor(target="typical"),
                    "huber": HuberRegressor(alpha=1e-8, max_iter=2000),
                    "least": LinearRegression(),
                }
                for key, model in models.items():
                    model.fit(X, y)
                    error = np.linalg.norm((model.coef_ - theta) * width)
                    slopes.setdefault(key, []).append(float(error))
                    levels.setdefault(key, []).append(abs(float(model.intercept_) - INTERCEPT))
            rms = {key: math.sqrt(np.mean(np.square(v))) for key, v in slopes.items()}
            means = " / ".join(f"{np.mean(levels[k]):.3f}" for k in models)
            print(
                f"| {d} | {name} | {rms['typical'] / rms['huber']:.2f} | "
                f"{rms['mean'] / rms['least']:.2f} | {rms['typical'] / rms['least']:.2f} | "
                f"{means} |",
                flush=True,
            )


def shape(seeds: int, n: int = 20_000, d: int = 5) -> None:
    """Skewed noise of a size that depends on x: root mean square errors of the slopes."""
    from sklearn.linear_model import LinearRegression

    print(f"\nNoise of size 1 + 0.8 x'v: error of the slopes after {n:,} rows, {seeds} seeds\n")
    print("| noise | mean | typical | least squares | mean's intervals hold |")
    print("| --- | --- | --- | --- | --- |")
    for name in ("t(2.1)", "log-normal", "Pareto(1.5)"):
        errors: dict[str, list[float]] = {}
        held = []
        for seed in range(seeds):
            rng = np.random.default_rng([77, seed])
            X = rng.uniform(-1.0, 1.0, (n, d))
            theta, v = rng.normal(size=d), rng.normal(size=d)
            theta *= 0.67 / np.linalg.norm(theta)
            y = X @ theta + (1.0 + 0.8 * X @ (v / np.abs(v).sum())) * noise(name, n, rng)
            models = {
                "mean": ht.OnePassHuberRegressor(),
                "typical": ht.OnePassHuberRegressor(target="typical"),
                "least": LinearRegression(),
            }
            for key, model in models.items():
                error = np.sum((model.fit(X, y).coef_ - theta) ** 2)
                errors.setdefault(key, []).append(float(error))
            _, low, high = models["mean"].predict(X[:20], return_interval=True)
            truth = X[:20] @ theta
            held.append(np.mean((low <= truth) & (truth <= high)))
        cells = " | ".join(f"{math.sqrt(np.mean(v)):.3f}" for v in errors.values())
        print(f"| {name} | {cells} | {np.mean(held):.0%} |", flush=True)


def coverage(trials: int, n: int = 1000) -> None:
    """How often the 95 % interval holds the mean response."""
    print(f"\nCoverage of the 95 % interval after {n:,} rows, {trials} trials, 20 points each\n")
    print("| noise | d = 2 | d = 10 | d = 50 |")
    print("| --- | --- | --- | --- |")
    for name in sorted(WORLDS, key=lambda w: w in SKEWED):
        row = []
        for d in (2, 10, 50):
            held = []
            for seed in range(trials):
                X, y, theta = world(name, n + 20, d, 1000 + seed)
                model = ht.OnePassHuberRegressor().fit(X[:n], y[:n])
                _, low, high = model.predict(X[n:], return_interval=True)
                truth = X[n:] @ theta + INTERCEPT
                held.append(np.mean((low <= truth) & (truth <= high)))
            row.append(f"{np.mean(held):.1%}")
        mark = " (skewed)" if name in SKEWED else ""
        print(f"| {name}{mark} | {' | '.join(row)} |", flush=True)


def adaptive(trials: int, n: int = 1000, d: int = 3) -> None:
    """Print how often 95 % intervals of AdaptiveHuberRegressor hold, and one-pass ones."""
    laws = {
        "Pareto(1.6)": lambda rng: rng.pareto(1.6, n) - 1.0 / 0.6,
        "Burr(1.6)": lambda rng: (rng.random(n) ** -1.25 - 1.0) ** 0.5 - 2.27722,
        "5 % of rows 50 higher": lambda rng: rng.standard_normal(n) + 50.0 * (rng.random(n) < 0.05),
        "Fréchet(1.8)": lambda rng: (
            rng.exponential(size=n) ** (-1.0 / 1.8) - math.gamma(1 - 1 / 1.8)
        ),
        "t(1.7)": lambda rng: rng.standard_t(1.7, n),
        "gamma(0.5)": lambda rng: rng.gamma(0.5, 1.0, n) - 0.5,
        "normal": lambda rng: rng.standard_normal(n),
        "0 in 60 % of rows, else t(3)": lambda rng: (rng.random(n) > 0.6) * rng.standard_t(3.0, n),
        "0 in 80 % of rows, else gamma(2)": lambda rng: (
            (rng.random(n) > 0.8) * rng.gamma(2.0, 1.0, n)
        ),
        "0 in 97 % of rows, else 2 Weibull(0.7)": lambda rng: (
            (rng.random(n) > 0.97) * 2.0 * rng.weibull(0.7, n)
        ),
        CENTS: lambda rng: (rng.random(n) > 0.9) * 100.0 * rng.weibull(0.7, n),
        "normal, exp(x₁) times as large": lambda rng: rng.standard_normal(n),
        "normal, 0.3 + x₁² times as large": lambda rng: rng.standard_normal(n),
        "normal, 0.2 + abs(x₁) times as large": lambda rng: rng.standard_normal(n),
        "log-normal, exp(x₁) times as large": lambda rng: (
            np.exp(rng.standard_normal(n)) - math.exp(0.5)
        ),
    }
    sizes = {"exp(x₁)": np.exp, "x₁²": lambda x: 0.3 + x * x, "abs(x₁)": lambda x: 0.2 + np.abs(x)}
    above = {  # what the mean response has beyond the line; 0 unless it is here
        "5 % of rows 50 higher": 2.5,
        "0 in 80 % of rows, else gamma(2)": 0.4,
        "0 in 97 % of rows, else 2 Weibull(0.7)": 0.06 * math.gamma(1.0 + 1.0 / 0.7),
        CENTS: 10.0 * math.gamma(1.0 + 1.0 / 0.7),
    }
    print(f"\nCoverage of 95 % intervals after {n:,} rows, d = {d}, {trials} trials of 20 points")
    heads = "mean | width | slopes | of x₁"
    print(f"\n| noise | adaptive: {heads} | one pass: {heads} |")
    print("| --- " * 9 + "|")
    for name, draw in laws.items():
        cells = []
        size_of = next((size for key, size in sizes.items() if key in name), np.ones_like)
        for kind in (ht.AdaptiveHuberRegressor, ht.OnePassHuberRegressor):
            held, width, slopes = [], [], []
            for seed in range(trials):
                rng = np.random.default_rng([90_210, seed])
                X, theta = rng.normal(size=(n, d)), rng.normal(size=d)
                points = rng.normal(size=(20, d))
                y = X @ theta + size_of(X[:, 0]) * draw(rng)
                model = kind().fit(X, np.round(y, 2) if name == CENTS else y)
                truth = points @ theta + above.get(name, 0.0)
                _, low, high = model.predict(points, return_interval=True)
                held.append(np.mean((low <= truth) & (truth <= high)))
                width.append(np.mean(high - low))
                low, high = model.coef_interval()
                slopes.append((low <= theta) & (theta <= high))
            cells += [f"{np.mean(held):.0%}", f"{np.mean(width):.2f}", f"{np.mean(slopes):.0%}"]
            cells.append(f"{np.mean(slopes, axis=0)[0]:.0%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def off_line(trials: int, on: float = 0.8, d: int = 2) -> None:
    """Print how often the interval of the mean holds where a share of the rows is on a line."""
    laws = {
        "Pareto(1.6)": (lambda rng, n: rng.pareto(1.6, n), 1.0 / 0.6),
        "chi-square(1)": (lambda rng, n: rng.chisquare(1.0, n), 1.0),
        "gamma(2)": (lambda rng, n: rng.gamma(2.0, 1.0, n), 2.0),
    }
    sizes = (100, 300, 1000, 3000)
    print(
        "\n| noise of the rows off the line |" + "".join(f" {n - on * n:,.0f} off |" for n in sizes)
    )
    print("| --- |" + " --- |" * len(sizes))
    for name, (draw, mean) in laws.items():
        cells = []
        for n in sizes:
            held = []
            for seed in range(trials):
                rng = np.random.default_rng([71_133, n, seed])
                X, theta = rng.normal(size=(n, d)), rng.normal(size=d)
                y = X @ theta + (rng.random(n) >= on) * draw(rng, n)
                model = ht.AdaptiveHuberRegressor().fit(X, y)
                truth = X[:20] @ theta + (1.0 - on) * mean
                _, low, high = model.predict(X[:20], return_interval=True)
                held.append(np.mean((low <= truth) & (truth <= high)))
            cells.append(f"{np.mean(held):.0%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def skewed(trials: int, sizes: tuple[int, ...] = (1000, 4000, 20_000)) -> None:
    """How often intervals of the first slope hold where size or side of the noise depends on it,
    and how wide they are where the noise is symmetric.
    """
    laws = {
        "log-normal(1.2)": lambda rng, n: np.exp(1.2 * rng.standard_normal(n)) - math.exp(0.72),
        "gamma(0.6)": lambda rng, n: rng.gamma(0.6, 1.0, n) - 0.6,
        "Pareto(2.5)": lambda rng, n: rng.pareto(2.5, n) - 1.0 / 1.5,
        "t(1.8)": lambda rng, n: rng.standard_t(1.8, n),
        "Laplace": lambda rng, n: rng.laplace(size=n),
    }
    print(f"\nThe first slope's 95 % interval: held, and mean width; {trials} trials\n")
    print("| noise | depends on x | features |" + "".join(f" n = {n:,} |" for n in sizes))
    print("| --- | --- | --- |" + " --- |" * len(sizes))
    for name, draw in laws.items():
        symmetric = name in ("t(1.8)", "Laplace")
        kinds = ("no",) if symmetric else ("size, 0.7", "size, 0.3", "side, 0.8", "side, 0.4")
        for kind, d in ((kind, d) for kind in kinds for d in (2, 12)):
            cells = []
            for n in sizes:
                held, width = [], []
                for seed in range(trials if n < 10_000 else trials // 2):
                    rng = np.random.default_rng([60_601, d, n, seed])
                    X = rng.uniform(-1.0, 1.0, (n, d))
                    errors, strength = draw(rng, n), float(kind.rpartition(" ")[2].strip("no") or 0)
                    if kind.startswith("size"):
                        errors *= 1.0 + strength * X[:, 0]
                    elif kind.startswith("side"):
                        right = rng.random(n) < 0.5 + 0.5 * strength * X[:, 0]
                        errors *= np.where(right, 1.0, -1.0)
                    low, high = ht.OnePassHuberRegressor().fit(X, X[:, 0] + errors).coef_interval()
                    held.append(low[0] <= 1.0 <= high[0])
                    width.append(high[0] - low[0])
                cells.append(f"{np.mean(held):.0%}, {np.mean(width):.3f}")
            print(f"| {name} | {kind} | {d} | {' | '.join(cells)} |", flush=True)


def moving(trials: int, forget: float = 0.998) -> None:
    """How often intervals of slopes hold a theta that turns, by the rows of a turn, walks, by the
    size of its steps, or returns to 0, by the rows in which it forgets where it was.
    """
    from itertools import product

    memory = round(1.0 / (1.0 - forget))
    n = 12 * memory
    print(f"\nCoverage of the slopes' 95 % intervals, forget = {forget}, {trials} trials\n")
    print("| noise | theta | one pass | typical | ridge |")
    print("| --- | --- | --- | --- | --- |")
    models = (
        lambda: ht.OnePassHuberRegressor(forget=forget),
        lambda: ht.OnePassHuberRegressor(forget=forget, target="typical"),
        lambda: ht.OnlineRidge(forget=forget),
    )
    ways = [("turns", turn) for turn in (math.inf, 20_000, 5000, 1600, 800, 200, 40)]
    ways += [("walks", step) for step in (0.002, 0.006, 0.02)]
    ways += [("returns", rows) for rows in (2000, 500, 150, 50)]
    for name, (kind, way) in product(("normal", "log-normal", "Pareto(1.5)"), ways):
        held: list[list[float]] = [[] for _ in models]
        for seed, (i, make) in product(range(trials), enumerate(models)):
            rng = np.random.default_rng([27_182, seed])
            X = rng.normal(size=(n, 2))
            angle = 2.0 * np.pi * (rng.random() + np.arange(n) / way)
            theta = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            if kind == "walks":
                theta = 1.0 + np.cumsum(way * rng.normal(size=(n, 2)), axis=0)
            elif kind == "returns":
                theta = rng.normal(size=(n, 2))
                theta[1:] *= math.sqrt(1.0 - (1.0 - 1.0 / way) ** 2)  # a variance of 1 at all times
                for t in range(1, n):
                    theta[t] += (1.0 - 1.0 / way) * theta[t - 1]
            y = np.sum(X * theta, axis=1) + 0.7 * noise(name, n, rng)
            model = make()
            for first in range(0, n, memory):
                rows = slice(first, first + memory)
                model.partial_fit(X[rows], y[rows])
                if first >= 3 * memory:
                    low, high = model.coef_interval()
                    now = theta[first + memory - 1]
                    held[i].append(float(np.mean((low <= now) & (now <= high))))
        cells = " | ".join(f"{np.mean(part):.0%}" for part in held)
        moves = f"walks by {way} a row" if kind == "walks" else f"{kind} in {way:,} rows"
        print(f"| {name} | {'stays' if math.isinf(way) else moves} | {cells} |", flush=True)


def together(trials: int, forget: float = 0.99) -> None:
    """How often intervals of predictions hold where all slopes move as one, and those of slopes
    within the first memories.
    """
    memory = round(1.0 / (1.0 - forget))

    def drawn(seed: int, n: int, d: int, alike: bool) -> tuple[np.ndarray, ...]:
        """Rows, responses and slopes that return to their mean in a memory."""
        rng = np.random.default_rng([31_416, seed])
        theta = rng.normal(size=(n, 1 if alike else d))
        theta[1:] *= math.sqrt(1.0 - (1.0 - 1.0 / memory) ** 2)
        for t in range(1, n):
            theta[t] += (1.0 - 1.0 / memory) * theta[t - 1]
        X = rng.normal(size=(n, d))
        y = np.sum(X * theta, axis=1) / math.sqrt(d) + 0.5 * rng.standard_normal(n)
        return X, y, theta * np.ones(d) / math.sqrt(d)

    print(f"\nAll slopes move as one, forget = {forget}, {trials} trials: held at x\n")
    print("| features | (1, 1, ...) | (1, -1, ...) | slopes |")
    print("| --- | --- | --- | --- |")
    for d in (2, 6, 20):
        held = np.zeros((trials, 3))
        for seed in range(trials):
            X, y, theta = drawn(seed, 12 * memory, d, True)
            model = ht.OnePassHuberRegressor(forget=forget).fit(X, y)
            points = np.stack([np.ones(d), np.where(np.arange(d) % 2, -1.0, 1.0)])
            _, low, high = model.predict(points, return_interval=True)
            held[seed, :2] = (low <= points @ theta[-1]) & (points @ theta[-1] <= high)
            low, high = model.coef_interval()
            held[seed, 2] = np.mean((low <= theta[-1]) & (theta[-1] <= high))
        print(f"| {d} | {' | '.join(f'{share:.0%}' for share in held.mean(axis=0))} |", flush=True)
    print("\nSlopes that move on their own, 3 features, so many memories after the start\n")
    ages = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
    print("| memories | " + " | ".join(f"{age:g}" for age in ages) + " |")
    print("| --- |" + " --- |" * len(ages))
    shares = []
    for age in ages:
        covered = []
        for seed in range(3 * trials):
            X, y, theta = drawn(seed, round(age * memory), 3, False)
            low, high = ht.OnePassHuberRegressor(forget=forget).fit(X, y).coef_interval()
            covered.append(np.mean((low <= theta[-1]) & (theta[-1] <= high)))
        shares.append(f"{np.mean(covered):.0%}")
    print(f"| held | {' | '.join(shares)} |", flush=True)


def outlier(n: int = 10_000, d: int = 10) -> None:
    """How far one row of 1e12 moves the predictions."""
    print(f"\nLargest change of a prediction by one row of 1e12 among {n:,}, in % of the spread\n")
    print("| noise | target | first | middle | last |")
    print("| --- | --- | --- | --- | --- |")
    for name in WORLDS:
        X, y, _ = world(name, n, d, 77)
        for target in ("mean", "typical"):
            clean = ht.OnePassHuberRegressor(target=target).fit(X, y).predict(X)
            moves = []
            for at in (0, n // 2, n - 1):
                dirty = y.copy()
                dirty[at] = 1e12
                moved = ht.OnePassHuberRegressor(target=target).fit(X, dirty).predict(X)
                moves.append(f"{100.0 * np.max(np.abs(moved - clean)) / np.std(clean):.3f}")
            print(f"| {name} | {target} | {' | '.join(moves)} |")


def zeros(seeds: int = 6, n: int = 20_000) -> None:
    """Responses that are mostly exactly 0, and otherwise a positive amount of mean 2 + x'theta."""
    from sklearn.linear_model import LinearRegression

    print(f"\nMostly zeros: root mean square error of the mean response after {n:,} rows, {seeds}")
    print("seeds (median), in units of the mean response\n")
    print("| zeros | amounts | ours | least squares | scale found |")
    print("| --- | --- | --- | --- | --- |")
    for share in (0.6, 0.9):
        for name in ("exponential", "log-normal", "Pareto(1.5)"):
            ours, least, scale = [], [], []
            for seed in range(seeds):
                rng = np.random.default_rng([31, seed])
                X = rng.uniform(size=(n, 4))
                mean = 2.0 + X @ [1.0, 2.0, 3.0, 0.5]
                amount = {
                    "exponential": lambda r: r.exponential(size=n),
                    "log-normal": lambda r: np.exp(r.standard_normal(n) - 0.5),
                    "Pareto(1.5)": lambda r: 0.5 * r.pareto(1.5, n),
                }[name](rng)
                y = np.where(rng.random(n) < share, 0.0, mean * amount)
                truth = (1.0 - share) * mean
                model = ht.OnePassHuberRegressor().fit(X, y)
                plain = LinearRegression().fit(X, y)
                for errors, fitted in ((ours, model), (least, plain)):
                    error = np.sqrt(np.mean((fitted.predict(X) - truth) ** 2)) / truth.mean()
                    errors.append(float(error))
                scale.append(model.scale_)
            print(
                f"| {share:.0%} | {name} | {np.median(ours):.2f} | {np.median(least):.2f} | "
                f"{np.median(scale):.1f} |",
                flush=True,
            )


def speed(d: int = 10, rows: int = 20_000) -> None:
    """Processor time a row, in one run; ours before and after, and the slower one counts."""
    from sklearn.linear_model import SGDRegressor

    X, y, _ = world("t(2.1)", rows, d, 5)

    def ours(chunk: int) -> float:
        model = ht.OnePassHuberRegressor().partial_fit(X[:1000], y[:1000])
        best = math.inf
        for _ in range(3):
            parts = [(X[i : i + chunk], y[i : i + chunk]) for i in range(0, rows, chunk)]
            start = time.process_time()
            for features, responses in parts:
                model.partial_fit(features, responses)
            best = min(best, (time.process_time() - start) / rows * 1e6)
        return best

    first = ours(1), ours(1000)
    sgd = SGDRegressor(loss="huber")
    start = time.process_time()
    for i in range(2000):
        sgd.partial_fit(X[i : i + 1], y[i : i + 1])
    sgd_row = (time.process_time() - start) / 2000 * 1e6
    river = river_row(X, y)
    second = ours(1), ours(1000)
    row, chunked = max(first[0], second[0]), max(first[1], second[1])
    print(f"\nMicroseconds of processor time a row, d = {d}\n")
    print("| | us a row | ours, row by row, is faster by | ours, chunks of 1,000, by |")
    print("| --- | --- | --- | --- |")
    print(f"| ours, row by row | {row:.2f} | | |")
    print(f"| ours, chunks of 1,000 | {chunked:.3f} | | |")
    print(f"| SGDRegressor(huber).partial_fit | {sgd_row:.1f} | {sgd_row / row:.1f} | |")
    if river is None:
        print("| river | not installed in .bench | | |")
    else:
        print(
            f"| river LinearRegression(Huber) | {river:.2f} | {river / row:.1f} | "
            f"{river / chunked:.0f} |"
        )


def river_row(X: np.ndarray, y: np.ndarray) -> float | None:
    """river's microseconds a row, the best of three; None where .bench does not have it."""
    python = HERE.parent / ".bench" / "bin" / "python"
    if not python.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, X=X, y=y)
        command = [str(python), str(HERE / "peer_river.py"), str(path)]
        runs = [subprocess.run(command, capture_output=True, text=True) for _ in range(3)]
    times = [float(run.stdout) for run in runs if run.returncode == 0]
    return min(times) if times else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=tuple(PARTS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, part in PARTS.items():
        if args.only in (None, name):
            part(args.quick)


PARTS = {
    "speed": lambda quick: speed(),
    "outlier": lambda quick: outlier(),
    "zeros": lambda quick: zeros(),
    "shape": lambda quick: shape(20 if quick else 40),
    "coverage": lambda quick: coverage(60 if quick else 200),
    "adaptive": lambda quick: (adaptive(60 if quick else 200), off_line(60 if quick else 200)),
    "skewed": lambda quick: skewed(60 if quick else 200),
    "moving": lambda quick: [moving(10 if quick else 40), together(80 if quick else 200)],
    "quality": lambda quick: quality({2: 10, 10: 5, 50: 2} if quick else {2: 40, 10: 12, 50: 4}),
}


if __name__ == "__main__":
    main()
