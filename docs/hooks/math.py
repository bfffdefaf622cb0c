"""Formulas become MathML when the page is built, so that a page needs no script and no network."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
LONG = 40  # letters of TeX


def on_page_content(html: str, **_: Any) -> str:
    """Replace every formula of a rendered page; a wide one scrolls in a box of its own."""
    html = DISPLAY.sub(lambda m: f'<div class="formula">{_mathml(m, "block")}</div>', html)
    return INLINE.sub(lambda m: _boxed(_mathml(m, "inline"), m), html)


def _boxed(mathml: str, match: re.Match[str]) -> str:
    """A formula in a line does not break: a long one has a box, which a telephone can scroll."""
    return f'<span class="formula">{mathml}</span>' if len(match.group(1)) > LONG else mathml


def _mathml(match: re.Match[str], display: str) -> str:
    r"""The converter knows ``\argmin`` alone, and leaves the braces of ``\big\{`` as they are."""
    tex = unescape(match.group(1)).strip().replace(r"\arg\min", r"\argmin")
    return convert(tex, display=display).replace(r">\{<", ">{<").replace(r">\}<", ">}<")
