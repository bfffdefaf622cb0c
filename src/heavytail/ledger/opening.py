"""A store by its address: a folder, or a database."""

from __future__ import annotations

import ipaddress
import os

from heavytail._extras import need
from heavytail.ledger.store import Store, StoreError

__all__ = ["is_database", "is_local", "opened", "shown"]

KINDS = ("postgresql://", "postgres://")


def is_database(where: str | os.PathLike[str]) -> bool:
    """Whether an address is that of a database, which several workers may share."""
    return os.fspath(where).startswith(KINDS)


def is_local(host: str) -> bool:
    """Whether an address is that of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def opened(where: str | os.PathLike[str]) -> Store:
    """The store at an address."""
    if not is_database(where):
        if "://" in os.fspath(where) or not os.fspath(where):
            raise StoreError("the store must be a folder, or postgresql://USER@HOST/DATABASE.")
        from heavytail.ledger.sqlite import SQLiteStore

        return SQLiteStore(where)
    need("a PostgreSQL store", "psycopg", extra="serve,postgres")
    from heavytail.ledger.postgres import PostgresStore

    return PostgresStore(os.fspath(where))


def shown(where: str | os.PathLike[str]) -> str:
    """An address as it may be printed: without a password."""
    if not is_database(where):
        return os.fspath(where)
    from psycopg import conninfo

    told = conninfo.conninfo_to_dict(os.fspath(where))
    return f"PostgreSQL {told.get('host', 'localhost')}, database {told.get('dbname', 'default')}"
