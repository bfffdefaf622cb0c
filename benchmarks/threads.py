"""``python -m benchmarks.threads``: 64 trials on one thread and on two, and in two processes.

By the clock, the least of a few turns. Two processes share nothing but the machine, so what they
reach at the same moment is what it had to give: a busy machine shows in both.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

TURNS = 5
CASES = {"1": (1, 64, 1), "2": (1, 64, 2), "processes": (2, 32, 1)}  # processes, trials, threads
WORKER = """
import sys, time
import heavytail as ht
world = ht.LinearBandit(2, arms=50, noise=ht.noise.StudentT(2.1))
policy = ht.HvtUCB(2, tail=world.noise.tail(1.99))
def run(trials, jobs):
    start = time.perf_counter()
    ht.simulate([policy], world, rounds=20_000, trials=trials, seed=0, jobs=jobs, record=10)
    return time.perf_counter() - start
run(4, 2)
print("ready", flush=True)
for line in sys.stdin:
    print(run(*map(int, line.split())), flush=True)
"""


def measure(python: str) -> dict[str, float]:
    """Seconds by case, and the load average at the end."""
    pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers: list[Any] = [subprocess.Popen([python, "-c", WORKER], **pipe) for _ in range(2)]
    for worker in workers:
        worker.stdout.readline()
    seconds = dict.fromkeys(CASES, math.inf)
    for _ in range(TURNS):
        for name, (count, trials, jobs) in CASES.items():
            for worker in workers[:count]:
                worker.stdin.write(f"{trials} {jobs}\n")
                worker.stdin.flush()
            spent = max(float(worker.stdout.readline()) for worker in workers[:count])
            seconds[name] = min(seconds[name], spent)
    for worker in workers:
        worker.communicate()
    return {**seconds, "load": os.getloadavg()[0]}


def text(found: Any) -> str:
    one = found["1"]
    return (
        f"64 trials of 20,000 rounds: {one:.2f} s on one thread, {found['2']:.2f} s on two "
        f"({one / found['2']:.2f} times as fast);\nin two processes at once, 32 trials each, "
        f"{found['processes']:.2f} s ({one / found['processes']:.2f} times). "
        f"Load average {found['load']:.1f}."
    )


if __name__ == "__main__":
    print(text(measure(sys.executable)))
