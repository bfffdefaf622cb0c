"""Curves: a straight line and hats on knots, learned or stated, and their crosses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.encoding.tools import ANY_ROW, columns

import heavytail as ht

STATED = ht.Spline([0.0, 10.0, 40.0], centre=10.0, scale=10.0)


def curved(**more) -> ht.Encoder:
    made = ht.Encoder(
        numbers={"price": ht.Spline(5), "age": ht.Spline(4)}, categories=["segment"],
        hashed={"sku": 8},
        crosses=[("segment", "price"), ("price", "age"), ("sku", "price", 4)], **more,
    )  # fmt: skip
    return made.fit(columns())


@given(
    rows=st.lists(ANY_ROW, min_size=1, max_size=8),
    missing=st.sampled_from(["centre", "indicator"]),
    bound=st.floats(1e-3, 1e3),
)
@settings(max_examples=60, deadline=None)
def test_no_vector_with_curves_is_longer_than_the_bound_whatever_the_row(rows, missing, bound):
    encoder = curved(missing=missing, bound=bound)
    X = encoder.transform(rows)
    assert X.shape == (len(rows), encoder.dim)
    assert (np.linalg.norm(X, axis=1) <= bound * (1.0 + 1e-12)).all()


def test_hats_are_a_partition_of_unity_that_is_constant_beyond_the_outer_knots():
    encoder = ht.Encoder(numbers={"v": STATED}, bound=np.sqrt(2.0))
    X = encoder.transform({"v": [-1e300, 0.0, 2.5, 10.0, 25.0, 40.0, 1e300]})
    assert X[:, 1:] == pytest.approx(np.array([
        [1, 0, 0], [1, 0, 0], [0.75, 0.25, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1], [0, 0, 1],
    ]))  # fmt: skip
    assert X[:, 0] == pytest.approx([-1, -1 / 3, -0.25, 0, 0.5, 1, 1])
    assert list(encoder.get_feature_names_out()) == ["v", "v~0.0", "v~10.0", "v~40.0"]


def test_a_missing_number_has_no_line_and_no_hat_and_a_flag_where_asked():
    told = {"v": [None, 10.0], "c": ["x", "x"]}
    for way, names in (("centre", 4), ("indicator", 5)):
        encoder = ht.Encoder(
            numbers={"v": STATED}, categories={"c": ["x"]}, crosses=[("c", "v")], missing=way
        )
        X = encoder.transform(told) * np.sqrt(3.0)
        assert encoder.dim == names + 1 + 4
        assert X[0, :4].tolist() == [0.0] * 4
        assert X[0, 4:names].tolist() == pytest.approx([1.0] * (names - 4))
        assert X[1, 4:names].tolist() == [0.0] * (names - 4)
        assert X[0, -4:].tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="row 0, column 'v': the number is missing"):
        ht.Encoder(numbers={"v": STATED}).transform(told)


def test_knots_are_inner_quantiles_that_no_outlier_moves_far():
    rng = np.random.default_rng(0)
    values = rng.uniform(0.0, 100.0, 1000)
    learned = ht.Encoder(numbers={"v": ht.Spline(5)}).fit({"v": values}).schema()["numbers"]["v"]
    assert learned["spline"] == pytest.approx([10, 30, 50, 70, 90], abs=5)
    assert set(learned["spline"]) <= set(values)
    values[:50] = 1e30
    spoiled = ht.Encoder(numbers={"v": ht.Spline(5)}).fit({"v": values}).schema()["numbers"]["v"]
    assert max(spoiled["spline"]) < 100.0


@pytest.mark.parametrize(
    ("values", "knots"),
    [([0, 1] * 20, [0.0, 1.0]), ([1, 2, 3] * 20, [1.0, 2.0, 3.0]), ([7] * 20, None)],
)
def test_a_column_of_few_values_has_fewer_knots_or_its_straight_line_alone(values, knots):
    encoder = ht.Encoder(numbers={"v": ht.Spline(5)}).fit({"v": values})
    learned = encoder.schema()["numbers"]["v"]
    assert (learned["spline"] if knots else learned) == (knots or [7.0, 1.0])
    assert encoder.dim == 1 + len(knots or [])
    straight = ht.Encoder(numbers=["v"]).fit({"v": values})
    if not knots:
        assert (encoder.transform({"v": [6, 9]}) == straight.transform({"v": [6, 9]})).all()


def test_curves_go_through_json_files_and_copies_to_the_bit(tmp_path):
    encoder, told = curved(missing={"age": "indicator"}), columns(300, seed=7)
    X = encoder.transform(told)
    schema = json.loads(json.dumps(encoder.schema()))
    assert set(schema["numbers"]["price"]) == {"spline", "centre", "scale"}
    encoder.save(tmp_path / "it.npz")
    policy = ht.TwinUCB(encoder.dim)
    policy.encoder = encoder
    policy.save(tmp_path / "policy.npz")
    for twin in (
        ht.Encoder.from_schema(schema), encoder.fixed(), ht.load(tmp_path / "it.npz"),
        ht.load(tmp_path / "policy.npz").encoder,
    ):  # fmt: skip
        assert twin.transform(told).tobytes() == X.tobytes()
        assert twin.schema() == schema
    fresh = ht.Encoder(numbers={"v": ht.Spline(7)})
    fresh.save(tmp_path / "it.npz")
    assert ht.load(tmp_path / "it.npz").numbers == {"v": {"spline": 7}}


def test_what_a_spline_states_need_not_be_learned():
    assert ht.Encoder(numbers={"v": STATED}).dim == 4
    derived = ht.Spline([40, 0, 10])
    assert derived.knots == (0.0, 10.0, 40.0)
    assert derived.centre == 10.0
    assert derived.scale == pytest.approx(1.4826 * 10.0, rel=1e-4)
    half = ht.Encoder(numbers={"v": ht.Spline(3, centre=1.0, scale=2.0)}).fit({"v": range(90)})
    learned = half.schema()["numbers"]["v"]
    assert (learned["centre"], learned["scale"], len(learned["spline"])) == (1.0, 2.0, 3)


def test_the_cut_of_rows_into_batches_moves_no_knot():
    told = columns(6000)
    whole, parts = ht.Encoder(numbers={"price": ht.Spline(5)}), ht.Encoder(
        numbers={"price": ht.Spline(5)}
    )  # fmt: skip
    whole.fit(told)
    for low in range(0, 6000, 700):
        parts.partial_fit({name: column[low : low + 700] for name, column in told.items()})
    assert parts.schema() == whole.schema()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ht.Spline(1), r"Spline\.knots must be a whole number of at least 2; got 1\. Say"),
        (lambda: ht.Spline([1.0]), r"knots must be 2 to 1000 different numbers; got \[1\.0\]"),
        (lambda: ht.Spline([1, 1.0, 2]), r"different numbers; .* listed twice"),
        (lambda: ht.Spline([0, np.inf]), r"Spline\.knots\[1\] must be a number"),
        (lambda: ht.Spline("5"), r"Spline\.knots must be a whole number"),
        (lambda: ht.Spline(5, centre=1.0), r"centre and scale are stated together"),
        (lambda: ht.Spline(5, centre=1.0, scale=0.0), r"Spline\.scale must be a number in \(0"),
        (lambda: ht.Encoder(numbers={"v": {"knots": 5}}), r"such as \{'spline': 5\}; got"),
        (
            lambda: ht.Encoder(numbers={"v": {"spline": 1}}),
            r"numbers\['v'\]: Spline\.knots must be",
        ),
    ],
)
def test_splines_that_cannot_be_are_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_each_segment_learns_a_curve_of_its_own_from_a_cross():
    rng = np.random.default_rng(1)
    hour, segment = rng.uniform(0.0, 24.0, 4000), rng.choice(["x", "y"], 4000)
    wanted = np.where(segment == "x", np.abs(hour - 12.0), 12.0 - np.abs(hour - 12.0))
    errors = []
    for numbers in (["hour"], {"hour": ht.Spline(9)}):
        encoder = ht.Encoder(numbers=numbers, categories=["segment"], crosses=[("hour", "segment")])
        X = encoder.fit_transform({"hour": hour, "segment": segment})
        fitted = X @ np.linalg.lstsq(X, wanted, rcond=None)[0]
        errors.append(np.mean((fitted - wanted) ** 2) / np.var(wanted))
    assert errors[0] > 0.9
    assert errors[1] < 0.02
