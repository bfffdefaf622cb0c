"""The table of policies in the documentation is the command's, and every policy is explained."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from docs.hooks.policies import on_page_markdown

from heavytail.policies import ALL, Policy

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_every_policy_stands_in_the_pages_that_are_built_from_the_list(kind: type[Policy]) -> None:
    page = on_page_markdown((DOCS / "algorithms" / "policies.md").read_text())
    assert f"| {kind.name} | {kind.info.method} |" in page
    assert f"\n### {kind.name}\n\n{kind.info.sources}" in page
    assert kind.info.sources, "say what is certain of it and what was decided, in info.sources"
    reference = on_page_markdown((DOCS / "reference" / "policies.md").read_text())
    assert f"::: {kind.__module__}.{kind.__name__}" in reference


def untuned() -> dict[str, tuple[str, str]]:
    text = (DOCS / "evidence" / "untuned_defaults.md").read_text()
    rows = re.findall(r"^\| ([A-Z][\w-]*) \| (\S+) \| (\S+) \|", text, flags=re.MULTILINE)
    return {name: (radius, threshold) for name, radius, threshold in rows}


@pytest.mark.parametrize("kind", [k for k in ALL if k.name in untuned()], ids=lambda k: k.name)
def test_defaults_are_those_that_the_untuned_table_found(kind: type) -> None:
    radius, threshold = untuned()[kind.name]
    takes = inspect.signature(kind).parameters
    expected = float(radius)
    assert takes["radius_scale"].default == expected
    if "threshold_scale" in takes:
        assert takes["threshold_scale"].default == float(threshold)


def test_the_untuned_table_has_rows_of_policies_alone() -> None:
    assert set(untuned()) <= {kind.name for kind in ALL}
