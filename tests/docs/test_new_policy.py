"""The guide to a new policy, followed to the letter in a copy of the tree: the tests stay green."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[2]
COPIED = (
    *("src", "tests", "docs", "benchmarks", "examples"),
    *("README.md", "Makefile", "mkdocs.yml", "pyproject.toml"),
)
# The tests that go over every policy. With the compiler off: a copy has no compiled kernels.
QUICK = ("tests/checks/test_conformance.py", "tests/docs/test_policy_table.py", "tests/test_cli.py")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with the guide's policy in it."""
    copy = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc", "results")
            shutil.copytree(source, copy / name, ignore=skip)
        else:
            shutil.copy(source, copy / name)
    guide = (ROOT / "docs" / "developers" / "new_policy.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (line,) = re.findall(r"^ *(from \.winsor import Winsor as Winsor)$", guide, re.MULTILINE)
    folder = copy / "src" / "heavytail" / "policies"
    (folder / "winsor.py").write_text(code)
    listed = (folder / "__init__.pyi").read_text()
    (folder / "__init__.pyi").write_text(
        listed.replace("from .uniform", f"{line}\nfrom .uniform", 1)
    )
    return copy


def run(tree: Path, *command: str, **extra: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), **extra}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_new_policy_meets_the_battery_and_every_table(tree: Path) -> None:
    out = run(
        tree,
        *("-m", "pytest", *QUICK, "-n", "0", "-k", "Winsor or list or table or page"),
        *("-vv", "-p", "no:cacheprovider"),
        NUMBA_DISABLE_JIT="1",
    )
    met = set(re.findall(r"test_every_policy_passes_the_battery\[Winsor-(\w+)\]", out))
    import heavytail as ht

    assert met == set(ht.checks.POLICY_CHECKS)


def test_it_can_be_had_by_name_and_is_typed(tree: Path) -> None:
    code = "import heavytail as ht; print(ht.Winsor.name, 'Winsor' in dir(ht.policies))"
    assert run(tree, "-c", code).split() == ["Winsor", "True"]


@pytest.mark.slow
def test_the_whole_suite_stays_green(tree: Path) -> None:
    missing = "tests/fuzz/test_fuzz_machines.py::test_every_policy_has_a_twin[Winsor]"
    options = ("-n", "2", "-p", "no:cacheprovider", "--deselect", missing)
    run(tree, "-m", "pytest", "-m", "not slow", *options)
