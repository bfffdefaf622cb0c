"""A number is a number, whatever its type: what is built, kept and saved does not hang on it."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.fuzz.constructors import families
from tests.fuzz.player import through_file
from tests.unbreakable.census import snapshot

import heavytail as ht
from heavytail import estimators

SAVED = ("policies", "agents", "identifiers", "controllers", "deciders")
RECIPES = {
    " ".join([make.__name__, *good][: 2 if kind == "deciders" else 1]): (make, good)
    for kind in SAVED
    for make, good in families()[kind]
}
REALS = (np.float16, np.float32, np.float64, np.longdouble, Fraction)
WHOLE = (np.int8, np.uint16, np.int64, np.longdouble)


def numbers(make: Any, good: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor that are numbers, with one that it takes."""
    found = {}
    for one in inspect.signature(make).parameters.values():
        value = good.get(one.name, one.default)
        if "float" in str(one.annotation) and value is None:
            value = 0.3
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            found[one.name] = value
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_numbers_in_any_dress_make_the_same_and_are_loaded(name):
    make, good = RECIPES[name]
    for key, value in numbers(make, good).items():
        for dress in REALS if isinstance(value, float) else WHOLE:
            if not 0 < value < 127:
                continue
            given = dress(value)
            plain = float(given) if isinstance(value, float) else int(given)
            try:
                twin = make(**{**good, key: plain})
            except ValueError:
                with pytest.raises(ValueError):
                    make(**{**good, key: given})
                continue
            made = make(**{**good, key: given})
            assert type(made._arguments[key]) in (int, float)
            assert made._arguments[key] == plain
            assert snapshot(made) == snapshot(twin) == snapshot(made.clone())
            assert snapshot(through_file(made)) == snapshot(twin)


@pytest.mark.parametrize("name", estimators.ALL)
def test_a_regression_keeps_what_it_was_given_and_saves_plain_numbers(name):
    kind = getattr(estimators, name)
    X = np.random.default_rng(0).normal(size=(60, 2))
    for key, value in kind().get_params().items():
        if value is None or isinstance(value, bool | str) or not np.isfinite(value):
            continue
        for dress in REALS:
            given = dress(value)
            model = kind(**{key: given}).fit(X, X.sum(axis=1))
            assert model.get_params()[key] is given  # as scikit-learn's clone asks
            assert snapshot(through_file(model)) == snapshot(model)


def test_flags_and_words_of_numpy_are_pythons():
    policy = ht.HvtUCB(2, intercept=np.bool_(False), radius=np.str_("empirical"))
    assert policy._arguments == {"dim": 2, "intercept": False, "radius": "empirical"}
    assert [type(policy._arguments[key]) for key in ("intercept", "radius")] == [bool, str]


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="no long doubles")
def test_a_long_double_beyond_all_floats_is_not_infinite():
    beyond = np.longdouble("1e400")
    for call in (
        lambda: ht.HvtUCB(2, clip=beyond),
        lambda: ht.CRT(2, horizon=99, tail=ht.MomentBound(2.0, 1.0), threshold_scale=beyond),
        lambda: ht.OFUL(2, noise_scale=1.0).update([1.0, 0.0], beyond),
    ):
        with pytest.raises(ValueError, match="got"):
            call()
    assert ht.HvtUCB(2, clip=np.longdouble("inf"))._arguments["clip"] == np.inf


@pytest.mark.parametrize("value", [np.timedelta64(3, "s"), np.datetime64("2020"), np.complex64(1)])
def test_what_is_no_number_stays_what_it_is_and_is_refused(value):
    with pytest.raises((ValueError, TypeError)):
        ht.HvtUCB(2, arm_bound=value)
    with pytest.raises((ValueError, TypeError)):
        ht.HvtUCB(value)
