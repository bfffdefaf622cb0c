"""Loading policies; :mod:`heavytail._storage` has the format."""

from __future__ import annotations

import os

from heavytail._storage import Stored, read
from heavytail.policies.base import Policy

__all__ = ["find", "load"]


def load(path: str | os.PathLike[str], *, kinds: tuple[type[Policy], ...] = ()) -> Policy:
    """Read a policy that :meth:`Policy.save` wrote; going on equals never having stopped.

    ``kinds`` are policy classes of your own that the file may hold. Refuses, with the reason, a
    file that is not ours, is damaged, or was written by another version.
    """
    policy: Policy = read(path, {"policy": find}, kinds)
    return policy


def find(name: str) -> type[Stored] | None:
    """Our policy class of that name, or None; no other is loaded."""
    import heavytail.policies as policies

    return getattr(policies, name) if name in policies.NAMES else None
