"""What encoding costs: a table of 10^5 rows and 10 columns, and one decision among 50 dicts.

    python -m benchmarks.encoder

Processor time, the least of a few repeats. Beside it: scikit-learn's own transformers on the same
columns, and what it costs to make a pandas frame of the 50 dicts before anything is encoded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import heavytail as ht

ROWS, ARMS, REPEATS = 100_000, 50, 5
CONTEXT = ("n0", "n1", "c0", "c1", "h0")


def table(rows: int) -> dict[str, list[Any]]:
    """Four numbers, three columns of few categories, one of whole numbers, two of many."""
    rng = np.random.default_rng(0)
    columns: dict[str, list[Any]] = {f"n{k}": rng.standard_t(1.5, rows).tolist() for k in range(4)}
    columns |= {f"c{k}": rng.choice(list("abcde"), rows).tolist() for k in range(3)}
    columns |= {"c3": rng.integers(0, 9, rows).tolist()}
    columns |= {f"h{k}": [f"sku-{j}" for j in rng.integers(0, 5000, rows)] for k in range(2)}
    return columns


def encoders() -> dict[str, ht.Encoder]:
    numbers, categories = [f"n{k}" for k in range(4)], [f"c{k}" for k in range(4)]
    told: dict[str, Any] = {"numbers": numbers, "categories": categories}
    crosses = [("c0", "c2"), ("n0", "c2"), ("c0", "h1", 64)]
    return {
        "columns alone": ht.Encoder(**told, hashed={"h0": 16, "h1": 16}),
        "and three crosses": ht.Encoder(**told, hashed={"h0": 16, "h1": 16}, crosses=crosses),
    }


def least(call: Callable[[], object], times: int = 1) -> float:
    """Seconds of processor time of one call."""
    call()
    best = math.inf
    for _ in range(REPEATS):
        start = time.process_time()
        for _ in range(times):
            call()
        best = min(best, (time.process_time() - start) / times)
    return best


def frames(columns: dict[str, list[Any]]) -> dict[str, Any]:
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame(columns)
    coded = frame.astype({name: "category" for name in columns if name[0] in "ch"})
    dicts = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {
        "dict of columns": columns,
        "pandas": frame,
        "pandas, categories": coded,
        "polars": pl.DataFrame(columns),
        "list of dicts": dicts,
    }


def peers(frame: Any) -> tuple[float, float]:
    """Seconds to fit and to transform, of scikit-learn's transformers."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.preprocessing import OneHotEncoder, RobustScaler

    both = ColumnTransformer(
        [
            ("n", RobustScaler(), [f"n{k}" for k in range(4)]),
            ("c", OneHotEncoder(handle_unknown="ignore"), [f"c{k}" for k in range(4)]),
        ],
        sparse_threshold=0.0,
    )
    hasher = FeatureHasher(16, input_type="string")

    def transform() -> None:
        both.transform(frame)
        for name in ("h0", "h1"):
            hasher.transform([[text] for text in frame[name]]).toarray()

    return least(lambda: both.fit(frame)), least(transform)


def main() -> None:
    columns = table(ROWS)
    dressed = frames(columns)
    print(f"{ROWS} rows of {len(columns)} columns: seconds to fit, to transform")
    for kind, encoder in encoders().items():
        for dress, data in dressed.items():
            fit = least(lambda e=encoder, d=data: e.fit(d))  # type: ignore[misc]
            transform = least(lambda e=encoder, d=data: e.transform(d))  # type: ignore[misc]
            told = f"{kind} ({encoder.dim} features), {dress}"
            print(f"  {told:62s} {fit:7.3f} {transform:7.3f}")
    fit, transform = peers(dressed["pandas"])
    print(f"  {'scikit-learn, scaler, one-hot and hasher, pandas':62s} {fit:7.3f} {transform:7.3f}")

    rows = [dict(row) for row in dressed["list of dicts"][:ARMS]]
    context = {name: rows[0][name] for name in CONTEXT}
    arms = [{name: v for name, v in row.items() if name not in context} for row in rows]
    print(f"one decision, {ARMS} arms as dicts: microseconds")
    for kind, encoder in encoders().items():
        encoder.fit(columns)
        took = least(lambda e=encoder: e.arms(context, arms), 200)  # type: ignore[misc]
        policy = ht.TwinUCB(encoder.dim)
        made = encoder.arms(context, arms)
        choice = least(lambda p=policy, a=made: p.select(a), 200)  # type: ignore[misc]
        print(f"  {kind + f' ({encoder.dim} features)':62s} {1e6 * took:7.0f}")
        print(f"  {'Twin-UCB chooses among them':62s} {1e6 * choice:7.0f}")
    import pandas as pd

    took = least(lambda: pd.DataFrame([{**context, **arm} for arm in arms]), 50)
    print(f"  {'a pandas frame of the dicts, nothing encoded':62s} {1e6 * took:7.0f}")


if __name__ == "__main__":
    main()
