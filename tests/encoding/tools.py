"""Rows of every kind of column, and the dresses they come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

import heavytail as ht

SEGMENTS = ["new", "loyal", "gone"]
DRESSES = {
    "columns": lambda c: c,
    "arrays": lambda c: {k: np.array(v) for k, v in c.items()},
    "pandas": pd.DataFrame,
    "pandas categories": lambda c: pd.DataFrame(
        {k: pd.Categorical(v) if isinstance(v[0], str) else v for k, v in c.items()}
    ),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "arrow": pa.table,
    "dicts": lambda c: [dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)],
}


def columns(rows: int = 200, seed: int = 0) -> dict[str, list[Any]]:
    """A heavy-tailed number, another, few categories, whole numbers as categories, many."""
    rng = np.random.default_rng(seed)
    return {
        "price": (20.0 + 5.0 * rng.standard_t(1.5, rows)).tolist(),
        "age": rng.integers(18, 90, rows).tolist(),
        "segment": rng.choice(SEGMENTS, rows).tolist(),
        "region": rng.integers(1, 6, rows).tolist(),
        "sku": [f"sku-{k}" for k in rng.integers(0, 500, rows)],
    }


def arguments(**more: Any) -> dict[str, Any]:
    """All kinds of block."""
    return {
        "numbers": ["price", "age"],
        "categories": ["segment", "region"],
        "hashed": {"sku": 16},
        "crosses": [("segment", "region"), ("price", "segment"), ("segment", "sku", 8)],
        **more,
    }


def fitted(**more: Any) -> ht.Encoder:
    return ht.Encoder(**arguments(**more)).fit(columns())


ANY_NUMBER = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True, allow_infinity=False),
)
ANY_TEXT = st.one_of(
    st.none(), st.sampled_from(SEGMENTS), st.text(max_size=12), st.integers(), st.booleans()
)
ANY_ROW = st.fixed_dictionaries(
    {"price": ANY_NUMBER, "age": ANY_NUMBER, "segment": ANY_TEXT, "region": ANY_TEXT,
     "sku": ANY_TEXT}
)  # fmt: skip
