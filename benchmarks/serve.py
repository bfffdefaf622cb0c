"""Decisions over HTTP per second, durable, beside an empty endpoint of the same server.

``python -m benchmarks.serve``: 50 arms of 16 features; single decisions, batches of 100, rewards,
and the time to an answer at half of the highest rate; Vowpal Wabbit behind the same server, where
it is installed. Clients run in a process of their own. ``--server granian`` takes that server.
``--workers 4`` compares so many workers on PostgreSQL with one; ``--memory 1000000`` watches the
memory over so many decisions and rewards, counts their tokens, and times the requests of the page
and a start after a kill; ``--restart 1000000`` times a start without a snapshot.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator

import numpy as np

ARMS, DIM, SETS = 50, 16, 32
PATH = "/v1/models/shop"


def bodies(batch: int, by_ids: bool) -> list[bytes]:
    """Requests for decisions, among arms that they state or among the model's own offers."""
    rng = np.random.default_rng(0)
    if by_ids:
        context = {"segment": "returning", "basket": 31.5, "device": "phone"}
        body = {"context": context, "unit": 1234567}
        return [request("/decisions", [body] * batch if batch > 1 else body)]

    def arms() -> list[list[float]]:
        rows = rng.normal(size=(ARMS, DIM))
        return (rows / (1.001 * np.linalg.norm(rows, axis=1, keepdims=True))).tolist()

    told = [[{"arms": arms()} for _ in range(batch)] for _ in range(max(SETS // batch, 2))]
    return [request("/decisions", each if batch > 1 else each[0]) for each in told]


def request(path: str, body) -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST {PATH}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


async def answered(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 20" not in head[:13]:
        raise RuntimeError(head.decode())
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def client(
    ports: list[int], sent: list[bytes], stop: float, rate: float, seen: list[float]
) -> None:
    """One connection to each port, as fast as it goes, or at ``rate`` per second."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
    due, rng = time.perf_counter(), np.random.default_rng()
    for k in range(10**9):
        if rate:
            due += float(rng.exponential(1.0 / rate))
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        start = due if rate else time.perf_counter()
        if start > stop:
            break
        reader, writer = streams[k % len(streams)]
        writer.write(sent[k % len(sent)])
        await answered(reader)
        seen.append(time.perf_counter() - start)
    for _, writer in streams:
        writer.close()


async def rewarding(port: int, stop: float, seen: list[float]) -> None:
    """Decide a hundred at once and send each one's reward by itself; rewards are timed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    batch = request("/decisions", [{"arms": np.eye(DIM)[:3].tolist()}] * 100)
    while time.perf_counter() < stop:
        writer.write(batch)
        for made in json.loads(await answered(reader)):
            start = time.perf_counter()
            writer.write(request("/rewards", {"token": made["token"], "reward": 1.5}))
            await answered(reader)
            seen.append(time.perf_counter() - start)
    writer.close()


def load(args: argparse.Namespace) -> None:
    """Print how many answers per second came, and after how long."""
    seen: list[float] = []

    async def main() -> None:
        stop = time.perf_counter() + args.seconds
        if args.batch == 0:
            await asyncio.gather(*(rewarding(args.ports[0], stop, seen) for _ in range(args.conns)))
        else:
            sent, rate = bodies(args.batch, args.by_ids), args.rate / args.conns
            some = (client(args.ports, sent, stop, rate, seen) for _ in range(args.conns))
            await asyncio.gather(*some)

    start = time.perf_counter()
    asyncio.run(main())
    taken = time.perf_counter() - start
    p50, p99 = np.percentile(seen, [50, 99]) * 1e3
    print(json.dumps({"rate": len(seen) / taken, "p50": p50, "p99": p99}))


def measured(
    ports: int | list[int],
    batch: int,
    conns: int,
    seconds: float,
    rate: float = 0.0,
    by_ids: bool = False,
) -> dict:
    """What clients in a process of their own saw."""
    several = [str(port) for port in (ports if isinstance(ports, list) else [ports])]
    command = [sys.executable, "-m", "benchmarks.serve", "--load", "--ports", *several]
    command += ["--batch", str(batch), "--conns", str(conns), "--seconds", str(seconds)]
    command += ["--rate", str(rate), *(["--by-ids"] if by_ids else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


@contextlib.contextmanager
def started(
    kind: str, port: int, server: str = "uvicorn", store: str = "", again: bool = False
) -> Iterator[int]:
    """A server while it runs; its process. ``again``: on the store of an earlier one."""
    command = [sys.executable, "-m", "benchmarks.servers", kind, "--port", str(port)]
    process = subprocess.Popen([*command, "--server", server, "--store", store])
    try:
        for _ in range(3000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read()
                break
            except OSError:
                time.sleep(0.02)
        if kind == "ours" and not again:
            spec = json.dumps({"policy": "TwinUCB", "dim": DIM}).encode()
            made = urllib.request.Request(f"http://127.0.0.1:{port}{PATH}", spec, method="PUT")
            urllib.request.urlopen(made).read()
            rows = np.random.default_rng(0).normal(size=(ARMS, DIM))
            rows /= 1.001 * np.linalg.norm(rows, axis=1, keepdims=True)
            offers = {f"offer {k}": row.tolist() for k, row in enumerate(rows)}
            url = f"http://127.0.0.1:{port}{PATH}/offers"
            body = json.dumps({"offers": offers}).encode()
            urllib.request.urlopen(urllib.request.Request(url, body, method="PUT")).read()
            measured(port, 1, 4, 1.0)  # kernels are compiled
        yield process.pid
    finally:
        process.kill()
        process.wait()


def workers(args: argparse.Namespace) -> None:
    """One worker on PostgreSQL, and several; each worker has as many connections."""
    from tests.serve.postgres import database

    with database() as one, contextlib.ExitStack() as stack:
        ports = [args.port + k for k in range(args.workers)]
        for port in ports:
            stack.enter_context(started("ours", port, store=one.address))
        print(f"PostgreSQL, {args.conns} connections per worker")
        for some in (ports[:1], ports):
            told = [measured(some, 1, args.conns * len(some), args.seconds) for _ in range(3)]
            best = max(told, key=lambda each: each["rate"])
            times = f"p50 {best['p50']:.2f} ms  p99 {best['p99']:.2f} ms"
            print(f"{len(some)} workers: {best['rate']:8,.0f} decisions per s  {times}")


def memory(args: argparse.Namespace) -> None:
    """The resident memory of a service over so many decisions and their rewards, and whether a
    token came twice; then how long what the page asks for takes, and a start after a kill.
    """
    import resource

    page, tokens, model = resource.getpagesize(), set(), f"http://127.0.0.1:{args.port}{PATH}"
    rng = np.random.default_rng(0)

    def sent(path: str, content: object) -> bytes:
        made = urllib.request.Request(model + path, json.dumps(content).encode())
        return urllib.request.urlopen(made, timeout=300).read()

    with tempfile.TemporaryDirectory() as folder:
        with started("ours", args.port, store=folder) as pid:
            for k in range(1, args.memory // 1000 + 1):
                units = range(1000 * k, 1000 * (k + 1))
                made = json.loads(sent("/decisions", [{"unit": unit} for unit in units]))
                tokens.update(each["token"] for each in made)
                paid = rng.standard_t(1.5, 1000).tolist()
                outcomes = zip(made, paid, strict=True)
                sent("/rewards", [{"token": one["token"], "reward": r} for one, r in outcomes])
                if k % max(args.memory // 10_000, 1) == 0:
                    with open(f"/proc/{pid}/statm") as statm:
                        size = int(statm.read().split()[1]) * page / 2**20
                    print(f"{1000 * k:12,} rewarded  {len(tokens):12,} tokens  {size:8.1f} MiB")
            urls = {"stats": model[: -len("/models/shop")] + "/stats",
                    "models": model[: -len("/shop")], "earned": f"{model}/earned"}  # fmt: skip
            for name, url in urls.items():
                taken = []
                for _ in range(20):
                    start = time.perf_counter()
                    urllib.request.urlopen(url, timeout=300).read()
                    taken.append(1e3 * (time.perf_counter() - start))
                print(f"{name:8} median {np.median(taken):6.1f} ms, most {max(taken):6.1f} ms")
        start = time.perf_counter()
        with started("ours", args.port, store=folder, again=True):
            print(f"a start after a kill: {time.perf_counter() - start:.1f} s")


def restart(events: int) -> None:
    """Print how long a service takes to begin whose log has so many rewards and no snapshot."""
    from heavytail.ledger.layout import DecisionRow
    from heavytail.ledger.sqlite import SQLiteStore
    from heavytail.ledger.tokens import Token
    from heavytail.serve.service import Service

    rng = np.random.default_rng(0)

    def write(tx) -> None:
        for _ in range(1000):
            x = rng.normal(size=DIM) / 8.0
            key = Token.new(1, 0, time.time()).key
            row = DecisionRow(1, key, 0, 0, x.tobytes(), None, b"")
            tx.decide(row)
            tx.reward(row, float(rng.standard_t(1.5)), None)

    with tempfile.TemporaryDirectory() as folder:
        store = SQLiteStore(folder)
        store.apply([lambda tx: tx.create("shop", json.dumps({"dim": DIM}))])
        for _ in range(events // 2000):  # a decision and a reward are two events
            store.apply([write])
        store.close()
        for _ in range(2):  # the first time kernels are compiled
            service = Service(SQLiteStore(folder))
            start = time.perf_counter()
            asyncio.run(service.start())
            taken, rounds = time.perf_counter() - start, service.models["shop"].policy.rounds
            service.store.close()
    print(f"{events:,} events, {rounds:,} rewards learned again: {taken:.1f} s to begin")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--load", action="store_true", help=argparse.SUPPRESS)
    add("--by-ids", action="store_true", help=argparse.SUPPRESS)
    add("--batch", type=int, default=1, help=argparse.SUPPRESS)
    add("--rate", type=float, default=0.0, help=argparse.SUPPRESS)
    add("--ports", type=int, nargs="+", help=argparse.SUPPRESS)
    add("--port", type=int, default=8321)
    add("--conns", type=int, default=16)
    add("--seconds", type=float, default=5.0)
    add("--restart", type=int, metavar="EVENTS", help="how long a start takes, and nothing else")
    add("--workers", type=int, help="so many workers on PostgreSQL beside one, and nothing else")
    add("--memory", type=int, metavar="DECISIONS", help="memory over these, and nothing else")
    add("--server", choices=("uvicorn", "granian"), default="uvicorn")
    args = parser.parse_args()
    if args.load:
        load(args)
    elif args.restart:
        restart(args.restart)
    elif args.workers:
        workers(args)
    elif args.memory:
        memory(args)
    else:
        report(args)
    return 0


def report(args: argparse.Namespace) -> None:
    """Everything in one run; ratios are what counts."""
    port, seconds, conns = args.port, args.seconds, args.conns
    found = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(started("empty", port, args.server))
        stack.enter_context(started("ours", port + 1, args.server, folder))
        found["empty endpoint"] = base = measured(port, 1, conns, seconds)
        found["decision, arms"] = arms = measured(port + 1, 1, conns, seconds)
        found["decision, ids"] = single = measured(port + 1, 1, conns, seconds, by_ids=True)
        half = measured(port + 1, 1, conns, seconds, single["rate"] / 2, by_ids=True)
        batch = measured(port + 1, 100, 4, seconds, by_ids=True)
        found["reward"] = measured(port + 1, 0, conns, seconds)
        if importlib.util.find_spec("vowpalwabbit"):
            stack.enter_context(started("vw", port + 2, args.server))
            found["Vowpal Wabbit"] = measured(port + 2, 1, conns, seconds)
    print(f"{args.server}, {conns} connections, {ARMS} arms of {DIM} features")
    for name, told in found.items():
        times = f"p50 {told['p50']:.2f} ms  p99 {told['p99']:.2f} ms"
        print(f"{name:16} {told['rate']:8,.0f} per s  {times}")
    print(f"batches of 100   {100 * batch['rate']:8,.0f} decisions per s")
    print(f"by arms over the empty endpoint    {arms['rate'] / base['rate']:.2f}")
    print(f"by ids over the empty endpoint     {single['rate'] / base['rate']:.2f}")
    print(f"batches over single decisions      {100 * batch['rate'] / single['rate']:.1f}")
    print(f"p99 at half of the highest rate    {half['p99']:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
