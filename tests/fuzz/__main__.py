"""Fuzzing everything public: calls, machines, numbers of any size, files, threads; counts at the
end, 1 on any bad.

Without options a million calls; ``--machines``, ``--extremes``, ``--files`` and ``--threads`` say
how many interleavings for every policy, runs, files, and seconds of threads instead, or beside
``--calls``.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter

from tests.fuzz.calls import fuzz
from tests.fuzz.player import FINE

MOST = 6 * 2**30  # bytes of memory: who believes a size must not take the machine with it


def report(title: str, found: dict[str, Counter]) -> int:
    """Print the counts by kind and in all; 1 where anything bad was counted."""
    total: Counter = sum(found.values(), Counter())
    print(title)
    for kind, counts in {**found, "in all": total}.items():
        words = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
        print(f"  {kind}: {words}")
    return int(bool(set(total) - FINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, help="calls; a million where nothing is asked for")
    parser.add_argument("--machines", type=int, default=0, help="interleavings for every policy")
    parser.add_argument("--extremes", type=int, default=0, help="runs with numbers of any size")
    parser.add_argument("--files", type=int, default=0, help="damaged and crafted files")
    parser.add_argument("--threads", type=float, default=0.0, help="seconds of eight threads")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.calls is None:
        asked = args.machines or args.extremes or args.files or args.threads
        args.calls = 0 if asked else 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    start, bad = time.perf_counter(), 0
    if args.calls:
        bad |= report("calls", fuzz(args.calls, args.seed))
    if args.machines:
        from tests.fuzz.machines import fuzz_machines

        bad |= report("interleavings", fuzz_machines(args.machines))
    if args.extremes:
        from tests.fuzz.extremes import fuzz_extremes

        bad |= report("numbers of any size", fuzz_extremes(args.extremes, args.seed))
    if args.files:
        from tests.fuzz.watched import fuzz_files

        bad |= report("files", fuzz_files(args.files, args.seed))
    if args.threads:
        from tests.fuzz.threads import fuzz_threads

        bad |= report("threads", fuzz_threads(args.threads))
    print(f"{time.perf_counter() - start:,.0f} s")
    return bad


if __name__ == "__main__":
    sys.exit(main())
