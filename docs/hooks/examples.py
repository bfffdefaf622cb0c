"""The code of an example on a page is the file itself, taken when the site is built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PLACE = re.compile(r"<!-- example: (\w+\.py) -->")
EXAMPLES = Path(__file__).parents[2] / "examples"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in every example that the page names; one that is not there stops the build."""
    return PLACE.sub(lambda m: f"```python\n{(EXAMPLES / m[1]).read_text().strip()}\n```", markdown)
