"""Names are labels: escaped wherever they are shown, never a path, never a formula."""

from __future__ import annotations

import pytest

from heavytail import cli
from heavytail.experiments.plots import drawn, file_name

NASTY = [
    "../../outside",
    "/tmp/absolute",
    'a"><script>alert(1)</script>',
    r"$\frac$",
    "..",
    "a\\b",
    "é|x",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_file_name_is_no_path_and_no_markup(name):
    made = file_name(name)
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert made.strip(".") == made != ""
    assert file_name(name) == made


def test_names_that_differ_have_files_that_differ():
    names = [*NASTY, "a/b", "a b", "a-b", "", "x" * 300, "x" * 301]
    assert len({file_name(name) for name in names}) == len(names)
    assert file_name("scale-1.5") == "scale-1.5"


def test_a_formula_is_drawn_to_the_letter():
    assert drawn(r"$\frac$") == r"\$\frac\$"


@pytest.mark.parametrize("name", NASTY)
def test_a_run_with_such_names_stays_in_its_folder_and_escapes_them(tmp_path, name):
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    file = tmp_path / "in" / "my.toml"
    file.parent.mkdir()
    file.write_text(
        f"""
rounds = 20
trials = 2
out = "{(tmp_path / "in" / "out").as_posix()}"
[[policies]]
policy = "Uniform"
name = "{quoted}"
[[worlds]]
name = "{quoted}"
arms = 3
noise = {{ kind = "Gaussian" }}
order = 1.9
""",
        encoding="utf-8",
    )
    out = tmp_path / "in" / "out"
    assert cli.main(["run", str(file), "--jobs", "1"]) == 0
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in report
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and out not in path.parents]
    assert outside == [file]
