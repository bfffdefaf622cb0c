"""Decisions on disk: what was acknowledged is there, whatever happened to the process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import polars as pl
import pytest

import heavytail as ht
from heavytail.ledger.decision import Decision
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.logs.reading import chunks, length

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def decision(token, arm=1, probability=0.5):
    return Decision(token, arm, ARMS[arm], probability, 0.25, 1e9 + token)


def rewards(folder, **told):
    parts = list(chunks(folder, **told))
    return [float(r) for part in parts for r in part.reward]


def test_a_log_reads_as_what_was_decided(tmp_path):
    policy = ht.TwinUCB(2)
    made = []
    with ht.DecisionLog(tmp_path / "log") as log:
        for i in range(30):
            one = policy.decide(ARMS, explore=0.3)
            log.decided(one, ARMS, ids=["a", "b", "c"])
            log.rewarded(one if i % 2 else one.token, float(i), time=one.time + 1.0)
            policy.learn(one, float(i))
            made.append(one)
        assert log.waiting == ()
        assert log.decisions == 30
    [rows] = chunks(tmp_path / "log")
    np.testing.assert_array_equal(rows.action, [one.arm for one in made])
    np.testing.assert_array_equal(rows.reward, np.arange(30.0))
    np.testing.assert_array_equal(rows.propensity, [one.probability for one in made])
    np.testing.assert_array_equal(rows.arms, np.tile(ARMS, (30, 1, 1)))
    assert length(tmp_path / "log") == 30
    with ht.DecisionLog(tmp_path / "log") as log:
        assert log.export(tmp_path / "log.parquet") == 30
    frame = pl.read_parquet(tmp_path / "log.parquet")  # as anybody reads it
    assert frame["token"].to_list() == [str(one.token) for one in made]
    assert frame["score"].to_list() == [one.score for one in made]
    assert frame["time"].to_list() == [one.time for one in made]
    assert frame["ids"].to_list() == [["a", "b", "c"]] * 30


def test_outcomes_come_in_the_order_of_the_rewards_many_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("heavytail.logs.decision_log.OUTCOMES", 2)
    with ht.DecisionLog(tmp_path) as log:
        for token in range(7):
            log.decided(decision(token), ARMS)
        for token in (5, 0, 3, 6, 1):
            log.rewarded(token, token / 2)
        later = [(2, 0, 0.0), (3, 3, 1.5), (4, 6, 3.0), (5, 1, 0.5)]
        assert [tuple(one) for one in log.since(1)] == later
    with pytest.raises(ValueError, match="is closed"):
        next(log.since(0))


def test_clocks_that_are_set_back_do_not_change_the_order(tmp_path):
    times = [1e9, 1e9 - 500.0, 1e300, -3.0, 1e9 + 1.0]
    with ht.DecisionLog(tmp_path / "log") as log:
        for token, when in enumerate(times):
            log.decided(Decision(10 - token, 1, ARMS[1], 0.5, None, when), ARMS)
            log.rewarded(10 - token, float(token))
        log.export(tmp_path / "log.parquet")
    assert rewards(tmp_path / "log") == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert pl.read_parquet(tmp_path / "log.parquet")["time"].to_list() == times


def test_a_store_of_a_service_is_no_log_to_write_to(tmp_path):
    store = SQLiteStore(tmp_path)
    store.apply([lambda tx: tx.create("shop", "{}")])
    store.close()
    with pytest.raises(ValueError, match="that of a service"):
        ht.DecisionLog(tmp_path)


def test_what_a_group_holds_back_is_forced_by_flush(tmp_path):
    with ht.DecisionLog(tmp_path, group=3) as log:
        loose = []
        for token in range(7):
            log.decided(decision(token), ARMS)
            loose.append(log._store._loose)
        assert loose == [1, 2, 0, 1, 2, 0, 1]
        log.flush()
        assert log._store._loose == 0
        assert (tmp_path / "commits").read_bytes() == b"%d\n" % log._store._commits
        log.decided(decision(7), ARMS)
    assert len(rewards(tmp_path, default_reward=0.0)) == 8


def test_sets_of_arms_may_differ_in_size(tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        for token, count in enumerate((3, 2, 3)):
            log.decided(decision(token), ARMS[:count])
            log.rewarded(token, 1.0)
    [rows] = chunks(tmp_path)
    assert np.isnan(rows.arms[1, 2]).all()
    np.testing.assert_array_equal(rows.arms[2], ARMS)


def test_decisions_without_a_reward_are_kept_and_left_out_or_given_the_default(tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        for token in range(6):
            log.decided(decision(token), ARMS)
        for token in (4, 0, 2):
            log.rewarded(token, float(token))
        assert log.waiting == (1, 3, 5)
        assert rewards(tmp_path) == [0.0, 2.0, 4.0]  # also while it is written
    assert rewards(tmp_path) == [0.0, 2.0, 4.0]
    assert rewards(tmp_path, default_reward=-1.0) == [0.0, -1.0, 2.0, -1.0, 4.0, -1.0]
    assert (length(tmp_path), length(tmp_path, default_reward=0.0)) == (3, 6)
    with ht.DecisionLog(tmp_path) as log:  # they come after all
        assert log.waiting == (1, 3, 5)
        for token in log.waiting:
            log.rewarded(token, float(token))
    assert rewards(tmp_path) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda log: log.decided(3, ARMS), "pass a Decision"),
        (lambda log: log.decided(decision(9), ARMS[:1]), "which chose number 1; got shape"),
        (lambda log: log.decided(decision(9), ARMS[::-1] + 1.0), r"arms\[1\] is not what was chos"),
        (lambda log: log.decided(decision(9), ARMS * [1, np.nan]), "is not what was chosen"),
        (lambda log: log.decided(decision(0), ARMS), "token 0 is in the log already"),
        (lambda log: log.decided(decision(9), ARMS, ids=["a"]), "3 arms need as many ids; got 1"),
        (
            lambda log: log.decided(Decision(9, 0, np.ones(3)), np.ones((1, 3))),
            "arms have 3 features, and those of this log 2",
        ),
        (lambda log: log.rewarded(7, 1.0), "token 7 does not wait"),
        (lambda log: log.rewarded(1, 1.0), "token 1 does not wait: .* rewarded already"),
        (lambda log: log.rewarded(0, np.nan), "reward must be a number"),
        (lambda log: log.rewarded(0, True), "reward must be a number"),
        (lambda log: log.rewarded(True, 1.0), "pass a Decision or its token"),
        (lambda log: log.rewarded(0, 1.0, time="now"), "time must be a number"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_logged(call, words, tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        log.decided(decision(0), ARMS)
        log.decided(decision(1), ARMS)
        log.rewarded(1, 1.0)
        with pytest.raises((ValueError, TypeError), match=words):
            call(log)
        assert (log.waiting, log.decisions, len(list(log.since(0)))) == ((0,), 2, 1)


def test_two_writers_of_one_folder_are_one_too_many(tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        log.decided(decision(0), ARMS)
        with pytest.raises(BlockingIOError, match="used by another service or DecisionLog"):
            ht.DecisionLog(tmp_path)
        code = f"import heavytail as ht; ht.DecisionLog({str(tmp_path)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "used by another service or DecisionLog" in other.stderr
        log.rewarded(0, 1.0)
    with ht.DecisionLog(tmp_path) as log:
        assert log.decisions == 1
    with pytest.raises(ValueError, match="is closed"):
        log.decided(decision(1), ARMS)
    log.close()


def test_threads_share_a_log(tmp_path):
    with ht.DecisionLog(tmp_path) as log:

        def work(first):
            for token in range(first, first + 50):
                log.decided(decision(token), ARMS)
                log.rewarded(token, float(token))

        threads = [threading.Thread(target=work, args=(50 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(rewards(tmp_path)) == [float(token) for token in range(200)]


def test_a_folder_that_cannot_be_written_to_is_refused_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "log"):
        with pytest.raises(OSError, match=r"(File exists|Not a directory). Pass a writable folder"):
            ht.DecisionLog(path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=r"it has no heavytail\.db, but 'notes.txt'"):
        ht.DecisionLog(tmp_path / "mine")
    if sys.platform == "linux":
        with pytest.raises(OSError, match="Pass a writable folder"):
            ht.DecisionLog("/proc/log")


WRITER = """
import os, sys
import numpy as np
import heavytail as ht
from heavytail.ledger.decision import Decision

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
rng = np.random.default_rng(int(sys.argv[2]))
log = ht.DecisionLog(sys.argv[1], group=int(sys.argv[3]))
late = list(log.waiting)
for token in range(log.decisions, 10**9):
    log.decided(Decision(token, 1, ARMS[1], 0.5, None, 1e9 + token), ARMS)
    print("decided", token, flush=True)
    late.append(token)
    if rng.random() < 0.8:
        one = late.pop(rng.integers(len(late)))
        log.rewarded(one, float(one))
        print("rewarded", one, flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
@pytest.mark.parametrize("seed", range(5))
def test_what_was_acknowledged_survives_a_kill(seed, tmp_path):
    rng = np.random.default_rng(seed)
    decided, rewarded = set(), set()
    for _ in range(3):  # killed, opened again, killed again
        told = [
            sys.executable,
            "-c",
            WRITER,
            str(tmp_path / "log"),
            str(seed),
            str(1 + 4 * (seed % 2)),
        ]
        with subprocess.Popen(told, stdout=subprocess.PIPE, text=True) as process:
            lines = int(rng.integers(20, 400))
            heard = [process.stdout.readline() for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            heard += process.stdout.readlines()
        for line in heard:
            word, _, token = line.strip().partition(" ")
            if token:
                (decided if word == "decided" else rewarded).add(int(token))
        found = {int(r) for r in rewards(tmp_path / "log")}
        everything = len(rewards(tmp_path / "log", default_reward=0.0))
        assert rewarded <= found
        assert len(found - rewarded) <= 1  # one may be on disk and not yet acknowledged
        assert len(decided) <= everything <= len(decided) + 1
        decided = set(range(everything))
        rewarded = found
    with ht.DecisionLog(tmp_path / "log") as log:
        assert log.decisions == everything
        assert set(log.waiting) == decided - rewarded
        for token in log.waiting:
            log.rewarded(token, float(token))
    assert rewards(tmp_path / "log") == [float(token) for token in range(everything)]


FULL = """
    import resource, signal, sys
    import numpy as np
    import heavytail as ht
    from heavytail.ledger.decision import Decision

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    log = ht.DecisionLog(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # twice what empty tables take
    for token in range(1000):
        try:
            log.decided(Decision(token, 1, ARMS[1], 0.5, None, 1e9), ARMS)
        except OSError as error:
            print(error)
            break
    print(token)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs limits on files")
def test_a_full_disk_is_said_and_what_was_logged_before_stays(tmp_path):
    code = textwrap.dedent(FULL)
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True
    )
    words, token = told.stdout.splitlines()
    assert re.search("its disk (is full. Make room; nothing|failed. Nothing)", words)
    count = int(token)
    assert count > 3
    assert len(rewards(tmp_path / "log", default_reward=0.0)) == count
    with ht.DecisionLog(tmp_path / "log") as log:
        assert log.decisions == count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_does_not_write(tmp_path):
    code = textwrap.dedent(
        """
        import os, sys
        import numpy as np
        import heavytail as ht
        from heavytail.ledger.decision import Decision
        log = ht.DecisionLog(sys.argv[1])
        log.decided(Decision(0, 0, np.ones(2)), np.ones((1, 2)))
        child = os.fork()
        if child == 0:
            try:
                log.rewarded(0, 1.0)
            except RuntimeError as error:
                print(error, flush=True)
            log.close()
            os._exit(0)
        os.waitpid(child, 0)
        log.rewarded(0, 2.0)
        log.close()
        """
    )
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "log")],
        capture_output=True,
        text=True,
    )
    assert "was opened by another process" in told.stdout, told.stderr
    assert rewards(tmp_path / "log") == [2.0]
