"""Calls at random on every policy, good and bad ones mixed: `make fuzz`; short in the tests.

After every refusal the policy must be as it was: what it saves, and what it then chooses beside a
clone. Ends with counts; exits with 1 where any of them but the first two is not 0.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import heavytail as ht
from heavytail.policies import ALL

DIM, ARMS = 2, 4
TAIL = ht.MomentBound(order=2.0, scale=1.0)
BAD_NUMBERS: list[Any] = [
    np.nan, np.inf, -np.inf, 10**400, 1 + 2j, "1", b"1", None, object(), [1.0],
    np.array([1.0, 2.0]), datetime.date(2020, 1, 1), np.ma.masked,
    np.datetime64("2020-01-01"), {}, (),
]  # fmt: skip
BAD_SCALES: list[Any] = [0.0, -1.0, np.nan, np.inf, "1", 1j, 10**400, [1.0]]
BAD_VECTORS: list[Any] = [
    [np.nan, 0.0], [np.inf, 0.0], [1.0], [1.0, 2.0, 3.0], "ab", [1j, 0.0], [[0.1, 0.2]], None, 3.0,
    np.ma.array([0.1, 0.2], mask=[True, False]), ["a", "b"], [10**400, 0], object(),
]  # fmt: skip


def dressed(rng: np.random.Generator, x: np.ndarray) -> Any:
    """The same numbers as another type."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    kinds: list[Any] = [x, x.tolist(), wide[..., ::2], frozen, np.asfortranarray(x)]
    return kinds[rng.integers(len(kinds))]


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    x = rng.normal(size=(*shape, DIM))
    return x / np.linalg.norm(x, axis=-1, keepdims=True) * rng.uniform(0.1, 1.0)


def same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return set(one) == set(two) and all(
        np.array_equal(one[key], two[key], equal_nan=True) for key in one
    )


class Player:
    """One policy and the calls made on it."""

    def __init__(self, make: Callable[[], ht.Policy], rng: np.random.Generator, found: Counter):
        self.make, self.rng, self.found = make, rng, found
        self.policy = make()
        self.arms = unit(rng, ARMS)
        self.pool = ht.Pool(self.arms)
        self.waiting: list[Any] = []

    def pick(self, options: list[Any]) -> Any:
        return options[self.rng.integers(len(options))]

    def good(self) -> None:
        """A call that must be taken."""
        rng, policy = self.rng, self.policy
        kind = rng.integers(9)
        if kind < 3:
            size = float(rng.standard_t(1.5) * 10.0 ** rng.uniform(-3, 3))
            arm = policy.select(self.pool if rng.random() < 0.5 else dressed(rng, self.arms))
            policy.update(dressed(rng, self.arms[arm]), size)
        elif kind == 3 and not (policy.info.repeats and policy.pending):
            self.waiting.append(policy.decide(self.pool))
        elif kind == 4 and self.waiting:
            policy.learn(self.waiting.pop(int(rng.integers(len(self.waiting)))), 1.0)
        elif kind == 5:
            X = unit(rng, 5)
            policy.update_many(dressed(rng, X), rng.normal(size=5))
        elif kind == 6:
            self.policy = policy.clone()
        elif kind == 7:
            policy.diagnostics()
        elif kind == 8:
            policy.width(self.arms[0]) if hasattr(policy, "width") else None

    def bad(self) -> tuple[str, Callable[[], Any]]:
        """A call that must be refused, and its name."""
        p, x = self.policy, self.arms[0]
        number, vector, scale = (
            self.pick(BAD_NUMBERS),
            self.pick(BAD_VECTORS),
            self.pick(BAD_SCALES),
        )
        rows = np.array([x, x])
        options: list[tuple[str, Callable[[], Any]]] = [
            (f"update(x, {number!r})", lambda: p.update(x, number)),
            (f"update({vector!r}, 1)", lambda: p.update(vector, 1.0)),
            (f"update(scale={scale!r})", lambda: p.update(x, 1.0, scale=scale)),
            (f"select([{vector!r}])", lambda: p.select([vector])),
            ("select(no arms)", lambda: p.select(np.zeros((0, DIM)))),
            (f"decide([{vector!r}])", lambda: p.decide([vector])),
            (f"learn({number!r})", lambda: p.learn(number, 1.0)),
            ("learn(unknown token)", lambda: p.learn(10**9, 1.0)),
            (f"update_many(., [1, {number!r}])", lambda: p.update_many(rows, [1.0, number])),
            ("update_many(lengths)", lambda: p.update_many(rows, [1.0])),
            (f"expire({number!r})", lambda: p.expire(number)),
        ]
        if number is None:  # a scale of None is no scale
            options = options[1:]
        if self.waiting:
            token = self.waiting[0]
            options.append((f"learn(., {number!r})", lambda: p.learn(token, number)))
        return self.pick(options)

    def step(self) -> None:
        if self.rng.random() < 0.5:
            self.found["calls"] += 1
            try:
                self.good()
            except Exception as error:
                self.fail("good call refused", repr(error))
            return
        name, call = self.bad()
        before = self.policy.saved_arrays()
        before = {key: np.array(value) for key, value in before.items()}
        self.found["calls"] += 1
        try:
            call()
        except (ValueError, TypeError):
            self.found["refused"] += 1
        except Exception as error:
            self.fail("other exceptions", f"{name}: {error!r}")
        else:
            self.fail("accepted but bad", name)
            return
        if not same(before, self.policy.saved_arrays()):
            self.fail("states changed by a refusal", name)
        elif self.found["calls"] % 7 == 0:
            twin, arms = self.policy.clone(), self.pool if self.rng.random() < 0.5 else self.arms
            if self.policy.select(arms) != twin.select(arms):
                self.fail("choices changed by a refusal", name)

    def fail(self, what: str, how: str) -> None:
        self.found[what] += 1
        if self.found[what] <= 10:
            print(f"{type(self.policy).__name__}: {what}: {how}", flush=True)
        self.policy, self.waiting = self.make(), []


def builders() -> list[Callable[[], ht.Policy]]:
    """Every policy, and the modes of those that have some."""
    made: list[Callable[[], ht.Policy]] = [
        lambda kind=kind: ht.make_policy(  # type: ignore[misc]
            kind.name, dim=DIM, horizon=100_000, tail=TAIL, arms=ARMS
        )
        for kind in ALL
    ]
    made += [
        lambda: ht.TwinUCB(DIM),
        lambda: ht.TwinUCB(DIM, target="typical"),
        lambda: ht.HvtUCB(DIM),
        lambda: ht.HvtUCB(DIM, clip=np.inf, theta_bound=2.0),
        lambda: ht.HvtUCB(DIM, tail=TAIL, horizon=100_000, radius="theory"),
    ]
    return made


def fuzz(calls: int, seed: int) -> Counter:
    """So many calls in all, spread over every policy."""
    found: Counter = Counter()
    makers = builders()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, make in enumerate(makers):
            rng = np.random.default_rng([seed, k])
            player = Player(make, rng, found)
            share = calls // len(makers)
            for count in range(share):
                if count % 400 == 0:  # histories grow: begin anew
                    player = Player(make, rng, found)
                player.step()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    found = fuzz(args.calls, args.seed)
    for what, count in found.items():
        print(f"{count:12,} {what}")
    print(f"{time.perf_counter() - start:12,.0f} s")
    return int(bool(set(found) - {"calls", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
