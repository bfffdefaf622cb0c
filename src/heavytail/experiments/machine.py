"""Where and with what numbers were made: enough to make them again, and nothing personal."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from heavytail._version import __version__, commit_of

__all__ = [
    "DIGITS",
    "commit",
    "machine",
    "made_by",
    "provenance",
    "record_at",
    "source_tree",
    "versions",
]

_PACKAGES = ("numpy", "numba", "scipy", "joblib", "matplotlib", "pyarrow")

DIGITS = (
    "The seed fixes every number to the last bit on this machine with these versions alone: others "
    "round differently, a tie then goes another way, and means may differ in the third digit."
)
_PLACES = ("--out", "--tuned", "--write", "--plot")  # where things lie is nobody's business


def provenance(**more: object) -> dict[str, Any]:
    """Date, commit, command, machine and versions, and what the caller adds."""
    words = ["heavytail", *sys.argv[1:]]
    for option in _PLACES:
        if option in words:
            place = words.index(option)
            named = place + 1 < len(words) and not words[place + 1].startswith("-")
            del words[place : place + 1 + named]
    command = " ".join(words)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {
        "date": date,
        "commit": commit(),
        "command": command,
        "machine": machine(),
        "versions": versions(),
        **more,
    }


def made_by(engine: str = "compiled") -> str:
    """Command, commit, date and machine in one sentence, for a page."""
    made = provenance()
    where = machine(engine)
    return f"`{made['command']}` at {made['commit']} on {made['date']}, {where}."


def machine(engine: str = "compiled") -> str:
    """The kind of machine: processor, cores, system; the GPU where one did the work."""
    import joblib

    hardware = (
        f"{platform.machine()} {_processor()}, {joblib.cpu_count()} cores, {platform.system()}"
    )
    if engine == "cuda":
        from heavytail.simulation.cuda import device_name

        hardware = f"{device_name()} ({hardware})"
    return hardware


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "processor"


def versions() -> dict[str, str]:
    """Python and the packages that matter."""
    numbers = {"python": platform.python_version(), "heavytail": __version__}
    for name in _PACKAGES:
        try:
            numbers[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers


def commit() -> str:
    """The commit of the library, with + where its code was changed; unknown outside git."""
    return commit_of(Path(__file__).resolve().parents[1])


def source_tree(package: Path | None = None) -> Path | None:
    """The root of the source tree that the library runs from; None where it is installed.

    A source tree has the library's own pyproject.toml two folders above the package, is not in
    site-packages, and may be written to.
    """
    package = package or Path(__file__).resolve().parents[1]
    root = package.parents[1]
    project = root / "pyproject.toml"
    installed = {"site-packages", "dist-packages"} & set(package.parts)
    if installed or not project.is_file() or not os.access(package, os.W_OK):
        return None
    return root if 'name = "heavytail"' in project.read_text(encoding="utf-8") else None


def record_at(named: Path | None, inside: str, what: str) -> Path:
    """Where to record: the file the user names, else ``inside`` the source tree, else a refusal.

    An installed package is never written to. ``what`` says what to add to the command.
    """
    if named is not None:
        return named
    root = source_tree()
    if root is None:
        raise ValueError(
            f"there is no source tree of heavytail to record in; name a file: {what}. "
            "An installed package is not written to."
        )
    return root / inside
