"""Numbers of any size a double has, for every argument of everything that learns: whatever is
accepted, in whatever order, is saved, loaded, cloned and continued to the same bits.

A run builds a subject (with a constructor's number at an extreme, now and then), teaches it some
rounds, ordinary and extreme ones mixed, and looks at it in between: it is written, read back and
cloned, all three go on with the same ordinary rounds, and they must agree to the bit.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz import deciders, encoders, estimators, policies
from tests.fuzz.constructors import Recipe, families
from tests.fuzz.player import deep, same

import heavytail as ht
from heavytail._load import from_bytes
from heavytail.checks.policies import paid
from heavytail.estimators.base import Regression
from heavytail.ledger.layout import ModelRow, OutcomeRow
from heavytail.ledger.refusal import Refusal
from heavytail.serve.model import Model

POWERS = np.array([float(f"1e{k}") for k in range(-323, 309)])
MODES: dict[str, list[dict[str, Any]]] = {
    "HvtUCB": [
        {},
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 1.0},
        {"radius": "sharp", "theta_bound": 1.0, "tail": "symmetric"},
        {"forget": 0.95},
        {"forget": "auto"},
        {"clip": np.inf, "theta_bound": 2.0},
    ],
    "TwinUCB": [
        {},
        {"target": "typical"},
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 1.0},
        {"forget": 0.95},
        {"forget": "auto"},
        {"target": "typical", "forget": "auto"},
    ],
    "HvtGLB": [
        {},
        {"link": "log", "tail": None},
        {"link": "log", "rewards": "amounts", "tail": None},
    ],
    "GLBOMD": [{}, {"link": "logistic"}, {"link": "log"}],
    "GLMUCB": [{}, {"link": "log"}],
    "GLOC": [{}, {"link": "log"}],
    "BTC": [{}, {"sup": True}],
    "BMM": [{}, {"sup": True}],
    "HuberBandit": [{}, {"shared": True}],
    "HeavyOFUL": [{}, {"solver": "newton"}],
    "RobustUCB": [{}, {"estimator": "catoni"}, {"estimator": "median of means"}],
    "CRTM": [{}, {"link": "log"}],
    "OnePassHuberRegressor": [
        {},
        {"target": "typical"},
        {"standardize": True, "forget": 0.99},
        estimators.SHARP,
    ],
    "OnlineRidge": [{}, {"standardize": True}],
}
OPTIONAL = {"tail", "horizon"}  # arguments that some modes do without
HORIZON = 10_000  # of policies: some play an arm so often that fewer rounds are too few


class Extremes:
    """Numbers at random: ordinary ones, and of all sizes."""

    def __init__(self, rng: np.random.Generator, share: float) -> None:
        self.rng, self.share = rng, share

    def size(self) -> float:
        """A power of ten, or a number near the ends of the range."""
        if self.rng.random() < 0.1:
            return float(self.rng.choice([0.0, 5e-324, 1.7e308, 2.3e-308, 1e100, 1e-100]))
        return float(self.rng.choice(POWERS))

    def number(self, ordinary: float) -> float:
        """``ordinary``, or an extreme with either sign."""
        if self.rng.random() >= self.share:
            return ordinary
        return self.size() * float(self.rng.choice([-1.0, 1.0]))

    def vector(self, ordinary: np.ndarray) -> np.ndarray:
        """The same for one entry of a vector, or for its length."""
        if self.rng.random() >= self.share:
            return ordinary
        vector = ordinary.copy()
        if self.rng.random() < 0.5:
            vector.flat[self.rng.integers(vector.size)] = self.number(1.0)
            return vector
        with np.errstate(all="ignore"):
            return vector * self.size()

    def scale(self) -> float | None:
        """A round's scale; None in most rounds."""
        if self.rng.random() >= self.share:
            return None if self.rng.random() < 0.8 else float(self.rng.uniform(0.5, 2.0))
        return self.size()


Round = Callable[[Any, Extremes], None]


def teach_policy(policy: Any, draw: Extremes) -> None:
    """One reward, by ``update``, ``update_many`` or a decision that waited."""
    rng = draw.rng
    bound = min(1.0, float(policy._arguments.get("arm_bound") or 1.0))
    arms = rng.normal(size=(policies.ARMS, policy.dim))
    arms *= 0.9 * bound / np.linalg.norm(arms, axis=1, keepdims=True)
    x, reward, scale = draw.vector(arms[0]), draw.number(float(rng.standard_t(1.5))), draw.scale()
    reward = paid(policy, reward)
    way = rng.integers(4)
    if way == 0:
        rewards = [reward, paid(policy, float(rng.normal()))]
        policy.update_many(np.array([x, arms[1]]), rewards, scale=scale)
    elif way == 1 and not policy.info.repeats:
        now = draw.number(1e9)
        policy.learn(policy.decide(arms, now=now), reward, scale=scale)
    else:
        policy.update(x if way == 2 else arms[policy.select(arms)], reward, scale=scale)


def teach_agent(agent: Any, draw: Extremes) -> None:
    rng, stage = draw.rng, int(agent.state["scalars"]["stage"])
    state, action, landed = (int(rng.integers(k)) for k in (4, 2, 4))
    reward = draw.number(float(rng.standard_t(1.7)))
    agent.update(stage, state, action, reward, landed, scale=draw.scale())


def teach_identifier(identifier: Any, draw: Extremes) -> None:
    rng = draw.rng
    x, u, noise = (rng.normal(size=k) for k in (identifier.n, identifier.d, identifier.n))
    identifier.update(draw.vector(x), draw.vector(u), draw.vector(0.5 * x + 0.1 * noise))


def teach_controller(controller: Any, draw: Extremes) -> None:
    x = draw.vector(draw.rng.normal(size=controller.identifier.n))
    u = controller.act(x)
    controller.update(x, draw.vector(u), draw.vector(0.5 * x))


def teach_regression(regression: Any, draw: Extremes) -> None:
    rng = draw.rng
    X = rng.normal(size=(estimators.ROWS, estimators.DIM))
    y = X.sum(axis=1) + rng.standard_t(1.5, estimators.ROWS)
    scale = None
    if rng.random() < 0.3:
        scale = draw.vector(np.ones(estimators.ROWS))
    regression.partial_fit(draw.vector(X), draw.vector(y), scale)


def teach_encoder(encoder: Any, draw: Extremes) -> None:
    rows = encoders.rows(draw.rng)
    for row in rows:
        row["price"] = draw.number(row["price"])
    encoder.partial_fit(rows)
    encoder.transform(rows)


def teach_decider(decider: Any, draw: Extremes) -> None:
    """One call: a decision, its reward, several rewards, or what others decided."""
    rng, waiting = draw.rng, decider.pending
    here, reward = deciders.context(decider, rng), draw.number(float(rng.standard_t(1.5)))
    if here.get("basket") is not None:
        here["basket"] = draw.number(here["basket"])
    way = rng.integers(6)
    if way == 0 and waiting:
        decider.reward(waiting[int(rng.integers(len(waiting)))], reward)
    elif way == 1 and waiting:
        few = waiting[:4]
        decider.reward([*few], [draw.number(float(r)) for r in rng.standard_t(1.5, len(few))])
    elif way == 2:
        told = deciders.log(decider, rng, int(rng.integers(1, 50)))
        told["reward"] = draw.vector(told["reward"])
        decider.learn(told, progress=False)
    elif way == 3:
        decider.decide(here, now=draw.number(deciders.NOW), k=int(rng.integers(1, 4)))
    else:
        decider.observe(here, [*decider.offers][way % 3], reward)


def teach_model(model: Any, draw: Extremes) -> None:
    """A reward as the service takes it: what the door lets in is logged, and then learned."""
    rng = draw.rng
    x = rng.normal(size=model.dim)
    x *= 0.9 / np.linalg.norm(x)
    reward = paid(model.policy, draw.number(float(rng.standard_t(1.5))))
    scale = draw.scale()
    model.check_reward(reward, scale)
    seq = model.version + 1
    model.learn([OutcomeRow(seq, b"", False, reward, scale, x.tobytes())])


class Kind:
    """How subjects of one kind are built, taught and copied."""

    def __init__(self, recipes: list[Recipe], teach: Round) -> None:
        self.recipes, self.teach = recipes, teach

    def build(self, draw: Extremes) -> Any:
        """A fresh subject, one of its constructor's numbers an extreme now and then."""
        make, arguments = self.recipes[draw.rng.integers(len(self.recipes))]
        fewer = dict(arguments)
        if draw.rng.random() < 0.5:
            for key in OPTIONAL & set(arguments):
                if inspect.signature(make).parameters[key].default is None:
                    del fewer[key]
        if draw.rng.random() < 0.3:
            fewer = self.strange(make, fewer, draw)
        try:
            made = make(**fewer)
            if isinstance(made, Regression):  # they look at their arguments in fit
                deep(made).fit(np.eye(3)[:, :2], np.arange(3.0))
        except (ValueError, TypeError):
            made = make(**arguments)
        return self.begun(made, draw)

    def strange(self, make: Any, arguments: dict[str, Any], draw: Extremes) -> dict[str, Any]:
        """The arguments with one number replaced by an extreme."""
        numbers = [
            one.name
            for one in inspect.signature(make).parameters.values()
            if "float" in str(one.annotation) or one.name == "tail"
        ]
        if not numbers:
            return arguments
        name = numbers[draw.rng.integers(len(numbers))]
        value: Any = draw.size()
        if name == "tail":
            with contextlib.suppress(ValueError):
                bound = ht.MomentBound(order=float(draw.rng.choice([1.5, 2.0])), scale=value)
                return {**arguments, name: bound}
        return {**arguments, name: value}

    def begun(self, made: Any, draw: Extremes) -> Any:
        """The subject, from an earlier estimate now and then."""
        algorithm = getattr(made, "algorithm", None)
        if algorithm and algorithm.takes_prior and draw.rng.random() < 0.2:
            with contextlib.suppress(ValueError):
                d = made.dim
                line, few = draw.rng.normal(size=d), draw.size() if draw.rng.random() < 0.5 else 0.0
                C = draw.size() * np.eye(d) + few * np.outer(line, line)
                made.start_from(draw.vector(np.full(d, 0.1)), C)
        if isinstance(made, ht.Policy) and draw.rng.random() < 0.1:
            made.reseed(int(draw.rng.integers(2**53)))
        return made

    def copies(self, subject: Any) -> list[Any]:
        """What comes back from its bytes, and a copy."""
        twin = subject.clone() if hasattr(subject, "clone") else deep(subject)
        return [from_bytes(subject.to_bytes(), name="its bytes"), twin]

    def state(self, subject: Any) -> dict[str, Any]:
        return {key: np.asarray(array) for key, array in subject.saved_arrays().items()}


class Deciding(Kind):
    """Deciders, whose runs have names of their own."""

    def state(self, subject: Any) -> dict[str, Any]:
        return deciders.nameless(super().state(subject))


class Served(Kind):
    """Models of the service, whose snapshots are what a restart begins from."""

    def build(self, draw: Extremes) -> Any:
        _, spec = self.recipes[draw.rng.integers(len(self.recipes))]
        row = ModelRow(*[None] * len(ModelRow._fields))
        return Model(row._replace(id=1, name="m", spec=json.dumps(spec), since=0, epoch=0, last=0))

    def copies(self, subject: Any) -> list[Any]:
        snapshot = subject.version, subject.policy.to_bytes()
        return [Model(subject.row, snapshot)]

    def state(self, subject: Any) -> dict[str, Any]:
        return super().state(subject.policy)


def kinds() -> dict[str, Kind]:
    """Everything that learns and can be saved."""
    made = families()

    def modes(family: str) -> list[Recipe]:
        recipes = []
        for make, arguments in made[family]:
            long = {"horizon": HORIZON} if family == "policies" and "horizon" in arguments else {}
            for options in MODES.get(make.__name__, [{}]):
                recipes.append((make, {**arguments, **long, **options}))
        return recipes

    played = [kind for kind in ht.policies.ALL if not kind.info.repeats]
    specs: list[Recipe] = [
        (
            Model,
            {
                "policy": kind.name,
                "dim": 6 if "LowRank" in kind.__name__ else 2,
                "options": {k: v for k, v in options.items() if k != "tail"},
                **({"horizon": HORIZON} if kind.info.horizon else {}),
                **({} if "tail" in options else {"tail": {"order": 2.0, "scale": 1.0}}),
                "arms": 4,
            },
        )
        for kind in played
        for options in MODES.get(kind.__name__, [{}])
        if not {"theory", "symmetric", np.inf} & set(options.values())
    ]
    return {
        "policies": Kind(modes("policies"), teach_policy),
        "agents": Kind(modes("agents"), teach_agent),
        "identifiers": Kind(modes("identifiers"), teach_identifier),
        "controllers": Kind(modes("controllers"), teach_controller),
        "regressions": Kind(modes("regressions"), teach_regression),
        "deciders": Deciding(modes("deciders"), teach_decider),
        "encoders": Kind([(encoders.learning, {})], teach_encoder),
        "models": Served(specs, teach_model),
    }


SHARES = {
    "policies": 0.45,
    "agents": 0.1,
    "identifiers": 0.05,
    "controllers": 0.05,
    "regressions": 0.1,
    "deciders": 0.05,
    "encoders": 0.02,
    "models": 0.18,
}


def run(kind: Kind, seed: list[int], found: Counter) -> None:
    """One subject, from its first round to its last."""
    rng = np.random.default_rng(seed)
    draw = Extremes(rng, float(rng.choice([0.0, 0.1, 0.3, 0.7])))
    calm = Extremes(rng, 0.0)
    subject = kind.build(draw)
    name = type(subject.policy if isinstance(subject, Model) else subject).__name__
    found["runs"] += 1
    rounds = int(rng.choice([1, 2, 4, 7, 12, 40]))
    look = int(rng.integers(rounds)) if rng.random() < 0.3 else rounds - 1
    for t in range(rounds):
        before = kind.state(subject) if rng.random() < 0.1 and not _draws(subject) else None
        try:
            kind.teach(subject, draw if rng.random() < 0.5 else calm)
        except (ValueError, TypeError, Refusal) as error:
            found["refused"] += 1
            if before is not None and not _alike(before, kind.state(subject)):
                _fail(found, "states changed by a refusal", name, seed, error)
        if t in (look, rounds - 1):
            try:
                copies = kind.copies(subject)
            except Exception as error:
                _fail(found, "unloadable", name, seed, error)
                return
            if not all(same(kind.state(subject), kind.state(copy)) for copy in copies):
                _fail(found, "copies that differ", name, seed)
                return
    after = [_go_on(kind, each, seed) for each in (subject, *copies)]
    if any(each != after[0] for each in after[1:]):
        _fail(found, "continued otherwise", name, seed)
    elif not all(same(kind.state(subject), kind.state(copy)) for copy in copies):
        _fail(found, "continued to other states", name, seed)
    elif "refused" in after[0]:
        found["stuck"] += after[0].count("refused") == len(after[0])


def _draws(subject: Any) -> bool:
    """Tell whether a choice alone changes the state: by a draw, or a gain that is chosen then."""
    info = getattr(getattr(subject, "policy", subject), "info", None)
    return isinstance(subject, ht.control.Controller) or getattr(info, "randomised", False)


def _alike(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a refusal left the state as it was; a decision may have been made before it."""
    learned = [key for key in before if not key.startswith("pending.")]
    return same({k: before[k] for k in learned}, {k: after.get(k) for k in learned})


def _go_on(kind: Kind, subject: Any, seed: list[int]) -> list[str]:
    """Ordinary rounds: whether each is taken."""
    calm, outcome = Extremes(np.random.default_rng([*seed, 7]), 0.0), []
    for _ in range(3):
        try:
            kind.teach(subject, calm)
            outcome.append("taken")
        except (ValueError, TypeError, Refusal):
            outcome.append("refused")
    return outcome


def _fail(
    found: Counter, what: str, name: str, seed: list[int], error: Exception | None = None
) -> None:
    found[what] += 1
    if found[what] <= 25:
        print(f"{name} {seed}: {what}: {error!r}", flush=True)


def fuzz_extremes(runs: int, seed: int) -> dict[str, Counter]:
    """So many runs in all, spread over the kinds; what was counted of each."""
    found: dict[str, Counter] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for k, (name, kind) in enumerate(kinds().items()):
            found[name] = Counter()
            for index in range(round(runs * SHARES[name])):
                run(kind, [seed, k, index], found[name])
    return found
