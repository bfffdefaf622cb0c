"""``heavytail fit`` at its edges: names that could be two, fits without noise, exactly so many."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from heavytail.cli import main

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
    assert "the mean of y by a,b;" in text
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
