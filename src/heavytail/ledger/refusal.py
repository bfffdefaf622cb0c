"""What the service refuses: a status, a code for machines, a sentence for people, and the field."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """Nothing was changed; ``message`` says what, got and do.

    Attributes:
        status: of HTTP.
        code: one word that stays the same.
        message: a sentence.
        field: where in the body, "" where it is about the whole.
    """

    def __init__(self, status: int, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field

    def at(self, place: str) -> Refusal:
        """The same, one level deeper in the body; "" is no level."""
        if not place:
            return self
        inner = self.field
        joined = place if not inner else f"{place}{'' if inner.startswith('[') else '.'}{inner}"
        return Refusal(self.status, self.code, self.message, joined)
