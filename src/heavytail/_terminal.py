"""Output of the commands: tables that fit the terminal, and letters its encoding has."""

from __future__ import annotations

import codecs
import os
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import TextIO

__all__ = ["as_table", "paragraph", "speak_plainly", "width"]

PLAIN = "heavytail.plain"  # the error handler that writes letters as ASCII
LINE = 100  # characters of a line of prose
IN_ASCII = {
    "✓": "yes", "✗": "no", "◐": "part", "·": ".", "…": "...", "±": "+-", "‖": "||", "≠": "!=",
    "≤": "<=", "≥": ">=", "×": "x", "–": "-", "—": "-", "µ": "u", "μ": "u", "²": "^2", "³": "^3",
    "⁴": "^4", "λ": "lambda", "δ": "delta", "θ": "theta", "ν": "nu", "σ": "sigma", "†": "*",
    "⚠": "!", "“": '"', "”": '"', "’": "'", "•": "*", "ß": "ss",
}  # fmt: skip


def width() -> int | None:
    """Columns of the terminal, or what ``COLUMNS`` says; None in a pipe or a file, where nothing is
    too wide.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError, AttributeError):  # no terminal, or something in its place
        return None


def as_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, most: int | None, right: bool = False
) -> str:
    """Aligned columns, or, where a line would have more than ``most`` characters, a block per row.

    >>> print(as_table(("name", "a"), [("x", "1"), ("y", "22")], most=None))
    name  a
    x     1
    y     22
    >>> print(as_table(("name", "a"), [("x", "1"), ("y", "22")], most=5))
    x
      a  1
    y
      a  22

    ``right`` aligns all but the first column to the right.
    """
    table = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    if most is None or sum(widths) + 2 * (len(widths) - 1) <= most:
        return "\n".join(
            "  ".join(
                cell.rjust(wide) if right and place else cell.ljust(wide)
                for place, (cell, wide) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        )
    return "\n".join(_block(columns, row, most) for row in rows)


def paragraph(words: str) -> str:
    """A text in lines that are read with ease."""
    return textwrap.fill(words, min(width() or LINE, LINE), break_long_words=False)


def _block(columns: Sequence[str], row: Sequence[str], most: int) -> str:
    """A row as lines: its first cell, and under it the name and the content of every other."""
    room = max(map(len, columns[1:]), default=0)
    lines = [row[0]]
    for name, cell in zip(columns[1:], row[1:], strict=True):
        if cell:
            head = f"  {name.ljust(room)}  "
            part = textwrap.wrap(cell, max(most - len(head), 20), break_long_words=False)
            lines += [head + part[0], *(" " * len(head) + line for line in part[1:])]
    return "\n".join(lines)


def speak_plainly(*streams: TextIO) -> None:
    """Print on ``streams`` whatever their encoding: letters it lacks are written in ASCII. If the
    locale is C, all letters are.
    """
    codecs.register_error(PLAIN, _plain)
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    forced = any(map(os.environ.get, ("PYTHONIOENCODING", "PYTHONUTF8")))
    for stream in streams:
        if not hasattr(stream, "reconfigure"):
            continue
        if locale in ("C", "POSIX") and not forced:
            stream.reconfigure(encoding="ascii", errors=PLAIN)
        else:
            stream.reconfigure(errors=PLAIN)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


def _in_ascii(letter: str) -> str:
    """A letter by its sign, without its accents, or as its number."""
    if letter in IN_ASCII:
        return IN_ASCII[letter]
    base = "".join(
        character for character in unicodedata.normalize("NFKD", letter) if character.isascii()
    )
    return base or letter.encode("ascii", "backslashreplace").decode()
