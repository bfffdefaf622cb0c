"""``heavytail diagnose`` looks at the column that is meant, and begins nothing it could not end."""

from __future__ import annotations

import os

import numpy as np
import pytest

from heavytail.cli import main
from heavytail.commands import diagnose
from heavytail.tables import file


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("words", [[], ["--column", "z"]])
def test_a_column_that_is_not_said_or_not_there_is_asked_for(words, tmp_path, capsys):
    path = written(tmp_path / "t.csv", "x,y\n1,2\n")
    assert main(["diagnose", str(path), *words]) == 2
    said = capsys.readouterr().err
    assert "x, y" in said.replace("'", "")
    assert "--column" in said


def test_two_columns_of_one_name_are_refused(tmp_path, capsys):
    path = written(tmp_path / "t.csv", "x,x\n1,2\n")
    assert main(["diagnose", str(path), "--column", "x"]) == 2
    assert (
        "2 columns are called 'x', and it is not clear which is meant." in capsys.readouterr().err
    )


def test_diagnose_takes_the_only_column_and_says_what_it_left_out(tmp_path, capsys):
    path = written(tmp_path / "t.csv", "x\nNA\n" + "\n".join(str(k * k) for k in range(1, 200)))
    assert main(["diagnose", str(path), "--skip-missing"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 rows without a value were left out.\n199 values")


def test_diagnose_does_not_begin_what_it_could_not_draw(tmp_path, capsys):
    path = written(tmp_path / "t.csv", "x\n" + "\n".join(str(k * k) for k in range(1, 200)))
    for plot in (tmp_path / "a.xyz", tmp_path / "none" / "a.png", tmp_path):
        assert main(["diagnose", str(path), "--plot", str(plot)]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert str(plot) in error
    assert os.listdir(tmp_path) == ["t.csv"]


def test_diagnose_does_not_hang_on_the_order_of_the_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).standard_t(1.7, size=3000)
    said = []
    for name, rows in {"as_is": values, "up": np.sort(values), "down": -np.sort(-values)}.items():
        (tmp_path / f"{name}.csv").write_text("y\n" + "\n".join(map(repr, rows.tolist())) + "\n")
        assert main(["diagnose", f"{name}.csv"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


def test_diagnose_says_when_the_order_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(diagnose, "WHOLE", 1000)
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).pareto(1.5, size=3000).tolist()
    (tmp_path / "y.csv").write_text("y\n" + "\n".join(map(repr, rows)) + "\n")
    said = []
    for chunk in (400, 5000):  # in parts, and at once
        monkeypatch.setattr(file, "CHUNK", chunk)
        assert main(["diagnose", "y.csv"]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    first, second, *_ = said[0].splitlines()
    assert first.startswith("More than 1,000 rows: ")
    assert "must not be sorted" in first
    assert second.startswith("3,000 values")  # each once
    monkeypatch.setattr(diagnose, "WHOLE", 3000)
    assert main(["diagnose", "y.csv"]) == 0
    assert capsys.readouterr().out.startswith("3,000 values")  # as many as are held


def test_a_large_table_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("heavytail.simulation.progress.FIRST", 0.0)
    path = written(tmp_path / "t.csv", "x\n" + "1\n2\n" * 40)
    assert main(["diagnose", str(path)]) == 0
    assert "rows read: 80," in capsys.readouterr().err


def test_what_has_no_name_is_said_so(tmp_path, capsys):
    assert main(["diagnose", ""]) == 2
    assert "the file's name is empty" in capsys.readouterr().err
    assert main(["diagnose", str(written(tmp_path / "t.csv", ",b\n1,2\n"))]) == 2
    assert "has (no name), b." in capsys.readouterr().err


@pytest.mark.parametrize("whole", [10_000, 500])
def test_that_most_values_are_equal_is_said(whole, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(diagnose, "WHOLE", whole)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    amounts = rng.pareto(1.5, size=2000) + 1.0
    amounts[rng.permutation(2000)[:1901]] = 0.0
    for name, values in {"zero": amounts, "seven": amounts + 7.0}.items():
        written(tmp_path / f"{name}.csv", "y\n" + "\n".join(map(repr, values.tolist())) + "\n")
    assert main(["diagnose", "zero.csv"]) == 0
    last = " ".join(capsys.readouterr().out.split())
    assert last.endswith(
        "1,901 of 2,000 values (95 %) are 0: the tail index is that of the other 99. "
        'See "Decide where most rewards are 0" in the documentation.'
    )
    assert main(["diagnose", "seven.csv"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "1,901 of 2,000 values (95 %) are 7: the tail index is that of the other 99."
    written(tmp_path / "same.csv", "y\n" + "3\n" * 600)
    assert main(["diagnose", "same.csv"]) == 0
    assert capsys.readouterr().out.endswith("All 600 values are 3: there is no tail to look at.\n")
    written(tmp_path / "half.csv", "y\n" + "3\n" * 300 + "4\n" * 300)
    assert main(["diagnose", "half.csv"]) == 0
    assert "values (" not in capsys.readouterr().out
