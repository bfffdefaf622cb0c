"""What a link costs: a compiled round of every policy with a link, as a ratio to OFUL's.

    python -m benchmarks.links

Each plays the clicks or counts it is made for, OFUL normal rewards, all in one run; processor time,
the least of nine repeats from a state of some thousand rounds. A pool of arms, as in OFUL's case.
"""

from __future__ import annotations

import numpy as np

import heavytail as ht
from benchmarks.rounds import block_of, compiled
from heavytail.environments import Environment
from heavytail.simulation.engines import _play_pool

SIZES = ((2, 50), (5, 20), (16, 100))
ROUNDS = 4096
CASES: dict[str, tuple[str, dict[str, object]]] = {
    "OFUL": ("identity", {"noise_scale": 1.0}),
    "GLBOMD, clicks": ("logistic", {"link": "logistic"}),
    "GLBOMD, counts": ("log", {"link": "log"}),
    "HvtGLB, counts": ("log", {"link": "log"}),
    "ECOLog": ("logistic", {}),
    "OL2M": ("logistic", {}),
    "GLOC, clicks": ("logistic", {"link": "logistic"}),
    "GLMUCB, clicks": ("logistic", {"link": "logistic"}),
}


def world_of(link: str, dim: int, arms: int) -> Environment:
    return ht.LinkBandit(dim, arms=arms, link=link, theta_bound=3.0)


def measure(dim: int, arms: int) -> dict[str, float]:
    """Microseconds a round by case."""
    found = {}
    for case, (link, options) in CASES.items():
        block = block_of(world_of(link, dim, arms), ROUNDS)
        policy = ht.make_policy(case.partition(",")[0], dim=dim, **options)
        policy.reserve(2 * ROUNDS)
        _play_pool(policy, block, np.empty(ROUNDS))
        found[case] = compiled(policy, block)
    return found


def main() -> None:
    for dim, arms in SIZES:
        found = measure(dim, arms)
        print(f"d = {dim}, n = {arms}{'us a round':>20}{'/ OFUL':>10}")
        for case, value in found.items():
            print(f"  {case:<18}{value:>12.2f}{value / found['OFUL']:>10.2f}")


if __name__ == "__main__":
    main()
