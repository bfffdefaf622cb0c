"""An algorithm as a value: all that differs between packed policies, except their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.kernels import index
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import COMMON, ROUNDS
from heavytail.policies.core.answers import Explanation, confidence_half_widths, explained

if TYPE_CHECKING:
    from heavytail.policies.core.base import PackedPolicy
    from heavytail.policies.core.diagnostics import Diagnostics

__all__ = ["Algorithm", "Arrays", "History", "Kernel", "select_past_history"]

Kernel = Callable[..., int]
Arrays = Mapping[str, FloatArray]  # a state from outside, by name

_index_select = index.select  # by its own name: a kernel's stamp does not look into modules


@jit
def select_past_history(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """Choose by the linear index; the history has no part in it."""
    return _index_select(s, M, arms)


@dataclass(frozen=True, slots=True)
class History:
    """Rounds that are kept: row t of a third array H is what round t left.

    Attributes:
        columns: of a row, behind the features.
        counter: the slot of s that counts the rows; below 0 it is one of the run ``shape``, which
            then ends s.
        pointers: columns behind the features that hold numbers of rows, -1 for none. A file that
            names rows which are not there is refused.
    """

    columns: int
    counter: int = ROUNDS
    pointers: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Algorithm:
    """The kernels of a round, the numbers they keep and what is promised of them.

    Every engine runs the very same kernels. A policy names its algorithm on the class, or picks one
    in its constructor where it has several modes. ``dataclasses.replace`` makes one from another:
    :func:`heavytail.policies.core.forgetting.with_memory` gives any practical algorithm a memory
    that fades.

    Attributes:
        update: learns a round: (s, M, x, reward, nu) to OK, or to the reason why not; with a
            history (s, M, H, x, reward, nu).
        select: chooses: (s, M, arms), with a history (s, M, H, arms), to an arm's place. By the
            linear index unless given.
        scoring: the index whose scores of a pool can be kept, where ``select`` is its own.
        slots: the named numbers of s, as ``numbered`` makes them.
        history: rounds that are kept, if any.
        rank_one: every update leaves GAIN, STEP, PROJECTED and DIRECTION as
            :mod:`heavytail.kernels.layout` says, so that scores of arms can be kept.
        takes_prior: there is a single Gram matrix, so that ``start_from`` has a place to begin.
        any_ridge: no ridge is too small, as sigma_t keeps x x' / sigma_t² small beside V.
        projects: theta is kept in the ball of THETA_BOUND.
        key_slot: the slot of s that holds the key of its randomness; -1 where it draws nothing.
        draws_slot: the slot that counts its draws.
        has_kernels: the kernels do the whole round, so that engines may run them.
        half_widths: half of the interval at each row, of a policy at a level.
        explain: the parts of the index of each arm.
        agree: each tells whether counts, places and lists of a state from outside fit each other.
        reports: each adds to the diagnostics of a policy.
    """

    update: Kernel
    select: Kernel = index.select
    scoring: index.Scoring = index.LINEAR
    slots: tuple[Any, ...] = (COMMON,)
    history: History | None = None
    rank_one: bool = False
    takes_prior: bool = False
    any_ridge: bool = False
    projects: bool = True
    key_slot: int = -1
    draws_slot: int = -1
    has_kernels: bool = True
    half_widths: Callable[[PackedPolicy, FloatArray, float], FloatArray] = confidence_half_widths
    explain: Callable[[PackedPolicy, FloatArray], Explanation] = explained
    agree: tuple[Callable[[PackedPolicy, Arrays], bool], ...] = ()
    reports: tuple[Callable[[PackedPolicy, Diagnostics], Diagnostics], ...] = ()

    @property
    def keeps_scores(self) -> bool:
        """Tell whether scores of arms can be kept over an update."""
        return self.rank_one and self.select is self.scoring.select
