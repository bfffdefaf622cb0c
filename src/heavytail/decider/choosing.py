"""The choice of an offer: which may be shown, which of them, and with what probability."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._typing import IntArray
from heavytail._validate import check_number, shown
from heavytail.decider.choice import Choice, Options
from heavytail.kernels.random import uniform_pair

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["asked", "chosen", "offered"]

EXPLORING: Final = 2**40  # the stream of draws that explore


def asked(
    decider: Decider, context: Any, only: Any, explore: Any, when: float, where: str
) -> tuple[float, IntArray]:
    """The share that explores, and places of the offers that may be shown."""
    share = decider.explore
    if explore is not None:
        share = check_number(f"{where}: explore", explore, least=0.0, most=1.0)
    return share, offered(decider, context, only, when, where)


def chosen(
    decider: Decider,
    context: Any,
    share: float,
    which: IntArray,
    when: float,
    number: int,
    count: int,
) -> list[Choice]:
    """Choices for the places of a visit, none of them remembered, without their tokens; the first
    draws by ``number``.
    """
    model, ids = decider._model, decider._offers.ids
    X = model.vectors(context, which)
    forecasts = model.forecasts(X, len(which))
    named = model.expected(forecasts, which)
    unknown = {} if model.encoder is None else model.encoder.unknown(context)
    choices: list[Choice] = []
    while True:
        n = len(which)
        best = model.policy.select(model.arms(which, forecasts)) if n > 1 else 0
        place, drawn, chance = best, False, 1.0
        if share and n > 1:
            first, second = uniform_pair(decider._seed, number, EXPLORING)
            drawn = first < share
            place = int(second * n) if drawn else best
            chance = (1.0 - share) * (place == best) + share / n
        offer, expected = int(which[place]), None if named is None else float(named[place])
        options = Options(ids, which, named, drawn)
        choices.append(Choice(ids[offer], "", chance, expected, unknown, when, offer, options))
        if len(choices) == count or n == 1:
            return choices
        number += 1
        which, forecasts = np.delete(which, place), np.delete(forecasts, place)
        named = None if named is None else np.delete(named, place)


def offered(decider: Decider, context: Any, only: Any, when: float, where: str) -> IntArray:
    """Places of the offers that may be shown."""
    offers = decider._offers
    which = offers.running
    barred = {*decider._rules.barred(context), *decider._limits.reached(when)}
    if only is not None:
        if isinstance(only, str) or not isinstance(only, Iterable):
            do = f" Pass [{shown(only)}]." if isinstance(only, str) else ""
            raise TypeError(f"{where}: only must list ids; got {shown(only)}.{do}")
        asked = {offers.place(offer, f"{where}: only") for offer in only}
        which = np.array([place for place in which if place in asked], dtype=np.int64)
    if barred:
        which = np.array([place for place in which if place not in barred], dtype=np.int64)
    if len(which) == 0:
        raise ValueError(
            f"{where}: no offer may be shown here: all are retired, barred by rules, past their "
            "limit, or not among only. Add one that always may, such as 'nothing'."
        )
    return which
