"""Maps: random Fourier features, leaves of fitted trees, and any transformer."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import heavytail as ht

RNG = np.random.default_rng(0)
N = 400
TOLD = {
    "basket": RNG.lognormal(3.0, 1.0, N),
    "hour": RNG.uniform(0.0, 24.0, N),
    "segment": RNG.choice(list("xyz"), N),
}
NUMBERS = ["basket", "hour"]
Z = np.column_stack([TOLD[name] for name in NUMBERS])
Y = np.sin(Z[:, 1]) + Z[:, 0]
FORESTS = {
    "tree": DecisionTreeRegressor(max_depth=4, random_state=0),
    "classes": DecisionTreeClassifier(max_depth=4, random_state=0),
    "random": RandomForestRegressor(5, max_depth=4, random_state=0),
    "of classes": RandomForestClassifier(5, max_depth=4, random_state=0),
    "extra": ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=5, random_state=0),
    "boosting classes": GradientBoostingClassifier(n_estimators=3, random_state=0),
}


def fitted(forest: str) -> object:
    made = FORESTS[forest]
    return made.fit(Z, np.digitize(Y, [10.0, 30.0]) if "classes" in forest else Y)


def test_fourier_features_have_length_one_and_the_kernel_as_inner_product():
    encoder = ht.Encoder(maps={"shape": ht.Fourier(NUMBERS, 4000, length=1.5)}).fit(TOLD)
    X = encoder.transform(TOLD)
    assert np.linalg.norm(X, axis=1) == pytest.approx(np.ones(N), rel=1e-12)
    scales = np.array(encoder.schema()["maps"]["shape"]["scales"])
    z = np.clip((Z - scales[:, 0]) / scales[:, 1], -3.0, 3.0)[:40]
    squares = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    assert X[:40] @ X[:40].T == pytest.approx(np.exp(-squares / (2.0 * 1.5**2)), abs=0.08)


def test_the_length_is_the_median_distance_of_pairs_unless_stated():
    encoder = ht.Encoder(maps={"shape": ht.Fourier(NUMBERS, 8)}).fit(TOLD)
    learned = encoder.schema()["maps"]["shape"]
    scales = np.array(learned["scales"])
    z = np.clip((Z - scales[:, 0]) / scales[:, 1], -3.0, 3.0)
    apart = np.sqrt(((z[:, None] - z[None]) ** 2).sum(axis=2))[np.triu_indices(N, 1)]
    assert learned["length"] == pytest.approx(np.median(apart), rel=1e-12)
    own = ht.Encoder(numbers={"hour": (12.0, 6.0)}, maps={"shape": ht.Fourier(NUMBERS, 8)})
    assert own.fit(TOLD).schema()["maps"]["shape"]["scales"][1] == [12.0, 6.0]
    equal = ht.Encoder(maps={"shape": ht.Fourier(["hour"], 8)}).fit({"hour": [3.0] * 9})
    assert equal.schema()["maps"]["shape"]["length"] == 1.0


def test_another_seed_draws_other_features_and_the_same_seed_the_same_ones():
    made = [
        ht.Encoder(maps={"shape": ht.Fourier(NUMBERS, 8)}, seed=seed).fit_transform(TOLD)
        for seed in (0, 0, 1)
    ]
    assert (made[0] == made[1]).all()
    assert not (made[0] == made[2]).any()


@pytest.mark.parametrize("forest", FORESTS)
def test_leaves_are_those_that_scikit_learn_says(forest):
    model = fitted(forest)
    X = ht.Encoder(maps={"leaf": ht.Leaves(NUMBERS, model)}).transform(TOLD)
    applied = model.apply(Z).reshape(N, -1)
    alike = np.array([(applied == row).mean(axis=1) for row in applied])
    assert X @ X.T == pytest.approx(alike, abs=1e-12)
    assert (np.count_nonzero(X, axis=1) == applied.shape[1]).all()


def test_leaves_round_numbers_as_scikit_learn_does():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(300, 1)).astype(np.float32).astype(np.float64)
    tree = DecisionTreeRegressor(random_state=0).fit(values, rng.normal(size=300))
    cuts = tree.tree_.threshold[tree.tree_.children_left >= 0]
    near = np.concatenate([[np.nextafter(c, -9), c, np.nextafter(c, 9)] for c in cuts])
    near = np.concatenate([near, near * (1 + 1e-8), near * (1 - 3e-8), near.astype(np.float32)])
    X = ht.Encoder(maps={"leaf": ht.Leaves(["v"], tree)}).transform({"v": near})
    _, wanted = np.unique(tree.apply(near[:, None]), return_inverse=True)
    _, given = np.unique(X.argmax(axis=1), return_inverse=True)
    assert (wanted == given).all()


@pytest.mark.parametrize(
    "made",
    [
        ht.Fourier(NUMBERS, 8),
        ht.Leaves(NUMBERS, fitted("random")),
        ht.Transformed(NUMBERS, make_pipeline(StandardScaler(), PolynomialFeatures(2)).fit(Z)),
    ],
    ids=["fourier", "leaves", "transformed"],
)
def test_maps_stand_in_crosses_keep_the_bound_and_are_zeros_where_a_number_is_missing(made):
    encoder = ht.Encoder(
        numbers={"basket": ht.Spline(4)}, categories=["segment"], maps={"m": made},
        crosses=[("segment", "m"), ("m", "basket"), ("basket", "m", "segment", 4)],
        missing="centre",
    ).fit(TOLD)  # fmt: skip
    told = {**TOLD, "basket": TOLD["basket"].copy()}
    told["basket"][::3] = np.nan
    told["basket"][1::3] *= 1e30
    X, names = encoder.transform(told), encoder.get_feature_names_out()
    assert (np.linalg.norm(X, axis=1) <= 1.0 + 1e-12).all()
    assert X[1] == pytest.approx(encoder.transform({k: v[1] for k, v in told.items()})[0])
    assert len(set(names)) == encoder.dim
    of_map = np.array([name.startswith(("m.", "m#")) for name in names])
    assert (X[::3][:, of_map] == 0.0).all()
    assert X[1::3][:, of_map].any(axis=1).all()


@pytest.mark.parametrize("kind", ["fourier", "leaves"])
def test_maps_go_through_json_files_and_pickles_to_the_bit(tmp_path, kind):
    made = ht.Fourier(NUMBERS, 8) if kind == "fourier" else ht.Leaves(NUMBERS, fitted("boosting"))
    encoder = ht.Encoder(maps={"m": made}, categories=["segment"], crosses=[("m", "segment")])
    X = encoder.fit_transform(TOLD)
    encoder.save(tmp_path / "it.npz")
    for twin in (
        ht.Encoder.from_schema(json.loads(json.dumps(encoder.schema()))), encoder.fixed(),
        ht.load(tmp_path / "it.npz"), pickle.loads(pickle.dumps(encoder)),
    ):  # fmt: skip
        assert twin.transform(TOLD).tobytes() == X.tobytes()
        assert twin.schema() == encoder.schema()


def test_a_forest_from_a_file_needs_no_scikit_learn(tmp_path):
    ht.Encoder(maps={"m": ht.Leaves(NUMBERS, fitted("random"))}).save(tmp_path / "it.npz")
    code = (
        "import sys\nsys.modules['sklearn'] = None\nimport heavytail as ht\n"
        f"e = ht.load({str(tmp_path / 'it.npz')!r})\n"
        "print(int((e.transform({'basket': 3.0, 'hour': 4.0}) > 0).sum()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "5"


def test_a_transformer_is_copied_scaled_by_a_quantile_and_never_saved(tmp_path):
    model = PCA(2).fit(Z)
    encoder = ht.Encoder(maps={"m": ht.Transformed(NUMBERS, model)}).fit(TOLD)
    X, raw = encoder.transform(TOLD), model.transform(Z)
    length = np.quantile(np.linalg.norm(raw, axis=1), 0.9)
    inside = np.linalg.norm(raw, axis=1) < length
    assert X[inside] == pytest.approx(raw[inside] / length)
    assert np.linalg.norm(X[~inside], axis=1) == pytest.approx(np.ones((~inside).sum()))
    model.fit(Z[::-1] ** 2)
    assert (encoder.transform(TOLD) == X).all()
    assert encoder.fixed().dim == 2
    policy = ht.TwinUCB(2)
    policy.encoder = encoder
    for act in (encoder.schema, lambda: encoder.save(tmp_path / "a"), lambda: policy.save("b")):
        with pytest.raises(ValueError, match=r"Transformed by a PCA and cannot be saved\. Use F"):
            act()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ht.Fourier("basket"), r'Fourier\.columns must be a list such as \["basket"'),
        (lambda: ht.Fourier(["a", "a"]), r"must name each column once"),
        (lambda: ht.Fourier(["a"], 0), r"Fourier\.pairs must be a whole number of at least 1"),
        (lambda: ht.Fourier(["a"], length=0.0), r"Fourier\.length must be a number"),
        (lambda: ht.Fourier(["a"], scales=[(0.0,)]), r"must list \(centre, scale\) of each"),
        (lambda: ht.Leaves(["a"], PCA()), r"must be a fitted decision tree, random .* got PCA"),
        (lambda: ht.Leaves(["a"], RandomForestRegressor()), r"must be a fitted decision tree"),
        (lambda: ht.Leaves(["a"], fitted("tree")), r"as many as the forest was fitted to, 2"),
        (lambda: ht.Leaves(["a"], [[(0, 1.0, 0, 1)]]), r"\[0\]\[0\]: left must be a whole number"),
        (lambda: ht.Leaves(["a"], [[(0, 1.0, 1, 9), (-1, 0, 0, 0)]]), r"right must be at most 1"),
        (lambda: ht.Transformed(["a"], 3), r"must be a fitted transformer of scikit-learn; got 3"),
        (lambda: ht.Encoder(maps=["m"]), r"maps must be such as"),
        (lambda: ht.Encoder(maps={"m": 3}), r"maps\['m'\] must be a map: Fourier"),
        (lambda: ht.Encoder(maps={"m": {"fourier": ["a"], "odd": 1}}), r"must be a map"),
        (lambda: ht.Encoder(maps={"m": {"leaves": ["a"], "trees": [3]}}), r"must list nodes"),
        (
            lambda: ht.Encoder(categories=["a"], maps={"m": ht.Fourier(["a"])}),
            r"takes the numbers of 'a', which is a column of texts elsewhere",
        ),
        (lambda: ht.Encoder(maps={"a": ht.Fourier(["a"])}), r"numbers of 'a', which is a map"),
        (
            lambda: ht.Encoder(maps={"m": ht.Fourier(["a"])}).dim,
            r"numbers of 'a', which a map takes, are not known: nothing was fitted\. Call fit",
        ),
    ],
)
def test_maps_that_cannot_be_are_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
