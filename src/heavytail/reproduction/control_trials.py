"""The trials of ``heavytail reproduce control``: its systems, and what its units call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from heavytail._typing import FloatArray
from heavytail.control.controllers import OFULQ, CertaintyEquivalence, Controller, ThompsonLQ
from heavytail.control.identify import (
    BatchHuberIdentifier,
    Identifier,
    RidgeIdentifier,
    SystemIdentifier,
)
from heavytail.control.loop import run_trial
from heavytail.control.systems import LQSystem, boeing_747, double_integrator, laplacian
from heavytail.environments.noise import Gaussian, StudentT

__all__ = ["CONTROLLERS", "IDENTIFIERS", "SYSTEMS", "control_block", "fallback", "make_system"]

SYSTEMS = {"laplacian": laplacian, "double integrator": double_integrator, "Boeing 747": boeing_747}
IDENTIFIERS: dict[str, Callable[[int, int], Identifier]] = {
    kind.name: kind for kind in (RidgeIdentifier, SystemIdentifier, BatchHuberIdentifier)
}
CONTROLLERS: dict[str, Callable[..., Controller]] = {
    kind.name: kind for kind in (CertaintyEquivalence, OFULQ, ThompsonLQ)
}


def make_system(name: str, df: float) -> LQSystem:
    """One of the systems under Student's t noise; df = infinity is the normal."""
    return SYSTEMS[name](Gaussian() if math.isinf(df) else StudentT(df))


def fallback(system: LQSystem) -> FloatArray:
    """The gain that controllers fall back on: optimal for Q = I, R = 10 I."""
    return system.gain_for(np.eye(system.n), 10.0 * np.eye(system.d))


def control_block(
    system: str,
    df: float,
    controller: str,
    identifier: str,
    marks: Sequence[int],
    seed: int,
    first: int,
    trials: int,
) -> dict[str, FloatArray]:
    """A few trials of one controller and identifier; no controller: identification alone.

    ``error`` and ``regret`` (trials, marks), ``caught`` and ``seconds`` (trials,).
    """
    plant = make_system(system, df)
    kept = np.array(marks)
    outcomes = [
        run_trial(_build(plant, controller, identifier, marks[-1]), plant, seed, trial, kept)
        for trial in range(first, first + trials)
    ]
    _, regret, error, caught, _, _, seconds = map(np.array, zip(*outcomes, strict=True))
    return {"error": error, "regret": regret, "caught": caught * 1.0, "seconds": seconds}


def _build(system: LQSystem, controller: str, identifier: str, steps: int) -> Controller:
    """The controller with its identifier."""
    kind = CONTROLLERS[controller or CertaintyEquivalence.name]
    # To identify alone: a warm-up that never ends.
    other = {} if controller else {"warmup": steps + 1}
    return kind(
        IDENTIFIERS[identifier](system.n, system.d),
        Q=system.Q,
        R=system.R,
        fallback=fallback(system),
        **other,
    )
