"""Running policies in worlds: one episode, many trials, two engines, one result."""

from __future__ import annotations

from heavytail.simulation.coverage import Coverage, coverage
from heavytail.simulation.distribution import Distribution, distribution
from heavytail.simulation.results import Results, Run
from heavytail.simulation.trials import simulate

__all__ = ["Coverage", "Distribution", "Results", "Run", "coverage", "distribution", "simulate"]
