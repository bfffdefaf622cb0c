"""The linear MDP, its exact values, and the randomness its episodes are dealt from.

Jin, Yang, Wang and Jordan (COLT 2020), Assumption A, with finitely many states, so that every value
is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._storage import afford
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import NORM_SLACK, as_numbers, check_count, check_number, shown
from heavytail.environments.noise import Noise, describe
from heavytail.kernels.jit import jit

__all__ = ["Draws", "LinearMDP"]

BLOCK = 64  # episodes dealt at a time
SUM_TOLERANCE = 1e-9  # by which a row of probabilities may miss 1: rounding, not a mistake


@dataclass(frozen=True)
class Draws:
    """The randomness of some episodes, the same for every agent that meets them.

    ``first`` (episodes,) are the first states. ``uniform`` and ``noise`` (episodes, H) fix a
    stage's transition (by inverting its distribution) and the noise of its reward; ``factor`` is
    what that noise's scale was multiplied by, None where it is constant.
    """

    first: IntArray
    uniform: FloatArray
    noise: FloatArray
    factor: FloatArray | None = None

    @property
    def length(self) -> int:
        """Episodes."""
        return self.noise.shape[0]

    def part(self, start: int, stop: int) -> Draws:
        """Episodes ``start`` to ``stop``."""
        return Draws(
            self.first[start:stop],
            self.uniform[start:stop],
            self.noise[start:stop],
            None if self.factor is None else self.factor[start:stop],
        )


class LinearMDP:
    r"""Episodes of H stages whose rewards and transitions are linear in known features.

    $$\mathbb E[r_h\mid s,a] = \langle\phi(s,a),\theta_h\rangle,\qquad
      P_h(s'\mid s,a) = \langle\phi(s,a),\mu_h(s')\rangle$$

    Mean rewards lie in [0, 1]; the noise may be any of :mod:`heavytail.noise`. Optimal values come
    from dynamic programming, so regret is exact: it has neither the noise of the rewards nor that
    of the transitions.

    >>> import numpy as np, heavytail as ht
    >>> from heavytail.mdp import LinearMDP
    >>> phi = np.array([[[1.0, 0.0], [0.0, 1.0]]])      # one state, two actions
    >>> world = LinearMDP(phi, theta=[[0.2, 0.7]], mu=np.ones((1, 2, 1)), noise=ht.noise.Gaussian())
    >>> world.optimal_value
    0.7

    Args:
        features: phi, shape (S, A, d); no vector longer than ``feature_bound``.
        theta: (H, d), or (d,) for rewards that are the same in every stage (then give ``horizon``).
        mu: (H, d, S), or (d, S) for transitions that are the same in every stage.
        noise: one of :mod:`heavytail.noise`, added to every reward.
        horizon: H; read off ``theta`` or ``mu`` where either has a stage axis.
        start: distribution of the first state, (S,); state 0 unless given.
        feature_bound: the largest length of a feature vector.
        name: how it is shown.
    """

    def __init__(
        self,
        features: ArrayLike,
        theta: ArrayLike,
        mu: ArrayLike,
        noise: Noise,
        *,
        horizon: int | None = None,
        start: ArrayLike | None = None,
        feature_bound: float = 1.0,
        name: str = "LinearMDP",
    ) -> None:
        self.name = str(name)
        self.features = _floats("features", features, 3, "(S, A, d)")
        self.states, self.actions, self.dim = self.features.shape
        self.feature_bound = check_number("LinearMDP.feature_bound", feature_bound, above=0.0)
        if not isinstance(noise, Noise):
            raise TypeError(
                "LinearMDP.noise must be one of heavytail.noise, such as StudentT(2.1); "
                f"got {shown(noise)}."
            )
        self.noise = noise
        theta = as_numbers(theta, "LinearMDP.theta", "numbers of shape (H, d)")
        mu = as_numbers(mu, "LinearMDP.mu", "numbers of shape (H, d, S)")
        self.horizon = _horizon(horizon, theta, mu)
        S, A, H = self.states, self.actions, self.horizon
        afford("LinearMDP", H * S * A * S, {"horizon": H, "states": S, "actions": A})
        self.theta = _staged("theta", theta, self.horizon, (self.dim,))
        self.mu = _staged("mu", mu, self.horizon, (self.dim, self.states))
        self._check_features()
        self.transitions = np.einsum("sad,hdt->hsat", self.features, self.mu)
        self._check_transitions()
        self.means = np.einsum("sad,hd->hsa", self.features, self.theta)
        self._check_means()
        self.start = self._check_start(start)
        self._cumulative = np.cumsum(self.transitions, axis=3)
        self.values, self.action_values = self._solve()

    def __repr__(self) -> str:
        return (
            f"{self.name}(d={self.dim}, S={self.states}, A={self.actions}, H={self.horizon}, "
            f"noise={self.noise!r})"
        )

    def describe(self) -> dict[str, Any]:
        """The sizes and noise as plain data, for results and settings files."""
        keys = ("name", "dim", "states", "actions", "horizon")
        return {**{key: getattr(self, key) for key in keys}, "noise": describe(self.noise)}

    @property
    def optimal_value(self) -> float:
        """The mean return of an optimal policy from the start."""
        return float(self.start @ self.values[0])

    @property
    def optimal_policy(self) -> IntArray:
        """An optimal action for every (stage, state), shape (H, S)."""
        return self.action_values.argmax(axis=2).astype(np.int64)

    def value(self, policy: ArrayLike) -> FloatArray:
        """V^pi of a policy given as actions (H, S): exact, shape (H + 1, S)."""
        actions = np.asarray(policy)
        shape = (self.horizon, self.states)
        if actions.shape != shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"LinearMDP.value: policy must be whole numbers of shape (H, S) = {shape}; "
                f"got {actions.dtype} of shape {actions.shape}."
            )
        if actions.min() < 0 or actions.max() >= self.actions:
            raise ValueError(
                f"LinearMDP.value: actions must lie in 0..{self.actions - 1}; "
                f"got {actions.min()}..{actions.max()}."
            )
        out = np.zeros((self.horizon + 1, self.states))
        evaluate(self.transitions, self.means, actions.astype(np.int64), out)
        return out

    def next_state(self, stage: int, state: int, action: int, uniform: float) -> int:
        """Where a uniform number in [0, 1) leads: the inverse of the transition's distribution."""
        return int(land(self._cumulative, stage, state, action, uniform))

    def deal(self, seed: np.random.SeedSequence) -> Iterator[Draws]:
        """Blocks of episodes' randomness without end; the same seed deals the same."""
        children = [
            np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in range(4)
        ]
        first, uniform, noise, factors = (np.random.default_rng(child) for child in children)
        edges = np.cumsum(self.start)
        shape = (BLOCK, self.horizon)
        while True:
            eta = self.noise.sample(noise, BLOCK * self.horizon).reshape(shape)
            drawn = self.noise.factors(factors, BLOCK * self.horizon)
            factor = None if drawn is None else drawn.reshape(shape)
            states = np.searchsorted(edges, first.random(BLOCK), side="right")
            yield Draws(
                first=np.minimum(states, self.states - 1).astype(np.int64),
                uniform=uniform.random(shape),
                noise=eta if factor is None else eta * factor,
                factor=factor,
            )

    def _solve(self) -> tuple[FloatArray, FloatArray]:
        """V* (H + 1, S) and Q* (H, S, A), by backward induction."""
        values = np.zeros((self.horizon + 1, self.states))
        action_values = np.zeros_like(self.means)
        for h in range(self.horizon - 1, -1, -1):
            action_values[h] = self.means[h] + self.transitions[h] @ values[h + 1]
            values[h] = action_values[h].max(axis=1)
        return values, action_values

    def _check_features(self) -> None:
        lengths = np.linalg.norm(self.features, axis=2)
        if lengths.max() > self.feature_bound * (1.0 + NORM_SLACK):
            s, a = np.unravel_index(lengths.argmax(), lengths.shape)
            raise ValueError(
                f"LinearMDP.features[{s}, {a}] has norm {lengths.max():.6g}, above the bound "
                f"{self.feature_bound:g}. Rescale the features, or raise feature_bound."
            )

    def _check_transitions(self) -> None:
        p = self.transitions
        if p.min() < -SUM_TOLERANCE:
            h, s, a, t = np.unravel_index(p.argmin(), p.shape)
            raise ValueError(
                f"LinearMDP.mu gives a negative probability {p.min():.6g} of state {t} after stage "
                f"{h}, state {s}, action {a}: phi(s, a)'mu_h must be a distribution for every s, a."
            )
        off = np.abs(p.sum(axis=3) - 1.0)
        if off.max() > SUM_TOLERANCE:
            h, s, a = np.unravel_index(off.argmax(), off.shape)
            raise ValueError(
                f"LinearMDP.mu: the transition row of stage {h}, state {s}, action {a} sums to "
                f"{p[h, s, a].sum():.6g}, not to 1: phi(s, a)'mu_h must be a distribution."
            )
        np.clip(p, 0.0, None, out=p)

    def _check_means(self) -> None:
        m = self.means
        if m.min() < -SUM_TOLERANCE or m.max() > 1.0 + SUM_TOLERANCE:
            worst = m.argmin() if m.min() < -SUM_TOLERANCE else m.argmax()
            h, s, a = np.unravel_index(worst, m.shape)
            raise ValueError(
                f"LinearMDP.theta gives the mean reward {m[h, s, a]:.6g} at stage {h}, state {s}, "
                f"action {a}: means must lie in [0, 1]. Shift and rescale the rewards."
            )

    def _check_start(self, start: ArrayLike | None) -> FloatArray:
        if start is None:
            return np.eye(self.states)[0]
        array = _floats("start", start, 1, "(S,)")
        if array.shape != (self.states,):
            raise ValueError(
                f"LinearMDP.start must have shape ({self.states},), one entry per state; "
                f"got shape {array.shape}."
            )
        if array.min() < 0.0 or abs(array.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(
                f"LinearMDP.start must be a distribution; it sums to {array.sum():.6g} "
                f"and its least entry is {array.min():.6g}."
            )
        return array


@jit
def land(cumulative: FloatArray, stage: int, state: int, action: int, uniform: float) -> int:
    """The first state at which the transition's distribution passes ``uniform``."""
    last = cumulative.shape[3] - 1
    for t in range(last):
        if uniform < cumulative[stage, state, action, t]:
            return t
    return last


@jit
def evaluate(transitions: FloatArray, means: FloatArray, table: IntArray, out: FloatArray) -> None:
    """V^pi of the actions ``table`` (H, S) into ``out`` (H + 1, S). O(H S²)."""
    for s in range(means.shape[1]):
        out[means.shape[0], s] = 0.0
    for h in range(means.shape[0] - 1, -1, -1):
        for s in range(means.shape[1]):
            a = table[h, s]
            total = means[h, s, a]
            for t in range(means.shape[1]):
                total += transitions[h, s, a, t] * out[h + 1, t]
            out[h, s] = total


def _horizon(horizon: int | None, theta: FloatArray, mu: FloatArray) -> int:
    stages = {len(array) for array, axes in ((theta, 2), (mu, 3)) if array.ndim == axes}
    if horizon is not None:
        stages.add(check_count("LinearMDP.horizon", horizon))
    if len(stages) > 1:
        raise ValueError(
            f"LinearMDP: horizon, theta and mu disagree on the number of stages: {sorted(stages)}. "
            "theta is (H, d) or (d,), mu is (H, d, S) or (d, S)."
        )
    if not stages or min(stages) < 1:
        raise ValueError(
            "LinearMDP.horizon must be given where neither theta nor mu has a stage axis."
        )
    return stages.pop()


def _floats(name: str, value: ArrayLike, axes: int, wanted: str) -> FloatArray:
    array = as_numbers(value, f"LinearMDP.{name}", f"numbers of shape {wanted}")
    if array.ndim != axes or array.size == 0:
        raise ValueError(f"LinearMDP.{name} must have shape {wanted}; got shape {array.shape}.")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"LinearMDP.{name} must be finite; got {array[where]} at {where}.")
    return array.copy(order="C")


def _staged(name: str, value: ArrayLike, horizon: int, shape: tuple[int, ...]) -> FloatArray:
    """``value`` with a stage axis in front, checked against ``shape``."""
    symbols = {"theta": "(H, d)", "mu": "(H, d, S)"}[name]
    array = np.asarray(value)
    if array.ndim == len(shape):
        array = np.broadcast_to(array, (horizon, *array.shape))
    array = _floats(name, array, len(shape) + 1, symbols)
    if array.shape != (horizon, *shape):
        raise ValueError(
            f"LinearMDP.{name} must have shape {symbols} = {(horizon, *shape)} to fit features; "
            f"got {array.shape}."
        )
    return array
