"""What is common to the policies that play one arm many times before they learn from it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytail._typing import FloatArray
from heavytail.kernels import repeats
from heavytail.policies.base import PackedPolicy

__all__ = ["EpochPolicy", "check_epoch"]

FARTHEST = 10**7  # where the search for a horizon that works gives up


class EpochPolicy(PackedPolicy):
    """A packed policy whose rounds come in epochs of ``repeats`` pulls of one arm.

    Its state has, besides, the arm meant (a row of M), ``buffer`` numbers behind its slots (rewards
    of the running epoch) and ``vectors`` rows of M after the arm meant.
    """

    select_kernel = staticmethod(repeats.select)
    _kept: int
    _vectors: int

    def _extend(
        self,
        repeats_: int,
        *,
        buffer: int = 0,
        spare: int = 0,
        vectors: int = 0,
        spare_vectors: int = 0,
    ) -> None:
        """Give the allocated state room for epochs; what is spare is not remembered."""
        self._kept, self._vectors = len(self._s) + buffer, vectors
        self._s = np.concatenate([self._s, np.zeros(buffer + spare)])
        more = np.zeros((1 + vectors + spare_vectors, self._M.shape[1]))
        self._M = np.vstack([self._M, more])
        self._s[repeats.REPEATS] = repeats_

    @property
    def repeats(self) -> int:
        """Pulls of an epoch."""
        return int(self._s[repeats.REPEATS])

    @property
    def epochs(self) -> int:
        """Epochs completed, each of them one step of learning."""
        return int(self._s[repeats.EPOCHS])

    @property
    def pulls_left(self) -> int:
        """Pulls of the running epoch still to come; 0 between epochs."""
        pulls = int(self._s[repeats.PULLS])
        return self.repeats - pulls if pulls else 0

    @property
    def meant(self) -> FloatArray | None:
        """The arm of the running epoch; None between epochs."""
        return self._M[repeats.meant_row(self._M)].copy() if self.pulls_left else None

    def state_arrays(self) -> dict[str, FloatArray]:
        row = repeats.meant_row(self._M)
        arrays = {
            **super().state_arrays(),
            "scalars": self._s[: self._kept],
            "meant": self._M[row],
        }
        if self._vectors:
            arrays["copies"] = self._M[row + 1 : row + 1 + self._vectors]
        return arrays


def check_epoch(where: str, horizon: int, pulls: Callable[[int], int]) -> int:
    """The pulls of an epoch at ``horizon``; refuses a horizon that does not hold one epoch.

    ``pulls`` gives them for any horizon, so that the refusal names the smallest that works.
    """
    needed = pulls(horizon)
    if needed <= horizon:
        return needed
    enough = horizon + 1
    while enough < FARTHEST and pulls(enough) > enough:
        enough += 1
    raise ValueError(
        f"{where}.horizon must hold at least one epoch of repeated pulls; got {horizon}. "
        f"The smallest horizon that works is {enough}; or ask for fewer repetitions."
    )
