"""Whole files as tables: numbers where a column has numbers, texts elsewhere."""

import pytest

from heavytail.tables.opening import rows_of


def written(tmp_path, cells):
    path = tmp_path / "it.csv"
    path.write_text("\n".join(["basket,segment", *(f"{cell},new" for cell in cells)]))
    return path


def test_a_column_of_numbers_is_one_and_a_column_of_texts_is_not(tmp_path):
    rows = rows_of(written(tmp_path, ["1.5", "", "7"]), "log")
    assert rows.column("basket")[[0, 2]].tolist() == [1.5, 7.0]
    assert rows.column("segment") == ["new"] * 3


def test_a_text_among_many_numbers_is_refused_by_its_row(tmp_path):
    path = written(tmp_path, [*map(str, range(40)), "12 EUR", *map(str, range(40))])
    with pytest.raises((TypeError, ValueError), match=r"row 42.*'basket'.*12 EUR"):
        rows_of(path, "log")


def test_ids_of_which_some_are_numbers_are_texts(tmp_path):
    rows = rows_of(written(tmp_path, ["7", "A-17", "8"] * 10), "log")
    assert rows.column("basket")[:3] == ["7", "A-17", "8"]


def test_thousands_are_refused_however_many_they_are(tmp_path):
    path = written(tmp_path, ["288", "1.234,50", "999"] * 10)
    path.write_text(path.read_text().replace(",new", ";new").replace("basket,", "basket;"))
    with pytest.raises(ValueError, match=r"row 3.*'1\.234,50' has thousands separators"):
        rows_of(path, "log")
