"""Packages that some calls need and that do not come with the library: named before any work."""

from __future__ import annotations

import importlib.util

__all__ = ["MissingExtra", "is_there", "need", "need_to_draw"]


CALLED = {  # where pip has another name
    "sklearn": "scikit-learn",
    "numba_cuda": "numba-cuda",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}


class MissingExtra(ImportError):
    """A package that is needed is not installed; the message says what installs it."""


def need(who: str, *packages: str, extra: str) -> None:
    """Refuse, on behalf of ``who``, if one of ``packages`` is missing; ``extra`` installs it."""
    missing = [CALLED.get(name, name) for name in packages if not is_there(name)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise MissingExtra(
            f"{who} needs {' and '.join(missing)}, which {are} not installed: "
            f"pip install 'heavytail[{extra}]'"
        )


def need_to_draw(who: str) -> None:
    """Refuse, on behalf of ``who``, if nothing can be drawn."""
    need(who, "matplotlib", extra="experiments")


def is_there(package: str) -> bool:
    """Tell whether a package is installed."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # hidden, or half imported
        return False
