"""Several workers of the service on one PostgreSQL, far from it, cut off from it, without it.

``python -m benchmarks.fleet`` prints four parts: ``throughput`` for 1 to 8 workers whose packets to
the database take 0 to 20 ms each way; ``faults``, what clients see when links are cut and the
database is killed; ``skew``, expiry by workers whose wall clocks are an hour wrong; ``models``,
rewards per second if the traffic is split over several models. Each part ends with an account of
what was lost, doubled or invented. Workers, database and clients share the machine's cores.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
from tests.serve.postgres import database

from benchmarks.fleet_network import Network
from benchmarks.fleet_workers import ARMS, DIM, Account, Client, Fleet, Watch, audit, play
from heavytail.ledger.opening import opened
from heavytail.ledger.tokens import Token, time_of

CONNS = 32  # clients of each worker
POOL = 6000  # decisions that wait for a reward when rewards are timed
HOUR = 3600.0
WAIT = 5.0  # seconds until a decision expires, of workers whose clocks are wrong


@contextlib.contextmanager
def fleet(workers: int) -> Iterator[Fleet]:
    """A database and a network for so many workers; the workers are still to be added."""
    with database() as server:
        socket = Path(server.folder) / ".s.PGSQL.5432"
        with Network(socket, workers) as network, Fleet(server, network) as several:
            yield several


def everywhere(several: Fleet, conns: int = CONNS) -> list[list[int]]:
    """So many clients of each worker, which send to it alone."""
    return [[worker] for worker in range(len(several.ports)) for _ in range(conns)]


def account_text(several: Fleet, account: Account, name: str) -> str:
    found = audit(several, account, name)
    return "account: " + ", ".join(f"{many:,} {what}" for what, many in found.items())


# Throughput


def throughput(args: argparse.Namespace) -> None:
    print(f"## Throughput\n\n{CONNS} clients per worker, {ARMS} arms of {DIM} features\n")
    print(
        "| delay, ms | workers | decisions/s | median, ms | rewards/s | median, ms | commits/s "
        "| lock held, % | workers wait for it, % | worker's ms/decision | ms/reward "
        "| database's ms/decision | ms/reward | behind, outcomes | 99 % | behind, s | 99 % |"
    )
    print("|" + " --- |" * 17)
    account = Account()
    with fleet(max(args.workers)) as several:
        for workers in args.workers:
            while len(several.ports) < workers:
                several.add()
            if workers == args.workers[0]:
                several.create("shop")
            for delay in args.delays:
                several.network.delay(0.0)
                fill(several, account)
                several.network.delay(delay / 1000.0)
                row = [f"{delay:g}", f"{workers}", *measured(several, account, args.seconds)]
                print("| " + " | ".join(row) + " |", flush=True)
        several.network.delay(0.0)
        print("\n" + account_text(several, account, "shop"))


def fill(several: Fleet, account: Account) -> None:
    """Make decisions that wait for rewards, until there are enough."""

    async def some(client: Client) -> bool:
        await client.decide("shop", 100)
        return len(account.waiting["shop"]) < POOL

    play(several, account, some, 600.0, everywhere(several, 1))


def measured(several: Fleet, account: Account, seconds: float) -> list[str]:
    """Decisions alone, rewards alone, and both in turn."""

    async def decide(client: Client) -> None:
        await client.decide("shop")

    async def reward(client: Client) -> bool:
        return await client.reward("shop")

    async def both(client: Client) -> None:
        await client.decide("shop")
        await client.reward("shop")

    clients = everywhere(several)
    play(several, account, both, 0.5, clients)  # connections are open, kernels compiled
    decisions = timed(several, account, decide, seconds, clients)
    before = commits(several)
    rewards = timed(several, account, reward, seconds, clients)
    made = (commits(several) - before) * rewards["rate"] / rewards["count"]
    start = len(account.behind)
    play(several, account, both, seconds, clients)
    outcomes, ages = np.array(account.behind[start:]).T
    return [
        f"{decisions['rate']:,.0f}", f"{decisions['median']:.1f}",
        f"{rewards['rate']:,.0f}", f"{rewards['median']:.1f}", f"{made:.1f}",
        f"{100 * rewards['held']:.0f}", f"{100 * rewards['waiting']:.0f}",
        f"{decisions['worker']:.2f}", f"{rewards['worker']:.2f}",
        f"{decisions['server']:.2f}", f"{rewards['server']:.2f}",
        f"{np.median(outcomes):.0f}", f"{np.quantile(outcomes, 0.99):.0f}",
        f"{np.median(ages):.2f}", f"{np.quantile(ages, 0.99):.2f}",
    ]  # fmt: skip


def commits(several: Fleet) -> int:
    """The number of commits with rewards so far; all rewards of a commit have its time."""
    with psycopg.connect(several.database.address) as session:
        found = session.execute("SELECT COUNT(DISTINCT time) FROM heavytail.outcome").fetchone()
    return int(found[0]) if found else 0


def timed(
    several: Fleet,
    account: Account,
    work: Callable[[Client], Awaitable[object]],
    seconds: float,
    clients: list[list[int]],
) -> dict[str, float]:
    """Requests per second, the median of their times, how the row lock was used, and processor
    milliseconds of workers and database per request.
    """
    start, before = len(account.answers), several.seconds()
    with Watch(several) as watch:
        taken = play(several, account, work, seconds, clients)
    after, answers = several.seconds(), account.answers[start:]
    spent = [1000.0 * (b - a) / len(answers) for a, b in zip(before, after, strict=True)]
    times = [1000.0 * (answer.came - answer.sent) for answer in answers]
    held = np.array([(sample.held, sample.waiting) for sample in watch.samples] or [(0, 0)])
    return {
        "count": len(answers),
        "rate": len(answers) / taken,
        "median": float(np.median(times)),
        "held": float(held[:, 0].mean()),
        "waiting": float(held[:, 1].mean()),
        "worker": spent[0],
        "server": spent[1],
    }


# Faults


def faults(args: argparse.Namespace) -> None:
    """What clients see who ask another worker after two seconds without an answer."""
    workers, account = 4, Account()
    print(
        f"\n## Faults\n\n{workers} workers, 1 ms to the database; two clients each, four of all\n"
    )
    with fleet(workers) as several:
        for _ in range(workers):
            several.add()
        several.create("shop", wait=HOUR)
        network = several.network
        network.delay(0.001)

        def cut(seconds: float) -> Callable[[int], None]:
            def work(worker: int) -> None:
                network.cut(worker)
                time.sleep(seconds)
                network.mend(worker)

            return work

        def kill(worker: int) -> None:
            several.database.kill()
            time.sleep(3.0)
            several.database.start()

        cases: list[tuple[str, bool, Callable[[int], None]]] = [
            ("connections of the leader closed", True, network.close),
            ("a follower cut off for 4 s", False, cut(4.0)),
            ("the leader cut off for 4 s", True, cut(4.0)),
            ("a follower cut off for 30 s", False, cut(30.0)),
            ("the leader cut off for 30 s", True, cut(30.0)),
            ("the database killed, and started after 3 s", True, kill),
        ]
        for name, leading, work in cases:
            fault(several, account, name, leading, work)
        network.delay(0.0)
        print("\n" + account_text(several, account, "shop"))


def fault(
    several: Fleet, account: Account, name: str, leading: bool, work: Callable[[int], None]
) -> None:
    """Let one fault happen under load and print what was seen."""

    async def both(client: Client) -> None:
        await client.decide("shop")
        await client.reward("shop")

    workers = list(range(len(several.ports)))
    start = len(account.answers)
    with Watch(several, 0.02) as watch:
        stop = threading.Event()

        async def until(client: Client) -> bool:
            await both(client)
            return not stop.is_set()

        def load() -> None:
            routes = everywhere(several, 2) + [workers] * 4
            play(several, account, until, HOUR, routes, patience=2.0)

        thread = threading.Thread(target=load)
        thread.start()
        time.sleep(3.0)
        leader = watch.samples[-1].leader
        victim = leader if leading else (leader + 1) % len(workers)
        begun = time.perf_counter()
        work(victim)
        ended = time.perf_counter()
        time.sleep(8.0)
        stop.set()
        thread.join()
    answers = sorted(account.answers[start:], key=lambda answer: answer.came)
    during = [a for a in answers if a.worker == victim and begun < a.came <= max(ended, begun + 1)]
    first = next((a.came for a in answers if _good(a, victim) and a.sent > ended), np.inf)
    others = [a.came for a in answers if a.worker != victim and 0 < a.status < 300]
    gaps = np.diff([begun, *(came for came in others if came > begun)])
    print(f"- {name}:")
    print(f"    - its answers meanwhile: {_statuses(during)}; serves {first - ended:.2f} s after")
    print(f"    - longest time without a success of the others: {gaps.max():.2f} s")
    changes = [(s.when - begun, s.leader) for s in watch.samples if s.when > begun]
    heard = [changes[0], *(b for a, b in zip(changes, changes[1:], strict=False) if a[1] != b[1])]
    said = [f"{_who(lead, victim)} at {max(when, 0.0):.1f} s" for when, lead in heard]
    print(f"    - leader: {', '.join(said)}", flush=True)


def _good(answer: object, worker: int) -> bool:
    return answer.worker == worker and 0 < answer.status < 300


def _statuses(answers: list) -> str:
    counts = Counter((a.verb, a.status) for a in answers)
    return ", ".join(
        f"{many} {verb} {status or 'without answer in 2 s'}"
        for (verb, status), many in sorted(counts.items())
    )


def _who(leader: int, victim: int) -> str:
    return "nobody" if leader < 0 else "the same" if leader == victim else "another"


# Clock skew


def skew(args: argparse.Namespace) -> None:
    """Whether decisions expire in time if the wall clocks of the workers are an hour wrong."""
    account = Account()
    print(f"\n## Clocks\n\nTwo workers, +1 h and -1 h; decisions expire after {WAIT:g} s\n")
    with fleet(2) as several:
        several.add(HOUR)
        several.add(-HOUR)
        several.create("shop", wait=WAIT, default_reward=0.0)
        for _ in range(2):
            off: list[float] = []

            async def both(client: Client, off: list[float] = off) -> None:
                await client.decide("shop")
                off.append(time_of(Token.parse(account.waiting["shop"][-1]).key) - time.time())
                if client.rng.random() < 0.5:
                    await client.reward("shop")
                account.waiting["shop"].clear()  # the others expire

            with Watch(several) as watch:
                start = time.time()
                play(several, account, both, 8.0, [[0], [1]])
                time.sleep(WAIT + 5.0)
            leader = watch.samples[-1].leader
            store = opened(several.database.address)
            sql = "SELECT key, time FROM outcome WHERE by_default = 1 AND time > ?"
            ages = [when - time_of(bytes(key)) for key, when in store.rows(sql, start)]
            store.close()
            print(
                f"- leader {'+-'[leader]}1 h: times of decisions off by {min(off):+.3f} to "
                f"{max(off):+.3f} s; {len(ages)} expired after {min(ages):.2f} to "
                f"{max(ages):.2f} s"
            )
            lead_elsewhere(several, leader)
        print("\n" + account_text(several, account, "shop"))


def lead_elsewhere(several: Fleet, leader: int) -> None:
    """Close the leader's connections until another worker leads."""
    with Watch(several) as watch:
        while not watch.samples or watch.samples[-1].leader in (leader, -1):
            several.network.close(leader)
            time.sleep(1.0)


# Several models


def models(args: argparse.Namespace) -> None:
    """Rewards per second if the traffic is split over models."""
    workers, delay = 4, 0.005
    print(f"\n## Several models\n\n{workers} workers, {1000 * delay:g} ms to the database\n")
    print("| models | any worker, rewards/s | each model on one worker, rewards/s |")
    print("| --- | --- | --- |")
    with fleet(workers) as several:
        for _ in range(workers):
            several.add()
        account = Account()
        for many in (1, 2, 4, 8):
            names = [f"shop{many}.{k}" for k in range(many)]
            for name in names:
                several.create(name)
            routes = everywhere(several)

            async def decide(client: Client, names: list[str] = names) -> bool:
                for name in names:
                    await client.decide(name, 200)
                return False

            def at_home(client: Client, names: list[str] = names) -> list[str]:
                return [n for k, n in enumerate(names) if k % workers == client.workers[0]]

            async def spread(client: Client, names: list[str] = names) -> bool:
                return await client.reward(client.rng.choice(names))

            async def routed(client: Client, home: Callable[[Client], list[str]] = at_home) -> bool:
                return await client.reward(client.rng.choice(home(client)))

            rates = []
            for work, some in ((spread, routes), (routed, routes[: CONNS * min(many, workers)])):
                several.network.delay(0.0)
                play(several, account, decide, 600.0, routes[:: CONNS // 2])
                several.network.delay(delay)
                time.sleep(1.0)
                rates.append(timed(several, account, work, args.seconds, some)["rate"])
            print(f"| {many} | {rates[0]:,.0f} | {rates[1]:,.0f} |", flush=True)
        several.network.delay(0.0)
        print("\n" + account_text(several, account, "shop1.0"))


PARTS = {"throughput": throughput, "faults": faults, "skew": skew, "models": models}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 1, 5, 20], metavar="MS")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores for workers, database, network and clients\n")
    for part in args.parts or PARTS:
        PARTS[part](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
