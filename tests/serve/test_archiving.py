"""The archive: where a row is makes no difference to whoever reads it."""

from __future__ import annotations

import hashlib
import io
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.serve.archives import KEEP, Past, everything, steps
from tests.serve.conftest import look, serving
from tests.serve.test_changes import code, encoded, learn, log_of, ok
from tests.serve.test_decider import begin, decider, play
from tests.serve.test_earned import earned
from tests.serve.test_service import SHOP, decide, reward, state

import heavytail as ht
from heavytail.cli import main
from heavytail.ledger import archive
from heavytail.ledger.opening import opened
from heavytail.ledger.refusal import ArchiveError, InArchive, Refusal
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.tokens import Token, first_key
from heavytail.serve import archiving, chores, rewards
from heavytail.serve.archiving import DAY, Retention
from heavytail.serve.rewards import owed
from heavytail.serve.wire import Reward


@pytest.fixture
def small(monkeypatch):
    """Files of few rows, and pieces of fewer."""
    monkeypatch.setattr(archive, "MOST", 50)
    monkeypatch.setattr(archive, "READ", 16)
    monkeypatch.setattr(archiving, "PIECE", 20)
    monkeypatch.setattr(archiving, "FEW", 1)
    monkeypatch.setattr(archiving, "PACE", 0.0)


@pytest.fixture
def kept(where, tmp_path):
    """How long rows are kept, and where older ones go, for a store of each kind."""
    return KEEP._replace(place=str(tmp_path / "old"))


def rows_of(store, table):
    return store.rows(f"SELECT COUNT(*) FROM {table}")[0][0]


@pytest.mark.parametrize("seed", [0, 1])
def test_all_reads_are_the_same_at_every_step(where, kept, small, seed):
    store, rng = opened(where), random.Random(seed)
    past = Past(store, seed)
    before, row = everything(store, past.row.id), past.row
    ways, seen = steps(store, row, kept), set()
    while step := next(ways, None):
        seen.add(step)
        assert everything(store, row.id) == before
        if rng.random() < 0.2:
            with store.reader() as reader:
                assert everything(reader, row.id) == before
        if rng.random() < 0.3:  # killed: what is not on disk is lost, and another begins anew
            store.close()
            store = opened(where)
            ways = steps(store, row, kept)
    assert everything(store, row.id) == before
    files = store.files(row.id)
    assert len(files) >= 3
    assert all(file.complete for file in files)
    assert seen == {"written", "recorded", "to delete", "deleted"}
    assert rows_of(store, "outcome") < store.rewards(row.id) / 2
    assert rows_of(store, "decision") < store.decisions(row.id) / 2
    assert sum(file.decisions + file.outcomes for file in files) > 0
    times = [when for (when,) in store.rows("SELECT time FROM outcome")]
    assert min(times) > time.time() - kept.keep - archiving.WEEK
    store.close()


def test_a_process_that_is_killed_leaves_each_row_in_one_place(tmp_path):
    store = opened(tmp_path)
    past = Past(store, 8)
    before, rng = everything(store, past.row.id), random.Random(8)
    store.close()
    command, ended = [sys.executable, "-m", "tests.serve.archives", str(tmp_path)], 0
    for _ in range(5):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for _ in range(rng.randrange(10, 80)):
            process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.003))
        process.kill()
        process.communicate()
        store = opened(tmp_path)
        assert everything(store, past.row.id) == before
        assert rows_of(store, "outcome") == store.rewards(1) - sum(
            min(file.done, file.outcomes) for file in store.files(1)
        )
        ended = sum(file.complete for file in store.files(1))
        store.close()
    assert ended


def test_rows_that_move_while_they_are_read_count_once(where, kept, small, monkeypatch):
    """Between the query of the tables and that of the files, they are archived."""
    monkeypatch.setattr(archiving, "PIECE", 3)
    store = opened(where)
    past = Past(store, 6, 60)
    before, ways = everything(store, past.row.id), steps(store, past.row, kept)
    with store.reader() as reader:
        files, moved = reader.files, 0

        def moving(model):
            nonlocal moved
            moved += next(ways, "") == "deleted"
            return files(model)

        monkeypatch.setattr(reader, "files", moving)
        for _ in range(4):
            assert everything(reader, past.row.id) == before
    assert moved > 10
    store.close()


def test_each_row_is_in_one_place_to_the_bit(tmp_path, small):
    store = opened(tmp_path)
    past = Past(store, 7)
    tables = ("SELECT * FROM decision ORDER BY key", "SELECT * FROM outcome ORDER BY seq")
    decisions, outcomes = (store.rows(sql) for sql in tables)
    for _ in steps(store, past.row):
        files = store.files(1)
        old = [e for f in files for e in store.archive._opened(f).entries(range(f.done))]
        moved = [
            (1, e.key, e.version, e.arm, e.x, e.request, e.detail) for e in old if e.arm is not None
        ]
        left, rest = (store.rows(sql) for sql in tables)
        assert sorted([*moved, *left], key=lambda each: each[1]) == decisions
        came = [
            (
                1, e.seq, e.key, e.outcome_version, e.by_default, e.reward, e.scale, e.outcome_x,
                e.time,
            )
            for e in old if e.seq is not None
        ]  # fmt: skip
        assert [*came, *rest] == outcomes
    store.close()


@pytest.mark.parametrize("at", ["_put", "_unpacked"])
def test_nothing_is_deleted_where_a_file_cannot_be_written(tmp_path, small, monkeypatch, at):
    store = opened(tmp_path)
    past = Past(store, 1)
    before = everything(store, 1)

    def fail(*args):
        raise ArchiveError("no room") if at == "_unpacked" else OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(archive.Archive, at, fail)
        with pytest.raises(ArchiveError, match="no room"):
            [*steps(store, past.row)]
    assert store.files(1) == []
    assert everything(store, 1) == before
    assert {*steps(store, past.row)} == {"written", "recorded", "to delete", "deleted"}
    store.close()


def test_a_file_that_was_not_written_whole_is_not_recorded(tmp_path, small, monkeypatch):
    store = opened(tmp_path)
    past = Past(store, 1)
    whole = archive.Archive._put
    cut = lambda self, name, content: whole(self, name, content[:-9])  # noqa: E731
    monkeypatch.setattr(archive.Archive, "_put", cut)
    with pytest.raises(ArchiveError, match="damaged"):
        [*steps(store, past.row)]
    assert store.files(1) == []
    store.close()


def test_the_reward_of_a_decision_that_is_about_to_go_keeps_it(tmp_path, monkeypatch):
    monkeypatch.setattr(archiving, "PIECE", 5)
    store = opened(tmp_path)
    past = Past(store, 3)
    ways = steps(store, past.row)
    while next(ways) != "recorded":
        pass
    (file,) = store.files(1)
    keys = store.archive.given_up(file)
    assert len(keys) > 6
    late = keys[6]
    (made,), _ = store.apply([lambda tx: tx.decision(1, late)])
    store.apply([lambda tx: tx.reward(made, 9.0, None)])
    before = everything(store, 1)
    for _ in ways:
        assert everything(store, 1) == before
    file = store.files(1)[0]
    assert (file.complete, file.entries) == (True, file.outcomes + 5)
    assert file.decisions == len(store.archive.decisions([file], b"", None, 10**6))
    assert late not in store.archive.find([file], keys)
    assert [*store.archive.find([file], keys)] == keys[:5]
    assert store.outcomes(1, store.model(1).last - 1, 1)[0].reward == 9.0
    store.close()


def test_what_no_snapshot_holds_stays(tmp_path, small):
    store = opened(tmp_path)
    past = Past(store, 2)
    store.rows("UPDATE snapshot SET seq = 50")
    assert [*steps(store, past.row)]
    assert max(file.last for file in store.files(1)) == 50
    store.rows("DELETE FROM archive")
    store.rows("UPDATE snapshot SET note = 'mine'")
    assert not [*steps(store, past.row)]
    store.close()


def test_a_service_that_ends_does_not_wait_for_the_archive(tmp_path, small, monkeypatch):
    monkeypatch.setattr(archiving, "PACE", 1e9)
    store, ended = opened(tmp_path), threading.Event()
    past = Past(store, 2)
    threading.Timer(0.2, ended.set).start()
    assert archiving._written(store, past.row.id, KEEP, time.time(), ended) is None
    assert not [*tmp_path.glob("archive/*")]
    store.close()


def test_decisions_that_were_given_up_lately_stay(tmp_path, small):
    store = opened(tmp_path)
    past = Past(store, 2)
    before = first_key(time.time() - KEEP.keep)
    store.apply([lambda tx: tx.swept(past.row.id, first_key(time.time()), 0)])
    [*steps(store, past.row)]
    keys = [key for file in store.files(1) for key in store.archive.given_up(file)]
    assert keys
    assert max(keys) <= before
    store.close()


def test_few_rows_wait_a_week_for_more(tmp_path):
    store = opened(tmp_path)
    past = Past(store, 2)
    assert store.decisions(1) < archiving.FEW
    assert not [*steps(store, past.row, KEEP._replace(keep=86.0 * DAY))]
    assert [*steps(store, past.row, KEEP._replace(keep=80.0 * DAY))]
    store.close()


# Damage


@pytest.fixture
def archived(tmp_path, small):
    store = opened(tmp_path / "store")
    past = Past(store, 4)
    [*steps(store, past.row)]
    yield store
    store.close()


def path_of(store, number=0):
    return store.folder / store.files(1)[number].file


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), r"model-1-.*parquet, .* is missing\. Put it back"),
        (lambda path: path.write_bytes(b""), "damaged: its bytes are not those"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "damaged: its bytes"),
        (lambda path: path.unlink() or path.mkdir(), "cannot be read"),
    ],
)
def test_a_file_that_is_gone_or_changed_is_named(archived, damage, words):
    damage(path_of(archived))
    with SQLiteStore.reading(archived.folder) as reader:
        with pytest.raises(ArchiveError, match=words):
            reader.outcomes(1, 0, 10)
        last = archived.files(1)[-1].last
        assert reader.outcomes(1, last, 10) == archived.outcomes(1, last, 10)
        assert reader.latest(1) == archived.latest(1)


def columns(**more):
    return pa.table({"seq": [1], **more})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no Parquet", "damaged"),
        (columns(), "its columns are others"),
        (archive._schema().empty_table(), "it has 0 of"),
    ],
)
def test_a_file_that_somebody_made_is_refused_though_its_digest_fits(archived, content, words):
    if not isinstance(content, bytes):
        sink = io.BytesIO()
        pq.write_table(content, sink)
        content = sink.getvalue()
    path_of(archived).write_bytes(content)
    digest = hashlib.sha256(content).digest()
    archived.rows("UPDATE archive SET digest = ? WHERE number = 1", digest)
    with pytest.raises(ArchiveError, match=words):
        archived.outcomes(1, 0, 10)


def test_a_connection_that_must_not_wait_reads_no_file(archived):
    archived.patient = False
    for read in (
        lambda: archived.outcomes(1, 0, 5),
        lambda: archived.learned(1, 0, 5),
        lambda: archived.details(1, 0, 5),
        lambda: archived.decided(1, b"", b"\xff", 5),
        lambda: next(archived.logged(1)),
    ):
        with pytest.raises(InArchive):
            read()
    last = archived.files(1)[-1].last
    assert archived.outcomes(1, last, 5)
    assert archived.width(1) == 2


def test_few_files_stay_in_memory(archived):
    everything(archived, 1)
    assert len(archived.files(1)) > archive.OPEN == len(archived.archive._kept)


def test_an_archive_at_an_address(tmp_path, small):
    pytest.importorskip("fsspec")
    store = opened(tmp_path)
    past = Past(store, 5)
    before = everything(store, 1)
    for _ in steps(store, past.row, KEEP._replace(place="memory://old/shop")):
        assert everything(store, 1) == before
    assert all(file.file.startswith("memory://old/shop/model-1-") for file in store.files(1))
    assert store.archive.remove([file.file for file in store.files(1)]) == []
    assert store.archive.remove([file.file for file in store.files(1)]) == []  # already gone
    store.archive._kept.clear()
    with pytest.raises(ArchiveError, match="missing"):
        store.outcomes(1, 0, 1)
    store.close()


# The service


@pytest.fixture
def old(where, small, tmp_path, monkeypatch):
    """A service whose rows are old at once, with an archive."""
    monkeypatch.setattr(chores, "GRACE", 0.0)
    with serving(where) as client:
        client.kept = Retention(-60.0, str(tmp_path / "old"))
        yield client


NEWEST = "SELECT MAX(number) FROM snapshot GROUP BY model"


def retire(client, *, left=0):
    """Archive what is old, up to snapshots of the present, as if they were automatic."""
    service = client.app.state.service
    look(client)
    for name in [*service.models]:
        ok(client.post(f"/v1/models/{name}/snapshots", json={}))

    def work(tx):
        tx.rows("DELETE FROM snapshot WHERE note = ''")
        tx.rows(f"UPDATE snapshot SET note = '' WHERE number IN ({NEWEST})")

    client.portal.call(service.commits.do, work)
    client.portal.call(service.chores.archive, client.kept)
    with service.store.reader() as store:
        files = [file for row in store.models() for file in store.files(row.id)]
        assert files
        assert all(file.complete for file in files)
        assert rows_of(store, "outcome") == left


def played(client, rounds=40, seed=0):
    """A model with an encoder and offers of its own; some decisions wait."""
    encoded(client)
    rng, tokens = np.random.default_rng(seed), []
    for i in range(rounds):
        context = {"segment": ["new", "old"][i % 2], "age": float(rng.integers(70))}
        made = ok(client.post(f"{SHOP}/decisions", json={"context": context, "explore": 0.5}))
        if i % 5:
            value = float(rng.standard_t(2))
            ok(client.post(f"{SHOP}/rewards", json={"token": made["token"], "reward": value}))
            tokens.append((made["token"], value))
    return tokens


def fork(client, name):
    schema = ht.Encoder(numbers={"price": (0.0, 5.0), "age": (0.0, 100.0)}).schema()
    ok(client.post(f"{SHOP}/fork", json={"name": name, "encoder": schema}))
    wait_for(client, name)
    return state(client, name)


def test_nothing_that_is_asked_of_a_model_changes(old, where):
    played(old)
    before = (
        log_of(old),
        earned(old, by="segment", against="uniform"),
        fork(old, "wide"),
        state(old),
    )
    retire(old)
    old.app.state.service.books._kept.clear()
    after = (
        log_of(old),
        earned(old, by="segment", against="uniform"),
        fork(old, "wider"),
        state(old),
    )
    assert after == before
    learn(old, 1.0, 2.0, context={"segment": "new", "age": 3.0})
    retire(old)
    kept = {name: state(old, name) for name in old.app.state.service.models}
    old.__exit__(None, None, None)
    with serving(where) as again:
        assert {name: state(again, name) for name in kept} == kept
        assert len(log_of(again)) == len(before[0]) + 2
    store = opened(where)
    store.rows("DELETE FROM snapshot")  # now the log alone leads to the state
    store.rows("UPDATE model SET epoch = 0")
    store.close()
    with serving(where) as again:
        end = time.monotonic() + 20.0
        while {name: state(again, name) for name in kept} != kept and time.monotonic() < end:
            time.sleep(0.05)
        assert {name: state(again, name) for name in kept} == kept


def test_commands_and_evaluate_find_the_archive(small, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "store"

    def shown():
        for words in (["log", "show", str(folder)], ["earned", str(folder), "shop", "--json"]):
            assert main(words) == 0
        value = ht.evaluate(str(folder), ht.always(1), bound=None).value
        return capsys.readouterr().out, value

    with serving(folder) as client:
        client.kept = Retention(-60.0, "archive")
        ok(client.put(SHOP, json={"dim": 3}))
        rng = np.random.default_rng(0)
        for _ in range(60):
            reward(client, decide(client, explore=0.5)["token"], float(rng.standard_t(3)))
        decide(client)
    before = shown()
    with serving(folder) as client:
        client.kept = Retention(-60.0, "archive")
        retire(client)
    assert [*(folder / "archive").iterdir()]
    assert shown() == before
    moved = tmp_path / "elsewhere"
    os.rename(folder, moved)
    folder = moved
    assert shown()[1] == before[1]


def test_a_decider_with_changed_offers_is_archived_to_the_bit(small, tmp_path):
    decider().save(tmp_path / "shop.ht")
    begin(tmp_path / "store", tmp_path / "shop.ht")
    with serving(tmp_path / "store") as client:
        client.kept = Retention(-60.0, "archive")
        play(client, 30)
        ok(client.patch(f"{SHOP}/offers", json={"offers": {"gift": {"price": 3.0}}}))
        play(client, 30, 30)
        before = log_of(client), earned(client, by="segment", against="always:none"), state(client)
        content = tmp_path.joinpath("shop.ht").read_bytes()
        ok(client.put("/v1/models/twin?learn=shop", content=content))
        wait_for(client, "twin")
        retire(client)
        client.app.state.service.books._kept.clear()
        ok(client.put("/v1/models/late?learn=shop", content=content))
        wait_for(client, "late")
        assert (
            log_of(client),
            earned(client, by="segment", against="always:none"),
            state(client),
        ) == before
        assert state(client, "late") == state(client, "twin")
        ok(client.patch(f"{SHOP}/offers", json={"offers": {"gift": None}}))
        play(client, 8, 60)


def wait_for(client, name):
    end = time.monotonic() + 20.0
    while ok(client.get(f"/v1/models/{name}"))["learning"] and time.monotonic() < end:
        time.sleep(0.02)


def test_rewards_of_archived_decisions_are_answered_as_before(old):
    ok(old.put(SHOP, json={"dim": 3, "wait": 0.2, "late": "learn"}))
    paid, silent, late = decide(old)["token"], decide(old)["token"], decide(old)["token"]
    reward(old, paid, 3.0)
    time.sleep(0.3)
    old.portal.call(old.app.state.service.chores.give_up)
    assert reward(old, late, 1.0).status_code == 202
    ok(old.patch(SHOP, json={"default_reward": 0.0, "late": "refuse"}))
    zero = decide(old)["token"]
    time.sleep(0.3)
    old.portal.call(old.app.state.service.chores.give_up)
    unknown = paid[:-2] + ("AA" if paid[-2:] != "AA" else "BA")
    asked = ((paid, 3.0), (paid, 4.0), (late, 1.0), (zero, 0.0), (unknown, 1.0), (silent, 1.0))

    def answers():
        return [(a.status_code, a.json()) for a in (reward(old, *each) for each in asked)]

    before = answers()
    retire(old)
    assert answers() == before
    ok(old.patch(SHOP, json={"default_reward": None, "wait": 3600.0}))
    ok(old.patch(SHOP, json={"late": "learn"}))
    waits = decide(old)["token"]
    assert code(reward(old, silent, 1.0)) == (410, "archived")
    both = [{"token": paid, "reward": 3.0}, {"token": waits, "reward": 2.0}]
    assert ok(old.post(f"{SHOP}/rewards", json=both)) == {"accepted": 1}
    for path in (old.app.state.service.store.archive._path(old.kept.place)).iterdir():
        path.unlink()
    old.app.state.service.store.archive._kept.clear()
    assert code(reward(old, paid, 3.0)) == (410, "archived")
    assert decide(old)["token"]


@pytest.mark.parametrize("paid", [True, False])
def test_a_reward_whose_decision_is_archived_meanwhile_is_not_learned(old, monkeypatch, paid):
    """The decision is read, and then another worker moves it, before the reward has the lock."""
    ok(old.put(SHOP, json={"dim": 3, "wait": 0.1, "late": "learn"}))
    service, token = old.app.state.service, decide(old)["token"]
    if paid:
        reward(old, token, 3.0)
        monkeypatch.setattr(rewards, "FRESH", 0.0)
    time.sleep(0.2)
    if not paid:
        old.portal.call(service.chores.give_up)
    model, parsed, sent = service.models["shop"], Token.parse(token), Reward(token, 3.0)

    def work(tx):
        assert tx.decision(1, parsed.key)
        tx.last(1)
        for table in ("decision", "outcome"):
            tx.rows(f"DELETE FROM {table}")
        return owed(tx, model, parsed, sent, service.live.clock(), {}, {})

    with pytest.raises(Refusal) as refused:  # then the service looks into the archive
        old.portal.call(service.commits.do, work)
    assert refused.value.code == "unknown_token"


def test_nothing_is_archived_so_soon_that_a_reward_would_not_look_for_it():
    assert rewards.FRESH <= DAY / 2


def test_requests_do_not_wait_for_the_archive(old, monkeypatch):
    played(old)
    retire(old)
    store, free = old.app.state.service.store, threading.Event()
    store.archive._kept.clear()
    read = archive.Archive._content

    def slowly(self, name):
        assert free.wait(20.0)
        return read(self, name)

    monkeypatch.setattr(archive.Archive, "_content", slowly)
    schema = ht.Encoder(numbers={"price": (0.0, 5.0)}).schema()
    answers = []
    body = {"name": "wide", "encoder": schema}
    asking = threading.Thread(
        target=lambda: answers.append(old.post(f"{SHOP}/fork", json=body).status_code)
    )
    asking.start()
    try:
        learn(old, 1.0, context={"segment": "new", "age": 3.0})
        assert not answers or not free.is_set()
    finally:
        free.set()
        asking.join()
    assert answers == [201]


def test_a_model_whose_snapshot_is_enough_serves_without_its_archive(old, where, tmp_path):
    played(old)
    retire(old)
    kept = state(old)
    old.__exit__(None, None, None)
    for path in tmp_path.joinpath("old").iterdir():
        path.unlink()
    with serving(where) as again:
        assert state(again) == kept
        learn(again, 1.0, context={"segment": "new", "age": 3.0})
        assert code(again.get(f"{SHOP}/log"))[0] == 503
    store = opened(where)
    store.rows("DELETE FROM snapshot")
    store.apply([lambda tx: tx.create("other", store.models()[0].spec)])
    store.close()
    with serving(where) as again:
        assert "is missing" in ok(again.get(SHOP))["broken"]
        assert ok(again.get("/v1/models/other"))["broken"] is None


def test_the_files_of_a_deleted_model_are_removed(old, tmp_path):
    played(old)
    retire(old)
    assert [*tmp_path.joinpath("old").iterdir()]
    ok(old.delete(SHOP))
    assert not [*tmp_path.joinpath("old").iterdir()]


def test_another_worker_reads_what_the_leader_archived(pair, small, tmp_path):
    one, other = pair
    for _ in range(20):
        reward(one, decide(one)["token"], 2.0)
    one.kept = Retention(-60.0, str(tmp_path / "old"))
    before = log_of(other)
    retire(one)
    assert log_of(other) == before
    other.portal.call(other.app.state.service.chores.archive, one.kept)  # it does not lead
    learn(other, 3.0)
    assert len(log_of(one)) == len(before) + 1


def test_what_leads_nowhere_is_refused_before_the_start(tmp_path, capsys):
    store = ["serve", "--store", str(tmp_path / "store"), "--port", "0"]
    with serving(tmp_path / "store") as client:
        ok(client.put(SHOP, json={"dim": 3, "wait": 3 * DAY}))
    for options, words in (
        (["--keep", "12h"], "--keep must be at least a day"),
        (["--keep", "soon"], "--keep must be at least a day, such as 1d or 12w"),
        (["--keep", "2d"], "as long as model 'shop' waits for rewards"),
        (["--archive", "x"], "pass --keep TIME too"),
        (["--keep", "2w", "--archive", ""], "--archive: the archive must be"),
        (["--keep", "2w", "--archive", "sftp://me:secret@host/x"], "has a user"),
        (["--store", "postgresql://h/d", "--keep", "2w"], "a database has no folder"),
        (["--store", "postgresql://h/d", "--keep", "2w", "--archive", "x"], "absolute folder"),
    ):
        assert main([*store, *options]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert "secret" not in said
