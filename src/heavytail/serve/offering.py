"""The offers of a model, changed while it serves."""

from __future__ import annotations

import functools
from typing import Any

from heavytail._validate import GREATEST
from heavytail.ledger.offers import packed
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.transaction import Transaction
from heavytail.serve.apart import apart
from heavytail.serve.decider_model import DeciderModel
from heavytail.serve.model import Model, said
from heavytail.serve.service import Service
from heavytail.serve.wire import Offers, OffersView

__all__ = ["check_offers", "write_offers"]

LEARNS = 30.0  # seconds that a change of a Decider's offers may take, before it is answered anyhow
TRIES = 5  # of a change, where others change the offers at the same time


async def write_offers(
    service: Service, name: str, wanted: Offers, who: str, *, whole: bool
) -> OffersView:
    """Change the offers of a model to these; those not listed stay unless ``whole``."""
    model = await service.live.current(name)
    if model.row.follows is not None:
        raise Refusal(409, "shadow", "A shadow has the offers of the model that it follows.")
    for _ in range(TRIES):
        if isinstance(model, DeciderModel):
            written = await _change_decider(service, model, wanted, who, whole)
        else:
            written = await _write_catalogue(service, model, wanted, who, whole)
        if written:
            break
        await service.live.refresh()
        model = _again(service, model)
    else:
        raise Refusal(409, "changed", "Others change the offers at the same time. Try again.")
    return _again(service, model).offers_view()


def _again(service: Service, model: Model) -> Model:
    """A model as it is loaded now."""
    return service.live.numbered(model.row.id) or model


async def _change_decider(
    service: Service, model: DeciderModel, wanted: Offers, who: str, whole: bool
) -> bool:
    """Log a change of a Decider's offers among its outcomes, and wait until it is learned; False
    if another change was first.
    """
    offers: dict[str, Any] = dict(wanted.offers)
    version, change = await model.turn(
        "change", 1, lambda: (model.version, model.changed(offers, whole=whole))
    )
    if change is None:
        return True

    def work(tx: Transaction) -> int:
        tx.last(model.row.id)
        if tx.changed(model.row.id, version):
            return 0
        tx.audit(who, f"offers {model.row.name}")
        return tx.change(model.row.id, change)

    last = await service.commits.do(work, model=model.row.id)
    await service.live.learned(model, last, LEARNS)
    return last > 0


async def _write_catalogue(
    service: Service, model: Model, wanted: Offers, who: str, whole: bool
) -> bool:
    """Write a new catalogue of the model and its shadows after the one that the model has; False if
    another was first.
    """
    before = model.table
    offers = {} if before is None or whole else dict(before.offers)
    for name, features in wanted.offers.items():
        if features is None:
            if name not in offers and (before is None or name not in before.offers):
                raise Refusal(422, "bad_offers", "No offer has this id.", f"offers.{name}")
            offers.pop(name, None)
        else:
            offers[name] = features
    if not offers:
        raise Refusal(422, "bad_offers", "At least one offer must be left.", "offers")
    if len(offers) > service.limits.arms:
        raise Refusal(413, "too_many_arms", f"At most {service.limits.arms} offers.", "offers")
    if before is not None and offers == before.offers and [*offers] == before.ids:
        return True
    await apart(functools.partial(check_offers, model, offers))
    number = 0 if before is None else before.number
    for shadow in service.live.shadows(model):
        try:
            await apart(functools.partial(check_offers, shadow, offers))
        except Refusal as refusal:
            message = f"The shadow {shadow.row.name!r} cannot have these offers: {refusal.message}"
            raise Refusal(422, "bad_offers", message, refusal.field) from None

    def work(tx: Transaction) -> bool:
        tx.last(model.row.id)  # nobody else changes them until the commit
        row = tx.store.model(model.row.id)
        if row is None:
            raise Refusal(404, "no_model", "There is no model with this name.")
        if (row.catalogue or 0) != number:
            return False
        content = packed(offers)
        for each in tx.store.model_rows("WHERE id = ? OR follows = ?", row.id, row.id):
            tx.write_catalogue(each.id, content)
        tx.audit(who, f"offers {row.name}")
        return True

    written: bool = await service.commits.do(work, model=model.row.id)
    if written:
        await service.live.refresh()
    return written


def check_offers(model: Model, offers: dict[str, Any]) -> None:
    """Refuse offers that the model cannot choose among."""
    for name, features in offers.items():
        values = features.values() if isinstance(features, dict) else features
        for value in values:
            if isinstance(value, int | float) and abs(value) > GREATEST:
                message = f"A number must be at most {GREATEST:g} in absolute value."
                raise Refusal(422, "bad_offers", message, f"offers.{name}")
    try:
        table = model.table_of(0, offers)
        if table.columns() is None:
            model.policy.clone().select(table.vectors({}))
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal(422, "bad_offers", said(error), "offers") from None
