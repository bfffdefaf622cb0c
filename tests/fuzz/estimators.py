"""Calls on every regression, on what looks at tails, and on pools of arms."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.player import Call, Player, deep, through_file
from tests.fuzz.values import (
    BAD_COUNTS,
    BAD_SCALES,
    bad_arrays,
    bad_tables,
    bad_vectors,
    pd,
    shown,
)

import heavytail as ht
from heavytail import estimators, tails

DIM, ROWS = 2, 5


class RegressionPlayer(Player):
    """A regression that has seen a few rows."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self.probe = self.rng.normal(size=(3, DIM))

    def acts(self, subject: Any) -> Any:
        return [np.asarray(a).tobytes() for a in subject.predict(self.probe, return_interval=True)]

    def copied(self) -> Any:
        return deep(self.subject)

    def snapshot(self) -> dict[str, Any]:
        noted = {k: v for k, v in self.subject.__dict__.items() if k != "model_"}
        notes = np.frombuffer(pickle.dumps(noted), dtype=np.uint8)
        return {**super().snapshot(), "what scikit-learn notes": notes}

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        X = self.rng.normal(size=(ROWS, DIM))
        return X, X.sum(axis=1) + self.rng.standard_t(2.1, ROWS)

    def plain(self, x: np.ndarray) -> Any:
        """A dress without names: those must stay the same from batch to batch."""
        forms = [x.tolist(), x.astype(np.float32), np.asfortranarray(x), x[::-1].copy()[::-1], x]
        return self.pick(forms)

    def good(self) -> None:
        kind, (X, y) = self.rng.integers(9), self.rows()
        if kind < 3:
            scale = self.pick([None, np.ones(ROWS), [2.0] * ROWS])
            self.subject.partial_fit(self.plain(X), self.plain(y), scale)
        elif kind == 3:
            self.subject.fit(self.dressed(X), self.dressed(y))
            self.subject.fit(X, y)
        elif kind == 4:
            self.subject.predict(self.plain(self.probe), return_interval=bool(kind % 2))
        elif kind == 5:
            self.subject = deep(self.subject)
        elif kind == 6:
            one = self.subject
            _ = one.coef_, one.intercept_, one.scale_, one.n_samples_seen_
        elif kind == 7 and self.rng.random() < 0.1:
            self.subject = through_file(self.subject)

    def bad(self) -> Call:
        X, y = self.rows()
        method = self.pick(["fit", "partial_fit"])
        learn = getattr(self.subject, method)
        narrow = bad_arrays(X) if method == "fit" else bad_tables(ROWS, DIM)  # fit takes any width
        table, values = self.pick(narrow), self.pick(bad_vectors(ROWS))
        scale = self.pick(BAD_SCALES)
        scales = self.pick([[1.0] * (ROWS - 1) + [scale], scale, np.ones((ROWS, 2))])
        options: list[Call] = [
            (f"{method}({shown(table)}, y)", lambda: learn(table, y)),
            (f"{method}(X, {shown(values)})", lambda: learn(X, values)),
            (f"{method}(scale={shown(scales)})", lambda: learn(X, y, scales)),
            (f"{method}(lengths)", lambda: learn(X, y[:-1])),
            (f"{method}(no rows)", lambda: learn(X[:0], y[:0])),
            (f"predict({shown(table)})", lambda: self.subject.predict(table)),
            ("predict(one row)", lambda: self.subject.predict(X[0])),
            ("partial_fit(width)", lambda: self.subject.partial_fit(np.ones((ROWS, 3)), y)),
        ]
        if pd is not None:
            frame = pd.DataFrame(X, columns=["a", "b"])
            frame["b"] = frame["b"].astype(str).astype(self.pick(["category", "object"]))
            options.append((f"{method}(categories)", lambda: learn(frame, y)))
        return self.pick(options)


class MonitorPlayer(Player):
    """A look at the tail of a stream."""

    def acts(self, subject: Any) -> Any:
        return repr(subject.report())

    def copied(self) -> Any:
        return deep(self.subject)

    def snapshot(self) -> dict[str, Any]:
        return {key: np.asarray(v, dtype=float) for key, v in self.subject.__dict__.items()}

    def good(self) -> None:
        if self.rng.random() < 0.8:
            self.subject.update(self.dressed(self.rng.standard_t(1.5, 20)))
        else:
            self.subject.report()

    def bad(self) -> Call:
        values, keep = self.pick(bad_vectors(3)), self.pick([*BAD_COUNTS, 0])
        # A list of any length is good, and so is one number.
        while (isinstance(values, list) and len(values) in (0, 4)) or type(values) is float:
            values = self.pick(bad_vectors(3))
        options: list[Call] = [
            (f"update({shown(values)})", lambda: self.subject.update(values)),
            (f"diagnose({shown(values)})", lambda: tails.diagnose(values)),
            (f"TailMonitor({shown(keep)})", lambda: tails.TailMonitor(keep)),
            ("diagnose(too few)", lambda: tails.diagnose([1.0, 2.0])),
        ]
        return self.pick(options)


class PoolPlayer(Player):
    """Arms laid out once."""

    def acts(self, subject: Any) -> Any:
        return subject.arms.tobytes(), len(subject), repr(subject)

    def copied(self) -> Any:
        return ht.Pool(self.subject)

    def snapshot(self) -> dict[str, Any]:
        return {"arms": self.subject.arms}

    def good(self) -> None:
        arms = self.rng.normal(size=(3, DIM))
        made = ht.Pool(self.dressed(arms))
        _ = made[0], made.arms, np.asarray(made), len(made)

    def bad(self) -> Call:
        table = self.pick(bad_tables(2, DIM))
        pool = self.subject

        def write() -> None:
            pool[0][0] = 7.0

        options: list[Call] = [
            (f"Pool({shown(table)})", lambda: ht.OFUL(DIM, noise_scale=1.0).select(ht.Pool(table))),
            ("pool[0][0] = 7", write),
        ]
        return self.pick(options)


SHARP: dict[str, Any] = {
    "interval": "sharp",
    "tail": ht.MomentBound(order=1.5, scale=2.0),
    "theta_bound": 3.0,
}


def regressions() -> list[Callable[[], Any]]:
    """Every regression, with the options that change how it learns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, DIM))
    y = X.sum(axis=1) + rng.standard_t(2.1, 30)
    own: dict[str, list[dict[str, Any]]] = {
        "OnePassHuberRegressor": [
            {},
            {"target": "typical"},
            {"standardize": True, "forget": 0.99},
            SHARP,
        ],
        "OnlineRidge": [{}, {"standardize": True}],
    }
    return [
        lambda name=name, told=told: getattr(estimators, name)(**told).fit(X, y)  # type: ignore[misc]
        for name in estimators.ALL
        for told in own.get(name, [{}])
    ]


def monitor() -> tails.TailMonitor:
    """One that has seen enough to report."""
    made = tails.TailMonitor(keep=100)
    made.update(np.random.default_rng(0).standard_t(1.5, 60))
    return made


def pool() -> ht.Pool:
    return ht.Pool(np.eye(DIM))
