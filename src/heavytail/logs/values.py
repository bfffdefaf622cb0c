"""Values for arguments: a choice with its own arguments, checked at construction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar, Final, ParamSpec, TypeVar

from heavytail._validate import Check, check_choice, shown

__all__ = ["Value", "as_value", "refuse_gone"]

GONE: Final = {  # arguments of before, and what says the same now
    "method": "estimator='ips', or a value such as estimator=IPS()",
    "mean": "estimator=SNIPS(mean='plain'), and so of the others",
    "model": "estimator=DR(model), or by=ByBound(model) of select",
    "folds": "estimator=DR(model, folds=5)",
    "clip": "estimator=Clipped(clip=10) or bound=Bernstein(floor, ceiling, clip=10)",
    "smoothing": "estimator=LS(smoothing)",
    "interval": "bound='betting', or a value such as bound=Betting()",
    "tail": "bound=Catoni(tail), or estimator=SNIPS(mean=tail) for Catoni's mean",
    "reward_range": "bound=Betting(floor, ceiling)",
    "reward_floor": "bound=Betting(floor)",
    "growing": "bound=Betting(growing=True)",
    "scale": "by=ByLS(scale)",
}

Args = ParamSpec("Args")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="Value")


@dataclass(frozen=True, repr=False)
class Value:
    """A choice with its own arguments as fields; ``name`` is its short name."""

    name: ClassVar[str]

    def __repr__(self) -> str:
        given = (f"{field.name}={shown(getattr(self, field.name))}" for field in fields(self))
        return f"{type(self).__name__}({', '.join(given)})"

    def _check(self, name: str, kind: str = "number", **limits: float | tuple[str, ...]) -> None:
        """Keep an argument as a method of Check returns it; one that may be None is left None."""
        value = getattr(self, name)
        if value is not None or getattr(type(self), name, "") is not None:
            checked = getattr(Check(type(self)), kind)(name, value, **limits)
            object.__setattr__(self, name, checked)


def as_value(argument: str, given: object, kinds: Iterable[type[Kind]]) -> Kind:
    """The value ``given``, or the value with that short name; refuses anything else."""
    named = {kind.name: kind for kind in kinds}
    for kind in named.values():
        if isinstance(given, kind):
            return given
    examples = ", ".join(f"{kind.__name__}({_needed(kind)})" for kind in named.values())
    hint = f"Or pass a value of ht.logs: {examples}."
    kind = named[check_choice(argument, given, tuple(named), hint=hint)]
    if _needed(kind):
        raise ValueError(
            f"{argument}: {kind.name!r} needs more than its name; pass "
            f"ht.logs.{kind.__name__}({_needed(kind)})."
        )
    return kind()


def _needed(kind: type[Value]) -> str:
    """The arguments that have no default."""
    return ", ".join(field.name for field in fields(kind) if field.default is MISSING)


def refuse_gone(call: Callable[Args, Result]) -> Callable[Args, Result]:
    """Wrap a function so that a removed argument is refused with its replacement."""

    @functools.wraps(call)
    def checked(*args: Args.args, **given: Args.kwargs) -> Result:
        gone = next((name for name in given if name in GONE), None)
        if gone is not None:
            raise TypeError(
                f"{call.__name__} has no argument {gone!r} any more; pass {GONE[gone]}. The values "
                "are in ht.logs."
            )
        return call(*args, **given)

    return checked
