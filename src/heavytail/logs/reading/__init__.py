"""Logs of any kind as checked rows."""

from __future__ import annotations

from heavytail.logs.reading.log import chunks, counted, length

__all__ = ["chunks", "counted", "length"]
