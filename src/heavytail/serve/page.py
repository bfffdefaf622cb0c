"""The web page at ``GET /``: one file that calls only the service's own ``/v1``."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

__all__ = ["HEADERS", "PAGE"]

PAGE = Path(__file__).with_name("page.html").read_bytes()


def _hash(tag: str) -> str:
    """The CSP hash of the page's only ``tag``: no injected script or style is allowed."""
    (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), PAGE, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside).digest()).decode()}'"


HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; script-src {_hash('script')}; style-src {_hash('style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
