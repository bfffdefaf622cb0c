"""An example, and a file of deploy/, on a page is the file itself, taken when the site is built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PLACE = re.compile(r"<!-- (example|deploy): ([\w.]+) -->")
ROOT = Path(__file__).parents[2]
FOLDERS = {"example": ROOT / "examples", "deploy": ROOT / "deploy"}
LANGUAGES = {".py": "python", ".service": "ini", ".yaml": "yaml"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in every file that the page names; one that is not there stops the build."""
    return PLACE.sub(_fenced, markdown)


def _fenced(match: re.Match[str]) -> str:
    path = FOLDERS[match[1]] / match[2]
    return f"```{LANGUAGES[path.suffix]}\n{path.read_text().strip()}\n```"
