"""From dicts and frames to bounded feature vectors."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from heavytail._storage import Saved, read
from heavytail._turns import TakingTurns, alone
from heavytail._typing import FloatArray
from heavytail._validate import shown
from heavytail.encoding.arms import Arms, check_ids
from heavytail.encoding.catalogue import Catalogue, text_of, twice
from heavytail.encoding.curves import Spline
from heavytail.encoding.layout import Layout
from heavytail.encoding.learned import Learned
from heavytail.encoding.maps import Map
from heavytail.encoding.schema import Schema
from heavytail.tables.frames import Table, one_row, table

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["Encoder"]


@final
class Encoder(TakingTurns, Saved):
    """Rows of named values as vectors x with |x| <= ``bound``, for policies and regressions.

    Each column is a block of x. A number v becomes (v - c) / (clip s), cut to [-1, 1], with c its
    median and s its spread by the median absolute deviation, so that no outlier moves either; or a
    curve (:class:`Spline`). A category becomes one feature per category, 1 or 0; a hashed one
    likewise, by bucket; several numbers whatever a map makes of them; a cross the products of its
    columns' features, whatever these are. No block is longer than 1. Block j is multiplied by
    w_j = bound sqrt(a_j / (a_1 + ... + a_m)), a_j its share, hence the bound.

    A category that was not listed or learned, or is missing, leaves its block 0: the other columns
    then decide, as if nothing were known of it, and no feature exists that no reward was ever
    learned for. ``other=True`` gives all such one feature together, for columns in which they are
    common enough to learn about.

    What the schema states need not be learned: with every centre, scale and list of categories
    stated, nothing is, and no fit is needed. The order of columns does not matter, nor does
    the cut of rows into batches. It has scikit-learn's interface and does not need scikit-learn.

    Cost: O(dim) per row; a fit holds a sample of 4096 rows of each column of numbers.

    >>> import heavytail as ht
    >>> encoder = ht.Encoder(
    ...     numbers={"price": (20.0, 5.0)}, categories={"segment": ["new", "loyal"]}
    ... )
    >>> encoder.transform([{"price": 35.0, "segment": "new"}]).round(3).tolist()
    [[0.707, 0.707, 0.0]]
    >>> arms = encoder.arms({"segment": "new"}, [{"price": 20.0}, {"price": 9.5}], ids=["a", "b"])
    >>> arms.ids[ht.TwinUCB(encoder.dim).select(arms)] in arms.ids
    True

    Args:
        numbers: columns of numbers: a list of names, or a dict by name of (centre, scale), None
            for what a fit is to learn, or a :class:`Spline` for a curve.
        categories: columns of few categories: a list of names, or a dict of lists by name, None
            for what a fit is to learn. 1 and "1" are one category.
        hashed: columns of many categories, and the number of buckets of each. blake2b, the same in
            every process.
        crosses: tuples of columns, ("segment", "product"); with a number at the end,
            ("segment", "sku", 256), the categories' combinations are hashed to so many buckets,
            each with the features of the cross's numbers and maps. What differs between contexts
            moves a choice by crosses alone: without them a context adds the same to every arm.
        bound: no vector is longer.
        clip: scales from the centre at which a number is cut.
        missing: what to do with a number that is None or NaN: "refuse", "centre" (0), or
            "indicator" (0, and a feature that says so); for all, or a dict by name.
        other: whether unknown and missing categories share a feature.
        strict: whether a column that the schema does not name is refused instead of ignored.
        shares: a_j by column or cross ("segment*product"); 1 unless stated.
        seed: another one draws other buckets and Fourier features.
        maps: of several numbers, by name: :class:`Fourier`, :class:`Leaves` or
            :class:`Transformed`. Crosses may name them as they name columns.
    """

    noun: ClassVar[str] = "encoder"

    def __init__(
        self,
        *,
        numbers: Collection[str]
        | Mapping[str, Sequence[float] | FloatArray | Spline | Mapping[str, Any] | None]
        | None = None,
        categories: Collection[str] | Mapping[str, Collection[str | float] | None] | None = None,
        hashed: Mapping[str, int] | None = None,
        crosses: Sequence[Sequence[str | int]] | None = None,
        bound: float = 1.0,
        clip: float = 3.0,
        missing: str | Mapping[str, str] = "refuse",
        other: bool = False,
        strict: bool = False,
        shares: Mapping[str, float] | None = None,
        seed: int = 0,
        maps: Mapping[str, Map | Mapping[str, Any]] | None = None,
    ) -> None:
        self.numbers, self.categories, self.hashed = numbers, categories, hashed
        self.crosses, self.bound, self.clip, self.missing = crosses, bound, clip, missing
        self.other, self.strict, self.shares, self.seed = other, strict, shares, seed
        self.maps = maps
        self._begin()

    def _begin(self) -> None:
        """Read the arguments; nothing is learned."""
        self._schema = Schema.read(type(self).__name__, self.get_params())
        self._known: tuple[Learned | None, Layout | None] = (None, None)
        if self._schema.is_stated:
            self._known = (None, _laid(self._schema, Learned.nothing(self._schema)))

    # The schema

    @classmethod
    def from_schema(cls, schema: Mapping[str, Any]) -> Self:
        """The encoder of a :meth:`schema`, or of such a dict from JSON."""
        if not isinstance(schema, Mapping):
            raise TypeError(f"{cls.__name__}.from_schema: pass a dict; got {shown(schema)}.")
        known = inspect.signature(cls).parameters
        for key in schema:
            if key not in known:
                raise ValueError(
                    f"{cls.__name__}.from_schema: {shown(key)} is unknown; it takes "
                    f"{', '.join(known)}."
                )
        return cls(**schema)

    def schema(self) -> dict[str, Any]:
        """All that the vectors depend on, including what was learned, as JSON values."""
        return self._as_known().plain()

    def _as_known(self) -> Schema:
        """The schema with all that was learned."""
        layout = self._known[1]
        if layout is None:
            return self._schema
        return replace(
            self._schema,
            numbers=dict(layout.numbers),
            categories=dict(layout.categories),
            maps=dict(layout.maps),
        )

    def fixed(self) -> Self:
        """A copy that states all that this one has learned, and learns no more."""
        _ = self._layout
        return type(self).from_schema(self._as_known().arguments())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a row must have."""
        return self._schema.columns

    @property
    def dim(self) -> int:
        """Features of a vector."""
        return self._layout.dim

    @property
    def _layout(self) -> Layout:
        layout = self._known[1]
        if layout is None:
            raise _not_fitted(self._schema, self._known[0])
        return layout

    # Learning

    def fit(self, X: object, y: object = None) -> Self:
        """Learn centres, scales and categories from all rows of ``X``, afresh; ``y`` is ignored.

        ``X`` is a pandas or polars frame, a dict of columns or a list of dicts.
        """
        return self._learn(X, f"{type(self).__name__}.fit", afresh=True)

    def partial_fit(self, X: object, y: object = None) -> Self:
        """Learn from more rows. A new category is a new feature: what was learned of vectors
        before does not fit those after.
        """
        return self._learn(X, f"{type(self).__name__}.partial_fit", afresh=False)

    @alone
    def _learn(self, X: object, where: str, *, afresh: bool) -> Self:
        schema = Schema.read(type(self).__name__, self.get_params()) if afresh else self._schema
        rows = self._table(X, where)
        if rows.length == 0:
            raise ValueError(f"{where}: there are no rows. Pass at least one.")
        for name in schema.columns:
            rows.column(name)  # or it is refused as missing
        before = None if afresh else self._known[0]
        learned = (before or Learned.nothing(schema)).after(schema, rows)
        known = _laid(schema, learned)
        if afresh and known is None:
            raise _not_fitted(schema, learned)
        self._schema, self._known = schema, (learned, known)
        return self

    # Encoding

    def transform(self, X: object) -> FloatArray:
        """The vectors of rows, (n, dim); one dict of single values is one row."""
        layout = self._layout
        rows = self._table(X, f"{type(self).__name__}.transform")
        if rows.length == 0:
            return np.zeros((0, layout.dim))
        return layout.fill(layout.read(dict.fromkeys(layout.schema.columns, rows)), rows.length)

    def fit_transform(self, X: object, y: object = None) -> FloatArray:
        """``fit``, and the vectors of the same rows."""
        return self.fit(X, y).transform(X)

    def arms(
        self, context: Mapping[str, Any] | None, arms: object, ids: Iterable[object] | None = None
    ) -> Arms:
        """The vectors of arms in one context.

        Args:
            context: values that all arms share, by column; None or {} where there are none.
            arms: one dict per arm, or a frame with one row per arm, of the other columns.
            ids: one per arm, text or whole numbers; or the name of the column of ``arms`` that
                has them; 0, 1, 2, ... unless given.
        """
        where, layout = f"{type(self).__name__}.arms", self._layout
        shared = one_row({} if context is None else context, f"{where}: context")
        offered = table(arms, f"{where}: arms")
        if offered.length == 0:
            raise ValueError(f"{where}: arms is empty; offer at least one arm.")
        rows = {}
        for name in layout.schema.columns:
            rows[name] = shared if name in shared.columns else offered
            if rows[name] is shared and name in offered.columns:
                raise twice(where, name)
        if layout.schema.strict:
            named = {ids} if isinstance(ids, str) else set()
            layout.schema.refuse_unknown({*shared.columns, *offered.columns} - named, where)
        columns = layout.read(rows)
        around = {name: columns.pop(name) for name in list(columns) if rows[name] is shared}
        n = offered.length
        X = layout.sides(around).vectors(around, np.zeros(n, np.int64), columns, np.arange(n))
        if ids is None:
            return Arms(X, range(offered.length))
        names = offered.column(ids) if isinstance(ids, str) else ids
        return Arms(X, check_ids(where, names, offered.length))

    def catalogue(
        self, arms: object, ids: Iterable[object] | None = None, offered: str | None = None
    ) -> Catalogue:
        """A fixed table of arms, for reading logs of whose rows each has the context alone:
        ``ht.evaluate(log, policy, columns={"arms": encoder.catalogue(banners, ids="sku")})``.

        The log's ``action`` is then the id of the arm that was played.

        Args:
            arms: one dict per arm, or a frame with one row per arm.
            ids: as for :meth:`arms`; 7 and "7" are one.
            offered: the log's column of lists of ids, where a row offers some of the arms alone;
                every row offers all of them unless given.
        """
        return Catalogue(self._layout, arms, ids, offered)

    def unknown(self, context: Mapping[str, Any]) -> dict[str, str]:
        """The texts of a context, by column, that are none of the column's categories: what the
        vectors say nothing of. Missing values and hashed columns have none.

        >>> encoder = Encoder(categories={"segment": ["new", "loyal"]})
        >>> encoder.unknown({"segment": "lapsed"})
        {'segment': 'lapsed'}
        """
        strange = {}
        for name, places in self._layout.places.items():
            if name in context:
                text = context[name]
                if type(text) is not str:
                    text = text_of(context, name, f"{type(self).__name__}.unknown: context")
                if text is not None and text not in places:
                    strange[name] = text
        return strange

    def _table(self, X: object, where: str) -> Table:
        rows = table(X, where)
        if self._schema.strict:
            self._schema.refuse_unknown(rows.columns, where)
        return rows

    # Saving

    def constructor_arguments(self) -> dict[str, Any]:
        return self._schema.plain()

    def saved_arrays(self) -> dict[str, Any]:
        learned = self._known[0]
        return {} if learned is None else learned.arrays()

    def resume(self, arrays: dict[str, Any]) -> None:
        if arrays:
            learned = Learned.taken(self._schema, arrays, type(self).__name__)
            self._known = (learned, _laid(self._schema, learned))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what ``save`` wrote; ``heavytail.load`` does so too."""
        return read(path, {cls.noun: lambda name: cls if name == cls.__name__ else None})

    # What scikit-learn asks for

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: object) -> Self:
        """Other arguments; what was learned is forgotten. Where one is refused, none is set."""
        twin = type(self)(**{**self.get_params(), **params})
        if params:
            self.__dict__.update(twin.__dict__)
        return self

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """The names of the features: price, segment=new, sku#17, segment=new*product=card."""
        return np.array(self._layout.names(), dtype=object)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """``columns``, as scikit-learn has them."""
        return np.array(self._layout.schema.columns, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of columns that a row must have."""
        return len(self._layout.schema.columns)

    def __sklearn_is_fitted__(self) -> bool:
        return self._known[1] is not None

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False, dict=True, string=True, categorical=True),
            requires_fit=not self._schema.is_stated,
        )

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters
        arguments = [
            f"{name}={shown(value)}"
            for name, value in self.get_params().items()
            if type(value) is not type(parameters[name].default)
            or value != parameters[name].default
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"


def _laid(schema: Schema, learned: Learned) -> Layout | None:
    """The layout; None where a column has had no value yet."""
    known = learned.known(schema)
    return None if known is None else Layout(schema, *known)


def _not_fitted(schema: Schema, learned: Learned | None) -> ValueError:
    """The error for a layout that is requested before all is known."""
    fresh = learned or Learned.nothing(schema)
    for name, sample in fresh.samples.items():
        if not len(sample.values):
            why = "no value of it was seen" if learned else "nothing was fitted"
            if name not in schema.numbers:
                return ValueError(
                    f"Encoder: the numbers of {name!r}, which a map takes, are not known: {why}. "
                    "Call fit."
                )
            return ValueError(
                f"Encoder: the centre and scale of {name!r} are not known: {why}. Call fit, or "
                f"state them: numbers={{{name!r}: (centre, scale)}}."
            )
    name = next(name for name, listed in fresh.categories.items() if not listed)
    why = "none was seen" if learned else "nothing was fitted"
    return ValueError(
        f"Encoder: the categories of {name!r} are not known: {why}. Call fit, or state them: "
        f"categories={{{name!r}: [...]}}."
    )
