"""Learning one reward: whole or not at all, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import Rows
from heavytail.decider.learning import is_due
from heavytail.decider.model import Model
from heavytail.policies.twin_ucb import TwinUCB

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["FIRST", "KEPT", "Round", "learn_round", "learn_waiting"]

FIRST: Final = 32  # rewards after which the shape is learned; again after twice as many, ...
KEPT: Final = 16_384  # ... up to as many as are kept
HUGE: Final = 1e50  # a reward at which a policy may refuse what another has learned
Step = tuple[Callable[[], Any], Callable[[], bool]]  # what is to be done, and whether it is


class Round(NamedTuple):
    """A decision and its reward.

    Attributes:
        row: its context.
        place: of the offer.
        chance: of the choice; NaN where unknown.
        reward: of it.
        when: in seconds; NaN where unknown.
        own: whether this Decider decided.
    """

    row: FloatArray
    place: int
    chance: float
    reward: float
    when: float
    own: bool = True

    def rows(self) -> Rows:
        """It alone, as rows."""
        context, place, *others, own = self
        parts = [np.array([part]) for part in (context, place, *others, own)]
        return Rows(*parts)


def learn_waiting(decider: Decider, number: int, reward: float, *, closed: bool = False) -> None:
    """Learn the reward of a decision that waits."""
    ledger = decider._ledger
    waiting = ledger.kept[number]
    of = Round(
        waiting.x[:-2], int(waiting.x[-2]), float(waiting.x[-1]), reward, waiting.time, own=True
    )
    steps: list[Step] = [
        (lambda: ledger.kept.pop(number, None), lambda: number not in ledger.kept),
    ]
    if closed:
        noted = decider._tokens
        steps.append((lambda: noted.closed([number]), lambda: noted.was_closed(number)))
    learn_round(decider, of, decider._contexts, steps, closed=closed)


def learn_round(
    decider: Decider, of: Round, contexts: Contexts, steps: list[Step], *, closed: bool = False
) -> None:
    """Learn one reward, and the shape anew where it is time; then take the other steps.

    Each step is whole or not at all. Whatever stops the first leaves everything as it was; whatever
    stops a later one, an interrupt, comes out after the last.
    """
    history, counts = decider._history, decider._counts
    first, kept = _learned(decider, of, contexts)
    seen = history.seen + 1
    steps = [
        *first,
        (lambda: history.add(*of), lambda: history.seen == seen),
        *steps,
    ]
    if of.own:
        sums, late = counts.after(of.place, of.reward), counts.closed + closed
        steps += [
            (lambda: counts.offers.update({of.place: sums}),
             lambda: counts.offers.get(of.place) is sums),
            (lambda: setattr(counts, "closed", late), lambda: counts.closed == late),
        ]  # fmt: skip
    if contexts is not decider._contexts:
        steps.append((lambda: setattr(decider, "_contexts", contexts),
                      lambda: decider._contexts is contexts))  # fmt: skip
    try:
        for act, _ in steps:
            act()
    except BaseException:
        if first[0][1]():
            try:
                for act, is_done in steps:
                    if not is_done():
                        act()
            except ValueError:
                if kept is None:
                    raise
                decider._model = kept  # the policy refuses what its forecast has learned
        raise


def _learned(decider: Decider, of: Round, contexts: Contexts) -> tuple[list[Step], Model | None]:
    """The steps that learn a reward, and the model before them if one may be refused."""
    history, model, offers = decider._history, decider._model, decider._offers
    if is_due(history.seen + 1, FIRST, KEPT):
        rows = history.rows().joined(of.rows())
        grown = Model.learned(contexts, offers, rows, options=decider._options)
        return [(lambda: setattr(decider, "_model", grown), lambda: decider._model is grown)], None
    x = model.vectors(contexts.values(of.row), np.array([of.place]))
    updates = model.updates(None if x is None else x[0], of.place, of.reward)
    steps = [_update(policy, at, of.reward) for policy, at in updates]
    return steps, model.clone(offers) if abs(of.reward) > HUGE else None


def _update(policy: TwinUCB, x: FloatArray, reward: float) -> Step:
    rounds = policy.rounds + 1
    return lambda: policy.update(x, reward), lambda: policy.rounds == rounds
