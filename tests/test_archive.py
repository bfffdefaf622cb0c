"""The bytes of a file: their seal, what is no archive of ours, and a move at one stroke."""

from __future__ import annotations

import io
import itertools
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

from heavytail import _archive
from heavytail._archive import PART, check_target, is_sealed, members, replace, replacing, sealed

DEAD = 2**22 + 1  # more than any process is numbered
POSIX = pytest.mark.skipif(os.name != "posix", reason="processes and names as POSIX has them")


def archive(write=np.savez, **arrays):
    stream = io.BytesIO()
    write(stream, **arrays)
    return stream.getvalue()


def packed(*named):
    """An archive of members with these names and bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, raw in named:
            file.writestr(name, raw)
    return stream.getvalue()


def raw(array):
    """An array in NumPy's format."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


# --- the seal


def test_the_seal_is_for_ever_this_one():
    """A file that was sealed before must be told from one that was changed."""
    seal = b"heavytail 92f4ac7dbb1a10aae6460e9433f31877"
    assert sealed(b"some bytes" + b"\0\0") == b"some bytes" + b"\x2a\0" + seal


def test_a_seal_fits_no_other_byte():
    content = sealed(archive(x=np.arange(3.0)))
    assert is_sealed(content)
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        assert not is_sealed(bytes(changed)), at


# --- what is read


@pytest.mark.parametrize("x", [np.arange(6.0).reshape(2, 3), np.array("text"), np.zeros((0, 4))])
def test_arrays_are_read_in_whichever_order_they_lie(x):
    for order in ("C", "F"):
        one = x.copy(order=order)
        found = members(sealed(archive(x=one)))["x"]
        np.testing.assert_array_equal(found, x)
        assert (found.dtype, found.shape) == (x.dtype, x.shape)
        assert found.flags.c_contiguous
        assert found.flags.writeable


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (archive(np.savez_compressed, x=np.zeros(9)), "member 'x.npy' is not one that save wrote"),
        (packed(("x", raw(np.zeros(2)))), "member 'x' is not one that save wrote"),
        (packed(("x.npy", raw(np.zeros(2)) + b"more")), "20 bytes for an array of shape"),
        (packed(("x.npy", raw(np.zeros(2))[:-1])), "15 bytes for an array of shape"),
        (packed(("x.npy", raw(np.zeros(2, "V8")))), "of numbers or text"),
        (packed(("x.npy", raw(np.zeros(2, "M8[s]")))), "of numbers or text"),
        (packed(("x.npy", raw(np.zeros(2)).replace(b"<f8", b"<f7"))), "an array of dtype <f7"),
        (packed(("x.npy", raw(np.zeros(2)).replace(b"(2,)", b"(-2)"))), "of numbers or text"),
        (packed(("x.npy", raw(np.zeros(2)).replace(b"\1\0v", b"\1\0w"))), "of numbers or text"),
        (packed(("x.npy", raw(np.zeros(2))[:9])), "of numbers or text"),
        (packed(("x.npy", raw(np.zeros(0)).replace(b" \n", b"\n"))), "of numbers or text"),
        (
            packed(("x.npy", raw(np.zeros(1)).replace(b"(1,), } ", b"(1), }  "))),
            "of numbers or text",
        ),
        (
            packed(("x.npy", raw(np.zeros(1)).replace(b"(1,), } ", b"(01,), }"))),
            "of numbers or text",
        ),
        (b"more" + archive(x=np.zeros(2)), "belong to nothing"),
    ],
    ids=[
        *("packed", "no name", "longer", "shorter", "raw bytes", "dates", "no size", "no length"),
        *("longer head", "half a head", "less than its head"),
        *("no tuple", "a leading zero", "bytes before"),
    ],
)
def test_what_save_does_not_write_is_refused(content, says):
    with pytest.raises(ValueError, match=says):
        members(content)


def test_no_parser_is_called_that_fails_in_threads(monkeypatch):
    """Python 3.11's parser may: "AST constructor recursion depth mismatch"."""

    def failed(*_):
        raise SystemError("AST constructor recursion depth mismatch (before=57, after=54)")

    monkeypatch.setattr("ast.parse", failed)
    monkeypatch.setattr("ast.literal_eval", failed)
    shapes = [(), (1,), (12,), (3, 4), (2, 0, 5), (2, 1, 1, 3)]
    kinds = ["<f8", ">f8", "|b1", "|u1", "<i8", "<U7", "<f4"]
    for shape, kind in itertools.product(shapes, kinds):
        x = np.zeros(shape, kind)
        found = members(archive(x=x))["x"]
        assert (found.shape, found.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize("size", [118, 65535])
def test_an_endless_shape_takes_no_more_memory_than_its_bytes(size):
    """A file of 32 MiB took 4.8 GB, whatever length its header claimed."""
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': ("
    member = b"\x93NUMPY\1\0" + size.to_bytes(2, "little") + head + b"1, " * 2**20
    content = packed(("x.npy", member))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="of numbers or text"):
            members(content)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(content)
    finally:
        tracemalloc.stop()


def test_two_arrays_of_one_name_are_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = packed(("x.npy", raw(np.zeros(2))), ("x.npy", raw(np.ones(2))))
    with pytest.raises(ValueError, match="is not one that save wrote"):
        members(twice)


# --- what is written


def test_all_bytes_are_on_the_disk_before_they_take_the_files_place(tmp_path, monkeypatch):
    path, done = tmp_path / "it", []
    path.write_bytes(b"old")
    fsync, move = os.fsync, os.replace

    def synced(file):
        done.append((os.fstat(file).st_size, path.read_bytes()))
        fsync(file)

    def moved(source, target):
        done.append("moved")
        move(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    replace(path, b"the new one")
    assert done == [(11, b"old"), "moved"]
    assert path.read_bytes() == b"the new one"


def test_two_who_write_at_once_do_not_meet(tmp_path, monkeypatch):
    path, written, move = tmp_path / "it", set(), os.replace
    monkeypatch.setattr(os, "replace", lambda *names: (written.add(names[0]), move(*names)))
    with replacing(path) as outer:
        outer.write(b"the last to end")
        replace(path, b"the first")
        assert path.read_bytes() == b"the first"
    assert path.read_bytes() == b"the last to end"
    replace(path, b"one more")
    assert len(written) == 3  # no name comes again in a process, whatever its threads do
    assert os.listdir(tmp_path) == ["it"]


def test_what_a_process_of_this_number_left_is_in_nobodys_way(tmp_path, monkeypatch):
    monkeypatch.setattr(_archive, "_NUMBER", itertools.count())
    left = tmp_path / f"it.0.{os.getpid()}{PART}"
    left.write_bytes(b"half")
    replace(tmp_path / "it", b"whole")
    assert (tmp_path / "it").read_bytes() == b"whole"
    assert left.read_bytes() == b"half"  # for all one can tell somebody is at it


@POSIX
def test_only_what_the_dead_left_is_swept_away(tmp_path, monkeypatch):
    dead = [f"a[1].0.{process}{PART}" for process in (DEAD, 10**30)]
    others = [f"a1.0.{DEAD}{PART}", f"a[1].notes{PART}", f"a[1].0.{os.getpid()}{PART}"]
    for name in (*dead, *others):
        (tmp_path / name).touch()
    replace(tmp_path / "a[1]", b"")
    assert sorted(os.listdir(tmp_path)) == sorted(["a[1]", *others])

    def forbidden(process, signal):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", forbidden)
    (tmp_path / dead[0]).touch()  # of somebody else's process
    replace(tmp_path / "a[1]", b"")
    assert (tmp_path / dead[0]).exists()


@POSIX
def test_an_error_names_what_was_asked_for_or_the_other_file_it_is_about(tmp_path):
    with pytest.raises(OSError, match="broken") as error, replacing(tmp_path / "it"):
        raise OSError(5, "broken", "another")
    assert error.value.filename == "another"
    long = str(tmp_path / ("n" * 250))  # too long with what is added while it is written
    with pytest.raises(OSError, match="too long") as error:
        replace(long, b"")
    assert error.value.filename == long
    assert os.listdir(tmp_path) == []


def test_what_could_not_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    check_target(tmp_path / "it", "--save")
    with pytest.raises(ValueError, match=r"--save must name a file; got '.*/'\."):
        check_target(f"{tmp_path}/", "--save")
    with pytest.raises(ValueError, match=r"--save .*: there is no folder"):
        check_target(tmp_path / "none" / "it", "--save")
    asked = []
    monkeypatch.setattr(os, "access", lambda *told: asked.append(told))  # root may write anywhere
    with pytest.raises(ValueError, match=r"--save .*it: its folder cannot be written to"):
        check_target(tmp_path / "it", "--save")
    assert asked == [(tmp_path, os.W_OK)]
