"""The base of the regressions: scikit-learn's interface over a model that learns rows."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from heavytail._extras import MissingExtra
from heavytail._memory import check_memory
from heavytail._storage import Saved
from heavytail._typing import FloatArray
from heavytail._validate import Check, as_array, as_rows, refuse_disguised, shown

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtra(
        "a regression needs scikit-learn, which is not installed: pip install 'heavytail[learn]'"
    ) from error

__all__ = ["WORK", "Model", "Regression", "check_room", "check_scale", "is_plain"]

WORK = 5  # matrices, as large as that of all pairs of features, that a fit holds at once

_NONE = np.empty(0)
_DOUBLE = np.dtype(np.float64)


class Model(Protocol):
    """The model that learns the rows."""

    dim: int
    size: int

    @property
    def seen(self) -> int:
        """Rows learned."""

    def learn_plain(self, X: Any, y: Any) -> bool:
        """Learn a batch that needs no conversion; False, and nothing done, where it does."""

    def learn(self, X: FloatArray, y: FloatArray, nu: FloatArray) -> None:
        """Learn a batch, or refuse it."""

    @property
    def coefficients(self) -> tuple[FloatArray, float]:
        """Slopes and intercept."""

    @property
    def spread(self) -> float:
        """The scale of the noise."""

    def standard_error(self, X: FloatArray) -> FloatArray:
        """Of the fitted value at each row."""

    def doubt(self, X: FloatArray) -> FloatArray:
        """The signed distance from the fitted value to where the mean may lie, at each row and for
        each reason why that value may be biased: (reasons, n).
        """

    def slope_errors(self) -> tuple[FloatArray, FloatArray]:
        """Standard error and doubt of each slope."""

    def arrays(self) -> dict[str, Any]:
        """All that is remembered; ``kept`` has the rows that are, of x, y and nu."""

    def take(self, arrays: dict[str, Any], where: str) -> None:
        """Take over, in a fresh model, what ``arrays`` gave, or refuse it."""


LEVEL: Final = 0.95


class Regression(RegressorMixin, BaseEstimator, Saved):  # type: ignore[misc]
    """fit, partial_fit, predict and the fitted attributes, for a subclass that gives ``_model``."""

    noun: ClassVar[str] = "regression"
    level: float | None
    n_features_in_: int
    model_: Model
    _fitted_with: dict[str, Any]  # the arguments that the model was built with

    def _model(self, dim: int) -> Model:
        raise NotImplementedError

    def _check(self) -> Check:
        """The checker of the constructor's arguments, the level checked already."""
        check = Check(type(self))
        if self.level is not None:
            check.number("level", self.level, above=0.0, below=1.0)
        return check

    def fit(self, X: ArrayLike, y: ArrayLike, sample_scale: ArrayLike | None = None) -> Self:
        """Start afresh and learn all rows; the same as one ``partial_fit`` on a new object.

        Args:
            X: features, (n, d): an array, or a pandas or polars frame of numbers.
            y: responses, (n,).
            sample_scale: each row's noise scale relative to the others', (n,); all alike unless
                given.
        """
        return self._learn(X, y, sample_scale, afresh=True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_scale: ArrayLike | None = None
    ) -> Self:
        """Go on learning, as ``fit`` does; the cut of rows into batches does not matter."""
        own = self.__dict__
        model = own.get("model_")
        if model is not None and sample_scale is None and "feature_names_in_" not in own:
            if model.learn_plain(X, y):
                return self
        return self._learn(X, y, sample_scale, afresh=model is None)

    def _learn(self, X: Any, y: Any, sample_scale: ArrayLike | None, *, afresh: bool) -> Self:
        # scikit-learn notes width and names before it looks at the numbers: let a twin take the
        # note, so that a refused call leaves this one as it was.
        twin, where = copy.copy(self), type(self).__name__
        _refuse_categories(X, where)
        _refuse_what_is_converted(X, f"{where}: X")
        _refuse_what_is_converted(y, f"{where}: y")
        X, y = validate_data(twin, X, y, reset=afresh, dtype=np.float64, order="C", y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        nu = _NONE
        if sample_scale is not None:
            nu = as_rows(sample_scale, y.shape, f"{where}: sample_scale, one scale per row,")
        if afresh:
            twin.model_, twin._fitted_with = self._model(X.shape[1]), self.get_params(deep=False)
        twin.model_.learn(_writable(X), _writable(y), _writable(nu))
        self.__dict__ = twin.__dict__
        return self

    if TYPE_CHECKING:

        @overload
        def predict(self, X: ArrayLike, return_interval: Literal[False] = False) -> FloatArray: ...
        @overload
        def predict(
            self, X: ArrayLike, return_interval: Literal[True]
        ) -> tuple[FloatArray, FloatArray, FloatArray]: ...
        @overload
        def predict(
            self, X: ArrayLike, return_interval: bool
        ) -> FloatArray | tuple[FloatArray, FloatArray, FloatArray]: ...

    def predict(self, X: Any, return_interval: bool = False) -> Any:
        """The mean response at each row of ``X``; with ``return_interval`` its interval too.

        The interval is for the mean response, not for a new observation, at the level given to
        the constructor. Returns ``y`` or ``(y, low, high)``, each of shape (n,).
        """
        check_is_fitted(self, "model_")
        _refuse_categories(X, type(self).__name__)
        _refuse_what_is_converted(X, f"{type(self).__name__}.predict: X")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        slopes, intercept = self.model_.coefficients
        mean = X @ slopes + intercept
        if not return_interval:
            return mean
        return mean, *self._interval(mean, self.model_.standard_error(X), self.model_.doubt(X))

    def coef_interval(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end of each slope's interval, (d,) each: of what the mean response rises
        by where one feature does by 1 and the others stay, at the level given to the constructor.

        As approximate as the intervals of ``predict``, and each by itself. That of the intercept
        is ``predict`` at 0.
        """
        check_is_fitted(self, "model_")
        return self._interval(self.coef_, *self.model_.slope_errors())

    def _interval(
        self, centre: FloatArray, error: FloatArray, doubt: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """As many errors as the level asks for, wider by each ``doubt`` on its side."""
        level = Check(type(self)).number("level", self.level_, above=0.0, below=1.0)
        half = error * self._quantile(level)
        below, above = np.minimum(doubt, 0.0).sum(axis=0), np.maximum(doubt, 0.0).sum(axis=0)
        return centre - half + below, centre + half + above

    @property
    def level_(self) -> float:
        """The level of the intervals."""
        return LEVEL if self.level is None else self.level

    def _quantile(self, level: float) -> float:
        """Half of an interval, in standard errors: Student's quantile."""
        from scipy import stats

        freedom = max(self.model_.seen - self.model_.size, 1)
        return float(stats.t.ppf(0.5 + level / 2.0, freedom))

    def constructor_arguments(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))

    def saved_arrays(self) -> dict[str, Any]:
        if "model_" not in self.__dict__:
            return {}
        for name, value in getattr(self, "_fitted_with", {}).items():
            if name != "level" and repr(getattr(self, name)) != repr(value):
                raise ValueError(
                    f"{type(self).__name__}.{name} was changed after the fit; fit anew, or set it "
                    "back, before it is saved."
                )
        names = getattr(self, "feature_names_in_", None)
        named = {} if names is None else {"names": np.asarray(names, dtype=np.str_)}
        return {**self.model_.arrays(), **named}

    def resume(self, arrays: dict[str, Any]) -> None:
        if not arrays:
            return
        where, kept, names = type(self).__name__, arrays.get("kept"), arrays.get("names")
        if kept is None or kept.ndim != 2 or kept.shape[1] < 3:
            raise ValueError(f"{where}: the saved state's 'kept' does not fit.")
        dim = kept.shape[1] - 2
        if names is not None and (names.shape != (dim,) or names.dtype.kind != "U"):
            raise ValueError(f"{where}: the saved state's 'names' does not fit.")
        model = self._model(dim)
        model.take(arrays, where)
        self.model_, self.n_features_in_ = model, dim
        self._fitted_with = self.get_params(deep=False)
        if names is not None:
            self.feature_names_in_ = names.astype(object)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    @property
    def coef_(self) -> FloatArray:
        """Slopes, (d,)."""
        check_is_fitted(self, "model_")
        return np.array(self.model_.coefficients[0])

    @property
    def intercept_(self) -> float:
        """The response at x = 0."""
        check_is_fitted(self, "model_")
        return self.model_.coefficients[1]

    @property
    def scale_(self) -> float:
        """The noise's scale in the unit of y: its standard deviation where it is normal."""
        check_is_fitted(self, "model_")
        return self.model_.spread

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned so far."""
        check_is_fitted(self, "model_")
        return int(self.model_.seen)


def is_plain(X: object, y: object, dim: int) -> bool:
    """Tell whether X and y are C-contiguous float64 of fitting shapes, so that nothing is
    converted.
    """
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.dtype is _DOUBLE
        and y.dtype is _DOUBLE
        and X.ndim == 2
        and y.ndim == 1
        and X.shape[1] == dim
        and 0 < len(y) == len(X)
        and X.flags.carray
        and y.flags.carray
    )


def check_room(features: int, where: str = "", todo: str = "Ask for less.") -> None:
    """Refuse more features than there is memory for to fit."""
    check_memory(f"{where}a regression of features={features}", WORK * features**2, todo)


def check_scale(check: Check, scale: object) -> float | None:
    """None for "auto", or a positive number."""
    if isinstance(scale, str):
        if scale == "auto":
            return None
        raise ValueError(
            f'{check.owner}.scale must be "auto" or a number above 0; got {shown(scale)}.'
        )
    return check.number("scale", scale, above=0.0)


def _writable(array: FloatArray) -> FloatArray:
    """The array, or a copy of a read-only or strided one: one compiled kernel serves all."""
    return array if array.flags.carray else np.array(array, order="C")


def _refuse_what_is_converted(value: object, name: str) -> None:
    """Refuse what scikit-learn would make numbers of: masked entries, bools, dates, and integers
    beyond all floats. What else is wrong it refuses itself, in words that users know.
    """
    if not isinstance(value, list | tuple | np.ndarray):
        return
    refuse_disguised(value, name, "numbers")
    array = as_array(value, name, "numbers")
    if array.dtype.kind in "bmMSU":
        todo = " Pass it .astype(float)." if array.dtype == bool else ""
        raise TypeError(f"{name} must be numbers; got dtype {array.dtype}.{todo}")
    if array.dtype.kind == "O":
        refuse_disguised(array.tolist(), name, "numbers")
        try:
            array.astype(np.float64)
        except OverflowError:
            raise ValueError(f"{name} must be finite; got an integer beyond all floats.") from None
        except (TypeError, ValueError):  # scikit-learn's to say
            return


def _refuse_categories(X: object, where: str) -> None:
    """A category's codes are not numbers to regress on: name the columns instead of converting."""
    dtypes = getattr(X, "dtypes", None)
    if dtypes is None or not hasattr(X, "columns"):
        return
    words = ("category", "categorical", "enum", "object", "string", "str")
    kinds = [str(kind).lower().split("(")[0] for kind in dtypes]
    bad = [str(c) for c, kind in zip(X.columns, kinds, strict=True) if kind in words]
    if bad:
        raise ValueError(
            f"{where}: column{'s' * (len(bad) > 1)} {', '.join(map(repr, bad))} must hold numbers; "
            "got categories or text. Encode them first, for example one column of 0 and 1 a "
            "category."
        )
