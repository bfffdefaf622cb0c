"""What a Decider answers: the offer, and what is needed to tell it the reward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytail._typing import FloatArray, IntArray

__all__ = ["Choice"]


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
    """

    id: str
    token: str
    probability: float
    expected: float | None
    unknown: dict[str, str] = field(default_factory=dict)
    time: float = 0.0
    _ids: tuple[str, ...] = field(default=(), repr=False)
    _forecasts: FloatArray | None = field(default=None, repr=False)
    _drawn: bool = field(default=False, repr=False)

    @property
    def why(self) -> str:
        """The reason for the choice, in a sentence."""
        if self._drawn:
            return f"{self.id} was drawn at random: a share of the visits explores."
        if len(self._ids) == 1:
            return f"{self.id} was the only offer that may be shown."
        if self._forecasts is None or self.expected is None:
            return f"Nothing is known yet of the {len(self._ids)} offers: they are tried in turn."
        order = np.argsort(-self._forecasts, kind="stable")
        best = self._ids[int(order[0])]
        if best == self.id:
            second = self._ids[int(order[1])]
            return (
                f"{self.id} is expected to earn most here: {amount(self.expected)}; next is "
                f"{second}: {amount(float(self._forecasts[order[1]]))}."
            )
        return (
            f"{self.id} is expected to earn {amount(self.expected)}, {best} "
            f"{amount(float(self._forecasts[order[0]]))}; too little is known of {self.id} to rule "
            "it out."
        )

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dict that JSON can hold."""
        return {
            "id": self.id, "token": self.token, "probability": self.probability,
            "expected": self.expected, "unknown": self.unknown, "time": self.time, "why": self.why,
        }  # fmt: skip


def amount(value: float) -> str:
    """A number for people: three digits, without an exponent where it can be."""
    if value == 0.0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        digits = max(0, 2 - int(np.floor(np.log10(abs(value)))))
        return f"{value:,.{min(digits, 5)}f}"
    return f"{value:.3g}"


def none_of(which: IntArray) -> bool:
    """Tell whether no offer is left."""
    return len(which) == 0
