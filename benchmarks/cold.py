"""``python -m benchmarks.cold``: what a fresh process costs before it is of use, kernels cached.

Medians of a few starts, by turns, in seconds of processor and of clock time; ``--against SRC``
measures another tree's ``src`` in the same run. NumPy and numba, imported alone, are the floor.
Bytecode is cached, as an installer leaves it. ``--compile`` measures Twin-UCB's first decision
where no kernel is cached, which is what a fresh installation compiles.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import heavytail

STARTS = 10
FIRST = (
    "import heavytail as ht; p = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0)); "
    "p.select([[1.0, 0.0], [0.0, 1.0]]); p.update([1.0, 0.0], 1.0)"
)
COMPILED = (
    "import heavytail as ht; p = ht.TwinUCB(2); "
    "p.select([[1.0, 0.0], [0.0, 1.0]]); p.update([1.0, 0.0], 1.0)"
)
TASKS = {
    "heavytail --help": ["-m", "heavytail.cli", "--help"],
    "first decision": ["-c", FIRST],
}
FLOOR = {"import numpy, numba": ["-c", "import numpy, numba"]}
HERE = Path(heavytail.__file__).parent.parent

Found = dict[str, dict[str, float]]


def start(python: str, source: Path, arguments: list[str], **settings: str) -> tuple[float, float]:
    """Seconds of processor time and by the clock of one process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(source), **settings}
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([python, *arguments], check=True, capture_output=True, env=environment)
    clock = time.perf_counter() - clock
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return busy, clock


def measure(python: str, against: Path | None = None, starts: int = STARTS) -> Found:
    """Medians by task and tree."""
    tasks = {name: (HERE, arguments) for name, arguments in {**FLOOR, **TASKS}.items()}
    if against is not None:
        tasks |= {f"{name}, {against}": (against, given) for name, given in TASKS.items()}
    for source, arguments in tasks.values():  # fill the caches
        start(python, source, arguments)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in tasks}
    for _ in range(starts):
        for name, (source, arguments) in tasks.items():
            times[name].append(start(python, source, arguments))
    return {
        name: {
            "processor": statistics.median(busy for busy, _ in each),
            "clock": statistics.median(clock for _, clock in each),
        }
        for name, each in times.items()
    }


def text(found: Found) -> str:
    base = found["first decision"]
    lines = [f"Cold start, medians of {STARTS}{'processor s':>25}{'clock s':>10}{'/ first':>10}"]
    for name, each in found.items():
        ratio = each["processor"] / base["processor"]
        lines.append(f"  {name:<43}{each['processor']:>10.3f}{each['clock']:>10.3f}{ratio:>10.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the src folder of another tree")
    parser.add_argument("--compile", action="store_true", help="with nothing cached")
    args = parser.parse_args()
    if not args.compile:
        print(text(measure(sys.executable, args.against)))
        return
    for source in (HERE, *([args.against] if args.against else [])):
        with tempfile.TemporaryDirectory() as empty:
            command = ["-c", COMPILED]
            busy, clock = start(sys.executable, source, command, NUMBA_CACHE_DIR=empty)
        print(f"Twin-UCB compiled by {source}: {busy:.1f} processor s, {clock:.1f} s by the clock")


if __name__ == "__main__":
    main()
