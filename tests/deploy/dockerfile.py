"""The instructions of a Dockerfile."""

from __future__ import annotations

import re
from pathlib import Path


def instructions(path: Path) -> list[tuple[str, str]]:
    """The name and the arguments of each instruction, in order."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines if line)
    ]
