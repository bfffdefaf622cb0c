"""The schema of an encoder: columns, their kinds and sizes, checked once and put in one form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from heavytail._validate import Check, check_choice, check_count, check_number, shown
from heavytail.encoding.curves import Line, Spline, curve, plain_curve
from heavytail.encoding.maps import Map, map_of
from heavytail.encoding.text import check_name, text_problem
from heavytail.tables.categories import key

__all__ = [
    "INDICATOR",
    "MOST_CATEGORIES",
    "MOST_FEATURES",
    "REFUSE",
    "Cross",
    "Schema",
    "category_problem",
]

MOST_CATEGORIES: Final = 10_000  # of one column that are listed; more are to be hashed
MOST_FEATURES: Final = 2**16  # a policy's state has the square of them
REFUSE, CENTRE, INDICATOR = "refuse", "centre", "indicator"
WAYS: Final = (REFUSE, CENTRE, INDICATOR)
LISTS: Final = list | tuple | set | frozenset | np.ndarray


@dataclass(frozen=True)
class Cross:
    """A product of columns: of all pairs of their features, or hashed to so many buckets."""

    columns: tuple[str, ...]
    buckets: int | None

    @property
    def name(self) -> str:
        """The name of its share and of its features."""
        return "*".join(self.columns)

    def plain(self) -> list[Any]:
        """The cross as an argument."""
        return [*self.columns] if self.buckets is None else [*self.columns, self.buckets]


@dataclass(frozen=True)
class Schema:
    """The arguments of an encoder in one form: columns in order of name, None for what a fit is
    to learn.
    """

    numbers: dict[str, Line | Spline | None]
    categories: dict[str, tuple[str, ...] | None]
    hashed: dict[str, int]  # buckets
    maps: dict[str, Map]
    crosses: tuple[Cross, ...]
    shares: dict[str, float]
    missing: dict[str, str]  # of each column of numbers, of maps too
    bound: float
    clip: float
    other: bool
    strict: bool
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """All that a row must have, in order of name."""
        crossed = {name for cross in self.crosses for name in cross.columns} - {*self.maps}
        return tuple(sorted({*self.missing, *self.categories, *self.hashed, *crossed}))

    @property
    def sampled(self) -> list[str]:
        """Columns of numbers of which something is to be learned, those of maps last."""
        known = {
            name: stated is not None and (not isinstance(stated, Spline) or stated.is_stated)
            for name, stated in self.numbers.items()
        }
        mapped = {
            column
            for made in self.maps.values()
            if not made.is_stated(known)
            for column in made.columns
        }
        own = [name for name, stated in known.items() if not stated]
        return [*own, *sorted(mapped - {*own})]

    @property
    def is_stated(self) -> bool:
        """Tell whether nothing is to be learned."""
        return not self.sampled and None not in self.categories.values()

    def refuse_unknown(self, names: Iterable[object], where: str) -> None:
        """Refuse columns that the schema does not name."""
        unknown = sorted(map(str, set(names) - set(self.columns)))
        if unknown:
            raise ValueError(
                f"{where}: the schema does not name the column {shown(unknown[0])}. Leave it out, "
                "name it, or pass strict=False to ignore it."
            )

    def plain(self) -> dict[str, Any]:
        """As the encoder's arguments, of what JSON has: dicts, lists, text, numbers, flags.

        An encoder without maps says nothing of them, as before there were any.
        """
        arguments = self.arguments()
        for name, made in arguments.get("maps", {}).items():
            arguments["maps"][name] = made.plain()
        return arguments

    def arguments(self) -> dict[str, Any]:
        """The same, with maps as they are."""
        maps = {"maps": dict(self.maps)} if self.maps else {}
        return {
            "numbers": {name: plain_curve(stated) for name, stated in self.numbers.items()},
            "categories": {
                name: listed and list(listed) for name, listed in self.categories.items()
            },
            "hashed": dict(self.hashed),
            **maps,
            "crosses": [cross.plain() for cross in self.crosses],
            "shares": dict(self.shares),
            "missing": dict(self.missing),
            "bound": self.bound,
            "clip": self.clip,
            "other": self.other,
            "strict": self.strict,
            "seed": self.seed,
        }

    @classmethod
    def read(cls, owner: str, arguments: Mapping[str, Any]) -> Schema:
        """From the arguments as given, every one of them checked."""
        check, where = Check(owner), f"{owner}."
        numbers = {
            name: curve(f"{where}numbers[{name!r}]", value)
            for name, value in _named(f"{where}numbers", arguments["numbers"])
        }
        categories = {
            name: _listed(f"{where}categories[{name!r}]", name, value)
            for name, value in _named(f"{where}categories", arguments["categories"])
        }
        hashed = {
            name: check_count(
                f"{where}hashed[{name!r}]", value, most=MOST_FEATURES, hint="Buckets per column."
            )
            for name, value in _named(f"{where}hashed", arguments["hashed"], sized=True)
        }
        maps = {
            name: map_of(f"{where}maps[{name!r}]", value)
            for name, value in _named(f"{where}maps", arguments["maps"], mapped=True)
        }
        _refuse_twice(owner, [*numbers, *categories, *hashed, *maps])
        crosses = _crosses(
            f"{where}crosses", arguments["crosses"], {*numbers, *categories, *hashed, *maps}
        )
        if not (numbers or categories or hashed or crosses or maps):
            raise ValueError(
                f"{owner} needs a column: pass numbers=, categories=, hashed=, crosses= or maps=."
            )
        mapped = {column for made in maps.values() for column in made.columns}
        texts = {*categories, *hashed, *(name for cross in crosses for name in cross.columns)}
        _refuse_kinds(f"{where}maps", mapped, texts - {*numbers, *maps}, {*maps})
        blocks = [*numbers, *categories, *hashed, *maps, *(cross.name for cross in crosses)]
        _refuse_twice(owner, blocks)  # a column may be called as a cross is
        return cls(
            numbers=dict(sorted(numbers.items())),
            categories=dict(sorted(categories.items())),
            hashed=dict(sorted(hashed.items())),
            maps=dict(sorted(maps.items())),
            crosses=crosses,
            shares=_shares(f"{where}shares", arguments["shares"], blocks),
            missing=_missing(f"{where}missing", arguments["missing"], sorted({*numbers, *mapped})),
            bound=check.number("bound", arguments["bound"], above=0.0),
            clip=check.number("clip", arguments["clip"], above=0.0),
            other=check.flag("other", arguments["other"]),
            strict=check.flag("strict", arguments["strict"]),
            seed=check.seed(arguments["seed"]),
        )


def category_problem(name: str, count: int) -> str:
    """The sentence for too many categories of a column; "" if they are not."""
    if count <= MOST_CATEGORIES:
        return ""
    return (
        f"column {name!r} has {count} categories, more than {MOST_CATEGORIES}. Hash it instead: "
        f"hashed={{{name!r}: 256}}."
    )


def _named(
    where: str, given: object, *, sized: bool = False, mapped: bool = False
) -> list[tuple[str, Any]]:
    """Names and their settings, from a list of names or a dict; what is ``sized`` or ``mapped``
    must be a dict.
    """
    if given is None:
        return []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, LISTS) and not ((sized or mapped) and len(given)):
        pairs = [(name, None) for name in given]
    else:
        do = '{"sku": 64}, buckets by name' if sized else '["age", "price"], a list of names'
        do = '{"shape": Fourier(["basket", "hour"])}, maps by name' if mapped else do
        raise TypeError(f"{where} must be such as {do}; got {shown(given)}.")
    names = [check_name(where, name) for name, _ in pairs]
    _refuse_twice(where, names)
    return list(zip(names, (value for _, value in pairs), strict=True))


def _refuse_twice(where: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where}: the column {name!r} is listed twice. List it once.")
        seen.add(name)


def _refuse_kinds(where: str, mapped: set[str], texts: set[str], maps: set[str]) -> None:
    """Refuse a map of a column that is text, or whose name is a map's."""
    for name in sorted(mapped & (texts | maps)):
        what = "a map" if name in maps else "a column of texts elsewhere"
        raise ValueError(
            f"{where} takes the numbers of {name!r}, which is {what}. List it under numbers, or "
            "rename one of them."
        )


def _listed(where: str, name: str, given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    if not isinstance(given, LISTS) or len(given) == 0:
        raise TypeError(
            f"{where} must list categories, or be None to learn them; got {shown(given)}."
        )
    problem = category_problem(name, len(given))
    if problem:
        raise ValueError(f"{where}: {problem}")
    texts: list[str] = []
    for value in sorted(given, key=repr) if isinstance(given, set | frozenset) else given:
        try:
            text = key(value)
        except TypeError as error:
            raise TypeError(f"{where} must list texts or numbers; got {error}.") from None
        problem = "is missing" if text is None else text_problem(text)
        if text is None or problem:
            raise ValueError(f"{where}: the category {shown(value)} {problem}. Leave it out.")
        texts.append(text)
    if len(set(texts)) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise ValueError(f"{where}: the category {twice!r} is listed twice (1 and '1' are one).")
    return tuple(texts)


def _crosses(where: str, given: object, known: set[str]) -> tuple[Cross, ...]:
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise TypeError(
            f'{where} must be a list such as [("segment", "product")]; got {shown(given)}.'
        )
    crosses = [_cross(f"{where}[{i}]", columns, known) for i, columns in enumerate(given)]
    _refuse_twice(where, [cross.name for cross in crosses])
    return tuple(sorted(crosses, key=lambda cross: cross.columns))


def _cross(where: str, given: object, known: set[str]) -> Cross:
    if not isinstance(given, list | tuple):
        raise TypeError(
            f'{where} must be such as ("segment", "product"), or ("segment", "sku", 256) to hash; '
            f"got {shown(given)}."
        )
    columns, buckets = list(given), None
    if columns and not isinstance(columns[-1], str):
        buckets = check_count(f"{where}: buckets", columns.pop(), most=MOST_FEATURES)
    names = [check_name(where, name) for name in columns]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"{where} must name two columns or more, each once; got {shown(given)}.")
    for name in names:
        if name not in known and buckets is None:
            raise ValueError(
                f"{where}: the column {name!r} is in neither numbers, categories, hashed nor maps. "
                f"List it there, or hash the cross: {(*names, 256)!r}."
            )
    return Cross(tuple(sorted(names)), buckets)


def _shares(where: str, given: object, blocks: list[str]) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f'{where} must be such as {{"price": 2.0}}; got {shown(given)}.')
    alike = {"*".join(sorted(name.split("*"))): name for name in blocks}
    shares = {}
    for name, value in given.items():
        name = alike.get("*".join(sorted(str(name).split("*"))), name)
        if name not in blocks:
            raise ValueError(f"{where} names {shown(name)}, which is none of {shown(blocks)}.")
        shares[name] = check_number(f"{where}[{name!r}]", value, least=1e-6, most=1e6)
    return dict(sorted(shares.items()))


def _missing(where: str, given: object, numbers: list[str]) -> dict[str, str]:
    if not isinstance(given, Mapping):
        way = check_choice(where, given, WAYS)
        return dict.fromkeys(numbers, way)
    unknown = [name for name in given if name not in numbers]
    if unknown:
        raise ValueError(f"{where} names {shown(unknown[0])}, which is not in numbers.")
    ways = {name: check_choice(f"{where}[{name!r}]", way, WAYS) for name, way in given.items()}
    return {name: ways.get(name, REFUSE) for name in numbers}
