"""The arms of a catalogue in one context: the bits of ``Encoder.arms``, and its refusals."""

from __future__ import annotations

import json
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from tests.encoding.test_bits import world
from tests.encoding.tools import ANY_ROW, columns, fitted

import heavytail as ht

CONTEXT = {"segment": "new", "age": 40}
ARMS = [{"price": float(p), "region": p % 5, "sku": f"sku-{p}"} for p in range(10, 22)]


def rich() -> ht.Encoder:
    """An encoder with all that there is; some of it between context and arms."""
    return ht.Encoder(
        numbers={"price": ht.Spline(4), "age": ht.Spline(5)},
        categories=["segment", "region"],
        hashed={"sku": 16},
        maps={"shape": ht.Fourier(["price", "age"], 5)},
        crosses=[
            ("segment", "region"), ("age", "price"), ("segment", "sku", 8), ("shape", "segment"),
            ("age", "segment", "region"), ("segment", "sku", "price", 4), ("age", "shape", 3),
        ],
        missing="indicator",
    ).fit(columns())  # fmt: skip


RICH = rich()
CATALOGUE = RICH.catalogue(ARMS, ids="sku")


@given(row=ANY_ROW)
@settings(max_examples=60, deadline=None)
def test_arms_have_the_bits_of_the_encoders_arms_in_any_context(row):
    context = {name: row[name] for name in ("segment", "age")}
    X = CATALOGUE.arms(context)
    assert X.tobytes() == np.asarray(RICH.arms(context, ARMS)).tobytes()
    which = [3, 3, 0, 11]
    assert CATALOGUE.arms(context, which).tobytes() == X[which].tobytes()
    many = list(range(12)) * 2
    assert CATALOGUE.arms(context, many).tobytes() == X[many].tobytes()
    assert CATALOGUE.arms(context, np.array([], dtype=int)).shape == (0, RICH.dim)


@pytest.mark.parametrize("k", range(0, 100, 3))
def test_arms_have_the_bits_of_the_encoders_arms_whatever_the_schema(k):
    arguments, rows, rng = world(k)
    encoder = ht.Encoder(**arguments).fit(rows)
    shared = [name for name in "abcdefgh" if rng.random() < 0.5]
    offers = [{c: v for c, v in row.items() if c not in shared} for row in rows]
    catalogue = encoder.catalogue(offers)
    for row in rows[:5]:
        context = {name: row[name] for name in shared}
        wanted = np.asarray(encoder.arms(context, offers))
        assert catalogue.arms(context).tobytes() == wanted.tobytes()


def test_a_transformer_of_the_context_is_asked_at_each_decision():
    from sklearn.preprocessing import PolynomialFeatures

    model = PolynomialFeatures(2).fit(np.eye(2))
    for names in (["age", "hour"], ["age", "price"]):
        encoder = ht.Encoder(
            maps={"m": ht.Transformed(names, model, length=50.0)},
            categories={"region": [*range(5)]},
            crosses=[("m", "region")],
        )  # fmt: skip
        context = {"age": 40, "hour": 3.0}
        X = encoder.catalogue(ARMS).arms(context)
        assert X == pytest.approx(np.asarray(encoder.arms(context, ARMS)), rel=1e-12)


BAD = [
    ({"segment": "new"}, r"Catalogue\.arms: context: there is no column 'age'; it has \['segment'"),
    ({"age": 3}, r"context: there is no column 'segment'"),
    ({**CONTEXT, "age": "x"}, r"context, column 'age': must be a number; got 'x'\. Convert"),
    ({**CONTEXT, "age": True}, r"context, column 'age': must be a number; got True"),
    ({**CONTEXT, "age": float("inf")}, r"column 'age': the number must be finite; got inf\. Pass"),
    ({**CONTEXT, "age": None}, r"column 'age': the number is missing"),
    ({**CONTEXT, "age": 10**400}, r"beyond all floats"),
    ({**CONTEXT, "segment": b"x"}, r"column 'segment': a category must be text or a finite"),
    ({**CONTEXT, "segment": ["x"]}, r"column 'segment': a category must be text or a finite"),
    ({**CONTEXT, "price": 1.0}, r"'price' is in the context and in the arms\. Leave one out"),
    ([1], r"context must be a dict of values by column; got \[1\]"),
    (None, r"context must be a dict of values by column; got None"),
]


@pytest.mark.parametrize(("context", "words"), BAD)
def test_a_context_that_cannot_be_is_refused_as_by_the_encoder(context, words):
    encoder = fitted(crosses=[("segment", "region")])
    catalogue = encoder.catalogue(ARMS)
    X = catalogue.arms(CONTEXT)
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        catalogue.arms(context)
    if "there is no column" not in words and context is not None:
        with pytest.raises((ValueError, TypeError)) as other:
            encoder.arms(context, ARMS)
        said = str(other.value).replace("Encoder.arms", "Catalogue.arms")
        assert str(caught.value) == said
    assert (catalogue.arms(CONTEXT) == X).all()


def test_a_strict_encoder_refuses_columns_that_it_does_not_name():
    with pytest.raises(ValueError, match=r"Catalogue\.arms: the schema does not name .*'colour'"):
        fitted(strict=True).catalogue(ARMS).arms({**CONTEXT, "colour": 1})
    assert fitted().catalogue(ARMS).arms({**CONTEXT, "colour": 1}).any()


@pytest.mark.parametrize("which", [[12], [-1], [0.5], [[0]], ["a"], [True], 3])
def test_places_that_are_none_are_refused(which):
    with pytest.raises(ValueError, match=r"which must list places from 0 to 11; got"):
        CATALOGUE.arms(CONTEXT, which)


def test_an_unknown_category_is_zeros_and_is_counted():
    encoder = fitted()
    assert encoder.unknown({"segment": "odd", "region": 9, "sku": "new"}) == {
        "segment": "odd", "region": "9",
    }  # fmt: skip
    assert encoder.unknown({"segment": None, "region": 3.0}) == {}
    assert encoder.unknown({}) == {}
    with pytest.raises(TypeError, match=r"unknown: context, column 'segment': a category must be"):
        encoder.unknown({"segment": b"x"})
    X = encoder.catalogue(ARMS).arms({**CONTEXT, "segment": "odd"})
    named = [name.startswith("segment=") for name in encoder.get_feature_names_out()]
    assert not X[:, named].any()


def test_true_is_one_category_from_python_json_and_csv():
    live = json.loads('{"member": true}')
    for listed in ([True, False], ["true", "false"], ["True", "False"]):
        encoder = ht.Encoder(categories={"member": listed})
        for value in (True, np.True_, "true", "True", live["member"]):
            assert encoder.transform({"member": value}).tolist() == [[1.0, 0.0]]
            assert encoder.unknown({"member": value}) == {}
        assert encoder.transform({"member": "false"}).tolist() == [[0.0, 1.0]]
    both = ht.Encoder(categories={"member": ["True", "true"]})  # as a schema of before may have
    assert both.transform({"member": ["True", "true"]}).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_threads_that_share_a_catalogue_get_their_own_vectors():
    contexts = [{"segment": s, "age": a} for s in ("new", "gone") for a in range(18, 68)]
    wanted = [CATALOGUE.arms(context) for context in contexts]
    wrong = []

    def decide(start: int) -> None:
        for k in range(400):
            i = (start + k) % len(contexts)
            if not (CATALOGUE.arms(contexts[i]) == wanted[i]).all():
                wrong.append(i)

    threads = [threading.Thread(target=decide, args=(25 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_catalogue_is_pickled_with_what_it_coded():
    twin = pickle.loads(pickle.dumps(CATALOGUE))
    for context in (CONTEXT, {"segment": "gone", "age": 20}):
        assert (twin.arms(context) == CATALOGUE.arms(context)).all()
