"""Whatever a file holds, it is refused or safe to go on from."""

from __future__ import annotations

import os
import socket
import stat
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.storage_tools import rewrite
from tests.unbreakable.census import (
    CENSUS,
    SHORT,
)

import heavytail as ht
from heavytail import _archive, _storage


@pytest.mark.parametrize("name", SHORT)
def test_a_changed_byte_and_a_lost_end_are_seen(name, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS[name]().save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(3)
    ht.load(path)
    for at in {0, len(whole) - 1, *rng.integers(0, len(whole), 25).tolist()}:
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(changed))
        with pytest.raises(ValueError, match=r"damaged|seal|format version"):
            ht.load(path)
        path.write_bytes(whole[:at])
        with pytest.raises(ValueError, match=r"damaged|seal"):
            ht.load(path)


@pytest.mark.parametrize("name", [name for name in SHORT if hasattr(ht.policies, name.split()[0])])
def test_sizes_that_a_file_only_claims_are_not_believed(name, tmp_path):
    path = tmp_path / "it.npz"
    CENSUS[name]().save(path)
    whole = path.read_bytes()
    for argument in ("dim", "arms", "horizon"):
        for claim in (10**6, 10**12, 10**400):
            path.write_bytes(whole)
            rewrite(path, lambda header, _, a=argument, c=claim: header["arguments"].update({a: c}))
            try:
                ht.load(path)
            except ValueError as error:
                assert len(str(error)) < 1000  # noqa: PT017


def test_an_archive_that_claims_more_than_it_has_is_refused(tmp_path):
    path = tmp_path / "it.npz"
    subject = ht.OFUL(2, noise_scale=1.0)
    subject.save(path)
    content = path.read_bytes()
    huge = content.replace(b"'shape': (2, 2), ", b"'shape': (2, 99),", 1)
    assert huge != content
    with pytest.raises(ValueError, match="damaged"):
        path.write_bytes(huge) and ht.load(path)
    with pytest.raises(ValueError, match="damaged"):
        path.write_bytes(content + b"more") and ht.load(path)


@pytest.mark.skipif(os.name != "posix", reason="modes and links as POSIX has them")
def test_saving_keeps_modes_follows_links_and_sweeps_what_was_left(tmp_path):
    policy, path = ht.OFUL(2, noise_scale=1.0), tmp_path / "it.npz"
    before = os.umask(0o027)
    try:
        policy.save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o664)
    link = tmp_path / "link.npz"
    link.symlink_to(path.name)
    left = [Path(f"{path}.0.{pid}{_archive.PART}") for pid in (2**22 + 1, os.getpid())]
    for each in left:
        each.touch()
    policy.update([1.0, 0.0], 1.0)
    policy.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    assert ht.load(path).rounds == ht.load(link).rounds == 1
    assert [each.exists() for each in left] == [False, True]


@pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
def test_links_that_lead_in_a_circle_are_neither_read_nor_replaced(tmp_path):
    one, other = tmp_path / "one.npz", tmp_path / "other.npz"
    one.symlink_to(other)
    other.symlink_to(one)
    for act in (ht.OFUL(2, noise_scale=1.0).save, ht.load):
        with pytest.raises(OSError, match=r"one\.npz"):
            act(one)
    assert one.is_symlink()
    assert other.is_symlink()


def test_all_objects_in_a_file_share_one_budget(tmp_path):
    path = tmp_path / "it.npz"
    ht.OFUL(2, noise_scale=1.0).save(path)
    inner = {"policy": "OFUL", "arguments": {"dim": 900, "noise_scale": 1.0}}  # 6 MB or more each
    rewrite(path, lambda header, _: header["arguments"].update(dim=[inner] * 200))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="far more memory"):
            ht.load(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * _storage.SMALL
    finally:
        tracemalloc.stop()
    ht.OFUL(2, noise_scale=1.0).save(path)
    assert ht.load(path).rounds == 0


@pytest.mark.skipif(os.name != "posix", reason="devices, pipes and holes as POSIX has them")
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path):
    policy, pipe, folder = ht.OFUL(2, noise_scale=1.0), tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        nodes = [pipe, folder, tmp_path / "socket", Path("/dev/zero"), Path("/dev/null")]
        modes = [node.stat().st_mode for node in nodes]
        for node in nodes:
            with pytest.raises((ValueError, OSError)):
                ht.load(node)
            with pytest.raises(ValueError, match="is not a file"):
                policy.save(node)
        assert [node.stat().st_mode for node in nodes] == modes


@pytest.mark.skipif(os.name != "posix", reason="holes as POSIX has them")
def test_a_file_of_holes_is_refused_at_once(tmp_path):
    path = tmp_path / "it.npz"
    ht.OFUL(2, noise_scale=1.0).save(path)
    whole = path.read_bytes()
    for first, last in ((b"", b""), (whole[:64], whole[-64:])):
        with open(path, "wb") as stream:
            stream.write(first)
            stream.seek(2**40)
            stream.write(last or b"\0")
        with pytest.raises(ValueError, match="damaged"):
            ht.load(path)
    path.unlink()
