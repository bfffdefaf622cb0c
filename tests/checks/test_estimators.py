"""Every regression passes the battery, by census; broken ones prove each check can fail."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail import MomentBound, estimators
from heavytail.checks import ESTIMATOR_CHECKS, CheckFailed, check_estimator

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from sklearn.utils.validation import validate_data

from heavytail.estimators.base import Regression
from heavytail.estimators.stream import NAMES, Stream
from heavytail.kernels.jit import compiled

# Plain Python's arithmetic warns where a kernel's does not.
pytestmark = [] if compiled() else [pytest.mark.filterwarnings("ignore:overflow")]

CENSUS = {"AdaptiveHuberRegressor", "OnePassHuberRegressor", "OnlineRidge"}
SHARP = "OnePassHuberRegressor, sharp"
OPTIONS = {
    **{name: {} for name in CENSUS},
    SHARP: {
        "interval": "sharp",
        "tail": MomentBound(order=1.5, scale=0.2),
        "theta_bound": 5.0,
    },
}

# What a regression is not expected to pass, and why. Strict: a pass is an error here.
EXPECTED_FAILURES = {
    ("AdaptiveHuberRegressor", "keeps_its_memory_bounded"): "it keeps all rows, by design",
    (SHARP, "learns_an_easy_line"): "an interval for all x and all times needs more than 300 rows",
    ("OnlineRidge", "is_not_moved_by_one_outlier"): "least squares is, whoever computes it",
}


def test_the_census_of_regressions_is_complete_and_all_are_final():
    assert set(estimators.ALL) == CENSUS
    assert all(getattr(estimators, name).__final__ for name in CENSUS)


@pytest.mark.parametrize("check", ESTIMATOR_CHECKS)
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_regression_passes_the_battery(name, check):
    subject = getattr(estimators, name.split(",")[0])(**OPTIONS[name])
    if (name, check) in EXPECTED_FAILURES:
        with pytest.raises(CheckFailed):
            check_estimator(subject, skip=set(ESTIMATOR_CHECKS) - {check})
    else:
        check_estimator(subject, skip=set(ESTIMATOR_CHECKS) - {check})


def test_a_regression_passes_with_its_knobs_off_their_defaults():
    check_estimator(estimators.OnePassHuberRegressor(clip=0.8, standardize=True, forget=0.999))
    check_estimator(estimators.OnePassHuberRegressor(target="typical"))


# --- broken regressions: each fails the check it was broken for


class Plain(Regression):
    """A sound regression; the broken ones below change one thing each."""

    def __init__(self, level=0.95):
        self.level = level

    def _model(self, dim):
        return Stream(
            dim,
            clip=1.0,
            ridge=1e-4,
            scale=None,
            intercept=True,
            standardize=False,
            forget=1.0,
            mean=True,
        )

    def slot_names(self):
        return NAMES


class DropsItsArgument(Plain):
    def __init__(self, level=0.95):
        self.level = 0.5

    def get_params(self, deep=True):
        return {"level": 0.95 if self.level == 0.5 else self.level}

    def set_params(self, **params):
        self.level = 0.1
        return self


class HandsOutItsSlopes(Plain):
    coef_ = property(lambda self: self.model_.theta[:3])


class HeedsTheCut(Plain):
    def partial_fit(self, X, y, sample_scale=None):
        super().partial_fit(X, y, sample_scale)
        self.model_.theta[0] += 1e-9
        return self


class ReadsListsOtherwise(Plain):
    def partial_fit(self, X, y, sample_scale=None):
        return super().partial_fit(np.multiply(X, 2) if isinstance(X, list) else X, y, sample_scale)


class NotesBeforeItLooks(Plain):
    def fit(self, X, y, sample_scale=None):
        validate_data(self, X, y, reset=True)
        return super().fit(X, y, sample_scale)


class TakesAnyScale(Plain):
    def partial_fit(self, X, y, sample_scale=None):
        if sample_scale is not None and len(sample_scale) == len(y):
            sample_scale = np.maximum(sample_scale, 1e-3)
        return super().partial_fit(X, y, sample_scale)


class Overflows(Plain):
    def partial_fit(self, X, y, sample_scale=None):
        super().partial_fit(X, y, sample_scale)
        if np.abs(y).max() > 1e200:
            self.model_.refresh()
            self.model_.theta[:] = np.inf
        return self


class NoClip(Plain):
    def _model(self, dim):
        return estimators.OnlineRidge()._model(dim)


class SharesItsModel(Plain):
    def __deepcopy__(self, memo):
        twin = type(self)(self.level)
        twin.__dict__ = dict(self.__dict__)
        return twin


class Drifts(Plain):
    calls = 0

    def partial_fit(self, X, y, sample_scale=None):
        type(self).calls += 1
        return super().partial_fit(X, np.asarray(y) + 1e-3 * self.calls, sample_scale)


class SavesHalf(Plain):
    def __setstate__(self, state):
        super().__setstate__(state)
        self.model_.refresh()
        self.model_.theta[:] *= 1 - 1e-9
        self.model_._rows *= 1 - 1e-9


class ForgetsInItsFile(Plain):
    def resume(self, arrays):
        super().resume({**arrays, "rows": 0.5 * arrays["rows"]} if "rows" in arrays else arrays)


class Hoards(Plain):
    def partial_fit(self, X, y, sample_scale=None):
        super().partial_fit(X, y, sample_scale)
        self.rows = [*getattr(self, "rows", []), np.array(X)]
        return self


class LearnsTheWrongWay(Plain):
    def fit(self, X, y, sample_scale=None):
        return super().fit(X, -np.asarray(y), sample_scale)


class IsTooSure(Plain):
    def predict(self, X, return_interval=False):
        mean = super().predict(X)
        return (mean, mean, mean) if return_interval else mean


BROKEN = {
    "declares_itself": (DropsItsArgument,),
    "reports_its_estimate": (HandsOutItsSlopes,),
    "learns_alike_however_rows_are_cut": (HeedsTheCut,),
    "takes_what_numpy_takes": (ReadsListsOtherwise,),
    "refuses_bad_rows": (NotesBeforeItLooks, TakesAnyScale),
    "keeps_the_names_it_learned": (NotesBeforeItLooks,),
    "survives_extremes": (Overflows,),
    "is_not_moved_by_one_outlier": (NoClip,),
    "copies_stand_apart": (SharesItsModel,),
    "repeats_itself": (Drifts,),
    "resumes_to_the_bit": (SavesHalf, ForgetsInItsFile),
    "keeps_its_memory_bounded": (Hoards,),
    "learns_an_easy_line": (LearnsTheWrongWay, IsTooSure),
}


def test_the_plain_regression_under_the_broken_ones_is_sound():
    check_estimator(Plain())


def test_there_is_a_broken_regression_for_every_check():
    assert set(BROKEN) == set(ESTIMATOR_CHECKS)


@pytest.mark.parametrize("check", BROKEN)
def test_each_regression_check_can_fail(check):
    for kind in BROKEN[check]:
        with pytest.raises(CheckFailed):
            check_estimator(kind(), skip=set(ESTIMATOR_CHECKS) - {check})
