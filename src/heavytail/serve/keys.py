"""API keys: only their hashes are stored, and each has scopes.

A key is ``ht_`` and 32 bytes of chance, so that its plain hash can neither be guessed nor searched.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence

from heavytail._validate import shown
from heavytail.serve.store import Store, Transaction

__all__ = ["SCOPES", "digest", "issue", "revoke"]

SCOPES = ("read", "decide", "admin")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def issue(store: Store, name: str, scopes: Sequence[str]) -> str:
    """A new key, which is told this once."""
    if not NAME.fullmatch(name):
        raise ValueError(f"a key's name is of letters, digits, . _ and -; got {shown(name)}.")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise ValueError(f"scopes are some of {', '.join(SCOPES)}; got {shown(list(scopes))}.")
    if store.rows("SELECT 1 FROM api_key WHERE name = ?", name):
        raise ValueError(f"there is or was a key {shown(name)}. Take another name.")
    key = "ht_" + secrets.token_urlsafe(32)

    def work(tx: Transaction) -> None:
        words = " ".join(sorted(set(scopes)))
        tx.rows("INSERT INTO api_key VALUES (?, ?, ?, ?, 0)", digest(key), name, words, tx.now)
        tx.audit("command line", f"issue key {name}")

    store.apply([work])
    return key


def revoke(store: Store, name: str) -> None:
    """Make a key invalid."""
    if not store.rows("SELECT 1 FROM api_key WHERE name = ? AND revoked = 0", name):
        raise ValueError(f"there is no valid key {shown(name)}.")

    def work(tx: Transaction) -> None:
        tx.rows("UPDATE api_key SET revoked = 1 WHERE name = ?", name)
        tx.audit("command line", f"revoke key {name}")

    store.apply([work])


def digest(key: str) -> bytes:
    """What is stored of a key."""
    return hashlib.sha256(key.encode()).digest()
