"""What is common to the policies that play one arm many times before they learn from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heavytail._typing import FloatArray
from heavytail._validate import MOST, Check
from heavytail.kernels import repeats
from heavytail.kernels.repeats import EPOCH
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.remembering import Arrays

__all__ = ["EpochPolicy", "check_epoch"]


class EpochPolicy(PackedPolicy):
    """A packed policy whose rounds come in epochs of ``repeats`` pulls of one arm.

    The first of its own rows of M is the arm of the running epoch.
    """

    select_kernel = staticmethod(repeats.select)

    def _allocate_epochs(
        self,
        pulls: int,
        *,
        ridge: float,
        arm_bound: float,
        theta_bound: float,
        rows: Mapping[str, int] | None = None,
        room: int = 0,
        runs: Mapping[str, int] | None = None,
        spare: int = 0,
    ) -> None:
        """As ``_allocate``, for epochs of ``pulls`` pulls."""
        self._allocate(
            ridge=ridge,
            arm_bound=Check(type(self)).number("arm_bound", arm_bound, above=0.0),
            theta_bound=theta_bound,
            rows={"meant": None, **(rows or {})},
            room=room,
            runs=runs,
            spare=spare,
        )
        self._s[EPOCH.REPEATS] = pulls

    def _hangs_together(self, arrays: Arrays) -> bool:
        s = arrays["scalars"]
        return bool(s[EPOCH.PULLS] < s[EPOCH.REPEATS])

    @property
    def repeats(self) -> int:
        """Pulls of an epoch."""
        return int(self._s[EPOCH.REPEATS])

    @property
    def epochs(self) -> int:
        """Epochs completed, each of them one step of learning."""
        return int(self._s[EPOCH.EPOCHS])

    @property
    def pulls_left(self) -> int:
        """Pulls of the running epoch still to come; 0 between epochs."""
        pulls = int(self._s[EPOCH.PULLS])
        return self.repeats - pulls if pulls else 0

    @property
    def meant(self) -> FloatArray | None:
        """The arm of the running epoch; None between epochs."""
        return self._M[repeats.meant_row(self._M)].copy() if self.pulls_left else None


def check_epoch(check: Check, horizon: int, pulls: Callable[[int], int]) -> int:
    """The pulls of an epoch at ``horizon``; refuses a horizon that does not hold one epoch.

    ``pulls`` gives them for any horizon, so that the refusal names the smallest that works: found
    by bisection, since where one works all longer ones do.
    """
    needed = pulls(horizon)
    if needed <= horizon:
        return needed
    short, enough = horizon, 2 * horizon
    while enough < MOST and pulls(enough) > enough:
        short, enough = enough, 2 * enough
    while enough - short > 1 and enough < MOST:
        middle = (short + enough) // 2
        short, enough = (short, middle) if pulls(middle) <= middle else (middle, enough)
    todo = f"The smallest horizon that works is {enough}; or ask" if enough < MOST else "Ask"
    raise ValueError(
        f"{check.owner}.horizon must hold at least one epoch of repeated pulls; got {horizon}. "
        f"{todo} for fewer repetitions."
    )
