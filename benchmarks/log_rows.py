"""Rows of a log per second, read from Parquet, and the memory it takes, beside Vowpal Wabbit's.

    python -m benchmarks.log_rows                # 10^7 rows; some 250 MB in a temporary folder
    python -m benchmarks.log_rows --rows 1000000

Times are those of the processor, threads together.

A log of an action, a reward, a propensity and the target's probability of the action is written in
row groups and evaluated in one pass, in a process of its own, at a tenth of the rows and at all of
them: memory must not grow. Vowpal Wabbit, where ``make bench`` installed it (``--vw PYTHON`` names
another interpreter that has it), evaluates the same kind of rows one by one from Python,
``--cb 10 --eval``, the text of each row being ready.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

GROUP = 500_000
VW_ROWS = 200_000

CHILD = """
import resource, sys, time
import numpy as np
import heavytail as ht
n = 300_000
few = {"action": np.zeros(n, int), "reward": np.ones(n), "propensity": np.full(n, 0.5)}
ht.evaluate(few, np.ones(n))  # imports and compiles
start = time.process_time()
found = ht.evaluate(sys.argv[1], "target")
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, found.value)
"""

PEER = """
import sys, time, random
import vowpalwabbit as vw
rows = int(sys.argv[1])
random.seed(0)
lines = []
for _ in range(rows):
    action, target = random.randint(1, 10), random.randint(1, 10)
    lines.append(f"{target} {action}:{-random.paretovariate(1.5):.4f}:0.1 | x:1")
work = vw.Workspace("--cb 10 --eval --quiet")
start = time.process_time()
for line in lines:
    work.learn(line)
print(time.process_time() - start)
"""


def write(path: Path, rows: int) -> None:
    """A log in which all ten actions are as likely; the target prefers the first."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    chances = np.full(10, 0.02)
    chances[0] = 0.82
    writer = None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        action = rng.integers(10, size=n)
        table = pa.table(
            {
                "action": action,
                "reward": rng.pareto(1.5, n),
                "propensity": np.full(n, 0.1),
                "target": chances[action],
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--vw", default=".bench/bin/python", help="a Python that has vowpalwabbit")
    args = parser.parse_args()
    print(f"{'':<34}{'rows':>12}{'CPU s':>9}{'us a row':>10}{'peak, MB':>10}")
    ours = np.nan
    with tempfile.TemporaryDirectory() as folder:
        for rows in (args.rows // 10, args.rows):
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows)
            told = subprocess.run(
                [sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True
            ).stdout.split()
            ours = 1e6 * float(told[0]) / rows
            peak = float(told[1]) / 1024.0
            name = "heavytail, one pass over Parquet"
            print(f"{name:<34}{rows:>12,}{float(told[0]):>9.1f}{ours:>10.2f}{peak:>10.0f}")
            path.unlink()
    try:
        told = subprocess.run(
            [args.vw, "-c", PEER, str(VW_ROWS)], check=True, capture_output=True, text=True
        ).stdout.split()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Vowpal Wabbit could not be run: {error}. `make bench` installs it.")
        return
    theirs = 1e6 * float(told[0]) / VW_ROWS
    name = "Vowpal Wabbit, row by row"
    print(f"{name:<34}{VW_ROWS:>12,}{float(told[0]):>9.1f}{theirs:>10.2f}")
    print(f"Vowpal Wabbit takes {theirs / ours:.0f} times as long a row.")


if __name__ == "__main__":
    main()
