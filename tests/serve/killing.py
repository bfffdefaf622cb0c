"""A service that is killed at random moments, and clients that do not give up.

``python -m tests.serve.killing --kills 50`` counts what was lost or doubled.
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

from heavytail.serve.model import built
from heavytail.serve.sqlite import SQLiteStore
from heavytail.serve.store import Store
from heavytail.serve.tokens import Token

SPEC = {"policy": "TwinUCB", "dim": 3}
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


def retry(client: httpx.Client, stop: threading.Event, *args, **kwargs) -> httpx.Response | None:
    """The answer, however often it must be asked; None at the end."""
    while not stop.is_set():
        try:
            answer = client.request(*args, **kwargs)
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if answer.status_code != 503:
            return answer
    return None


def play(url: str, seen: Seen, stop: threading.Event, seed: int) -> None:
    """Decide and reward, out of order, in ones and in batches, again and again until answered."""
    rng, waiting = random.Random(seed), []
    with httpx.Client(base_url=url, timeout=10.0) as client:
        while not stop.is_set():
            head = {"Idempotency-Key": secrets.token_hex(8)}
            many = [{"arms": ARMS}] * rng.choice([1, 1, 5])
            answer = retry(client, stop, "POST", "/decisions", json=many, headers=head)
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
            answer = retry(client, stop, "POST", "/rewards", json=body)
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
    return {
        "decisions": len(seen.decided),
        "rewards": len(seen.rewarded),
        "decisions lost": sum(decided.get(keys[t]) != arm for t, arm in seen.decided.items()),
        "rewards lost": sum(rewarded.get(keys[t]) != r for t, r in seen.rewarded.items()),
        "tokens doubled": count - len(decided),
        "gaps": int(seqs != list(range(1, len(seqs) + 1)) or row.last != len(seqs)),
        "refused": len(seen.bad),
    }


def differs(store: Store) -> int:
    """Whether snapshot and log make another state than the log alone, to the bit."""
    from heavytail.serve.model import Model

    (row,) = store.models()
    model = Model(row, store.snapshot(row.id))
    model.learn(store.outcomes(row.id, model.version, 10**9))
    alone = built(model.spec)
    for one in store.outcomes(row.id, 0, 10**9):
        alone.update(np.frombuffer(one.x), one.reward, scale=one.scale)
    return int(alone.to_bytes() != model.policy.to_bytes())


def run(kills: int, seed: int, folder: str, clients: int = 4) -> dict[str, int]:
    """So many kills under load; what was found then."""
    rng, port, seen, stop = random.Random(seed), free_port(), Seen(), threading.Event()
    url = f"http://127.0.0.1:{port}"
    service = start(folder, port)
    httpx.put(f"{url}/v1/models/shop", json=SPEC).raise_for_status()
    threads = [
        threading.Thread(target=play, args=(f"{url}/v1/models/shop", seen, stop, seed * 100 + k))
        for k in range(clients)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            time.sleep(rng.uniform(0.05, 1.0))
            os.kill(service.pid, signal.SIGKILL)
            service.wait()
            service = start(folder, port)
        time.sleep(0.5)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        service.kill()
        service.wait()
    store = SQLiteStore(folder)
    try:
        return {**check(store, seen), "states that differ": differs(store)}
    finally:
        store.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(args.kills, args.seed, str(Path(folder) / "store"))
    print(f"{args.kills} kills: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
    return int(any(n for what, n in found.items() if what not in ("decisions", "rewards")))


if __name__ == "__main__":
    sys.exit(main())
