"""The cost of each knob of the untuned Hvt-UCB, and a comparison: ``heavytail calibrate``.

Twenty-seven environments of our own making (dimensions 2, 5 and 20; nine noises, symmetric and
skewed, one with a changing scale), drawn by counters, none of which is reported elsewhere. Every
candidate runs in all of them on the same seeds. A candidate's score in an environment is its mean
regret over that of the best candidate there. The default is not the candidate of least score: a
fixed clip is, in these worlds, whose noise has one shape for all arms, and does not find the mean
where it has not (see benchmarks/mean.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from heavytail.experiments.store import Store, complete
from heavytail.experiments.tune import Point, scores, search
from heavytail.experiments.unit import Outcome, Unit
from heavytail.policies import OFUL, HvtUCB, Policy

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
    "exploration": (0.4, 0.5, 0.7, 1.0),
    "clip": (None, 1.345, 2.5),
}
VARIATIONS: dict[str, tuple[Any, ...]] = {
    "exploration": (1.5,),
    "clip": (np.inf,),
    "alpha": (2.0, 4.0),
    "delta": (0.1, 0.0001),
    "ridge": (0.1, 1.0, 10.0),
    "intercept": (False,),
}
DEFAULT: Point = {"exploration": 0.7, "clip": None}
COVERED = (0.7, 1.0, 2.0)  # explorations whose coverage is counted, the default first
RADII = (1.0, 0.3, 0.1)  # of OFUL
QUANTILES = (0.5, 0.9, 0.99)  # of the default's regret


def label(options: Point) -> str:
    """A candidate of the grid, in words."""
    clip = "that grows" if options["clip"] is None else f"of {options['clip']:g}"
    return f"exploration {options['exploration']:g}, a clip {clip}"


def candidates() -> dict[str, Point]:
    """The grid over exploration and clip, then the other knobs one at a time around the default."""
    points: dict[str, Point] = {}
    for exploration in GRID["exploration"]:
        for clip in GRID["clip"]:
            options = {"exploration": exploration, "clip": clip}
            points[label(options)] = options
    for knob, values in VARIATIONS.items():
        for value in values:
            points[f"default but {knob} = {value}"] = {**DEFAULT, knob: value}
    return points


@dataclass(frozen=True)
class Calibration:
    """``regret`` (candidates, worlds), mean over trials; ``oful`` (worlds,): best of three.

    ``worlds`` names the environments; ``quantiles`` (worlds, QUANTILES) are of the default's
    regret; ``covered`` (worlds, COVERED).
    """

    labels: list[str]
    worlds: list[str]
    regret: FloatArray
    quantiles: FloatArray
    oful: FloatArray
    covered: FloatArray

    def markdown(self) -> str:
        """The tables of the documentation."""
        geometric, worst = scores(self.regret.T)
        lines = [
            "| candidate | score, geometric mean | score, worst world |",
            "| --- | --- | --- |",
        ]
        for k in np.argsort(geometric):
            lines.append(f"| {self.labels[k]} | {geometric[k]:.2f} | {worst[k]:.2f} |")
        default = self.labels.index(label(DEFAULT))
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
    """Run every candidate, and OFUL at three radii, in every environment, the same for all."""
    tried = candidates()
    extra: list[Point] = [{"exploration": e} for e in COVERED[1:]]
    plain: list[Point] = [{"oful": r} for r in RADII]
    cases = [(dim, name) for dim in dims for name in NOISES]
    done: dict[str, Outcome] = {}

    def units_of(case: tuple[int, str], point: Point) -> list[Unit]:
        dim, noise = case[0], NOISES[case[1]]
        arguments = {
            "policy": _policy(dim, noise, point, rounds),
            "environment": LinearBandit(dim, ARMS, noise),
            "rounds": rounds,
            "seed": SEED,
            "trials": trials,
            "cover": "oful" not in point,
            "engine": engine,
            "jobs": jobs,
        }
        return [Unit("heavytail.simulation.trials:distribution_block", arguments, runs="alone")]

    def run(units: list[Unit]) -> Mapping[str, Outcome]:
        done.update(complete(units, Store(), title="calibrating", progress=progress))
        return done

    points = [*tried.values(), *extra, *plain]
    regret = search(dict.fromkeys(cases, points), units_of, run)

    def outcome(case: tuple[int, str], point: Point) -> Outcome:
        return done[units_of(case, point)[0].key]

    chosen = tried[label(DEFAULT)]
    finals = [outcome(case, chosen)["regret"][:, -1] for case in cases]
    return Calibration(
        labels=list(tried),
        worlds=[f"d = {dim}, {name}" for dim, name in cases],
        regret=np.array([regret[case][: len(tried)] for case in cases]).T,
        quantiles=np.array([np.quantile(final, QUANTILES) for final in finals]),
        oful=np.array([min(regret[case][-len(plain) :]) for case in cases]),
        covered=np.array(
            [
                [np.mean(outcome(case, point)["worst"] <= 1.0) for point in (chosen, *extra)]
                for case in cases
            ]
        ),
    )


def _policy(dim: int, noise: Noise, point: Point, rounds: int) -> Policy:
    """Hvt-UCB with the options of a point; OFUL at the radius ``point["oful"]``."""
    if "oful" not in point:
        return HvtUCB(dim, tail=noise.tail(ORDER), **point)
    with warnings.catch_warnings():  # OFUL is run outside its assumptions on purpose
        warnings.simplefilter("ignore", UserWarning)
        return OFUL(dim, noise_scale=1.0, horizon=rounds, radius_scale=point["oful"])
