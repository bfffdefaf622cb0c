"""Names of columns and categories, and hashes: the same in every process and every version."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from heavytail._validate import shown
from heavytail.tables.categories import LONGEST

__all__ = ["Buckets", "Places", "check_name", "text_problem"]

SAME: Final = (("True", "true"), ("False", "false"))
REMEMBERED: Final = 2**15  # texts of a column, or of a cross
STEERING: Final = ("Cc", "Cs", "Zl", "Zp")  # kinds of character: control, half a pair, line breaks


def text_problem(text: str) -> str:
    """The reason why a text cannot be a name or a listed category; "" if it can."""
    if not text:
        return "is empty"
    if len(text) > LONGEST:
        return f"has {len(text)} characters, more than {LONGEST}"
    if not text.isprintable():
        for c in text:
            if unicodedata.category(c) in STEERING:
                return f"has the control character {c!a}"
    return ""


def check_name(where: str, name: object) -> str:
    """The name of a column, or a refusal."""
    if not isinstance(name, str):
        raise TypeError(f"{where}: the name of a column must be text; got {shown(name)}.")
    text = str.__str__(name)
    problem = text_problem(text)
    if problem:
        raise ValueError(f"{where}: the column name {shown(text)} {problem}. Rename the column.")
    return text


class Places(dict[Any, int]):
    """The place of each listed text, and ``unknown`` of any other: ``made[text]``.

    True is "True" where Python or a frame has it, and may be "true" in a CSV: where one of the two
    is listed, the other is the same category; likewise "False" and "false".
    """

    def __init__(self, listed: Sequence[str], unknown: int) -> None:
        super().__init__((text, place) for place, text in enumerate(listed))
        self.unknown = unknown
        for text, alike in (*SAME, *(pair[::-1] for pair in SAME)):
            if text in self and alike not in self:
                self[alike] = self[text]

    def __missing__(self, text: Any) -> int:
        return self.unknown

    def __reduce__(self) -> tuple[Any, ...]:
        return _places, (dict(self), self.unknown)


def _places(known: dict[str, int], unknown: int) -> Places:
    made = Places((), unknown)
    made.update(known)
    return made


class Buckets(dict[Any, int]):
    """The bucket, of ``size``, of a text, or of a tuple of texts, in these columns: ``made[text]``.

    blake2b over seed, names and texts, each with its length before it so that no two lists of
    texts are written alike; the first 64 bits modulo the number of buckets. -1 where a text is
    None. Recent results are cached: a hash takes 5 µs, a lookup 0.2, as measured.
    """

    def __init__(self, seed: int, columns: Sequence[str], size: int) -> None:
        super().__init__()
        self.arguments = (seed, tuple(columns), size)
        self.size = size
        self.prefix = b"".join(map(_written, (str(seed), *columns)))

    def __missing__(self, item: Any) -> int:
        texts = item if type(item) is tuple else (item,)
        if None in texts:
            return -1
        raw = self.prefix + b"".join(map(_written, texts))
        bucket = int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") % self.size
        if sum(map(len, texts)) <= LONGEST:
            if len(self) >= REMEMBERED:
                self.clear()
            self[item] = bucket
        return bucket

    def __reduce__(self) -> tuple[Any, ...]:
        return Buckets, self.arguments  # what is remembered is found again


def _written(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw).to_bytes(8, "big") + raw
