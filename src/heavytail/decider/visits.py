"""A visit: what is asked of it, read before the Decider is looked at, and its decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import check_number
from heavytail.decider.choice import Choice
from heavytail.decider.contexts import Fresh
from heavytail.decider.steps import Step, take
from heavytail.ledger.decision import frozen
from heavytail.ledger.memory import Waiting
from heavytail.tables.categories import key

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["plain_ids", "plain_share", "remember"]


def plain_share(explore: Any, where: str) -> float | None:
    """The share that explores, as it was passed or as a float."""
    if explore is None:
        return None
    return check_number(f"{where}: explore", explore, least=0.0, most=1.0)


def plain_ids(only: Any) -> Any:
    """Ids as they were passed, or as a list of texts: what converts them may call the Decider."""
    if only is None or isinstance(only, str) or not isinstance(only, Iterable):
        return only
    return [_plain_id(offer) for offer in only]


def _plain_id(offer: Any) -> Any:
    try:
        return key(offer)
    except TypeError:  # it is refused where offers are known
        return offer


def remember(
    decider: Decider,
    choices: Sequence[Choice],
    row: FloatArray,
    fresh: Fresh,
    known: Mapping[str, Any],
    *,
    comparable: bool,
) -> None:
    """Remember the decisions of a visit, all of them or none; another rule could have chosen among
    all offers where they are ``comparable``.
    """
    ledger, contexts, counts, limits = (
        decider._ledger, decider._contexts, decider._counts, decider._limits,
    )  # fmt: skip
    first, waiting = ledger.made, {}
    for number, choice in enumerate(choices, first):
        row[-2:] = choice.place, choice.probability if comparable else np.nan
        waiting[number] = Waiting(frozen(row), choice.time)
    last = first + len(choices)
    decider._oldest = min(decider._oldest, choices[0].time)
    steps: list[Step] = [
        (lambda: ledger.kept.update(waiting), lambda: first in ledger.kept),
        (lambda: setattr(ledger, "made", last), lambda: ledger.made == last),
    ]
    if fresh or None in contexts.kinds:  # doing it twice does it once
        steps.append((lambda: contexts.settle(known, fresh), lambda: False))
    if choices[0].unknown:
        met = counts.after_meeting(choices[0].unknown)
        steps.append((lambda: setattr(counts, "unknown", met), lambda: counts.unknown is met))
    if limits.most:
        today = limits.after([choice.place for choice in choices], choices[0].time)
        steps.append((lambda: setattr(limits, "today", today), lambda: limits.today is today))
    take(steps)
