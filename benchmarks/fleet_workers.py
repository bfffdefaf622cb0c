"""Workers of the service on one PostgreSQL, each in a process and behind a link of its own, the
clients that send them requests, and what can be seen from the database meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import psutil
import psycopg
from tests.serve.killing import LEADER, free_port
from tests.serve.postgres import Database

from benchmarks.fleet_network import Network
from heavytail.ledger.opening import opened
from heavytail.ledger.postgres import LEASE
from heavytail.ledger.tokens import Token
from heavytail.serve.model import built
from heavytail.serve.wire import ModelSpec

__all__ = ["ARMS", "DIM", "Account", "Answer", "Client", "Fleet", "Watch", "audit", "play"]

ARMS, DIM, SETS = 10, 16, 32
SPEC = {"policy": "TwinUCB", "dim": DIM, "log_arms": False}
STATES = (  # of every worker's session: what it does, and whether it changes a row of a model
    "SELECT a.application_name, a.state, COALESCE(a.wait_event_type, ''), EXISTS (SELECT 1 FROM "
    "pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = a.pid AND c.relname = 'model' "
    "AND l.mode = 'RowExclusiveLock') FROM pg_stat_activity a "
    "WHERE a.application_name LIKE 'heavytail %'"
)


class Fleet:
    """Workers that share a database.

    Args:
        database: running.
        network: with a link for each worker.
    """

    def __init__(self, database: Database, network: Network) -> None:
        self.database, self.network = database, network
        self.ports: list[int] = []
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *failure: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def add(self, skew: float = 0.0) -> None:
        """Start another worker and wait until it is ready."""
        port, where = free_port(), self.network.address(len(self.ports))
        command = [sys.executable, "-m", "benchmarks.servers", "ours", "--port", str(port)]
        command += ["--store", where, "--skew", str(skew)]
        self.processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        self.ports.append(port)
        for _ in range(600):
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            time.sleep(0.1)
        raise RuntimeError("a worker does not start")

    def create(self, name: str, **options: object) -> None:
        """Create a model."""
        self.call(0, f"/v1/models/{name}", json.dumps({**SPEC, **options}).encode(), "PUT")

    def call(self, worker: int, path: str, body: bytes | None = None, method: str = "GET") -> bytes:
        """Send a request that must succeed."""
        url = f"http://127.0.0.1:{self.ports[worker]}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method)) as answer:
            return bytes(answer.read())

    def worker(self, session: str) -> int:
        """The worker of a session's name, which ends with a process number; -1 for another."""
        pids = [str(process.pid) for process in self.processes]
        return pids.index(session.split()[-1]) if session.split()[-1] in pids else -1

    def seconds(self) -> tuple[float, float]:
        """Processor time of the workers and of the database so far."""
        workers = sum(_seconds(psutil.Process(process.pid)) for process in self.processes)
        server = psutil.Process(self.database.pid)
        return workers, sum(map(_seconds, [server, *server.children()]))

    def states(self, name: str) -> list[bytes]:
        """The state of a model in each worker, as a file."""
        path = f"/v1/models/{name}/snapshots"
        numbers = [
            json.loads(self.call(worker, path, b"{}", "POST"))["snapshot"]
            for worker in range(len(self.ports))
        ]
        return [self.call(k, f"{path}/{number}") for k, number in enumerate(numbers)]


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


class Sample(NamedTuple):
    """What the sessions of the workers did at a moment.

    Attributes:
        waiting: share of them that waited for a lock.
        held: whether one of them was changing the row of a model.
        leader: worker that leads the first model; -1 for none.
    """

    when: float
    waiting: float
    held: bool
    leader: int


class Watch:
    """Look at the workers' sessions, again and again, in a thread."""

    def __init__(self, fleet: Fleet, every: float = 0.05) -> None:
        self.fleet, self.every = fleet, every
        self.samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        leads = LEADER.replace("?", "%s")
        while not self._ended.wait(self.every):
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(self.fleet.database.address, autocommit=True) as session,
            ):
                while not self._ended.wait(self.every):
                    states = session.execute(STATES).fetchall()
                    leaders = session.execute(leads, [LEASE]).fetchall()
                    waiting = sum(kind == "Lock" for _, _, kind, _ in states)
                    self.samples.append(
                        Sample(
                            time.perf_counter(),
                            waiting / max(len(states), 1),
                            any(held for *_, held in states),
                            self.fleet.worker(leaders[0][0]) if leaders else -1,
                        )
                    )


class Answer(NamedTuple):
    """An answer to a client, or that none came.

    Attributes:
        status: of HTTP; 0 if none came in time.
    """

    sent: float
    came: float
    worker: int
    verb: str
    status: int


@dataclass
class Account:
    """What clients were told.

    Attributes:
        decided: arm by token.
        rewarded: reward by token.
        waiting: tokens without a reward, by model.
        acknowledged: when each reward was.
        behind: for each decision, how many acknowledged rewards it did not know, and for how many
            seconds the oldest of them had been acknowledged.
        refused: answers that no client expected.
    """

    decided: dict[str, int] = field(default_factory=dict)
    rewarded: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    acknowledged: list[float] = field(default_factory=list)
    behind: list[tuple[int, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    doubled: int = 0


class Client:
    """One connection to each worker, for one request at a time.

    Args:
        ports: of the workers.
        workers: that it sends to, each time another.
        patience: seconds until it asks another worker.
    """

    def __init__(
        self, ports: list[int], workers: list[int], account: Account, seed: int, patience: float
    ) -> None:
        self.ports, self.workers, self.account = ports, workers, account
        self.rng, self.patience = random.Random(seed), patience
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, model: str, verb: str, body: object) -> Any:
        """Send a request until it is answered; of other answers than 503 the last one counts."""
        raw = json.dumps(body).encode()
        head = f"POST /v1/models/{model}/{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        head += f"Content-Length: {len(raw)}\r\nIdempotency-Key: {secrets.token_hex(8)}\r\n\r\n"
        while True:
            worker, start = self.rng.choice(self.workers), time.perf_counter()
            try:
                made = self._answered(worker, head.encode() + raw)
                status, answer = await asyncio.wait_for(made, self.patience)
            except (OSError, EOFError, TimeoutError):
                status, answer = 0, b""
                self._drop(worker)
            came = time.perf_counter()
            self.account.answers.append(Answer(start, came, worker, verb, status))
            if status in (0, 503):
                await asyncio.sleep(0.02)
                continue
            if status >= 300:
                self.account.refused.append(answer.decode())
                return None
            return json.loads(answer)

    async def _answered(self, worker: int, request: bytes) -> tuple[int, bytes]:
        if worker not in self._streams:
            opening = asyncio.open_connection("127.0.0.1", self.ports[worker])
            self._streams[worker] = await opening
        reader, writer = self._streams[worker]
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head[9:12]), await reader.readexactly(length)

    def _drop(self, worker: int) -> None:
        if worker in self._streams:
            self._streams.pop(worker)[1].close()

    def close(self) -> None:
        """Close all connections."""
        for worker in list(self._streams):
            self._drop(worker)

    async def decide(self, model: str, many: int = 1) -> None:
        """Request decisions and keep their tokens."""
        account, start = self.account, time.perf_counter()
        known = len(account.acknowledged)
        choices = [{"arms": self.rng.choice(CHOICES)} for _ in range(many)]
        made = await self.ask(model, "decisions", choices)
        for decision in made or ():
            token = decision["token"]
            account.doubled += token in account.decided
            account.decided[token] = decision["arm"]
            account.waiting.setdefault(model, []).append(token)
            late = known - decision["version"]
            oldest = start - account.acknowledged[decision["version"]] if late > 0 else 0.0
            account.behind.append((max(late, 0), max(oldest, 0.0)))

    async def reward(self, model: str) -> bool:
        """Send the reward of a decision; False if none is waiting."""
        waiting = self.account.waiting.get(model)
        if not waiting:
            return False
        place = self.rng.randrange(len(waiting))
        waiting[place], waiting[-1] = waiting[-1], waiting[place]
        token, value = waiting.pop(), self.rng.paretovariate(1.5)
        if await self.ask(model, "rewards", {"token": token, "reward": value}) is not None:
            self.account.rewarded[token] = value
            self.account.acknowledged.append(time.perf_counter())
        return True


def _choices() -> list[list[list[float]]]:
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(SETS, ARMS, DIM))
    return (arms / (1.001 * np.linalg.norm(arms, axis=2, keepdims=True))).round(6).tolist()


CHOICES = _choices()


def play(
    fleet: Fleet,
    account: Account,
    work: Callable[[Client], Awaitable[object]],
    seconds: float,
    routes: list[list[int]],
    *,
    patience: float = 60.0,
) -> float:
    """Let clients work, again and again, for some seconds; returns how long it took them.

    Args:
        routes: for each client, the workers that it sends to.
    """

    async def one(client: Client, stop: float) -> None:
        while time.perf_counter() < stop and await work(client) is not False:
            pass
        client.close()

    async def main() -> None:
        stop = time.perf_counter() + seconds
        clients = [
            Client(fleet.ports, workers, account, seed, patience)
            for seed, workers in enumerate(routes)
        ]
        await asyncio.gather(*(one(client, stop) for client in clients))

    start = time.perf_counter()
    asyncio.run(main())
    return time.perf_counter() - start


def audit(fleet: Fleet, account: Account, name: str) -> dict[str, int]:
    """Compare what clients were told with the store, and the workers' states with the log.

    ``lost`` was acknowledged and is not in the store as it was; ``doubled`` was given to two
    requests, or is there twice; ``invented`` is there and was acknowledged to nobody. States differ
    that are not, to the bit, the state of a policy that learned the log one by one.
    """
    time.sleep(1.0)  # workers look at what others did
    states = fleet.states(name)
    store = opened(fleet.database.address)
    try:
        decided = [(bytes(key), arm) for key, arm in store.rows("SELECT key, arm FROM decision")]
        sql = "SELECT key, reward FROM outcome WHERE by_default = 0"
        rewarded = [(bytes(key), reward) for key, reward in store.rows(sql)]
        keys = {token: Token.parse(token).key for token in account.decided}
        arms, rewards = dict(decided), dict(rewarded)
        arms_lost = sum(arms.get(keys[t]) != arm for t, arm in account.decided.items())
        rewards_lost = sum(rewards.get(keys[t]) != r for t, r in account.rewarded.items())
        twice = len(decided) - len(arms) + len(rewarded) - len(rewards)
        known = {keys[t] for t in account.rewarded}
        row = next(row for row in store.models() if row.name == name)
        alone = built(msgspec.json.decode(row.spec, type=ModelSpec))
        for outcome in store.outcomes(row.id, 0, 10**9):
            alone.update(np.frombuffer(outcome.x), outcome.reward, scale=outcome.scale)
    finally:
        store.close()
    return {
        "decisions": len(account.decided),
        "rewards": len(account.rewarded),
        "lost": arms_lost + rewards_lost,
        "doubled": account.doubled + twice,
        "invented": len(arms.keys() - set(keys.values())) + len(rewards.keys() - known),
        "refused": len(account.refused),
        "states that differ": sum(state != alone.to_bytes() for state in states),
    }
