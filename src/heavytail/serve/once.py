"""Detection of duplicate keys in JSON objects; parsers silently keep the last one.

A body has at least as many colons as its objects have keys, and the parsed value has only distinct
keys. If both counts are equal, no key is duplicate. Otherwise a string contains a colon or a key is
duplicate, and a slower parser finds out which.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from heavytail.ledger.refusal import Refusal

__all__ = ["check_once"]

_untyped = msgspec.json.Decoder()


def check_once(body: bytes) -> None:
    """Refuse valid JSON with a duplicate key in an object."""
    try:
        if body.count(b":") == _keys(_untyped.decode(body)):
            return
    except (msgspec.DecodeError, RecursionError):
        pass  # a number that only a field can take, or a depth that the slower reader may
    try:
        json.loads(body, object_pairs_hook=_object, parse_int=str, parse_float=str)
    except RecursionError:
        raise Refusal(400, "bad_json", "The body is nested too deeply.") from None


def _keys(read: object) -> int:
    """Count the keys of objects. Only lists that begin with an object are searched, so that arms
    cost nothing; a count that is too low only leads to the slower reader.
    """
    count, waiting = 0, [read]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            waiting += value.values()
        elif type(value) is list and value and type(value[0]) is dict:
            waiting += value
    return count


def _object(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            message = f"The body has the key {key[:100]!r} twice. Send it once."
            raise Refusal(400, "twice", message, key[:100])
        seen.add(key)
