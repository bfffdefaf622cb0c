"""Maps: several numbers at once as features, of length at most 1.

A map learns what it needs with the encoder, and is a plain value: what differs between kinds is
what a kernel codes their entries from. scikit-learn is imported by none of them; a fitted forest
brings its own.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import GREATEST, Check, check_count, check_number, shown
from heavytail.encoding.curves import Line, check_lists, checked_length
from heavytail.encoding.text import check_name
from heavytail.encoding.writing import FOURIER, GIVEN, LEAVES

__all__ = ["Fourier", "Leaves", "Map", "Transformed", "map_of"]

MOST_PAIRS: Final = 2**15
MOST_NODES: Final = 2**20
PAIRED: Final = 512  # rows whose pairs tell the length
NORMAL: Final = NormalDist()
QUANTILE: Final = 0.9  # of the lengths of a transformer's outputs: the others are cut


@dataclass(frozen=True)
class Fourier:
    """Random Fourier features of several numbers: sqrt(1/m) (cos w_k'z, sin w_k'z), k = 1, ..., m.

    z are the standardised numbers, (v - c) / s, cut as a column's, and w_k is normal with standard
    deviation 1 / ``length``. The block's length is 1 in every row, and the inner product of two
    rows' features is near exp(-|z - z'|² / (2 length²)) (Rahimi and Recht, 2007), so that a linear
    policy learns smooth functions of all the numbers together. The encoder's seed draws w. A row
    that misses one of the numbers has zeros.

    Cost: O(m) a row for each number.

    Args:
        columns: of numbers; those that the encoder lists under ``numbers``, too, have its centre
            and scale.
        pairs: m, of a cosine and a sine each.
        length: the distance, in scales, over which rewards change; the median distance of two rows
            of the fitted sample unless stated.
        scales: (centre, scale) of each column; learned unless stated.
    """

    columns: Sequence[str]
    pairs: int = 64
    length: float | None = None
    scales: Sequence[Line] | None = None

    kind = FOURIER

    def __post_init__(self) -> None:
        check = Check("Fourier")
        object.__setattr__(self, "columns", _columns("Fourier.columns", self.columns))
        pairs = check_count("Fourier.pairs", self.pairs, most=MOST_PAIRS)
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "length", checked_length("Fourier.length", self.length))
        if self.scales is None:
            return
        wanted = "Fourier.scales must list (centre, scale) of each column"
        check_lists(self.scales, len(self.columns), wanted)
        for pair in self.scales:
            check_lists(pair, 2, wanted)
        scales = [
            (check.number("centre", pair[0]), check.number("scale", pair[1], above=0.0))
            for pair in self.scales
        ]
        object.__setattr__(self, "scales", tuple(scales))

    def is_stated(self, known: Mapping[str, object]) -> bool:
        """Tell whether nothing is to be learned, where ``known`` columns have their scales."""
        return self.length is not None and (
            self.scales is not None or all(known.get(name) for name in self.columns)
        )

    def learned(self, scales: Sequence[Line], sample: FloatArray, clip: float) -> Fourier:
        """The map with scales, and the median distance of two rows of a sample where no length is
        stated. O(512²) at most.
        """
        scales = self.scales or tuple(scales)
        if self.length is not None:
            return replace(self, scales=scales)
        c, s = np.array(scales).T
        z = np.clip((sample[:PAIRED] - c) / s, -clip, clip)
        apart = np.sqrt(((z[:, None, :] - z[None, :, :]) ** 2).sum(axis=2))
        apart = apart[np.triu_indices(len(z), 1)]
        length = float(np.median(apart)) if apart.size else 1.0
        if length == 0.0:
            length = float(np.median(apart[apart > 0.0])) if apart.any() else 1.0
        return replace(self, scales=scales, length=length)

    @property
    def entries(self) -> int:
        """Features that are not 0."""
        return 2 * self.pairs

    @property
    def size(self) -> int:
        """The number of pairs."""
        return self.pairs

    def features(self, name: str) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(f"{name}.{part}{k}" for k in range(self.pairs) for part in ("cos", "sin"))

    def numbers(self, name: str, seed: int, clip: float) -> list[float]:
        """The parameters of the kernel: those of z, the factor, and w by row.

        w is drawn through blake2b, the same in every process and version.
        """
        assert self.scales is not None
        assert self.length is not None
        lines = [number for c, s in self.scales for number in (c, clip * s)]
        prefix = f"{seed} {len(name)} {name} ".encode()
        draws = []
        for k in range(self.pairs * len(self.columns)):
            raw = hashlib.blake2b(prefix + str(k).encode(), digest_size=8).digest()
            uniform = (int.from_bytes(raw, "big") // 2**11 + 0.5) / 2**53
            draws.append(NORMAL.inv_cdf(uniform) * clip / self.length)
        return [*lines, math.nextafter(math.sqrt(1.0 / self.pairs), 0.0), *draws]

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        scales = None if self.scales is None else [list(pair) for pair in self.scales]
        return {
            "fourier": list(self.columns),
            "pairs": self.pairs,
            "length": self.length,
            "scales": scales,
        }

    def given(self, name: str, rows: FloatArray) -> FloatArray:
        """Features that no kernel makes: none."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Leaves:
    """The leaves of fitted trees: one feature per leaf, 1 / sqrt(trees) where a row falls in it.

    A linear policy on them is a forest whose leaves' values it learns from rewards as they come.
    The trees are copied when this is made: saving needs no pickle, loading no scikit-learn, and
    another fit of the forest changes nothing. A row that misses one of the numbers has zeros.

    Cost: O(depth) a row for each tree.

    Args:
        columns: of numbers, in the order in which the trees were fitted.
        forest: a fitted decision tree, random forest, forest of extra trees or gradient boosting of
            scikit-learn; or lists of nodes (column, threshold, left, right), as a schema has them,
            a leaf's column -1.
    """

    columns: Sequence[str]
    forest: Any

    kind = LEAVES

    def __post_init__(self) -> None:
        columns = _columns("Leaves.columns", self.columns)
        object.__setattr__(self, "columns", columns)
        forest = self.forest
        if not isinstance(forest, list | tuple):
            forest = _copied(forest, columns)
        object.__setattr__(self, "forest", _nodes(forest, len(columns)))

    def __repr__(self) -> str:
        return f"Leaves({list(self.columns)}, {self.size} trees of {self._leaves} leaves)"

    @property
    def _leaves(self) -> int:
        return sum(node[0] < 0 for tree in self.forest for node in tree)

    def is_stated(self, known: Mapping[str, object]) -> bool:
        """Tell whether nothing is to be learned."""
        return True

    def learned(self, scales: Sequence[Line], sample: FloatArray, clip: float) -> Leaves:
        """The map itself."""
        return self

    @property
    def entries(self) -> int:
        """Features that are not 0."""
        return len(self.forest)

    @property
    def size(self) -> int:
        """The number of trees."""
        return len(self.forest)

    def features(self, name: str) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(f"{name}#{k}" for k in range(self._leaves))

    def numbers(self, name: str, seed: int, clip: float) -> list[float]:
        """The parameters of the kernel: the factor, the roots, the nodes of all trees."""
        roots: list[float] = []
        nodes: list[float] = []
        leaf = count = 0
        for tree in self.forest:
            roots.append(count)
            for column, threshold, left, right in tree:
                if column < 0:
                    nodes += (-1.0, leaf, 0.0, 0.0)
                    leaf += 1
                else:
                    nodes += (column, threshold, roots[-1] + left, roots[-1] + right)
            count += len(tree)
        factor = math.nextafter(math.sqrt(1.0 / len(self.forest)), 0.0)
        return [1.0 if len(self.forest) == 1 else factor, *roots, *nodes]

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        trees = [[list(node) for node in tree] for tree in self.forest]
        return {"leaves": list(self.columns), "trees": trees}

    def given(self, name: str, rows: FloatArray) -> FloatArray:
        """Features that no kernel makes: none."""
        raise NotImplementedError


@dataclass(frozen=True)
class Transformed:
    """Features that a fitted transformer of scikit-learn makes of several numbers.

    Its outputs are divided by ``length``, and cut to the length 1 where they are longer. A row that
    misses one of the numbers has zeros. It cannot be saved, since it may hold any code; and whether
    a row has the same vector alone and among others, to the last bit, is up to it.

    Args:
        columns: of numbers, in the order in which the transformer was fitted.
        transformer: which is copied.
        length: that becomes 1; the 0.9 quantile of the lengths over the fitted sample unless
            stated.
    """

    columns: Sequence[str]
    transformer: Any
    length: float | None = None

    kind = GIVEN

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _columns("Transformed.columns", self.columns))
        object.__setattr__(self, "length", checked_length("Transformed.length", self.length))
        if not hasattr(self.transformer, "transform"):
            raise TypeError(
                "Transformed.transformer must be a fitted transformer of scikit-learn; got "
                f"{shown(self.transformer)}."
            )
        object.__setattr__(self, "transformer", copy.deepcopy(self.transformer))
        width = self._outputs("Transformed", np.zeros((1, len(self.columns)))).shape[1]
        object.__setattr__(self, "_width", width)

    def is_stated(self, known: Mapping[str, object]) -> bool:
        """Tell whether nothing is to be learned."""
        return self.length is not None

    def learned(self, scales: Sequence[Line], sample: FloatArray, clip: float) -> Transformed:
        """The map with the 0.9 quantile of lengths over a sample where none is stated."""
        if self.length is not None:
            return self
        length = 0.0
        if len(sample):
            lengths = np.linalg.norm(self._outputs("Transformed", sample), axis=1)
            length = float(np.quantile(lengths, QUANTILE)) or float(lengths.max())
        return replace(self, length=min(length, GREATEST) or 1.0)

    @property
    def entries(self) -> int:
        """Features that are not 0."""
        return int(self._width)  # type: ignore[attr-defined]

    @property
    def size(self) -> int:
        """0: no kernel computes it."""
        return 0

    def features(self, name: str) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(f"{name}#{k}" for k in range(self.entries))

    def numbers(self, name: str, seed: int, clip: float) -> list[float]:
        """The parameters of the kernel: it has none."""
        return []

    def plain(self) -> dict[str, Any]:
        """As JSON, which cannot be."""
        raise ValueError(
            f"Encoder: the map of {shown(list(self.columns))} is Transformed by a "
            f"{type(self.transformer).__name__} and cannot be saved. Use Fourier or Leaves, which "
            "are saved, or save the encoder without it and add it again after loading."
        )

    def given(self, name: str, rows: FloatArray) -> FloatArray:
        """The features, NaN in rows that miss a number."""
        made = np.full((len(rows), self.entries), np.nan)
        whole = ~np.isnan(rows).any(axis=1)
        if not whole.any():
            return made
        assert self.length is not None
        values = self._outputs(f"Encoder: the map {name!r}", rows[whole]) / self.length
        long = np.linalg.norm(values, axis=1, keepdims=True)
        made[whole] = values / np.maximum(long * (1.0 + 1e-15), 1.0)
        return made

    def _outputs(self, where: str, rows: FloatArray) -> FloatArray:
        """The transformer's features of rows, (n, width), finite."""
        names = getattr(self.transformer, "feature_names_in_", None)
        data: Any = rows
        if names is not None:
            data = importlib.import_module("pandas").DataFrame(rows, columns=list(names))
        made = self.transformer.transform(data)
        made = np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)
        if made.ndim != 2 or len(made) != len(rows) or not made.shape[1]:
            raise ValueError(
                f"{where}: the transformer must give one row of numbers per row; got shape "
                f"{made.shape} of {len(rows)} rows."
            )
        if not np.isfinite(made).all():
            bad = rows[int(np.argmax(~np.isfinite(made).all(axis=1)))]
            raise ValueError(
                f"{where}: the transformer must give finite numbers; of {bad.tolist()} it gave "
                "others. Fill or clip them in its pipeline."
            )
        return np.clip(made, -GREATEST, GREATEST)


Map = Fourier | Leaves | Transformed


def map_of(where: str, given: object) -> Map:
    """A map, or what its ``plain`` gave."""
    if isinstance(given, Map):
        return given
    if isinstance(given, Mapping):
        kind = next((key for key in ("fourier", "leaves") if key in given), "")
        more = dict(given)
        columns = more.pop(kind, None)
        try:
            if kind == "fourier" and not set(more) - {"pairs", "length", "scales"}:
                return Fourier(columns, **more)
            if kind == "leaves" and set(more) == {"trees"}:
                return Leaves(columns, tuple(more["trees"]))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{where}: {error}") from None
    raise TypeError(
        f"{where} must be a map: Fourier([...]), Leaves([...], forest) or Transformed([...], "
        f"transformer); got {shown(given)}."
    )


def _columns(where: str, given: Any) -> tuple[str, ...]:
    """The columns of a map, each once."""
    if isinstance(given, str) or not isinstance(given, list | tuple) or not given:
        raise TypeError(f'{where} must be a list such as ["basket", "hour"]; got {shown(given)}.')
    names = tuple(check_name(where, name) for name in given)
    if len(set(names)) < len(names):
        raise ValueError(f"{where} must name each column once; got {shown(given)}.")
    return names


def _copied(forest: Any, columns: tuple[str, ...]) -> list[list[tuple[Any, ...]]]:
    """The nodes of scikit-learn's trees; thresholds for doubles, which these round first."""
    trees = [forest] if hasattr(forest, "tree_") else getattr(forest, "estimators_", None)
    flat = [] if trees is None else np.asarray(trees, dtype=object).ravel().tolist()
    if not flat or not all(hasattr(tree, "tree_") for tree in flat):
        raise TypeError(
            "Leaves.forest must be a fitted decision tree, random forest, forest of extra trees or "
            f"gradient boosting of scikit-learn; got {type(forest).__name__}."
        )
    names = getattr(forest, "feature_names_in_", None)
    if names is not None and list(names) != list(columns):
        raise ValueError(
            f"Leaves.columns must be those of the forest, in its order: {shown(list(names))}; got "
            f"{shown(list(columns))}."
        )
    if forest.n_features_in_ != len(columns):
        raise ValueError(
            f"Leaves.columns must be as many as the forest was fitted to, {forest.n_features_in_}; "
            f"got {shown(list(columns))}."
        )
    return [_tree(estimator.tree_) for estimator in flat]


def _tree(tree: Any) -> list[tuple[Any, ...]]:
    """The nodes of one tree."""
    leaf = tree.children_left < 0
    places, left, right = tree.feature, tree.children_left, tree.children_right
    empty = [(places, -1), (_for_doubles(tree.threshold), 0.0), (left, 0), (right, 0)]
    parts = [np.where(leaf, nothing, part) for part, nothing in empty]
    return list(zip(*(part.tolist() for part in parts), strict=True))


def _for_doubles(thresholds: FloatArray) -> FloatArray:
    """The largest doubles that float32 rounds to no more than each threshold: trees round a number
    to float32 before they compare it.
    """
    with np.errstate(over="ignore"):
        below = thresholds.astype(np.float32)
        below = np.where(below > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        middle = (below.astype(np.float64) + above.astype(np.float64)) / 2.0
        rounded_up = middle.astype(np.float32) > below
    middle = np.where(rounded_up, np.nextafter(middle, -np.inf), middle)
    return np.clip(np.where(np.isfinite(middle), middle, thresholds), -GREATEST, GREATEST)


def _nodes(forest: Sequence[Any], inputs: int) -> tuple[tuple[tuple[Any, ...], ...], ...]:
    """Trees as tuples of nodes, each checked: children come after their parent."""
    where = "Leaves.forest"
    if not forest or sum(len(tree) for tree in forest if hasattr(tree, "__len__")) > MOST_NODES:
        raise ValueError(f"{where} must have 1 to {MOST_NODES} nodes. Fit fewer or smaller trees.")
    trees = []
    for t, tree in enumerate(forest):
        if not isinstance(tree, list | tuple) or not tree:
            raise TypeError(f"{where}[{t}] must list nodes; got {shown(tree)}.")
        nodes: list[tuple[Any, ...]] = []
        for i, node in enumerate(tree):
            here = f"{where}[{t}][{i}]"
            check_lists(node, 4, f"{here} must be (column, threshold, left, right)")
            column, threshold, left, right = node
            if isinstance(column, int | float) and column == -1:
                nodes.append((-1, 0.0, 0, 0))
                continue
            nodes.append(
                (
                    check_count(f"{here}: column", column, least=0, most=inputs - 1),
                    check_number(f"{here}: threshold", threshold, least=-GREATEST, most=GREATEST),
                    check_count(f"{here}: left", left, least=i + 1, most=len(tree) - 1),
                    check_count(f"{here}: right", right, least=i + 1, most=len(tree) - 1),
                )
            )
        trees.append(tuple(nodes))
    return tuple(trees)
