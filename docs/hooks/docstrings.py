"""Docstrings are written for a terminal; for the site alone they become Markdown here."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")
EXAMPLE = re.compile(r"^( *)>>> .*\n(?:\1\S.*\n?)*", re.MULTILINE)
# Stars that are no emphasis, as in theta*: whatever is code or stands around whole words is left.
STAR = re.compile(
    r"(?P<kept>```.*?```|`[^`]*`|\$[^$]*\$|(?<!\w)\*{1,2}\w[^*]*\*{1,2}(?!\w))|(?<=[\w)])\*",
    re.DOTALL,
)
LITERAL = re.compile(r"^ *::$|:(?=:$)", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """The docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """``text`` with its examples fenced, its roles as code and its literal blocks as Markdown's."""
    text = ROLE.sub(r"`\1`", LITERAL.sub("", text))
    text = EXAMPLE.sub(lambda m: f"{m[1]}```pycon\n{m[0].rstrip()}\n{m[1]}```\n", text + "\n")
    return STAR.sub(lambda m: m["kept"] or r"\*", text)
