"""scikit-learn takes it for one of its own, and it does without scikit-learn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted
from tests.encoding.tools import arguments, columns, fitted

import heavytail as ht

FRAME = pd.DataFrame(columns(120))
Y = np.where(FRAME["segment"] == "new", 1.0, -1.0)


def test_a_clone_has_the_arguments_and_nothing_learned():
    encoder = fitted(bound=2.0)
    twin = clone(encoder)
    assert twin.get_params() == encoder.get_params()
    assert not twin.__sklearn_is_fitted__()
    assert (twin.fit(columns()).transform(FRAME) == encoder.transform(FRAME)).all()


def test_params_are_set_all_or_none():
    encoder = fitted()
    with pytest.raises(ValueError, match="bound"):
        encoder.set_params(clip=2.0, bound=-1.0)
    assert encoder.clip == 3.0
    assert encoder.__sklearn_is_fitted__()
    assert encoder.set_params(bound=5.0).get_params()["bound"] == 5.0
    assert not encoder.__sklearn_is_fitted__()
    with pytest.raises(TypeError, match="odd"):
        encoder.set_params(odd=1)


def test_it_stands_in_a_pipeline_and_in_a_search():
    pipe = make_pipeline(ht.Encoder(**arguments()), Ridge(alpha=0.1)).fit(FRAME, Y)
    assert pipe.score(FRAME, Y) > 0.9
    assert list(pipe[:-1].get_feature_names_out()) == list(pipe[0].get_feature_names_out())
    search = GridSearchCV(pipe, {"encoder__clip": [1.0, 3.0]}, cv=2).fit(FRAME, Y)
    assert search.best_params_["encoder__clip"] in (1.0, 3.0)
    regress = make_pipeline(ht.Encoder(**arguments()), ht.OnePassHuberRegressor()).fit(FRAME, Y)
    assert regress.score(FRAME, Y) > 0.5


def test_it_stands_in_a_column_transformer():
    both = ColumnTransformer(
        [("mine", ht.Encoder(numbers=["price"], categories=["segment"]), ["price", "segment"])]
    )
    assert both.fit_transform(FRAME).shape == (120, 4)
    assert both.get_feature_names_out()[0] == "mine__price"


def test_it_says_whether_it_is_fitted():
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(ht.Encoder(**arguments()))
    check_is_fitted(fitted())
    check_is_fitted(ht.Encoder(hashed={"a": 4}))
    assert fitted().n_features_in_ == 5
    assert list(fitted().feature_names_in_) == ["age", "price", "region", "segment", "sku"]


CHECKS = (
    "check_get_params_invariance",
    "check_estimator_repr",
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
)  # the others hand it arrays without names, or build it without a column


@pytest.mark.parametrize("check", CHECKS)
def test_the_checks_of_scikit_learn_that_need_no_table_of_numbers_pass(check):
    getattr(estimator_checks, check)("Encoder", ht.Encoder(hashed={"a": 4}))


def test_scikit_learn_pandas_and_polars_are_not_needed():
    code = (
        "import sys\n"
        "for name in ('sklearn', 'pandas', 'polars', 'pyarrow'):\n"
        "    sys.modules[name] = None\n"
        "import heavytail as ht\n"
        "e = ht.Encoder(numbers=['a'], categories=['b']).fit([{'a': 1, 'b': 'x'}])\n"
        "print(e.arms({'b': 'x'}, [{'a': 2.0}]).shape)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(1, 2)"
