"""Group commit: what shares one write, and what becomes of it when one of them fails."""

from __future__ import annotations

import asyncio

import pytest

from heavytail.ledger.commits import Commits
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.store import StoreError


def create(name, fault=None):
    def work(tx):
        tx.create(name, "{}")
        if fault is not None:
            raise fault
        return name

    return work


def refuse(tx):
    raise Refusal(409, "no", "No.")


@pytest.mark.parametrize("quick", [True, False])
def test_one_that_fails_takes_nobody_with_it(tmp_path, quick):
    seen = []

    async def main():
        store = SQLiteStore(tmp_path)
        commits = Commits(store, lambda touched: None, lambda news: None)
        await commits.do(lambda tx: None)
        store.quick, commits.observe = quick, lambda *commit: seen.append(commit)
        work = [create("a"), create("b", ValueError("a fault")), refuse, create("c")]
        found = await asyncio.gather(*map(commits.do, work), return_exceptions=True)
        ((operations, seconds),) = seen
        assert operations == 4
        assert 0.0 < seconds < 60.0
        names = [row.name for row in store.models()]
        commits.close()
        store.close()
        return found, names

    found, names = asyncio.run(main())
    assert (found[0], found[3], names) == ("a", "c", ["a", "c"])
    assert isinstance(found[1], StoreError)
    assert isinstance(found[2], Refusal)


@pytest.mark.parametrize("quick", [True, False])
def test_requests_that_come_together_share_a_commit(tmp_path, quick):
    async def main():
        store = SQLiteStore(tmp_path)
        commits = Commits(store, lambda touched: None, lambda news: None)
        seen = []
        store.quick, commits.observe = quick, lambda *commit: seen.append(commit)
        await asyncio.gather(*(commits.do(create(f"m{i}")) for i in range(100)))
        count, rows = len(seen), len(store.models())
        commits.close()
        store.close()
        return count, rows

    count, rows = asyncio.run(main())
    assert rows == 100
    assert count <= 3


def test_operations_come_in_the_order_of_the_models_that_they_lock(tmp_path):
    async def main():
        store = SQLiteStore(tmp_path)
        commits, seen = Commits(store, lambda touched: None, lambda news: None), []
        models = [3, 1, 2, 0, 1]
        await asyncio.gather(*(commits.do(lambda tx, m=m: seen.append(m), model=m) for m in models))
        commits.close()
        store.close()
        return seen

    assert asyncio.run(main()) == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("quick", [True, False])
def test_what_cannot_be_read_behind_a_commit_hangs_nobody(tmp_path, quick):
    def broken(touched):
        raise ValueError("a fault")

    async def main():
        store = SQLiteStore(tmp_path)
        commits = Commits(store, broken, lambda news: None)
        store.quick = quick

        def touch(tx):
            tx.touched.add(1)
            return 7

        found = [await asyncio.wait_for(commits.do(touch), 10.0) for _ in range(2)]
        commits.close()
        store.close()
        return found

    assert asyncio.run(main()) == [7, 7]
