"""Whatever file a command is handed, it answers in one line that names it, and writes nothing."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.cli import COMMANDS, main

PARQUET = pa.table({"action": [0] * 99, "reward": [1.0] * 99, "propensity": [0.5] * 99})
READERS = {  # every option by which a command reads a file, and a good one beside it
    "run": ["run", "FILE"],
    "diagnose": ["diagnose", "FILE", "--column", "x"],
    "fit": ["fit", "FILE", "--target", "x", "--save", "model.npz"],
    "evaluate": ["evaluate", "FILE", "--policy", "uniform:2", "--html", "page.html"],
    "evaluate --policy": ["evaluate", "good.parquet", "--policy", "FILE", "--html", "page.html"],
    "evaluate --catalogue": [
        *("evaluate", "good.parquet", "--policy", "good.npz", "--catalogue", "FILE"),
    ],
    "reproduce --tuned": ["reproduce", "student", "--quick", "--tuned", "FILE"],
    "export": ["export", "FILE", "--csv"],
    "plot": ["plot", "FILE"],
    "calibrate --write": ["calibrate", "--write", "FILE", "--trials", "1", "--rounds", "5"],
}
NO_FILES = {
    "policies",
    "coverage",
    "serve",
    "earned",
    "log",
    "warm",
}  # a folder, or nothing, is what these read


def cut(content):
    """A file that was not written to its end."""
    return content[: len(content) // 2]


def bad_files(folder):
    """Content by name; None is a folder, "" a name that nothing has."""
    policy = ht.OFUL(2, noise_scale=1.0)
    encoded = "größe,ÿ\n€".encode("utf-16-le")
    pq.write_table(PARQUET, folder / "whole.parquet")
    whole = (folder / "whole.parquet").read_bytes()
    (folder / "whole.parquet").unlink()
    return {
        "missing.csv": "",
        "missing.npz": "",
        "folder.csv": None,
        "folder.npz": None,
        "empty.csv": b"",
        "empty.npz": b"",
        "blank.csv": b"\n \n\n",
        "binary.csv": bytes(range(256)) * 9,
        "zeros.csv": bytes(4096),
        "picture.csv": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "encoded.csv": encoded,
        "latin.csv": "größe\nä\n".encode("latin-1"),
        "cut.parquet": cut(whole),
        "cut.csv.gz": cut(gzip.compress(np.random.default_rng(0).bytes(9999).hex().encode())),
        "cut.npz": cut(policy.to_bytes()),
        "notes.txt": b"Dear all,\nsee you on Monday.\n",
        "odd.json": b'{"a": [1, 2',
        "list.json": b"[1, 2, 3]",
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(PARQUET, "good.parquet")
    encoder = ht.Encoder(numbers=["x", "z"]).fit([{"x": 1.0, "z": 2.0}, {"x": 2.0, "z": 3.0}])
    policy = ht.OFUL(encoder.dim, noise_scale=1.0)
    policy.encoder = encoder
    policy.save("good.npz")
    return tmp_path


def test_every_command_that_reads_a_file_is_here():
    assert {words[0] for words in READERS.values()} | NO_FILES == set(COMMANDS)


@pytest.mark.parametrize("reader", READERS)
def test_a_bad_file_is_named_in_one_line_and_nothing_is_written(reader, folder, capsys):
    for name, content in bad_files(folder).items():
        if content is None:
            os.mkdir(name)
        elif content != "":
            Path(name).write_bytes(content)
        before = sorted(os.listdir())
        words = [name if word == "FILE" else word for word in READERS[reader]]
        assert main(words) == 2, (words, capsys.readouterr())
        out, error = capsys.readouterr()
        assert out == "", words
        assert re.fullmatch(r"heavytail \w+: [^\n]+\n", error), (words, error)
        assert error[:-1].isprintable()
        assert name in error, (words, error)
        assert sorted(os.listdir()) == before, words


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read every file")
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_may_not_be_read_is_named_in_one_line(reader, folder, capsys):
    Path("closed.csv").write_text("x,y\n1,2\n")
    os.chmod("closed.csv", 0)
    words = ["closed.csv" if word == "FILE" else word for word in READERS[reader]]
    assert main(words) == 2
    assert "closed.csv" in capsys.readouterr().err
