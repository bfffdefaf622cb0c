"""The page of the command line is what ``--help`` prints, taken when the site is built."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from typing import Any

from heavytail.cli import COMMANDS, build_parser

PLACE = "<!-- commands: help -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the help of every command."""
    if PLACE not in markdown:
        return markdown
    parts = (f"## {one.prog}\n\n```text\n{one.format_help().strip()}\n```" for one in parsers())
    return markdown.replace(PLACE, "\n\n".join(parts))


def parsers() -> Iterator[argparse.ArgumentParser]:
    """``heavytail`` itself and every command, with the commands of its own that it has."""
    waiting = [build_parser(list(COMMANDS))]
    while waiting:
        one = waiting.pop(0)
        one.formatter_class = functools.partial(argparse.HelpFormatter, width=88)
        one.color = False  # of Python 3.14, where the site is built from a terminal
        yield one
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting = [*action.choices.values(), *waiting]
