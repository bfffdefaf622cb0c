"""What a release needs: one version everywhere, and archives in which nothing is missing.

``make release`` installs and runs them; these are the checks that take a moment.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests import release

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


# --- what make release does


@pytest.fixture
def calls(monkeypatch):
    """What would be run: commands without Python's own name, and what else is said of them."""
    found = []
    monkeypatch.setattr(release, "run", lambda *words, **more: found.append((words[1:], more)))
    monkeypatch.setattr(release.venv, "create", lambda folder, with_pip: None)
    return found


@pytest.mark.parametrize(
    ("text", "code"), [(">>> 1 + 1\n2\n", 0), (">>> 1 + 1\n3\n", 1), ("no examples\n", 1)]
)
def test_examples_must_be_there_and_hold(text, code, tmp_path):
    (tmp_path / "README.md").write_text(text)
    command = [sys.executable, "-I", "-c", release.README, str(tmp_path / "README.md")]
    assert subprocess.run(command, capture_output=True).returncode == code


def test_a_command_that_fails_ends_it():
    with pytest.raises(subprocess.CalledProcessError):
        release.run(sys.executable, "-I", "-c", "raise SystemExit(3)")


def test_the_wheel_is_tried_far_from_the_source(calls, tmp_path):
    release.check_wheel(Path("it.whl"), Path("README.md"), tmp_path)
    (install, _), *others = calls
    assert install[:3] == ("-m", "pip", "install")
    assert install[-1] == Path("it.whl")
    there = {"cwd": tmp_path}
    assert others == [
        (("-I", "-c", release.README, Path("README.md")), there),
        (("-I", "-m", "heavytail", "--version"), there),
    ]


def source_archive(path, name):
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return path


def test_the_source_archive_is_tested_by_itself_and_in_itself(calls, tmp_path):
    sdist = source_archive(tmp_path / "it.tar.gz", "heavytail-9/a.py")
    release.check_sdist(sdist, tmp_path, ["tests/some.py"])
    ((words, more),) = calls
    assert words[:2] == ("-m", "pytest")
    assert words[-1] == "tests/some.py"
    assert more["cwd"] == tmp_path / "heavytail-9"
    assert more["env"]["PYTHONPATH"] == str(tmp_path / "heavytail-9" / "src")
    with pytest.raises(tarfile.FilterError):
        release.check_sdist(source_archive(sdist, "../a.py"), tmp_path, [])
    assert len(calls) == 1


@pytest.mark.parametrize(("words", "tests"), [([], []), (["--some"], release.SOME)])
def test_one_wheel_and_one_source_archive_are_looked_at(words, tests, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(release, "check_wheel", lambda wheel, *_: asked.append(wheel.name))
    monkeypatch.setattr(release, "check_sdist", lambda one, _, told: asked.append((one.name, told)))
    monkeypatch.setattr(sys, "argv", ["release", str(tmp_path), *words])
    for name in ("a.whl", "a.tar.gz"):
        (tmp_path / name).touch()
    assert release.main() == 0
    assert asked == ["a.whl", ("a.tar.gz", tests)]
    (tmp_path / "b.whl").touch()
    with pytest.raises(ValueError, match="too many values"):
        release.main()


def test_some_of_the_tests_are_there():
    assert all((ROOT / name).exists() for name in release.SOME)
