"""One peer, one size: microseconds a round, as JSON. Runs in the peers' own environment.

    python peer_rounds.py PEER DIM ARMS

Vowpal Wabbit learns one model over all arms, as heavytail does (squarecb, not a confidence bound);
text is parsed in every round, from lines that are ready. The others fit one model an arm
(disjoint), so their time mixes model and code.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np

SECONDS = 1.5  # processor time to spend on one measurement
REPEATS = 5


def per_round(play: Callable[[], None]) -> float:
    """Microseconds of processor time a round, the least of a few repeats."""
    start = time.process_time()
    play()
    once = max(time.process_time() - start, 1e-6)
    count = max(1, min(1000, int(SECONDS / REPEATS / once)))
    best = once
    for _ in range(REPEATS if once < SECONDS else 1):
        start = time.process_time()
        for _ in range(count):
            play()
        best = min(best, (time.process_time() - start) / count)
    return 1e6 * best


def vowpal_wabbit(arms: np.ndarray, reward: Callable[[int], float]) -> Callable[[], None]:
    from vowpalwabbit import Workspace

    vw = Workspace("--cb_explore_adf --squarecb --quiet")
    features = ["| " + " ".join(f"f{j}:{v:.6f}" for j, v in enumerate(x)) for x in arms]
    rng = np.random.default_rng(0)

    def play() -> None:
        chances = np.asarray(vw.predict(features))
        chosen = int(rng.choice(len(chances), p=chances / chances.sum()))
        label = f"0:{-reward(chosen):.6f}:{chances[chosen]:.6f} "
        lines = [*features[:chosen], label + features[chosen], *features[chosen + 1 :]]
        vw.learn(lines)

    return play


def river(arms: np.ndarray, reward: Callable[[int], float]) -> Callable[[], None]:
    from river.bandit import LinUCBDisjoint

    policy = LinUCBDisjoint(alpha=1.0)
    names = list(range(len(arms)))
    context = {f"f{j}": float(v) for j, v in enumerate(arms[0])}

    def play() -> None:
        chosen = policy.pull(names, context=context)
        policy.update(chosen, context, reward(chosen))

    return play


def contextualbandits(arms: np.ndarray, reward: Callable[[int], float]) -> Callable[[], None]:
    from contextualbandits.online import LinUCB

    policy = LinUCB(nchoices=len(arms), alpha=1.0, njobs=1)
    context = arms[:1].copy()

    def play() -> None:
        chosen = int(policy.predict(context)[0])
        policy.partial_fit(context, np.array([chosen]), np.array([reward(chosen)]))

    return play


def mabwiser(arms: np.ndarray, reward: Callable[[int], float]) -> Callable[[], None]:
    from mabwiser.mab import MAB, LearningPolicy

    names = list(range(len(arms)))
    policy = MAB(arms=names, learning_policy=LearningPolicy.LinUCB(alpha=1.0))
    context = arms[:1].copy()
    policy.fit([0], [0.0], context)

    def play() -> None:
        chosen = policy.predict(context)
        policy.partial_fit([chosen], [reward(chosen)], context)

    return play


PEERS = {
    "vowpalwabbit": vowpal_wabbit,
    "river": river,
    "contextualbandits": contextualbandits,
    "mabwiser": mabwiser,
}


def main() -> None:
    name, dim, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(0)
    arms = rng.uniform(-1.0, 1.0, (count, dim))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    means = arms @ arms[0]
    try:
        play = PEERS[name](arms, lambda arm: float(means[arm] + 0.1 * rng.standard_normal()))
        answer = {"us": per_round(play)}
    except Exception as error:
        answer = {"problem": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
