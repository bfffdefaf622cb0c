"""The common part of policies that play one arm many times before they learn from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from heavytail._typing import FloatArray
from heavytail._validate import MOST, Check
from heavytail.kernels import index, repeats
from heavytail.kernels.repeats import EPOCH
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.base import PackedPolicy

__all__ = ["EpochPolicy", "check_epoch", "in_epochs"]


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the running epoch of a state from outside is not over."""
    s = arrays["scalars"]
    return bool(s[EPOCH.PULLS] < s[EPOCH.REPEATS])


def in_epochs(algorithm: Algorithm) -> Algorithm:
    """An algorithm whose rounds come in epochs of ``repeats`` pulls of one arm: the arm of the
    running epoch is played, and between epochs any ``select`` chooses.
    """
    select = repeats.select if algorithm.select is index.select else algorithm.select
    return replace(algorithm, select=select, agree=(*algorithm.agree, agrees))


class EpochPolicy(PackedPolicy):
    """A packed policy of an algorithm :func:`in_epochs`.

    The first of its own rows of M is the arm of the running epoch.
    """

    def _allocate_epochs(self, pulls: int, *, arm_bound: float, **parts: Any) -> None:
        """As ``_allocate``, for epochs of ``pulls`` pulls."""
        rows = {"meant": None, **parts.pop("rows", {})}
        bound = Check(type(self)).number("arm_bound", arm_bound, above=0.0)
        self._allocate(arm_bound=bound, rows=rows, **parts)
        self._s[EPOCH.REPEATS] = pulls

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
