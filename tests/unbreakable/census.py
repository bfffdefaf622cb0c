"""One of everything that learns, having learned a little, for tests that ask the same of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T21, controller, drive
from tests.fuzz import deciders
from tests.storage_tools import rewrite
from tests.test_storage import agent, play

import heavytail as ht
from heavytail import control, estimators, mdp
from heavytail.checks.policies import paid
from heavytail.policies import ALL

TAIL = ht.MomentBound(order=2.0, scale=0.5)
SYSTEM = control.laplacian(T21)
ARMS = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 3))
MODES: dict[str, list[dict[str, Any]]] = {
    "HvtUCB": [
        {},
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 1.0},
        {"radius": "sharp", "theta_bound": 1.0, "tail": "symmetric"},
        {"forget": 0.95},
    ],
    "TwinUCB": [
        {},
        {"radius": "theory"},
        {"radius": "sharp", "theta_bound": 1.0},
        {"forget": 0.95},
        {"forget": "auto"},
    ],
    "BTC": [{}, {"sup": True}],
    "BMM": [{}, {"sup": True}],
    "HuberBandit": [{}, {"shared": True}],
    "HeavyOFUL": [{}, {"solver": "newton"}],
    "GLBOMD": [{}, {"link": "logistic"}, {"link": "log"}],
    "GLMUCB": [{}, {"link": "logistic", "radius": "theory"}, {"link": "log"}],
    "OL2M": [{}, {"radius": "theory"}],
    "GLOC": [{}, {"link": "logistic", "radius": "theory"}, {"link": "log"}],
    "ECOLog": [{}, {"radius": "theory"}],
    "CRTM": [{}, {"link": "log"}],
    "RobustUCB": [{}, {"estimator": "catoni"}, {"estimator": "median of means"}],
}
BAD = (-1.0, 0.5, -5.5, 1e300, np.inf, -np.inf, np.nan, 1e9, 63.0)


def teach(policy: Any, rounds: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        try:
            arm = policy.select(ARMS)
            policy.update(ARMS[arm], paid(policy, float(rng.standard_t(2.1))))
        except ValueError as error:  # a forged state may be near the end of the range
            assert "floating-point range" in str(error) or "finite index" in str(error)  # noqa: PT017


def policy(name: str, options: dict[str, Any]) -> Any:
    made = ht.make_policy(name, **{"dim": 3, "horizon": 2000, "tail": TAIL, "arms": 6, **options})
    teach(made, 23)
    if not made.info.repeats:
        made.decide(ARMS, now=1e9)  # twins are compared
    return made


def encoder() -> Any:
    rows = [{"price": float(k), "kind": "ab"[k % 2], "sku": k} for k in range(40)]
    made = ht.Encoder(numbers=["price"], categories=["kind"], hashed={"sku": 8})
    return made.fit(rows)


def carrying() -> Any:
    made = ht.TwinUCB(3)
    made.encoder = ht.Encoder(numbers={"price": (0.0, 1.0)}, categories={"kind": ["a", "b"]})
    teach(made, 23)
    made.decide(ARMS, now=1e9)  # twins are compared
    return made


def regression(name: str, **options: Any) -> Any:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70, 3))
    return getattr(estimators, name)(**options).fit(X, X.sum(axis=1) + rng.standard_t(2.1, 70))


def identifier(kind: Any) -> Any:
    made = kind(SYSTEM.n, SYSTEM.d)
    for step in drive(SYSTEM, 25):
        made.update(*step)
    return made


def controlling(kind: Any) -> Any:
    made = controller(kind, SYSTEM, seed=5)
    for x, _, y in drive(SYSTEM, 60):
        made.update(x, made.act(x), y)
    return made


def acting(kind: Any) -> Any:
    made = agent(kind)
    play(made, 0, 31)
    return made


POLICIES = {
    f"{kind.__name__} {options or ''}": (kind, options)
    for kind in ALL
    for options in MODES.get(kind.__name__, [{}])
}
CENSUS = {
    **{
        name: lambda kind=kind, options=options: policy(kind.name, options)
        for name, (kind, options) in POLICIES.items()
    },
    **{kind.__name__: lambda kind=kind: acting(kind) for kind in mdp.ALL},
    **{kind.__name__: lambda kind=kind: identifier(kind) for kind in IDENTIFIERS},
    **{kind.__name__: lambda kind=kind: controlling(kind) for kind in CONTROLLERS},
    **{name: lambda name=name: regression(name) for name in estimators.ALL},
    "OnePassHuberRegressor sharp": lambda: regression(
        "OnePassHuberRegressor", interval="sharp", tail=TAIL, theta_bound=3.0
    ),
    "Encoder": encoder,
    "TwinUCB with an encoder": carrying,
    "Decider": deciders.with_offers,
    "Decider of prices": deciders.of_prices,
    "Decider without context": deciders.without_context,
}
SHORT = [name for name in CENSUS if "sup" not in name]


def snapshot(subject: Any) -> dict[str, bytes]:
    arrays = subject.saved_arrays()
    if isinstance(subject, ht.Decider):
        arrays = deciders.nameless(arrays)  # twins that decided differ in that alone
    return {key: array.tobytes() for key, array in arrays.items()}


def forge(path: Path, key: str, place: Any, value: float) -> None:
    """Put one number into a saved array, at a place or a named slot, under a seal that fits."""

    def change(header: Any, arrays: Any) -> None:
        at = header["slots"][key].index(place) if isinstance(place, str) else place
        arrays[key][..., at] = value

    rewrite(path, change)
