"""A missing extra is named before any work, with the line that installs it."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail._extras import MissingExtra, need
from heavytail.cli import COMMANDS, main

EXTRAS = ("matplotlib", "pyarrow", "sklearn", "distributed", "gymnasium", "starlette", "msgspec")
COMMANDED = {  # what a command needs, by its words
    ("reproduce", "student"): ("matplotlib and pyarrow", "experiments"),
    ("reproduce", "student", "--dask", "x:1"): ("distributed", "dask"),
    ("run", "my.toml"): ("matplotlib and pyarrow", "experiments"),
    ("export", "results", "--csv"): ("pyarrow", "experiments"),
    ("plot", "results"): ("matplotlib and pyarrow", "experiments"),
    ("run", "my.toml", "--dask", "x:1"): ("distributed", "dask"),
    ("coverage", "--out", "o"): ("matplotlib", "experiments"),
    ("diagnose", "d.csv", "--plot", "p.png"): ("matplotlib", "experiments"),
    ("diagnose", "d.parquet"): ("pyarrow", "logs"),
    ("fit", "d.csv", "--target", "x"): ("scikit-learn", "learn"),
    ("fit", "d.csv", "--target", "x", "--plot", "p.png"): ("matplotlib", "experiments"),
    ("evaluate", "d.parquet", "--policy", "uniform"): ("pyarrow", "logs"),
    ("evaluate", "d.parquet", "--policy", "uniform", "--html", "p.html"): (
        "matplotlib",
        "experiments",
    ),
    ("log", "export", "d", "d.parquet"): ("pyarrow", "logs"),
    ("serve", "--store", "s"): ("starlette", "serve"),
    ("earned", "s", "shop"): ("msgspec", "serve"),
}
WITHOUT = {"policies", "calibrate", "warm"}  # need none


@pytest.fixture
def hide(monkeypatch):
    """Makes packages as good as not installed."""

    def hidden(*packages):
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hidden


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text("")
    (tmp_path / "d.csv").write_text("x,y\n" + "1,2\n" * 60)
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "d.parquet")
    return tmp_path


def test_every_command_is_here():
    assert {words[0] for words in COMMANDED} | WITHOUT == set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDED, ids=" ".join)
def test_a_command_names_what_is_missing_and_writes_nothing(words, folder, hide, capsys):
    package, extra = COMMANDED[words]
    hide(*(one.replace("scikit-learn", "sklearn") for one in package.split(" and ")))
    before = sorted(folder.iterdir())
    assert main(list(words)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert package in error
    assert f"pip install 'heavytail[{extra}]'" in error
    assert sorted(folder.iterdir()) == before


def test_a_library_call_names_what_is_missing(hide, tmp_path):
    report = ht.tails.diagnose(np.arange(100.0) ** 3)
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian(0.1))
    results = ht.simulate([ht.Uniform(2)], world, rounds=5, trials=1, seed=0, jobs=1)
    calls = {
        "matplotlib": [report.plot],
        "pyarrow": [
            lambda: results.save(tmp_path / "r.parquet"),
            lambda: ht.Results.load(tmp_path / "r.parquet"),
            lambda: ht.DecisionLog(tmp_path / "log"),
        ],
        "httpx": [lambda: ht.Client("http://127.0.0.1:1"), lambda: ht.AsyncClient("http://a:1")],
    }
    hide(*calls)
    for package, mine in calls.items():
        for call in mine:
            with pytest.raises(
                MissingExtra, match=rf"needs {package}, .* pip install 'heavytail\["
            ):
                call()
    assert list(tmp_path.iterdir()) == []


def test_several_that_are_missing_are_named_at_once(hide):
    hide("matplotlib", "pyarrow")
    words = (
        "a needs matplotlib and pyarrow, which are not installed: pip install 'heavytail\\[b\\]'"
    )
    with pytest.raises(MissingExtra, match=words):
        need("a", "matplotlib", "pyarrow", "numpy", extra="b")


def test_a_package_that_is_half_imported_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", ModuleType("matplotlib"))  # has no spec
    with pytest.raises(MissingExtra, match="a needs matplotlib, which is not installed"):
        need("a", "matplotlib", extra="b")


@pytest.mark.parametrize("command", ["coverage", "calibrate"])
def test_a_gpu_that_is_not_there_is_one_line(command, capsys, monkeypatch):
    told = 'engine="cuda" needs an NVIDIA GPU. Use engine="compiled".'
    monkeypatch.setattr("heavytail.simulation.cuda.explain", lambda: told)
    assert main([command, "--engine", "cuda"]) == 2
    said = f"heavytail {command}: --engine cuda needs an NVIDIA GPU. Use --engine compiled.\n"
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize("command", ["reproduce", "run", "coverage", "calibrate"])
@pytest.mark.parametrize("jobs", ["0", "-2"])
def test_no_jobs_at_all_are_refused(command, jobs, capsys, folder):
    words = [command, *(["my.toml"] if command == "run" else []), "--jobs", jobs]
    assert main(words) == 2
    problem = f"--jobs must be a whole number of at least 1; got {jobs}."
    assert capsys.readouterr() == ("", f"heavytail {command}: {problem}\n")
