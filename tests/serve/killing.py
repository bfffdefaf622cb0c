"""A service that is killed at random moments, and clients that do not give up.

``python -m tests.serve.killing --kills 50`` counts what was lost, doubled, invented or miscounted,
and the models whose state is not what their logs lead to. Meanwhile models are uploaded, forked,
promoted, split and changed. With ``--workers 3`` they share a PostgreSQL store, and a worker, the
one that leads, or the database is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
from tests.serve.lineages import expected
from tests.serve.postgres import Database, database

import heavytail as ht
from heavytail.ledger.layout import CHANGE, Activity, ModelRow
from heavytail.ledger.opening import opened
from heavytail.ledger.postgres import LEASE
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import Token
from heavytail.serve.entries import identified
from heavytail.serve.live import Live

LEADER = (  # sessions are named heavytail, their machine and their process
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.classid = ? AND l.objid = 1 AND l.granted"
)
SPEC = {"policy": "TwinUCB", "dim": 3, "wait": 3600.0}
ARMS = np.eye(3).tolist()
OFFERS = {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0], "c": [0.0, 0.0, 1.0]}
SHELF = [{"sku": "left", "price": 1.0}, {"sku": "right", "price": 2.0}]
FACTS = ("decisions", "rewards", "snapshots", "models", "changes", "repeated elsewhere")
REQUEST = "SELECT request FROM decision GROUP BY request HAVING COUNT(*) > 1"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Seen:
    """What clients sent, and what they were told is done."""

    sent: set[bytes] = field(default_factory=set)  # keys of requests, as the store has them
    offered: dict[str, float] = field(default_factory=dict)  # rewards that were sent
    decided: dict[str, int] = field(default_factory=dict)  # token -> arm
    rewarded: dict[str, float] = field(default_factory=dict)
    changed: Counter = field(default_factory=Counter)  # lines that the audit log must have
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
    client: httpx.Client, urls: list[str], stop: threading.Event, path: str, verb="POST", **kwargs
) -> httpx.Response | None:
    """The answer, however often it must be asked, of whichever worker; None at the end."""
    while not stop.is_set():
        try:
            answer = client.request(verb, random.choice(urls) + path, **kwargs)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if answer.status_code != 503:
            return answer
    return None


def play(
    urls: list[str], seen: Seen, stop: threading.Event, seed: int, *, offers: bool = True
) -> None:
    """Decide and reward, out of order, in ones and in batches, again and again until answered; half
    of the decisions among ``offers`` of the models' own.
    """
    rng, waiting = random.Random(seed), []
    name = "shelf" if offers and seed % 4 == 3 else "shop"
    with httpx.Client(timeout=60.0) as client:
        while not stop.is_set():
            key, kept = secrets.token_hex(8), name == "shelf" or (offers and rng.random() < 0.5)
            many = [
                {"context": {"segment": "new"}, "unit": rng.randrange(99)}
                if kept
                else {"arms": ARMS}
                for _ in range(rng.choice([1, 1, 5]))
            ]
            with seen.lock:
                requests = ((key, place, len(many)) for place in range(len(many)))
                seen.sent.update(identified(request, ())[0] or b"" for request in requests)
            head = {"Idempotency-Key": key}
            answer = retry(client, urls, stop, f"/{name}/decisions", json=many, headers=head)
            if answer is None:
                break
            if answer.status_code != 201:
                seen.bad.append(answer.text)
                continue
            for made in answer.json():
                with seen.lock:
                    if made["token"] in seen.decided:
                        seen.bad.append(f"token {made['token']} was given twice")
                    seen.decided[made["token"]] = made.get("arm", -1)
                waiting.append(made["token"])
            rng.shuffle(waiting)
            some = [waiting.pop() for _ in range(min(len(waiting), rng.choice([0, 1, 4])))]
            rewards = {token: rng.paretovariate(1.5) for token in some}
            if not rewards:
                continue
            with seen.lock:
                seen.offered.update(rewards)
            body = [{"token": token, "reward": value} for token, value in rewards.items()]
            answer = retry(client, urls, stop, f"/{name}/rewards", json=body)
            if answer is None:
                break
            if answer.status_code not in (200, 202):
                seen.bad.append(answer.text)
                continue
            with seen.lock:
                seen.rewarded.update(rewards)


def change(urls: list[str], seen: Seen, stop: threading.Event, seed: int) -> None:
    """Upload, fork, promote, split and change models, one after another."""
    rng, forks, number = random.Random(seed), [], 0
    with httpx.Client(timeout=60.0) as client:
        while not stop.is_set():
            number += 1
            if len(forks) > 12:  # the service goes on with the rest
                forks.clear()
            act = rng.choice(["fork", "fork", "upload", "promote", "promote", "offers", "shelf",
                              "settings", "split", "snapshot", "restore"])  # fmt: skip
            line, path, verb, kwargs = act, "/shop/promote", "POST", {}
            if act == "fork":
                new, policy = f"f{number}", rng.choice([None, "HvtUCB", "TwinUCB"])
                line, path = f"fork shop {new}", "/shop/fork"
                shadow = rng.random() < 0.4
                kwargs = {"json": {"name": new, "policy": policy, "shadow": shadow}}
                forks.append((new, shadow))
            elif act == "upload":
                new, path, verb = f"u{number}", f"/u{number}", "PUT"
                line, params = f"create {new}", {"learn": "shop"} if rng.random() < 0.6 else None
                kwargs = {"content": uploaded(number), "params": params}
                if params is not None:
                    forks.append((new, False))
            elif act == "promote" and forks:
                new, _ = forks.pop(rng.randrange(len(forks)))
                line, head = f"promote {new} to shop", {"Idempotency-Key": secrets.token_hex(8)}
                kwargs = {"json": {"model": new}, "headers": head}
            elif act in ("offers", "shelf"):
                name = "shop" if act == "offers" else "shelf"
                line, path, verb = f"offers {name}", f"/{name}/offers", "PATCH"
                vector = {"price": 3.0} if act == "shelf" else [0.1, 0.2, rng.random()]
                kwargs = {"json": {"offers": {f"{name}{number}": vector}}}
            elif act == "settings":
                line, path, verb = "change shop: explore", "/shop", "PATCH"
                kwargs = {"json": {"explore": round(rng.random(), 3)}}
            elif act == "split" and any(not shadow for _, shadow in forks):
                other = rng.choice([new for new, shadow in forks if not shadow])
                line, path, verb = "split shop", "/shop/split", "PUT"
                kwargs = {"json": {"models": {"shop": 0.5, other: 0.5}}}
            elif act == "snapshot":
                line, path = "snapshot shop", "/shop/snapshots"
            elif act == "restore":
                kept = retry(client, urls, stop, "/shop/snapshots", "GET")
                if kept is None or not kept.json():
                    continue
                wanted = rng.choice(kept.json())["snapshot"]
                line, path = f"restore shop {wanted}", "/shop/restore"
                kwargs = {"json": {"snapshot": wanted}}
            else:
                continue
            answer = retry(client, urls, stop, path, verb, **kwargs)
            if answer is None:
                break
            if answer.status_code in (200, 201):
                seen.changed[line] += answer.status_code == 201 or act != "upload"
            elif answer.status_code >= 500:
                seen.bad.append(answer.text)
            if act == "split":  # for a while, since a split name is not promoted
                stop.wait(0.3)
                retry(client, urls, stop, "/shop/split", "DELETE")
            retry(client, urls, stop, rng.choice(["", "/shop/earned", "/shop/offers"]), "GET")
            stop.wait(rng.uniform(0.0, 0.2))


def begin(url: str) -> None:
    """Create the models that clients decide with."""
    shelf = ht.Decider(SHELF, ids="sku", context=["segment"])
    with httpx.Client(timeout=120.0) as client:
        client.put(f"{url}/shop", json=SPEC).raise_for_status()
        client.put(f"{url}/shop/offers", json={"offers": OFFERS}).raise_for_status()
        client.put(f"{url}/shelf", content=shelf.to_bytes()).raise_for_status()


def uploaded(number: int) -> bytes:
    """The file of a policy that has learned something."""
    policy = ht.TwinUCB(3)
    policy.update(np.array([0.5, 0.5, 0.0]), float(number))
    return policy.to_bytes()


def check(store: Store, seen: Seen) -> dict[str, int]:
    """What was lost, doubled, invented or changed of all that was acknowledged."""
    decided = {bytes(key): arm for key, arm in store.rows("SELECT key, arm FROM decision")}
    outcomes = store.rows("SELECT key, reward FROM outcome WHERE by_default <> ?", CHANGE)
    rewarded = {bytes(key): value for key, value in outcomes}
    offered = {Token.parse(token).key: value for token, value in seen.offered.items()}
    keys = {token: Token.parse(token).key for token in seen.decided}
    ((count,),) = store.rows("SELECT COUNT(*) FROM decision")
    requests = [bytes(request) for (request,) in store.rows("SELECT request FROM decision")]
    lines = [what for (what,) in store.rows("SELECT what FROM audit")]
    audit = Counter(re.split(r": (?:\{|request )", what)[0] for what in lines)
    promoted = [what for what in lines if ": request " in what]
    models = store.models()
    return {
        "decisions": len(seen.decided),
        "rewards": len(seen.rewarded),
        "models": len(models),
        "changes": seen.changed.total(),
        "repeated elsewhere": len(store.rows(REQUEST)),  # after another model took the name
        "snapshots": sum(len(store.snapshots(row.id)) for row in models),
        "decisions lost": sum(
            keys[t] not in decided or arm not in (-1, decided[keys[t]])
            for t, arm in seen.decided.items()
        ),
        "rewards lost": sum(rewarded.get(keys[t]) != r for t, r in seen.rewarded.items()),
        "changes lost": sum((seen.changed - audit).values()),
        "promotions doubled": len(promoted) - len({*promoted}),
        "decisions invented": sum(request not in seen.sent for request in requests),
        "rewards invented": sum(offered.get(key) != value for key, value in rewarded.items()),
        "tokens doubled": count - len(decided) + len(outcomes) - len(rewarded),
        "gaps": sum(has_gap(store, row) for row in models),
        "miscounted": sum(miscounted(store, row) for row in models),
        "refused": len(seen.bad),
    }


def has_gap(store: Store, row: ModelRow) -> bool:
    """Whether the numbers of a model's outcomes are not those from its first to its last."""
    if row.follows is not None:
        return bool(store.outcomes(row.id, 0, 1))
    seqs = [outcome.seq for outcome in store.outcomes(row.id, 0, 10**9)]
    return seqs != list(range(row.since + 1, row.last + 1))


def miscounted(store: Store, row: ModelRow) -> int:
    """How far the counts of a model are off."""
    ((made,),) = store.rows("SELECT COUNT(*) FROM decision WHERE model = ?", row.id)
    of = "FROM outcome WHERE model = ? AND by_default <> 2"
    ((sent, money),) = store.rows(f"SELECT COUNT(*), COALESCE(SUM(reward), 0.0) {of}", row.id)
    counted = store.activities().get(row.id, Activity())
    waiting = row.pending(made) - len(store.waiting(row.id))
    off = abs(counted.decisions - made) + abs(counted.rewards - sent) + abs(waiting)
    return off + int(abs(counted.money - money) > 1e-9 * money)


def differing(where: str) -> int:
    """The number of models whose state is not, to the bit, what their logs lead to."""

    async def count() -> int:
        live = Live(opened(where))
        try:
            await live.start()
            while chasers := [
                each.chaser
                for each in live.models.values()
                if each.chaser and not each.chaser.done()
            ]:
                await asyncio.wait(chasers)
            off = [*live.broken]
            with live.store.reader() as store:  # outside of any transaction, which may not idle
                for name, model in live.models.items():
                    if (model.policy.to_bytes(), model.version) != expected(store, model.row.id):
                        off.append(name)
            print(*(f"{name}: another state" for name in off), sep="\n", end="\n" if off else "")
            return len(off)
        finally:
            live.commits.close()
            live.store.close()

    return asyncio.run(count())


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
    urls = [f"http://127.0.0.1:{port}/v1/models" for port in several.ports]
    threads = [
        threading.Thread(target=play, args=(urls, seen, stop, seed * 100 + k))
        for k in range(clients)
    ]
    threads.append(threading.Thread(target=change, args=(urls, seen, stop, seed)))
    victims = ["worker"] if database is None else ["worker", "leader", "database"]
    try:
        begin(urls[0])
        for thread in threads:
            thread.start()
        for k in range(kills):
            time.sleep(rng.uniform(0.05, 1.0))
            several.kill(victims[k % len(victims)], rng)
        time.sleep(0.5)
    finally:
        stop.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        several.stop()
    store = opened(where)
    try:
        counts = check(store, seen)
    finally:
        store.close()
    print(*seen.bad[:5], sep="\n", end="\n" if seen.bad else "")
    return {**counts, "states that differ": differing(where)}


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
    return int(any(n for what, n in found.items() if what not in FACTS))


if __name__ == "__main__":
    sys.exit(main())
