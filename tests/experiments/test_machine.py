"""Where records may be written: a file the user names, or a source tree; never an installation."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from heavytail.experiments import machine
from heavytail.experiments.machine import provenance, record_at, source_tree

PROJECT = '[project]\nname = "heavytail"\n'


def tree(root: Path, project: str | None) -> Path:
    package = root / "src" / "heavytail"
    package.mkdir(parents=True)
    if project is not None:
        (root / "pyproject.toml").write_text(project)
    return package


def test_a_source_tree_has_the_librarys_project_file_above_the_package(tmp_path) -> None:
    assert source_tree(tree(tmp_path / "a", PROJECT)) == tmp_path / "a"
    assert source_tree(tree(tmp_path / "b", '[project]\nname = "other"\n')) is None
    assert source_tree(tree(tmp_path / "c", None)) is None
    assert source_tree(tree(tmp_path / "site-packages", PROJECT)) is None


def test_a_named_file_is_taken_and_an_installation_is_refused(tmp_path, monkeypatch) -> None:
    assert record_at(tmp_path / "mine.json", "x.json", "--tuned FILE") == tmp_path / "mine.json"
    monkeypatch.setattr(machine, "source_tree", lambda: tmp_path)
    assert record_at(None, "a/x.json", "--tuned FILE") == tmp_path / "a" / "x.json"
    monkeypatch.setattr(machine, "source_tree", lambda: None)
    with pytest.raises(ValueError, match="name a file: --tuned FILE"):
        record_at(None, "x.json", "--tuned FILE")


def test_a_provenance_does_not_say_where_things_lie(monkeypatch) -> None:
    words = ["heavytail", "reproduce", "--retune", "--tuned", "/home/me/x.json", "--trials", "3"]
    monkeypatch.setattr("sys.argv", words)
    assert provenance()["command"] == "heavytail reproduce --retune --trials 3"


def test_a_plus_marks_a_commit_whose_code_was_changed_and_no_new_record(tmp_path, monkeypatch):
    package = tmp_path / "src" / "heavytail"
    for name in ("experiments/machine.py", "kernels/gram.py", "reproduction/recorded/spread.json"):
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text("1\n")
    monkeypatch.setattr(machine, "__file__", str(package / "experiments" / "machine.py"))
    own = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*own, *words], check=True)
    clean = machine.commit()
    assert len(clean) == 10
    (package / "reproduction" / "recorded" / "spread.json").write_text("2\n")
    assert machine.commit() == clean
    (package / "kernels" / "gram.py").write_text("2\n")
    assert machine.commit() == clean + "+"
