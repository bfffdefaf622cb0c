"""Units: their keys cover all that their numbers depend on; what is done is not run again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.environments.noise import StudentT
from heavytail.experiments.setting import Setting, build, trial_units
from heavytail.experiments.source import code_digest, files_of, kernel_modules, source_digest
from heavytail.experiments.store import Store, complete
from heavytail.experiments.unit import Unit, chunks, join

SETTING = Setting("mine", "Mine", "own", StudentT(2.1), 1.9)


def units(trials: int = 7, rounds: int = 200, base: int = 1, **options) -> list[Unit]:
    return trial_units(SETTING, build("OFUL", SETTING, rounds, **options), rounds, trials, base)


def test_finished_units_are_not_run_again_and_a_damaged_file_is(tmp_path: Path) -> None:
    mine = units()
    assert [unit.arguments["trials"] for unit in mine] == [5, 2]
    store = Store(tmp_path)
    first = complete(mine, store, jobs=1)
    stamp = store.path(mine[0]).stat().st_mtime_ns
    store.path(mine[1]).write_bytes(b"torn")
    second = complete(mine, store, jobs=1)
    assert store.path(mine[0]).stat().st_mtime_ns == stamp
    for unit in mine:
        np.testing.assert_array_equal(first[unit.key]["regret"], second[unit.key]["regret"])
        np.testing.assert_array_equal(first[unit.key]["regret"], unit.run()["regret"])
    assert join(mine, first).final.shape == (7,)


def test_what_measures_time_is_measured_each_time(tmp_path: Path) -> None:
    (alone,) = [Unit(u.call, u.arguments, runs="alone") for u in units(1)]
    complete([alone], Store(tmp_path), jobs=1)
    assert list(tmp_path.rglob("*.npz")) == []


def test_trials_of_a_unit_are_those_of_simulate() -> None:
    mine = units(7)
    found = join(mine, {unit.key: unit.run() for unit in mine})
    told = mine[0].arguments
    results = ht.simulate(
        [told["policy"]], told["environment"], rounds=200, trials=7, seed=told["seed"], jobs=1
    )
    np.testing.assert_array_equal(found.final, results["OFUL"].final)


def test_a_key_tells_everything_apart() -> None:
    found = [
        *units(),
        *units(rounds=201),
        *units(base=2),
        *units(radius_scale=0.5),
        Unit("heavytail.simulation.trials:other", units()[0].arguments),
    ]
    assert len({unit.key for unit in found}) == len(found)
    assert [unit.key for unit in units()] == [unit.key for unit in units()]


def test_chunks_cover_all_trials_once() -> None:
    assert list(chunks(12, 5)) == [(0, 5), (5, 5), (10, 2)]


def test_a_bandits_numbers_hang_on_the_kernels_and_not_on_reports_or_mdps() -> None:
    names = set(files_of(["heavytail.simulation.trials"]))
    assert {"heavytail.kernels.gram", "heavytail.policies.oful", "heavytail.tails"} <= names
    apart = ("heavytail.experiments", "heavytail.reproduction", "heavytail.mdp", "heavytail.cli")
    assert not [name for name in names if name.startswith(apart)]
    mdp = set(files_of(["heavytail.reproduction.mdp_trials"]))
    assert {"heavytail.mdp.planning", "heavytail.kernels.gram"} <= mdp
    assert "heavytail.control.loop" not in mdp


def test_modules_of_the_user_are_followed_wherever_they_are_imported(tmp_path, monkeypatch) -> None:
    (tmp_path / "pack").mkdir()
    files = {
        "top_mine.py": "import json\nimport numpy\nfrom pack import inner\n",
        "pack/__init__.py": "",
        "pack/inner.py": "def late():\n    from .deep import x\n    import side_mine as s\n",
        "pack/deep.py": "x = 1\n",
        "side_mine.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import never\n",
        "never.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = files_of(["top_mine"])
    assert set(found) == {"pack", "pack.deep", "pack.inner", "side_mine", "top_mine"}
    before = source_digest(frozenset({"top_mine"}))
    source_digest.cache_clear()
    (tmp_path / "pack" / "deep.py").write_text("x = 2\n")
    assert source_digest(frozenset({"top_mine"})) != before


def test_what_lies_under_the_name_of_a_module_without_a_file_is_not_read(
    tmp_path, monkeypatch
) -> None:
    class Loader:
        """Finds a module that comes from no file."""

        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            own = name == "made_by_hand"
            return ModuleSpec(name, None, origin="made up") if own else None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [Loader, *sys.meta_path])
    (tmp_path / "made up").write_text("not Python")
    assert files_of(["made_by_hand"]) == {}


STAMPED = '''"""A module."""

from typing import NamedTuple


class Pair(NamedTuple):
    """Two numbers."""

    low: float
    high: float = 1.0


def f(x, scale=2.0):
    """Double."""
    total = scale * x  # why
    text = f"{total}"
    for row in range(3):
        total += row
    return total, "#" * x, text
'''


@pytest.fixture
def digest(tmp_path, monkeypatch) -> Callable[[str], str]:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"stamped_{tmp_path.name}"  # its own, since where a module lies is looked up once
    path = tmp_path / f"{name}.py"

    def digest_of(text: str) -> str:
        path.write_text(text)
        code_digest.cache_clear()
        return code_digest(frozenset({name}))

    return digest_of


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""A module."""\n\n', '"""Another."""\n'),
        ('"""Double."""', '"""Two\n    times."""'),
        ("  # why", ""),
        ("typing import NamedTuple", "typing import Any, NamedTuple"),
        ("class Pair", "@final\nclass Pair"),
        ("class Pair", "__all__ = ['f']\nNumber = TypeVar('Number')\nclass Pair"),
        ("class Pair", "from here import Kind\nOften = Kind | Callable[[int], int]\nclass Pair"),
        ("low: float", "low: int"),
        ("f(x, scale=2.0)", "f(x: int, scale: float = 2.0) -> object"),
        ("scale * x", "(\n        scale * x)"),
        ("for row in range(3):\n        total += row", "for i in range(3):\n        total += i"),
    ],
)
def test_a_stamp_of_code_keeps_what_no_number_hangs_on(digest, before: str, after: str) -> None:
    assert before in STAMPED
    assert digest(STAMPED.replace(before, after)) == digest(STAMPED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"#" * x', '"!" * x'),
        ("total += row", "total += x"),
        ("total += row", "row += total"),
        ("        total += row", "        total += row\n    total += row"),
        ("scale=2.0", "scale=3.0"),
        ("f(x, scale", "f(x, size"),
        ("f(x, scale=2.0)", "g(x, scale=2.0)"),
        ("    low: float\n    high: float = 1.0", "    high: float\n    low: float = 1.0"),
        ("high: float = 1.0", "high: float = 2.0"),
        ('f"{total}"', 'f"{total}."'),
        ("class Pair", "LIMITS = ONE | TWO\nclass Pair"),
        ("class Pair", "from here import x\nclass Pair"),
    ],
)
def test_a_stamp_of_code_changes_with_the_code(digest, before: str, after: str) -> None:
    assert before in STAMPED
    assert digest(STAMPED.replace(before, after)) != digest(STAMPED)


def test_the_modules_of_a_kernel_are_those_of_all_it_calls() -> None:
    theory = ht.HvtUCB(2, tail=ht.MomentBound(1.5, 1.0), horizon=9, radius="theory")
    names = kernel_modules([theory.algorithm.update, theory.algorithm.select])
    core = {
        "heavytail.policies.hvt_ucb",
        "heavytail.policies.core.theory",
        "heavytail.kernels.gram",
    }
    assert core <= names
    assert "heavytail.policies.twin_ucb" not in names


FILE = """
rounds = 60
trials = 2
out = "out"
[[policies]]
policy = "first_arm:First"
[[worlds]]
name = "w"
arms = 5
order = 1.9
noise = { kind = "StudentT", df = 2.1 }
"""
POLICY = """
import numpy as np
import heavytail as ht
from heavytail.policies import Info
from helper import choice


class First(ht.Policy):
    name = "First"
    info = Info("none", "-", "T", "O(1)", "O(1)", "none")
    theta = property(lambda self: np.zeros(self.dim))
    radius = property(lambda self: 0.0)
    rounds = property(lambda self: 0)

    def __init__(self, dim):
        self._start(dim, None, None)

    def select(self, arms):
        return choice(arms)

    def update(self, x, reward, *, scale=None):
        pass

    def state_arrays(self):
        return {}

    def restore(self, arrays):
        pass
"""


def test_an_edit_of_a_module_that_a_users_policy_imports_is_seen(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(FILE)
    (tmp_path / "first_arm.py").write_text(POLICY)

    def regret(choice: str) -> list[float]:
        (tmp_path / "helper.py").write_text(f"def choice(arms):\n    return {choice}\n")
        command = [sys.executable, "-B", "-m", "heavytail", "run", "my.toml", "--jobs", "1"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ENV)
        assert done.returncode == 0, done.stderr
        rows = pq.read_table(tmp_path / "out" / "regret.parquet").to_pylist()
        return [row["regret"][-1] for row in rows]

    first = regret("0")
    assert regret("len(arms) - 1") != first
    assert regret("0") == first


ENV = {**os.environ, "PYTHONPATH": str(Path(ht.__file__).parents[1])}


def test_a_units_own_mistake_is_not_hidden() -> None:
    with pytest.raises(TypeError):
        Unit("heavytail.simulation.trials:trial_block", {"nonsense": 1}).run()
