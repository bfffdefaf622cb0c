"""The state of a Decider as named arrays, and back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from heavytail._invariants import damaged
from heavytail._signals import raised_by_handler
from heavytail._validate import GREATEST
from heavytail.decider.contexts import CATEGORY, NUMBER, Contexts
from heavytail.decider.history import History
from heavytail.decider.learning import Counts
from heavytail.decider.limits import Limits
from heavytail.decider.model import Model
from heavytail.decider.offers import Offers, Rules
from heavytail.decider.shape import Shape
from heavytail.decider.tokens import Tokens
from heavytail.encoding import Encoder, Spline
from heavytail.ledger.memory import Memory
from heavytail.policies.twin_ucb import TwinUCB

if TYPE_CHECKING:
    from heavytail.decider.decider import Decider

__all__ = ["arrays_of", "plain_context", "plain_rules", "restore", "slot_names"]

LEDGER, POLICY, FORECAST, KEPT = "ledger.", "policy.", "forecast.", "kept."
TOLD: Final = "told"  # all that is no array, as JSON
SLOTS: Final = "scalars"


def slot_names() -> dict[str, tuple[str, ...]]:
    """The slots of both policies."""
    names = TwinUCB(1).slot_names()[SLOTS]
    return {POLICY + SLOTS: names, FORECAST + SLOTS: names}


def arrays_of(decider: Decider) -> dict[str, Any]:
    """All that a Decider has learned, and what waits."""
    model = decider._model
    told = {
        "contexts": decider._contexts.plain(),
        "offers": decider._offers.plain(),
        "tokens": decider._tokens.plain(),
        "limits": decider._limits.plain(),
        "counts": decider._counts.plain(),
        "closing": decider._closing,
        "explore": decider.explore,
        "shape": [list(part) for part in model.shape],
        "range": [model.centre, model.scale],
        "schema": None if model.encoder is None else model.encoder.schema(),
    }
    width = len(decider._contexts.names) + 2
    arrays = {TOLD: np.frombuffer(json.dumps(told).encode(), dtype=np.uint8).copy()}
    arrays |= _named(LEDGER, decider._ledger.arrays(width))
    arrays |= _named(KEPT, decider._history.arrays())
    arrays |= _named(POLICY, model.policy.state_arrays())
    if model.forecast is not None:
        arrays |= _named(FORECAST, model.forecast.state_arrays())
    return arrays


def restore(decider: Decider, arrays: dict[str, Any]) -> None:
    """Take over what ``arrays_of`` gave; refuse anything else, unchanged."""
    try:
        if arrays[TOLD].dtype != np.uint8 or arrays[TOLD].ndim != 1:
            raise ValueError("it is no text")
        told = json.loads(bytes(arrays[TOLD]).decode())
        parts = _parts(decider, told, arrays)
    except Exception as error:  # whatever a file may hold in its place
        if raised_by_handler(error):
            raise
        why = str(error) or type(error).__name__
        raise damaged("Decider", TOLD, why[:200]) from None
    vars(decider).update(parts)


def _parts(decider: Decider, told: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Decider, each checked."""
    arguments = decider._arguments
    contexts = Contexts(arguments.get("context"))
    contexts.resume(told["contexts"])
    offers = Offers.of_plain(told["offers"])
    ours = decider._offers
    if (offers.id_column, offers.ordered) != (ours.id_column, ours.ordered):
        raise ValueError("its offers are others")
    begun = arguments["offers"]
    first = ours.ids if begun is None else begun[offers.id_column]
    if offers.kinds != ours.kinds or offers.ids[: len(first)] != first:
        raise ValueError("its offers are others")
    history = History(len(contexts.names), decider._history.size)
    texts = [
        -1 if kind == NUMBER else len(listed)
        for kind, listed in zip(contexts.kinds, contexts.texts, strict=True)
    ]
    history.resume(_mine(KEPT, arrays), texts, len(offers))
    width = len(contexts.names) + 2
    ledger = Memory.of_arrays(_mine(LEDGER, arrays), width, "Decider", may_miss=True)
    for waiting in ledger.kept.values():
        *places, offer, chance = waiting.x.tolist()
        if not (offer in range(len(offers)) and (chance != chance or 0.0 < chance <= 1.0)):
            raise ValueError("a decision that waits is damaged")
        for place, most in zip(places, texts, strict=True):
            if most >= 0 and place == place and place not in range(-1, most):
                raise ValueError("a decision that waits is damaged")
            if most < 0 and abs(place) > GREATEST:
                raise ValueError("a decision that waits is damaged")
        if not np.isfinite(waiting.time):
            raise ValueError("a decision that waits is damaged")
    limits = Limits(arguments.get("limits") or {}, offers)
    limits.resume(told["limits"])
    closing = told["closing"]
    if closing is not None:
        age, reward = closing
        numbers = [age] if reward is None else [age, reward]
        if not all(isinstance(n, float) and np.isfinite(n) for n in numbers) or age < 0.0:
            raise ValueError("what closes decisions is damaged")
        closing = (age, reward)
    explore = told["explore"]
    if not isinstance(explore, float) or not 0.0 <= explore <= 1.0:
        raise ValueError("explore is damaged")
    return {
        "_contexts": contexts,
        "_offers": offers,
        "_rules": Rules(arguments.get("rules") or {}, offers, contexts),
        "_limits": limits,
        "_tokens": Tokens.of_plain(told["tokens"], ledger.made),
        "_counts": Counts.of_plain(told["counts"], len(offers)),
        "_history": history,
        "_ledger": ledger,
        "_oldest": -np.inf,
        "_closing": closing,
        "_explore": explore,
        "_model": _model(decider, told, arrays, offers, contexts),
    }


def _model(
    decider: Decider,
    told: dict[str, Any],
    arrays: dict[str, Any],
    offers: Offers,
    contexts: Contexts,
) -> Model:
    schema, (curves, pairs, doubted), (centre, scale) = told["schema"], told["shape"], told["range"]
    if not (type(centre) is type(scale) is float and np.isfinite(centre) and 0.0 < scale < np.inf):
        raise ValueError("the range of the forecasts is damaged")
    names = {*contexts.names, *offers.columns}
    if not names >= {*curves, *doubted, *itertools.chain.from_iterable(pairs)}:
        raise ValueError("its shape is of other columns")
    encoder = None if schema is None else _encoder(schema, offers, contexts)
    theirs = _mine(FORECAST, arrays)
    if (encoder is None) != (not theirs):
        raise ValueError("its forecast is missing")
    if encoder is not None and sum(array.size for array in theirs.values()) < encoder.dim**2:
        raise ValueError("its forecast is of another encoder")
    model = Model(
        offers,
        options=decider._options,
        encoder=encoder,
        shape=Shape(tuple(curves), tuple((a, b) for a, b in pairs), tuple(doubted)),
        centre=float(centre),
        scale=float(scale),
    )
    model.policy.restore(_mine(POLICY, arrays))
    if model.forecast is not None:
        model.forecast.restore(theirs)
    return model


def _encoder(schema: dict[str, Any], offers: Offers, contexts: Contexts) -> Encoder:
    """The encoder of a file; ValueError where it is of other columns, or of other kinds."""
    encoder = Encoder.from_schema(schema)
    kinds = {**offers.kinds, **dict(zip(contexts.names, contexts.kinds, strict=True))}
    kinds |= {offers.id_column: CATEGORY}
    parts = encoder.constructor_arguments()
    numbers = {name: NUMBER for name in parts.get("numbers") or {}}
    texts = {name: CATEGORY for part in ("categories", "hashed") for name in parts.get(part) or {}}
    if any(kinds.get(name) != kind for name, kind in (numbers | texts).items()):
        raise ValueError("its encoder is of other columns")
    if parts.get("maps") or not {*kinds} >= {*encoder.columns}:
        raise ValueError("its encoder is of other columns")
    return encoder


def _named(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: array for name, array in arrays.items()}


def _mine(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def plain_context(context: Any) -> Any:
    """The context's columns as an argument that can be saved."""
    if context is None or isinstance(context, list | tuple):
        return None if context is None else list(context)
    return {
        name: list(value) if isinstance(value, list | tuple) else _plain_kind(value)
        for name, value in context.items()
    }


def _plain_kind(value: Any) -> Any:
    if isinstance(value, Spline):
        knots = value.knots
        line = {"centre": value.centre, "scale": value.scale} if isinstance(knots, int) else {}
        return {"spline": knots if isinstance(knots, int) else list(knots), **line}
    return value


def plain_rules(rules: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Rules with ranges as dicts, which a file can hold."""
    return {
        offer: {
            name: {"from": test[0], "to": test[1]} if isinstance(test, tuple) else list(test)
            for name, test in conditions.items()
        }
        for offer, conditions in rules.items()
    }
