"""How time a round and bytes of state grow with t, for every policy, against its own table row.

    python -m benchmarks.growth [--longest T] [POLICY ...]

A policy plays compiled episodes of growing length (d = 4, 20 arms, Student's t noise with 2.1
degrees of freedom, one horizon for all lengths). The time of the rounds between two lengths is the
difference of the two episodes' processor time, the least of three; bytes are those of the state at
the end. Slopes are of logarithms, from t = 10^3 to T: 0 is flat, 1 is in proportion to t. A policy
too slow for a length stops before it, and its row says where.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings

import numpy as np

import heavytail as ht
from heavytail.policies import ALL
from heavytail.simulation.engines import episode

FLAT, RISING = 0.2, 0.4  # slopes below are flat (caches fill), above rise; between is unclear
PATIENCE = 40.0  # seconds that one episode may take
REPEATS = 3
LENGTHS = (600, 1_700, 5_000, 15_000, 45_000, 100_000)
WORLD = ht.LinearBandit(4, arms=20, noise=ht.noise.StudentT(2.1))


def run(kind: type[ht.Policy], rounds: int, horizon: int) -> tuple[float, int]:
    """Processor seconds of one episode, the least of three, and bytes of the state after it."""
    tail = WORLD.noise.tail(2.0)
    seconds = np.inf
    for _ in range(REPEATS):
        policy = ht.make(kind.name, dim=WORLD.dim, horizon=horizon, tail=tail, arms=WORLD.arms)
        start = time.process_time()
        episode(policy, WORLD, np.random.SeedSequence(1), rounds, "compiled")
        spent = time.process_time() - start
        seconds = min(seconds, spent)
        if spent > PATIENCE / REPEATS:
            break
    return seconds, policy.state_bytes


def slope(t: np.ndarray, y: np.ndarray) -> float:
    """Of log y against log t, by least squares."""
    return float(np.polyfit(np.log(t), np.log(y), 1)[0])


def verdict(promise: str, measured: float) -> str:
    """The promise of the table's row beside what was measured."""
    rises = re.search(r"\bt\b", promise.partition(",")[0]) is not None
    if FLAT < measured < RISING:
        return "unclear"
    return "as stated" if (measured >= RISING) == rises else "CONTRADICTS"


def measure(kind: type[ht.Policy], longest: int) -> str:
    """One line of the table."""
    run(kind, 50, longest)  # compile
    ends, seconds, sizes = [], [], []
    for rounds in [n for n in LENGTHS if n <= longest]:
        if len(ends) > 2 and seconds[-1] * (rounds / ends[-1]) ** 2 > PATIENCE:
            break
        spent, size = run(kind, rounds, longest)
        ends.append(rounds)
        seconds.append(spent)
        sizes.append(size)
    t, total, size = np.array(ends), np.array(seconds), np.array(sizes)
    middle = np.sqrt(t[1:] * t[:-1])
    micro = 1e6 * np.maximum(np.diff(total) / np.diff(t), 1e-9)
    of_time, of_state = slope(middle, micro) + 0.0, slope(t, size) + 0.0
    return (
        f"{kind.name:<14} {kind.info.cost:<18} {micro[0]:>9.2f} {micro[-1]:>9.2f} {of_time:>7.2f}  "
        f"{verdict(kind.info.cost, of_time):<12} {size[-1]:>11,} {of_state:>7.2f}  "
        f"{verdict(kind.info.storage, of_state):<12}"
        + (f" to t = {t[-1]:,}" if t[-1] < max(n for n in LENGTHS if n <= longest) else "")
    ).rstrip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--longest", type=int, default=100_000, metavar="T")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'policy':<14} {'stated cost':<18} {'us first':>9} {'us last':>9} {'slope':>7}  "
        f"{'time':<12} {'bytes':>11} {'slope':>7}  state"
    )
    for kind in ALL:
        if not args.policies or kind.name in args.policies:
            print(measure(kind, args.longest), flush=True)


if __name__ == "__main__":
    main()
