"""``heavytail fit``: the estimator's own numbers, the rows that do not fit, the model kept."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.cli import main
from heavytail.commands import fit

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

ROWS = 400
SLOPES = np.array([1.0, -0.2])


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A table in the current folder whose rows 9 and 31 do not fit; its features and targets."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)) * [1.0, 10.0]
    y = X @ SLOPES + 4.0 + rng.normal(size=ROWS)
    y[7], y[29] = 500.0, -3000.0
    lines = [f"{a!r},{b!r},{c!r}\n" for (a, b), c in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "d.csv").write_text("a,b,y\n" + "".join(lines))
    return X, y


def said(capsys, *words):
    assert main(["fit", *words]) == 0
    return capsys.readouterr().out


def refused(capsys, *words):
    before = sorted(os.listdir())
    assert main(["fit", *words]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error[:-1].isprintable()
    assert sorted(os.listdir()) == before
    return error


def numbers(text, name):
    """The numbers of a line that begins with ``name``."""
    line = next(line for line in text.splitlines() if line.split()[:1] == [name])
    return [float(word) for word in line.split()[1:]]


def test_coefficients_and_intervals_are_the_estimators(data, capsys):
    X, y = data
    text = said(capsys, "d.csv", "--target", "y", "--level", "0.9")
    mixed = fit._mixed(X, y)
    model = ht.OnePassHuberRegressor(standardize=True, level=0.9).fit(X[mixed], y[mixed])
    low, high = model.coef_interval()
    assert numbers(text, "a") == pytest.approx([model.coef_[0], low[0], high[0]], rel=1e-5)
    assert numbers(text, "b") == pytest.approx([model.coef_[1], low[1], high[1]], rel=1e-5)
    constant = [one[0] for one in model.predict([[0.0, 0.0]], return_interval=True)]
    assert numbers(text, "(constant)") == pytest.approx(constant, rel=1e-5)
    assert "90 % from" in text
    off = y - X @ model.coef_ - model.intercept_
    scale = 1.4826 * np.median(np.abs(off - np.median(off)))
    assert f"scale {scale:.6g}" in text


def test_outliers_are_listed_by_row_the_furthest_first(data, capsys):
    X, _ = data
    text = said(capsys, "d.csv", "--target", "y")
    assert f"Outliers: 2 of {ROWS} rows lie further than 5 scales" in text
    assert text.index("\n31 ") < text.index("\n9 ")
    first = numbers(text, "31")
    assert first[0] == -3000.0
    assert first[3:] == pytest.approx(X[29], rel=1e-5)
    text = said(capsys, "d.csv", "--target", "y", "--show", "1")
    assert "The 1 furthest:" in text
    assert "\n9 " not in text
    assert "No outliers" in said(capsys, "d.csv", "--target", "y", "--beyond", "1e6")


def test_clean_rows_are_no_outliers_where_the_mean_is_drawn_away(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    x, noise = rng.normal(size=(2, 1000))
    noise[::10] += 50.0  # a tenth: the mean is 5 above nine rows of ten
    lines = [f"{a!r},{a + b!r}\n" for a, b in zip(x.tolist(), noise.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(lines))
    text = said(capsys, "t.csv", "--target", "y", "--show", "0")
    assert "Outliers: 100 of 1,000 rows lie further than 5 scales" in text


def test_a_feature_that_never_moves_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("x,c,y\n" + "".join(f"{k},7,{2 * k % 5}\n" for k in range(30)))
    assert "Constant in all rows, so their effect is unknown: c." in said(
        capsys, "t.csv", "--target", "y"
    )


def test_a_sorted_file_gives_the_same_line(data, capsys, tmp_path):
    head, *lines = (tmp_path / "d.csv").read_text().splitlines(keepends=True)
    by_target = sorted(lines, key=lambda line: float(line.split(",")[2]))
    (tmp_path / "s.csv").write_text(head + "".join(by_target))
    first, second = (said(capsys, name, "--target", "y") for name in ("d.csv", "s.csv"))
    assert first.splitlines()[1:11] == second.splitlines()[1:11]


@pytest.mark.parametrize(
    ("rows", "noise", "words"),
    [
        (60, lambda rng, n: rng.exponential(size=n), "too few rows to estimate its tail (index "),
        (400, lambda rng, n: rng.normal(size=n), "and no heavy tail."),
        (
            400,
            lambda rng, n: np.append(rng.normal(size=n - 1), 1e6),
            "The furthest rows lie too far out to estimate its tail with them (index ",
        ),
        (400, lambda rng, n: rng.standard_t(1.2, n), "and a tail of index 1."),
    ],
)
def test_the_noise_has_a_tail_or_none_or_too_few_rows_to_tell(
    rows, noise, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=rows)
    y = x + noise(rng, rows)
    np.savetxt("n.csv", np.stack([x, y], axis=1), delimiter=",", header="x,y", comments="")
    assert words in " ".join(said(capsys, "n.csv", "--target", "y").split())


def test_features_can_be_chosen_and_another_response_asked_for(data, capsys):
    X, y = data
    text = said(capsys, "d.csv", "--target", "y", "--features", "b", "--response", "typical")
    mixed = fit._mixed(X[:, 1:], y)
    model = ht.OnePassHuberRegressor(target="typical", standardize=True)
    model.fit(X[mixed, 1:], y[mixed])
    assert numbers(text, "b")[0] == pytest.approx(model.coef_[0], rel=1e-5)
    assert "the typical y by b;" in text
    assert "the change of the typical value, which ignores outliers, when" in " ".join(text.split())
    both = said(capsys, "d.csv", "--target", "y", "--features", "b,a")
    apart = said(capsys, "d.csv", "--target", "y", "--features", "b", "--features", "a")
    assert both == apart
    assert both.index("\nb ") < both.index("\na ")


def test_the_model_is_kept_with_its_names(data, capsys):
    X, y = data
    text = said(capsys, "d.csv", "--target", "y", "--save", "m.npz")
    assert text.endswith("The model: m.npz\n")
    model = ht.load("m.npz")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.n_samples_seen_ == ROWS
    mixed = fit._mixed(X, y)
    plain = ht.OnePassHuberRegressor(standardize=True).fit(X[mixed], y[mixed])
    np.testing.assert_array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("name", ["p.png", "p.svg", "p.pdf"])
def test_a_picture_is_drawn(name, data, capsys):
    assert said(capsys, "d.csv", "--target", "y", "--plot", name).endswith(f"picture: {name}\n")
    assert os.path.getsize(name) > 5000


def test_parquet_gives_the_same(data, capsys):
    X, y = data
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), "d.parquet")
    first, second = (said(capsys, name, "--target", "y") for name in ("d.csv", "d.parquet"))
    assert first.splitlines()[1:8] == second.splitlines()[1:8]
    assert "\n30 " in second  # Parquet has no row of names


def test_a_perfect_fit_has_no_outliers(data, capsys, tmp_path):
    (tmp_path / "e.csv").write_text("x,y\n" + "".join(f"{k},{2 * k + 1}\n" for k in range(100)))
    text = said(capsys, "e.csv", "--target", "y", "--plot", "p.png")
    assert numbers(text, "x")[0] == pytest.approx(2.0, rel=1e-4)
    assert "No outliers" in text


def test_missing_rows_are_left_out_where_they_may_be(data, capsys, tmp_path):
    with open("d.csv", "a") as stream:
        stream.write("1,,3\nNA,2,3\n")
    assert f"row {ROWS + 2}, column 'b'" in refused(capsys, "d.csv", "--target", "y")
    text = said(capsys, "d.csv", "--target", "y", "--skip-missing")
    assert "2 rows without all values were left out." in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--target", "z"],
            "there is no column 'z'; it has ['a', 'b', 'y']. Name one of them by --target.",
        ),
        (["--target", "y", "--features", "a,z"], "there is no column 'z'"),
        (["--target", "y", "--features", "y"], "would explain itself"),
        (["--target", "y", "--level", "1"], "--level must be a number in (0, 1)"),
        (["--target", "y", "--beyond", "0"], "--beyond must be a number in (0, inf)"),
        (["--target", "y", "--show", "-1"], "--show must be a whole number of at least 0"),
        (["--target", "y", "--save", "none/m.npz"], "there is no folder none"),
        (["--target", "y", "--save", "."], "--save . exists and is not a file"),
        (["--target", "y", "--save", "d.csv"], "is the input file"),
        (["--target", "y", "--plot", "p.odd"], "--plot must name a file that ends with .png"),
    ],
)
def test_what_cannot_be_done_is_not_begun(words, problem, data, capsys, monkeypatch):
    assert problem in refused(capsys, "d.csv", *words)


def test_text_is_refused_by_its_column(data, capsys, tmp_path):
    (tmp_path / "t.csv").write_text("city,x,y\n" + "Rome,1,2\n" * 9)
    line = refused(capsys, "t.csv", "--target", "y")
    assert "row 2, column 'city': 'Rome' is not a finite number" in line
    assert "--features" in line
    assert numbers(said(capsys, "t.csv", "--target", "y", "--features", "x"), "x")
    pq.write_table(pa.table({"city": ["Rome"] * 9, "y": [1.0] * 9}), "t.parquet")
    line = refused(capsys, "t.parquet", "--target", "y")
    assert "row 1, column 'city': must be a number; got 'Rome'. Name columns of words by" in line


def test_a_target_of_text_is_neither_named_by_categories_nor_left_out(data, capsys, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n2,unknown\n" * 9)
    line = refused(capsys, "t.csv", "--target", "y")
    assert "row 3, column 'y': 'unknown' is not a finite number, nor are 8 of the next 16." in line
    assert line.endswith("correct it, or empty it and pass --skip-missing.\n")
    pq.write_table(pa.table({"x": [1.0] * 9, "y": ["a"] * 9}), "t.parquet")
    line = refused(capsys, "t.parquet", "--target", "y")
    assert "got 'a'. It must be a number in every row" in line
    for target in ("x", "y"):  # a price is no category, whether it explains or is explained
        (tmp_path / "e.csv").write_text("x,y\n" + '1,"12,50 EUR"\n' * 9)
        line = refused(capsys, "e.csv", "--target", target)
        assert line.endswith("Write the number alone, without its currency or unit.\n")


def test_rows_that_are_too_few_are_refused(data, capsys, tmp_path):
    (tmp_path / "s.csv").write_text("x,y\n1,2\n3,4\n")
    assert "has 2 rows, too few for 2 coefficients" in refused(capsys, "s.csv", "--target", "y")
    (tmp_path / "n.csv").write_text("x,y\n")
    assert "has no rows" in refused(capsys, "n.csv", "--target", "y")
    (tmp_path / "o.csv").write_text("y\n1\n")
    assert "has no column beside 'y'" in refused(capsys, "o.csv", "--target", "y")


@pytest.fixture
def cities(tmp_path, monkeypatch):
    """A table with a column of words; its lines, without the names."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    city = rng.choice(["Oslo", "Rome", "Bonn"], size=ROWS, p=[0.5, 0.3, 0.2]).tolist()
    x = rng.normal(size=ROWS)
    worth = {"Oslo": 4.0, "Rome": 7.0, "Bonn": 1.0}
    y = 2.0 * x + [worth[one] for one in city] + 0.1 * rng.standard_t(3, size=ROWS)
    y[5] = 900.0
    rows = zip(x.tolist(), city, y.tolist(), strict=True)
    lines = [f"{a!r},{one},{b!r}\n" for a, one, b in rows]
    (tmp_path / "c.csv").write_text("x,city,y\n" + "".join(lines))
    table = pa.table({"x": x, "city": pa.array(city).dictionary_encode(), "y": y})
    pq.write_table(table, tmp_path / "c.parquet")
    return lines


@pytest.mark.parametrize("name", ["c.csv", "c.parquet"])
def test_words_are_compared_to_the_most_frequent(name, cities, capsys):
    asked = ["--target", "y", "--response", "typical", "--categories", "city"]
    text = said(capsys, name, *asked, "--save", "m.npz", "--plot", "p.png")
    assert numbers(text, "city=Bonn")[0] == pytest.approx(-3.0, abs=0.1)
    assert numbers(text, "city=Rome")[0] == pytest.approx(3.0, abs=0.1)
    assert numbers(text, "(constant)")[0] == pytest.approx(4.0, abs=0.1)
    assert "Words are compared to the most frequent: city Oslo." in text
    line = next(line for line in text.splitlines() if " 900 " in line)  # with its own word
    assert line.split()[-1] == cities[5].split(",")[1]
    names = ht.load("m.npz").feature_names_in_.tolist()
    assert names == ["x", "city=Bonn", "city=Rome"]


def test_words_do_not_hang_on_the_order_of_rows(cities, capsys, tmp_path):
    (tmp_path / "r.csv").write_text("x,city,y\n" + "".join(reversed(cities)))
    asked = ["--target", "y", "--categories", "city"]
    names = [
        [line.split()[0] for line in said(capsys, name, *asked).splitlines() if "city=" in line]
        for name in ("c.csv", "r.csv")
    ]
    assert names[0] == names[1] == ["city=Bonn", "city=Rome"]
    (tmp_path / "tie.csv").write_text("w,y\n" + "b,1\na,2\n" * 3)
    assert "frequent: w a." in said(capsys, "tie.csv", "--target", "y", "--categories", "w")


def test_columns_of_words_are_features_without_being_named_twice(cities, capsys):
    asked = ["c.csv", "--target", "y", "--categories", "city"]
    both = said(capsys, *asked, "--features", "x,city")
    assert "the mean y by 3 features;" in both
    assert said(capsys, *asked, "--features", "x") == both == said(capsys, *asked)


def test_words_that_make_no_groups_are_refused(cities, capsys, tmp_path):
    asked = ["c.csv", "--target", "y"]
    assert "--categories" in refused(capsys, *asked)
    assert "no column 'town'" in refused(capsys, *asked, "--categories", "town")
    assert "--categories has the target 'y', which" in refused(capsys, *asked, "--categories", "y")
    (tmp_path / "ids.csv").write_text("id,y\n" + "".join(f"r{k},{k}\n" for k in range(200)))
    error = refused(capsys, "ids.csv", "--target", "y", "--categories", "id")
    assert "row 102" in error
    assert "more than 100 different words" in error
    (tmp_path / "one.csv").write_text("w,y\n" + "a,1\na,2\n" * 3)
    assert "all words" in refused(capsys, "one.csv", "--target", "y", "--categories", "w")
    (tmp_path / "both.csv").write_text("w,w=b,y\n" + "a,1,1\nb,2,2\na,4,3\n" * 3)
    assert "Rename" in refused(capsys, "both.csv", "--target", "y", "--categories", "w")
    (tmp_path / "gap.csv").write_text("w,y\n" + "a,1\n,2\nb,3\n" * 4)
    gap = ["gap.csv", "--target", "y", "--categories", "w"]
    assert "row 3, column 'w': the cell is empty" in refused(capsys, *gap)
    assert "4 rows without all values were left out" in said(capsys, *gap, "--skip-missing")
    (tmp_path / "none.csv").write_text("w,y\n")
    assert "has no rows" in refused(capsys, "none.csv", "--target", "y", "--categories", "w")
    (tmp_path / "gone.csv").write_text("w,y\n" + "a,1\nb,3\na,2\n" * 4 + "c,\n")
    gone = said(capsys, "gone.csv", "--target", "y", "--categories", "w", "--skip-missing")
    assert "w=b" in gone
    assert "w=c" not in gone  # no row that is left has it
    pq.write_table(pa.table({"w": [[1], [2]], "y": [1.0, 2.0]}), tmp_path / "l.parquet")
    assert "holds no words" in refused(capsys, "l.parquet", "--target", "y", "--categories", "w")
