"""What a packed policy remembers: by name, where it lies, and what is true of it at all times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._invariants import check_size, check_slots, damaged
from heavytail._storage import check_fit
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray
from heavytail.kernels.layout import behind, slot_kinds, slot_names
from heavytail.kernels.m_estimate import TAU

if TYPE_CHECKING:
    from heavytail.policies.core.pool import Kept

__all__ = ["Arrays", "Remembering"]

Arrays = Mapping[str, FloatArray]

# Slots that files of version 2 did not name at first: a link's are the identity's in those, and
# counts are 0.
LATER: Final = {
    "CRTM": ("link", "fractions"),
    **dict.fromkeys(("HvtUCB", "TwinUCB"), ("prior", "astray", "units")),
    **dict.fromkeys(("HvtGLB", "HvtLowRank"), ("astray", "units")),
}


class Remembering(TakingTurns):
    """state_arrays and restore, for a policy whose state is packed.

    A state from outside must hold what its slots say; a policy whose counts and places must also
    fit each other says so in ``_hangs_together``.
    """

    if TYPE_CHECKING:  # what a policy brings
        dim: int
        slots: tuple[Any, ...]
        _s: FloatArray
        _M: FloatArray
        _rows: dict[str, slice | int]
        _runs: dict[str, slice]
        _last: Kept | None

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

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        return LATER.get(cls.__name__, ())

    @alone
    def restore(self, arrays: dict[str, FloatArray]) -> None:
        self._check_saved(arrays)
        self._take(arrays)

    def _is_finite(self, key: str, array: FloatArray) -> bool:
        """Tell whether it is, but for what follows from the threshold of a row: where the row is of
        no length that is infinite.
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
        if not self._hangs_together(arrays):
            raise damaged(where, "scalars", "its counts do not fit what they count")

    def _hangs_together(self, arrays: Arrays) -> bool:
        """Tell whether counts, places and lists among ``arrays``, each sound alone, agree."""
        return True

    def _take(self, arrays: dict[str, FloatArray]) -> None:
        """Take over a state that is known to be sound."""
        for key, array in self._views().items():
            array[...] = arrays[key]
        self._last = None
