"""``heavytail fit`` at its edges: names that could be two, fits without noise, exactly so many."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from heavytail import _memory
from heavytail.cli import main
from heavytail.tables import file
from heavytail.tables.opening import opened

pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")

from heavytail.commands._fit_findings import Findings


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Writes rows of noise with two that do not fit, the 9th and the 31st, as d.csv."""
    monkeypatch.chdir(tmp_path)

    def write(rows, names="a,b,y"):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(rows, 2))
        y = X @ [1.0, -2.0] + rng.normal(size=rows)
        y[7], y[29] = 500.0, -3000.0
        lines = [",".join(map(repr, row)) for row in np.column_stack([X, y]).tolist()]
        (tmp_path / "d.csv").write_text("\n".join([names, *lines, ""]))

    return write


def said(capsys, *words):
    assert main(["fit", "d.csv", "--target", "y", *words]) == 0
    return capsys.readouterr().out


def found(residuals, *, scale, beyond=5.0, height=0.0):
    """Rows around a fit that is ``height`` everywhere, by a model that says ``scale``."""
    y = height + np.array(residuals)
    return Findings(
        model=SimpleNamespace(coef_=np.zeros(1), intercept_=height, scale_=scale),
        path="d.csv",
        target="y",
        at=np.arange(len(y)),
        design=SimpleNamespace(X=np.zeros((len(y), 1))),
        y=y,
        skipped=0,
        beyond=beyond,
        listed=10,
    )


def test_a_column_with_a_comma_in_its_name_is_one(table, capsys):
    table(60, names='"a,b",c,y')
    text = said(capsys, "--features", "a,b")
    assert "the mean y by a,b;" in text
    assert said(capsys, "--features", "a,b", "--features", "c") == said(capsys)


def test_a_feature_that_is_named_twice_counts_once(table, capsys):
    table(60)
    assert said(capsys, "--features", "a,b,a", "--features", "b") == said(capsys)


@pytest.mark.parametrize(("rows", "looked"), [(49, False), (50, True)])
def test_the_tail_of_50_residuals_is_looked_at(rows, looked, table, capsys):
    table(rows)
    assert (" tail" in said(capsys).partition("The noise has scale")[2].split("\n\n")[0]) is looked


def test_outliers_are_named_as_the_furthest_only_where_there_are_more(table, capsys):
    table(400)
    assert "The 1 furthest:" in said(capsys, "--show", "1")
    assert "furthest:" not in said(capsys, "--show", "2")


def test_an_outlier_is_above_or_below(table, capsys):
    table(400)
    away = {line.split()[0]: line.split()[3] for line in said(capsys).splitlines()[-2:]}
    assert away["9"].startswith("+")
    assert away["31"].startswith("-")


def test_where_more_than_half_fit_exactly_the_scale_is_the_models():
    assert found([0.0, 0.0, 0.0, 1.0, -7.0], scale=0.25).scale == 0.25
    assert found([-1.0, 0.0, 0.0, 1.0, 1.0], scale=0.25).scale == pytest.approx(1.4826)


def test_a_row_as_far_as_the_limit_is_no_outlier():
    rows = found([0.0, 0.0, 0.0, 5.0, np.nextafter(5.0, 6.0)], scale=1.0)
    assert rows.limit == 5.0
    assert rows.outliers.tolist() == [4]


def test_what_rounding_leaves_is_no_outlier():
    """Of values near 1e6 a residual below 1e-3, however small the scale."""
    rows = found([0.0, 0.0, 0.0, 1e-4, -2e-3], scale=1e-12, height=1e6)
    assert rows.limit == pytest.approx(1e-3, rel=1e-6)
    assert rows.outliers.tolist() == [4]


def test_a_table_of_more_columns_than_there_is_memory_for_is_refused_before_it_is_read(
    tmp_path, monkeypatch, capsys
):
    """Columns are looked up by name: 60,000 names are not compared with each other."""
    monkeypatch.setattr(_memory, "memory", lambda: 2.0**30)
    names = [f"x{k}" for k in range(60_000)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), ",".join("?" for _ in names)]))
    assert main(["fit", str(path), "--target", "x7"]) == 2
    problem = capsys.readouterr().err
    assert "a regression of features=59999 would need at least" in problem
    assert "Name fewer columns by --features" in problem


def test_rows_beyond_memory_are_refused_while_they_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_memory, "memory", lambda: 2.0**22)
    monkeypatch.setattr(_memory, "SMALL", 2**10)
    monkeypatch.setattr(file, "CELLS", 2**10)
    path = tmp_path / "long.csv"
    path.write_text("x,y\n" + "1,2\n" * 250_000 + "no number\n")
    assert main(["fit", str(path), "--target", "y"]) == 2
    assert "rows of 2 numbers would need at least" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_few_rows_of_many_columns_are_handed_on_at_a_time(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(file, "CELLS", 12)
    frame = pd.DataFrame({"a": range(10), "b": range(10), "c": range(10)})
    path = str(tmp_path / f"t.{kind}")
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    with opened(path) as table:
        parts = list(table.numbers(["a", "b", "c"], skip_missing=False))
    assert [len(rows.at) for rows in parts] == [4, 4, 2]
    assert np.concatenate([rows.values[:, 1] for rows in parts]).tolist() == list(range(10))
