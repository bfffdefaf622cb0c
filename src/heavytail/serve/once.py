"""Objects that have a key twice, of which readers of JSON keep the last one without a word.

A body has at least as many colons as its objects have keys, and what was read has as many as are
different: where both are equal, no key came twice. Otherwise colons stand in strings, or one did,
and a slower reader looks.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from heavytail.ledger.refusal import Refusal

__all__ = ["check_once"]

_untyped = msgspec.json.Decoder()


def check_once(body: bytes) -> None:
    """Refuse JSON, which could be read, that has a key of an object twice."""
    try:
        if body.count(b":") == _keys(_untyped.decode(body)):
            return
    except (msgspec.DecodeError, RecursionError):
        pass  # a number that only a field can take, or a depth that the slower reader may
    try:
        json.loads(body, object_pairs_hook=_object, parse_int=str, parse_float=str)
    except RecursionError:
        raise Refusal(400, "bad_json", "The body is too deep.") from None


def _keys(read: Any) -> int:
    """Count the keys of objects; of lists those are looked into that begin with an object, so
    that arms cost nothing: fewer keys than there are lead to the slower reader.
    """
    count, waiting = 0, [read]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            count += len(one)
            waiting += one.values()
        elif type(one) is list and one and type(one[0]) is dict:
            waiting += one
    return count


def _object(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            message = f"The body has the key {key[:100]!r} twice. Send it once."
            raise Refusal(400, "twice", message, key[:100])
        seen.add(key)
