"""The players of benchmarks/decider.py: what a shop could use instead of one door.

A player has ``choose(context)``, an index of an offer, and ``learn(reward)``. It gets the play for
its offers, the visitors seen beforehand, and as a shortcut: one that computes the vectors or the
forecasts of many rounds in one go reads the columns of rounds to come, and uses each in its round.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import heavytail as ht
from benchmarks.decider_worlds import Columns, Play
from heavytail._typing import FloatArray

ROOT = Path(__file__).parents[1]


class Player(Protocol):
    """Chooses an offer for a context, then learns its reward."""

    def choose(self, context: dict[str, Any]) -> int: ...

    def learn(self, reward: float) -> None: ...


def choices(player: Player, play: Play) -> list[int]:
    """The whole trial, round by round."""
    chosen = []
    for t in range(play.rounds):
        k = player.choose(play.context(t))
        player.learn(float(play.rewards[t, k]))
        chosen.append(k)
    return chosen


# Policies on an encoder


def joined(play: Play, columns: Columns, start: int = 0, stop: int | None = None) -> dict[str, Any]:
    """Rows (round, offer), offers fastest, as columns."""
    count = len(play.offers)
    cut = {name: column[start:stop] for name, column in columns.items()}
    rounds = len(next(iter(cut.values()))) if cut else (stop or 1) - start
    rows: dict[str, Any] = {name: np.repeat(column, count) for name, column in cut.items()}
    for name in play.offers[0]:
        rows[name] = np.tile(np.array([offer[name] for offer in play.offers]), rounds)
    return rows


def linear_encoder(play: Play) -> ht.Encoder:
    """Straight lines: every number, category and feature of an offer, the offer itself, and every
    column of the context crossed with the offer and its features.
    """
    features = play.features
    own = ["id", *features]
    encoder = ht.Encoder(
        numbers=[*play.numbers, *(c for c in features if features[c])],
        categories=[*play.categories, "id", *(c for c in features if not features[c])],
        crosses=[(c, o) for c in play.columns for o in own],
    )
    return encoder.fit(joined(play, play.before))


class OnLines:
    """A policy of heavytail over the vectors of ``linear_encoder``."""

    def __init__(self, play: Play, new: Callable[[int, float], ht.Policy]) -> None:
        self.play, self.encoder = play, linear_encoder(play)
        self.policy = new(self.encoder.dim, float(np.std(play.rewards - play.means)))
        self.t, self.count, self.start = 0, len(play.offers), 0
        self.chunk = max(1, 2_000_000 // (self.count * self.encoder.dim))
        self.X: FloatArray = np.zeros((0, self.count, self.encoder.dim))

    def choose(self, context: dict[str, Any]) -> int:
        if self.t - self.start >= len(self.X):
            self.start, stop = self.t, min(self.t + self.chunk, self.play.rounds)
            rows = joined(self.play, self.play.columns, self.t, stop)
            self.X = self.encoder.transform(rows).reshape(-1, self.count, self.encoder.dim)
        self.arms = self.X[self.t - self.start]
        self.k = self.policy.select(self.arms)
        return self.k

    def learn(self, reward: float) -> None:
        self.policy.update(self.arms[self.k], reward)
        self.t += 1


# Players without a context


class Separate:
    """One arm an offer, whatever the context."""

    def __init__(self, play: Play) -> None:
        self.arms = np.eye(len(play.offers))
        self.policy = ht.TwinUCB(len(self.arms))

    def choose(self, context: dict[str, Any]) -> int:
        self.k = self.policy.select(self.arms)
        return self.k

    def learn(self, reward: float) -> None:
        self.policy.update(self.arms[self.k], reward)


class UCB1:
    """The mean of each offer plus R sqrt(2 log(t) / n); R, the deviation of rewards, is told."""

    def __init__(self, play: Play) -> None:
        self.size = float(np.std(play.rewards - play.means))
        self.n, self.sums = np.zeros((2, len(play.offers)))

    def choose(self, context: dict[str, Any]) -> int:
        n = np.maximum(self.n, 1e-9)
        up = self.size * np.sqrt(2.0 * np.log(self.n.sum() + 1.0) / n)
        self.k = int(np.argmax(np.where(self.n == 0, np.inf, self.sums / n + up)))
        return self.k

    def learn(self, reward: float) -> None:
        self.n[self.k] += 1.0
        self.sums[self.k] += reward


# Boosting


class Boosting:
    """Epsilon-greedy boosted trees, fitted anew every 500 rounds and from 2000 on every 1.3 t.

    One model of (context, offer) or, with ``each``, one an offer. ``epsilon`` None decays as
    min(1, (1000 / t)^(2/3)), at least 0.01.
    """

    def __init__(self, play: Play, epsilon: float | None, each: bool, seed: int) -> None:
        self.play, self.epsilon, self.each = play, epsilon, each
        self.rng = np.random.default_rng([77, seed])
        self.count, self.t, self.due, self.stop = len(play.offers), 0, 500, 0
        self.chosen: list[int] = []
        self.rewards: list[float] = []
        self.models: list[Any] = []
        self.codes = [
            np.unique(column, return_inverse=True)[1].astype(float)
            if column.dtype.kind != "f"
            else column
            for column in play.columns.values()
        ]
        self.kinds = [column.dtype.kind != "f" for column in play.columns.values()]
        self.own = np.column_stack(
            [
                np.arange(float(self.count)),
                *(
                    np.unique([o[c] for o in play.offers], return_inverse=True)[1]
                    if not number
                    else [o[c] for o in play.offers]
                    for c, number in play.features.items()
                ),
            ]
        )
        self.own_kinds = [self.count <= 255, *(not number for number in play.features.values())]

    def _rows(self, start: int, stop: int) -> FloatArray:
        return np.column_stack([column[start:stop] for column in self.codes] or [np.zeros((0, 0))])

    def _new(self, kinds: list[bool]) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(
            max_iter=100,
            max_leaf_nodes=15,
            min_samples_leaf=20,
            early_stopping=True,
            n_iter_no_change=5,
            categorical_features=kinds if any(kinds) else None,
            random_state=0,
        )

    def _fit(self) -> None:
        chosen, y = np.array(self.chosen), np.array(self.rewards)
        X = self._rows(0, self.t)
        if self.each:
            self.models = []
            for k in range(self.count):
                mine = chosen == k
                few = mine.sum() < 25 or not self.codes
                mean = float(y[mine].mean()) if mine.any() else 0.0
                self.models.append(mean if few else self._new(self.kinds).fit(X[mine], y[mine]))
        else:
            rows = np.hstack([X.reshape(self.t, -1), self.own[chosen]])
            self.models = [self._new(self.kinds + self.own_kinds).fit(rows, y)]

    def _forecast(self, start: int, stop: int) -> FloatArray:
        n = stop - start
        X = self._rows(start, stop).reshape(n, -1) if self.codes else np.zeros((n, 0))
        if self.each:
            parts = [
                np.full(n, m) if isinstance(m, float) else m.predict(X)  #
                for m in self.models
            ]
            return np.column_stack(parts)
        rows = np.hstack([np.repeat(X, self.count, axis=0), np.tile(self.own, (n, 1))])
        return self.models[0].predict(rows).reshape(n, self.count)

    def choose(self, context: dict[str, Any]) -> int:
        if self.t >= self.due:
            self._fit()
            self.due = self.t + 500 if self.t < 2000 else int(1.3 * self.t)
            self.stop = self.t
        if self.models and self.t >= self.stop:
            self.start = self.t
            self.stop = min(self.due, self.play.rounds, self.t + 200_000 // self.count)
            self.ahead = self._forecast(self.start, self.stop)
        share = self.epsilon
        if share is None:
            share = max(0.01, min(1.0, (1000.0 / (self.t + 1)) ** (2.0 / 3.0)))
        if not self.models or self.rng.random() < share:
            self.k = int(self.rng.integers(self.count))
        else:
            self.k = int(np.argmax(self.ahead[self.t - self.start]))
        return self.k

    def learn(self, reward: float) -> None:
        self.chosen.append(self.k)
        self.rewards.append(reward)
        self.t += 1


# Vowpal Wabbit


def vw_lines(play: Play) -> tuple[list[str], list[str]]:
    """The shared line of every round and the line of every offer. Numbers are centred and scaled
    as an Encoder does it, or Vowpal Wabbit would have to.
    """
    parts: list[list[str]] = []
    for name, column in play.columns.items():
        if column.dtype.kind == "f":
            parts.append([f"{name}:{z:.4f}" for z in _scaled(column, play.before[name])])
        else:
            parts.append([f"{name}={value}" for value in column])
    shared = ["shared |c " + " ".join(row) for row in zip(*parts, strict=True)]
    own: list[list[str]] = [[f"id={offer['id']}" for offer in play.offers]]
    for name, number in play.features.items():
        values = np.array([offer[name] for offer in play.offers])
        own.append(
            [f"{name}:{z:.4f}" for z in _scaled(values, values)]
            if number
            else [f"{name}={value}" for value in values]
        )
    return shared or [""] * play.rounds, ["|o " + " ".join(row) for row in zip(*own, strict=True)]


def _scaled(column: FloatArray, sample: FloatArray) -> FloatArray:
    middle = np.median(sample)
    spread = 1.4826 * np.median(np.abs(sample - middle)) or np.std(sample) or 1.0
    return np.clip((column - middle) / spread, -3.0, 3.0)


def vowpal_wabbit(play: Play, options: str, seed: int) -> list[int]:
    """The choices of Vowpal Wabbit, by its own interpreter (``make .bench/.ready``)."""
    if not (ROOT / ".bench/bin/python").exists():
        raise Skipped("make .bench/.ready installs it")
    shared, offers = vw_lines(play)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "play.json"
        path.write_text(json.dumps({"shared": shared, "offers": offers}))
        np.save(Path(folder) / "rewards.npy", play.rewards)
        command = [ROOT / ".bench/bin/python", ROOT / "benchmarks/peer_vw_offers.py", path]
        done = subprocess.run(
            [*command, f"--cb_explore_adf --quiet {options}", str(seed)],
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return list(json.loads(done.stdout))


# The one door


class Decider:
    """``ht.Decider`` as a shop uses it."""

    def __init__(self, play: Play, seed: int, **arguments: Any) -> None:
        made = ht.Decider  # type: ignore[attr-defined]
        if "seed" in inspect.signature(made).parameters:
            arguments["seed"] = seed
        if "price" in play.offers[0] and len(play.offers) == 46:
            self.shop = made(prices=ht.Grid(5, 50, 46), context=list(play.columns), **arguments)
            self.places = {f"{offer['price']:g}": k for k, offer in enumerate(play.offers)}
            return
        self.shop = made(play.offers, ids="id", context=list(play.columns), **arguments)
        self.places = {offer["id"]: k for k, offer in enumerate(play.offers)}

    def choose(self, context: dict[str, Any]) -> int:
        self.choice = self.shop.decide(context)
        return self.places[str(self.choice.id)]

    def learn(self, reward: float) -> None:
        self.shop.reward(self.choice.token, reward)


class Skipped(Exception):
    """A player that cannot play here, and why."""


def play_out(name: str, play: Play, seed: int) -> list[int]:
    """The offers that a player chose."""
    return choices(player(name, play, seed), play) if name not in VW else _vw(name, play, seed)


VW = {
    "vw": "-q ::",  # epsilon-greedy by default, and 0.05 its default epsilon
    "vw squarecb": "-q :: --squarecb",
    "vw cover 4": "-q :: --cover 4",
}
BOOSTING: dict[str, tuple[float | None, bool]] = {
    "boosting 0.05": (0.05, False),
    "boosting 0.1": (0.1, False),
    "boosting decay": (None, False),
    "boosting each 0.05": (0.05, True),
    "boosting each 0.1": (0.1, True),
    "boosting each decay": (None, True),
}
DECIDER: dict[str, dict[str, Any]] = {"decider": {}, "decider explore=0": {"explore": 0}}
ON_LINES: dict[str, Callable[[int, float, int], ht.Policy]] = {
    "linear": lambda dim, size, seed: ht.TwinUCB(dim),
    "OFUL": lambda dim, size, seed: ht.OFUL(dim, noise_scale=size),
    "LinTS": lambda dim, size, seed: ht.LinTS(dim, noise_scale=size, seed=seed),
}
SLOW = {"LinTS": 260, "linear": 2000, "OFUL": 2000}  # features that are too many to wait for
ALONE: dict[str, Callable[[Play], Player]] = {"separate arms": Separate, "UCB": UCB1}
PLAYERS = [*ON_LINES, *VW, *BOOSTING, *ALONE, *DECIDER]


def player(name: str, play: Play, seed: int) -> Player:
    """A player that has seen nothing yet."""
    if name in ON_LINES:
        features = linear_encoder(play).dim
        if features > SLOW[name]:
            raise Skipped(f"{features} features")
        return OnLines(play, lambda dim, size: ON_LINES[name](dim, size, seed))
    if name in BOOSTING:
        return Boosting(play, *BOOSTING[name], seed)
    if name in ALONE:
        return ALONE[name](play)
    if not hasattr(ht, "Decider"):
        raise Skipped("there is no ht.Decider yet")
    return Decider(play, seed, **DECIDER[name])


def _vw(name: str, play: Play, seed: int) -> list[int]:
    return vowpal_wabbit(play, VW[name], seed)
