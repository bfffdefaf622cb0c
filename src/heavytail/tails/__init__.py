"""What is assumed of the noise, and what data say about it."""

from __future__ import annotations

from heavytail.tails.bound import MomentBound
from heavytail.tails.monitor import TailMonitor, diagnose
from heavytail.tails.report import Hill, TailReport

__all__ = ["Hill", "MomentBound", "TailMonitor", "TailReport", "diagnose"]
