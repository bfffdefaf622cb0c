"""How far it is: a bar on a terminal, lines elsewhere, and silence unless somebody asks."""

from __future__ import annotations

import io
import sys
import time

import pytest

from heavytail.simulation import progress
from heavytail.simulation.progress import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_nothing_is_said_where_nobody_asks_or_looks(capsys):
    for show in (None, False):
        with progress_bar(show, "work", 3) as bar:
            bar.advance()
    with progress_bar(True, "work", 3) as bar:  # and is done before a line is due
        bar.advance(3)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("total", "words"), [(4, "work: 1 of 4, "), (None, "work: 1, ")])
def test_lines_are_written_beside_the_work(total, words, capsys, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "NEXT", 0.01)
    said = ""
    with progress_bar(True, "work", total) as bar:
        bar.advance()
        for _ in range(2000):
            said += capsys.readouterr().err
            if words in said:
                break
            time.sleep(0.01)
        bar.advance(3)
    said += capsys.readouterr().err
    line = next(line for line in said.splitlines() if line.startswith(words))
    assert line.endswith(" s left") == (total is not None)
    assert said.splitlines()[-1].startswith("work: 4")


def test_work_that_fails_has_no_last_line(capsys, monkeypatch):
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "NEXT", 60.0)

    def fail():
        with progress_bar(True, "work", 4) as bar:
            bar.advance(4)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert capsys.readouterr().err.count("work") <= 1


@pytest.mark.parametrize("show", [None, True])
def test_a_terminal_has_a_bar(show, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar(show, "work", 4) as bar:
        bar.advance(4)
    assert "4/4" in sys.stderr.getvalue()
