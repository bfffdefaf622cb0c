"""Folders of the earlier DecisionLog: converted whole, or refused in words and left alone."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import heavytail as ht
from heavytail.cli import main
from heavytail.logs.earlier import FORMAT, convert
from heavytail.logs.reading import chunks

DATA = Path(__file__).parents[1] / "data" / "decision_log"  # its process was killed
BYTES = np.eye(2).tobytes()
BEGIN = {"format": FORMAT, "first": 0, "dim": 2}
REWARD = {"rewarded": {"number": 0, "reward": 1.0, "time": 2.0}}


@pytest.fixture
def old(tmp_path):
    return shutil.copytree(DATA, tmp_path / "old")


def rewards(folder, **told):
    return [float(r) for part in chunks(folder, **told) for r in part.reward]


def test_a_folder_of_before_is_converted_by_one_command(old, tmp_path, capsys):
    assert main(["log", "convert", str(old), str(tmp_path / "new")]) == 0
    assert "24 decisions" in capsys.readouterr().out
    wanted = [float(token) for token in range(24) if token not in (3, 17, 22)]
    assert rewards(tmp_path / "new") == wanted
    assert len(rewards(tmp_path / "new", default_reward=0.0)) == 24
    with ht.DecisionLog(tmp_path / "new") as log:
        assert log.waiting == (17, 22)  # 3 had been given up, in a part
        log.rewarded(17, 5.0)
        assert main(["log", "export", str(tmp_path / "new"), str(tmp_path / "log.parquet")]) == 0
    frame = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert frame[4] == {
        "token": "4", "time": 1e9 + 4, "action": 1, "propensity": 0.5, "reward": 4.0,
        "reward_time": 2e9 + 4, "by_default": False, "score": 0.25,
        "arms": [[1.0, 0.0], [0.0, 1.0]], "ids": ["a", "b"],
        "context_json": '{"age":4,"who":"Zoë"}', "unit": None,
    }  # fmt: skip
    assert frame[3]["reward"] is None
    assert {one.name for one in tmp_path.iterdir()} == {"old", "new", "log.parquet"}


def test_a_folder_of_before_is_refused_with_the_command_that_converts_it(old):
    for reader in (ht.DecisionLog, rewards):
        with pytest.raises(ValueError, match=r"earlier format.*heavytail log convert .*old NEW"):
            reader(old)
    assert {one.name for one in old.iterdir()} == {one.name for one in DATA.iterdir()}


def test_what_is_there_or_is_no_log_is_not_converted(old, tmp_path, capsys):
    assert main(["log", "convert", str(old), str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["log", "convert", str(tmp_path), str(tmp_path / "new")]) == 2
    assert "it has no journal" in capsys.readouterr().err
    assert main(["log", "export", str(tmp_path), str(tmp_path / "a.parquet")]) == 2
    assert "is not the folder of a DecisionLog" in capsys.readouterr().err


def test_a_part_that_is_gone_is_missed(old, tmp_path):
    parts = sorted(old.glob("part-*.parquet"))
    for gone, words in zip(parts, ("missing or there twice", "decisions 5 to 12"), strict=True):
        content = gone.read_bytes()
        gone.unlink()
        with pytest.raises(ValueError, match=words):
            convert(str(old), str(tmp_path / "new"))
        gone.write_bytes(content[:-1])
        with pytest.raises(ValueError, match=r"\.parquet.*damaged"):
            convert(str(old), str(tmp_path / "new"))
        gone.write_bytes(content)
    assert not (tmp_path / "new").exists()


def test_what_is_in_a_part_and_still_in_the_journal_counts_once(tmp_path):
    """A crash between the two."""
    (tmp_path / "old").mkdir()
    shutil.copy(DATA / "part-000000000000.parquet", tmp_path / "old")
    told = [packed(decided(k, token=k, action=1), BYTES) for k in range(6)]
    (tmp_path / "old" / "journal").write_bytes(packed(BEGIN) + b"".join(told))
    assert convert(str(tmp_path / "old"), str(tmp_path / "new")) == 6
    assert rewards(tmp_path / "new") == [0.0, 1.0, 2.0, 4.0]


def decided(number=0, **odd):
    told = {"number": number, "token": number, "action": 1, "shape": [2, 2], "probability": 0.5}
    return {"decided": {**told, "score": None, "time": 1.0, "ids": None, **odd}}


def rewarded(**odd):
    return {"rewarded": {**REWARD["rewarded"], **odd}}


def packed(told, rest=None, safe=1):
    """A record whose checksum fits, whatever it says."""
    text = told if isinstance(told, bytes) else json.dumps(told).encode()
    if rest is None:
        rest = BYTES if isinstance(told, dict) and "decided" in told else b""
    body = struct.pack("<I", len(text)) + text + rest
    return struct.pack("<2sBII", b"\xd5L", safe, len(body), zlib.crc32(body, safe)) + body


def test_a_torn_end_is_dropped_and_damage_in_the_midst_is_not(tmp_path):
    records = [packed(BEGIN), packed(decided()), packed(decided(1)), packed(REWARD)]
    whole = b"".join(records)
    (tmp_path / "old").mkdir()
    for k, count in ((1, 0), (2, 1), (3, 2)):
        end = len(b"".join(records[:k]))
        for cut in (end, end + 1, end + 12, end + len(records[k]) - 1):
            for tail in (b"", bytes(40)):  # a disk may also leave zeros behind
                (tmp_path / "old" / "journal").write_bytes(whole[:cut] + tail)
                new = str(tmp_path / f"{cut}-{len(tail)}-{k}")
                assert convert(str(tmp_path / "old"), new) == count
    for at in (1, 30, len(records[0]) + 40, len(whole) // 2):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        refused(tmp_path, bytes(damaged), r"\d")


HEADS = [[], "x", 5, None, {}, b"{", b"\xff", b"[" * 10**5, b'{"format":' * 10**5]
HEADS += [{**BEGIN, "first": odd} for odd in (-1, 0.5, "0", None, True, 10**30)]
HEADS += [{**BEGIN, "dim": odd} for odd in (-1, 0, 0.5, "2", [2], 10**30)]
HEADS += [b'{"format":"%s","first":1e999,"dim":2}' % FORMAT.encode()]
HEADS += [{**BEGIN, "format": odd} for odd in (None, 1, "heavytail decisions 2")]
HEADS += [{**BEGIN, "more": 1}, {"format": FORMAT}, decided()]

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
    (folder / "old").mkdir(exist_ok=True)
    (folder / "old" / "journal").write_bytes(content)
    words = rf"journal, (record|decision) {number}: is damaged .* from a backup"
    with pytest.raises(ValueError, match=words):
        convert(str(folder / "old"), str(folder / "new"))
    assert (folder / "old" / "journal").read_bytes() == content
    assert not (folder / "new").exists()


def test_a_head_that_no_log_wrote_is_refused(tmp_path):
    for odd in HEADS:
        refused(tmp_path, packed(odd) + packed(decided()), 0)


def test_records_that_no_log_wrote_are_refused(tmp_path):
    for odd in ODD:
        refused(tmp_path, packed(BEGIN) + packed(odd), "[01]")
    for odd in LATER:
        refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(REWARD) + packed(odd), 3)
    for name, odd in (("reward", "1"), ("reward", None), ("reward", np.nan), ("time", "now")):
        content = packed(BEGIN) + packed(decided()) + packed(rewarded(**{name: odd}))
        refused(tmp_path, content, 2)
    refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(decided(1, token=0)), 1)
    for context in ("3", "[]", '{"a": [1]}', '{"a": NaN}', "{", '{"a": {}}', 3):
        refused(tmp_path, packed(BEGIN) + packed(decided(context=context)), "[01]")


def test_arms_that_no_log_wrote_are_refused(tmp_path):
    for rest in (b"", BYTES[:-1], BYTES + BYTES, np.full(4, np.nan).tobytes()):
        refused(tmp_path, packed(BEGIN) + packed(decided(), rest), "[01]")
    refused(tmp_path, packed(BEGIN) + packed(decided()) + packed(REWARD, BYTES), 2)
    wide = packed(decided(1, shape=[2, 3]), np.zeros(6).tobytes())
    refused(tmp_path, packed(BEGIN) + packed(decided()) + wide, "[12]")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes pipes")
def test_a_pipe_is_no_journal_and_no_log(tmp_path):
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(ValueError, match="it has no journal"):
        convert(str(tmp_path), str(tmp_path / "new"))
    with pytest.raises(ValueError, match="is not a file"):
        rewards(tmp_path / "journal")
