"""Tokens of decisions: unguessable, unique across processes, with model and version inside.

34 bytes, as 46 characters of URL-safe base64: the model's number (4), its version when it decided
(8), the time in milliseconds (6), and 16 random bytes. The last two are the decision's key in the
store: keys are nearly in the order of time, which suits an index.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

__all__ = ["NUMBER", "Token", "first_key", "int_token", "random_number", "time_of"]

HEAD = struct.Struct(">IQ")
SIZE = 34
LETTERS = 46
RANDOM = 16  # random bytes of a token
POOL = 256  # tokens whose random bytes are read at a time
MOMENT = 6  # bytes of time
NUMBER = 8  # bytes of a number, and of a policy's token, in the key of a DecisionLog's decision
LATEST = 2 ** (8 * MOMENT) - 1  # milliseconds: in the year 10889


class Token(NamedTuple):
    """A decision's name.

    Attributes:
        model: number of the model in the store.
        version: how many outcomes the model had seen when it decided.
        key: time and random bytes; no two decisions share it.
    """

    model: int
    version: int
    key: bytes

    @classmethod
    def new(cls, model: int, version: int, when: float) -> Token:
        """A new, unguessable token."""
        return cls(model, version, first_key(when)[:MOMENT] + _pool.take())

    def __str__(self) -> str:
        packed = HEAD.pack(self.model, self.version) + self.key
        return urlsafe_b64encode(packed).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Token | None:
        """Parse a token; None if ``text`` is not one."""
        if len(text) != LETTERS:
            return None
        try:
            packed = urlsafe_b64decode(text + "==")
        except ValueError:
            return None
        if len(packed) != SIZE:
            return None
        model, version = HEAD.unpack(packed[: HEAD.size])
        token = cls(model, version, packed[HEAD.size :])
        return token if str(token) == text else None


class _Pool:
    """Random bytes of the system, read many at a time: a call of the system may take longer than
    all the rest of a decision.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: list[bytes] = []

    def take(self) -> bytes:
        """The next 16 bytes, which nobody else gets."""
        with self._lock:
            if not self._parts:
                raw = secrets.token_bytes(RANDOM * POOL)
                self._parts = [raw[i : i + RANDOM] for i in range(0, len(raw), RANDOM)]
            return self._parts.pop()


def _begin() -> None:
    global _pool
    _pool = _Pool()


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)  # a child does not repeat its parent's bytes


def random_number(bits: int) -> int:
    """An unguessable whole number of so many bits, at most 128."""
    return int.from_bytes(_pool.take(), "big") >> (8 * RANDOM - bits)


def first_key(when: float) -> bytes:
    """The smallest key of a time."""
    return int(min(max(when, 0.0) * 1000.0, LATEST)).to_bytes(MOMENT, "big") + bytes(16)


def time_of(key: bytes) -> float:
    """The time of a key's decision, in seconds since 1970."""
    return int.from_bytes(key[:MOMENT], "big") / 1000.0


def int_token(key: bytes) -> int:
    """The policy's own token, at the end of the key of a DecisionLog's decision."""
    return int.from_bytes(key[-NUMBER:], "big")
