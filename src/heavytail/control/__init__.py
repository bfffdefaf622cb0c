"""Linear-quadratic control under heavy-tailed noise: systems, identification, controllers."""

from __future__ import annotations

from heavytail.control.controllers import OFULQ, CertaintyEquivalence, Controller, ThompsonLQ
from heavytail.control.identify import (
    BatchHuberIdentifier,
    Identifier,
    RidgeIdentifier,
    SystemIdentifier,
)
from heavytail.control.loop import ControlResults, ControlRun, simulate_control
from heavytail.control.systems import LQSystem, boeing_747, double_integrator, laplacian

ALL: tuple[type[Controller | Identifier], ...] = (
    CertaintyEquivalence,
    OFULQ,
    ThompsonLQ,
    SystemIdentifier,
    RidgeIdentifier,
    BatchHuberIdentifier,
)

__all__ = [
    "ALL",
    "OFULQ",
    "BatchHuberIdentifier",
    "CertaintyEquivalence",
    "ControlResults",
    "ControlRun",
    "Controller",
    "Identifier",
    "LQSystem",
    "RidgeIdentifier",
    "SystemIdentifier",
    "ThompsonLQ",
    "boeing_747",
    "double_integrator",
    "laplacian",
    "simulate_control",
]
