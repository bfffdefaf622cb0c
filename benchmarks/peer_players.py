"""What each library does in the jobs of benchmarks/peers.py, in whichever interpreter has it.

    python peer_players.py LIBRARY JOB FOLDER

The folder has a world a file, drawn by benchmarks/peer_worlds.py. Printed as JSON: of every world
and setting the score of every trial and the processor time of a round. A library's first setting
is its default; the others are its obvious knob.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Settings = dict[str, Callable[..., Any]]


# Decisions: a player has choose(x), an arm, and learn(x, arm, reward).


class Decider:
    """``ht.Decider`` on a list of offers and the columns of the context."""

    def __init__(self, arms: int, dim: int, seed: int, **options: Any) -> None:
        import heavytail as ht

        self.names = [f"x{j}" for j in range(dim)]
        offers = [{"id": str(k)} for k in range(arms)]
        self.shop = ht.Decider(offers, ids="id", context=self.names, seed=seed, **options)

    def choose(self, x: np.ndarray) -> int:
        choice = self.shop.decide(dict(zip(self.names, x.tolist(), strict=True)))
        self.token = choice.token
        return int(choice.id)

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        self.shop.reward(self.token, reward)


class OnVectors:
    """A policy of heavytail; each arm has its own block of the vector."""

    def __init__(self, arms: int, dim: int, seed: int, policy: str, **options: Any) -> None:
        import heavytail as ht

        self.eye = np.eye(arms)
        self.policy = getattr(ht, policy)(arms * (dim + 1), **options)

    def choose(self, x: np.ndarray) -> int:
        x = np.append(x, 1.0) / np.sqrt(len(x) + 1.0)
        self.rows = np.kron(self.eye, x)
        return int(self.policy.select(self.rows))

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        self.policy.update(self.rows[arm], reward)


class VowpalWabbit:
    """One model over all arms, with every column crossed with the arm; costs are minus rewards."""

    def __init__(self, arms: int, dim: int, seed: int, options: str = "") -> None:
        from vowpalwabbit import Workspace

        self.work = Workspace(f"--cb_explore_adf -q ca --quiet {options}")
        self.lines = [f"|a id={k}" for k in range(arms)]
        self.rng = np.random.default_rng(seed)

    def choose(self, x: np.ndarray) -> int:
        shared = "shared |c " + " ".join(f"x{j}:{v:.6f}" for j, v in enumerate(x))
        self.first = [shared] if len(x) else []
        chances = np.asarray(self.work.predict([*self.first, *self.lines]))
        arm = int(self.rng.choice(len(chances), p=chances / chances.sum()))
        self.chance = chances[arm]
        return arm

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        lines = list(self.lines)
        lines[arm] = f"0:{-reward:.6f}:{max(self.chance, 1e-9):.9f} {lines[arm]}"
        self.work.learn([*self.first, *lines])


class ContextualBandits:
    """One linear model an arm."""

    def __init__(self, arms: int, dim: int, seed: int, kind: str, **options: Any) -> None:
        online = importlib.import_module("contextualbandits.online")
        self.policy = getattr(online, kind)(
            arms, random_state=seed + 1, njobs=1, **options
        )  # it takes no seed of 0

    def choose(self, x: np.ndarray) -> int:
        return int(self.policy.predict(x[None])[0])

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        self.policy.partial_fit(x[None], np.array([arm]), np.array([reward]))


class MABWiser:
    """One model an arm; the contexts get a column of ones, which it does not add."""

    def __init__(self, arms: int, dim: int, seed: int, kind: str, **options: Any) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        chosen = getattr(LearningPolicy, kind)(**options)
        self.policy, self.dim = MAB(list(range(arms)), chosen, seed=seed), dim
        self.fitted = False

    def choose(self, x: np.ndarray) -> int:
        if not self.fitted:
            return 0
        return int(
            self.policy.predict(np.append(x, 1.0)[None]) if self.dim else self.policy.predict()
        )

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        learn = self.policy.partial_fit if self.fitted else self.policy.fit
        more = [np.append(x, 1.0)[None]] if self.dim else []
        learn(np.array([arm]), np.array([reward]), *more)
        self.fitted = True


class River:
    """One model an arm; the contexts get a column of ones, which it does not add."""

    def __init__(self, arms: int, dim: int, seed: int, kind: str, *given: Any) -> None:
        from river import bandit

        self.policy, self.arms, self.dim = getattr(bandit, kind)(*given, seed=seed), arms, dim
        self.names = list(range(arms))

    def choose(self, x: np.ndarray) -> int:
        self.context = {f"x{j}": v for j, v in enumerate([1.0, *x.tolist()])}
        if self.dim:
            return int(self.policy.pull(self.names, context=self.context))
        return int(self.policy.pull(self.names))

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        if self.dim:
            self.policy.update(arm, self.context, reward)
        else:
            self.policy.update(arm, reward)


class Boosting:
    """Boosted trees, one model an arm, fitted anew whenever there are 1.3 times as many rows.

    They forecast in one go for all contexts of the trial, and each is used in its round.
    """

    def __init__(self, arms: int, dim: int, seed: int, epsilon: float) -> None:
        self.arms, self.epsilon, self.rng = arms, epsilon, np.random.default_rng(seed)
        self.rows: list[tuple[np.ndarray, int, float]] = []
        self.forecast: np.ndarray | None = None
        self.due = 100

    def choose(self, x: np.ndarray) -> int:
        if self.forecast is None or self.rng.random() < self.epsilon:
            return int(self.rng.integers(self.arms))
        return int(np.argmax(self.forecast[len(self.rows)]))

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor as Trees

        self.rows.append((x, arm, reward))
        if len(self.rows) < self.due:
            return
        self.due = int(1.3 * self.due)
        mine = [[row for row in self.rows if row[1] == k] for k in range(self.arms)]
        if min(map(len, mine)) >= 2:
            models = [Trees().fit([r[0] for r in rows], [r[2] for r in rows]) for rows in mine]
            self.forecast = np.column_stack([model.predict(self.contexts) for model in models])


class Ridge:
    """Ten lines of NumPy: a ridge regression an arm, Thompson's draws or epsilon-greedy."""

    def __init__(self, arms: int, dim: int, seed: int, size: float, epsilon: float = 0.0) -> None:
        self.P = np.tile(np.eye(dim + 1), (arms, 1, 1))
        self.b, self.size, self.epsilon = np.zeros((arms, dim + 1)), size, epsilon
        self.rng = np.random.default_rng(seed)

    def choose(self, x: np.ndarray) -> int:
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(self.b)))
        x = np.append(x, 1.0)
        u = self.P @ x
        spread = self.size * np.sqrt(np.maximum(u @ x, 0.0))
        return int(np.argmax((u * self.b).sum(axis=1) + spread * self.rng.normal(size=len(u))))

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        x = np.append(x, 1.0)
        u = self.P[arm] @ x
        self.P[arm] -= np.outer(u, u) / (1.0 + x @ u)
        self.b[arm] += reward * x


class Means:
    """Ten lines of NumPy: a running mean an arm, epsilon-greedy or UCB1."""

    def __init__(self, arms: int, dim: int, seed: int, epsilon: float, bonus: float = 0.0) -> None:
        self.n, self.mean = np.zeros((2, arms))
        self.epsilon, self.bonus, self.rng = epsilon, bonus, np.random.default_rng(seed)

    def choose(self, x: np.ndarray) -> int:
        if not self.n.all():
            return int(np.argmin(self.n))
        if self.rng.random() < self.epsilon:
            return int(self.rng.integers(len(self.n)))
        return int(np.argmax(self.mean + self.bonus * np.sqrt(np.log(self.n.sum()) / self.n)))

    def learn(self, x: np.ndarray, arm: int, reward: float) -> None:
        self.n[arm] += 1.0
        self.mean[arm] += (reward - self.mean[arm]) / self.n[arm]


def of(kind: Callable[..., Any], *given: Any, **options: Any) -> Callable[[int, int, int], Any]:
    """A player that is made with these arguments."""
    return lambda arms, dim, seed: kind(arms, dim, seed, *given, **options)


# Regressions: a function of rows, responses and the rows that are asked for.


def row_by_row(make: Callable[[], Any]) -> Callable[..., np.ndarray]:
    """The predictions of a river model."""

    def fitted(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
        model = make()
        for x, value in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(enumerate(x)), value)
        return np.array([model.predict_one(dict(enumerate(x))) for x in asked.tolist()])

    return fitted


def river_line(loss: str) -> Callable[[], Any]:
    def make() -> Any:
        from river import linear_model, optim, preprocessing

        line = linear_model.LinearRegression(loss=getattr(optim.losses, loss)())
        return preprocessing.StandardScaler() | line

    return make


def in_parts(make: Callable[[], Any]) -> Callable[..., np.ndarray]:
    """The predictions of a model with ``partial_fit``, fed a hundred rows at a time."""

    def fitted(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
        model = make()
        for i in range(0, len(y), 100):
            model.partial_fit(X[i : i + 100], y[i : i + 100])
        return model.predict(asked)

    return fitted


def at_once(make: Callable[[], Any]) -> Callable[..., np.ndarray]:
    """The predictions of a model that keeps all rows."""
    return lambda X, y, asked: make().fit(X, y).predict(asked)


def from_sklearn(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(importlib.import_module("sklearn.linear_model"), name)(**options)


def huber(**options: Any) -> Callable[[], Any]:
    return lambda: importlib.import_module("heavytail").OnePassHuberRegressor(**options)


def wabbit(options: str) -> Callable[..., np.ndarray]:
    def fitted(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
        from vowpalwabbit import Workspace

        def line(x: list[float]) -> str:
            return " | " + " ".join(f"x{j}:{v:.6f}" for j, v in enumerate(x))

        work = Workspace(f"--quiet {options}")
        for x, value in zip(X.tolist(), y.tolist(), strict=True):
            work.learn(f"{value:.6f}{line(x)}")
        return np.array([work.predict(line(x)) for x in asked.tolist()])

    return fitted


def least_squares(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Ten lines of NumPy: recursive least squares."""
    P, theta = 1e4 * np.eye(X.shape[1] + 1), np.zeros(X.shape[1] + 1)
    for x, value in zip(np.column_stack([X, np.ones(len(X))]), y, strict=True):
        u = P @ x
        u_by = u / (1.0 + x @ u)
        P -= np.outer(u_by, u)
        theta += u_by * (value - x @ theta)
    return asked @ theta[:-1] + theta[-1]


# Logs: a function of one log that returns a value, both ends of its interval and a lower bound,
# the interval at 95 %, the bound at 97.5 %.


def ours(log: Arrays, **options: Any) -> list[float]:
    import heavytail as ht

    table = {
        "action": log["action"],
        "reward": log["rewards"],
        "probabilities": log["odds"],
        "target": log["target"],
    }
    both = ht.evaluate(table, bound="huber", **options)
    low = ht.evaluate(table, level=0.975, **options).lower
    ends = [np.nan if end is None else end for end in (both.lower, both.upper, low)]
    return [both.value, *ends]


class _Nothing(types.ModuleType):
    """A module in which every name is a class of its own."""

    __path__: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = sys.modules.get(f"{self.__name__}.{name}") or type(name, (), {})
        return self.__dict__[name]


def obp(log: Arrays, kind: str) -> list[float]:
    """obp's estimator with its bootstrap of 1,000 draws. It imports torch, which these estimators
    use for nothing but checks of types; an empty stand-in spares the gigabytes.
    """
    if "torch" not in sys.modules:
        parts = ("", ".nn", ".nn.functional", ".optim", ".utils", ".utils.data")
        for name in (f"torch{part}" for part in parts):
            sys.modules[name] = _Nothing(name)
    from obp import ope

    count, arms = log["odds"].shape
    given: Arrays = {
        "reward": log["rewards"],
        "action": log["action"],
        "pscore": log["odds"][np.arange(count), log["action"]],
        "action_dist": log["target"][:, :, None],
        "position": np.zeros(count, int),
    }
    if kind == "DoublyRobust":
        from sklearn.linear_model import Ridge as Line

        model = ope.RegressionModel(n_actions=arms, base_model=Line())
        given["estimated_rewards_by_reg_model"] = model.fit_predict(
            context=log["X"],
            action=log["action"],
            reward=log["rewards"],
            n_folds=2,
            random_state=0,
        )
    estimator = getattr(ope, kind)()
    value = estimator.estimate_policy_value(**given)
    ends = estimator.estimate_interval(
        **given, alpha=0.05, n_bootstrap_samples=1000, random_state=0
    )
    low, high = (ends[f"95.0% CI ({side})"] for side in ("lower", "upper"))
    return [float(value), float(low), float(high), float(low)]


def ratio(log: Arrays) -> list[float]:
    """Ten lines of NumPy: the self-normalised mean and a normal interval."""
    here = np.arange(len(log["action"])), log["action"]
    w = log["target"][here] / log["odds"][here]
    value = float(w @ log["rewards"] / w.sum())
    half = 1.96 * np.sqrt(np.sum((w * (log["rewards"] - value)) ** 2)) / w.sum()
    return [value, value - half, value + half, value - half]


LIBRARIES: dict[str, dict[str, Settings]] = {
    "heavytail": {
        "contexts": {
            "Decider": of(Decider),
            "TwinUCB": of(OnVectors, "TwinUCB"),
            "TwinUCB, typical": of(OnVectors, "TwinUCB", target="typical"),
        },
        "arms": {
            "TwinUCB": of(OnVectors, "TwinUCB"),
            "TwinUCB, typical": of(OnVectors, "TwinUCB", target="typical"),
            "HvtUCB": of(OnVectors, "HvtUCB"),
        },
        "stream": {
            "OnePassHuber": in_parts(huber()),
            "OnePassHuber, typical": in_parts(huber(target="typical")),
        },
        "log": {"SNIPS": ours, "IPS": lambda log: ours(log, estimator="ips")},
    },
    "vowpalwabbit": {
        "contexts": {
            "epsilon 0.05": of(VowpalWabbit),
            "SquareCB": of(VowpalWabbit, "--squarecb"),
        },
        "arms": {
            "epsilon 0.05": of(VowpalWabbit),
            "SquareCB": of(VowpalWabbit, "--squarecb"),
        },
        "stream": {
            "squared": wabbit(""),
            "quantile": wabbit("--loss_function quantile"),
            "squared, rate 0.05": wabbit("-l 0.05"),
        },
    },
    "contextualbandits": {
        "contexts": {
            "LinUCB": of(ContextualBandits, "LinUCB"),
            "LinUCB 0.1": of(ContextualBandits, "LinUCB", alpha=0.1),
        },
    },
    "mabwiser": {
        "contexts": {
            "LinUCB": of(MABWiser, "LinUCB"),
            "LinUCB 0.1": of(MABWiser, "LinUCB", alpha=0.1),
        },
        "arms": {
            "UCB1": of(MABWiser, "UCB1"),
            "UCB1 0.1": of(MABWiser, "UCB1", alpha=0.1),
            "epsilon 0.1": of(MABWiser, "EpsilonGreedy"),
        },
    },
    "river": {
        "contexts": {
            "LinUCB": of(River, "LinUCBDisjoint"),
            "LinUCB 0.1": of(River, "LinUCBDisjoint", 0.1),
        },
        "arms": {
            "BayesUCB": of(River, "BayesUCB"),
            "UCB 1": of(River, "UCB", 1.0),
            "epsilon 0.1": of(River, "EpsilonGreedy", 0.1),
        },
        "stream": {
            "squared": row_by_row(river_line("Squared")),
            "Huber": row_by_row(river_line("Huber")),
        },
    },
    "obp": {
        "log": {
            name: lambda log, kind=kind: obp(log, kind)
            for name, kind in {
                "IPS": "InverseProbabilityWeighting",
                "SNIPS": "SelfNormalizedInverseProbabilityWeighting",
                "DR": "DoublyRobust",
            }.items()
        }
    },
    "sklearn": {
        "contexts": {"boosted trees": of(Boosting, 0.1)},
        "stream": {
            "SGD": in_parts(from_sklearn("SGDRegressor", random_state=0)),
            "SGD, huber": in_parts(from_sklearn("SGDRegressor", random_state=0, loss="huber")),
            "HuberRegressor": at_once(from_sklearn("HuberRegressor", max_iter=1000)),
            "LinearRegression": at_once(from_sklearn("LinearRegression")),
        },
    },
    "ten lines": {
        "contexts": {
            "Thompson": of(Ridge, 1.0),
            "Thompson 0.3": of(Ridge, 0.3),
            "epsilon 0.1": of(Ridge, 0.0, 0.1),
        },
        "arms": {
            "epsilon 0.1": of(Means, 0.1),
            "epsilon 0.02": of(Means, 0.02),
            "UCB1": of(Means, 0.0, 1.4),
        },
        "stream": {"least squares": least_squares},
        "log": {"SNIPS": ratio},
    },
}


def scores(job: str, play: Callable[..., Any], world: Arrays) -> tuple[list[Any], float]:
    """The score of every trial, and the microseconds of a round; the first trial warms up."""
    trials = len(world["X"])
    every: list[Any] = []
    spent = 0.0
    for i in range(trials):
        start = time.process_time()
        if job == "log":
            every.append(play({k: v[i] for k, v in world.items() if v.ndim}))
        elif job == "stream":
            forecast = play(world["X"][i], world["y"][i], world["asked"][i])
            every.append(float(np.sqrt(np.mean((forecast - world["means"][i]) ** 2))))
        else:
            every.append(_regret(play, world, i))
        spent += (time.process_time() - start) * (i > 0)
    rounds = world["X"].shape[1]
    return every, 1e6 * spent / rounds / max(1, trials - 1)


def _regret(make: Callable[..., Any], world: Arrays, i: int) -> float:
    X, rewards, means = (world[name][i] for name in ("X", "rewards", "means"))
    player = make(rewards.shape[1], X.shape[1], i)
    player.contexts = X
    lost = 0.0
    for x, paid, mean in zip(X, rewards, means, strict=True):
        arm = player.choose(x)
        player.learn(x, arm, float(paid[arm]))
        lost += mean.max() - mean[arm]
    return float(lost)


def main(library: str, job: str, folder: str) -> None:
    warnings.simplefilter("ignore")
    answer: dict[str, Any] = {"version": "", "worlds": {}}
    if library != "ten lines":
        named = {"sklearn": "scikit-learn"}.get(library, library)
        try:
            answer["version"] = importlib.metadata.version(named)
        except importlib.metadata.PackageNotFoundError:
            print(json.dumps({"missing": "not installed"}))
            return
    for path in sorted(Path(folder).glob(f"{job}-*.npz")):
        with np.load(path) as file:
            world = dict(file)
        told = answer["worlds"][path.stem] = {}
        for name, play in LIBRARIES[library][job].items():
            try:
                told[name] = scores(job, play, world)
            except Exception as error:
                told[name] = f"{type(error).__name__}: {error}"[:200]
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
