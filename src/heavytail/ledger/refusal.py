"""Errors: refusals of the service, and failures of a store."""

from __future__ import annotations

__all__ = ["ArchiveError", "Conflict", "InArchive", "InUse", "Refusal", "StoreError"]


class Refusal(Exception):
    """A request that was refused. Nothing was changed; ``message`` says why and what to do.

    Attributes:
        status: of HTTP.
        code: a stable one-word code.
        message: a sentence.
        field: place in the body, "" for the whole of it.
    """

    def __init__(self, status: int, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field

    def at(self, place: str) -> Refusal:
        """The same refusal one level deeper in the body; "" adds no level."""
        if not place:
            return self
        inner = self.field
        joined = place if not inner else f"{place}{'' if inner.startswith('[') else '.'}{inner}"
        return Refusal(self.status, self.code, self.message, joined)


class StoreError(OSError):
    """The store cannot be used: it is full, read-only, damaged or in use by another process. The
    message says what to do.
    """


class InUse(StoreError, BlockingIOError):
    """Another process writes to it."""


class Conflict(StoreError):
    """Another process wrote first. A retry sees its changes."""


class ArchiveError(StoreError):
    """A file of the archive cannot be read or written. The store itself can."""


class InArchive(StoreError):
    """The rows are in the archive, which this connection must not wait for: a reader must."""
