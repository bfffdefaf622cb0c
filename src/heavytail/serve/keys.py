"""API keys: only their hashes are stored, and each has scopes.

A key is ``ht_`` and 32 bytes of chance, so that its plain hash can neither be guessed nor searched.
"""

from __future__ import annotations

import hashlib
import secrets

__all__ = ["SCOPES", "digest", "new_key"]

SCOPES = ("read", "decide", "admin")


def new_key() -> str:
    """A key that nobody can guess."""
    return "ht_" + secrets.token_urlsafe(32)


def digest(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).digest()
