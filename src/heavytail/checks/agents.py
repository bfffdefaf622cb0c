"""Promises of an agent in a linear MDP to its users, one function per promise."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._load import load
from heavytail.checks.battery import refused, require, snapshot
from heavytail.mdp import Agent

__all__ = ["AGENT_CHECKS"]

EPISODES = 12
BYTES_PER_STAGE = 24  # of a transition: what was done, where it led, its weight


def _play(agent: Agent, stages: int, seed: int = 1) -> list[int]:
    """Some stages with heavy-tailed rewards and random next states; the actions."""
    rng = np.random.default_rng(seed)
    state = 0
    chosen = []
    for k in range(stages):
        h = k % agent.horizon
        action = agent.act(h, state)
        landed = int(rng.integers(agent.states))
        agent.update(h, state, action, float(rng.standard_t(2.1)), landed)
        chosen.append(int(action))
        state = landed
    return chosen


def _played(agent: Agent, episodes: int = EPISODES) -> Agent:
    """A fresh copy after some episodes."""
    agent = agent.fresh()
    _play(agent, episodes * agent.horizon)
    return agent


def declares_itself(agent: Agent) -> None:
    """It has a name, sizes, and a repr that names its class; it has learned nothing yet."""
    require(isinstance(agent.name, str) and agent.name != "", "has no name")
    for key in ("dim", "states", "actions", "horizon"):
        require(getattr(agent, key, 0) >= 1, f"has no {key}")
    require(type(agent).__name__ in repr(agent), "has a repr that does not name its class")
    require(agent.episodes == 0, "has learned something already; pass a fresh agent")


def acts_within_its_actions(agent: Agent) -> None:
    """``act`` is an int in range, the same when asked twice, and what ``policy`` says."""
    agent = _played(agent, 3)
    for h in range(agent.horizon):
        table = agent.policy
        require(table.shape == (agent.horizon, agent.states), f"has a policy {table.shape}")
        for s in range(agent.states):
            action = agent.act(h, s)
            require(isinstance(action, int), f"acts {action!r}, which is not an int")
            require(0 <= action < agent.actions, f"acts {action} of {agent.actions} actions")
            require(agent.act(h, s) == action, "acts otherwise when asked twice")
            require(table[h, s] == action, "does not do what its policy says")
        table[...] = -1
        require(agent.policy.min() >= 0, "hands out its own policy, not a copy")
        agent.update(h, 0, agent.act(h, 0), 0.5, 0)


def counts_its_episodes(agent: Agent) -> None:
    """``episodes`` counts those over; acting twice changes nothing, and stages come in order."""
    agent = agent.fresh()
    for k in range(3):
        for h in range(agent.horizon):
            require(agent.episodes == k, f"says episodes={agent.episodes} after {k}")
            action = agent.act(h, 0)
            before = snapshot(agent)
            agent.act(h, 0)
            require(snapshot(agent) == before, "changes its state when it acts again")
            refused(agent, partial(agent.act, h + 1, 0), "a stage out of order")
            agent.update(h, 0, action, 0.5, 0)


def refuses_bad_input(agent: Agent) -> None:
    """A bad stage, state, action, reward or scale is refused, nothing changes, before an episode
    and within one; the next good call works.
    """
    for stages in (0, EPISODES * agent.horizon, EPISODES * agent.horizon + agent.horizon - 1):
        twin = agent.fresh()
        _play(twin, stages)
        h = stages % twin.horizon
        for what, call in _bad_calls(twin, h).items():
            refused(twin, partial(twin.update, *call), what)
        for scale in (0.0, -1.0, np.nan, np.inf):
            scaled = partial(twin.update, h, 0, 0, 0.0, 0, scale=scale)
            refused(twin, scaled, f"a scale of {scale}")
        refused(twin, partial(twin.act, h, twin.states), "a state that is not")
        twin.update(h, 0, 0, 1.0, 0)


def _bad_calls(agent: Agent, h: int) -> dict[str, tuple[Any, ...]]:
    return {
        "another stage": (h + 1, 0, 0, 0.0, 0),
        "a stage of text": ("0", 0, 0, 0.0, 0),
        "a state that is not": (h, agent.states, 0, 0.0, 0),
        "a negative state": (h, -1, 0, 0.0, 0),
        "an action that is not": (h, 0, agent.actions, 0.0, 0),
        "half an action": (h, 0, 0.5, 0.0, 0),
        "a next state that is not": (h, 0, 0, 0.0, agent.states),
        "a reward of NaN": (h, 0, 0, np.nan, 0),
        "an infinite reward": (h, 0, 0, -np.inf, 0),
        "a reward of text": (h, 0, 0, "1.0", 0),
        "no reward": (h, 0, 0, None, 0),
    }


def survives_extremes(agent: Agent) -> None:
    """Rewards of ±1e300 are learned, or refused untouched; actions stay in range, and nothing
    that is remembered is NaN.
    """
    agent = _played(agent)
    h = 0
    for reward in (1e300, -1e300, 1e-300, 0.0):
        for scale in (1.0, 1e-200):
            before = snapshot(agent)
            try:
                with np.errstate(all="ignore"):  # which kernels in plain Python would speak of
                    agent.update(h, 0, 0, reward, 0, scale=scale)
            except ValueError:
                same = snapshot(agent) == before
                require(same, f"refuses a reward of {reward} at scale {scale} but has changed")
            else:
                h = (h + 1) % agent.horizon
            action = agent.act(h, 0)
            require(0 <= action < agent.actions, f"acts {action} after a reward of {reward}")
    sound = not any(np.isnan(array).any() for array in agent.state_arrays().values())
    require(sound, "remembers what is not a number after extreme rewards")


def clones_stand_apart(agent: Agent) -> None:
    """A clone has learned what its origin had and goes its own way."""
    agent = agent.fresh()
    _play(agent, 7 * agent.horizon)
    twin = agent.clone()
    require(snapshot(twin) == snapshot(agent), "has a clone that knows something else")
    before = snapshot(agent)
    chosen = _play(twin, 5 * agent.horizon, seed=2)
    require(snapshot(agent) == before, "learns when its clone does")
    require(_play(agent, 5 * agent.horizon, seed=2) == chosen, "and its clone part ways")


def starts_afresh(agent: Agent) -> None:
    """``fresh()`` has learned nothing and leaves the agent it was asked of alone."""
    new = snapshot(agent.fresh())
    agent = _played(agent)
    before = snapshot(agent)
    other = agent.fresh()
    require(other.episodes == 0 and snapshot(other) == new, "is not fresh after fresh()")
    _play(other, agent.horizon)
    require(snapshot(agent) == before, "changes when a fresh copy learns")


def repeats_itself(agent: Agent) -> None:
    """The same seed and rewards lead to the same actions and the same state, to the bit."""
    first, second = agent.fresh(), agent.fresh()
    first.reseed(5)
    second.reseed(5)
    stages = EPISODES * agent.horizon
    require(_play(first, stages) == _play(second, stages), "acts otherwise on the same rewards")
    require(snapshot(first) == snapshot(second), "ends in another state on the same rewards")


def resumes_to_the_bit(agent: Agent) -> None:
    """Saved, loaded and continued equals never having stopped, between episodes and within."""
    for stop in (0, 4 * agent.horizon, 5 * agent.horizon - 1):
        straight = agent.fresh()
        _play(straight, stop)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.npz"
            straight.save(path)
            resumed = load(path, kinds=(type(agent),))
        require(snapshot(resumed) == snapshot(straight), f"is another after {stop} stages")
        while straight.episodes * agent.horizon < stop:  # to the end of the episode
            for each in (straight, resumed):
                each.update(stop % agent.horizon, 0, 0, 0.5, 0)
        rest = 4 * agent.horizon
        require(_play(resumed, rest) == _play(straight, rest), f"goes on otherwise after {stop}")
        require(snapshot(resumed) == snapshot(straight), f"drifts after a save at stage {stop}")


def keeps_its_memory_bounded(agent: Agent) -> None:
    """The reward part is of one size for ever where it is one-pass; the rest grows by one
    transition per stage, and both grow with episodes alone.
    """
    agent = _played(agent, 3)
    reward, rest = agent.reward_bytes, agent.state_bytes - agent.reward_bytes
    _play(agent, 30 * agent.horizon)
    require(agent.state_bytes > 0, "says that it remembers nothing")
    if agent.one_pass_rewards:
        same = agent.reward_bytes == reward
        require(same, f"grows from {reward} to {agent.reward_bytes} bytes of rewards")
    grown = agent.state_bytes - agent.reward_bytes - rest
    most = 30 * agent.horizon * BYTES_PER_STAGE
    require(grown <= most, f"remembers {grown} bytes of 30 episodes, above {most}")


def keeps_its_bounds_in_order(agent: Agent) -> None:
    """Where it has bounds on Q, 0 <= lower <= upper <= the stages left, at every plan."""
    if not hasattr(agent, "upper") or not hasattr(agent, "lower"):
        return
    agent = agent.fresh()
    most = np.arange(agent.horizon, 0, -1.0)[:, None, None]
    for _ in range(EPISODES):
        _play(agent, agent.horizon)
        require(agent.policy.shape == (agent.horizon, agent.states), "has no policy")
        upper, lower = agent.upper, agent.lower
        require(bool((lower >= 0.0).all()), f"has a lower bound of {lower.min():g}")
        require(bool((upper <= most).all()), "has an upper bound above what can be paid")
        gap = (upper - lower).min()
        require(bool(gap >= 0.0), f"has a lower bound above the upper one, by {-gap:g}")


def learns_an_easy_environment(agent: Agent) -> None:
    """Where actions differ clearly, move the state at random and have little noise, late actions
    earn at least half of what the best earn over random ones.
    """
    agent = agent.fresh()
    rng = np.random.default_rng(4)
    features = agent.features
    means = features @ np.linspace(0.0, 1.0, agent.dim)
    means = means / np.abs(means).max()
    episodes, tail = 200, 60
    earned = best = average = 0.0
    for k in range(episodes):
        state = int(rng.integers(agent.states))
        for h in range(agent.horizon):
            action = agent.act(h, state)
            landed = int(rng.integers(agent.states))
            noise = 0.1 * float(rng.standard_normal())
            agent.update(h, state, action, float(means[state, action]) + noise, landed, scale=0.1)
            if k >= episodes - tail:
                earned += means[state, action]
                best += means[state].max()
                average += means[state].mean()
            state = landed
    share = (earned - average) / (best - average) if best > average else 1.0
    require(share >= 0.5, f"earns {share:.2f} of what the best actions earn over random ones")


AGENT_CHECKS: dict[str, Callable[[Agent], None]] = {
    check.__name__: check
    for check in (
        declares_itself,
        acts_within_its_actions,
        counts_its_episodes,
        refuses_bad_input,
        survives_extremes,
        clones_stand_apart,
        starts_afresh,
        repeats_itself,
        resumes_to_the_bit,
        keeps_its_memory_bounded,
        keeps_its_bounds_in_order,
        learns_an_easy_environment,
    )
}
