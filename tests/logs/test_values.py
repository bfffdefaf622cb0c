"""Estimators, bounds and rules as values: checked when they are made, called by name in short."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from tests.logs.drawing import draw

import heavytail as ht
from heavytail.logs import (
    DM,
    DR,
    IPS,
    LS,
    LSE,
    SNIPS,
    Bernstein,
    Betting,
    ByBound,
    ByLS,
    Catoni,
    Clipped,
    DRos,
    Huber,
    SwitchDR,
)
from heavytail.logs.bounds import OF_DIFFERENCES, OF_VALUES
from heavytail.logs.estimators import ESTIMATORS, Estimator, Modelled
from heavytail.logs.selecting import RULES
from heavytail.logs.values import GONE

KINDS = [*ESTIMATORS, *dict.fromkeys((*OF_VALUES, *OF_DIFFERENCES)), *RULES]
TAIL = ht.MomentBound(1.5, 2.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SNIPS(mean="median"), r"SNIPS\.mean must be one of 'huber', 'catoni'"),
        (lambda: Clipped(clip=0.0), r"Clipped\.clip must be a number in \(0"),
        (lambda: SwitchDR("arms", clip=-1.0), r"SwitchDR\.clip must be a number in \(0"),
        (lambda: Bernstein(0.0, 1.0, clip=np.nan), r"Bernstein\.clip must be a number"),
        (lambda: DR(None), r"DR\.model must be 'arms', a callable .*; got None"),
        (lambda: DM("ridge"), r"DM\.model must be 'arms', .*; got 'ridge'"),
        (lambda: DRos("arms", folds=1), r"DRos\.folds must be a whole number of at least 2"),
        (lambda: LS(smoothing=0.0), r"LS\.smoothing must be a number in \(0"),
        (lambda: LSE(floor="no"), r"LSE\.floor must be a number"),
        (lambda: Betting(floor=np.inf), r"Betting\.floor must be a number"),
        (lambda: Betting(floor=None), r"Betting\.floor must be a number"),
        (lambda: DR("arms", folds=None), r"DR\.folds must be a whole number"),
        (lambda: Betting(1.0, 0.5), r"Betting\.ceiling must be a number in \(1, inf\); got 0.5"),
        (lambda: Betting(growing=1), r"Betting\.growing must be True or False"),
        (lambda: Bernstein(0.0, 0.0), r"Bernstein\.ceiling must be a number in \(0"),
        (lambda: Catoni(2.0), r"Catoni\.tail must be a MomentBound.*; got 2.0"),
        (lambda: ByBound(model=3), r"ByBound\.model must be 'arms'"),
        (lambda: ByLS(scale=-1.0), r"ByLS\.scale must be a number in \(0"),
    ],
)
def test_a_bad_argument_is_refused_where_the_value_is_made(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_an_argument_exists_only_where_it_belongs():
    for kind, name in ((SNIPS, "clip"), (IPS, "model"), (LS, "mean"), (Huber, "tail")):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            kind(**{name: 1.0})


def test_a_value_is_shown_on_one_line_and_cannot_be_changed():
    assert repr(Betting(-1)) == "Betting(floor=-1.0, ceiling=None, growing=False)"
    assert repr(LS(0.5)) == "LS(smoothing=0.5, floor=None)"

    class Talker:
        def __call__(self, rows):
            return rows

        def __repr__(self):
            return "two\nlines"

    assert repr(DR(Talker(), folds=3)) == "DR(mean='huber', model=two lines, folds=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        SNIPS().mean = "plain"
    assert pickle.loads(pickle.dumps(Catoni(TAIL))) == Catoni(TAIL)


def test_a_name_is_short_for_the_value_with_its_defaults():
    d = draw(3)
    for kind in [kind for kind in ESTIMATORS if not issubclass(kind, Modelled)]:
        by_name, by_value = (
            ht.evaluate(d.log, d.target, estimator=given) for given in (kind.name, kind())
        )
        assert by_name == by_value
        assert by_name.method == kind.name
    policies = [d.target, np.full((600, 10), 0.1)]
    for rule in RULES:
        one, two = (ht.select(d.log, policies, by=given) for given in (rule.name, rule()))
        assert str(one) == str(two)


@pytest.mark.parametrize("given", [SNIPS, 3, None, Betting(), ["snips"]])
def test_what_is_no_estimator_is_refused(given):
    d = draw(3)
    words = r"evaluate\.estimator must be one of 'ips', .*Or pass a value of ht\.logs: IPS\(\)"
    with pytest.raises(ValueError, match=words):
        ht.evaluate(d.log, d.target, estimator=given)


def test_every_kind_of_value_has_a_name_of_its_own_and_is_public():
    assert len({(kind.__mro__[-3], kind.name) for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert getattr(ht.logs, kind.__name__) is kind
        assert kind.__name__ in ht.logs.__all__
        assert (kind.__doc__ or "").strip()


def test_every_public_estimator_can_be_called_by_its_name():
    public = [getattr(ht.logs, name) for name in ht.logs.__all__]
    estimators = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Estimator)}
    assert estimators - {Estimator} == set(ESTIMATORS), (
        "list it in ESTIMATORS of logs/estimators.py"
    )


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator_is_where_its_reader_looks(kind):
    rows = inspect.getdoc(inspect.getmodule(kind))
    assert f"| {kind.name} | ``{kind.__name__}(" in rows, "add its row to logs/estimators.py"
    arguments = inspect.getdoc(ht.evaluate)
    named = f'"{kind.name}"' in arguments or f"``{kind.__name__}(" in arguments
    assert named, "name it under `estimator` in the docstring of evaluate"
    page = (Path(__file__).parents[2] / "docs" / "reference" / "logs.md").read_text()
    (members,) = re.findall(r"members: (\[Estimator, .*\])", page)
    assert kind.__name__ in re.findall(r"\w+", members), (
        "add it to members in docs/reference/logs.md"
    )


@pytest.mark.parametrize("name", GONE)
@pytest.mark.parametrize("call", [ht.evaluate, ht.compare, ht.select])
def test_an_argument_of_before_is_refused_with_what_says_the_same_now(call, name):
    assert name not in inspect.signature(call).parameters
    with pytest.raises(TypeError, match=rf"^{call.__name__} has no argument '{name}' any more"):
        call(None, None, **{name: 1})


def test_a_name_that_never_was_an_argument_is_pythons_to_refuse():
    with pytest.raises(TypeError, match="unexpected keyword argument 'estimater'"):
        ht.evaluate(None, None, estimater="ips")


def test_of_two_floors_the_higher_one_counts():
    d = draw(3)
    log = {**d.log, "reward": d.reward - 1.0}
    found = ht.evaluate(log, d.target, estimator=LS(floor=-1.0), bound=Betting(floor=-2.0))
    assert found == ht.evaluate(log, d.target, estimator=LS(), bound=Betting(floor=-1.0))
