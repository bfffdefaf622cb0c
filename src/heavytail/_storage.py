"""Saving and loading whatever learns: NumPy's .npz with a JSON header, never a pickle.

The header names the format's version, the library's, the class, the arguments it was built with,
the slots of every packed array, and all arrays: they are its state, and those of its arguments that
are arrays. Slots are loaded by name. A seal tells a file that was changed since it was written
(:mod:`heavytail._archive`); whoever knows how to seal one again must still give a state that
satisfies the invariants of its class (:mod:`heavytail._invariants`). Whatever a file says of
sizes, reading it takes memory in proportion to its length. What it carries along, such as the
encoder of a policy, is in the header too, as class and arguments.
"""

from __future__ import annotations

import copy
import inspect
import io
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from heavytail._archive import FACTOR, contents, is_sealed, members, replace, sealed
from heavytail._constructors import misfit, spelled_out, within_range
from heavytail._lazy import GONE
from heavytail._memory import check_memory
from heavytail._signals import raised_by_handler
from heavytail._turns import TakingTurns
from heavytail._validate import plain, printable, shown
from heavytail._version import __version__
from heavytail.tails import MomentBound

__all__ = ["Known", "Saved", "Stored", "check_fit", "is_plain", "of_length", "read"]

FORMAT = "heavytail "  # and the noun
VERSION = 2
CARRYING = 3  # the version of a file that says what is carried along, which 2 would not look for
READABLE = (2, 3)  # version 1, which was never released, had no names
LONGEST = 2**31  # rows that an array may have; a damaged count may say anything
SMALL = 2**24  # bytes that loading may take beside FACTOR times those of the file
PLACES = frozenset({"sizes"})  # slots that say where others lie, which later slots move
OBJECT = 512  # numbers that an object takes beside those that it asks for
PREFIX = "argument."  # of the names of saved arrays that are arguments


class Saved:
    """An object that can be written to a file and read back: constructor arguments and arrays."""

    noun: ClassVar[str]  # what its files are called: "policy", "agent", ...

    def constructor_arguments(self) -> dict[str, Any]:
        """The arguments it was built with, by name."""
        raise NotImplementedError

    def saved_arrays(self) -> dict[str, Any]:
        """Its state as arrays by name: enough to resume to the bit."""
        raise NotImplementedError

    def resume(self, arrays: dict[str, Any]) -> None:
        """Take over what ``saved_arrays`` gave; refuse what does not fit, unchanged."""
        raise NotImplementedError

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        """For each packed vector among ``saved_arrays``, the names of its slots in order."""
        return {}

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        """Slots that early files of version 2 do not name: constants given by the arguments, or
        counts that start from 0.
        """
        return ()

    def carried(self) -> Mapping[str, Saved]:
        """Others that are saved, loaded and cloned with it, by name, known by arguments alone."""
        return {}

    def carry(self, others: Mapping[str, Any]) -> None:
        """Take over what ``carried`` gave; refuse what does not fit, unchanged."""
        if others:
            raise ValueError(f"{type(self).__name__} carries nothing; got {shown(list(others))}.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to ``path`` (NumPy's .npz, no pickle); ``heavytail.load`` reads it back."""
        replace(path, self.to_bytes())

    def to_bytes(self, arrays: Mapping[str, Any] | None = None) -> bytes:
        """The bytes that ``save`` writes; of ``arrays`` that ``saved_arrays`` gave earlier, of the
        state at that time.
        """
        arrays = dict(self.saved_arrays() if arrays is None else arrays)
        others = self.carried()
        header = {
            "format": FORMAT + self.noun,
            "version": CARRYING if others else VERSION,
            "library": __version__,
            "slots": self.slot_names(),
            **_describe(self, arrays, PREFIX),
        }
        if others:
            header["carried"] = {
                key: _describe(other, arrays, f"{PREFIX}{key}.") for key, other in others.items()
            }
        header["arrays"] = sorted(arrays)
        for key, array in arrays.items():
            if array.dtype.hasobject:
                raise TypeError(f"{type(self).__name__}.save: {key!r} is an array of objects.")
        archive = io.BytesIO()
        np.savez(archive, header=np.array(json.dumps(header)), **arrays)
        return sealed(archive.getvalue())


class Stored(TakingTurns, Saved):
    """An object defined by its constructor's arguments and the arrays of its state.

    The arguments are remembered as given, NumPy's numbers as Python's, arrays and others of this
    kind among them as copies, so that what becomes of those later does not matter. A subclass
    gives its state as named arrays.
    """

    _arguments: dict[str, Any]

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__signature__", spelled_out(cls))  # noqa: B010
            cls.__init__ = within_range(cls.__init__)  # type: ignore[method-assign]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        self = super().__new__(cls)
        signature = inspect.signature(cls)
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise misfit(cls, [*signature.parameters], kwargs, error) from None
        self._arguments = {
            key: copy.deepcopy(value) if isinstance(value, np.ndarray | Stored) else plain(value)
            for key, value in arguments.items()
        }
        return self

    def constructor_arguments(self) -> dict[str, Any]:
        """Those given, and the defaults of the others: a later version may have other ones."""
        parameters = inspect.signature(type(self)).parameters.values()
        plain = (bool, int, float, str)
        defaults = {
            parameter.name: parameter.default
            for parameter in parameters
            if isinstance(parameter.default, plain)
        }
        return {**defaults, **self._arguments}

    def state_arrays(self) -> dict[str, Any]:
        """Its state as arrays by name: enough to resume to the bit."""
        raise NotImplementedError

    def restore(self, arrays: dict[str, Any]) -> None:
        """Take over what ``state_arrays`` gave; refuse what does not fit, unchanged."""
        raise NotImplementedError

    def saved_arrays(self) -> dict[str, Any]:
        """The arrays that are saved and copied: ``state_arrays`` unless there is more."""
        return self.state_arrays()

    def resume(self, arrays: dict[str, Any]) -> None:
        """Take over what ``saved_arrays`` gave."""
        self.restore(arrays)

    def is_sound(self) -> bool:
        """Tell whether no number of its state is a NaN."""
        return True

    @property
    def state(self) -> dict[str, Any]:
        """Its state, for inspection: arrays by name, and the slots of a packed one by theirs."""
        names = self.slot_names()
        return {
            key: dict(zip(names[key], np.moveaxis(array, -1, 0).tolist(), strict=True))
            if key in names
            else array.copy()
            for key, array in self.state_arrays().items()
        }

    def clone(self) -> Self:
        """An independent copy, with all that was learned."""
        twin = type(self)(**self._arguments)
        twin.resume({key: array.copy() for key, array in self.saved_arrays().items()})
        twin.carry(self.carried())
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments, self.saved_arrays(), dict(self.carried()))


Known = Mapping[str, Callable[[str], type[Saved] | None]]  # noun -> what finds a class by its name


def read(
    path: str | os.PathLike[str],
    known: Known,
    kinds: Iterable[type[Saved]] = (),
    *,
    content: bytes | None = None,
) -> Any:
    """Read what :meth:`Saved.save` wrote, of one of the ``known`` nouns.

    ``kinds`` are further classes that the file may hold. ``content`` are its bytes where they lie
    elsewhere; ``path`` is what errors call them then. Refuses, with the reason, a file that is not
    ours, is damaged, or was written by another version.
    """
    header, arrays, length = _open(path, tuple(known), content)
    version = header.get("version")
    if isinstance(version, bool) or version not in READABLE:
        raise ValueError(
            f"{path} is of format version {shown(version)}, written by heavytail "
            f"{printable(str(header.get('library', 'unknown')))}; this heavytail reads {READABLE}."
        )
    carried = header.get("carried", {})
    described = isinstance(carried, dict) and all(
        _is_described(value) for value in carried.values()
    )
    if (version == CARRYING) != bool(carried) or not described:
        raise ValueError(f"{path} is of format version {version} and does not say what it carries.")
    if "arrays" in header and header["arrays"] != sorted(arrays):  # version 2 did not at first
        raise ValueError(
            f"{path} holds {shown(sorted(arrays))}; it should hold {shown(header['arrays'])}."
        )
    own = {(kind.noun, kind.__name__): kind for kind in kinds}

    def build(noun: str, description: dict[str, Any]) -> Saved:
        """Build an object of the class that ``description`` names, from its arguments."""
        name = str(description.get(noun))
        saved_class = own.get((noun, name)) or (known[noun](name) if noun in known else None)
        if saved_class is None or saved_class.noun != noun:
            anew = f"learn its log anew with {GONE.get(name)}"
            raise ValueError(
                f"{path} holds a {printable(noun)} {shown(name)}, which heavytail does not have; "
                f"{anew if name in GONE else 'pass its class in kinds'}."
            )
        try:
            afford(saved_class.__name__, OBJECT)
            arguments = {k: _decode(v, arrays, build) for k, v in description["arguments"].items()}
            return saved_class(**arguments)
        except Exception as error:  # a constructor may say anything to what a file holds
            if raised_by_handler(error):
                raise
            problem = f"{path} holds arguments that {saved_class.__name__} refuses: {error}"
            raise ValueError(problem) from None

    BUDGET.left = FACTOR * length + SMALL  # of all the objects in the file together
    try:
        subject = build(header["format"].removeprefix(FORMAT), header)
        others = {
            key: build(_noun(description), description) for key, description in carried.items()
        }
    finally:
        BUDGET.left = None
    state = {key: array for key, array in arrays.items() if not key.startswith(PREFIX)}
    try:
        state = _by_name(path, subject, state, header.get("slots"))
        subject.resume(state)
        subject.carry(others)
        foreign = sorted(set(state) - set(subject.saved_arrays()))
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from None
    except Exception as error:  # whatever arrays of odd types and shapes make NumPy say
        if raised_by_handler(error):
            raise
        why = printable(str(error))
        raise ValueError(f"{path} holds no state of {type(subject).__name__} ({why}).") from None
    if foreign:
        raise ValueError(
            f"{path} holds arrays that {type(subject).__name__} has not: {shown(foreign)}."
        )
    return subject


def _by_name(
    path: str | os.PathLike[str], subject: Saved, arrays: dict[str, Any], slots: Any
) -> dict[str, Any]:
    """``arrays`` with the slots of packed ones in the order that ``subject`` has them in."""
    wanted = subject.slot_names()
    named = isinstance(slots, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in slots.values()
    )
    if not named or set(slots) != set(wanted):
        raise ValueError(f"{path} does not name the slots of {sorted(wanted)}.")
    ordered = dict(arrays)
    for key, names in wanted.items():
        saved, later = slots[key], [slot for slot in subject.later_slots() if slot in names]
        missing, foreign = sorted({*names} - {*saved} - {*later}), sorted({*saved} - {*names})
        if missing or foreign or len(saved) != len(set(saved)):
            raise ValueError(
                f"{path} does not fit this version of {type(subject).__name__}: of its slots "
                f"{shown(missing) if missing else 'none'} are missing and "
                f"{shown(foreign) if foreign else 'none'} are unknown here; learn its log anew."
            )
        if key in arrays and arrays[key].shape[-1:] == (len(saved),):
            packed, absent = arrays[key], [name for name in names if name not in saved]
            if absent:
                absent += [name for name in PLACES if name in saved]
                fresh = subject.saved_arrays()[key][..., [names.index(name) for name in absent]]
                packed = np.concatenate([packed, fresh], axis=-1)
            place = {name: i for i, name in enumerate([*saved, *absent])}  # the last of each
            ordered[key] = packed[..., [place[name] for name in names]]
    return ordered


class _Budget(threading.local):
    left: int | None = None  # bytes; None where nothing is being loaded


BUDGET = _Budget()


def afford(where: str, numbers: float, arguments: Mapping[str, Any] | None = None) -> None:
    """Refuse, before anything is allocated, to make room for more ``numbers`` than there is memory
    for; while a file is being loaded, for far more than it holds, since what it says of sizes may
    be damaged. The counts among ``arguments`` are named in the refusal.
    """
    if BUDGET.left is None:
        counts = [
            f"{key}={value}"
            for key, value in (arguments or {}).items()
            if isinstance(value, int) and not isinstance(value, bool) and key != "seed"
        ]
        subject = f"{where} of {', '.join(counts)}" if counts else where
        check_memory(subject, numbers, "Ask for less.")
        return
    BUDGET.left -= 8 * int(numbers)
    if BUDGET.left < 0:
        raise ValueError(f"{where} would take far more memory than the file has bytes.")


def check_fit(
    where: str, saved: Mapping[str, Any], wanted: Mapping[str, Any], *, rough: Iterable[str] = ()
) -> None:
    """Refuse saved arrays that are not of the shape and type of ``wanted``, or have a NaN; those
    named ``rough`` are partly room to work in, where a NaN means nothing.
    """
    for key, array in wanted.items():
        if not is_plain(saved.get(key)) or saved[key].shape != array.shape:
            raise ValueError(f"{where}: the saved state's {key!r} does not fit.")
        if saved[key].dtype != array.dtype or (key not in rough and np.isnan(saved[key]).any()):
            raise ValueError(f"{where}: the saved state's {key!r} is damaged.")


def is_plain(array: object) -> bool:
    """Tell whether it is an array without a mask, which would hide a NaN from every check."""
    return isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)


def of_length(array: NDArray[Any], length: int, axis: int) -> NDArray[Any]:
    """A view like ``array`` with ``length`` entries along ``axis``; takes no memory."""
    length = min(length, LONGEST)
    shape = (*array.shape[:axis], length, *array.shape[axis + 1 :])
    return np.broadcast_to(np.zeros((), array.dtype), shape)


def _rebuild(
    stored_class: type[Stored],
    arguments: dict[str, Any],
    arrays: dict[str, Any],
    others: Mapping[str, Any] = MappingProxyType({}),
) -> Stored:
    """Rebuild an object for :mod:`pickle`, as ``clone`` does."""
    twin = stored_class(**arguments)
    twin.resume(arrays)
    twin.carry(others)
    return twin


def _open(
    path: str | os.PathLike[str], nouns: tuple[str, ...], content: bytes | None
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Header and arrays of a file that holds one of ``nouns``, and its length."""
    content = contents(path) if content is None else content
    try:
        arrays = members(content)
        header = json.loads(str(arrays.pop("header")))
        if header["format"] not in [FORMAT + noun for noun in nouns]:
            raise KeyError(header["format"])
        if not isinstance(header.get("arguments"), dict):
            raise KeyError("arguments")
    except Exception as error:  # whatever a damaged archive makes zipfile, json or NumPy say
        if raised_by_handler(error):
            raise
        why, what = printable(str(error)), nouns[0] if len(nouns) == 1 else "model"
        raise ValueError(
            f"{path} is no {what} saved by heavytail, or is damaged ({why}). "
            "Pass a file that its save(path) wrote."
        ) from None
    if header.get("version") != 1 and not is_sealed(content):
        raise ValueError(
            f"{path} was changed since it was saved: its seal does not fit. Pass a file as "
            "save(path) wrote it."
        )
    return header, arrays, len(content)


def _describe(subject: Saved, arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Class and arguments as plain data; arguments that are arrays go to ``arrays``."""
    return {
        subject.noun: type(subject).__name__,
        "arguments": {
            key: _encode(key, value, arrays, prefix)
            for key, value in subject.constructor_arguments().items()
        },
    }


def _encode(key: str, value: object, arrays: dict[str, Any], prefix: str) -> object:
    if isinstance(value, MomentBound):
        return {"order": value.order, "scale": value.scale}
    if isinstance(value, Stored):
        return _describe(value, arrays, f"{prefix}{key}.")
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        arrays[prefix + key] = value
        return {"array": prefix + key}
    if isinstance(value, list | tuple):
        return [_encode(key, item, arrays, prefix) for item in value]
    if isinstance(value, dict):
        return {"items": [[k, _encode(key, item, arrays, prefix)] for k, item in value.items()]}
    value = plain(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"cannot save the argument {key}={shown(value)}: not a number, text or MomentBound."
    )


def _is_described(value: object) -> bool:
    """Tell whether it is what ``_describe`` makes of an object."""
    return isinstance(value, dict) and isinstance(value.get("arguments"), dict)


def _noun(description: dict[str, Any]) -> str:
    return next((key for key in description if key != "arguments"), "")


def _decode(value: object, arrays: dict[str, Any], build: Callable[..., Saved]) -> object:
    if isinstance(value, list):
        return [_decode(item, arrays, build) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_described(value):
        argument = build(_noun(value), value)
        if not isinstance(argument, Stored):  # or it could not be saved again
            raise ValueError(f"an argument cannot be {shown(argument)}.")
        return argument
    if "items" in value:
        return {key: _decode(item, arrays, build) for key, item in value["items"]}
    if "array" in value:
        afford("an array", arrays[value["array"]].size)  # each object keeps a copy
        return arrays[value["array"]]
    return MomentBound(order=value["order"], scale=value["scale"])
