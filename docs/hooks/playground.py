"""The playground shows recorded runs, which are written into the page when the site is built."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import heavytail as ht
from heavytail.experiments.source import code_digest, kernel_modules
from heavytail.policies import PackedPolicy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PLACE = BENCHMARKS / "recorded_playground.json"
HERE = "<!-- playground: runs -->"


def on_page_content(html: str, **_: Any) -> str:
    """Write the runs into the page that asks for them, as data that its script reads."""
    if HERE not in html:
        return html
    text = json.dumps(recorded(), separators=(",", ":")).replace("<", r"\u003c")
    return html.replace(HERE, f'<script type="application/json" id="runs">{text}</script>')


def recorded(place: Path = PLACE) -> dict[str, Any]:
    """The runs, refused where they were edited or the source that made them was."""
    record: dict[str, Any] = json.loads(place.read_text())
    if record["stamp"] != stamp(record["runs"]):
        raise ValueError(
            f"{place.name} does not fit benchmarks/playground.py and the policies that it plays: "
            "one was changed after the other. Record the runs again, by "
            "python -m benchmarks.playground."
        )
    return record


def stamp(runs: dict[str, Any]) -> str:
    """Of the source that makes runs, the policies' and their kernels' among it, and of the runs."""
    text = (BENCHMARKS / "playground.py").read_text() + json.dumps(runs, sort_keys=True)
    modules = set()
    for policy in played():
        kernels = kernel_modules([policy.algorithm.update, policy.algorithm.select])
        modules |= {type(policy).__module__, *kernels}
    text += code_digest(frozenset(modules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def played() -> list[PackedPolicy]:
    """One of each policy that is played."""
    told = {"noise_scale": 1.0}
    own = [ht.TwinUCB(2), ht.HvtUCB(2), ht.Uniform(2)]
    return [*own, ht.OFUL(2, **told), ht.LinTS(2, **told)]
