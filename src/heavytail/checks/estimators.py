"""Promises of a regression, beyond scikit-learn's own checks, one function per promise."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytail._load import load
from heavytail._typing import FloatArray
from heavytail.checks.battery import CheckFailed, require

if TYPE_CHECKING:
    from heavytail.estimators.base import Regression

__all__ = ["ESTIMATOR_CHECKS"]

ROWS, DIM = 300, 3
SLOPES, CONSTANT = np.array([1.0, -2.0, 0.5]), 4.0


def _table(rows: int = ROWS, seed: int = 0, df: float = 2.1) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, DIM))
    return X, X @ SLOPES + CONSTANT + 0.1 * rng.standard_t(df, rows)


def _fresh(regression: Regression) -> Regression:
    """One of the same arguments that has seen nothing."""
    return type(regression)(**regression.get_params())


def _fitted(regression: Regression, rows: int = ROWS) -> Regression:
    return _fresh(regression).partial_fit(*_table(rows))


def _answers(regression: Regression) -> list[bytes]:
    """All that can be read off it, to the bit."""
    X, _ = _table(7, seed=9)
    numbers = [*regression.predict(X, return_interval=True), regression.coef_]
    single = [regression.intercept_, regression.scale_, float(regression.n_samples_seen_)]
    names = getattr(regression, "feature_names_in_", None)
    words = [repr(regression.n_features_in_), "" if names is None else repr(list(names))]
    return [np.asarray(a).tobytes() for a in (*numbers, single)] + [w.encode() for w in words]


def _refused(regression: Regression, method: str, given: tuple[Any, ...], what: str) -> None:
    """The call must raise ValueError or TypeError and leave every bit of it as it was."""
    before, what = pickle.dumps(regression), f"{what} in {method}"
    try:
        getattr(regression, method)(*given)
    except (ValueError, TypeError) as error:
        require(len(str(error)) > 20, f"refuses {what} without saying why: {error!r}")
    except Exception as error:
        raise CheckFailed(f"answers {what} with {type(error).__name__}: {error}") from None
    else:
        raise CheckFailed(f"accepts {what}")
    require(pickle.dumps(regression) == before, f"refuses {what} but has changed")


def declares_itself(regression: Regression) -> None:
    """Its arguments can be read and set, its repr names its class, and it has seen nothing."""
    require(type(regression).__name__ in repr(regression), "has a repr that hides its class")
    require(not hasattr(regression, "model_"), "has learned something already; pass a fresh one")
    for key, value in regression.get_params().items():
        same = _fresh(regression).set_params(**{key: value}).get_params()[key]
        require(same is value or same == value, f"does not keep its argument {key}")


def reports_its_estimate(regression: Regression) -> None:
    """Slopes, intercept, scale and count fit the rows; what is handed out is a copy."""
    regression = _fitted(regression)
    slopes, before = regression.coef_, _answers(regression)
    require(slopes.shape == (DIM,), f"has slopes of shape {slopes.shape}")
    require(bool(np.isfinite(slopes).all()), f"has slopes {slopes}")
    require(isinstance(regression.intercept_, float), "has an intercept that is not a float")
    require(regression.scale_ > 0.0, f"has the scale {regression.scale_}")
    require(regression.n_samples_seen_ == ROWS, f"says {regression.n_samples_seen_} rows")
    require(regression.n_features_in_ == DIM, f"says {regression.n_features_in_} features")
    slopes[:] = 1e9
    require(_answers(regression) == before, "hands out its own slopes, not a copy")


def learns_alike_however_rows_are_cut(regression: Regression) -> None:
    """``fit``, and ``partial_fit`` on any batches, answer alike to the bit."""
    X, y = _table()
    whole, parts = _fresh(regression).fit(X, y), _fresh(regression)
    for rows in np.split(np.arange(ROWS), [1, 3, 47, 60, 61]):
        parts.partial_fit(X[rows], y[rows])
    require(_answers(parts) == _answers(whole), "depends on how the rows are cut into batches")
    require(_answers(parts.fit(X, y)) == _answers(whole), "remembers rows when it is fitted afresh")


def takes_what_numpy_takes(regression: Regression) -> None:
    """Lists, float32, read-only and strided arrays are learned alike and never written to."""
    X, y = (np.round(8.0 * part) / 8.0 for part in _table())  # the same in single precision
    plain = _answers(_fresh(regression).fit(X, y))
    frozen = X.copy()
    frozen.flags.writeable = False
    wide = np.zeros((ROWS, 2 * DIM))
    wide[:, ::2] = X
    for form in (X.tolist(), X.astype(np.float32), frozen, wide[:, ::2], np.asfortranarray(X)):
        model = _fresh(regression).partial_fit(form[:70], y[:70]).partial_fit(form[70:], y[70:])
        require(_answers(model) == plain, "learns otherwise from the same numbers")
    require(np.array_equal(frozen, X) and np.array_equal(wide[:, ::2], X), "writes to its input")


def refuses_bad_rows(regression: Regression) -> None:
    """A refused ``fit`` or ``partial_fit`` leaves a fitted one whole, and the next one works."""
    X, y = _table(6, seed=2)
    hole, endless, wild = X.copy(), X.copy(), y.copy()
    hole[3, 1], endless[0, 0], wild[2] = np.nan, np.inf, -np.inf
    bad: dict[str, tuple[Any, ...]] = {
        "a feature that is NaN": (hole, y),
        "a feature that is infinite": (endless, y),
        "a response that is infinite": (X, wild),
        "fewer responses than rows": (X, y[:-1]),
        "no rows": (X[:0], y[:0]),
        "one row that is a vector": (X[0], y[:1]),
        "text": ([["a"] * DIM] * 6, y),
        "a scale of zero": (X, y, np.zeros(6)),
        "scales of the wrong length": (X, y, np.ones(5)),
    }
    for rows in (20, ROWS):
        model = _fitted(regression, rows)
        for what, given in bad.items():
            _refused(model, "partial_fit", given, what)
            _refused(model, "fit", given, what)
        _refused(model, "partial_fit", (X[:, :2], y), "rows of another width")
        narrow = (X[:, :2], y, np.zeros(6))
        _refused(model, "fit", narrow, "scales of zero for rows of another width")
        before = model.n_samples_seen_
        model.partial_fit(X, y)
        require(model.n_samples_seen_ == before + 6, "does not learn after a refused call")


def keeps_the_names_it_learned(regression: Regression) -> None:
    """Names of columns are those of the last ``fit`` that was not refused. Needs pandas."""
    try:
        frame = importlib.import_module("pandas").DataFrame
    except ImportError:
        return
    X, y = _table()
    hole = X.copy()
    hole[3, 1] = np.nan
    model = _fresh(regression).fit(frame(X, columns=list("abc")), y)
    require(list(model.feature_names_in_) == list("abc"), "forgets the names of its columns")
    for names in ("uvw", "abc"):
        _refused(model, "fit", (frame(hole, columns=list(names)), y), "a frame with a NaN")
    shuffled = frame(X, columns=list("cba"))
    _refused(model, "partial_fit", (shuffled, y), "columns out of order")
    _refused(model, "fit", (hole, y), "an array with a NaN")
    _refused(model, "fit", (X, y, np.zeros(ROWS)), "an array with scales of zero")


def survives_extremes(regression: Regression) -> None:
    """A response of ±1e300 is learned, or refused with nothing changed; all stays finite."""
    X, _ = _table(1, seed=3)
    for rows in (20, ROWS):
        model = _fitted(regression, rows)
        for size in (1e300, -1e300, 1e-300, 0.0):
            before = _answers(model)
            try:
                model.partial_fit(X, np.array([size]))
            except ValueError:
                require(_answers(model) == before, f"refuses {size} but has changed")
            require(bool(np.isfinite(model.predict(X)).all()), f"predicts no number after {size}")
        model.partial_fit(X, np.array([1.0]))


def is_not_moved_by_one_outlier(regression: Regression) -> None:
    """One response of 1e9 among the rows moves no prediction by a tenth of their spread."""
    X, y = _table()
    clean = _fresh(regression).fit(X, y).predict(X)
    for at in (5, 200):
        wild = y.copy()
        wild[at] = 1e9
        moved = float(np.abs(_fresh(regression).fit(X, wild).predict(X) - clean).max())
        require(moved < 0.1 * float(np.std(clean)), f"moves by {moved:.3g} for one outlier")


def copies_stand_apart(regression: Regression) -> None:
    """A deep copy has learned what its origin had and goes its own way."""
    for rows in (20, ROWS):
        model = _fitted(regression, rows)
        twin, before = copy.deepcopy(model), _answers(model)
        require(_answers(twin) == before, "has a copy that knows something else")
        twin.partial_fit(*_table(50, seed=4))
        require(_answers(model) == before, "learns when its copy does")
        model.partial_fit(*_table(50, seed=4))
        require(_answers(twin) == _answers(model), "and its copy part ways on the same rows")


def repeats_itself(regression: Regression) -> None:
    """The same rows give the same answers, to the bit."""
    same = _answers(_fitted(regression)) == _answers(_fitted(regression))
    require(same, "answers otherwise on the same rows")


def resumes_to_the_bit(regression: Regression) -> None:
    """Pickled or saved, read back and continued equals never having stopped."""
    for rows in (1, 20, ROWS):
        straight = _fitted(regression, rows)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "regression.npz"
            straight.save(path)
            loaded = load(path, kinds=(type(regression),))
        pickled = pickle.loads(pickle.dumps(straight))
        for model in (straight, pickled, loaded):
            model.partial_fit(*_table(seed=5))
        require(_answers(pickled) == _answers(straight), f"drifts after a pickle at row {rows}")
        require(_answers(loaded) == _answers(straight), f"drifts after a save at row {rows}")


def keeps_its_memory_bounded(regression: Regression) -> None:
    """The memory of a model has one size, whatever the number of rows."""
    model = _fitted(regression)
    small = len(pickle.dumps(model))
    large = len(pickle.dumps(model.partial_fit(*_table(10 * ROWS, seed=6))))
    require(large < small + 64, f"grows from {small} to {large} bytes")


def learns_an_easy_line(regression: Regression) -> None:
    """With light noise the predictions come near the mean, and the interval is about as wide."""
    model = _fresh(regression).fit(*_table(df=30.0, seed=7))
    X, _ = _table(50, seed=8)
    truth = X @ SLOPES + CONSTANT
    mean, low, high = model.predict(X, return_interval=True)
    error = math.sqrt(float(np.mean((mean - truth) ** 2)))
    require(error < 0.05, f"is off by {error:.3f} where the noise of a row is 0.1")
    require(bool(np.all((low <= mean) & (mean <= high))), "predicts outside of its interval")
    require(float(np.mean((low <= truth) & (truth <= high))) > 0.5, "has intervals off the mean")
    require(float(np.mean(high - low)) < 0.2, "has intervals wider than the noise of a row")


ESTIMATOR_CHECKS: dict[str, Callable[[Regression], None]] = {
    check.__name__: check
    for check in (
        declares_itself,
        reports_its_estimate,
        learns_alike_however_rows_are_cut,
        takes_what_numpy_takes,
        refuses_bad_rows,
        keeps_the_names_it_learned,
        survives_extremes,
        is_not_moved_by_one_outlier,
        copies_stand_apart,
        repeats_itself,
        resumes_to_the_bit,
        keeps_its_memory_bounded,
        learns_an_easy_line,
    )
}
