"""The table of policies in the documentation is the command's, and every policy is explained."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from heavytail.cli import main
from heavytail.policies import ALL

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
KEEP_ONE = {"OFUL"}  # works at 1, which is what everybody means by it


def test_the_page_shows_the_table_that_the_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["policies", "--markdown"]) == 0
    table = capsys.readouterr().out.strip()
    assert (
        f"<!-- heavytail policies --markdown -->\n{table}\n<!-- end -->"
        in (GUIDE / "policies.md").read_text()
    )


@pytest.mark.parametrize("name", [kind.name for kind in ALL])
def test_the_page_says_what_was_certain_and_what_was_re_derived(name: str) -> None:
    text = (GUIDE / "policies.md").read_text()
    assert f"\n### {name}\n\n" in text


def untuned() -> dict[str, tuple[str, str]]:
    text = (GUIDE / "untuned_defaults.md").read_text()
    rows = re.findall(r"^\| ([A-Z][\w-]*) \| (\S+) \| (\S+) \|", text, flags=re.MULTILINE)
    return {name: (radius, threshold) for name, radius, threshold in rows}


@pytest.mark.parametrize("kind", [k for k in ALL if k.name in untuned()], ids=lambda k: k.name)
def test_defaults_are_those_that_the_untuned_table_found(kind: type) -> None:
    radius, threshold = untuned()[kind.name]
    takes = inspect.signature(kind).parameters
    expected = 1.0 if kind.name in KEEP_ONE else float(radius)
    assert takes["radius_scale"].default == expected
    if "threshold_scale" in takes:
        assert takes["threshold_scale"].default == float(threshold)


def test_the_untuned_table_has_a_row_for_every_policy_that_can_be_scaled() -> None:
    own = {"Hvt-UCB", "Uniform"}  # a calibration of its own; nothing to scale
    assert set(untuned()) == {kind.name for kind in ALL} - own
