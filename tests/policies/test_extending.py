"""Who extends whom: no policy of ours another, and users what pages name."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest

import heavytail as ht
from heavytail import environments
from heavytail.policies import ALL, Policy
from heavytail.policies.core.base import PackedPolicy

PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_no_policy_of_ours_extends_another(kind: type[Policy]) -> None:
    assert [one for one in kind.__mro__[1:] if one in ALL] == []


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_no_policy_stands_on_more_than_six_classes_of_ours(kind: type[Policy]) -> None:
    ours = [base for base in kind.__mro__[1:] if base.__module__.startswith("heavytail")]
    assert len(ours) <= 6, [base.__name__ for base in ours]


def extended() -> dict[str, type]:
    """What pages extend in their code, or say to subclass in words."""
    text = "\n".join(path.read_text() for path in sorted(PAGES.rglob("*.md")))
    names = {
        name
        for bases in re.findall(r"^(?:>>> )?class \w+\(([^)]+)\)", text, re.M)
        for name in bases.split(", ")
    }
    names |= set(re.findall(r"subclass `heavytail\.([\w.]+)`", text))
    known = {"PackedPolicy": PackedPolicy, "NamedTuple": tuple, **vars(environments)}
    return {name: known.get(name) or attrgetter(name.removeprefix("ht."))(ht) for name in names}


def test_what_a_guide_tells_users_to_extend_is_not_final() -> None:
    assert extended().keys() >= {"PackedPolicy", "ht.Policy", "ht.TwinUCB"}
    assert [name for name, kind in extended().items() if getattr(kind, "__final__", False)] == []
