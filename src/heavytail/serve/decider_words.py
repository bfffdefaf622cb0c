"""A Decider's refusals in words for a client that speaks JSON: the field, and what to send."""

from __future__ import annotations

import json
from typing import Any, Final

from heavytail._lazy import nearest
from heavytail._validate import printable
from heavytail.decider import Decider
from heavytail.decider.contexts import NUMBER
from heavytail.ledger.refusal import Refusal
from heavytail.serve.model import said
from heavytail.serve.wire import DecideInContext, PredictInContext
from heavytail.tables.categories import key
from heavytail.tables.cells import looks_like_number

__all__ = ["refusal_of"]

MOST_NAMED: Final = 10  # ids of offers


def refusal_of(
    decider: Decider, asked: DecideInContext | PredictInContext, error: Exception
) -> Refusal:
    """The refusal of a request that the Decider refused by ``error``."""
    only = asked.only if isinstance(asked, DecideInContext) else None
    return (
        _of_context(decider, asked.context)
        or _of_only(decider, only)
        or _of_nothing_left(decider, asked.context, only)
        or Refusal(422, "bad_context", said(error).partition(": ")[2] or said(error), "context")
    )


def _of_context(decider: Decider, context: dict[str, Any]) -> Refusal | None:
    """The refusal of the first column that is missing, or no number; None if there is none."""
    contexts = decider._contexts
    for name, kind in zip(contexts.names, contexts.kinds, strict=True):
        if name not in context:
            near = nearest(name, [other for other in context if other not in contexts.names])
            meant = f" It has {_quoted(near)}: is that the one?" if near else ""
            problem = f"The context lacks {_quoted(name)}.{meant} Send null if it is not known."
        elif kind == NUMBER and isinstance(value := context[name], str | bool):
            do = "null if it is not known"
            if isinstance(value, str) and looks_like_number(value):
                number = value.replace(",", ".") if "," in value else "it"
                do = f"{number} without quotes"
            problem = f"{_quoted(name)} must be a number; got {_quoted(value)}. Send {do}."
        else:
            continue
        return Refusal(422, "bad_context", problem, f"context.{printable(name)}")
    return None


def _of_only(decider: Decider, only: list[str | int] | None) -> Refusal | None:
    """The refusal of the first id that no offer has; None if there is none."""
    offers = decider._offers
    for place, offer in enumerate(only or ()):
        if key(offer) in offers.places:
            continue
        near = nearest(str(offer), offers.ids)
        meant = f"Did you mean {_quoted(near)}?"
        if near is None:
            more = ", ..." if len(offers.ids) > MOST_NAMED else ""
            meant = f"Offers are {', '.join(map(_quoted, offers.ids[:MOST_NAMED]))}{more}."
        problem = f"No offer has the id {_quoted(offer)}. {meant}"
        return Refusal(422, "bad_only", problem, f"only[{place}]")
    return None


def _of_nothing_left(
    decider: Decider, context: dict[str, Any], only: list[str | int] | None
) -> Refusal | None:
    """The refusal where no offer may be shown; None if one may."""
    offers = decider._offers
    barred = decider._rules.barred(context)
    left = [offers.ids[place] for place in offers.running if place not in barred]
    if not left:
        problem = "No offer may be shown in this context: each is retired, or barred by a rule."
        do = "Send another context, or serve a Decider with an offer that has no rule."
        return Refusal(422, "bad_context", f"{problem} {do}", "context")
    if only is None or {key(offer) for offer in only} & {*left}:
        return None
    more = ", ..." if len(left) > MOST_NAMED else ""
    named = ", ".join(map(_quoted, left[:MOST_NAMED])) + more
    problem = "No offer of 'only' may be shown in this context."
    if not only:
        problem = "'only' is empty."
    do = f"Leave out 'only', or list some that may be shown: {named}."
    return Refusal(422, "bad_only", f"{problem} {do}", "only")


def _quoted(value: object) -> str:
    """A value as a client sent it, on one line and shortened; text in single quotes, which a JSON
    answer need not escape.
    """
    return f"'{printable(value)}'" if isinstance(value, str) else json.dumps(value)
