"""From a table of offers to decisions on rows as they come."""

from __future__ import annotations

from heavytail.decider.against import Against
from heavytail.decider.choice import Choice
from heavytail.decider.decider import Decider
from heavytail.decider.diagnosing import Diagnosis
from heavytail.decider.effects import Effect, Effects, Price
from heavytail.decider.explaining import Parts
from heavytail.decider.learning import Learned
from heavytail.decider.prices import Grid
from heavytail.decider.report import OfferLine, Report, SegmentLine

__all__ = [
    "Against",
    "Choice",
    "Decider",
    "Diagnosis",
    "Effect",
    "Effects",
    "Grid",
    "Learned",
    "OfferLine",
    "Parts",
    "Price",
    "Report",
    "SegmentLine",
]
