"""Names are labels: escaped wherever they are shown, never a path, never a formula."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail import cli
from heavytail.experiments.experiment import Table
from heavytail.experiments.plots import drawn, file_name
from heavytail.simulation import Results, Run

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


def test_names_do_not_steer_a_terminal_and_no_letter_is_warned_of(tmp_path, capsys, recwarn):
    file, out = tmp_path / "my.toml", (tmp_path / "out").as_posix()
    names = r"\u001b[2J\u202e\n\u4e2d", r"\u001b]0;title\u0007\u0000\ud55c"
    file.write_text(
        f'rounds = 20\ntrials = 2\nout = "{out}\\u001b[2J"\n[[policies]]\npolicy = "OFUL"\n'
        f'name = "{names[0]}"\ngrid = {{ radius_scale = [0.1, 1.0] }}\n[[worlds]]\n'
        f'name = "{names[1]}"\narms = 3\nnoise = {{ kind = "Gaussian" }}\norder = 1.9\n',
        encoding="utf-8",
    )
    assert cli.main(["run", str(file), "--jobs", "1"]) == 0
    said = capsys.readouterr()
    assert all(line.isprintable() for line in said.out.split("\n"))
    assert r"\x1b[2J\u202e 中" in said.out
    assert all(line.isprintable() for line in said.err.split("\n"))  # progress, where it is slow
    assert not [one for one in recwarn if "Glyph" in str(one.message)]


def test_tables_show_names_on_one_line():
    name = "a\x1b[2J\nb"
    text = Table(name, (name, "regret"), [(name, "1.0")]).text()
    assert text.split("\n") == [r"a\x1b[2J b", r"a\x1b[2J b  regret", r"a\x1b[2J b  1.0"]
    run = Run(np.zeros((1, 1)), np.zeros(1))
    assert r"a\x1b[2J b" in Results({name: run}, np.array([1])).table()
