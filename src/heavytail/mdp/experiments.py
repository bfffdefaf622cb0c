"""``heavytail reproduce mdp``: regret and time of every agent under four kinds of reward noise.

The protocol is the bandit experiments': every agent untuned, and tuned by multipliers from one grid
chosen on worlds of their own (``python -m heavytail.mdp.tuning``, kept in ``tuned.json``); the same
worlds and noise for all, paired intervals. A trial is a random linear MDP of its own.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail.environments.noise import Gaussian, Noise, Pareto, StudentT
from heavytail.experiments import plots
from heavytail.experiments.registry import Section, Settings, Table
from heavytail.experiments.stats import Interval, ratio
from heavytail.experiments.store import complete
from heavytail.experiments.units import Outcome, source_digest
from heavytail.mdp import (
    LSVIUCB,
    VARA,
    Agent,
    GreedyLSVI,
    HeavyLSVIUCB,
    HvtLSVIUCB,
    LinearMDP,
    UniformAgent,
    random_mdp,
)
from heavytail.mdp.simulation import run_agent
from heavytail.mdp.world import BLOCK
from heavytail.simulation.progress import Progress
from heavytail.simulation.trials import checkpoints, trial_seed
from heavytail.tails import MomentBound

__all__ = ["AGENTS", "NOISES", "AgentUnit", "mdp", "mdp_units", "unit"]

DIM, STATES, ACTIONS, HORIZON = 7, 8, 4, 5  # one of the features is a constant
EPISODES = 1000
RECORD = 100  # episodes at which regret is kept
TUNED = Path(__file__).with_name("tuned.json")


@dataclass(frozen=True)
class Rewards:
    """A noise and the order of the moment that agents are told."""

    title: str
    noise: Noise
    order: float

    @property
    def finite_variance(self) -> bool:
        """Whether VARA's assumption holds."""
        return self.noise.index > 2.0


NOISES = {
    "gaussian": Rewards("N(0, 1)", Gaussian(), 2.0),
    "t2.1": Rewards("Student t, df 2.1", StudentT(2.1), 1.5),
    "t1.7": Rewards("Student t, df 1.7", StudentT(1.7), 1.5),
    "pareto": Rewards("Pareto 1.5, centred", Pareto(1.5), 1.3),
}
PLAIN_HEAVY = "Heavy-LSVI-UCB, plain values"
NO_CLIP = "Hvt-LSVI-UCB, no clip"
AGENTS: dict[str, tuple[type[Agent], dict[str, Any]]] = {
    HvtLSVIUCB.name: (HvtLSVIUCB, {}),
    NO_CLIP: (HvtLSVIUCB, {"clip": math.inf}),
    HeavyLSVIUCB.name: (HeavyLSVIUCB, {}),
    PLAIN_HEAVY: (HeavyLSVIUCB, {"weighting": "none", "switching": "every", "monotone": False}),
    VARA.name: (VARA, {}),
    LSVIUCB.name: (LSVIUCB, {}),
    GreedyLSVI.name: (GreedyLSVI, {}),
    UniformAgent.name: (UniformAgent, {}),
}
ABLATIONS = (NO_CLIP, PLAIN_HEAVY, VARA.name)  # shown tuned only, where they are tuned
_SHADES = ["#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#CC79A7", "#009E73", "#000000", "#999999"]
_COLOURS = dict(zip(AGENTS, _SHADES, strict=True))


@dataclass(frozen=True)
class AgentUnit:
    """One trial: agent ``name`` with ``options`` in the world and noise that ``trial`` deals."""

    name: str
    rewards: Rewards
    episodes: int
    seed: int
    trial: int
    options: dict[str, Any] = field(default_factory=dict)
    weight: int = 1
    threads = True

    @functools.cached_property
    def key(self) -> str:
        """A hash of everything the outcome depends on."""
        told = [self.name, repr(self.rewards), self.episodes, self.seed, self.trial, self.options]
        sizes = [DIM, STATES, ACTIONS, HORIZON, RECORD]
        text = json.dumps([told, sizes, source_digest(), _mdp_digest()], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def world(self) -> LinearMDP:
        """The trial's own."""
        seed = int(trial_seed(self.seed, self.trial).generate_state(1)[0])
        return random_mdp(
            DIM,
            states=STATES,
            actions=ACTIONS,
            horizon=HORIZON,
            noise=self.rewards.noise,
            bias=True,
            seed=seed,
        )

    def run(self) -> Outcome:
        """``regret`` (kept,), ``seconds`` (blocks,), ``bytes`` (all, the reward part's)."""
        world = self.world
        agent = build(self.name, world, self.rewards, self.episodes, **self.options)
        curve, seconds = run_agent(agent, world, trial_seed(self.seed, self.trial), self.episodes)
        kept = checkpoints(self.episodes, RECORD)
        sizes = np.array([agent.state_bytes, agent.reward_bytes], dtype=float)
        return {"regret": curve[kept - 1], "seconds": seconds, "bytes": sizes}


def build(name: str, world: LinearMDP, rewards: Rewards, episodes: int, **options: Any) -> Agent:
    """The agent for a world, told the exact moment; VARA the variance."""
    kind, own = AGENTS[name]
    order = 2.0 if kind is VARA else rewards.order
    tail = MomentBound(order=order, scale=rewards.noise.scale(order))
    told = {"tail": tail, "episodes": episodes}
    needed = {HeavyLSVIUCB: told, VARA: told, GreedyLSVI: {}, UniformAgent: {}}
    options = {**needed.get(kind, {"tail": tail}), **own, **options}
    return kind(world.features, world.horizon, **options)


def unit(
    name: str, noise: str, episodes: int, seed: int, trial: int, options: dict[str, Any]
) -> AgentUnit:
    """One trial of one agent under one noise."""
    light = AGENTS[name][0] in (UniformAgent,) or name == HeavyLSVIUCB.name
    return AgentUnit(name, NOISES[noise], episodes, seed, trial, options, 1 if light else 4)


def applies(name: str, noise: str) -> bool:
    """Whether the agent's assumptions allow it there: VARA needs a finite variance."""
    return name != VARA.name or NOISES[noise].finite_variance


def read_tuned(path: Path = TUNED) -> dict[str, Any]:
    """The multipliers that ``python -m heavytail.mdp.tuning`` chose, with the whole grid."""
    return json.loads(path.read_text()) if path.exists() else {}


def _plan(settings: Settings) -> dict[tuple[str, str, str], list[AgentUnit]]:
    """(noise, agent, variant) -> one unit a trial."""
    episodes = settings.rounds or (300 if settings.quick else EPISODES)
    tuned = read_tuned().get("noises", {})
    plan = {}
    for noise in NOISES:
        for name in AGENTS:
            if not applies(name, noise):
                continue
            variants: dict[str, dict[str, Any]] = {}
            if name in tuned.get(noise, {}):
                variants["tuned"] = tuned[noise][name]["options"]
            if name not in ABLATIONS or not variants:
                variants["untuned"] = {}
            for variant, options in variants.items():
                plan[noise, name, variant] = [
                    unit(name, noise, episodes, settings.seed, trial, options)
                    for trial in range(settings.trials)
                ]
    return plan


def mdp_units(settings: Settings) -> list[AgentUnit]:
    """The work of :func:`mdp`."""
    return [one for units in _plan(settings).values() for one in units]


def mdp(settings: Settings, progress: Progress) -> Section:
    """Regret against episodes, final regret with paired ratios, time and memory an episode."""
    plan = _plan(settings)
    work = [one for units in plan.values() for one in units]
    done = complete(settings.store, work, progress, jobs=settings.jobs, dask=settings.dask)
    found = {key: [done[one.key] for one in units] for key, units in plan.items()}
    episodes = work[0].episodes
    section = Section("mdp", "Linear MDPs with heavy-tailed rewards")
    section.text.append(
        f"Random linear MDPs (d = {DIM}, S = {STATES}, A = {ACTIONS}, H = {HORIZON}), a new one in "
        f"each of {settings.trials} trials, {episodes:,} episodes. Regret is exact, by dynamic "
        "programming. Tuned: multipliers of the two bonuses, and of the threshold where there is "
        "one, from one grid for all agents, chosen on other worlds. *Plain values* leaves out what "
        "the value part of Heavy-LSVI-UCB adds to LSVI-UCB's (weights, rare plans, monotone Q), so "
        "that the reward estimator alone differs; *no clip* is Hvt-LSVI-UCB with the threshold at "
        "infinity, so that what clipping gives can be seen. Only the reward part of "
        "Hvt-LSVI-UCB is one-pass; the values of every agent here are regressed anew on the whole "
        "past at each plan."
    )
    section.tables += [_regret_table(found), _ratio_table(found), _cost_table(found, episodes)]
    for noise, rewards in NOISES.items():
        section.figures[f"mdp-{noise}"] = _figure(found, noise, rewards.title, episodes)
        section.captions[f"mdp-{noise}"] = "Mean regret; tuned solid, untuned dashed."
    section.data["ratios"] = _ratios(found)
    return section


Found = dict[tuple[str, str, str], list[Outcome]]


def final(outcomes: list[Outcome]) -> FloatArray:
    """Regret at the end, one number a trial."""
    return np.array([outcome["regret"][-1] for outcome in outcomes])


def _regret_table(found: Found) -> Table:
    rows = []
    for name in AGENTS:
        for variant in ("untuned", "tuned"):
            cells = [
                f"{Interval.of(final(found[noise, name, variant])):.0f}"
                if (noise, name, variant) in found
                else "-"
                for noise in NOISES
            ]
            if any(cell != "-" for cell in cells):
                rows.append((name, variant, *cells))
    titles = [rewards.title for rewards in NOISES.values()]
    return Table("Mean regret at the end [95 %]", ("agent", "variant", *titles), rows)


def _ratios(found: Found) -> dict[tuple[str, str, str], Interval]:
    """(noise, other agent, variant) -> Hvt-LSVI-UCB's regret over the other's, paired."""
    ratios = {}
    for noise, name, variant in found:
        mine = (noise, HvtLSVIUCB.name, variant)
        if name != HvtLSVIUCB.name and mine in found:
            other = final(found[noise, name, variant])
            ratios[noise, name, variant] = ratio(final(found[mine]), other)
    return ratios


def _ratio_table(found: Found) -> Table:
    """What was set out to show, beside what was measured."""
    marks = {(LSVIUCB.name, "gaussian"): 1.2, (LSVIUCB.name, "t1.7"): 0.5}
    marks |= {(LSVIUCB.name, "pareto"): 0.5}
    marks |= {(name, noise): 1.2 for name in (HeavyLSVIUCB.name, PLAIN_HEAVY) for noise in NOISES}
    rows = []
    for (noise, name, variant), interval in _ratios(found).items():
        mark = marks.get((name, noise))
        if mark is None:
            continue
        met = "yes" if interval.value <= mark else "no"
        rows.append((NOISES[noise].title, name, variant, f"{interval:.2f}", f"{mark:g}", met))
    return Table(
        "Regret of Hvt-LSVI-UCB over another agent's, the same worlds and noise [95 %]",
        ("rewards", "over", "variant", "ratio", "at most", "met"),
        rows,
    )


def _cost_table(found: Found, episodes: int) -> Table:
    """Time an episode in the first and last blocks, and what is remembered at the end."""
    rows = []
    lengths = np.diff([*range(0, episodes, BLOCK), episodes])
    for name in AGENTS:
        outcomes = next(
            found[noise, name, variant]
            for variant in ("tuned", "untuned")
            for noise in reversed(NOISES)
            if (noise, name, variant) in found
        )
        seconds = np.array([outcome["seconds"] for outcome in outcomes])
        part = max(seconds.shape[1] // 4, 1)
        per = 1e6 * seconds / lengths
        early, late = np.median(per[:, :part]), np.median(per[:, -part:])
        total, reward = outcomes[0]["bytes"]
        cells = (f"{early:.0f}", f"{late:.0f}", f"{total / 1024:.1f}", f"{reward / 1024:.1f}")
        rows.append((name, *cells))
    return Table(
        "Cost",
        (
            "agent",
            "us an episode, first quarter",
            "last quarter",
            "KiB at the end",
            "of them the reward part",
        ),
        rows,
        note="LSVI-UCB and Greedy LSVI plan before every episode, the others when a determinant "
        "has doubled; `python -m benchmarks.mdp` times the reward updates alone.",
    )


def _figure(found: Found, noise: str, title: str, episodes: int) -> Any:
    figure, (axis,) = plots.new_figure()
    kept = checkpoints(episodes, RECORD)
    for name in AGENTS:
        for variant, line in (("untuned", "--"), ("tuned", "-")):
            if (noise, name, variant) not in found:
                continue
            curves = np.array([outcome["regret"] for outcome in found[noise, name, variant]])
            only = (noise, name, "tuned") not in found
            label = name if variant == "tuned" or only else None
            axis.plot(kept, curves.mean(axis=0), line, color=_COLOURS[name], lw=1.3, label=label)
    axis.set(xlabel="episode", ylabel="cumulative regret", title=title)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=7)
    return figure


@functools.cache
def _mdp_digest() -> str:
    """A hash of this package's source; :func:`source_digest` has what it stands on."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
