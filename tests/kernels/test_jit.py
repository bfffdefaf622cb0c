"""The on-disk cache is hit by an unchanged source and right after any change of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

import heavytail
from heavytail.kernels import jit

pytestmark = pytest.mark.compiled

# theory_radius, in one file, calls time_exponent, in another.
ASK = """
from heavytail.confidence import theory_radius
value = theory_radius(4.0, 1.0, 1.0, 0.0)
print(value, sum(theory_radius.stats.cache_hits.values()))
"""


def test_a_cached_kernel_follows_a_change_of_what_it_calls(tmp_path: Path) -> None:
    package = tmp_path / "heavytail"
    source = Path(heavytail.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = str(tmp_path)

    def ask() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert ask() == ["2.0", "0"]
    assert ask() == ["2.0", "1"]
    callee = package / "kernels" / "huber.py"
    before = callee.read_text()
    old = "return (2.0 - order) / (2.0 * order)"
    assert old in before
    callee.write_text(before.replace(old, "return 2.0 * (2.0 - order) / (2.0 * order)"))
    assert ask() == ["4.0", "0"]
    callee.write_text(before)
    assert ask()[0] == "2.0"


READ = """
import ctypes, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # from the next program on root may not write anywhere
import os
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
OTHER = "from heavytail.confidence import bmm_radius; print(bmm_radius(4.0, 1.0, 1.0, 1.0))"


@pytest.mark.skipif(os.name != "posix", reason="no folder is read-only for its owner")
def test_a_read_only_cache_is_read(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def ask(*code: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", *code],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    assert ask(ASK) == ["2.0", "0"]
    files = sorted(tmp_path.rglob("*"))
    (folder,) = (path for path in files if path.is_dir())
    folder.chmod(0o555)
    try:
        assert ask(READ, ASK) == ["2.0", "1"]
        assert ask(READ, OTHER) != []  # compiled, and not kept
        assert sorted(tmp_path.rglob("*")) == files
    finally:
        folder.chmod(0o755)


FIRST = """
import sys
import heavytail as ht
policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
policy.select([[1.0, 0.0], [0.0, 1.0]])
policy.update([1.0, 0.0], 1.0)
print(*(name for name in sys.modules if name in ("scipy.linalg", "numba.np.arraymath")))
print(*(name for name in sys.modules if name.startswith("heavytail.policies.") and "ucb" in name))
"""


def test_a_first_decision_from_the_cache_loads_neither_the_compiler_nor_other_policies() -> None:
    for _ in range(2):  # the first may have to compile
        done = subprocess.run(
            [sys.executable, "-c", FIRST], capture_output=True, text=True, check=True
        )
    assert done.stdout == "\nheavytail.policies.hvt_ucb\n"


# Machine code that hashes needs more of numba than that of heavytail's own kernels.
USER = """
from heavytail.kernels.jit import jit, specialise

@jit
def count(n):
    total = 0
    for i in range(n):
        total += hash("abc"[i % 3]) == hash("a")
    return total

def template(n):
    return inner(n)

outer = specialise(template, "outer", inner=count)
"""


def test_a_users_kernel_may_hash_and_is_cached(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(USER)
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    ask = "import mine; print(mine.outer(9), sum(mine.outer.stats.cache_hits.values()))"
    for hits in (0, 1):
        done = subprocess.run(
            [sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["3", str(hits)]


BELOW = """
from heavytail.kernels.jit import jit
import tables

@jit
def above(x):
    return tables.K * below(x)

@jit
def below(x):
    return FACTOR * x

FACTOR = 2.0
"""


def test_a_kernel_follows_what_is_defined_below_it_and_what_a_module_holds(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # or a file rewritten within a second is not read
    (tmp_path / "tables.py").write_text("K = 1.0")
    (tmp_path / "mine.py").write_text(BELOW.replace("import tables", "import other, tables"))
    (tmp_path / "other.py").write_text("")

    def ask(module: str) -> str:
        command = [sys.executable, "-c", f"import {module} as m; print(m.above(3.0))"]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert ask("mine") == "6.0"
    (tmp_path / "tables.py").write_text("K = 5.0")
    assert ask("mine") == "30.0"
    # The same file under another name is another kernel: its machine code names its module.
    (tmp_path / "mine.py").rename(tmp_path / "yours.py")
    assert ask("yours") == "30.0"


def written(text: str, **names: Any) -> Any:
    """A function that no file holds, which reads ``names``."""
    space = {"__name__": "somewhere", **names}
    exec(compile(text, "<string>", "exec"), space)
    return space["f"]


def test_what_lies_under_the_name_of_a_module_without_a_file_is_not_read(tmp_path, monkeypatch):
    """As where ``math`` is part of the interpreter."""
    monkeypatch.chdir(tmp_path)

    def stamp() -> str:
        built_in = types.ModuleType("math")
        return jit._examine(written("def f(x):\n    return math.sqrt(x)", math=built_in))[0]

    (tmp_path / "math").mkdir()
    first = stamp()
    (tmp_path / "math").rmdir()
    (tmp_path / "math").write_text("x")
    assert stamp() == first


def test_a_kernel_that_no_file_holds_is_stamped_by_its_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def stamp(text: str) -> str:
        return jit._examine(written(text))[0]

    first = stamp("def f(x):\n    return x + 1")
    (tmp_path / "<string>").mkdir()
    assert stamp("def f(x):\n    return x + 1") == first
    assert stamp("def f(x):\n    return x + 2") != first


def test_a_kernel_in_an_archive_follows_it(tmp_path, monkeypatch):
    stamps = []
    for number in (1, 1, 2):
        archive = tmp_path / f"{len(stamps)}" / "lib.zip"
        archive.parent.mkdir()
        with zipfile.ZipFile(archive, "w") as written_to:
            written_to.writestr("zipped_constants.py", f"K = {number}")
            written_to.writestr("zipped.py", "import zipped_constants as c\ndef f(): return c.K")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(archive))
            module = __import__("zipped")
            for name in ("zipped", "zipped_constants"):
                del sys.modules[name]
        stamps.append(jit._examine(module.f)[0])
    assert stamps[0] == stamps[1] != stamps[2]


def test_a_part_is_compiled_once_whatever_numbers_it_is_called_with():
    inner = jit.jit(written("def f(n): return n + 1"))
    outer = jit.jit(written("def f(): return inner(1) + inner(2)", inner=inner))
    assert outer() == 5
    assert len(inner._parts) == 1
