"""Learning rewards: whole or not at all, whatever comes in between."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import Rows
from heavytail.decider.learning import is_due
from heavytail.decider.model import Model
from heavytail.decider.steps import Step, take
from heavytail.ledger.memory import Memory
from heavytail.policies.twin_ucb import TwinUCB

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["FIRST", "KEPT", "Round", "learn_all", "learn_round"]

FIRST: Final = 32  # rewards after which the shape is learned; again after twice as many, ...
KEPT: Final = 16_384  # ... up to as many as are kept
HUGE: Final = 1e50  # a reward at which a policy may refuse what another has learned


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


def learn_all(
    decider: Decider, numbers: Sequence[int], rewards: Sequence[float], *, closed: bool = False
) -> None:
    """Learn the rewards of decisions that wait: all of them, or none."""
    pairs, before = list(zip(numbers, rewards, strict=True)), None
    if len(pairs) > 1 and _may_fail(decider, rewards):
        before = _kept(decider)
    try:
        for number, reward in pairs:
            _learn_waiting(decider, number, reward, closed)
    except BaseException:
        waiting = [pair for pair in pairs if pair[0] in decider._ledger.kept]
        if len(waiting) < len(pairs):
            try:
                for number, reward in waiting:
                    _learn_waiting(decider, number, reward, closed)
            except (ValueError, MemoryError):
                if before is None:
                    raise
                vars(decider).update(before)
        raise


def _may_fail(decider: Decider, rewards: Sequence[float]) -> bool:
    """Tell whether one of many rewards may be refused once others are learned: by a policy, since
    it or one before it is so large, or because the shape is learned anew, which takes memory.
    """
    seen = decider._history.seen
    if any(is_due(seen + k, FIRST, KEPT) for k in range(1, len(rewards) + 1)):
        return True
    earlier = decider._history.rows().rewards
    return max(np.abs(rewards).max(), np.abs(earlier).max(initial=0.0)) > HUGE


def _kept(decider: Decider) -> dict[str, Any]:
    """The fields of a Decider that rewards change, as they are now."""
    ledger = decider._ledger
    return {
        "_model": decider._model.clone(decider._offers),
        "_history": decider._history.copy(),
        "_ledger": Memory(ledger.made, dict(ledger.kept), ledger.expired),
        "_counts": copy.deepcopy(decider._counts),
        "_tokens": copy.deepcopy(decider._tokens),
    }


def _learn_waiting(decider: Decider, number: int, reward: float, closed: bool) -> None:
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

    Whatever stops it, all is learned or nothing.
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
    undo = None if kept is None else functools.partial(setattr, decider, "_model", kept)
    take(steps, undo)  # where the policy refuses what its forecast has learned


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
