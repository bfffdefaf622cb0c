"""How time a round and bytes of state grow with t, for every policy, against its own table row.

    python -m benchmarks.growth [--longest T] [POLICY ...]

A policy plays compiled episodes of growing length (d = 4, 20 arms, Student's t noise with 2.1
degrees of freedom, one horizon for all lengths). The time of the rounds between two lengths is the
difference of the two episodes' processor time, the least of three; bytes are those of the state at
the end. HEAVY-OFUL comes by each of its compiled solvers, RobustUCB by Catoni's estimator too.
Policies with a link play clicks or counts. GLM-UCB keeps one row for each distinct arm, so that its
arms are new every round; over a pool its cost stops growing.
Slopes are of logarithms, from t = 10^3 to T: 0 is flat, 1 is in proportion to t. A policy
too slow for a length stops before it, and its row says where.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings

import numpy as np

import heavytail as ht
from heavytail.environments import Environment
from heavytail.policies import ALL
from heavytail.policies.build import find
from heavytail.simulation.engines import episode

FLAT, RISING = 0.2, 0.4  # slopes below are flat (caches fill), above rise; between is unclear
PATIENCE = 40.0  # seconds that one episode may take
REPEATS = 3
LENGTHS = (600, 1_700, 5_000, 15_000, 45_000, 100_000, 300_000, 1_000_000)
ALSO: dict[str, tuple[str, dict[str, object]]] = {
    "HEAVY-OFUL 0.01": ("HEAVY-OFUL", {"threshold_scale": 0.01}),  # clips far more rewards
    "HEAVY-OFUL newton": ("HEAVY-OFUL", {"solver": "newton"}),
    "HEAVY-OFUL gd": ("HEAVY-OFUL", {"solver": "gd"}),
    "RobustUCB catoni": ("RobustUCB", {"estimator": "catoni"}),
    "GLB-OMD counts": ("GLB-OMD", {"link": "log"}),
    "GLM-UCB a pool": ("GLM-UCB", {"link": "logistic"}),
}
LINKS = {"GLB-OMD": "logistic", "GLM-UCB": "logistic", "GLOC": "logistic", "Hvt-GLB": "log"}
UNTOLD = {"Hvt-GLB"}  # finds the size of the noise by itself
CASES: dict[str, tuple[str, dict[str, object]]] = {
    kind.name: (kind.name, {"link": LINKS[kind.name]} if kind.name in LINKS else {}) for kind in ALL
} | ALSO
PROMISES = {"RobustUCB catoni": ("O(t)", "O(T)"), "GLM-UCB a pool": ("O(n)", "O(n)")}
WORLD = ht.LinearBandit(4, arms=20, noise=ht.noise.StudentT(2.1))


def world_of(case: str) -> Environment:
    """Rewards of the kind that the policy takes."""
    name, options = CASES[case]
    link = {"OL2M": "logistic", "ECOLog": "logistic"}.get(name, options.get("link"))
    if link is None:
        return WORLD
    fresh = case == "GLM-UCB"
    return ht.LinkBandit(4, arms=20, link=str(link), theta_bound=3.0, fresh=fresh)


def run(case: str, rounds: int, horizon: int) -> tuple[float, int]:
    """Processor seconds of one episode, the least of three, and bytes of the state after it."""
    world, tail = world_of(case), None if CASES[case][0] in UNTOLD else WORLD.noise.tail(2.0)
    seconds = np.inf
    for _ in range(REPEATS):
        name, options = CASES[case]
        problem = {"dim": world.dim, "horizon": horizon, "tail": tail, "arms": world.arms}
        policy = ht.make_policy(name, **problem, **options)
        start = time.process_time()
        episode(policy, world, np.random.SeedSequence(1), rounds, "compiled")
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


def measure(case: str, longest: int) -> str:
    """One line of the table."""
    info = find(CASES[case][0]).info
    cost, storage = PROMISES.get(case, (info.cost, info.storage))
    run(case, 50, longest)  # compile
    ends, seconds, sizes = [], [], []
    for rounds in [n for n in LENGTHS if n <= longest]:
        if len(ends) > 2 and seconds[-1] * (rounds / ends[-1]) ** 2 > PATIENCE:
            break
        spent, size = run(case, rounds, longest)
        ends.append(rounds)
        seconds.append(spent)
        sizes.append(size)
    t, total, size = np.array(ends), np.array(seconds), np.array(sizes)
    middle = np.sqrt(t[1:] * t[:-1])
    micro = 1e6 * np.maximum(np.diff(total) / np.diff(t), 1e-9)
    of_time, of_state = round(slope(middle, micro), 2) + 0.0, round(slope(t, size), 2) + 0.0
    return (
        f"{case:<17} {cost:<18} {micro[0]:>9.2f} {micro[-1]:>9.2f} {of_time:>7.2f}  "
        f"{verdict(cost, of_time):<12} {size[-1]:>11,} {of_state:>7.2f}  "
        f"{verdict(storage, of_state):<12}"
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
        f"{'policy':<17} {'stated cost':<18} {'us first':>9} {'us last':>9} {'slope':>7}  "
        f"{'time':<12} {'bytes':>11} {'slope':>7}  state"
    )
    for case in CASES:
        if not args.policies or case in args.policies:
            print(measure(case, args.longest), flush=True)


if __name__ == "__main__":
    main()
