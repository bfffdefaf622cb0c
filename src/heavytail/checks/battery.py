"""Run a battery of checks, and collect those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from heavytail._storage import Stored

__all__ = ["CheckFailed", "refused", "refused_as", "require", "run", "snapshot"]


class CheckFailed(AssertionError):
    """Something is not as users may expect; the message says which checks failed and why.

    ``failures`` are the reasons by the names of the checks.
    """

    failures: Mapping[str, str] = MappingProxyType({})


def run(checks: dict[str, Callable[[Any], None]], subject: Any, skip: Iterable[str]) -> None:
    """Run every check on ``subject`` but those named in ``skip``; all that fail are named."""
    if isinstance(subject, type):
        raise TypeError(f"pass one, not the class: {subject.__name__}(...)")
    left_out = set(skip)
    unknown = left_out - set(checks)
    if unknown:
        raise ValueError(
            f"no check is called {', '.join(sorted(unknown))}; see {', '.join(checks)}."
        )
    failures: dict[str, str] = {}
    cause: Exception | None = None  # of the first that was none of ours
    for name, check in checks.items():
        if name in left_out:
            continue
        try:
            check(subject)
        except CheckFailed as failure:
            failures[name] = str(failure)
        except Exception as error:
            failures[name] = f"raises {type(error).__name__}: {error}"
            cause = cause or error
    if failures:
        lines = [f"{name}: {subject!r} {why}" for name, why in failures.items()]
        if len(lines) > 1:
            lines = [f"{len(lines)} checks failed.", *lines]
        failed = CheckFailed("\n".join(lines))
        failed.failures = failures
        raise failed from cause


def require(condition: bool, problem: str) -> None:
    """The check fails with ``problem`` unless ``condition`` holds."""
    if not condition:
        raise CheckFailed(problem)


def snapshot(subject: Stored) -> dict[str, bytes]:
    """Every bit that it remembers."""
    return {key: array.tobytes() for key, array in subject.saved_arrays().items()}


def refused(subject: Stored, call: Callable[[], Any], what: str) -> None:
    """``call`` must raise ValueError or TypeError and leave every bit of the state as it was."""
    refused_as(subject, call, what, ValueError, TypeError)


def refused_as(
    subject: Stored, call: Callable[[], Any], what: str, *kinds: type[Exception]
) -> None:
    """The same for errors of other ``kinds``."""
    before = snapshot(subject)
    try:
        call()
    except kinds as error:
        require(len(str(error)) > 20, f"refuses {what} without saying why: {error!r}")
    except Exception as error:
        raise CheckFailed(f"answers {what} with {type(error).__name__}: {error}") from None
    else:
        raise CheckFailed(f"accepts {what}")
    require(snapshot(subject) == before, f"refuses {what} but has changed its state")
