"""Decisions and rewards that a DecisionLog writes per second, and rows that are read from it.

``python -m benchmarks.decision_log``: 10 arms of 16 features, forced to the disk one by one and 100
at a time. ``--beside PATH`` runs the same with the library under another path, in turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

COUNTS = {1: 2_000, 100: 10_000}  # decisions by ``group``


def measure() -> None:
    """Print a line for each ``group``."""
    import heavytail as ht

    arms = np.random.default_rng(0).normal(size=(10, 16))
    for group, count in COUNTS.items():
        made = [ht.Decision(k, k % 10, arms[k % 10], 0.1, 0.0, 1e9 + k) for k in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            with ht.DecisionLog(folder + "/log", group=group) as log:
                for decision in made:
                    log.decided(decision, arms)
                    log.rewarded(decision, 1.0)
            middle = time.perf_counter()
            evaluation = ht.evaluate(folder + "/log", ht.Uniform(16))
            end = time.perf_counter()
        written, read = 2 * count / (middle - start), evaluation.rows / (end - middle)
        print(f"group {group:3d}: {written:8,.0f} records written, {read:8,.0f} rows read a second")


def main() -> None:
    """Measure, alone or in turns with another version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", metavar="PATH", help="the src of another version")
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    if args.beside is None:
        measure()
        return
    for _ in range(args.turns):
        for name, path in (("other", args.beside), ("this", "src")):
            print(name, flush=True)
            there = {**os.environ, "PYTHONPATH": os.path.abspath(path)}
            code = "from benchmarks.decision_log import measure; measure()"
            subprocess.run([sys.executable, "-c", code], env=there, check=True)


if __name__ == "__main__":
    main()
