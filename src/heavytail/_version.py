"""The version, read from here by the package, by its files and by the build; and the commit."""

from __future__ import annotations

from pathlib import Path

__all__ = ["__version__", "commit_of", "origin"]

__version__ = "0.3.0"
PLACE = "src/heavytail/"  # of the package in its own repository
RECORDS = ":!reproduction/recorded"  # changed records are no changed code


def origin() -> dict[str, str]:
    """The version of the library and, if it runs from its repository, the commit."""
    commit = commit_of(Path(__file__).resolve().parent)
    return {"library": __version__, **({} if commit == "unknown" else {"commit": commit})}


def commit_of(package: Path) -> str:
    """The commit of the repository that a package belongs to, with + where its code was changed;
    "unknown" outside git, and where the package is only installed inside another repository.
    """
    import subprocess

    def git(*words: str) -> str:
        command = ["git", "-C", str(package), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if git("rev-parse", "--show-prefix") != PLACE:
            return "unknown"
        head = git("rev-parse", "--short=10", "HEAD")
        return head + ("+" if git("status", "--porcelain", "--", ".", RECORDS) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
