"""A service that is killed at random moments, and clients that do not give up.

``python -m tests.serve.killing --kills 50`` counts what was lost or doubled. With ``--workers 3``
they share a PostgreSQL store, and a worker, the one that leads, or the database is killed.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from tests.serve.postgres import Database, database

from heavytail.ledger.opening import opened
from heavytail.ledger.postgres import LEASE
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import Token
from heavytail.serve.model import built

LEADER = (  # sessions are named heavytail, their machine and their process
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.classid = ? AND l.objid = 1 AND l.granted"
)
SPEC = {"policy": "TwinUCB", "dim": 3, "wait": 3600.0}
ARMS = np.eye(3).tolist()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Seen:
    """What clients were told is done."""

    decided: dict[str, int] = field(default_factory=dict)  # token -> arm
    rewarded: dict[str, float] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def start(store: str, port: int) -> subprocess.Popen:
    """A service in a process of its own, once it answers."""
    command = [sys.executable, "-m", "heavytail", "serve", "--store", store, "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(2400):  # two minutes, on a machine that is busy
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode}")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return process
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError("the service does not answer")


def retry(
    client: httpx.Client, urls: list[str], stop: threading.Event, path: str, **kwargs
) -> httpx.Response | None:
    """The answer, however often it must be asked, of whichever worker; None at the end."""
    while not stop.is_set():
        try:
            answer = client.post(random.choice(urls) + path, **kwargs)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if answer.status_code != 503:
            return answer
    return None


def play(urls: list[str], seen: Seen, stop: threading.Event, seed: int) -> None:
    """Decide and reward, out of order, in ones and in batches, again and again until answered."""
    rng, waiting = random.Random(seed), []
    with httpx.Client(timeout=60.0) as client:
        while not stop.is_set():
            head = {"Idempotency-Key": secrets.token_hex(8)}
            many = [{"arms": ARMS}] * rng.choice([1, 1, 5])
            answer = retry(client, urls, stop, "/decisions", json=many, headers=head)
            if answer is None:
                break
            if answer.status_code != 201:
                seen.bad.append(answer.text)
                continue
            for made in answer.json():
                with seen.lock:
                    if made["token"] in seen.decided:
                        seen.bad.append(f"token {made['token']} was given twice")
                    seen.decided[made["token"]] = made["arm"]
                waiting.append(made["token"])
            rng.shuffle(waiting)
            some = [waiting.pop() for _ in range(min(len(waiting), rng.choice([0, 1, 4])))]
            rewards = {token: rng.paretovariate(1.5) for token in some}
            if not rewards:
                continue
            body = [{"token": token, "reward": value} for token, value in rewards.items()]
            answer = retry(client, urls, stop, "/rewards", json=body)
            if answer is None:
                break
            if answer.status_code not in (200, 202):
                seen.bad.append(answer.text)
                continue
            with seen.lock:
                seen.rewarded.update(rewards)


def check(store: Store, seen: Seen) -> dict[str, int]:
    """What was lost, doubled or changed of all that was acknowledged."""
    (row,) = store.models()
    decided = dict(store.rows("SELECT key, arm FROM decision"))
    rewarded = dict(store.rows("SELECT key, reward FROM outcome"))
    keys = {token: Token.parse(token).key for token in seen.decided}
    count = store.rows("SELECT COUNT(*) FROM decision")[0][0]
    seqs = [one.seq for one in store.outcomes(row.id, 0, 10**9)]
    counted = store.activities()[row.id]
    money = store.rows("SELECT SUM(reward) FROM outcome")[0][0] or 0.0
    return {
        "decisions": len(seen.decided),
        "rewards": len(seen.rewarded),
        "decisions lost": sum(decided.get(keys[t]) != arm for t, arm in seen.decided.items()),
        "rewards lost": sum(rewarded.get(keys[t]) != r for t, r in seen.rewarded.items()),
        "tokens doubled": count - len(decided),
        "gaps": int(seqs != list(range(1, len(seqs) + 1)) or row.last != len(seqs)),
        "miscounted": abs(counted.decisions - count)
        + abs(counted.sent - len(seqs))
        + int(abs(counted.money - money) > 1e-9 * money),
        "refused": len(seen.bad),
        "snapshots": len(store.snapshots(row.id)),
    }


def differs(store: Store) -> int:
    """Whether snapshot and log make another state than the log alone, to the bit."""
    from heavytail.serve.keeping import ways
    from heavytail.serve.model import Model

    (row,) = store.models()
    way = next(ways(store.snapshots(row.id), from_log=True))
    data = None if way.number is None else store.snapshot_data(row.id, way.number)
    model = Model(row, None if data is None else (way.version, data))
    model.learn(store.outcomes(row.id, model.version, 10**9))
    alone = built(model.spec)
    for one in store.outcomes(row.id, 0, 10**9):
        alone.update(np.frombuffer(one.x), one.reward, scale=one.scale)
    return int(alone.to_bytes() != model.policy.to_bytes())


class Workers:
    """Processes that share a store, and the database, where there is one."""

    def __init__(self, where: str, count: int, database: Database | None = None) -> None:
        self.where, self.database = where, database
        self.ports = [free_port() for _ in range(count)]
        self.processes = [start(where, port) for port in self.ports]

    def kill(self, victim: str, rng: random.Random) -> str:
        """Kill one and start it again; what was killed."""
        if victim == "database":
            self.database.kill()
            time.sleep(rng.uniform(0.0, 0.5))
            self.database.start()
            return victim
        k = rng.randrange(len(self.processes))
        if victim == "leader":
            k = self.leader(k)
        os.kill(self.processes[k].pid, signal.SIGKILL)
        self.processes[k].wait()
        self.processes[k] = start(self.where, self.ports[k])
        return victim

    def leader(self, otherwise: int) -> int:
        store = opened(self.where)
        names = store.rows(LEADER, LEASE)
        store.close()
        name = names[0][0].split()[-1] if names else ""
        pids = [str(process.pid) for process in self.processes]
        return pids.index(name) if name in pids else otherwise

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def run(
    kills: int,
    seed: int,
    where: str,
    *,
    workers: int = 1,
    database: Database | None = None,
    clients: int = 4,
) -> dict[str, int]:
    """So many kills under load; what was found then."""
    rng, seen, stop = random.Random(seed), Seen(), threading.Event()
    several = Workers(where, workers, database)
    urls = [f"http://127.0.0.1:{port}/v1/models/shop" for port in several.ports]
    httpx.put(urls[0], json=SPEC).raise_for_status()
    threads = [
        threading.Thread(target=play, args=(urls, seen, stop, seed * 100 + k))
        for k in range(clients)
    ]
    for thread in threads:
        thread.start()
    victims = ["worker"] if database is None else ["worker", "leader", "database"]
    try:
        for k in range(kills):
            time.sleep(rng.uniform(0.05, 1.0))
            several.kill(victims[k % len(victims)], rng)
        time.sleep(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        several.stop()
    store = opened(where)
    try:
        return {**check(store, seen), "states that differ": differs(store)}
    finally:
        store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    if args.workers > 1:
        with database() as one:
            found = run(args.kills, args.seed, one.address, workers=args.workers, database=one)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = run(args.kills, args.seed, str(Path(folder) / "store"))
    print(f"{args.kills} kills: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
    return int(
        any(n for what, n in found.items() if what not in ("decisions", "rewards", "snapshots"))
    )


if __name__ == "__main__":
    sys.exit(main())
