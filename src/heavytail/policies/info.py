"""What a policy is and what it needs, as data: the rows of a table like the paper's Table 1."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Info"]


@dataclass(frozen=True, slots=True)
class Info:
    """One row: the method, its promises, and the assumptions a world must meet.

    ``moment`` is "central" (of the noise), "raw" (of the reward), "sub-Gaussian" or "none".
    ``randomised``: every selection draws anew, and its state counts the draws.
    """

    method: str
    reference: str
    regret: str
    cost: str
    storage: str
    moment: str
    orders: str = "(1, 2]"
    symmetric: bool = False
    repeats: bool = False
    fixed_arms: bool = False
    horizon: bool = False
    uses_scale: bool = False
    randomised: bool = False

    @property
    def needs(self) -> str:
        """The assumptions in words."""
        words = [] if self.moment == "none" else [f"{self.moment} moment {self.orders}"]
        if self.moment == "sub-Gaussian":
            words = ["sub-Gaussian noise"]
        words += ["symmetric noise"] * self.symmetric
        words += ["repeatable arms"] * self.repeats
        words += ["fixed arms"] * self.fixed_arms
        words += ["horizon"] * self.horizon
        return ", ".join(words) or "nothing"
