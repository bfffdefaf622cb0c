"""Models from others: forks, uploaded files that learn a model's log, and the promotion of one to
another's name.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from heavytail._load import from_bytes
from heavytail.decider import Decider
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.offers import packed
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Transaction
from heavytail.policies.core.policy import Policy
from heavytail.serve.apart import apart
from heavytail.serve.decider_model import adopt, model_of, spec_of
from heavytail.serve.keeping import FORKED
from heavytail.serve.live import reads_alike
from heavytail.serve.model import Model, said
from heavytail.serve.service import Service, check_model, check_name, encoded_spec
from heavytail.serve.wire import DECIDER, Fork, ModelSpec, ModelView

__all__ = ["fork", "promote", "upload"]

LEFT = ("policy", "options", "dim", "encoder")  # fields of a fork that make it learn the log anew


async def upload(
    service: Service, name: str, content: bytes, learn: str | None, who: str
) -> tuple[bool, ModelView]:
    """Begin a model with the file of a saved Decider or policy, and let it learn the log of the
    model ``learn``; the same file again changes nothing. Returns (created, view).
    """
    check_name(name)
    spec = await apart(functools.partial(_spec_of_file, content, service.limits.dim))
    if learn is not None:
        _check_offers(await service.live.find(learn), spec)
    new, row = await service.commits.do(
        lambda tx: adopt(
            tx, name, content, spec, service.limits.models, "an uploaded file", who, learn
        ),
        size=len(content),
    )
    if new or name not in service.models:
        await service.live.open(row)
    return new, await service.describe(name)


def _spec_of_file(content: bytes, most: int) -> ModelSpec:
    """The specification of an uploaded model; refuses what cannot be served."""
    try:
        saved = from_bytes(content, name="the file")
        if not isinstance(saved, Decider | Policy):
            kind = type(saved).__name__
            raise ValueError(f"the file contains {kind}; it must be a Decider or a policy.")
        spec = spec_of(saved, content, "the file")
        row = ModelRow(0, "", encoded_spec(spec), 0.0, False, 0, 0, 0, b"", None, 0)
        model = model_of(row, (0, content))
        if model.dim > most:
            raise ValueError(f"the file has {model.dim} features; at most {most} are served.")
        model.warm()
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(422, "bad_file", said(error)) from None
    return spec


async def fork(service: Service, name: str, wanted: Fork, who: str) -> ModelView:
    """Create a model from another: a copy or a shadow of it; or, with other settings, a model that
    learns its log anew in the background.
    """
    model = await service.live.find(name)
    check_name(wanted.name)
    if wanted.name in service.models:
        raise Refusal(409, "another_model", "Another model has this name.", "name")
    changes = {field: value for field in LEFT if (value := getattr(wanted, field)) is not None}
    row = await (_relearned if changes else _copied)(service, model, wanted, changes, who)
    await service.live.open(row)
    return await service.describe(wanted.name)


async def _copied(
    service: Service, model: Model, wanted: Fork, changes: dict[str, Any], who: str
) -> ModelRow:
    version, data = await service.kept(model)
    source = model.row.id if model.row.follows is None else model.row.follows

    def work(tx: Transaction) -> ModelRow:
        _check_new(tx, service, wanted.name)
        tx.check_there(source)
        follows, since = (source, version) if wanted.shadow else (None, 0)
        row = tx.create(wanted.name, encoded_spec(model.spec), follows=follows, since=since)
        tx.snapshot(row.id, since, data, FORKED + model.row.name)
        if model.table is not None:
            tx.write_catalogue(row.id, packed(model.table.offers))
        tx.audit(who, f"fork {model.row.name} {wanted.name}")
        return row

    row: ModelRow = await service.commits.do(work, size=len(data))
    return row


async def _relearned(
    service: Service, model: Model, wanted: Fork, changes: dict[str, Any], who: str
) -> ModelRow:
    if model.spec.policy == DECIDER and wanted.policy in (None, DECIDER):
        message = (
            "A Decider with other columns or options is built in Python: upload its file with "
            f"PUT /v1/models/{wanted.name}?learn={model.row.name}."
        )
        raise Refusal(422, "bad_policy", message, "policy")
    if "policy" in changes:
        changes = {"options": {}, **changes}
    if "encoder" in changes:
        changes = {"dim": None, **changes}
    spec = msgspec.structs.replace(model.spec, **changes, file=None)
    await apart(functools.partial(check_model, spec, service.limits.dim))
    _check_offers(model, spec)

    def work(tx: Transaction) -> ModelRow:
        _check_new(tx, service, wanted.name)
        source, last = tx.learnable(model.row.name)
        spec_json = encoded_spec(spec)
        if wanted.shadow:
            row = tx.create(wanted.name, spec_json, follows=source)
        else:
            row = tx.create(wanted.name, spec_json, since=last, origin=source)
        offers = model.offers_view().offers
        if offers:
            tx.write_catalogue(row.id, packed(offers))
        tx.audit(who, f"fork {model.row.name} {wanted.name}")
        return row

    row: ModelRow = await service.commits.do(work)
    return row


def _check_offers(source: Model, spec: ModelSpec) -> None:
    """Refuse to encode a log anew whose offers the service does not know."""
    if spec.policy == DECIDER or reads_alike(spec, source.spec) or source.offers_view().offers:
        return
    message = (
        "The log has the contexts and the ids of the offers, not their features. State these "
        f"first: PUT /v1/models/{source.row.name}/offers."
    )
    raise Refusal(409, "no_offers", message)


def _check_new(tx: Transaction, service: Service, name: str) -> None:
    if tx.model(name) is not None:
        raise Refusal(409, "another_model", "Another model has this name.", "name")
    tx.check_room(service.limits.models)


async def promote(service: Service, name: str, other: str, who: str) -> ModelView:
    """Let two models change their names in one commit. A shadow that is promoted has its own log
    from then on.
    """
    first, second = await service.live.find(name), await service.live.find(other)
    if first is second:
        raise Refusal(422, "same_model", "A model cannot take over its own name.", "model")
    if second.unready:
        message = f"Model {other!r} has not learned the log yet. Wait for it."
        raise Refusal(409, "learning", message, "model")
    if first.row.follows is not None:
        message = f"Model {name!r} is a shadow. Promote it in the name that makes the decisions."
        raise Refusal(409, "shadow", message)

    def work(tx: Transaction) -> None:
        for number in sorted((first.row.id, second.row.id)):
            tx.last(number)  # nobody else promotes until the commit
        rows = tx.model(name), tx.model(other)
        if [row and row.id for row in rows] != [first.row.id, second.row.id]:
            raise Refusal(409, "changed", "The models were renamed or deleted meanwhile.")
        if name in tx.store.splits() or other in tx.store.splits():
            message = f"The name is split. Remove the split first: DELETE /v1/models/{name}/split."
            raise Refusal(409, "has_split", message)
        old, new = rows
        assert old is not None
        assert new is not None
        if new.follows is not None:
            tx.detach(new)
        tx.swap_names(old, new)
        tx.audit(who, f"promote {other} to {name}")

    await service.commits.do(work)
    await service.live.renamed(first, second)
    return await service.describe(name)
