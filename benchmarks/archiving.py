"""How long decisions take while the service moves old rows to its archive.

``python -m benchmarks.archiving`` fills a store with old decisions, serves it with ``--keep 1d``,
and sends one decision after another: before, and while the archive takes the old rows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from heavytail.ledger.details import Detail, pack
from heavytail.ledger.layout import DecisionRow
from heavytail.ledger.opening import opened
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.tokens import Token
from heavytail.ledger.transaction import Transaction

ARMS, DIM, MANY = 10, 8, 5000
PAST = 30 * 86_400.0
SPEC = '{"dim":8,"policy":"TwinUCB"}'


def fill(folder: Path, count: int) -> int:
    """Write a model with old decisions, and return the bytes of the store."""
    rng, store, start = np.random.default_rng(0), opened(folder), time.time() - PAST
    (row,), _ = store.apply([lambda tx: tx.create("shop", SPEC)])

    def write(tx: Transaction) -> None:
        for i in range(MANY):
            arms = rng.random((ARMS, DIM)) / DIM**0.5
            when = start + i
            detail = Detail(ARMS, 1.0, 0.5, None, None, arms.tobytes(), None, None)
            key, x = Token.new(row.id, 0, when).key, arms[1].tobytes()
            made = DecisionRow(row.id, key, 0, 1, x, None, pack(detail))
            tx.decide(made)
            tx.reward(made, float(rng.standard_t(3)), None, when=when + 1.0)

    for _ in range(count // MANY):
        store.apply([write])
    store.close()
    return (folder / "heavytail.db").stat().st_size


def left(folder: Path) -> tuple[int, int]:
    """Rows recorded in the archive, and those no longer in the tables."""
    with SQLiteStore.reading(folder, checked=False) as store:
        files = store.files(1)
    return sum(file.entries for file in files), sum(file.done for file in files)


def main() -> None:
    """Print percentiles of the times, in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, socket.socket() as free:
        folder = Path(name) / "store"
        size = fill(folder, args.decisions)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "heavytail", "serve", "--store", str(folder)]
        service = subprocess.Popen([*command, "--port", str(port), "--keep", "1d"])
        try:
            before, during, seconds = measure(port, folder, args.decisions)
        finally:
            service.terminate()
            service.wait()
        written = sum(path.stat().st_size for path in (folder / "archive").iterdir())
    print(f"{args.decisions:,} decisions, {size / 2**20:.0f} MiB, archived in {seconds:.0f} s")
    print(f"files of the archive: {written / 2**20:.0f} MiB")
    for words, times in (("before", before), ("during", during)):
        p50, p99, p999 = np.percentile(times, [50, 99, 99.9])
        print(f"{words}: {len(times):,} decisions, {p50:.2f} ms, p99 {p99:.2f}, p99.9 {p999:.2f}")
    print(f"ratio of p99: {np.percentile(during, 99) / np.percentile(before, 99):.2f}")


def measure(port: int, folder: Path, count: int) -> tuple[list[float], list[float], float]:
    """The times of decisions before and while rows are archived, and the seconds that it took."""
    body = json.dumps({"arms": (np.random.default_rng(1).random((ARMS, DIM)) / DIM**0.5).tolist()})
    head = {"content-type": "application/json"}
    before: list[float] = []
    during: list[float] = []
    here, looked, begun, done, files = None, 0.0, 0.0, 0, 0
    while done < count:
        try:
            if here is None:
                here = http.client.HTTPConnection("127.0.0.1", port)
                here.connect()
                here.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start = time.perf_counter()
            here.request("POST", "/v1/models/shop/decisions", body, head)
            answer = here.getresponse()
            answer.read()
            elapsed = 1000.0 * (time.perf_counter() - start)
        except OSError:
            here = None
            time.sleep(0.1)
            continue
        if answer.status != 503:  # it learns the log
            assert answer.status == 201, answer.status
            (during if begun else before).append(elapsed)
        if time.monotonic() - looked > 0.5:
            looked, begun_now = time.monotonic(), (folder / "archive").exists()
            files, done = left(folder)
            if not begun and (begun_now or files):
                begun = time.monotonic()
        time.sleep(0.002)
    return before[200:], during, time.monotonic() - begun


if __name__ == "__main__":
    main()
