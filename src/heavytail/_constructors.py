"""The arguments that a class is built from, by name, and errors for those that do not fit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from heavytail._lazy import nearest
from heavytail._validate import plain, printable, shown

__all__ = ["misfit", "spelled_out", "within_range"]


class Sound(Protocol):
    """A policy that tells whether no number of its state is a NaN."""

    def is_sound(self) -> bool: ...


def spelled_out(cls: type) -> inspect.Signature:
    """The arguments that a class is built from, by name, since that is how they are saved. If its
    constructor passes ``**options`` on, those of the class it extends are included.
    """
    parameters = [*inspect.signature(vars(cls)["__init__"]).parameters.values()][1:]
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(
                f"{cls.__name__}.__init__ must name its arguments, by which it is saved and copied;"
                f" got *{parameter.name}."
            )
    own = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    if len(own) < len(parameters):
        extended = next(base for base in cls.__mro__[1:] if "__init__" in vars(base))
        names = {parameter.name for parameter in own}
        for parameter in inspect.signature(extended).parameters.values():
            if parameter.name not in names and parameter.kind in (
                parameter.KEYWORD_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            ):
                own.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
    return inspect.Signature(own)


def misfit(cls: type, names: list[str], given: Mapping[str, Any], error: TypeError) -> TypeError:
    """The error for arguments that a constructor does not take, or lacks, with those it takes."""
    unknown = [key for key in given if key not in names]
    problem = f"{cls.__name__}: {error}."
    if unknown:
        near = nearest(unknown[0], names)
        problem = f"{cls.__name__} takes no argument {shown(unknown[0])}."
        problem += f" Did you mean {near!r}?" if near else ""
    return TypeError(f"{problem} It takes {', '.join(names)}.")


def within_range(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor that receives plain numbers, and refuses arguments that together leave the
    floating-point range.
    """

    @functools.wraps(init)
    def checked(self: Sound, *args: object, **kwargs: object) -> None:
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                init(
                    self, *map(plain, args), **{key: plain(value) for key, value in kwargs.items()}
                )
            sound = self.is_sound()
        except (OverflowError, ZeroDivisionError):
            sound = False
        except MemoryError as error:  # other processes may have taken what was free
            raise ValueError(
                f"{type(self).__name__} does not fit into the memory that is left "
                f"({printable(str(error))}). Ask for less, or free some."
            ) from None
        if not sound:
            raise ValueError(
                f"{type(self).__name__}: these arguments together leave the floating-point range; "
                "change the unit."
            )

    return checked
