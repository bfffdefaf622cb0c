"""What a release needs: one version everywhere, and archives in which nothing is missing.

``make release`` installs and runs them; these are the checks that take a moment.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import heavytail

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The names in the source archive and in the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (place,) = [name for name in names if name.endswith("METADATA")]
        metadata = archive.read(place).decode()
    return source, names, metadata


def tracked() -> set[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone")
    found = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(found.stdout.split("\n")) - {""}


def test_the_source_archive_has_every_file(built):
    source, _, _ = built
    assert {name for name in tracked() if (ROOT / name).exists()} - source == set()


def test_the_wheel_has_every_file_of_the_package(built):
    _, names, _ = built
    package = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    assert {name for name in package if (ROOT / "src" / name).exists()} - names == set()
    outside = {name.partition("/")[0] for name in names} - {"heavytail"}
    assert outside == {f"heavytail-{heavytail.__version__}.dist-info"}


def test_the_metadata_says_who_what_and_for_whom(built):
    _, _, metadata = built
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "Author: heavytail contributors" in metadata
    for extra in told["optional-dependencies"]:
        assert f"Provides-Extra: {extra}" in metadata
    least = told["requires-python"].removeprefix(">=")
    assert f"Classifier: Programming Language :: Python :: {least}" in metadata


def test_there_is_one_version():
    version = re.escape(heavytail.__version__)
    newest = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == "Unreleased" or re.fullmatch(rf"{version} \(\d{{4}}-\d\d-\d\d\)", newest)
    cited = (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^version: {version}$", cited, re.MULTILINE)
    if newest != "Unreleased":
        assert newest.split("(")[1].rstrip(")") in cited


def test_ci_runs_what_the_readme_says():
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
