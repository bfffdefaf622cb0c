"""Damaged and crafted files, uploaded: ``python -m tests.serve.uploads --files 5000`` counts."""

from __future__ import annotations

import argparse
import io
import pickle
import resource
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from starlette.testclient import TestClient
from tests.fuzz.files import Bench
from tests.serve.conftest import serving

import heavytail as ht
from heavytail import _archive

NAMES = [
    "Decider", "TwinUCB", "HvtUCB 2", "Encoder", "Decider 2", "OFUL", "LinTS", "OnlineRidge",
    "Decider 3", "TwinUCB 6", "MENU", "LogPolicy", "HvtLowRank", "HvtGLB", "VARA", "CRTM",
]  # fmt: skip
REFUSED = (413, 422)
ROOM = 2**29  # bytes of memory that the service may come to need
HEADER = "{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"


def member(descr: str, shape: object, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    """A member of an archive, with any dtype and shape in its header."""
    words = HEADER.format(descr=descr, shape=shape).encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(words).to_bytes(2, "little") + words + data


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A sealed archive of any members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return _archive.sealed(stream.getvalue())


def nested(count: int, size: int) -> bytes:
    """An archive whose members each lie within the one before: the bytes are there once."""
    content, ends = bytes(size), []
    for number in reversed(range(count)):
        data = member("|u1", (len(content),), content)
        info = zipfile.ZipInfo(f"a{number:04}.npy")
        info.CRC, info.file_size, info.compress_size = zlib.crc32(data), len(data), len(data)
        head = info.FileHeader(zip64=False)
        content = head + data
        ends.append((info, len(content)))
    stream = io.BytesIO()
    stream.write(content)
    with zipfile.ZipFile(stream, "a") as target:
        for info, length in reversed(ends):
            info.header_offset = len(content) - length
            target.filelist.append(info)
        target._didModify = True
        target.start_dir = len(content)
    return _archive.sealed(stream.getvalue())


def crafted() -> Iterator[tuple[str, bytes]]:
    """Files that somebody made to do harm, by what they are."""
    header = member("<U2", (), "{}".encode("utf-32-le"))
    yield "empty archive", archive({})
    yield "no header", archive({"a.npy": member("<f8", (1,), bytes(8))})
    yield "header that is no JSON", archive({"header.npy": header})
    for name in ("deep", "list", "number"):
        text = {"deep": "[" * 100_000, "list": "[]", "number": "9" * 10_000}[name]
        data = text.encode("utf-32-le")
        yield f"header: {name}", archive({"header.npy": member(f"<U{len(text)}", (), data)})
    for descr in ("|O", "<M8[s]", "|V8", "<c16", "|S8", "<f2", "[('a', '<f8')]", "x", "<f99"):
        yield (
            f"dtype {descr}",
            archive({"header.npy": header, "a.npy": member(descr, (1,), bytes(8))}),
        )
    for shape in ((2**40,), (2**62, 2), (-1,), (0, 2**62), (2**31, 2**31), "x", (1.5,), (0,) * 70):
        yield f"shape {shape}", archive({"header.npy": header, "a.npy": member("<f8", shape)})
    for name in ("../../etc/x.npy", "/x.npy", "a\0b.npy", "x" * 60_000, ".npy", "a.npy/", "é.npy"):
        yield "odd name", archive({"header.npy": header, name: member("<f8", (1,), bytes(8))})
    for version in (b"\x02\x00", b"\x03\x00", b"\x09\x09"):
        yield "version", archive({"header.npy": member("<f8", (1,), bytes(8), version)})
    bomb = {"header.npy": header, "a.npy": member("<f8", (2**24,), bytes(2**27))}
    yield "compressed", archive(bomb, zipfile.ZIP_DEFLATED)
    yield "nested", nested(100, 2**23)
    yield "pickle", b"PK\x03\x04" + pickle.dumps({"a": 1})
    yield "array of objects", archive({"header.npy": member("|O", (1,), pickle.dumps([1]))})
    yield "many members", archive({f"a{n}.npy": member("<f8", (0,)) for n in range(5000)})
    yield "only a head", b"PK\x03\x04"
    yield "zeros", b"PK\x03\x04" + bytes(10**6)


def others() -> Iterator[tuple[str, bytes]]:
    """Sound files of what is no Decider and no policy, and of policies that are not served."""
    yield "Encoder", ht.Encoder(numbers={"a": (0.0, 1.0)}).to_bytes()
    yield "regression", ht.OnlineRidge().fit(np.eye(3), np.ones(3)).to_bytes()
    yield (
        "plays an arm several times",
        ht.make_policy(
            "CRMM", dim=3, horizon=100, tail=ht.MomentBound(order=1.5, scale=1.0)
        ).to_bytes(),
    )


def run(files: int, seed: int = 0) -> tuple[Counter, list[str]]:
    """So many uploads: what was answered, and what should not have been."""
    counts: Counter = Counter()
    bad: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "store") as client:
        client.put("/v1/models/shop", json={"dim": 3})
        for what, content in [*crafted(), *others()]:
            upload(client, content, what, counts, bad, refused=True)
        for number in range(files):
            name = NAMES[number % len(NAMES)]
            for place in (0, 1):
                bench = benches(Path(folder), name, seed)
                rng = np.random.default_rng([seed, number, place])
                content = bench.crafted(rng) if place else bench.damaged(number, rng)
                upload(client, content, f"{name} {number} {place}", counts, bad, refused=not place)
            teach(client, spoilt(number, seed), f"log {number}", counts, bad)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    counts["MiB of memory"] = grown // 2**20
    if grown > ROOM:
        bad.append(f"the process grew by {grown / 2**30:.1f} GiB")
    return counts, bad


BENCHES: dict[str, Bench] = {}


def benches(folder: Path, name: str, seed: int) -> Bench:
    """The tools to damage a file of one class, made once."""
    if name not in BENCHES:
        BENCHES[name] = Bench(name, folder, seed)
    return BENCHES[name]


def upload(
    client: TestClient, content: bytes, what: str, counts: Counter, bad: list[str], *, refused: bool
) -> None:
    """Upload a file; a model that it makes must serve, go, and leave nothing."""
    path = "/v1/models/odd"
    answer = client.put(path, content=content, params={"learn": "shop"} if len(bad) % 2 else None)
    counts[answer.status_code] += 1
    if answer.status_code in REFUSED or (
        not content.startswith(b"PK\3\4") and answer.status_code == 400
    ):
        if client.get(path).status_code != 404:
            bad.append(f"{what}: refused, and there is a model")
        return
    if refused or answer.status_code != 201:
        bad.append(f"{what}: {answer.status_code} {answer.text[:200]}")
    calls: list[Callable[[], object]] = [
        lambda: client.get(path),
        lambda: client.post(f"{path}/decisions", json={"arms": np.eye(3).tolist()}),
        lambda: client.post(f"{path}/decisions", json={"context": {}}),
        lambda: client.get("/v1/stats"),
        lambda: client.get("/metrics"),
        lambda: client.get("/v1/models"),
        lambda: client.post(f"{path}/snapshots"),
        lambda: client.get("/readyz"),
        lambda: client.delete(path),
    ]
    for call in calls:
        later = call()
        if later.status_code >= 500:
            bad.append(f"{what}: {later.request.url.path} {later.status_code} {later.text[:200]}")


def spoilt(number: int, seed: int) -> bytes:
    """A log in which some bytes are changed, or of which the end is lost."""
    rng = np.random.default_rng([seed, number])
    stream = io.BytesIO()
    rows = 50
    columns = {
        "action": rng.integers(0, 3, rows), "reward": rng.standard_normal(rows),
        "propensity": np.full(rows, 0.3), "arms": [np.eye(3).tolist()] * rows,
    }  # fmt: skip
    pq.write_table(pa.table(columns), stream, write_page_checksum=True)
    content = bytearray(stream.getvalue())
    if number % 4 == 0:
        return bytes(content[: rng.integers(len(content))])
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    first = 4 if number % 2 else footer  # half of the changes are to what describes the rest
    for place in rng.integers(first, len(content), size=rng.integers(1, 4)):
        content[place] ^= int(rng.integers(1, 256))
    return bytes(content)


def teach(client: TestClient, content: bytes, what: str, counts: Counter, bad: list[str]) -> None:
    """Let a new model learn a log; where it is refused, nothing has changed."""
    path = "/v1/models/taught"
    client.put(path, json={"dim": 3})
    answer = client.post(f"{path}/log", content=content)
    counts[f"log {answer.status_code}"] += 1
    view = client.get(path).json()
    if answer.status_code not in (201, 422) or (answer.status_code == 422 and view["rounds"]):
        bad.append(f"{what}: {answer.status_code} {answer.text[:200]}")
    client.delete(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts, bad = run(args.files, args.seed)
    print(", ".join(f"{n:,} of {what}" for what, n in counts.items()) + f"; {len(bad)} bad")
    print(*bad[:20], sep="\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
