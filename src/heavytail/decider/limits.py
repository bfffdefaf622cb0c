"""The most that an offer may be chosen on a day."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from heavytail._validate import check_count, shown
from heavytail.decider.offers import Offers

__all__ = ["Limits"]

DAY: Final = 86400.0  # seconds; days begin at midnight UTC
Today = tuple[float, dict[int, int]]  # a day, and by the place of an offer its decisions


class Limits:
    """The most decisions per day of some offers, and how many there were today.

    Attributes:
        most: by id.
        today: the day, and how many decisions of each offer there were on it.
    """

    def __init__(self, stated: object, offers: Offers) -> None:
        where = "Decider.limits"
        if not isinstance(stated, Mapping):
            raise TypeError(f'{where} must be such as {{"coupon": 100}}; got {shown(stated)}.')
        self.most: dict[str, int] = {}
        self._of: dict[int, int] = {}
        for offer, most in stated.items():
            place = offers.place(offer, where)
            self._of[place] = check_count(f"{where}[{offer!r}]", most, least=0)
            self.most[offers.ids[place]] = self._of[place]
        self.today: Today = -math.inf, dict.fromkeys(self._of, 0)

    def reached(self, when: float) -> list[int]:
        """Places of the offers that were chosen as often as they may today."""
        if not self._of:
            return []
        day, counts = self.today
        if when // DAY > day:
            return [place for place, most in self._of.items() if most == 0]
        return [place for place, most in self._of.items() if counts[place] >= most]

    def after(self, places: Iterable[int], when: float) -> Today:
        """The day and its counts once decisions of it are counted."""
        day, counts = self.today
        if when // DAY > day:  # a clock that was set back begins no new day
            day, counts = when // DAY, dict.fromkeys(self._of, 0)
        counts = dict(counts)
        for place in places:
            if place in counts:
                counts[place] += 1
        return day, counts

    def plain(self) -> dict[str, Any]:
        """Today's counts as JSON values."""
        day, counts = self.today
        listed = [[place, n] for place, n in counts.items()]
        return {"day": None if math.isinf(day) else day, "counts": listed}

    def resume(self, told: Mapping[str, Any]) -> None:
        """Take over what ``plain`` gave; ValueError for anything else."""
        counts, day = dict(map(tuple, told["counts"])), told["day"]
        whole = all(isinstance(n, int) and n >= 0 for n in counts.values())
        if set(counts) != set(self._of) or not whole:
            raise ValueError("its limits are damaged")
        if day is not None and not (isinstance(day, float) and math.isfinite(day)):
            raise ValueError("its limits are damaged")
        self.today = (-math.inf if day is None else day), counts
