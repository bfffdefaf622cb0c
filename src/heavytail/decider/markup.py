"""Tables as text and as HTML: every value escaped, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from heavytail.decider.choice import amount

__all__ = ["counted", "note", "percent", "signed", "table", "text_table"]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """An HTML table; its first column is text, the others are numbers."""
    parts = ["<table>"]
    if title:
        parts.append(f"<caption style='text-align:left'>{html.escape(title)}</caption>")
    parts.append("<thead><tr>" + "".join(_cell("th", h, i) for i, h in enumerate(heads)))
    parts.append("</tr></thead><tbody>")
    for row in rows:
        parts.append("<tr>" + "".join(_cell("td", c, i) for i, c in enumerate(row)) + "</tr>")
    return "".join([*parts, "</tbody></table>"])


def _cell(tag: str, text: str, column: int) -> str:
    side = "left" if column == 0 else "right"
    return f"<{tag} style='text-align:{side}'>{html.escape(text)}</{tag}>"


def note(*sentences: str) -> str:
    """Sentences as HTML, one to a line."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences if sentence)


def text_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; its first column is text, the others are numbers."""
    lines = [heads, *rows]
    widths = [max(len(row[k]) for row in lines) for k in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in lines
    ]


def signed(value: float) -> str:
    """A difference for people: with its sign."""
    return f"+{amount(value)}" if value > 0.0 else amount(value)


def counted(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share for people."""
    if 0.0 < share < 0.001:
        return "< 0.1 %"
    digits = 0 if share in (0.0, 1.0) or 0.0995 <= share <= 0.9 else 1
    return f"{100.0 * share:.{digits}f} %"
