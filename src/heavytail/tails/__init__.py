"""Assumptions on the noise, and estimates of its tail from data."""

from __future__ import annotations

from heavytail.tails.bound import MomentBound
from heavytail.tails.monitor import TailMonitor, diagnose
from heavytail.tails.report import Hill, TailReport

__all__ = ["Hill", "MomentBound", "TailMonitor", "TailReport", "diagnose"]
