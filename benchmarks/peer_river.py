"""river's LinearRegression with its Huber loss, one row at a time: microseconds a row.

Run by benchmarks/regression.py in an environment of its own (.bench), where river is installed.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from river import linear_model, optim


def main(path: str) -> None:
    data = np.load(path)
    rows = [dict(enumerate(x)) for x in data["X"].tolist()]
    y = data["y"].tolist()
    model = linear_model.LinearRegression(loss=optim.losses.Huber())
    start = time.process_time()
    for x, value in zip(rows, y, strict=True):
        model.learn_one(x, value)
    print((time.process_time() - start) / len(y) * 1e6)


if __name__ == "__main__":
    main(sys.argv[1])
