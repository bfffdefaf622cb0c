"""Calls on every controller and every identifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.control.tools import CONTROLLERS, IDENTIFIERS, T21, controller
from tests.fuzz.player import Call, Player, through_file
from tests.fuzz.values import bad_tables, bad_vectors, shown

from heavytail import control

SYSTEM = control.double_integrator(T21)
N, D = SYSTEM.n, SYSTEM.d


class StepPlayer(Player):
    """What learns that (x, u) led to x_next, and where the state is."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self.x = np.zeros(N)

    def step_on(self) -> None:
        """One step of the system under a small input, learned in any dress."""
        u = 0.1 * self.rng.normal(size=D) - 0.3 * self.x.sum()
        y = SYSTEM.A @ self.x + SYSTEM.B @ u + 0.1 * self.rng.standard_t(2.1, N)
        if np.abs(y).max() > 1e3:
            y = np.zeros(N)
        x, place = self.x, self.rng.integers(3)
        rest = self.dressed(u), self.dressed(y)
        if place:
            self.subject.update(self.dressed(x), *rest)
        else:
            self.alike(lambda one, form: one.update(form, u, y), x)
        self.x = y

    def good(self) -> None:
        kind = self.rng.integers(8)
        if kind < 4:
            self.step_on()
        elif kind == 4:
            self.look()
        elif kind == 5:
            self.subject = self.subject.clone()
        elif kind == 6 and self.rng.random() < 0.1:
            self.subject = through_file(self.subject)

    def look(self) -> None:
        raise NotImplementedError

    def bad_step(self) -> Call:
        place, given = int(self.rng.integers(3)), [self.x, np.zeros(D), self.x]
        given[place] = self.pick(bad_vectors(len(given[place])))
        call = ", ".join(map(shown, given))
        return f"update({call})", lambda: self.subject.update(*given)


class IdentifierPlayer(StepPlayer):
    """An identifier."""

    def acts(self, subject: Any) -> Any:
        return subject.theta.tobytes(), subject.inverse_gram.tobytes(), subject.radius

    def look(self) -> None:
        one = self.subject
        _ = one.A, one.B, one.spread, one.clipped, one.log_det, one.state_bytes
        theta = np.zeros((N + D, N))
        one.error(self.dressed(theta))
        one.contains(self.dressed(theta))

    def bad(self) -> Call:
        table = self.pick(bad_tables(N + D, N))
        asked: list[Call] = [
            (f"error({shown(table)})", lambda: self.subject.error(table)),
            (f"contains({shown(table)})", lambda: self.subject.contains(table)),
        ]
        return self.bad_step() if self.rng.random() < 0.7 else self.pick(asked)


class ControllerPlayer(StepPlayer):
    """A controller."""

    def acts(self, subject: Any) -> Any:
        return subject.act(self.x).tobytes(), subject.gain.tobytes()

    def look(self) -> None:
        self.subject.act(self.dressed(self.x))
        _ = self.subject.gain, self.subject.fallbacks, self.subject.refusals

    def bad(self) -> Call:
        x = self.pick(bad_vectors(N))
        if self.rng.random() < 0.3:
            return f"act({shown(x)})", lambda: self.subject.act(x)
        return self.bad_step()


def identifiers() -> list[Callable[[], Any]]:
    """Every identifier, and the other target of the one-pass one."""
    return [
        *(lambda kind=kind: kind(N, D) for kind in IDENTIFIERS),  # type: ignore[misc]
        lambda: control.SystemIdentifier(N, D, target="mean"),
    ]


def controllers() -> list[Callable[[], Any]]:
    """Every controller; soon past its warm-up."""
    return [
        lambda kind=kind, own=own: controller(kind, SYSTEM, own, warmup=20)  # type: ignore[misc]
        for kind, own in zip(CONTROLLERS, IDENTIFIERS, strict=True)
    ]
