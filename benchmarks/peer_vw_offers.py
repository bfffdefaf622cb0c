"""Vowpal Wabbit on visitors and offers: the choice of every round, as JSON.

Run by benchmarks/decider_players.py in an environment of its own (.bench), where Vowpal Wabbit is
installed. Costs are minus rewards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from vowpalwabbit import LabelType, Workspace


def main(path: str, options: str, seed: int) -> None:
    lines = json.loads(Path(path).read_text())
    rewards, offers = np.load(Path(path).with_name("rewards.npy")), lines["offers"]
    vw, chosen = Workspace(options), []
    draws = np.random.default_rng([91, seed]).random(len(rewards))
    for shared, row, draw in zip(lines["shared"], rewards, draws, strict=True):
        first = [shared] if shared else []
        examples = vw.parse([*first, *offers], LabelType.CONTEXTUAL_BANDIT)
        chances = np.asarray(vw.predict(examples))
        reached = np.cumsum(chances)
        k = min(int(np.searchsorted(reached, draw * reached[-1], side="right")), len(offers) - 1)
        label = f"0:{-row[k]:.6f}:{max(chances[k], 1e-9):.9f}"
        examples[len(first) + k].set_label_string(label)
        vw.learn(examples)
        vw.finish_example(examples)
        chosen.append(k)
    vw.finish()
    print(json.dumps(chosen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
