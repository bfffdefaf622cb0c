"""The mutation run itself, on a toy package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutation.mutants import mutants_of

ROOT = Path(__file__).parents[2]
SOURCE = '''
"""A toy: 1 + 1 in words is no code."""
LIMIT: float = 10.0


def clipped(value: float) -> float:
    """The value times two, at most LIMIT; 3 * 3 here is no code either."""
    if value < 0.0:
        raise ValueError("not below " + str(0.0 - 1.0))
    return min(2.0 * value, LIMIT)


def unseen(value: float) -> float:
    return value - 1.0
'''
TESTS = """
import pytest
from toy.toy import clipped


def test_a_small_value_is_doubled():
    assert clipped(3.0) == 6.0


def test_a_large_value_is_clipped():
    assert clipped(100.0) == 10.0
    assert clipped(0.0) == 0.0


def test_a_negative_value_is_refused():
    with pytest.raises(ValueError):
        clipped(-0.5)
"""
TABLE = """
package = "toy"
[[target]]
name = "toy"
sources = ["*.py"]
tests = ["tests"]
"""
EXCUSED = """
[[accepted]]
file = "toy.py"
reason = "nobody calls it"
mutants = [
    "unseen: return value - 1.0 => return value + 1.0",
    "unseen: return value - 1.0 => return value - 0.0",
    "unseen: return value - 1.0 => return value - 0.5",
    "unseen: return value - 1.0 => return value - 2.0",
]
"""


@pytest.fixture
def project(tmp_path):
    for name, text in {
        "src/toy/toy.py": SOURCE,
        "src/toy/__init__.py": "",
        "tests/test_toy.py": TESTS,
        "table.toml": TABLE,
        "pyproject.toml": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def mutate(project, excused="", *more):
    (project / "survivors.toml").write_text(excused)
    places = ["--root", "", "--table", "table.toml", "--survivors", "survivors.toml"]
    options = [str(project / p) if not p.startswith("--") else p for p in places]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *options, *more],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        env=environment,
    )
    lines = (project / "build" / "mutation" / "results.jsonl").read_text().splitlines()
    results = {e["key"].partition(":")[2]: e["status"] for e in map(json.loads, lines)}
    return done.returncode, done.stdout, results, len(lines)


def test_a_mutant_that_a_test_notices_is_killed_and_one_that_none_does_survives(project):
    code, printed, results, first = mutate(project)
    assert code == 1
    last = "clipped: return min(2.0 * value, LIMIT) => return"
    assert results[f"{last} max(2.0 * value, LIMIT)"] == "killed"
    assert results[f"{last} min(2.0 / value, LIMIT)"] == "killed"
    assert results["clipped: if value < 0.0: => if value < 1.0:"] == "killed"
    assert results["clipped: if value < 0.0: => if value <= 0.0:"] == "killed"
    # What import runs.
    assert results[": LIMIT: float = 10.0 => LIMIT: float = 20.0"] == "killed"
    survivors = {key for key, status in results.items() if status != "killed"}
    assert len(survivors) == 4
    assert all(key.startswith("unseen: return value - 1.0 =>") for key in survivors)
    assert "survives, line 14: toy.py:unseen: return value - 1.0 => return value + 1.0" in printed

    # Explained survivors pass; nothing is run twice.
    code, printed, _, again = mutate(project, EXCUSED)
    assert code == 0, printed
    assert "4 explained" in printed
    assert again == first

    # An explanation of a mutant that does not exist is an error, and a changed file is run anew.
    (project / "src/toy/toy.py").write_text(SOURCE.replace("value - 1.0", "value - 4.0"))
    code, printed, _, again = mutate(project, EXCUSED, "--only", "unseen")
    assert code == 1
    assert (
        "stale, no such mutant: toy.py:unseen: return value - 1.0 => return value + 1.0" in printed
    )
    assert again == first + 4


def changes(source):
    return {(m.before, m.after) for m in mutants_of("a.py", source.encode())}


def test_every_kind_of_change_is_made():
    assert changes("def f(a):\n    return not (a < 1.5 and -a != 3)\n") == {
        ("return not (a < 1.5 and -a != 3)", f"return {after}")
        for after in (
            "(a < 1.5 and -a != 3)",
            "not (a <= 1.5 and -a != 3)",
            "not (a >= 1.5 and -a != 3)",
            "not (a < 2.5 and -a != 3)",
            "not (a < 3.0 and -a != 3)",
            "not (a < 0.75 and -a != 3)",
            "not (a < 1.5 or -a != 3)",
            "not (a < 1.5 and a != 3)",
            "not (a < 1.5 and -a == 3)",
            "not (a < 1.5 and -a != 4)",
            "not (a < 1.5 and -a != 6)",
            "not (a < 1.5 and -a != 1)",
        )
    }
    assert changes("x += y ** 0") == {
        ("x += y ** 0", "x -= y ** 0"),
        ("x += y ** 0", "x += y * 0"),
        ("x += y ** 0", "x += y ** 1"),
    }
    assert changes("def f(x) -> bool:\n    return g(x)\n") == {("return g(x)", "return not g(x)")}
    assert changes("if flag:\n    x = True\n") == {
        ("if flag:", "if not flag:"),
        ("x = True", "x = False"),
    }


def test_words_are_left_alone():
    for source in (
        '"""1 + 1"""',
        "x: Literal[1, 2]",
        "@jit(1 + 1)\ndef f(x: Array[1]) -> Array[2]: ...",
        'raise ValueError(1 - 2, f"{3 + 4}")',
        "assert a < b",
        '__all__ = ["a" + "b"]',
        'f"{x + 1:.3f}"',
    ):
        assert changes(source) == set()


def test_equal_changes_of_equal_lines_have_names_of_their_own():
    keys = [m.key for m in mutants_of("a.py", b"x = a + b\nx = a + b\n")]
    assert keys == ["a.py:: x = a + b => x = a - b", "a.py:: x = a + b => x = a - b (2)"]
