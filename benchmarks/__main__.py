"""``make bench``: a round of heavytail, of NumPy and of its peers, in one run, as ratios.

Times are processor time, the least of a few repeats, with one thread for linear algebra, so that
other work on the machine matters little; threads are by the clock, cold starts by both. ``--page``
also writes the results page of the documentation and its plot.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from benchmarks import cold, page, rounds, threads  # noqa: E402

SIZES = ((2, 50), (16, 100), (64, 200), (256, 1000))
PEERS = ("vowpalwabbit", "river", "contextualbandits", "mabwiser")


def peer(python: Path, name: str, dim: int, arms: int) -> float | str:
    """Microseconds a round, or why there is no number."""
    if not python.exists():
        return "no environment for the peers; run make bench"
    script = Path(__file__).with_name("peer_rounds.py")
    done = subprocess.run(
        [python, script, name, str(dim), str(arms)], capture_output=True, text=True, timeout=600
    )
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return (done.stderr.strip().splitlines() or ["no answer"])[-1][:80]
    return answer.get("us", answer.get("problem", "no answer"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, default=Path(".bench/bin/python"))
    parser.add_argument("--page", type=Path, help="write the results page here")
    parser.add_argument("--long", type=int, default=10_000_000, help="rounds of the growth test")
    args = parser.parse_args()
    report: dict[str, object] = {"rounds": {}, "peers": {}}
    for dim, arms in SIZES:
        ours = rounds.measure(dim, arms)
        theirs = {name: peer(args.peers, name, dim, arms) for name in PEERS}
        print(rounds.table(dim, arms, ours, theirs), flush=True)
        report["rounds"][f"{dim},{arms}"] = ours  # type: ignore[index]
        report["peers"][f"{dim},{arms}"] = theirs  # type: ignore[index]
    report["growth"] = rounds.growth(args.long)
    print(rounds.growth_text(report["growth"]), flush=True)
    report["threads"] = threads.measure(sys.executable)
    print("\n" + threads.text(report["threads"]), flush=True)
    report["cold"] = cold.measure(sys.executable)
    print("\n" + cold.text(report["cold"]), flush=True)
    if args.page:
        page.write(args.page, report)


if __name__ == "__main__":
    main()
