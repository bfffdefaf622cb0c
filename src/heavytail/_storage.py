"""Saving and loading whatever learns: NumPy's .npz with a JSON header, never a pickle.

The header names the format's version, the class and the arguments it was built with; the arrays
are its state, and those of its arguments that are arrays. A file is written beside its target and
moved over it, so a crash leaves the old one whole.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from heavytail.tails import MomentBound

__all__ = ["Known", "Stored", "check_fit", "of_length", "read"]

FORMAT = "heavytail "  # and the noun
VERSION = 1
LONGEST = 2**31  # rows that an array may have; a damaged count may say anything
PREFIX = "argument."  # of the names of saved arrays that are arguments


class Stored:
    """What is known by its constructor's arguments and the arrays it remembers.

    The arguments are remembered as given, arrays and others of this kind among them as copies, so
    that what becomes of those later does not matter. A subclass gives its state as named arrays.
    """

    noun: ClassVar[str]  # what its files are called: "policy", "agent", ...
    _arguments: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind(self, *args, **kwargs)
        given = list(bound.arguments.items())[1:]
        self._arguments = {
            key: copy.deepcopy(value) if isinstance(value, np.ndarray | Stored) else value
            for key, value in given
        }
        return self

    def state_arrays(self) -> dict[str, Any]:
        """What it remembers, by name: enough to resume to the bit."""
        raise NotImplementedError

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""
        raise NotImplementedError

    def saved_arrays(self) -> dict[str, Any]:
        """What is saved and copied: ``state_arrays`` unless there is more."""
        return self.state_arrays()

    def resume(self, arrays: dict[str, Any]) -> None:
        """Take over what ``saved_arrays`` gave."""
        self.restore(arrays)

    def clone(self) -> Self:
        """An independent copy, with all that was learned."""
        twin = type(self)(**self._arguments)
        twin.resume({key: array.copy() for key, array in self.saved_arrays().items()})
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments, self.saved_arrays())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to ``path`` (NumPy's .npz, no pickle); ``heavytail.load`` reads it back."""
        arrays = dict(self.saved_arrays())
        header = {
            "format": FORMAT + self.noun,
            "version": VERSION,
            **_describe(self, arrays, PREFIX),
        }
        for key, array in arrays.items():
            if array.dtype.hasobject:
                raise TypeError(f"{type(self).__name__}.save: {key!r} is an array of objects.")
        target = Path(path)
        handle, temporary = tempfile.mkstemp(
            dir=target.parent or ".", prefix=target.name, suffix=".part"
        )
        try:
            with os.fdopen(handle, "wb") as stream:
                np.savez(stream, header=np.array(json.dumps(header)), **arrays)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


Known = Mapping[str, Callable[[str], type[Stored] | None]]  # noun -> what finds a class by its name


def read(path: str | os.PathLike[str], known: Known, kinds: Iterable[type[Stored]] = ()) -> Any:
    """Read what :meth:`Stored.save` wrote, of a noun that is ``known``; going on equals never
    having stopped.

    ``kinds`` are further classes that the file may hold. Refuses, with the reason, a file that is
    not ours, is damaged, or was written by another version.
    """
    header, arrays = _open(path, tuple(known))
    if header.get("version") != VERSION:
        raise ValueError(
            f"{path} is of format version {header.get('version')}; this heavytail reads {VERSION}."
        )
    own = {(kind.noun, kind.__name__): kind for kind in kinds}

    def build(noun: str, told: dict[str, Any]) -> Stored:
        """A fresh object of the class that ``told`` names, from its arguments."""
        name = str(told.get(noun))
        kind = own.get((noun, name)) or (known[noun](name) if noun in known else None)
        if kind is None or kind.noun != noun:
            raise ValueError(
                f"{path} holds a {noun} {name!r}, which heavytail does not have; "
                "pass its class in kinds."
            )
        try:
            given = told["arguments"].items()
            return kind(**{key: _decode(value, arrays, build) for key, value in given})
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            problem = f"{path} holds arguments that {kind.__name__} refuses: {error}"
            raise ValueError(problem) from None

    found = build(header["format"].removeprefix(FORMAT), header)
    found.resume({key: array for key, array in arrays.items() if not key.startswith(PREFIX)})
    return found


def check_fit(
    where: str, saved: Mapping[str, Any], wanted: Mapping[str, Any], *, rough: Iterable[str] = ()
) -> None:
    """Refuse saved arrays that are not of the shape and type of ``wanted``, or have a NaN; those
    named ``rough`` are partly room to work in, where a NaN means nothing.
    """
    for key, array in wanted.items():
        if key not in saved or saved[key].shape != array.shape:
            raise ValueError(f"{where}: the saved state's {key!r} does not fit.")
        if saved[key].dtype != array.dtype or (key not in rough and np.isnan(saved[key]).any()):
            raise ValueError(f"{where}: the saved state's {key!r} is damaged.")


def of_length(array: Any, length: int, axis: int) -> Any:
    """What ``array`` would look like with ``length`` entries along ``axis``; takes no memory."""
    length = min(length, LONGEST)
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    return np.broadcast_to(np.zeros((), array.dtype), shape)


def _rebuild(kind: type[Stored], arguments: dict[str, Any], arrays: dict[str, Any]) -> Stored:
    """What :mod:`pickle` calls to hand one to another process: as ``clone`` makes it."""
    twin = kind(**arguments)
    twin.resume(arrays)
    return twin


def _open(
    path: str | os.PathLike[str], nouns: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a file that holds one of ``nouns``."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            header = json.loads(str(archive["header"]))
            arrays = {key: archive[key] for key in archive.files if key != "header"}
        if header["format"] not in [FORMAT + noun for noun in nouns]:
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
            f"{path} is not a {' or '.join(nouns)} saved by heavytail, or is damaged ({error}). "
            "Pass a file that its save(path) wrote."
        ) from None
    return header, arrays


def _describe(subject: Stored, arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Class and arguments as plain data; arguments that are arrays go to ``arrays``."""
    return {
        subject.noun: type(subject).__name__,
        "arguments": {
            key: _encode(key, value, arrays, prefix) for key, value in subject._arguments.items()
        },
    }


def _encode(key: str, value: Any, arrays: dict[str, Any], prefix: str) -> Any:
    if isinstance(value, MomentBound):
        return {"order": value.order, "scale": value.scale}
    if isinstance(value, Stored):
        return _describe(value, arrays, f"{prefix}{key}.")
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays[prefix + key] = value
        return {"array": prefix + key}
    if isinstance(value, list | tuple):
        return [_encode(key, item, arrays, prefix) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"cannot save the argument {key}={value!r}: not a number, text or MomentBound.")


def _decode(value: Any, arrays: dict[str, Any], build: Callable[..., Stored]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays, build) for item in value]
    if not isinstance(value, dict):
        return value
    if "arguments" in value:
        return build(next((key for key in value if key != "arguments"), ""), value)
    if "array" in value:
        return arrays[value["array"]]
    return MomentBound(order=value["order"], scale=value["scale"])
