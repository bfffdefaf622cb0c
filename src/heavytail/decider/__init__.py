"""From a table of offers to decisions on rows as they come."""

from __future__ import annotations

from heavytail.decider.choice import Choice
from heavytail.decider.decider import Decider
from heavytail.decider.effects import Effects
from heavytail.decider.prices import Grid
from heavytail.decider.report import Report

__all__ = ["Choice", "Decider", "Effects", "Grid", "Report"]
