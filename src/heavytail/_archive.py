"""The bytes of a file: sealed archives of arrays, written at one stroke and read on no trust.

An archive is NumPy's .npz and ends with a seal, a hash of every byte before it, which tells one
that was changed since it was written. It is written beside its target and moved over it, so a
crash leaves the old one whole. What is no file at all, a device or a pipe, is neither read nor
replaced.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import io
import itertools
import math
import os
import re
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from heavytail._validate import shown

__all__ = [
    "FACTOR",
    "PART",
    "check_target",
    "contents",
    "folder",
    "is_sealed",
    "members",
    "replace",
    "replacing",
    "sealed",
    "unsealed",
]

SEAL = b"heavytail "  # and the hash
NO_COMMENT = b"\0\0"  # the last two bytes of an archive without one
END, LOCAL, CENTRAL = bytes(22), 30, 46  # bytes of an archive's end, and of a member's two heads
PART = ".part"  # of the name of a file that is being written
FACTOR = 64  # bytes that what is loaded may take for each of the file's
BLOCK = 512  # bytes, in which the room of a file on disk is counted
LARGE = 2**28  # bytes of a file from which on its room on disk is looked at
MAGIC = b"PK\3\4"  # which an archive begins with
VERSION_1 = b"\x93NUMPY\1\0"  # which an array in NumPy's format begins with
START = struct.Struct("<8sH")  # that, and the length of the header
SIDE = rb"(?:0|[1-9]\d{0,17})"
HEADER = re.compile(  # as NumPy writes it; an endless shape takes no more memory than others
    rb"\{'descr': '([<>|=][fiubU]\d{1,9})', 'fortran_order': (True|False), "
    rb"'shape': \((|" + SIDE + rb",|" + SIDE + rb"(?:, " + SIDE + rb"){1,63})\), \} *\n"
)
_NUMBER = itertools.count()


def sealed(archive: bytes) -> bytes:
    """A zip archive with a hash of all its bytes as its comment, where every reader of such
    archives skips it.
    """
    body = memoryview(archive)[: -len(NO_COMMENT)]
    seal = _seal(body)
    return b"".join((body, len(seal).to_bytes(2, "little"), seal))


def unsealed(content: bytes) -> dict[str, Any]:
    """The arrays of an archive made by :func:`sealed`; ValueError if any byte was changed."""
    if not is_sealed(content):
        raise ValueError("its seal does not fit")
    return members(content)


def _seal(body: bytes | memoryview) -> bytes:
    """A hash that detects accidents, not forgeries."""
    return SEAL + hashlib.blake2b(body, digest_size=16).hexdigest().encode()


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Put ``content`` in the place of a file, or of the one that a link leads to, at one stroke."""
    with replacing(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a stream whose content replaces the file when the ``with`` ends; nothing changes if it
    fails.

    An existing file keeps its mode, a new one gets the umask's. Leftovers of a killed process
    are removed. Anything at ``path`` that is not a file is refused.
    """
    target = _target(path)
    for stale in target.parent.glob(f"{glob.escape(target.name)}.*{PART}"):
        if not _at_work(stale.name.removesuffix(PART).rpartition(".")[2]):
            stale.unlink(missing_ok=True)
    names = (f"{target.name}.{number}.{os.getpid()}{PART}" for number in _NUMBER)
    free = (
        candidate for candidate in map(target.with_name, names) if not os.path.lexists(candidate)
    )
    temporary = next(free)  # one of this number may be left: in a container all have the same few
    try:
        with open(temporary, "xb") as stream:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # the first error is the one to report
            temporary.unlink()
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None or str(error.filename) == str(temporary):  # as was asked
                raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def check_target(path: str | os.PathLike[str], option: str) -> None:
    """Refuse, before the work, what :func:`replace` could not write after it; ``option`` is where
    the path was named.
    """
    if not os.path.basename(path):
        raise ValueError(f"{option} must name a file; got {shown(os.fspath(path))}.")
    try:
        target = _target(path)
    except OSError as error:
        words = f"{path}: {error.strerror}" if error.filename is not None else str(error)
        raise ValueError(f"{option} {words}") from None
    except ValueError as error:
        raise ValueError(f"{option} {error}") from None
    if not os.access(target.parent, os.W_OK):
        raise ValueError(f"{option} {path}: its folder cannot be written to. Name another.")


def _target(path: str | os.PathLike[str]) -> Path:
    """The file that ``path`` names or leads to; refused where it can be none."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():  # after all were followed: the links lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    if target.exists() and not target.is_file():
        raise ValueError(
            f"{path} exists and is not a file, but a device, a pipe, a socket or a folder."
        )
    if target.exists() and not os.access(target, os.W_OK):  # although its folder is writable
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    if not target.parent.is_dir():
        parent = os.path.dirname(os.fspath(path))
        raise FileNotFoundError(f"{path}: there is no folder {parent} to write to. Make it first.")
    return target


@contextlib.contextmanager
def folder(path: str | os.PathLike[str]) -> Iterator[None]:
    """A folder to write into; one that was made for this and is still empty goes where it fails."""
    missing = [parent for parent in (Path(path), *Path(path).parents) if not parent.exists()]
    os.makedirs(path, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # no longer empty
            for parent in missing:
                parent.rmdir()
        raise


def _at_work(process: str) -> bool:
    """Tell whether a process with this number exists, as far as that is known."""
    if not process.isdecimal() or os.name != "posix":
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def contents(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; ValueError if it is not a file, or claims far more bytes than it has."""
    wait = getattr(os, "O_NONBLOCK", 0)  # do not wait: opening a pipe would
    with open(Path(path), "rb", opener=lambda name, flags: os.open(name, flags | wait)) as stream:
        status = os.fstat(stream.fileno())
        room = BLOCK * (getattr(status, "st_blocks", 0) or status.st_size)  # 0: it is not known
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a file. Pass one that save(path) wrote.")
        first = stream.read(min(len(MAGIC), status.st_size))
        if status.st_size > LARGE and (first != MAGIC or status.st_size > FACTOR * room):
            raise ValueError(f"{path} is damaged, or not a file that save(path) wrote.")
        return first + stream.read(max(status.st_size - len(first), 0))


def is_sealed(content: bytes) -> bool:
    """Tell whether the hash at the end is that of all bytes before it."""
    size = len(_seal(b""))
    body, length = content[: -size - 2], content[-size - 2 : -size]
    return length == size.to_bytes(2, "little") and content[-size:] == _seal(body)


def members(content: bytes) -> dict[str, Any]:
    """The arrays of an archive that holds nothing else; no byte, name or size is trusted."""
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        used = len(END) + len(archive.comment)
        for member in archive.infolist():
            key = member.filename.removesuffix(".npy")
            if (
                key in arrays
                or key == member.filename
                or member.compress_type != zipfile.ZIP_STORED
            ):
                raise ValueError(f"member {member.filename!r} is not one that save wrote")
            with archive.open(member) as stream:
                raw = stream.read()  # as long as it is; checked against its own sum
            arrays[key] = _array(raw)
            offset = member.header_offset
            names = content[offset + 26 : offset + 30]  # lengths of the name and of what follows it
            used += LOCAL + int.from_bytes(names[:2], "little") + len(raw)
            used += int.from_bytes(names[2:], "little") + CENTRAL
            used += len(member.orig_filename.encode()) + len(member.extra) + len(member.comment)
            if used > len(content):
                raise ValueError("its members overlap")
    if used != len(content):
        raise ValueError("some of its bytes belong to nothing")
    return arrays


def _array(raw: bytes) -> NDArray[Any]:
    """An array in NumPy's format, of numbers or text, made of exactly these bytes.

    NumPy reads the header with Python's own parser, which in threads may raise a SystemError
    (3.11: "AST constructor recursion depth mismatch").
    """
    magic, size = START.unpack_from(raw) if len(raw) >= START.size else (b"", 0)
    head = HEADER.match(raw, START.size, START.size + size)
    if head is None or magic != VERSION_1 or head.end() != START.size + size:
        raise ValueError("not an array in NumPy's format, of numbers or text")
    try:
        dtype = np.dtype(head[1].decode())
    except TypeError:
        raise ValueError(f"an array of dtype {head[1].decode()}") from None
    shape = tuple(int(length) for length in head[3].split(b",") if length.strip())
    rest = raw[head.end() :]
    if math.prod(shape) * dtype.itemsize != len(rest):
        raise ValueError(f"{len(rest)} bytes for an array of shape {shape} and dtype {dtype}")
    flat = np.frombuffer(rest, dtype=dtype) if rest else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if head[2] == b"True" else "C").copy(order="C")
