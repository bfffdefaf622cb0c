"""The on-disk cache is hit by an unchanged source and right after any change of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import heavytail

pytestmark = pytest.mark.compiled

# theory_radius, in one file, calls time_exponent, in another.
ASK = """
from heavytail.confidence import theory_radius
value = theory_radius(4.0, 1.0, 1.0, 0.0)
print(value, sum(theory_radius.stats.cache_hits.values()))
"""


def test_a_cached_kernel_follows_a_change_of_what_it_calls(tmp_path: Path) -> None:
    package = tmp_path / "heavytail"
    source = Path(heavytail.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(tmp_path)

    def ask() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert ask() == ["2.0", "0"]
    assert ask() == ["2.0", "1"]
    callee = package / "kernels" / "huber.py"
    before = callee.read_text()
    old = "return (2.0 - order) / (2.0 * order)"
    assert old in before
    callee.write_text(before.replace(old, "return 2.0 * (2.0 - order) / (2.0 * order)"))
    assert ask() == ["4.0", "0"]
    callee.write_text(before)
    assert ask()[0] == "2.0"
