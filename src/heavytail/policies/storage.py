"""Saving and loading policies: NumPy's .npz with a JSON header, never a pickle.

The header names the format's version, the policy and the arguments it was built with; the arrays
are its state. A file is written beside its target and moved over it, so a crash leaves the old one
whole.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from heavytail.policies.base import Policy
from heavytail.tails import MomentBound

__all__ = ["load", "save"]

FORMAT = "heavytail policy"
VERSION = 1


def save(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write ``policy`` to ``path``; see :meth:`Policy.save`."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "policy": type(policy).__name__,
        "arguments": {key: _encode(key, value) for key, value in policy._arguments.items()},
    }
    target = Path(path)
    handle, temporary = tempfile.mkstemp(
        dir=target.parent or ".", prefix=target.name, suffix=".part"
    )
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, header=np.array(json.dumps(header)), **policy.saved_arrays())  # type: ignore[arg-type]
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str], *, kinds: tuple[type[Policy], ...] = ()) -> Policy:
    """Read a policy that :meth:`Policy.save` wrote; going on equals never having stopped.

    ``kinds`` are policy classes of your own that the file may hold. Refuses, with the reason, a
    file that is not ours, is damaged, or was written by another version.
    """
    import heavytail.policies as policies

    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {key: archive[key] for key in archive.files if key != "header"}
        if header["format"] != FORMAT:
            raise KeyError(header["format"])
    except FileNotFoundError:
        raise
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        TypeError,
        zipfile.BadZipFile,
        IndexError,
    ) as error:
        raise ValueError(
            f"{path} is not a policy saved by heavytail, or is damaged ({error}). "
            "Pass a file that policy.save(path) wrote."
        ) from None
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} is of format version {header.get('version')}; this heavytail reads {VERSION}."
        )
    name = str(header.get("policy"))
    kind = {own.__name__: own for own in kinds}.get(name)
    if kind is None and name in policies.NAMES:
        kind = getattr(policies, name)
    if kind is None:
        raise ValueError(
            f"{path} holds a policy {name!r}, which heavytail does not have; "
            "pass its class in kinds."
        )
    try:
        policy = kind(**{key: _decode(value) for key, value in header["arguments"].items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} holds arguments that {kind.__name__} refuses: {error}") from None
    policy.resume(arrays)
    return policy


def _encode(key: str, value: Any) -> Any:
    if isinstance(value, MomentBound):
        return {"order": value.order, "scale": value.scale}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"cannot save the argument {key}={value!r}: not a number, text or MomentBound.")


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return MomentBound(order=value["order"], scale=value["scale"])
    return value
