"""What a release is checked by: ``make release``, or ``python -m tests.release dist``.

The wheel is installed into an empty environment and runs the examples of the README there, far from
the source; the source archive is unpacked, and its own tests run in it. ``--some`` runs a part of
them, which takes a minute.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

SOME = ["tests/test_storage.py", "tests/test_cli.py", "tests/test_release.py"]
README = """
import doctest, sys
found = doctest.testfile(sys.argv[1], module_relative=False)
print(f"README: {found.attempted} examples, {found.failed} failed")
sys.exit(bool(found.failed) or not found.attempted)
"""


def run(*command: str | os.PathLike[str], **more) -> None:
    print("+", *map(os.fspath, command), flush=True)
    subprocess.run(command, check=True, **more)


def check_wheel(wheel: Path, readme: Path, folder: Path) -> None:
    """The README's examples, where nothing but the wheel and what it needs is installed."""
    venv.create(folder / "empty", with_pip=True)
    python = folder / "empty" / ("Scripts" if os.name == "nt" else "bin") / "python"
    quiet = ["--quiet", "--disable-pip-version-check"]
    run(python, "-m", "pip", "install", *quiet, wheel)
    run(python, "-I", "-c", README, readme, cwd=folder)
    run(python, "-I", "-m", "heavytail", "--version", cwd=folder)


def check_sdist(sdist: Path, folder: Path, tests: list[str]) -> None:
    """The archive's own tests, in the archive, with the tools of this environment."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = [one for one in folder.iterdir() if one.name.startswith("heavytail-")]
    env = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not slow", *tests]
    run(*command, cwd=root, env=env)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dist", type=Path, help="the folder with one wheel and one source archive")
    parser.add_argument("--some", action="store_true", help="of the archive's tests, a part")
    args = parser.parse_args()
    (wheel,) = args.dist.resolve().glob("*.whl")
    (sdist,) = args.dist.resolve().glob("*.tar.gz")
    readme = Path("README.md").resolve()
    with tempfile.TemporaryDirectory() as folder:
        check_wheel(wheel, readme, Path(folder))
        check_sdist(sdist, Path(folder), SOME if args.some else [])
    return 0


if __name__ == "__main__":
    sys.exit(main())
