"""What commands print fits the terminal: its letters, its width, and nobody at the other end."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heavytail import _terminal
from heavytail._terminal import as_table, paragraph, speak_plainly, width
from heavytail.cli import COMMANDS, main

ODD = "größe ✓ 中"


class Terminal:
    """Standard output and error that know ASCII alone."""

    def __init__(self, monkeypatch):
        self.streams = {name: io.BytesIO() for name in ("stdout", "stderr")}
        for name, raw in self.streams.items():
            monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding="ascii"))

    def said(self):
        sys.stdout.flush()
        sys.stderr.flush()
        return b"".join(raw.getvalue() for raw in self.streams.values()).decode("ascii")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    values = np.random.default_rng(0).pareto(1.5, (200, 2)).tolist()
    rows = "".join(f"{a},{b}\n" for a, b in values)
    (tmp_path / f"{ODD}.csv").write_text(f"{ODD},y\n{rows}", encoding="utf-8")
    mine = {"action": [0, 1] * 99, "reward": [1.0, 2.0] * 99, "propensity": [0.5] * 198}
    pq.write_table(pa.table({**mine, ODD: [0.25, 0.75] * 99}), tmp_path / "log.parquet")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_printed_in_ascii(command, monkeypatch):
    terminal = Terminal(monkeypatch)
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "usage: heavytail" in terminal.said()


@pytest.mark.parametrize(
    "words",
    [
        ["policies"],
        ["policies", "--markdown"],
        ["reproduce", "--list"],
        ["diagnose", f"{ODD}.csv", "--column", ODD, "--plot", f"{ODD}.png"],
        ["fit", f"{ODD}.csv", "--target", "y", "--plot", f"{ODD}.png", "--save", f"{ODD}.npz"],
        ["fit", f"{ODD}.csv", "--target", ODD],
        ["evaluate", "log.parquet", "--policy", f"column:{ODD}", "--html", f"{ODD}.html"],
    ],
)
def test_results_are_printed_in_ascii(words, folder, monkeypatch):
    terminal = Terminal(monkeypatch)
    assert main(words) == 0
    said = terminal.said()
    assert ODD not in " ".join(words) or "grosse yes \\u4e2d" in said


@pytest.mark.parametrize("command", [one for one in COMMANDS if one != "policies"])
def test_refusals_are_printed_in_ascii(command, folder, monkeypatch):
    told = {
        "diagnose": [ODD],
        "log": ["export", ODD, "log.parquet"],
        "warm": [ODD],
        "run": [ODD],
        "fit": [ODD, "--target", ODD],
        "evaluate": [ODD, "--policy", "uniform"],
        "reproduce": [ODD],
        "coverage": [ODD],
        "calibrate": ["--write", ODD],
        "serve": ["--host", ODD, "--store", "s"],
        "earned": [ODD, "shop"],
        "export": [ODD, "--csv"],
        "plot": [ODD],
    }
    terminal = Terminal(monkeypatch)
    assert main([command, *told[command]]) == 2
    assert "\\u4e2d" in terminal.said()


def test_the_c_locale_is_ascii_and_a_broken_pipe_is_nobodys_mistake(folder):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    env = {**env, "LC_ALL": "C"}
    run = [sys.executable, "-m", "heavytail"]
    words = ["diagnose", f"{ODD}.csv", "--column", "zé"]
    done = subprocess.run([*run, *words], capture_output=True, env=env)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"it has ['grosse yes \\u4e2d', 'y']" in done.stderr
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*run, "policies"], stdout=write, stderr=subprocess.PIPE, env=env)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("told", ["PYTHONIOENCODING", "PYTHONUTF8"])
@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_whoever_asks_for_an_encoding_gets_it_in_the_c_locale_too(locale, told, monkeypatch):
    for name in ("LC_CTYPE", "LANG", "PYTHONIOENCODING", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LC_ALL", locale)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setenv(told, "1")
    speak_plainly(stream)
    assert stream.encoding == "utf-8"
    monkeypatch.delenv(told)
    speak_plainly(stream)
    assert stream.encoding == "ascii"


def test_what_an_encoding_lacks_is_written_out(monkeypatch):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1")
    speak_plainly(stream)
    print("é ≥ ﬁ \udcff 中", file=stream, flush=True)
    assert raw.getvalue() == b"\xe9 >= fi \\udcff \\u4e2d\n"


def test_the_width_is_the_terminals_or_what_columns_says(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width() is None
    for told in ("0", "wide", "-3", "²"):
        monkeypatch.setenv("COLUMNS", told)
        assert width() is None
    monkeypatch.setenv("COLUMNS", "72")
    assert width() == 72
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(_terminal.os, "get_terminal_size", lambda place: os.terminal_size((91, 9)))
    with open(os.devnull, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert width() == 91


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_policies_are_no_wider_than_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["policies"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= max(columns, 54)  # where a word is no longer than that
    assert lines[0] == "Twin-UCB"


def test_policies_are_a_table_where_there_is_room_and_narrow_in_a_pipe(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["policies"]) == 0
    assert capsys.readouterr().out.startswith("policy ")
    monkeypatch.delenv("COLUMNS")
    assert main(["policies"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_a_table_becomes_blocks_where_it_is_too_wide():
    rows = [("a", "1", ""), ("b", "22", "some words " * 4)]
    assert as_table(("x", "y", "z"), [("a", "1", "2")], most=7, right=True) == "x  y  z\na  1  2"
    assert as_table(("x", "y", "z"), rows, most=30) == (
        "a\n  y  1\nb\n  y  22\n  z  some words some words\n     some words some words"
    )


def test_prose_is_wrapped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    assert paragraph("some words " * 5) == "some words some words some\nwords some words some words"
    for told in ("0", "300"):  # in a pipe, and where there is room for longer lines
        monkeypatch.setenv("COLUMNS", told)
        assert list(map(len, paragraph("ab" + " c" * 60).split("\n"))) == [100, 21]
