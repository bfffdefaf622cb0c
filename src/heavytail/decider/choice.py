"""A Decider's answer: the offer, and what is needed to tell it the reward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["Choice", "Options", "amount"]

MOST_SHOWN: Final = 20  # offers in a table
NOTHING: Final = 1e-9  # of a number beside another


class Options(NamedTuple):
    """The offers among which one was chosen.

    Attributes:
        ids: of all offers.
        which: places of those that could be chosen.
        forecasts: what was expected of them; None before anything was known.
        drawn: whether the choice was a draw.
    """

    ids: list[str]
    which: IntArray
    forecasts: FloatArray | None
    drawn: bool


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """An offer that was chosen, and waits for its reward.

    Attributes:
        id: of the offer.
        token: text that names the decision when its reward comes.
        probability: of this choice in this context.
        expected: the mean reward that is expected of it; None before anything is known.
        unknown: columns of the context whose value was never seen while the model was shaped, and
            the value.
        time: of the decision, in seconds since 1970.
        place: of the offer in the table of offers.
        options: among which it was chosen.
    """

    id: str
    token: str
    probability: float
    expected: float | None
    unknown: dict[str, str] = field(default_factory=dict)
    time: float = 0.0
    place: int = field(default=0, repr=False)
    options: Options | None = field(default=None, repr=False)

    @property
    def why(self) -> str:
        """The reason for the choice, in a sentence."""
        options = self.options
        if options is None:
            return ""
        if options.drawn:
            return f"{self.id} was drawn at random: a share of the visits explores."
        if len(options.which) == 1:
            return f"{self.id} was the only offer left to show."
        if options.forecasts is None or self.expected is None:
            return f"Too few rewards came yet to compare the {len(options.which)} offers."
        first, second = np.argsort(-options.forecasts, kind="stable")[:2]
        best, next_best = (options.ids[int(options.which[i])] for i in (first, second))
        most = float(options.forecasts[first])
        if best == self.id:
            return (
                f"{self.id} is expected to earn most here: {amount(most)}; next is {next_best}: "
                f"{amount(float(options.forecasts[second]))}."
            )
        if self.expected == most:
            return f"{self.id} is expected to earn {amount(most)} here, as much as {best}."
        return (
            f"{self.id} is expected to earn {amount(self.expected)} here, {best} {amount(most)}; "
            f"{self.id} is shown to learn more about it."
        )

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dict that JSON can hold."""
        return {
            "id": self.id, "token": self.token, "probability": self.probability,
            "expected": self.expected, "unknown": self.unknown, "time": self.time, "why": self.why,
        }  # fmt: skip

    def _repr_html_(self) -> str:
        from heavytail.decider.markup import note, table

        said = f"{self.id}, chosen with probability {self.probability:.3g}."
        options = self.options
        if options is None or options.forecasts is None:
            return f"<div>{note(said, self.why)}</div>"
        order = np.argsort(-options.forecasts, kind="stable")[:MOST_SHOWN]
        rows = [
            [
                options.ids[int(options.which[i])], amount(float(options.forecasts[i])),
                "chosen" if options.which[i] == self.place else "",
            ]
            for i in order
        ]  # fmt: skip
        return f"<div>{note(said, self.why)}{table(['offer', 'expected', ''], rows)}</div>"


def amount(value: float, beside: float = 0.0) -> str:
    """A number for people: three digits, without an exponent where it can be, and 0 where it is
    nothing ``beside`` another.
    """
    if abs(value) <= NOTHING * abs(beside) or value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e15:
        digits = max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:,.{min(digits, 5)}f}"
    return f"{value:.3g}"
