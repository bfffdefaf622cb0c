"""Linear MDPs to learn in: a random one, the river to swim up, the lock to open."""

from __future__ import annotations

import math

import numpy as np

from heavytail._storage import afford
from heavytail._validate import check_count, check_flag, check_number
from heavytail.environments.noise import Noise
from heavytail.mdp.world import LinearMDP

__all__ = ["combination_lock", "random_mdp", "river_swim"]


def random_mdp(
    dim: int = 10,
    *,
    noise: Noise,
    states: int = 20,
    actions: int = 5,
    horizon: int = 10,
    concentration: float = 0.1,
    bias: bool = False,
    seed: int = 0,
) -> LinearMDP:
    """A random linear MDP: features are distributions over d latent moves, each move one over S.

    phi(s, a) and the rows of mu_h are Dirichlet, so phi'mu_h is a distribution by construction;
    theta_h is uniform on [0, 1]^d, so mean rewards lie in [0, 1].

    >>> import heavytail as ht
    >>> from heavytail.mdp import random_mdp
    >>> random_mdp(10, noise=ht.noise.StudentT(1.7))
    RandomMDP(d=10, S=20, A=5, H=10, noise=StudentT(df=1.7))

    Args:
        dim: d.
        noise: of the rewards.
        states: S.
        actions: A.
        horizon: H.
        concentration: of both Dirichlets; the smaller, the nearer to deterministic moves.
        bias: whether the last feature is a constant, as in most linear models; phi is then
            (distribution over d - 1 moves, 1) / sqrt(2).
        seed: fixes the environment.
    """
    bias = check_flag("random_mdp.bias", bias)
    d = check_count("random_mdp.dim", dim, least=1 + bias)
    S, A = check_count("random_mdp.states", states), check_count("random_mdp.actions", actions)
    H = check_count("random_mdp.horizon", horizon)
    sizes = {"dim": d, "states": S, "actions": A, "horizon": H}
    afford("random_mdp", S * A * d + H * S * max(d, A * S), sizes)
    alpha = check_number("random_mdp.concentration", concentration, above=0.0)
    rng = np.random.default_rng(
        np.random.SeedSequence([check_count("seed", seed, least=0, most=math.inf), 1])
    )
    moves = d - bias
    features = rng.dirichlet(np.full(moves, alpha), (S, A))
    theta, mu = rng.random((H, moves)), rng.dirichlet(np.full(S, alpha), (H, moves))
    if bias:  # the constant is free: it is given half of the mean, so that no part is very large
        features = np.concatenate([features, np.ones((S, A, 1))], axis=2) / math.sqrt(2.0)
        theta = _with_constant(theta)
        mu = _with_constant(mu)
    return LinearMDP(features, theta=theta, mu=mu, noise=noise, name="RandomMDP")


def _with_constant(moves: np.ndarray) -> np.ndarray:
    """The same function of the moves, less half its mean over moves, which the constant bears."""
    centre = 0.5 * moves.mean(axis=1, keepdims=True)
    return math.sqrt(2.0) * np.concatenate([moves - centre, centre], axis=1)


def river_swim(*, noise: Noise, states: int = 5, horizon: int = 10) -> LinearMDP:
    """RiverSwim: drifting left pays 0.005 at once, swimming right against the current pays 1, late.

    Strehl and Littman (2008), with the probabilities of Osband, Russo and Van Roy (2013); features
    are one-hot in (state, action), d = 2 S. Action 0 is left, 1 is right.
    """
    S = check_count("river_swim.states", states, least=2)
    H = check_count("river_swim.horizon", horizon)
    afford("river_swim", S * 2 * S * max(H, 2), {"states": S, "horizon": H})
    move = np.zeros((S, 2, S))
    for s in range(S):
        move[s, 0, max(s - 1, 0)] = 1.0
    move[0, 1, [0, 1]] = 0.4, 0.6
    for s in range(1, S - 1):
        move[s, 1, [s - 1, s, s + 1]] = 0.05, 0.6, 0.35
    move[S - 1, 1, [S - 2, S - 1]] = 0.4, 0.6
    pay = np.zeros((S, 2))
    pay[0, 0], pay[S - 1, 1] = 0.005, 1.0
    return _tabular(move, pay, H, noise, "RiverSwim")


def combination_lock(
    *, noise: Noise, horizon: int = 6, actions: int = 3, lure: float = 0.1, seed: int = 0
) -> LinearMDP:
    """The combination lock: one right action per stage, and only the whole combination pays 1.

    A wrong action pays ``lure`` and leads to a state where nothing is paid until the episode ends.
    Two states, features one-hot in (state, action), d = 2 A; the combination is drawn by ``seed``.
    """
    H = check_count("combination_lock.horizon", horizon)
    A = check_count("combination_lock.actions", actions, least=2)
    afford("combination_lock", 4 * A * max(H, A), {"horizon": H, "actions": A})
    lure = check_number("combination_lock.lure", lure, least=0.0, below=1.0)
    rng = np.random.default_rng(
        np.random.SeedSequence([check_count("seed", seed, least=0, most=math.inf), 2])
    )
    right = rng.integers(0, A, H)
    move = np.zeros((H, 2, A, 2))
    move[..., 1] = 1.0  # state 1 is the dead end
    pay = np.zeros((H, 2, A))
    pay[:, 0, :] = lure
    for h in range(H):
        move[h, 0, right[h]] = 1.0, 0.0
        pay[h, 0, right[h]] = float(h == H - 1)
    return _tabular(move, pay, H, noise, "CombinationLock")


def _tabular(move: np.ndarray, pay: np.ndarray, horizon: int, noise: Noise, name: str) -> LinearMDP:
    """Any finite MDP as a linear one: phi one-hot in (s, a), theta and mu its tables."""
    S, A = pay.shape[-2:]
    return LinearMDP(
        np.eye(S * A).reshape(S, A, S * A),
        theta=pay.reshape(*pay.shape[:-2], S * A),
        mu=move.reshape(*move.shape[:-3], S * A, S),
        noise=noise,
        horizon=horizon,
        name=name,
    )
