"""A band for the mean response at one x while rows come: the proved one of
``OnePassHuberRegressor(interval="sharp")``, least squares' and the bootstrap's, all at 95 %.

    python -m benchmarks.regression_band docs/assets/regression_band.png

Draws the first run and the share of runs in which a band has missed the truth so far, and prints
that share, at any of the times looked at and at the last row. One feature, uniform on [-1, 1], and
an intercept. The bootstrap gives every row a Poisson(1) weight in each replicate and takes the 2.5
and 97.5 % quantiles of weighted least squares, so that all of its times cost one pass.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy import stats

import heavytail as ht
from heavytail._typing import FloatArray

THETA: Final = np.array([2.0, 1.0])  # slope and intercept, whose length is 2.24 ...
BOUND: Final = 3.0  # ... and at most this, as the proved band is told
POINT: Final = np.array([0.5, 1.0])
TRUTH: Final = float(POINT @ THETA)
DRAWN: Final = "Pareto(1.6)"
LEVEL: Final = 0.95
ROWS: Final = 20_000
TIMES: Final = np.unique(np.geomspace(20, ROWS, 60).astype(int))
REPLICATES: Final = 200
SEED: Final = 61_000

Draw = Callable[[np.random.Generator, int], FloatArray]
LAWS: dict[str, tuple[float, ht.noise.Noise, Draw]] = {  # the moment told, and how it is drawn
    "Pareto(1.6)": (1.5, ht.noise.Pareto(1.6), lambda rng, n: rng.pareto(1.6, n) - 1.0 / 0.6),
    "t(1.6)": (1.5, ht.noise.StudentT(1.6), lambda rng, n: rng.standard_t(1.6, n)),
    "normal": (2.0, ht.noise.Gaussian(1.0), lambda rng, n: rng.normal(size=n)),
}
BANDS: Final = ("sharp", "least squares", "bootstrap")
POISSON: Final = stats.poisson.ppf((np.arange(2**16) + 0.5) / 2**16, 1.0).astype(np.float32)


def sharp_band(X: FloatArray, y: FloatArray, tail: ht.MomentBound) -> FloatArray:
    """Ends of the proved band at TIMES, (2, times)."""
    model = ht.OnePassHuberRegressor(interval="sharp", tail=tail, theta_bound=BOUND, level=LEVEL)
    ends = []
    for first, last in zip([0, *TIMES[:-1]], TIMES, strict=True):
        model.partial_fit(X[first:last, :1], y[first:last])
        _, low, high = model.predict(POINT[None, :1], return_interval=True)
        ends.append((low[0], high[0]))
    return np.array(ends).T


def sums(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, ...]:
    """Weighted sums of x x', x y and y² at TIMES; ``weights`` is (rows, replicates)."""
    products = np.column_stack([X[:, 0] ** 2, X[:, 0], np.ones(len(y)), X * y[:, None], y * y])
    parts = np.split(np.arange(len(y)), TIMES[:-1])
    total = np.cumsum([products[rows].T @ weights[rows] for rows in parts], axis=0)
    a, b, c, u, v, squares = np.moveaxis(total, 1, 0)
    gram = np.stack([np.stack([a, b], -1), np.stack([b, c], -1)], -2)
    return gram, np.stack([u, v], -1)[..., None], squares


def least_squares_band(X: FloatArray, y: FloatArray) -> FloatArray:
    """Ends of Student's interval at TIMES."""
    gram, moment, squares = (part[:, 0] for part in sums(X, y, np.ones((len(y), 1))))
    theta = np.linalg.solve(gram, moment)[..., 0]
    rest = squares - np.einsum("ti,ti->t", theta, moment[..., 0])
    spread = np.maximum(rest, 0.0) / (TIMES - 2)
    width = np.einsum("i,tij,j->t", POINT, np.linalg.inv(gram), POINT)
    half = stats.t.ppf(0.5 + LEVEL / 2.0, TIMES - 2) * np.sqrt(spread * width)
    return np.array([theta @ POINT - half, theta @ POINT + half])


def bootstrap_band(X: FloatArray, y: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Ends of the bootstrap's quantiles at TIMES."""
    draws = rng.integers(2**16, size=(len(y), REPLICATES), dtype=np.uint16)
    gram, moment, _ = sums(X, y, POISSON[draws])
    means = np.linalg.solve(gram, moment)[..., 0] @ POINT
    return np.asarray(np.quantile(means, [0.5 - LEVEL / 2.0, 0.5 + LEVEL / 2.0], axis=1))


def run(law: str, seed: int) -> FloatArray:
    """Ends of all bands at TIMES, (bands, 2, times)."""
    order, noise, draw = LAWS[law]
    rng = np.random.default_rng([SEED, sorted(LAWS).index(law), seed])
    X = np.column_stack([rng.uniform(-1.0, 1.0, ROWS), np.ones(ROWS)])
    y = X @ THETA + draw(rng, ROWS)
    tail = ht.MomentBound(order=order, scale=noise.scale(order))
    return np.array([sharp_band(X, y, tail), least_squares_band(X, y), bootstrap_band(X, y, rng)])


def draw(law: str, bands: FloatArray, missed: FloatArray, path: str) -> None:
    """One run's bands around the truth, and the share of runs that have missed it so far."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    styles = ("#0072b2", "-"), ("#d55e00", "--"), ("#009e73", ":")  # Okabe and Ito, and the line
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.6), layout="constrained")
    for name, (colour, line), (low, high), share in zip(BANDS, styles, bands, missed, strict=True):
        left.fill_between(TIMES, low, high, color=colour, alpha=0.12, lw=0)
        left.plot(TIMES, low, color=colour, ls=line, lw=1.8, label=name)
        left.plot(TIMES, high, color=colour, ls=line, lw=1.8)
        right.plot(TIMES, 100.0 * share, color=colour, ls=line, lw=1.8, clip_on=False)
    left.axhline(TRUTH, color="black", lw=0.9)
    left.set_title(f"95 % bands in one run, {law} noise", fontsize=10)
    left.set(ylabel="mean response at x = 0.5", ylim=(TRUTH - 5.0, TRUTH + 5.0))
    right.axhline(100.0 * (1.0 - LEVEL), color="black", lw=0.9)
    right.set_title("Runs in which the truth was missed so far", fontsize=10)
    right.set(ylabel="per cent", ylim=(0.0, 100.0))
    for axis in (left, right):
        axis.set(xscale="log", xlabel="rows", xlim=(TIMES[0], ROWS))
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=3.5)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("picture", help="where the picture goes")
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    print(f"{options.runs} runs of {ROWS:,} rows, looked at {len(TIMES)} times\n")
    print("| noise | band | missed at some time | missed at the end | half width at the end |")
    print("| --- | --- | --- | --- | --- |")
    for law in LAWS:
        ends = np.array([run(law, seed) for seed in range(options.runs)])
        missed = (ends[:, :, 0] > TRUTH) | (ends[:, :, 1] < TRUTH)
        so_far = np.logical_or.accumulate(missed, axis=2).mean(axis=0)
        last = missed[:, :, -1].mean(axis=0)
        half = np.median(ends[:, :, 1, -1] - ends[:, :, 0, -1], axis=0) / 2.0
        for k, name in enumerate(BANDS):
            shares = f"{so_far[k, -1]:.1%} | {last[k]:.1%}"
            print(f"| {law} | {name} | {shares} | {half[k]:.2f} |", flush=True)
        if law == DRAWN:
            draw(law, ends[0], so_far, options.picture)


if __name__ == "__main__":
    main()
