"""Formulas become MathML when the page is built, so that a page needs no script and no network."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>([.,;:)]?)', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
LONG = 40  # letters of TeX
# The converter's words for what it does not know, and where it leaves TeX or spoils the spacing.
TEX = {r"\arg\min": r"\argmin", "{aligned}": "{split}"}
MATHML = {
    r">\{<": ">{<",
    r">\}<": ">}<",
    '<mo stretchy="false">&#x0007C;': '<mo stretchy="false" lspace="0" rspace="0">&#x0007C;',
}
# A prime is raised by itself; as an exponent it would be too small to see.
PRIME = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>(&#x02032;)</mi></msup>")


def on_page_content(html: str, **_: Any) -> str:
    """Replace every formula of a rendered page; a wide one scrolls in a box of its own."""
    html = DISPLAY.sub(lambda m: f'<div class="formula">{_mathml(m[1], "block")}</div>', html)
    return INLINE.sub(_inline, html)


def _inline(match: re.Match[str]) -> str:
    """A formula does not break: a long one has a box, a short one keeps what ends its clause."""
    tex, end = match.groups()
    if len(tex) > LONG:
        return f'<span class="formula">{_mathml(tex, "inline")}</span>{end}'
    return f'<span class="kept">{_mathml(tex, "inline")}{end}</span>'


def _mathml(tex: str, display: str) -> str:
    shown = convert(_with(TEX, unescape(tex).strip()), display=display)
    return PRIME.sub(r'<mrow>\1<mo lspace="0" rspace="0">\2</mo></mrow>', _with(MATHML, shown))


def _with(words: dict[str, str], text: str) -> str:
    for old, new in words.items():
        text = text.replace(old, new)
    return text
