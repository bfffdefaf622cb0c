"""The properties and needs of a policy, as data: the rows of a table like the paper's Table 1."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Info"]


@dataclass(frozen=True, slots=True)
class Info:
    """One row: the method, its promises, and the assumptions an environment must meet.

    ``moment`` is "central" (of the noise), "raw" (of the reward), "sub-Gaussian" or "none";
    ``only_order`` is set where it must be of one order. ``rewards`` are those it takes as it comes:
    "any", or "0 or 1". ``randomised``: ``select`` is random, and
    the number of draws is part of the state. ``uses_scale``: a round's ``scale`` is used.
    ``sources`` says, in Markdown, what follows the paper to the letter and what was derived again
    or decided.
    """

    method: str
    reference: str
    regret: str
    cost: str
    storage: str
    moment: str
    only_order: float | None = None
    symmetric: bool = False
    repeats: bool = False
    fixed_arms: bool = False
    horizon: bool = False
    uses_scale: bool = False
    randomised: bool = False
    rewards: str = "any"
    sources: str = ""

    @property
    def orders(self) -> str:
        """The orders of the moment in words."""
        return "(1, 2]" if self.only_order is None else f"{self.only_order:g}"

    @property
    def needs(self) -> str:
        """The assumptions in words."""
        words = [] if self.moment == "none" else [f"{self.moment} moment {self.orders}"]
        if self.moment == "sub-Gaussian":
            words = ["sub-Gaussian noise"]
        words += [f"rewards of {self.rewards}"] * (self.rewards != "any")
        words += ["symmetric noise"] * self.symmetric
        words += ["repeatable arms"] * self.repeats
        words += ["fixed arms"] * self.fixed_arms
        words += ["horizon"] * self.horizon
        return ", ".join(words) or "nothing"
