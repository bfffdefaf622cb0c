"""Folders of a DecisionLog that are not what one wrote: refused in words, and left alone."""

from __future__ import annotations

import gzip
import json
import os
import struct
import zlib

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs.journal import HEADER
from heavytail.logs.reading import chunks

BYTES = np.eye(2).tobytes()
BEGIN = {"format": HEADER, "first": 0, "dim": 2}
REWARD = {"rewarded": {"number": 0, "reward": 1.0, "time": 2.0}}


def decided(number=0, **odd):
    told = {"number": number, "token": number, "action": 1, "shape": [2, 2], "probability": 0.5}
    return {"decided": {**told, "score": None, "time": 1.0, "ids": None, **odd}}


def rewarded(**odd):
    return {"rewarded": {**REWARD["rewarded"], **odd}}


def packed(told, rest=None):
    """A record whose checksum fits, whatever it says."""
    text = told if isinstance(told, bytes) else json.dumps(told).encode()
    if rest is None:
        rest = BYTES if isinstance(told, dict) and "decided" in told else b""
    body = struct.pack("<I", len(text)) + text + rest
    return struct.pack("<2sBII", b"\xd5L", 1, len(body), zlib.crc32(body, 1)) + body


def test_a_journal_packed_by_hand_is_read(tmp_path):
    content = packed(BEGIN) + packed(decided(ids=["a", "b"])) + packed(decided(1)) + packed(REWARD)
    (tmp_path / "journal").write_bytes(content)
    assert [list(part.reward) for part in chunks(tmp_path)] == [[1.0]]
    with ht.DecisionLog(tmp_path) as log:
        assert (log.decisions, log.waiting) == (2, (1,))


HEADS = [[], "x", 5, None, {}, b"{", b"\xff", b"[" * 10**5, b'{"format":' * 10**5]
HEADS += [{**BEGIN, "first": odd} for odd in (-1, 0.5, "0", None, True, 10**30)]
HEADS += [{**BEGIN, "dim": odd} for odd in (-1, 0, 0.5, "2", [2], 10**30)]
HEADS += [b'{"format":"%s","first":1e999,"dim":2}' % HEADER.encode()]
HEADS += [{**BEGIN, "format": odd} for odd in (None, 1, "heavytail decisions 2")]
HEADS += [{**BEGIN, "more": 1}, {"format": HEADER}, decided()]

ODD = [{"decided": odd} for odd in ("x", None, 5, [], {})]
ODD += [{"rewarded": odd} for odd in ("x", None, 5, [], {})]
ODD += [{"decided": decided()["decided"], "more": 1}, {"other": {}}, BEGIN, [], b"", b"[" * 10**5]
ODD += [
    decided(shape=odd)
    for odd in ([4], [2, 2, 1], [-1, 2], [4, 1], [1, 4], [0, 0], "22", None, [2.0, 2], [True, 4])
]
ODD += [decided(number) for number in (1, 7, -1, "0", None, 0.0)]
ODD += [decided(token=odd) for odd in (-1, "0", None, 0.5, True, 10**30)]
ODD += [decided(action=odd) for odd in (-1, 2, "0", None, 0.5)]
ODD += [decided(probability=odd) for odd in (0.0, -1.0, 2.0, "x", True, [1], np.nan)]
ODD += [decided(score=odd) for odd in ("x", np.inf, [1], {})]
ODD += [decided(time=odd) for odd in ("now", np.nan, True)]
ODD += [decided(ids=odd) for odd in ("ab", ["a"], [None, "b"], ["a", "\ud800"], {"a": 1, "b": 2})]
ODD += [decided(more=1), REWARD]

LATER = [REWARD, {"rewarded": {"number": 0}}, decided(0), decided(2)]
LATER += [rewarded(number=odd) for odd in (1, -1, "0", None, 0.0, [0])]


def refused(folder, content, number):
    (folder / "journal").write_bytes(content)
    words = rf"journal, record {number}: is damaged .* from a backup"
    for reader in (ht.DecisionLog, lambda path: list(chunks(path))):
        with pytest.raises(ValueError, match=words):
            reader(folder)
    assert (folder / "journal").read_bytes() == content


def test_a_head_that_no_log_wrote_is_refused(tmp_path):
    for odd in HEADS:
        refused(tmp_path, packed(odd) + packed(decided()), 0)


def test_records_that_no_log_wrote_are_refused_by_file_and_number(tmp_path):
    for odd in ODD:
        refused(tmp_path, packed(BEGIN) + packed(odd), 1)
    for odd in LATER:
        refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(REWARD) + packed(odd), 3)
    for name, odd in (("reward", "1"), ("reward", None), ("reward", np.nan), ("time", "now")):
        content = packed(BEGIN) + packed(decided()) + packed(rewarded(**{name: odd}))
        refused(tmp_path, content, 2)
    refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(decided(1, token=0)), 2)


def test_arms_that_no_log_wrote_are_refused(tmp_path):
    for rest in (b"", BYTES[:-1], BYTES + BYTES, np.full(4, np.nan).tobytes()):
        refused(tmp_path, packed(BEGIN) + packed(decided(), rest), 1)
    refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(REWARD, BYTES), 2)
    wide = packed(decided(1, shape=[2, 3]), np.zeros(6).tobytes())
    refused(tmp_path, packed(BEGIN) + packed(decided()) + wide, 2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes pipes")
def test_a_pipe_is_no_journal_and_no_log(tmp_path):
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(ValueError, match="journal is no file"):
        ht.DecisionLog(tmp_path)
    with pytest.raises(ValueError, match="is no file"):
        list(chunks(tmp_path / "journal"))


@pytest.mark.parametrize("path", [5, None, b"abc", "a\0b"])
def test_what_names_no_folder_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="path must name a folder"):
        ht.DecisionLog(path)
    assert not list(tmp_path.iterdir())


def test_a_part_of_another_name_is_refused(tmp_path):
    ht.DecisionLog(tmp_path).close()
    (tmp_path / "part-abc.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"part-abc.parquet is no part"):
        ht.DecisionLog(tmp_path)


def test_a_folder_of_somebody_elses_is_left_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match="is no folder of a DecisionLog"):
        ht.DecisionLog(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links")
def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="cannot be opened for writing"):
        ht.DecisionLog(tmp_path / "log")
    assert not (tmp_path / "elsewhere").exists()


def test_a_damaged_gzip_is_named(tmp_path):
    content = bytearray(gzip.compress(bytes(range(256)) * 9))
    content[10:20] = b"\xff" * 10
    (tmp_path / "log.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"log.gz is damaged"):
        list(chunks(tmp_path / "log.gz"))
