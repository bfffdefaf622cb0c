"""API keys: only their hashes are stored, and each has scopes.

A key is ``ht_`` and 32 random bytes, so its unsalted hash can be neither guessed nor searched.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import secrets
import time
from collections.abc import Sequence

from heavytail.ledger.commits import Commits
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store
from heavytail.ledger.transaction import Transaction
from heavytail.serve.wire import NAME, KeyView

__all__ = ["SCOPES", "Keys", "digest", "issue", "reopen", "revoke", "views"]

AGE = 1.0  # seconds that a look at the store's keys is good for

SCOPES = ("read", "decide", "admin")


def check(name: str, scopes: Sequence[str]) -> None:
    """Refuse a bad name or bad scopes of a key."""
    if not re.fullmatch(NAME, name):
        message = "A key's name must consist of letters, digits, dots, underscores and hyphens."
        raise Refusal(422, "bad_name", message, "name")
    if not scopes or not set(scopes) <= set(SCOPES):
        raise Refusal(422, "bad_scopes", f"Scopes must be among {', '.join(SCOPES)}.", "scopes")


def issue(tx: Transaction, name: str, scopes: Sequence[str], who: str) -> str:
    """Create a key and return it; only its hash is stored."""
    check(name, scopes)
    if tx.rows("SELECT 1 FROM api_key WHERE name = ?", name):
        message = "A key with this name exists or was revoked. Choose another name."
        raise Refusal(409, "another_key", message, "name")
    key = "ht_" + secrets.token_urlsafe(32)
    words = " ".join(sorted(set(scopes)))
    tx.rows("INSERT INTO api_key VALUES (?, ?, ?, ?, 0)", digest(key), name, words, tx.now)
    tx.audit(who, f"issue key {name}")
    return key


def revoke(tx: Transaction, name: str, who: str) -> None:
    """Revoke a key."""
    if not re.fullmatch(NAME, name) or not tx.rows(
        "SELECT 1 FROM api_key WHERE name = ? AND revoked = 0", name
    ):
        raise Refusal(404, "no_key", "There is no valid key with this name.", "name")
    tx.rows("UPDATE api_key SET revoked = 1 WHERE name = ?", name)
    tx.audit(who, f"revoke key {name}")


def reopen(tx: Transaction, who: str) -> None:
    """Allow local calls without a key again, until a new key exists."""
    if tx.store.keys():
        raise Refusal(409, "has_keys", "The store has valid keys. Revoke them first.")
    tx.rows(
        "INSERT INTO meta SELECT 'open', COUNT(*) FROM api_key WHERE true "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    )
    tx.audit(who, "open")


def _closed(store: Store) -> bool:
    """True if a key has existed since the store was last open: revoking the last key does not
    reopen the store.
    """
    sql = "SELECT COUNT(*) FROM api_key HAVING COUNT(*) > COALESCE((SELECT value FROM meta "
    return bool(store.rows(sql + "WHERE name = 'open'), 0)"))


def views(store: Store) -> list[KeyView]:
    """The valid keys."""
    sql = "SELECT name, scopes, created FROM api_key WHERE revoked = 0 ORDER BY name"
    return [KeyView(name, words.split(), created) for name, words, created in store.rows(sql)]


Known = tuple[dict[bytes, tuple[str, frozenset[str]]], bool]  # by digest; whether one is required


class Keys:
    """The valid keys, re-read from the store every second so that a revocation takes effect."""

    def __init__(self) -> None:
        self._known: Known = {}, True
        self._read = -math.inf
        self._reading: asyncio.Task[Known] | None = None

    def changed(self) -> None:
        """Re-read the keys before the next answer."""
        self._read, self._reading = -math.inf, None

    async def _renewed(self, commits: Commits) -> Known:
        """Read the keys, once for all requests that wait for them."""
        now = time.monotonic()
        known: Known = await commits.do(lambda tx: (tx.store.keys(), _closed(tx.store)))
        if self._reading is asyncio.current_task():  # nothing has changed meanwhile
            self._known, self._read = known, now
        return known

    async def allow(self, commits: Commits, header: str, scope: str, here: bool) -> str:
        """Return the name of the key in a header if it allows ``scope``; refuse otherwise. A caller
        on this machine (``here``) needs no key until one exists.
        """
        known, closed = self._known
        if time.monotonic() - self._read > AGE:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._renewed(commits))
            known, closed = await asyncio.shield(self._reading)
        if not known:
            if here and not closed:
                return "anybody"
            message = (
                "Without a key the service answers only direct calls to localhost, not "
                "forwarded ones. Stop the service and create a key with --new-key."
            )
            if closed:
                message = (
                    "All keys are revoked. Stop the service and create one with --new-key, or "
                    "start it with --open."
                )
            raise Refusal(401, "no_key", message)
        scheme, _, key = header.partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise Refusal(401, "no_key", "Send your key: Authorization: Bearer KEY.")
        holder = known.get(digest(key.strip()))
        if holder is None:
            raise Refusal(401, "bad_key", "The key is not valid.")
        name, scopes = holder
        if scope not in scopes and "admin" not in scopes:
            raise Refusal(403, "scope", f"This call needs a key with the scope {scope}.")
        return name


def digest(key: str) -> bytes:
    """The hash of a key; only this is stored."""
    return hashlib.sha256(key.encode()).digest()
