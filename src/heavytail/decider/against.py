"""A Decider's earnings a visit, against those of a rule in the same visits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import shown
from heavytail.decider.choice import amount
from heavytail.decider.history import Rows
from heavytail.decider.markup import percent, signed
from heavytail.decider.snapshot import Snapshot

__all__ = ["Against", "compared"]

WHERE: Final = "Decider.report"
NO_EXPLORING: Final = "no visit explores (explore=0)"
EXPLORE: Final = "Let a share of the visits explore: explore=0.05."
UNDECIDED: Final = "not decided yet"
LONG: Final = 5  # times the visits compared are a long time
COMMON: Final = 0.1  # a reward that this share of visits pays must be among those compared
NO_GUARANTEE: Final = (
    "The bound leaves room for rewards as large as the largest so far; larger ones, which never "
    "came, could change it."
)


@dataclass(frozen=True)
class Against:
    """The gain of a visit over what a rule would have earned; ``print`` it for a sentence.

    Attributes:
        rule: in words.
        value: the estimate of the difference, or None.
        lower: and
        upper: its bounds, both together of probability ``level``, or None.
        level: of the bounds.
        visits: that were compared.
        more: how many visits more would decide if they were like these, rounded up to one digit: a
            guess, mostly too low. None where it is decided, or where this cannot be said.
        why: the reason why nothing can be said, and what to do; "" where something can.
        notes: what to know of the comparison.
    """

    rule: str
    value: float | None
    lower: float | None
    upper: float | None
    level: float
    visits: int
    more: int | None = None
    why: str = ""
    notes: tuple[str, ...] = ()

    @property
    def better(self) -> bool | None:
        """True if the Decider earned more than the rule; None where that is not decided."""
        if self.lower is not None and self.lower > 0.0:
            return True
        if self.upper is not None and self.upper < 0.0:
            return False
        return None

    def __str__(self) -> str:
        return " ".join([self.sentence, *self.notes])

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        head, level = f"Against {self.rule}:", f"{100.0 * self.level:.4g} %"
        if self.why:
            return f"{head} {self.why}"
        if self.value is None or self.lower is None or self.upper is None:
            return f"{head} cannot be said."
        if self.better:
            return f"{head} {signed(self.value)} a visit, at least {signed(self.lower)} ({level})."
        if self.better is False:
            return (
                f"{head} {signed(self.value)} a visit, at most {signed(self.upper)} ({level}): the "
                "rule would have earned more."
            )
        between = f"between {signed(self.lower)} and {signed(self.upper)} a visit"
        return f"{head} {UNDECIDED}, {between} ({level}). {_more(self.more, self.visits)}"


def _more(more: int | None, visits: int) -> str:
    """A sentence on how many visits more would decide, after so many that were compared."""
    if more is None:
        return "Visits like these would not decide it."
    if more > LONG * visits:
        return (
            f"Visits like these would not decide it for a long time: more than {LONG} times the "
            f"{visits:,} so far are needed."
        )
    return f"About {more:,} more visits like these would decide it."


def compared(of: Snapshot, against: object, level: float) -> Against:
    """Compare the kept decisions with a rule: an offer's id, or a callable of a context."""
    rows = of.own
    rule, places = _rule(of, against, rows)
    try:
        rows, places, notes = _comparable(of, rows, places)
    except _Silent as why:
        return Against(rule, None, None, None, level, len(rows), why=str(why))
    return _against(rows, places, rule, level, tuple(notes))


def _rule(of: Snapshot, against: Any, rows: Rows) -> tuple[str, IntArray]:
    """The rule in words, and the place of its offer in each row."""
    if not callable(against):
        if not isinstance(against, str | int | float | np.integer) or isinstance(against, bool):
            raise TypeError(
                f"{WHERE}: against must be an offer's id, or a callable that gives one for a "
                f"context; got {shown(against)}."
            )
        place = of.offers.place(against, f"{WHERE}: against")
        return f"always {shown(of.offers.ids[place])}", np.full(len(rows), place)
    places = np.empty(len(rows), dtype=np.int64)
    for i, row in enumerate(rows.contexts):
        context = of.context(row)
        try:
            offer = against(context)
        except Exception as error:
            error.add_note(f"{WHERE}: against was called with the context {shown(context)}.")
            raise
        places[i] = of.offers.place(offer, f"{WHERE}: against, for the context {shown(context)}")
    name = getattr(against, "__name__", "")
    return "the rule" if name in ("", "<lambda>") else f"the rule '{name}'", places


class _Silent(Exception):
    """The reason why two rules cannot be compared."""


def _comparable(of: Snapshot, rows: Rows, places: IntArray) -> tuple[Rows, IntArray, list[str]]:
    """The rows in which the rule could have been followed, its offers there, -1 where it is barred,
    and notes.
    """
    if len(rows) == 0:
        logs = " Visits of a log do not count: ht.compare reads the log." if len(of.rows) else ""
        if of.uncounted:
            raise _Silent("cannot be said: all visits are so new that others still wait.")
        raise _Silent(f"cannot be said: no decision has its reward yet.{logs}")
    if np.array_equal(rows.offers, places):
        raise _Silent("nothing to compare: the Decider chose as the rule does in every visit.")
    rows, places, notes = *_while_offered(of, rows, places), []
    explored = rows.probabilities < 1.0  # False for NaN
    total, rows, places = len(rows), rows.where(explored), places[explored]
    if len(rows) == 0:
        why = "no visit has explored yet. Wait for more visits."
        raise _Silent(f"cannot be said: {why if of.explore else f'{NO_EXPLORING}. {EXPLORE}'}")
    if len(rows) < total:
        notes.append(f"Compared over the {len(rows):,} of {total:,} visits that explored.")
    if of.rules.stated:
        barred = [place in of.barred(row) for place, row in zip(places, rows.contexts, strict=True)]
        if all(barred):
            raise _Silent("cannot be said: the rules of the Decider bar its offers in all visits.")
        if any(barred):
            places = np.where(barred, -1, places)
            notes.append(
                f"In {percent(float(np.mean(barred)))} of the visits the rules of the Decider bar "
                "its offer: there both are taken to be alike."
            )
    return rows, places, notes


def _while_offered(of: Snapshot, rows: Rows, places: IntArray) -> tuple[Rows, IntArray]:
    """The rows from which on all offers of a rule could be shown."""
    names, played = of.offers.ids, set(places.tolist())
    for place in sorted(played):
        name = shown(names[place])
        if not of.offers.runs[place]:
            raise _Silent(
                f"cannot be said: {name} is retired, and visits since then do not show what it "
                "earns. Bring it back by add."
            )
        if place in of.limited:
            raise _Silent(
                f"cannot be said: {name} has a daily limit, and visits beyond it could not show "
                "what it earns. Compare with a rule that does not need it."
            )
    for place in sorted(played & of.added):
        first = np.flatnonzero(rows.offers == place)
        if len(first) == 0:
            do = "Wait for more visits." if of.explore else EXPLORE
            raise _Silent(
                f"cannot be said: {shown(names[place])} is new, and no visit that showed it has "
                f"its reward yet. {do}"
            )
        since = slice(int(first[0]) + 1, None)
        rows, places = rows.where(since), places[since]
    if len(rows) == 0:
        raise _Silent("cannot be said: its offers are new. Wait for more visits.")
    return rows, places


def _against(
    rows: Rows, places: IntArray, rule: str, level: float, notes: tuple[str, ...]
) -> Against:
    """Compare rows with a rule that shows the offers in ``places``, -1 for that of the row."""
    from heavytail.logs import compare

    chance = rows.probabilities
    target = np.where(places < 0, chance, (rows.offers == places).astype(np.float64))
    log = {
        "action": rows.offers, "reward": rows.rewards, "propensity": chance, "rule": target,
    }  # fmt: skip
    few = _too_few(target / chance, len(rows), level)
    if few:
        return Against(rule, None, None, None, level, len(rows), why=few, notes=notes)
    result = compare(log, "logged", target, level=level)
    if not result.b.propensities_ok:
        weight = result.b.mean_weight[0]
        return Against(
            rule, None, None, None, level, len(rows),
            why="cannot be said: its offers were shown "
            f"{'more' if weight > 1.0 else 'less'} often ({amount(weight)} times) than the "
            "probabilities of the choices say. Where few visits explore, this may be chance: wait "
            "for more. Otherwise some visits could not show them: compare with a rule that every "
            "visit could follow.",
            notes=notes,
        )  # fmt: skip
    if result.lower is None or result.upper is None:
        why = "cannot be said: all rewards so far are equal."
        return Against(rule, None, None, None, level, len(rows), why=why, notes=notes)
    value, lower, upper = float(result.value), float(result.lower), float(result.upper)
    more = None
    if result.rows_needed is not None:
        more = _rounded_up(result.rows_needed - result.rows)
    answer = Against(rule, value, lower, upper, level, len(rows), more, "", notes)
    if answer.better is None:
        return answer
    return Against(rule, value, lower, upper, level, len(rows), None, "", (*notes, NO_GUARANTEE))


def _too_few(weight: FloatArray, rows: int, level: float) -> str:
    """The reason why the visits in which both differ are too few, as of :func:`compare`; "" where
    they are enough.
    """
    least = math.ceil(math.log1p(-level) / math.log1p(-COMMON))
    sizes = []
    for side in (np.maximum(weight - 1.0, 0.0), np.maximum(1.0 - weight, 0.0)):
        square = float(side @ side)
        sizes.append(float(side.sum()) ** 2 / square if square else 0.0)
    at = int(np.argmin(sizes))
    if sizes[at] >= least:
        return ""
    which = "showed what only the rule would show", "showed what the rule would not show"
    few = (
        f"{UNDECIDED}: the visits that {which[at]} count like {math.floor(sizes[at])}, and {least} "
        "are needed."
    )
    if sizes[at] < 1.0:
        return few
    more = _rounded_up(rows * (least / sizes[at] - 1.0))
    return f"{few} About {more:,} more visits like these would be enough to compare."


def _rounded_up(count: float) -> int:
    """A number of visits, to one digit."""
    unit = 10 ** math.floor(math.log10(max(count, 1.0)))
    return max(1, math.ceil(count / unit)) * unit
