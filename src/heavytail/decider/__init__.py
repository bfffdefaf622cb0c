"""From a table of offers to decisions on rows as they come."""

from __future__ import annotations

from heavytail.decider.choice import Choice
from heavytail.decider.decider import Decider
from heavytail.decider.prices import Grid

__all__ = ["Choice", "Decider", "Grid"]
