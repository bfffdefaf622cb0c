"""Formulas become MathML when the page is built, so that a page needs no script and no network."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Replace every formula of a rendered page."""
    html = DISPLAY.sub(lambda m: convert(_tex(m), display="block"), html)
    return INLINE.sub(lambda m: convert(_tex(m)), html)


def _tex(match: re.Match[str]) -> str:
    return unescape(match.group(1)).strip()
