"""The mutation run itself, on a toy package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutation.mutants import accepted, mutants_of

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
    "unseen: - -> + #1",
    "unseen: 1.0 -> 0.0 #1",
    "unseen: 1.0 -> 0.5 #1",
    "unseen: 1.0 -> 2.0 #1",
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
    assert results["clipped: min -> max #1"] == "killed"
    assert results["clipped: * -> / #1"] == "killed"
    assert results["clipped: 0.0 -> 1.0 #1"] == "killed"
    assert results["clipped: < -> <= #1"] == "killed"
    assert results["LIMIT: 10.0 -> 20.0 #1"] == "killed"  # what import runs
    survivors = {key for key, status in results.items() if status != "killed"}
    assert len(survivors) == 4
    assert all(key.startswith("unseen: ") for key in survivors)
    shown = "return value - 1.0 => return value + 1.0"
    assert f"survives, line 14: toy.py:unseen: - -> + #1: {shown}" in printed

    # Explained survivors pass; nothing is run twice.
    code, printed, _, again = mutate(project, EXCUSED)
    assert code == 0, printed
    assert "4 explained" in printed
    assert again == first

    # A renamed local changes no name of a mutant; a changed file is run anew.
    (project / "src/toy/toy.py").write_text(SOURCE.replace("value", "number"))
    code, printed, _, again = mutate(project, EXCUSED, "--only", "unseen")
    assert code == 0, printed
    assert again == first + 4

    # An explanation of a mutant that does not exist is an error, and so is a survivor without one.
    (project / "src/toy/toy.py").write_text(SOURCE.replace("value - 1.0", "value - 4.0"))
    code, printed, _, _ = mutate(project, EXCUSED, "--only", "unseen")
    assert code == 1
    assert "stale, no such mutant: toy.py:unseen: 1.0 -> 2.0 #1" in printed
    assert "stale, no such mutant: toy.py:unseen: - -> + #1" not in printed
    assert "survives, line 14: toy.py:unseen: 4.0 -> 5.0 #1" in printed


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


def test_defaults_of_parameters_are_left_alone():
    assert changes("def f(x=1.0, *, y=-2, z=True):\n    return\n") == set()
    assert changes("f = lambda x=1: x + x\n") == {
        ("f = lambda x=1: x + x", "f = lambda x=1: x - x")
    }


def keys(source):
    return [m.key for m in mutants_of("a.py", source.encode())]


def test_a_mutant_is_named_by_its_function_its_operator_and_its_place_among_those():
    lines = "        s = np.zeros(n) + 1\n        return np.zeros(n) - s\n"
    source = f"class A:\n    def f(self, n):\n{lines}"
    assert keys(source) == [
        "a.py:A.f: zeros -> ones #1",
        "a.py:A.f: + -> - #1",
        "a.py:A.f: 1 -> 0 #1",
        "a.py:A.f: 1 -> 2 #1",
        "a.py:A.f: zeros -> ones #2",
        "a.py:A.f: - -> + #1",
    ]
    renamed = source.replace("s =", "state =").replace("- s", "- state")
    assert keys(renamed) == keys("\n\n" + source) == keys(source)


def test_outside_of_functions_a_mutant_is_named_by_what_is_bound():
    before = keys("B = a * b\n")
    assert before == ["a.py:B: * -> / #1"]
    assert keys("A: float = c * d\nB = a * b\n") == ["a.py:A: * -> / #1", *before]
    assert keys("class C:\n    b = not a\nx, y = u + v\n") == [
        "a.py:C.b: not removed #1",
        "a.py:: + -> - #1",
    ]


def test_every_survivor_that_is_explained_exists():
    excused = accepted(ROOT / "tests/mutation/survivors.toml")
    home = ROOT / "src" / "heavytail"
    files = {key.partition(":")[0] for key in excused}
    alive = [m.key for f in files for m in mutants_of(f, (home / f).read_bytes())]
    assert set(excused) - set(alive) == set()
    assert len(alive) == len(set(alive))
