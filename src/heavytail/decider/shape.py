"""The shape of what rewards depend on: which numbers need a curve, and which columns act together.

Straight lines come first. A curve, or a product of two columns, is added where it explains what
the lines leave, beyond chance: forward selection by Rao's score test
of :func:`heavytail.encoding.fit.score_test`, with B made orthogonal to the lines and v the variance
of residuals for each offer. Rewards are cut at their outermost half per cent first, so that
outliers do not decide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import GREATEST, LEAST
from heavytail.decider.contexts import CATEGORY, NUMBER, Contexts
from heavytail.decider.offers import Offers
from heavytail.encoding import Encoder, Spline
from heavytail.encoding.fit import score_test

__all__ = ["FEW_OFFERS", "Shape", "encoder_for", "joined", "learn_shape"]

KNOTS: Final = 5
PRICES: Final = 10  # knots along a grid of prices
FEW_OFFERS: Final = 30  # each of which has effects of its own in every context
FEW_TEXTS: Final = 50  # categories that are listed; more are hashed
BUCKETS: Final = 64
MOST_FEATURES: Final = 600
MOST_WIDE: Final = 1024  # features of an encoder, whatever its columns
MOST_TOLD: Final = 256  # offers that are told apart when shapes are looked for
MOST_LAID: Final = 8192  # features of products that are looked at
LEVEL: Final = 0.01  # of all tests of a step together
HUBER: Final = 2.0  # typical residuals at which they are cut ...
STEPS: Final = 8  # ... by so many steps
NORMAL: Final = 1.4826022185056018  # median |r| to standard deviation, of normal ones
CUT: Final = 0.005  # of the rewards, on each side
LEAST_CUT: Final = 3
MOST_ROWS: Final = 8192  # that are looked at
MOST_SHARE: Final = 0.4  # of the rows, that there may be features
MOST_PAIRED: Final = 20  # columns that are looked at in pairs
LEAST_ROWS: Final = 100
CURVED: Final = 0.3  # the share of a curve or a product, beside 1 of a straight line
DOUBTED: Final = 0.02  # the share of a column that has shown nothing by offer ...
DOUBT: Final = 0.05  # ... at this level
ROUNDING: Final = 1e-9  # of the largest eigenvalue


Blocks = dict[tuple[str, ...], FloatArray]  # features of candidates, by their columns


class Shape(NamedTuple):
    """The departures from straight lines: columns with a curve, and pairs that act together.
    Columns that are ``doubted`` have shown no effect yet.
    """

    curves: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    doubted: tuple[str, ...] = ()


def encoder_for(
    contexts: Contexts, offers: Offers, raw: FloatArray, shape: Shape
) -> Encoder | None:
    """The encoder of a shape, fitted to contexts (n, columns) and the table of offers; None where
    nothing is known that could be encoded.
    """
    numbers: dict[str, Any] = {}
    categories: dict[str, Any] = {}
    hashed: dict[str, int] = {}
    missing: dict[str, str] = {}
    own = [name for name in offers.columns if _varies(offers.columns[name])]
    for name in own:
        if offers.kinds[name] == NUMBER:
            numbers[name] = _line(contexts, name, shape)
            missing[name] = "centre"
            continue
        texts_own = sorted({text for text in offers.columns[name] if text is not None})
        if len(texts_own) > FEW_TEXTS:
            hashed[name] = BUCKETS
        else:
            categories[name] = texts_own
    around = []
    for column, name in enumerate(contexts.names):
        kind, texts = contexts.kinds[column], contexts.texts[column]
        if kind == NUMBER and np.isfinite(raw[:, column]).any():
            numbers[name] = _line(contexts, name, shape)
            missing[name] = "indicator" if np.isnan(raw[:, column]).any() else "centre"
        elif kind == CATEGORY and len(texts) > FEW_TEXTS:
            hashed[name] = BUCKETS
        elif kind == CATEGORY and texts:
            categories[name] = list(texts)
        else:
            continue
        around.append(name)
    identity = offers.id_column
    shares: dict[str, float] = {}
    crosses: list[tuple[Any, ...]] = []
    few = len(offers) <= FEW_OFFERS and offers.ordered is None
    if few and not around:
        return None  # the policy tells the offers apart by itself
    if few:
        categories[identity] = list(offers.ids)
    elif offers.ordered is None:
        hashed[identity] = BUCKETS
    else:
        numbers[offers.ordered] = Spline(PRICES)
    hashed |= _narrowed(categories, hashed, around)
    widths = {name: KNOTS + 1 if name in shape.curves else 1 for name in numbers}
    widths |= hashed | {name: len(listed) for name, listed in categories.items()}
    partners = [*own, identity] if few else own
    crosses += _crosses(around, partners, identity, widths, numbers, offers.ordered is not None)
    acting = [identity] if few else own
    products = [tuple(sorted((*pair, partner))) for pair in shape.pairs for partner in acting]
    crosses += products
    for name in shape.doubted:
        shares |= {_name(cross): DOUBTED for cross in crosses if name in cross}
    for cross in crosses:
        if any(name in shape.curves for name in cross) or cross in products:
            shares[_name(cross)] = CURVED
    shares |= {name: CURVED for name in shape.curves if name in numbers}
    encoder = Encoder(
        numbers=numbers, categories=categories, hashed=hashed, crosses=crosses, missing=missing,
        shares=shares,
    )  # fmt: skip
    length = max(len(raw), len(offers), 1)
    rows = raw[np.arange(length) % len(raw)] if len(raw) else raw
    return encoder.fit(joined(contexts, offers, rows, np.arange(length) % len(offers)))


def _narrowed(
    categories: dict[str, Any], hashed: Mapping[str, int], around: list[str]
) -> dict[str, int]:
    """The columns of a context that are hashed to few buckets, the widest first, where all of them
    together would have too many categories; they are taken out of ``categories``.
    """
    widths = {name: len(categories.get(name, ())) or hashed.get(name, 0) for name in around}
    narrow = max(2, MOST_WIDE // (2 * max(len(around), 1)))
    narrowed: dict[str, int] = {}
    for name in sorted(widths, key=widths.__getitem__, reverse=True):
        if 2 * sum(widths.values()) <= MOST_WIDE or widths[name] <= narrow:
            break
        widths[name] = narrowed[name] = narrow
        categories.pop(name, None)
    return narrowed


def _crosses(
    around: list[str],
    partners: list[str],
    identity: str,
    widths: Mapping[str, int],
    numbers: Mapping[str, Any],
    are_prices: bool,
) -> list[tuple[Any, ...]]:
    """The crosses that tell how offers differ by each column of the context. Where these have too
    many features, they are hashed, or left out, for the widest columns.
    """

    def cost(crosses: list[tuple[Any, ...]]) -> int:
        listed = (cross if isinstance(cross[-1], str) else cross[-1:] for cross in crosses)
        return sum(math.prod(widths.get(p, p) for p in parts) for parts in listed)

    ways: dict[str, list[tuple[Any, ...]]] = {}
    for name in around:
        together: list[tuple[Any, ...]] = [(name, identity, 4 * BUCKETS)]
        apart: list[tuple[Any, ...]] = [tuple(sorted((name, partner))) for partner in partners]
        many = widths[name] > FEW_TEXTS and name not in numbers
        ways[name] = together if many and not are_prices else apart
    costs = {name: cost(crosses) for name, crosses in ways.items()}
    while sum(widths.values()) + sum(costs.values()) > MOST_WIDE and any(costs.values()):
        name = max(costs, key=costs.__getitem__)
        hashes = name not in numbers and not are_prices and costs[name] > 4 * BUCKETS
        ways[name] = [(name, identity, 4 * BUCKETS)] if hashes else []
        costs[name] = cost(ways[name])
    return [cross for name in around for cross in ways[name]]


def _name(cross: tuple[Any, ...]) -> str:
    """The name of a cross, without its number of buckets."""
    return "*".join(name for name in cross if isinstance(name, str))


def joined(contexts: Contexts, offers: Offers, raw: FloatArray, places: IntArray) -> dict[str, Any]:
    """The columns of contexts and of the offers shown in them."""
    columns = contexts.columns_of(raw) if len(raw) else {}
    return {**columns, **{name: _taken(values, places) for name, values in offers.table().items()}}


def learn_shape(
    contexts: Contexts, offers: Offers, raw: FloatArray, places: IntArray, rewards: FloatArray
) -> Shape:
    """The shape that rewards show. O(n d) for each pair of features."""
    shape = Shape(curves=tuple(contexts.curves))
    if len(rewards) > MOST_ROWS:
        kept = np.linspace(0, len(rewards) - 1, MOST_ROWS).astype(np.int64)
        raw, places, rewards = raw[kept], places[kept], rewards[kept]
    encoder = encoder_for(contexts, offers, raw, shape)
    if len(rewards) < LEAST_ROWS or encoder is None:
        return shape
    design = encoder.transform(joined(contexts, offers, raw, places))
    basis = _basis(np.column_stack([np.ones(len(rewards)), design]))
    if basis.shape[1] > MOST_SHARE * len(rewards):
        return shape
    y = _cut(rewards)
    left = _residuals(basis, y)
    parts, acting = _parts(contexts, offers, raw, places), _acting(offers, places)
    candidates: Blocks = {}
    if design.shape[1] < MOST_FEATURES:  # there is room
        candidates = _candidates(contexts, parts, acting, shape.curves, left)
    rank, features = basis.shape[1], design.shape[1]
    rests = _beyond(basis, candidates)
    while rests:
        spare = 1.0 - rank / len(y)
        weights = spare / _variances(left, places)
        steps = {key: _log_p(rest, left, weights) for key, rest in rests.items()}
        best = min(steps, key=steps.__getitem__)
        if steps[best] > np.log(LEVEL / len(steps)):
            break
        rest, grown = rests.pop(best), shape._replace(curves=(*shape.curves, best[0]))
        if len(best) == 2:
            grown = shape._replace(pairs=(*shape.pairs, (best[0], best[1])))
            block = _with_offers(_product(parts[best[0]].curve, parts[best[1]].curve), acting)
            rest = block - basis @ (basis.T @ block)
        more = _basis(rest)
        features += rest.shape[1]
        if features > MOST_FEATURES or rank + more.shape[1] > MOST_SHARE * len(y):
            continue
        shape, rank = grown, rank + more.shape[1]
        basis = np.column_stack([basis, more])
        left = _residuals(basis, y)
        rests = _beyond(more, rests)
    identities = np.eye(len(offers))[places] if len(offers) <= MOST_TOLD else acting
    offered = _basis(np.column_stack([np.ones(len(y)), identities]))
    shape = _with_curves_of_pairs(shape, contexts)
    return shape._replace(doubted=_doubted(contexts, parts, acting, shape, offered, y, places))


def _doubted(
    contexts: Contexts,
    parts: Mapping[str, _Part],
    acting: FloatArray,
    known: Shape,
    offered: FloatArray,
    y: FloatArray,
    places: IntArray,
) -> tuple[str, ...]:
    """The columns that have not shown that offers differ by them: of what is not the same for all
    contexts, the basis ``offered``, or for all offers, they explain no more than chance may.
    """
    shown = {*known.curves, *itertools.chain.from_iterable(known.pairs)}
    asked = [name for name in contexts.names if name in parts and name not in shown]
    base = _basis(np.column_stack([offered, acting, *(parts[name].line for name in asked)]))
    left = _residuals(base, y)
    weights = 1.0 / _variances(left, places)
    blocks: Blocks = {(name,): _product(parts[name].line, acting) for name in asked}
    rests = _beyond(base, blocks)
    return tuple(c[0] for c, rest in rests.items() if _log_p(rest, left, weights) > np.log(DOUBT))


def _beyond(basis: FloatArray, blocks: Blocks) -> Blocks:
    """The part of each block that is orthogonal to a basis."""
    if not blocks:
        return {}
    joint = np.column_stack([*blocks.values()])
    joint -= basis @ (basis.T @ joint)
    ends = np.cumsum([block.shape[1] for block in blocks.values()])[:-1]
    return dict(zip(blocks, np.split(joint, ends, axis=1), strict=True))


def _basis(block: FloatArray) -> FloatArray:
    """Orthonormal columns that span those of ``block``, but for directions of rounding."""
    values, vectors = np.linalg.eigh(block.T @ block)
    kept = values > ROUNDING * max(values[-1], 1e-300)
    return np.asarray(block @ (vectors[:, kept] / np.sqrt(values[kept])))


class _Part(NamedTuple):
    """A column of the context, or a number of the offers, as features."""

    line: FloatArray  # (n, k), what a straight line or categories make of it
    curve: FloatArray  # (n, k), hat functions or the categories
    is_number: bool = False


def _parts(
    contexts: Contexts, offers: Offers, raw: FloatArray, places: IntArray
) -> dict[str, _Part]:
    parts = {}
    widths = {n: len(t) for n, t in zip(contexts.names, contexts.texts, strict=True)}
    narrowed = _narrowed({n: [0] * w for n, w in widths.items() if w <= FEW_TEXTS}, {}, [*widths])
    for column, name in enumerate(contexts.names):
        values, kind, texts = raw[:, column], contexts.kinds[column], contexts.texts[column]
        if kind == NUMBER and np.isfinite(values).any():
            parts[name] = _of_number(values)
        elif kind == CATEGORY and 1 < len(texts) <= FEW_TEXTS and name not in narrowed:
            at = np.nan_to_num(values, nan=-1.0).astype(np.int64)
            hot = np.eye(len(texts) + 1)[at][:, :-1]  # -1: the last
            parts[name] = _Part(hot, hot)
    for name, own in offers.columns.items():
        if offers.kinds[name] == NUMBER and _varies(own) and name != offers.ordered:
            parts[name] = _of_number(_floats(own)[places])
    return parts


def _of_number(values: FloatArray) -> _Part:
    """Ranks in [-1, 1], and hat functions of them; 0 where a value is missing."""
    known = np.isfinite(values)
    order = np.sort(values[known])
    left, right = np.searchsorted(order, values, "left"), np.searchsorted(order, values, "right")
    ranks = np.where(known, (left + right) / max(len(order), 1) - 1.0, 0.0)
    at = (np.arange(KNOTS) + 0.5) / KNOTS * 2.0 - 1.0
    gap = 2.0 / KNOTS
    hats = np.maximum(1.0 - np.abs(np.clip(ranks, at[0], at[-1])[:, None] - at) / gap, 0.0)
    return _Part(ranks[:, None], hats * known[:, None], True)


def _acting(offers: Offers, places: IntArray) -> FloatArray:
    """Features that tell offers apart (n, k): identities, or columns where offers are many."""
    if offers.ordered is not None:
        return _of_number(_floats(offers.columns[offers.ordered])).curve[places]
    if len(offers) <= FEW_OFFERS:
        return np.eye(len(offers))[places]
    blocks = [np.ones((len(offers), 1))]
    for name, values in offers.columns.items():
        if not _varies(values):
            continue
        if offers.kinds[name] == NUMBER:
            blocks.append(_of_number(_floats(values)).line)
        else:
            texts = sorted({text for text in values if text is not None})[:FEW_TEXTS]
            blocks.append(np.array([[float(v == text) for text in texts] for v in values]))
    return np.column_stack(blocks)[places]


def _candidates(
    contexts: Contexts,
    parts: Mapping[str, _Part],
    acting: FloatArray,
    stated: tuple[str, ...],
    left: FloatArray,
) -> Blocks:
    """Curves and products by their columns, each as features that act by offer. Of many columns
    only those act together whose curves, for each offer, explain most by themselves.
    """
    candidates: Blocks = {}
    around = [name for name in contexts.names if name in parts]
    gains = {}
    for name, part in parts.items():
        curve = _with_offers(part.curve, acting) if name in around else part.curve
        gains[name] = -float(np.square(_basis(curve).T @ left).sum(axis=0).max())
        if part.is_number and name not in stated:
            candidates[(name,)] = curve
    few = sorted(around, key=gains.__getitem__)[:MOST_PAIRED]
    while len(few) > 2 and acting.shape[1] * _products(parts, few) > MOST_LAID:
        few.pop()
    for a, b in itertools.combinations(sorted(few), 2):
        product = _product(parts[a].line, parts[b].line)
        if product.shape[1] * acting.shape[1] <= MOST_FEATURES // 2:
            candidates[(a, b)] = _with_offers(product, acting)
    return candidates


def _products(parts: Mapping[str, _Part], names: list[str]) -> int:
    """The number of columns of all products that are looked at."""
    widths = [parts[name].line.shape[1] for name in names]
    every = (a * b for a, b in itertools.combinations(widths, 2))
    return sum(width for width in every if width <= MOST_FEATURES // 2)


def _with_offers(block: FloatArray, acting: FloatArray) -> FloatArray:
    """The features by themselves, and times what tells offers apart."""
    return np.column_stack([block, _product(block, acting)])


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray((a[:, :, None] * b[:, None, :]).reshape(len(a), -1))


def _log_p(rest: FloatArray, left: FloatArray, weights: FloatArray) -> float:
    """The logarithm of the p-value that features add nothing to either column of ``left``; ``rest``
    is what of them is orthogonal to the design.
    """
    rest = rest[:, np.square(rest).sum(axis=0) > 1e-6 * len(left)]
    if rest.shape[1] == 0:
        return 0.0
    pairs = zip(left.T, weights.T, strict=True)
    least = min(score_test(rest, residuals, weight) for residuals, weight in pairs)
    return min(0.0, least + math.log(2.0))  # the smaller of two


def _residuals(basis: FloatArray, y: FloatArray) -> FloatArray:
    """Residuals of rewards beyond a basis, (n, 2): of least squares, and of Huber's fit, whose
    residuals are cut at HUBER of their typical size, by so many steps of reweighting.
    """
    plain = y - basis @ (basis.T @ y)
    if 2 * int(np.unique(y, return_counts=True)[1].max()) > len(y):
        return np.column_stack([plain, plain])  # mostly one value, often 0: no residual is typical
    fit = y - plain
    for _ in range(STEPS):
        rest = y - fit
        most = HUBER * NORMAL * float(np.median(np.abs(rest)))
        if most == 0.0:
            return np.column_stack([plain, plain])
        cut = np.clip(rest, -most, most)
        moved = basis @ (basis.T @ cut)
        fit += moved
    return np.column_stack([plain, cut - moved])


def _variances(residuals: FloatArray, places: IntArray) -> FloatArray:
    """The variance of each row's residuals: that of its offer where it has been shown often."""
    count = np.bincount(places)
    columns = []
    for squares in np.square(residuals).T:
        overall = max(float(np.mean(squares)), 1e-300)
        each = np.bincount(places, squares) / np.maximum(count, 1)
        each = np.where(count >= 2 * KNOTS, np.maximum(each, 1e-3 * overall), overall)
        columns.append(each[places])
    return np.column_stack(columns)


def _cut(rewards: FloatArray) -> FloatArray:
    """Rewards without their outermost values, in a unit whose squares are numbers."""
    count = max(LEAST_CUT, int(CUT * len(rewards)))
    ordered = np.sort(rewards)
    cut = np.clip(rewards, ordered[count], ordered[-1 - count])
    size = float(np.abs(cut).max())
    return cut if LEAST <= size <= GREATEST or size == 0.0 else cut / size  # squares are finite


def _with_curves_of_pairs(shape: Shape, contexts: Contexts) -> Shape:
    """Numbers that act together get curves: their product would be a saddle alone."""
    numbers = {n for n, kind in zip(contexts.names, contexts.kinds, strict=True) if kind == NUMBER}
    curves = dict.fromkeys(shape.curves)
    for pair in shape.pairs:
        curves |= dict.fromkeys(name for name in pair if name in numbers)
    return shape._replace(curves=tuple(curves))


def _line(contexts: Contexts, name: str, shape: Shape) -> Spline | None:
    """The curve of a column, or None for a straight line."""
    if name in contexts.curves:
        return contexts.curves[name]
    return Spline(KNOTS) if name in shape.curves else None


def _floats(values: list[Any]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _varies(values: list[Any]) -> bool:
    return len({value for value in values if value is not None}) > 1


def _taken(values: list[Any], places: IntArray) -> list[Any]:
    return [values[place] for place in places]
