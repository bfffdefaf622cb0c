"""How the practical default of Hvt-UCB was chosen, and what it costs: ``heavytail calibrate``.

Twenty-seven worlds of our own making (dimensions 2, 5 and 20; nine noises, symmetric and skewed,
one with a changing scale), drawn by counters, none of which is reported elsewhere. Every candidate
runs in all of them on the same seeds. A candidate's score in a world is its mean regret over that
of the best candidate there. The default was chosen for the least geometric mean score; within 2 %,
for the least worst score.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments import LinearBandit
from heavytail.environments.noise import (
    Fisk,
    Gaussian,
    LogNormal,
    Lomax,
    Noise,
    Pareto,
    Scaled,
    Stable,
    StudentT,
)
from heavytail.policies import OFUL, HvtUCB, Policy
from heavytail.simulation import Distribution, distribution
from heavytail.simulation.progress import progress_bar

__all__ = ["Calibration", "calibrate", "candidates"]

DIMS = (2, 5, 20)
ARMS = 40
SEED = 20_261_115
ORDER = 1.4  # the moment a user might state: finite for every noise below
NOISES: dict[str, Noise] = {
    "normal": Gaussian(1.0),
    "t(3)": StudentT(3.0),
    "t(1.9)": StudentT(1.9),
    "stable(1.6)": Stable(1.6),
    "Pareto(1.8)": Pareto(1.8),
    "Lomax(1.6)": Lomax(1.6),
    "Fisk(1.7)": Fisk(1.7),
    "log-normal(1)": LogNormal(1.0),
    "t(1.9) x 10^U(0,1)": Scaled(StudentT(1.9), 1.0),
}
GRID: dict[str, tuple[Any, ...]] = {
    "exploration": (0.3, 0.4, 0.5, 0.7),
    "clip": (1.345, 1.7, 2.5),
}
VARIATIONS: dict[str, tuple[Any, ...]] = {
    "exploration": (1.0,),
    "clip": (1.0, 4.0, np.inf),
    "alpha": (2.0, 4.0),
    "delta": (0.1, 0.0001),
    "ridge": (0.1, 1.0),
    "intercept": (False,),
}
DEFAULT = {"exploration": 0.4, "clip": 1.345}
LABEL = "exploration {exploration:g}, clip {clip:g}"
COVERED = (0.4, 1.0, 2.0)  # explorations whose coverage is counted, the default first
RADII = (1.0, 0.3, 0.1)  # of OFUL
QUANTILES = (0.5, 0.9, 0.99)  # of the default's regret


@dataclass(frozen=True)
class Candidate:
    """One setting of the knobs; what it does not name is as in ``HvtUCB``."""

    label: str
    options: dict[str, Any] = field(hash=False)

    def policy(self, dim: int, noise: Noise) -> HvtUCB:
        """The policy in one world."""
        return HvtUCB(dim, tail=noise.tail(ORDER), **self.options)


def candidates() -> list[Candidate]:
    """The grid over exploration and clip, then the other knobs one at a time around the default."""
    out = []
    for exploration in GRID["exploration"]:
        for clip in GRID["clip"]:
            options = {"exploration": exploration, "clip": clip}
            out.append(Candidate(LABEL.format(**options), options))
    for knob, values in VARIATIONS.items():
        for value in values:
            out.append(Candidate(f"default but {knob} = {value}", {**DEFAULT, knob: value}))
    return out


@dataclass(frozen=True)
class Calibration:
    """``regret`` (candidates, worlds), mean over trials; ``oful`` (worlds,): best of three.

    ``quantiles`` (worlds, QUANTILES) of the default's regret; ``covered`` (worlds, COVERED).
    """

    labels: list[str]
    worlds: list[str]
    regret: FloatArray
    quantiles: FloatArray
    oful: FloatArray
    covered: FloatArray

    @property
    def scores(self) -> FloatArray:
        """Mean regret over the best candidate's, world by world."""
        return self.regret / self.regret.min(axis=0)

    def markdown(self) -> str:
        """The tables of the documentation."""
        geometric = np.exp(np.log(self.scores).mean(axis=1))
        lines = [
            "| candidate | score, geometric mean | score, worst world |",
            "| --- | --- | --- |",
        ]
        for k in np.argsort(geometric):
            lines.append(f"| {self.labels[k]} | {geometric[k]:.2f} | {self.scores[k].max():.2f} |")
        default = self.labels.index(LABEL.format(**DEFAULT))
        levels = " | ".join(f"{100 * q:g} %" for q in QUANTILES)
        explorations = " | ".join(f"covered, exploration {e:g}" for e in COVERED)
        lines += [
            "",
            f"| world | regret, default | {levels} | OFUL at its best radius of three "
            f"| {explorations} |",
            "| --- " * (3 + len(QUANTILES) + len(COVERED)) + "|",
        ]
        for w, name in enumerate(self.worlds):
            cells = [f"{value:.0f}" for value in (self.regret[default, w], *self.quantiles[w])]
            cells += [f"{self.oful[w]:.0f}", *(f"{100 * share:.1f} %" for share in self.covered[w])]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return "\n".join(lines)


def calibrate(
    *,
    rounds: int = 5000,
    trials: int = 10,
    dims: Sequence[int] = DIMS,
    engine: str = "compiled",
    jobs: int | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Run every candidate, and OFUL at three radii, in every world, the same for all."""
    tried = candidates()
    worlds = [(dim, name) for dim in dims for name in NOISES]
    regret, quantiles, oful, covered = [], [], [], []
    steps = len(worlds) * (len(tried) + len(COVERED) - 1 + len(RADII))
    with progress_bar(progress, "calibrating", steps) as bar:

        def play(policy: Policy, world: LinearBandit, cover: bool) -> Distribution:
            found = distribution(
                policy,
                world,
                rounds=rounds,
                trials=trials,
                seed=SEED,
                engine=engine,
                record=1,
                cover=cover,
                jobs=jobs,
                progress=False,
            )
            bar.advance()
            return found

        for dim, name in worlds:
            noise = NOISES[name]
            world = LinearBandit(dim, ARMS, noise)
            means = []
            for candidate in tried:
                found = play(candidate.policy(dim, noise), world, True)
                means.append(found.mean[-1])
                if candidate.options == DEFAULT:
                    quantiles.append(np.quantile(found.regret[-1], QUANTILES))
                    shares = [found.share]
            for exploration in COVERED[1:]:
                policy = HvtUCB(dim, tail=noise.tail(ORDER), exploration=exploration)
                shares.append(play(policy, world, True).share)
            with warnings.catch_warnings():  # OFUL is run outside its assumptions on purpose
                warnings.simplefilter("ignore", UserWarning)
                plain = [OFUL(dim, noise_scale=1.0, horizon=rounds, radius_scale=r) for r in RADII]
                oful.append(min(play(policy, world, False).mean[-1] for policy in plain))
            regret.append(means)
            covered.append(shares)
    return Calibration(
        labels=[c.label for c in tried],
        worlds=[f"d = {dim}, {name}" for dim, name in worlds],
        regret=np.array(regret).T,
        quantiles=np.array(quantiles),
        oful=np.array(oful),
        covered=np.array(covered),
    )
