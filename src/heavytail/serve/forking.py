"""Models from others: forks, uploaded files that learn a model's log, and the promotion of one to
another's name.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from typing import Any

import msgspec

from heavytail._load import from_bytes
from heavytail.decider import Decider
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.offers import packed
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.transaction import Transaction
from heavytail.policies.core.policy import Policy
from heavytail.serve.apart import apart
from heavytail.serve.decider_model import adopt, model_of, spec_of
from heavytail.serve.entries import USED
from heavytail.serve.keeping import FORKED
from heavytail.serve.live import reads_alike
from heavytail.serve.model import READY, Model, said
from heavytail.serve.offering import check_offers
from heavytail.serve.service import Service, check_model, check_name, encoded_spec
from heavytail.serve.splits import write_swaps
from heavytail.serve.wire import DECIDER, Fork, ModelSpec, ModelView

__all__ = ["fork", "promote", "upload"]

ASKED = ": request "  # before the digest of an idempotency key, in the audit log
ANEW = ("policy", "options", "encoder")  # fields of a fork that make it learn the log anew


async def upload(
    service: Service, name: str, content: bytes, learn: str | None, who: str
) -> tuple[bool, ModelView]:
    """Begin a model with the file of a saved Decider or policy, and let it learn the log of the
    model ``learn``; the same file again changes nothing. Returns (created, view).
    """
    check_name(name)
    model = await apart(functools.partial(_model_of_file, content, service.limits.dim))
    offers: dict[str, Any] = {}
    if learn is not None:
        source = await _found(service, learn, "learn")
        offers = await apart(functools.partial(_inherited, source, model))

    def work(tx: Transaction) -> tuple[bool, ModelRow]:
        most, note = service.limits.models, "an uploaded file"
        new, row = adopt(tx, name, content, model.spec, most, note, who, learn)
        if new and offers:
            tx.write_catalogue(row.id, packed(offers))
        return new, row

    new, row = await service.commits.do(work, size=len(content))
    if new or name not in service.models:
        await service.live.open(row)
    return new, await service.describe(name)


def _model_of_file(content: bytes, most: int) -> Model:
    """An uploaded model, which is in no store yet; refuses what cannot be served."""
    try:
        saved = from_bytes(content, name="the file")
        if not isinstance(saved, Decider | Policy):
            kind = type(saved).__name__
            raise ValueError(f"the file contains {kind}; it must be a Decider or a policy.")
        model = _unstored(spec_of(saved, content, "the file"), content)
        if model.dim > most:
            raise ValueError(f"the file has {model.dim} features; at most {most} are served.")
        model.warm()
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(422, "bad_file", said(error)) from None
    return model


def _unstored(spec: ModelSpec, content: bytes | None = None) -> Model:
    """A model of a specification that is in no store, from a file or anew."""
    row = ModelRow(0, "", encoded_spec(spec), 0.0, False, 0, 0, 0, b"", None, 0)
    return model_of(row, None if content is None else (0, content))


async def _found(service: Service, name: str, field: str) -> Model:
    """The model that a field of the request names."""
    try:
        return await service.live.current(name)
    except Refusal as refusal:
        raise refusal.at(field) from None


async def fork(service: Service, name: str, wanted: Fork, who: str) -> ModelView:
    """Create a model from another: a copy or a shadow of it; or, with other settings, a model that
    learns its log anew in the background.
    """
    model = await service.live.current(name)
    check_name(wanted.name)
    if wanted.name in service.models:
        raise Refusal(409, "another_model", "Another model has this name.", "name")
    changes = {field: value for field in ANEW if (value := getattr(wanted, field)) is not None}
    row = await (_relearned if changes else _copied)(service, model, wanted, changes, who)
    await service.live.open(row)
    return await service.describe(wanted.name)


async def _copied(
    service: Service, model: Model, wanted: Fork, changes: dict[str, Any], who: str
) -> ModelRow:
    if model.behind_origin:
        message = f"Model {model.row.name!r} has not learned the log yet. Wait for it."
        raise Refusal(409, "learning", message)
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
        changes["dim"] = None
    spec = msgspec.structs.replace(model.spec, **changes, file=None)
    await apart(functools.partial(check_model, spec, service.limits.dim))
    offers = await apart(lambda: _inherited(model, _unstored(spec)))

    def work(tx: Transaction) -> ModelRow:
        _check_new(tx, service, wanted.name)
        source, last = tx.learnable(model.row.name)
        spec_json = encoded_spec(spec)
        if wanted.shadow:
            row = tx.create(wanted.name, spec_json, follows=source)
        else:
            row = tx.create(wanted.name, spec_json, since=last, origin=source)
        if offers:
            tx.write_catalogue(row.id, packed(offers))
        tx.audit(who, f"fork {model.row.name} {wanted.name}")
        return row

    row: ModelRow = await service.commits.do(work)
    return row


def _inherited(source: Model, model: Model) -> dict[str, Any]:
    """The offers that a model takes over from the one whose log it learns; refuses offers that it
    cannot have, and to encode a log anew whose offers the service does not know.
    """
    if model.spec.policy == DECIDER:
        return {}
    offers: dict[str, Any] = source.offers_view().offers
    if offers:
        try:
            check_offers(model, offers)
        except Refusal as refusal:
            message = f"The offers of {source.row.name!r} do not fit the new model: "
            raise Refusal(422, "bad_offers", message + refusal.message) from None
    elif not reads_alike(model.spec, source.spec):
        message = (
            "The log has the contexts and the ids of the offers, not their features. State these "
            f"first: PUT /v1/models/{source.row.name}/offers."
        )
        raise Refusal(409, "no_offers", message)
    return offers


def _check_new(tx: Transaction, service: Service, name: str) -> None:
    if tx.model(name) is not None:
        raise Refusal(409, "another_model", "Another model has this name.", "name")
    tx.check_room(service.limits.models)


def _exchangeable(first: Model, second: Model) -> bool:
    """Whether requests to one model may go to the other. A model that has offers never loses all of
    them, so a promotion can always be undone.
    """
    if first.reads == second.reads and (first.reads != "vectors" or first.dim == second.dim):
        return True
    vectors = "vectors" in (first.reads, second.reads) and first.reads != second.reads
    return not vectors and all(
        each.table is not None or each.reads == "context" for each in (first, second)
    )


async def promote(
    service: Service, name: str, other: str, who: str, request: str = ""
) -> ModelView:
    """Let two models change their names in one commit. A shadow that is promoted has its own log
    from then on. A repeated ``request``, the client's idempotency key, changes nothing.
    """
    line = f"promote {other} to {name}"
    key = hashlib.blake2b(request.encode(), digest_size=16).hexdigest() if request else ""
    if await service.commits.do(lambda tx: _is_done(tx, line, key)):
        await service.live.refresh()
        return await service.describe(name)
    first, second = await service.live.current(name), await _found(service, other, "model")
    if first is second:
        raise Refusal(422, "same_model", "A model cannot take over its own name.", "model")
    if not _exchangeable(first, second):
        message = (
            f"{other!r} needs other requests than {name!r}: the clients' next calls would be "
            "refused. Let them ask for it by its own name."
        )
        raise Refusal(409, "other_requests", message, "model")
    if first.row.follows is not None:
        message = f"Model {name!r} is a shadow. Promote it in the name that makes the decisions."
        raise Refusal(409, "shadow", message)
    if second.row.follows is not None:  # so that other processes need not learn its log again
        with contextlib.suppress(Refusal):
            await service.snapshot(other, "")

    def work(tx: Transaction) -> None:
        for number in sorted((first.row.id, second.row.id)):
            tx.last(number)  # nobody else promotes until the commit
        if _is_done(tx, line, key):
            return
        rows = tx.model(name), tx.model(other)
        if [row and row.id for row in rows] != [first.row.id, second.row.id]:
            raise Refusal(409, "changed", "The models were renamed or deleted meanwhile.")
        if name in tx.store.splits() or other in tx.store.splits():
            message = f"The name is split. Remove the split first: DELETE /v1/models/{name}/split."
            raise Refusal(409, "has_split", message)
        old, new = rows
        assert old is not None
        assert new is not None
        behind = new.since if new.follows is None else tx.last(new.follows)
        if second.unready or second.version < READY * behind:
            message = f"Model {other!r} has not learned the log yet. Wait for it."
            raise Refusal(409, "learning", message, "model")
        if new.follows is not None:
            tx.detach(new)
        tx.swap_names(old, new)
        write_swaps(tx, (old.id, new.id))
        tx.audit(who, f"{line}{ASKED}{key}" if key else line)

    await service.commits.do(work)
    await service.live.refresh()
    return await service.describe(name)


def _is_done(tx: Transaction, line: str, key: str) -> bool:
    """Tell whether a promotion was done for an idempotency key, which the audit log has; refuse a
    key that another promotion had.
    """
    if not key:
        return False
    lines = tx.rows("SELECT what FROM audit WHERE what LIKE ?", f"promote %{ASKED}{key}")
    if lines and lines[0][0] != f"{line}{ASKED}{key}":
        raise Refusal(409, "key_used", USED)
    return bool(lines)
