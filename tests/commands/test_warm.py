"""``heavytail warm`` compiles what a policy calls, and says how long it took."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from heavytail.cli import main
from heavytail.kernels import jit


@pytest.mark.compiled
def test_a_policy_is_compiled_and_timed(capsys):
    assert main(["warm", "Uniform"]) == 0
    assert re.fullmatch(r"Uniform: \d+\.\d s\n", capsys.readouterr().out)


SERVED = """
from heavytail.policies import make_policy
from heavytail.serve.model import warmed
warmed(make_policy("Uniform", dim=3))
"""


@pytest.mark.compiled
def test_a_service_compiles_nothing_more(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def cached(*arguments: str) -> list[Path]:
        subprocess.run([sys.executable, *arguments], env=environment, check=True)
        return sorted(tmp_path.rglob("*.nbc"))

    files = cached("-m", "heavytail", "warm", "Uniform")
    assert files
    assert cached("-c", SERVED) == files


def test_an_unknown_policy_is_refused(capsys):
    assert main(["warm", "Nobody"]) == 2
    assert "no policy is called 'Nobody'" in capsys.readouterr().err


def test_it_says_where_nothing_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(jit, "compiled", lambda: False)
    assert main(["warm"]) == 2
    assert "NUMBA_DISABLE_JIT" in capsys.readouterr().err
