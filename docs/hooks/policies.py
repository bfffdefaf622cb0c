"""What pages say of every policy is taken from the policies when the site is built."""

from __future__ import annotations

from typing import Any

from heavytail.commands.policies import markdown as table
from heavytail.policies import ALL


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the table, the sources and the reference entries."""
    parts = {
        "table": table(),
        "sources": "\n\n".join(f"### {kind.name}\n\n{kind.info.sources}" for kind in ALL),
        "reference": "\n\n".join(f"::: {kind.__module__}.{kind.__name__}" for kind in ALL),
    }
    for name, text in parts.items():
        markdown = markdown.replace(f"<!-- policies: {name} -->", text)
    return markdown
