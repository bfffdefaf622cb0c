"""Decisions over HTTP per second, durable, beside an empty endpoint of the same server.

``python -m benchmarks.serve``: 50 arms of 16 features; single decisions, batches of 100, rewards,
and the time to an answer at half of the highest rate. Clients run in a process of their own. The
empty endpoint reads the same bodies and answers ``{}``; ``--server granian`` takes that server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

ARMS, DIM, SETS = 50, 16, 32
PATH = "/v1/models/shop"


def serve_empty(port: int, server: str) -> None:
    """Read the body, answer {}."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def empty(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    route = Route("/{path:path}", empty, methods=["GET", "PUT", "POST"])
    serve(Starlette(routes=[route]), port, server)


def serve_ours(port: int, server: str, folder: str) -> None:
    """The service, on a store of its own."""
    from heavytail.serve.app import build
    from heavytail.serve.sqlite import SQLiteStore

    serve(build(SQLiteStore(folder), local=True), port, server)


def serve(app, port: int, server: str) -> None:
    if server == "granian":
        from granian.constants import Interfaces
        from granian.server.embed import Server

        asyncio.run(Server(app, port=port, interface=Interfaces.ASGI).serve())
    else:
        import uvicorn

        uvicorn.run(app, port=port, log_level="warning", access_log=False)


def bodies(batch: int) -> list[bytes]:
    """Requests for decisions."""
    rng = np.random.default_rng(0)

    def arms() -> list[list[float]]:
        rows = rng.normal(size=(ARMS, DIM))
        return (rows / (1.001 * np.linalg.norm(rows, axis=1, keepdims=True))).tolist()

    told = [[{"arms": arms()} for _ in range(batch)] for _ in range(max(SETS // batch, 2))]
    return [request("/decisions", each if batch > 1 else each[0]) for each in told]


def request(path: str, body) -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST {PATH}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


async def answered(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 20" not in head[:13]:
        raise RuntimeError(head.decode())
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def client(port: int, sent: list[bytes], stop: float, rate: float, seen: list[float]) -> None:
    """One connection, as fast as it goes, or at ``rate`` per second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter()
    for k in range(10**9):
        if rate:
            due += float(np.random.default_rng(k).exponential(1.0 / rate))
            await asyncio.sleep(max(due - time.perf_counter(), 0.0))
        start = due if rate else time.perf_counter()
        if start > stop:
            break
        writer.write(sent[k % len(sent)])
        await answered(reader)
        seen.append(time.perf_counter() - start)
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
            await asyncio.gather(*(rewarding(args.port, stop, seen) for _ in range(args.conns)))
        else:
            sent, rate = bodies(args.batch), args.rate / args.conns
            some = (client(args.port, sent, stop, rate, seen) for _ in range(args.conns))
            await asyncio.gather(*some)

    start = time.perf_counter()
    asyncio.run(main())
    taken = time.perf_counter() - start
    p50, p99 = np.percentile(seen, [50, 99]) * 1e3
    print(json.dumps({"rate": len(seen) / taken, "p50": p50, "p99": p99}))


def measured(port: int, batch: int, conns: int, seconds: float, rate: float = 0.0) -> dict:
    command = [sys.executable, "-m", "benchmarks.serve", "--load", "--port", str(port)]
    command += ["--batch", str(batch), "--conns", str(conns), "--seconds", str(seconds)]
    done = subprocess.run([*command, "--rate", str(rate)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def started(kind: str, port: int, server: str, folder: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "benchmarks.serve", "--serve", kind, "--port", str(port)]
    process = subprocess.Popen([*command, "--server", server, "--store", folder])
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read()
            break
        except OSError:
            time.sleep(0.1)
    if kind == "ours":
        spec = json.dumps({"policy": "TwinUCB", "dim": DIM}).encode()
        made = urllib.request.Request(f"http://127.0.0.1:{port}{PATH}", spec, method="PUT")
        urllib.request.urlopen(made).read()
    return process


def restart(events: int) -> None:
    """Print how long a service takes to begin whose log has so many rewards and no snapshot."""
    from heavytail.serve.layout import DecisionRow
    from heavytail.serve.service import Service
    from heavytail.serve.sqlite import SQLiteStore
    from heavytail.serve.tokens import Token

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
    add("--serve", choices=("empty", "ours"), help=argparse.SUPPRESS)
    add("--store", default="", help=argparse.SUPPRESS)
    add("--batch", type=int, default=1, help=argparse.SUPPRESS)
    add("--rate", type=float, default=0.0, help=argparse.SUPPRESS)
    add("--port", type=int, default=8321)
    add("--conns", type=int, default=16)
    add("--seconds", type=float, default=5.0)
    add("--restart", type=int, metavar="EVENTS", help="how long a start takes, and nothing else")
    add("--server", choices=("uvicorn", "granian"), default="uvicorn")
    args = parser.parse_args()
    if args.restart:
        restart(args.restart)
        return 0
    if args.load:
        load(args)
        return 0
    if args.serve == "empty":
        serve_empty(args.port, args.server)
        return 0
    if args.serve == "ours":
        serve_ours(args.port, args.server, args.store)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        empty = started("empty", args.port, args.server, "")
        ours = started("ours", args.port + 1, args.server, folder)
        try:
            report(args)
        finally:
            empty.kill()
            ours.kill()
            ours.wait()
    return 0


def report(args: argparse.Namespace) -> None:
    """Everything in one run; ratios are what counts."""
    port, seconds = args.port, args.seconds
    measured(port + 1, 1, args.conns, 1.0)  # kernels are compiled
    base = measured(port, 1, args.conns, seconds)
    single = measured(port + 1, 1, args.conns, seconds)
    half = measured(port + 1, 1, args.conns, seconds, single["rate"] / 2)
    batch = measured(port + 1, 100, 4, seconds)
    rewards = measured(port + 1, 0, args.conns, seconds)
    print(f"{args.server}, {args.conns} connections, {ARMS} arms of {DIM} features")
    for name, told in {"empty endpoint": base, "decision": single, "reward": rewards}.items():
        times = f"p50 {told['p50']:.2f} ms  p99 {told['p99']:.2f} ms"
        print(f"{name:16} {told['rate']:8,.0f} per s  {times}")
    print(f"batches of 100   {100 * batch['rate']:8,.0f} decisions per s")
    print(f"a decision over the empty endpoint {single['rate'] / base['rate']:.2f}")
    print(f"batches over single decisions      {100 * batch['rate'] / single['rate']:.1f}")
    print(f"p99 at half of the highest rate    {half['p99']:.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
