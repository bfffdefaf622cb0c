"""Where the parts of a packed state lie.

The state of a linear-index policy is two arrays: ``s``, a vector of scalars, and ``M``, a matrix
whose first rows are vectors and whose later rows are square blocks. Two arrays make a call from
Python cheap and saving, copying, comparing and batching trivial. The first slots are common to all
such policies, so that one selection kernel and one episode loop serve them all; a policy's own
slots follow by name. A policy with ``rank_one`` leaves GAIN, STEP, PROJECTED and DIRECTION as
said here after every update, 0 where nothing moved.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_type_hints

Numbers = TypeVar("Numbers", bound=tuple[int, ...])


# What a slot holds, as the annotation of its field says. A state from outside is refused where a
# slot holds something else; plain ``int`` is any number.
Fixed = Annotated[int, "fixed"]  # what the arguments say, for ever
Count = Annotated[int, "count"]  # a whole number from 0 on
Flag = Annotated[int, "flag"]  # 0 or 1
Size = Annotated[int, "size"]  # at least 0, or infinite, as sums of squares become
Open = Annotated[int, "open"]  # any number, or infinite


def numbered(kind: type[Numbers], *, after: tuple[int, ...] = ()) -> Numbers:
    """Number the fields of a NamedTuple of ints, from 0 or right behind those of ``after``.

    >>> class Slots(NamedTuple):
    ...     FIRST: int
    ...     SECOND: int
    >>> numbered(Slots, after=(0, 1, 2))
    Slots(FIRST=3, SECOND=4)
    """
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    first = behind(after)
    return kind(*range(first, first + len(fields)))


def behind(slots: tuple[int, ...]) -> int:
    """The first number that follows ``slots``: where a run of unnamed ones begins."""
    return slots[-1] + 1 if slots else 0


def slot_names(*parts: Any) -> tuple[str, ...]:
    """The names, in small letters, of numbered tuples that follow each other."""
    numbers = [number for part in parts for number in part]
    if numbers != list(range(len(numbers))):
        raise ValueError(f"slots must be numbered one behind the other; got {numbers}.")
    return tuple(name.lower() for part in parts for name in part._fields)


def slot_kinds(*parts: Any) -> Mapping[str, str]:
    """By their names, what the slots of numbered tuples that follow each other hold."""
    kinds = [kind for part in parts for kind in _kinds(type(part))]  # type: ignore[arg-type]
    return dict(zip(slot_names(*parts), kinds, strict=True))


@functools.cache
def _kinds(slots: Any) -> tuple[str, ...]:
    hints = get_type_hints(slots, include_extras=True)
    return tuple(getattr(hints[f], "__metadata__", ("number",))[0] for f in slots._fields)


class Common(NamedTuple):
    """Slots of s that every packed policy has."""

    ROUNDS: Count  # t, rounds learned so far
    RADIUS: Size  # beta_t, the radius the next selection uses
    GAIN: Size  # k of the last update: P <- P - k u u', u = M[DIRECTION]
    STEP: int  # c of the last update: theta <- theta + c u, before any projection
    PROJECTED: Count  # MOVED if theta also left the line u, SET_ANEW if P did too; 0 otherwise
    LOG_DET: int  # log det V_t - log det V_0
    ARM_LIMIT: Fixed  # largest squared norm an arm may have
    THETA_BOUND: Size  # S; infinity where there is no ball
    CONSTANT: Fixed  # the constant feature appended to every arm; unused without intercept
    CLIPPED: Count  # rounds whose reward was clipped or truncated


COMMON: Final = numbered(Common)
(
    ROUNDS,
    RADIUS,
    GAIN,
    STEP,
    PROJECTED,
    LOG_DET,
    ARM_LIMIT,
    THETA_BOUND,
    CONSTANT,
    CLIPPED,
) = COMMON

# --- what PROJECTED says
MOVED: Final = 1.0  # theta was projected, or solved anew
SET_ANEW: Final = 2.0  # both begin afresh, P a multiple of the identity; or old rounds faded

# --- rows of M
THETA: Final = 0  # the estimate
DIRECTION: Final = 1  # u = P x of the last update, P before it
FEATURE: Final = 2  # x of the last update, with the constant feature where there is one
SCRATCH: Final = 3  # room for one vector
INVERSE: Final = 4  # P = V^-1 begins here, D rows; room for a factor of it follows, D + 1 rows

# --- what a kernel answers
OK: Final = 0
BAD_X: Final = -1  # a feature that is not finite, or a vector longer than its bound
BAD_REWARD: Final = -2
BAD_SCALE: Final = -3
OVERFLOW: Final = -4  # finite input, but the state would leave the floating-point range
NO_ARM: Final = -5  # no arms, or all of them NaN
OUT_OF_RANGE: Final = -6  # a reward that the link of the policy cannot have


def rows(size: int) -> int:
    """Rows of ``M`` for an estimate of ``size`` coordinates."""
    return INVERSE + 2 * size + 1
