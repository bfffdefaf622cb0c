"""Outputs that would destroy something, streams that nobody reads, calls that leave nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heavytail import _archive
from heavytail.cli import main

ROWS = "x,y\n" + "".join(f"{k},{k * k % 17}\n" for k in range(60))


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text(ROWS)


def refused(capsys, *words):
    before = {one: one.read_bytes() for one in Path().iterdir() if one.is_file()}
    assert main(list(words)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert {one: one.read_bytes() for one in Path().iterdir() if one.is_file()} == before
    return error


def started(*words, **streams):
    command = [sys.executable, "-m", "heavytail", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.parametrize("other", ["same.png", "./same.png"])
def test_one_option_does_not_write_over_another(other, capsys):
    pytest.importorskip("sklearn")
    asked = ["fit", "d.csv", "--target", "y", "--save", "same.png", "--plot", other]
    assert "is the file that --save writes" in refused(capsys, *asked)


@pytest.mark.parametrize("link", [False, True])
def test_no_picture_takes_the_place_of_what_is_read(link, capsys):
    os.rename("d.csv", "in.svg")
    if link:
        os.symlink("in.svg", "out.svg")
    asked = ["diagnose", "in.svg", "--column", "y", "--plot", "out.svg" if link else "in.svg"]
    assert "is the input file" in refused(capsys, *asked)


def test_a_file_that_may_not_be_written_is_not_replaced(monkeypatch):
    Path("theirs.npz").write_bytes(b"theirs")
    real = os.access  # whoever runs as root may write anything
    monkeypatch.setattr(
        "os.access", lambda path, mode: Path(path).name != "theirs.npz" and real(path, mode)
    )
    with pytest.raises(ValueError, match=r"^--save theirs.npz: Permission denied"):
        _archive.check_target("theirs.npz", "--save")
    with pytest.raises(PermissionError):
        _archive.replace("theirs.npz", b"ours")
    assert Path("theirs.npz").read_bytes() == b"theirs"


def test_closed_streams_are_no_stack_trace():
    code = "import os, sys; os.close({}); os.execv(sys.executable, [sys.executable, '-m', *{!r}])"
    for stream, words, status in [
        (1, ["heavytail", "policies"], 0),
        (0, ["heavytail", "diagnose", "-", "--column", "y"], 2),
        (2, ["heavytail", "diagnose", "gone.csv"], 2),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", code.format(stream, words)], capture_output=True, text=True
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_key_that_nobody_read_is_none():
    pytest.importorskip("uvicorn")
    make = ["serve", "--store", "st", "--new-key", "a"]
    with open("/dev/full", "w") as full:
        done = started(*make, stdout=full)
    assert done.returncode == 2
    assert "No space left" in done.stderr
    again = started(*make, stdout=subprocess.PIPE)
    assert again.returncode == 0
    assert again.stdout.startswith("ht_")


def test_refused_calls_leave_nothing(capsys):
    pytest.importorskip("uvicorn")
    assert "letters" in refused(capsys, "serve", "--store", "new", "--new-key", "a:b")
    assert "Scopes" in refused(
        capsys, "serve", "--store", "new", "--new-key", "a", "--scopes", "all"
    )
    assert "no store" in refused(capsys, "serve", "--store", "new", "--revoke-key", "a")
    assert "horizon" in refused(capsys, "reproduce", "student", "--rounds", "3", "--out", "a/b")
    assert os.listdir() == ["d.csv"]


def test_a_folder_made_for_nothing_goes_and_others_stay():
    def write_and_fail():
        Path("d/e/f").touch()
        raise KeyError

    os.mkdir("kept")
    for name in ("a/b", "kept", "kept/c"):
        with pytest.raises(KeyError), _archive.folder(name):
            raise KeyError
    with pytest.raises(KeyError), _archive.folder("d/e"):
        write_and_fail()
    assert sorted(os.listdir()) == ["d", "d.csv", "kept"]
    assert os.listdir("kept") == []
    assert os.listdir("d/e") == ["f"]


def test_a_full_disk_is_said_of_the_file_and_leaves_no_part(monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as found:
        _archive.replace("model.npz", b"x")
    assert found.value.filename == "model.npz"
    assert os.listdir() == ["d.csv"]
