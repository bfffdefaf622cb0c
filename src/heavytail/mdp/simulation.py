"""Many trials of many agents in one linear MDP, in compiled episodes."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from heavytail._typing import FloatArray, IntArray, State
from heavytail._validate import check_choice, check_count
from heavytail.kernels.jit import specialise
from heavytail.mdp.agent import Agent
from heavytail.mdp.world import Draws, LinearMDP, evaluate, land
from heavytail.simulation.parallel import play_trials
from heavytail.simulation.results import Results, Run, checkpoints
from heavytail.simulation.trials import trial_seed

__all__ = ["ENGINES", "run_agent", "simulate_agents"]

ENGINES = ("compiled", "reference")  # there is no GPU engine for agents
_CONSTANT = np.empty((0, 0))


def simulate_agents(
    agents: Iterable[Agent] | Mapping[str, Agent],
    world: LinearMDP,
    *,
    episodes: int,
    trials: int,
    seed: int,
    engine: str = "compiled",
    jobs: int | None = None,
    progress: bool | None = None,
    record: int | None = None,
) -> Results:
    """Run fresh copies of every agent through the same ``trials`` of ``episodes`` episodes.

    All agents of a trial meet the same first states, transition draws and noise. Regret is exact:
    V*_1(s_1) less the value of the policy the agent follows in the episode, by dynamic programming,
    summed over episodes. ``rounds`` of the results are episodes.

    Args:
        agents: agents built for ``world``, or a mapping from the names to show them under.
        world: where they live.
        episodes: K.
        trials: how often.
        seed: fixes everything.
        engine: "compiled" (whole blocks of episodes in one call) or "reference" (stage by stage).
        jobs: how many trials at once; all cores unless given.
        progress: show a bar with the time left; on a terminal unless given.
        record: keep regret at this many evenly spaced episodes instead of all.
    """
    named = _name_agents(agents, world)
    episodes = check_count("simulate_agents: episodes", episodes)
    trials = check_count("simulate_agents: trials", trials)
    seed = check_count("simulate_agents: seed", seed, least=0)
    check_choice("simulate_agents: engine", engine, ENGINES)
    kept = checkpoints(episodes, record)
    play = functools.partial(
        _trial, world=world, seed=seed, episodes=episodes, engine=engine, kept=kept
    )
    outcomes = play_trials(named, play, trials, threads=True, jobs=jobs, progress=progress)
    runs = {
        name: Run(*(np.array(column) for column in zip(*rows, strict=True)))
        for name, rows in outcomes.items()
    }
    settings = {
        "world": world.describe(),
        "agents": {name: repr(agent) for name, agent in named.items()},
        "episodes": episodes,
        "trials": trials,
        "seed": seed,
    }
    return Results(runs=runs, rounds=kept, settings=settings)


def _trial(
    agent: Agent,
    trial: int,
    world: LinearMDP,
    seed: int,
    episodes: int,
    engine: str,
    kept: IntArray,
) -> tuple[FloatArray, float]:
    """One trial of a copy of ``agent``: regret at the kept episodes, and seconds."""
    regret, seconds = run_agent(agent.fresh(), world, trial_seed(seed, trial), episodes, engine)
    return regret[kept - 1], float(seconds.sum())


def run_agent(
    agent: Agent,
    world: LinearMDP,
    seed: np.random.SeedSequence,
    episodes: int,
    engine: str = "compiled",
) -> tuple[FloatArray, FloatArray]:
    """One agent (it learns) for ``episodes`` episodes: cumulative regret, and seconds of each block
    of :data:`heavytail.mdp.world.BLOCK` episodes, without the world's dealing.
    """
    agent.reseed(int(seed.generate_state(1, np.uint64)[0] >> np.uint64(11)))
    agent.reserve(episodes)
    play = _compiled if engine == "compiled" else _reference
    regret = np.empty(episodes)
    seconds = []
    done = 0
    for draws in world.deal(seed):
        draws = draws.part(0, min(draws.length, episodes - done))
        start = time.perf_counter()
        play(agent, world, draws, regret[done : done + draws.length])
        seconds.append(time.perf_counter() - start)
        done += draws.length
        if done == episodes:
            break
    return np.cumsum(regret), np.array(seconds)


def _name_agents(
    agents: Iterable[Agent] | Mapping[str, Agent], world: LinearMDP
) -> dict[str, Agent]:
    pairs = agents.items() if isinstance(agents, Mapping) else ((a.name, a) for a in agents)
    named: dict[str, Agent] = {}
    for name, agent in pairs:
        if name in named:
            raise ValueError(
                f"simulate_agents: two agents are called {name!r}; "
                "pass a mapping from names to agents."
            )
        mine = (agent.horizon, agent.states, agent.actions, agent.dim)
        theirs = (world.horizon, world.states, world.actions, world.dim)
        if mine != theirs:
            raise ValueError(
                f"simulate_agents: agent {name!r} was built for (H, S, A, d) = {mine}, "
                f"the world has {theirs}."
            )
        named[name] = agent
    if not named:
        raise ValueError("simulate_agents: no agents given.")
    return named


def _reference(agent: Agent, world: LinearMDP, draws: Draws, regret: FloatArray) -> None:
    for k in range(draws.length):
        state = int(draws.first[k])
        regret[k] = world.values[0, state] - world.value(agent.policy)[0, state]
        for h in range(world.horizon):
            action = agent.act(h, state)
            reward = float(world.means[h, state, action] + draws.noise[k, h])
            landed = world.next_state(h, state, action, float(draws.uniform[k, h]))
            scale = None if draws.factor is None else float(draws.factor[k, h] * agent.nu)
            agent.update(h, state, action, reward, landed, scale=scale)
            state = landed


def _compiled(agent: Agent, world: LinearMDP, draws: Draws, regret: FloatArray) -> None:
    run = _runner(agent.plan_kernel, agent.learn_kernel)
    values = np.zeros((world.horizon + 1, world.states))
    factor = _CONSTANT if draws.factor is None else draws.factor
    code = run(
        agent.packed, agent._table, agent.nu, world.transitions, world._cumulative, world.means,
        world.values, draws.first, draws.uniform, draws.noise, factor, values, regret,
    )  # fmt: skip
    if code < 0:
        raise agent.refusal(code, float("nan"), agent.nu)


@functools.cache
def _runner(plan: Callable[..., bool], learn: Callable[..., int]) -> Callable[..., int]:
    """The loop over episodes bound to an agent's kernels; agents of the same kernels share it."""
    name = f"_run_episodes_{plan.__name__}_{learn.__name__}"
    return specialise(_run_episodes, name, plan=plan, learn=learn)


def plan(*_: object) -> bool:
    """Stands for an agent's planning kernel in the template below."""
    raise NotImplementedError


def learn(*_: object) -> int:
    """Stands for an agent's learning kernel in the template below."""
    raise NotImplementedError


def _run_episodes(
    state: State,
    table: IntArray,
    nu: float,
    transitions: FloatArray,
    cumulative: FloatArray,
    means: FloatArray,
    optimal: FloatArray,
    first: IntArray,
    uniform: FloatArray,
    noise: FloatArray,
    factor: FloatArray,
    values: FloatArray,
    regret: FloatArray,
) -> int:
    """Template: a block of episodes. Returns 0, or what a kernel found wrong."""
    fresh = True  # ``values`` holds nothing yet
    for k in range(noise.shape[0]):
        if plan(*state) or fresh:
            evaluate(transitions, means, table, values)
            fresh = False
        s = first[k]
        regret[k] = optimal[0, s] - values[0, s]
        for h in range(noise.shape[1]):
            a = table[h, s]
            scale = nu * factor[k, h] if factor.shape[0] > 0 else nu
            landed = land(cumulative, h, s, a, uniform[k, h])
            row = s * means.shape[2] + a
            code = learn(h, row, means[h, s, a] + noise[k, h], landed, scale, *state)
            if code < 0:
                return code
            s = landed
    return 0
