"""Opening a store by its address: a folder or a database."""

from __future__ import annotations

import ipaddress
import os

from heavytail._extras import need
from heavytail.ledger.store import Store, StoreError

__all__ = ["is_database", "is_local", "opened", "shown"]

KINDS = ("postgresql://", "postgres://")


def is_database(address: str | os.PathLike[str]) -> bool:
    """Tell whether an address names a database, which several workers may share."""
    return os.fspath(address).startswith(KINDS)


def is_local(host: str) -> bool:
    """Tell whether a host is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def opened(address: str | os.PathLike[str]) -> Store:
    """The store at an address."""
    if not is_database(address):
        if "://" in os.fspath(address) or not os.fspath(address):
            raise StoreError("the store must be a folder, or postgresql://USER@HOST/DATABASE.")
        from heavytail.ledger.sqlite import SQLiteStore

        return SQLiteStore(address)
    need("a PostgreSQL store", "psycopg", extra="serve,postgres")
    from heavytail.ledger.postgres import PostgresStore

    return PostgresStore(os.fspath(address))


def shown(address: str | os.PathLike[str]) -> str:
    """An address without its password, for printing."""
    if not is_database(address):
        return os.fspath(address)
    from psycopg import conninfo

    parts = conninfo.conninfo_to_dict(os.fspath(address))
    return f"PostgreSQL {parts.get('host', 'localhost')}, database {parts.get('dbname', 'default')}"
