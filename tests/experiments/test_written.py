"""What is written to disk: by the umask, whole or not at all, with the library's version inside."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.experiments import plots, report
from heavytail.experiments.machine import provenance
from heavytail.experiments.setting import write_table

BY = f"heavytail {ht.__version__}"


@pytest.fixture
def results():
    world = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian(0.1))
    return ht.simulate([ht.Uniform(2)], world, rounds=5, trials=1, seed=0, jobs=1)


def figure():
    drawn, (axis,) = plots.new_figure()
    axis.plot([0.0, 1.0], [0.0, 1.0])
    return drawn


def regression():
    pytest.importorskip("sklearn", reason="needs the extra: pip install 'heavytail[learn]'")
    rng = np.random.default_rng(0)
    return ht.OnePassHuberRegressor().fit(rng.normal(size=(60, 2)), rng.normal(size=60))


def writers(results):
    """Everything that writes one file, by the end of its name."""
    return {
        "policy.npz": ht.OFUL(2, noise_scale=1.0).save,
        "regression.npz": lambda path: regression().save(path),
        "results.parquet": results.save,
        "figure.png": lambda path: plots.save_one(figure(), path),
        "figure.svg": lambda path: plots.save_one(figure(), path),
        "figure.pdf": lambda path: plots.save_one(figure(), path),
        "table.parquet": lambda path: write_table(path, pa.table({"x": [1]}), {"seed": 1}),
    }


def test_a_file_has_what_the_umask_leaves_and_the_version_inside(results, tmp_path):
    before = os.umask(0o027)
    try:
        for name, write in writers(results).items():
            write(tmp_path / name)
    finally:
        os.umask(before)
    for name in writers(results):
        path = tmp_path / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, name
        content = path.read_bytes()
        if name.endswith(".parquet"):
            header = json.loads(pq.read_schema(path).metadata[b"heavytail"])
            assert header["library"] == ht.__version__, name
        elif name.endswith(".npz"):
            header = json.loads(str(np.load(path)["header"]))
            assert header["library"] == ht.__version__, name
        else:
            assert BY.encode() in content, name
    assert not list(tmp_path.glob("*.part"))


def test_a_write_that_fails_leaves_the_old_file_and_names_what_was_asked_for(
    results, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    os.mkdir("real")
    os.symlink("real", "link")

    def full(source, target):
        raise OSError(28, "No space left on device", str(source))

    for name, write in writers(results).items():
        (tmp_path / "real" / name).write_bytes(b"the old one")
        path = os.path.join("link", name)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(OSError, match="No space") as error:
                write(path)
        assert error.value.filename == path
        assert (tmp_path / "real" / name).read_bytes() == b"the old one"
        with pytest.raises((FileNotFoundError, ValueError), match="none/"):
            write(os.path.join("none", name))
    assert not list((tmp_path / "real").glob("*.part"))


def test_a_report_is_whole_and_says_which_version_made_it(tmp_path):
    report.write(tmp_path, [], [], provenance(), title="t", intro="i")
    assert f"heavytail {ht.__version__}" in (tmp_path / "report.html").read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_figure_that_is_there_is_not_drawn_again(tmp_path, monkeypatch):
    plots.save({"a": figure()}, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert sorted(before) == ["a.pdf", "a.png", "a.svg"]
    drawn = []
    image = plots._image
    monkeypatch.setattr(
        plots, "_image", lambda one, kind, **told: drawn.append(kind) or image(one, kind, **told)
    )
    plots.save({"a": figure()}, tmp_path)
    assert drawn == ["svg"]
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    (tmp_path / "a.pdf").unlink()
    plots.save({"a": figure()}, tmp_path)
    assert sorted(drawn) == ["pdf", "png", "svg", "svg"]
    other = figure()
    other.axes[0].set_title("another")
    plots.save({"a": other}, tmp_path)
    assert (tmp_path / "a.svg").stat().st_mtime_ns != before["a.svg"]
