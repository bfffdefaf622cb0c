"""How Chromium is started where a test looks at a page."""

from __future__ import annotations

__all__ = ["FLAGS"]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
