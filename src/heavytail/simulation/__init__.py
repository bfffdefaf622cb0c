"""Running policies in environments: one episode, many trials, two engines, one result."""

from __future__ import annotations

from heavytail.simulation.distribution import Distribution, distribution
from heavytail.simulation.results import Results, Run
from heavytail.simulation.trials import simulate

__all__ = ["Distribution", "Results", "Run", "distribution", "simulate"]
