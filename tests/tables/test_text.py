"""A file is read whatever it lies in, and refused by row and column where it cannot be."""

from __future__ import annotations

import gzip
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heavytail.tables import file as file_module
from heavytail.tables import text as text_module
from heavytail.tables.opening import opened

VALUES = [1.5, -2.25, 1000.0, 0.125]


def read(path, *columns, skip_missing=False, **told):
    """All rows and values of the columns, or of all of them."""
    with opened(str(path), **told) as table:
        rows = list(table.numbers(columns or table.names, skip_missing=skip_missing))
    return np.concatenate([one.at for one in rows]), np.concatenate([one.values for one in rows])


def refused(path, *columns, **told):
    with pytest.raises((ValueError, TypeError)) as error:
        read(path, *columns, **told)
    return str(error.value)


def written(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("x,y\n1.5,0\n-2.25,0\n1e3,0\n.125,0\n", "utf-8"),
        ("x,y\r\n1.5,0\r\n-2.25,0\r\n1000,0\r\n0.125,0", "utf-8-sig"),
        ('"x";"y"\n1,5;0\n-2,25;0\n1000;0\n,125;0\n', "utf-8"),
        ("x\ty\n1.5\t0\n-2.25\t0\n1000\t0\n0.125\t0\n", "utf-16"),
        ("x\ty\n1,5\t0\n-2,25\t0\n1e3\t0\n0,1250\t0\n", "utf-8"),
        ("x|y|größe\n1.5|0|ä\n-2.25|0|é\n1000|0|ß\n0.125|0|ü\n", "latin-1"),
        ('x,y,said\n1.5,0,"a; b"\n-2.25,0,"two\nlines"\n\n1000,0,\n0.125,0\n', "utf-8"),
        ("x,y\n1.5,0,\n-2.25,0\n1000,0\n0.125,0\n", "utf-8"),
        ("x,a;b\n1.5,c;d;e\n-2.25,f\n1000,g\n0.125,h\n", "utf-8"),
        ("x\n1,5\n-2,25\n1000\n0,125\n", "decimal comma"),
    ],
)
def test_text_is_read_however_it_is_written(text, encoding, tmp_path):
    alone = encoding == "decimal comma"
    path = written(tmp_path / "t.csv", text, "utf-8" if alone else encoding)
    _, values = read(path, "x", decimal_comma=alone)
    assert values[:, 0].tolist() == VALUES


def test_text_that_is_no_utf_8_is_what_spreadsheets_on_windows_write(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("10 €;größe;„x“".encode("cp1252") + b";\x81\n1;2;3;4\n")
    with opened(str(path)) as table:
        assert table.names == ["10 €", "größe", "„x“", "\x81"]


def test_rows_are_counted_as_a_spreadsheet_does(tmp_path):
    at, _ = read(written(tmp_path / "t.csv", "x\n1\n\n2\n"))
    assert at.tolist() == [2, 4]
    at, _ = read(written(tmp_path / "t.csv", "1\n2\n"))
    assert at.tolist() == [1, 2]


def test_a_file_without_names_has_numbered_columns(tmp_path):
    path = written(tmp_path / "t.csv", "1,NA\n2,20\n")
    with opened(str(path)) as table:
        assert (table.names, table.named) == (["1", "2"], False)
    assert read(path, "2", skip_missing=True)[1].tolist() == [[20.0]]
    with opened(str(path), header="yes") as table:
        assert table.names == ["1", "NA"]
    named = written(tmp_path / "n.csv", "x,y\n")
    with opened(str(named), header="no") as table:
        assert table.names == ["1", "2"]
    with opened(str(written(tmp_path / "m.csv", "na,-\n1,2\n"))) as table:  # no number among them
        assert (table.names, table.named) == (["na", "-"], True)


def test_gzip_and_parquet_and_standard_input_hold_the_same(tmp_path, monkeypatch):
    text = "x,word\n" + "".join(f"{v},a\n" for v in VALUES)
    zipped = tmp_path / "t.csv.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": VALUES, "word": ["a"] * 4}), table)
    for path in (zipped, table):
        assert read(path, "x")[1][:, 0].tolist() == VALUES
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        assert read("-", "x")[1][:, 0].tolist() == VALUES
        assert not sys.stdin.closed
    assert "row 1, column 'word': must be a number; got 'a'." in refused(table, "word")


def test_long_tables_come_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(file_module, "CHUNK", 3)
    path = written(tmp_path / "t.csv", "x\n" + "\n".join(map(str, range(8))))
    with opened(str(path)) as table:
        parts = [one.values[:, 0].tolist() for one in table.numbers(["x"], skip_missing=False)]
    assert parts == [[0, 1, 2], [3, 4, 5], [6, 7]]
    pq.write_table(pa.table({"x": list(range(8))}), tmp_path / "t.parquet")
    with opened(str(tmp_path / "t.parquet")) as table:
        parts = [one.at.tolist() for one in table.numbers(["x"], skip_missing=False)]
    assert parts == [[1, 2, 3], [4, 5, 6], [7, 8]]


MISSING = ["", "NA", "n/a", "#N/A", "NaN", "null", "None", "nil", "-", "?", "."]


@pytest.mark.parametrize("missing", MISSING)
def test_a_missing_value_is_refused_by_its_row_unless_it_may_be_skipped(missing, tmp_path):
    path = written(tmp_path / "t.csv", f"x,y\n1,2\n{missing},4\n5,6\n")
    words = refused(path)
    assert f"{path}, row 3, column 'x': " in words
    assert words.endswith("Fill it, or pass --skip-missing.")
    at, values = read(path, skip_missing=True)
    assert (at.tolist(), values.tolist()) == ([2, 4], [[1, 2], [5, 6]])


def test_rows_are_numbered_as_a_spreadsheet_does(tmp_path):
    path = written(tmp_path / "t.csv", 'x,y\n"1\n",2\n\na,4\n')  # the third is blank
    assert "row 4, column 'x': 'a'" in refused(path)  # line 5 of the file


def test_a_row_that_ends_early_lacks_its_last_values(tmp_path):
    path = written(tmp_path / "t.csv", "x,y\n1,2\n3\n5,6\n")
    assert f"{path}, row 3, column 'y': the cell is empty." in refused(path)
    assert read(path, skip_missing=True)[1].tolist() == [[1, 2], [5, 6]]


def test_a_missing_value_of_parquet_likewise(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0, None, 3.0], "y": [1, 2, 3]}), path)
    assert f"{path}, row 2, column 'x': the value is missing." in refused(path)
    assert read(path, skip_missing=True)[0].tolist() == [1, 3]
    with opened(str(path)) as table:
        list(table.numbers(["x"], skip_missing=True))
        assert table.skipped == 1
    pq.write_table(pa.table({"x": [1.0, float("inf")]}), path)
    assert "row 2, column 'x': inf is not a finite number" in refused(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x\n1\nabc\n", "row 3, column 'x': 'abc' is not a finite number"),
        ("x\n1\ninf\n", "'inf' is not a finite number"),
        ("x\n1\n1_000\n", "'1_000' is not a finite number"),
        ("x;y\n1,5;1\n2.5;1\n", "row 3, column 'x': '2.5', and row 2 has the other"),
        ("x;y\n1.234,5;1\n", "'1.234,5' has thousands separators"),
        ("x,y\n1,2\n0.04,1,905\n", "row 3: 3 cells in 2 columns. Put quotes"),
        ("x;y\n1.234;0,5\n", "'1.234' has a point, and other numbers have a decimal comma"),
        ("x\ty\n1.234,5\t1\n", "row 2, column 'x': '1.234,5' has thousands separators. Write all"),
        ("x\ty\n1,234,567.8\t1\n", "'1,234,567.8' has thousands separators"),
        ("x\ty\n12 345\t1\n", "'12 345' has thousands separators"),
        ("x\ty\n1,234\t1\n", "'1,234' may be a decimal fraction or thousands. Pass --decimal"),
    ],
)
def test_what_is_no_number_or_could_be_two_is_refused(text, words, tmp_path):
    assert words in refused(written(tmp_path / "t.csv", text), "x")


def test_the_number_of_cells_that_are_none_either_is_said(tmp_path):
    path = written(tmp_path / "t.csv", "x\nabc\n1\ndef\nNA\n1,5\nghi\n")
    assert "row 2, column 'x': 'abc' is not a finite number, nor are 2 of the next 5." in refused(
        path, "x"
    )
    path = written(tmp_path / "t.csv", "x\n1\nabc\ndef\n2\n")
    assert "'abc' is not a finite number, nor is 1 of the next 2." in refused(path, "x")


MEASURED = [
    "12.50 EUR",
    "$1,234.50",
    "US$ 5",
    "USD 12",
    "-5 \u20ac",
    "5kg",
    "10 km/h",
    "20 °C",
    "5%",
]
WORDS = ["2nd", "10th", "12A", "18-25", "25+", "ABC123", "BMW 320", "3rd class", "Rome", "1_000"]


@pytest.mark.parametrize("cell", [*MEASURED, *WORDS])
def test_a_number_with_a_unit_is_no_word(cell, tmp_path):
    path = written(tmp_path / "t.csv", f"x\ty\n{cell}\t1\n")
    with opened(str(path)) as table, pytest.raises(ValueError, match="column 'x'") as refusal:
        list(table.numbers(["x"], skip_missing=False, hint=" Name it."))
    alone = "Write the number alone, without its currency or unit."
    assert str(refusal.value).endswith(alone if cell in MEASURED else "Name it.")


def test_points_where_commas_are_decimal(tmp_path):
    path = written(tmp_path / "t.csv", "x;y\n1.5;1\n7.936;2\n")
    assert "row 2, column 'x': '1.5' has a point" in refused(path, "x", decimal_comma=True)
    for text in ("x;y\n0.123;0,5\n", "x;y\n7.936;2\n", "x,y\n7.936,2,\n"):  # not in doubt
        path = written(tmp_path / "t.csv", text)
        assert read(path, "x")[1][0, 0] == float(text.split("\n")[1][:5])


def test_a_decimal_comma_that_is_asked_for_is_one(tmp_path):
    path = written(tmp_path / "t.csv", "1,234\n2,5\n")
    assert read(path, decimal_comma=True)[1][:, 0].tolist() == [1.234, 2.5]


def test_a_comma_between_semicolons_is_a_decimal_one(tmp_path):
    path = written(tmp_path / "t.csv", "1,234;2,5\n3,5;4,125\n")
    assert read(path)[1].tolist() == [[1.234, 2.5], [3.5, 4.125]]


def test_bytes_of_0_and_a_line_without_end_are_no_text(tmp_path, monkeypatch):
    path = written(tmp_path / "t.csv", "x,y\n1,a\0b\n")
    assert f"{path} is not text: it has zero bytes." in refused(path, "x")
    monkeypatch.setattr(text_module, "LONGEST", 10)
    assert read(written(path, "x\n12345678\n"))[1].tolist() == [[12345678]]
    words = f"{path} has a line of 10 characters. Is it a CSV file?"
    assert words in refused(written(path, "x\n123456789\n"))


def test_a_row_that_misses_a_value_is_left_out_whatever_its_other_cells_hold(tmp_path):
    for row in ("NA,abc", "abc,NA"):
        path = written(tmp_path / "t.csv", f"x,y\n{row}\n5,6\n")
        assert read(path, skip_missing=True)[1].tolist() == [[5, 6]]
        assert f"{path}, row 2, column " in refused(path)
