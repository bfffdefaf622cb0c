"""What a packed policy remembers: by name, where it lies, and what is true of it at all times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from heavytail._invariants import (
    SYMMETRY,
    check_gram,
    check_log_det,
    check_size,
    check_slots,
    damaged,
    rounding,
)
from heavytail._storage import check_fit
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray
from heavytail.kernels.layout import LOG_DET, ROUNDS, THETA_BOUND, behind, slot_kinds, slot_names
from heavytail.kernels.m_estimate import TAU
from heavytail.policies.core import version1

__all__ = ["Arrays", "Remembering"]

Arrays = Mapping[str, FloatArray]
PRIOR_ROUNDING: Final = 1e-5  # of the widest prior: times ROUNDING, its last digits
DERIVED: Final = 1e-9  # relative: what another machine's mathematics rounds otherwise

# Slots that files of version 2 did not name at first. A link's are the identity's in those.
LATER: Final = {"CRTM": ("link", "fractions")} | dict.fromkeys(
    ("HvtUCB", "TwinUCB", "HurdleUCB"), ("prior",)
)


class Remembering(TakingTurns):
    """state_arrays and restore, for a policy whose state is packed.

    A state from outside must hold what its slots say; a policy whose counts and places must also
    fit each other says so in ``_hangs_together``.
    """

    if TYPE_CHECKING:  # what a policy brings
        dim: int
        slots: ClassVar[tuple[Any, ...]]
        _s: FloatArray
        _M: FloatArray
        _rows: dict[str, slice | int]
        _runs: dict[str, slice]
        takes_prior: ClassVar[bool]
        follows_log_det: bool
        _first_entry: float
        _first_bound: float
        _least_ridge: float
        _last: Any

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return {"scalars": slot_names(*self.slots)}

    def _views(self) -> dict[str, FloatArray]:
        """What is remembered, by name, where it lies."""
        return {
            "scalars": self._s[: behind(self.slots[-1])],
            **{name: self._M[rows] for name, rows in self._rows.items()},
            **{name: self._s[run] for name, run in self._runs.items()},
        }

    @alone
    def state_arrays(self) -> dict[str, FloatArray]:
        return {key: array.copy() for key, array in self._views().items()}

    def is_sound(self) -> bool:
        return not np.isnan(self._s).any() and bool(np.isfinite(self._M).all())

    def upgrade(self, arrays: dict[str, FloatArray]) -> dict[str, FloatArray]:
        return version1.upgrade(self, arrays)

    @classmethod
    def first_defaults(cls) -> Mapping[str, Any]:
        return version1.DEFAULTS.get(cls.__name__, {})

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        return LATER.get(cls.__name__, ())

    @alone
    def restore(self, arrays: dict[str, FloatArray]) -> None:
        self._check_saved(arrays)
        self._take(arrays)

    def _is_finite(self, key: str, array: FloatArray) -> bool:
        """Whether it is, but for what follows from the threshold of a row: where the row is of no
        length that is infinite.
        """
        if key == "history" and "tau_0" in slot_kinds(*self.slots):
            array, rest = np.split(array, [self.dim + TAU], axis=1)
            if not ((rest > -np.inf).all() and (rest[:, 0] > 0.0).all()):
                return False
        return bool(np.isfinite(array).all())

    def _check_saved(self, arrays: Arrays, own: Arrays | None = None) -> None:
        """Refuse arrays that are no state of this policy, before a kernel sees them.

        ``own`` is a state that is, its own unless told: constants are compared with it.
        """
        where, own = type(self).__name__, self._views() if own is None else own
        check_fit(where, arrays, own)
        s = arrays["scalars"]
        check_slots(where, "scalars", slot_kinds(*self.slots), s, own["scalars"])
        for key, array in arrays.items():
            if key in own and key != "scalars" and not self._is_finite(key, array):
                raise damaged(where, key, "it is not finite")
        for key in self._rows:
            if not key.endswith("inverse"):  # which a small ridge makes as large as it likes
                check_size(where, key, arrays[key])
        if "history" in own:
            check_size(where, "history", arrays["history"][:, : self.dim])
        if not self._may_be_ball(float(s[THETA_BOUND])):
            raise damaged(where, "scalars", f"theta_bound cannot be {float(s[THETA_BOUND])!r}")
        if "inverse" in own:
            self._check_grams(arrays)
            norm = float(np.linalg.norm(arrays["theta"][: self.dim]))
            if norm > s[THETA_BOUND] * (1.0 + SYMMETRY):
                raise damaged(where, "theta", "it lies outside its ball")
        if not self._hangs_together(arrays):
            raise damaged(where, "scalars", "its counts do not fit what they count")
        self._check_derived(arrays)

    def _check_grams(self, arrays: Arrays) -> None:
        """Refuse a P that cannot be, and a log_det that is not its own."""
        where, s, P = type(self).__name__, arrays["scalars"], arrays["inverse"]
        first, log_det, rounds = self._widest(s), float(s[LOG_DET]), float(s[ROUNDS])
        free, widest = self._may_have_prior(s), first
        if free and self._least_ridge > 0.0:  # a prior of any width leaves its rounding in P
            widest = max(first, PRIOR_ROUNDING / self._least_ridge)
        check_gram(where, "inverse", P, widest, rounds, free=free)
        for key, more in self._further_grams(arrays).items():
            check_gram(where, key, more, self._first_entry, rounds)
        if self.follows_log_det:
            start = len(P) * math.log(self._first_entry)
            unsure = rounding(first, rounds)
            check_log_det(where, log_det, P, start, unsure, free=free)
        if log_det != 0.0 and not (self.follows_log_det and rounds > 0.0):
            raise damaged(where, "scalars", f"log_det cannot be {log_det!r}")

    def _check_derived(self, arrays: Arrays) -> None:
        """Refuse a radius, or another number that a round leaves for the next choice, which does
        not follow from the rest of s: it would be believed until the next round.
        """
        s = self._s.copy()
        s[: len(arrays["scalars"])] = arrays["scalars"]
        for name, run in self._runs.items():
            s[run] = arrays[name]
        again = s.copy()
        try:
            with np.errstate(all="ignore"):
                self._derive(again)
        except (ArithmeticError, ValueError):  # only where kernels are not compiled
            again[:] = np.nan
        with np.errstate(invalid="ignore"):  # infinity less infinity
            same = (again == s) | (np.abs(again - s) <= DERIVED * np.abs(s))
        if not same.all():
            at = int(np.argmin(same))
            name = slot_names(*self.slots)[at]
            raise damaged(type(self).__name__, "scalars", f"{name} cannot be {float(s[at])!r}")

    def _derive(self, s: FloatArray) -> None:
        """Write into ``s``, all of it, what follows from the rest, as the kernels do after a round.
        Where nothing is said, it is believed.
        """

    def _further_grams(self, arrays: Arrays) -> Arrays:
        """Matrices among ``arrays`` that began as P did and shrink as it does, (..., d, d), by the
        name of what holds them.
        """
        return {}

    def _may_be_ball(self, bound: float) -> bool:
        """Whether theta_bound is what the arguments say; the practical mode, which alone keeps
        ``sizes``, may have widened it, tenfold each time.
        """
        first = self._first_bound
        if bound == first or not math.isfinite(first) or not first < bound < math.inf:
            return bound == first
        times = math.log10(bound / first)
        return "sizes" in self._runs and abs(times - round(times)) < SYMMETRY

    def _may_have_prior(self, s: FloatArray) -> bool:
        """Whether a state of the scalars ``s`` may have begun from an earlier estimate, whose width
        nothing remembers.
        """
        return self.takes_prior

    def _widest(self, s: FloatArray) -> float:
        """The largest entry that P had at first, for a state of the scalars ``s``."""
        return self._first_entry

    def _hangs_together(self, arrays: Arrays) -> bool:
        """Whether counts, places and lists among ``arrays``, all of them sound alone, agree."""
        return True

    def _take(self, arrays: dict[str, FloatArray]) -> None:
        """Take over a state that is known to be sound."""
        for key, array in self._views().items():
            array[...] = arrays[key]
        self._last = None
