"""A log of decisions when the system, a caller or a file fails: nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3

import numpy as np
import pytest

import heavytail as ht
from heavytail.ledger.decision import Decision
from heavytail.ledger.layout import FILE
from heavytail.ledger.sqlite import SQLiteStore
from heavytail.ledger.store import StoreError
from heavytail.logs.reading import chunks

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def decision(token, arm=1, probability=0.5):
    return Decision(token, arm, ARMS[arm], probability, 0.25, 1e9 + token)


def spoilt(statement):
    def spoil(path):
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute(statement)
            database.commit()

    return spoil


def rewards(folder, **told):
    return [float(r) for part in chunks(folder, **told) for r in part.reward]


@pytest.mark.parametrize("error", [StoreError("its disk is full."), KeyboardInterrupt])
@pytest.mark.parametrize("name", ["begin", "rows", "run_many", "commit"])
def test_no_failing_call_of_the_store_loses_what_was_acknowledged(
    name, error, tmp_path, monkeypatch
):
    """Each call fails once, before it did its work or after it."""
    real = getattr(SQLiteStore, name)
    for k, after in itertools.product(range(6), (False, True)):
        folder = tmp_path / f"{k}-{after}"
        log = ht.DecisionLog(folder)
        decided, rewarded, used = [], [], itertools.count()

        def tried(*given, used=used, k=k, after=after):
            fails = next(used) == k
            if fails and not after:
                raise error
            answer = real(*given)
            if fails:
                raise error
            return answer

        with monkeypatch.context() as patch:
            patch.setattr(SQLiteStore, name, tried)
            for token in range(4):
                with contextlib.suppress(OSError, KeyboardInterrupt, ValueError):
                    log.decided(decision(token), ARMS)
                    decided.append(token)
                    log.rewarded(token, float(token))
                    rewarded.append(float(token))
        assert set(rewarded) <= set(rewards(folder)), k  # as after a kill
        assert len(rewards(folder, default_reward=0.0)) >= len(decided), k
        log.decided(decision(99), ARMS)
        log.rewarded(99, 99.0)
        log.close()
        assert {*rewarded, 99.0} <= set(rewards(folder)), k


@pytest.mark.skipif(os.name != "posix", reason="removes an open file")
@pytest.mark.parametrize("put", [False, True])
def test_a_database_that_somebody_removed_or_replaced_is_not_written_to(put, tmp_path):
    log = ht.DecisionLog(tmp_path)
    log.decided(decision(0), ARMS)
    (tmp_path / FILE).rename(tmp_path / "elsewhere")
    if put:
        (tmp_path / FILE).write_bytes((tmp_path / "elsewhere").read_bytes())
    for _ in range(2):
        with pytest.raises(OSError, match=r"was removed or replaced"):
            log.rewarded(0, 1.0)
    log.close()


@pytest.mark.parametrize("path", [5, None, b"abc", "a\0b"])
def test_what_names_no_folder_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="path must name a folder"):
        ht.DecisionLog(path)
    assert not list(tmp_path.iterdir())


def test_a_folder_of_somebody_elses_is_left_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match="is no folder of a DecisionLog"):
        ht.DecisionLog(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links")
def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="Pass a writable folder"):
        ht.DecisionLog(tmp_path / "log")
    assert not (tmp_path / "elsewhere").exists()


DAMAGE = {
    "nothing is left": lambda path: path.write_bytes(b""),
    "the last page is cut": lambda path: os.truncate(path, path.stat().st_size - 4096),
    "it is no database": lambda path: path.write_bytes(b"nothing of the kind" * 1000),
    "a table is gone": spoilt("DROP TABLE outcome"),
    "details are none": spoilt("UPDATE decision SET detail = x'00'"),
    "features are cut": spoilt("UPDATE decision SET x = substr(x, 9)"),
    "the arm is another": spoilt("UPDATE decision SET arm = 9"),
    "a reward is text": spoilt("UPDATE outcome SET reward = 'x'"),
    "of another version": spoilt("UPDATE meta SET value = 9 WHERE name = 'layout'"),
    "features are a number": spoilt("UPDATE decision SET x = 10000000000"),
    "details are a number": spoilt("UPDATE decision SET detail = 10000000000"),
    "details are empty": spoilt("UPDATE decision SET detail = x''"),
    "commits are gone": spoilt("UPDATE meta SET value = 1 WHERE name = 'commits'"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_log_is_refused_in_a_sentence(damage, tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        for token in range(3):
            log.decided(decision(token), ARMS)
            log.rewarded(token, 1.0)
    DAMAGE[damage](tmp_path / FILE)
    with pytest.raises((ValueError, OSError)) as refusal:
        rewards(tmp_path)
    assert len(str(refusal.value)) > 30
    assert "\n" not in str(refusal.value)


ROWS = {
    "outcome": ["key = 10000000000", "reward = 'x'", "x = 5"],
    "decision": ["key = 5", "x = 5", "detail = 10000000000", "detail = x''", "arm = 'x'"],
    "model": ["last = 9223372036854775807"],
}


@pytest.mark.parametrize(("table", "change"), [(t, c) for t, all_ in ROWS.items() for c in all_])
def test_a_writer_of_a_damaged_log_says_so(table, change, tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        for token in range(2):
            log.decided(decision(token), ARMS)
        log.rewarded(0, 1.0)
    where = "" if table != "decision" else " WHERE key = (SELECT max(key) FROM decision)"
    spoilt(f"UPDATE {table} SET {change}{where}")(tmp_path / FILE)
    with ht.DecisionLog(tmp_path) as log:
        reads, writes = lambda: list(log.since(0)), lambda: log.rewarded(decision(1), 1.0)
        with pytest.raises(OSError, match="is damaged"):
            (reads if table == "outcome" else writes)()


@pytest.mark.parametrize("when", [1e300, 1e306, 1.7e308, -1.7e308])
def test_times_of_any_size_are_logged(when, tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        log.decided(hand_made(time=when), ARMS)
        assert log.expire(older_than=0.0, now=when) in (0, 1)
        assert log.decisions == 1


@pytest.mark.parametrize("seq", [-1, 0.5, 10**30, "x", None, []])
def test_outcomes_after_what_is_no_number_are_refused_at_once(seq, tmp_path):
    log = ht.DecisionLog(tmp_path)
    with log, pytest.raises((ValueError, TypeError), match=r"DecisionLog.since: seq"):
        log.since(seq)


def test_a_log_in_a_folder_that_cannot_be_written_to_is_read(tmp_path, monkeypatch):
    with ht.DecisionLog(tmp_path) as log:
        log.decided(decision(0), ARMS)
        log.rewarded(0, 4.0)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever runs this may write anywhere
    assert rewards(tmp_path) == rewards(tmp_path / FILE) == [4.0]
    assert sorted(tmp_path.iterdir()) == before


def hand_made(**odd):
    told = {"token": 5, "arm": 0, "x": ARMS[0], "probability": 0.5, "score": 1.0, "time": 1.0}
    return Decision(**{**told, **odd})


ODD = [("token", odd) for odd in (10**30, "7", -5, None, True, 0.5, np.nan)]
ODD += [("probability", odd) for odd in ("x", 2.0, -1.0, 0.0, np.nan, True, [0.5])]
ODD += [("score", odd) for odd in ("hello", [1, 2], np.inf, 1j, 10**400)]
ODD += [("time", odd) for odd in ("now", 10**400, -np.inf, np.datetime64("2020-01-01"))]
ODD += [("arm", odd) for odd in (0.5, "0", None, -1, 3, True, 10**400)]
ODD += [("x", odd) for odd in (None, "x", ARMS[1], ARMS)]


@pytest.mark.parametrize(("name", "odd"), ODD)
def test_a_decision_made_by_hand_is_checked_before_anything_is_written(name, odd, tmp_path):
    refused_whole(lambda log: log.decided(hand_made(**{name: odd}), ARMS), tmp_path)


IDS = [
    ["a", "b", "\ud800"],
    "abc",
    b"abc",
    {"a", "b", "c"},
    {"a": 1, "b": 2, "c": 3},
    itertools.count(),
    (str(k) for k in range(3)),
    ["a", "b", None],
    ["a", "b", 0.5],
    ["a", "b", True],
    ["a", "b", 10**5000],
    ["a", "b"],
    5,
    np.array("a"),
]


@pytest.mark.parametrize("ids", IDS, ids=range(len(IDS)))
def test_ids_that_a_file_cannot_hold_are_refused(ids, tmp_path):
    words = "ids must be a list of text|need as many ids"
    refused_whole(lambda log: log.decided(hand_made(), ARMS, ids=ids), tmp_path, words)


@pytest.mark.parametrize("arms", [np.zeros((0, 2)), np.zeros((3, 0)), np.zeros((0, 2, 2)), 5, None])
def test_arms_that_are_none_are_refused(arms, tmp_path):
    refused_whole(lambda log: log.decided(hand_made(), arms), tmp_path, "arms must")


def refused_whole(call, folder, words="DecisionLog.decided"):
    """It is refused, nothing is written, and the log goes on."""
    with ht.DecisionLog(folder) as log:
        log.decided(decision(0), ARMS)
        with pytest.raises((ValueError, TypeError), match=words):
            call(log)
        assert (log.decisions, log.waiting) == (1, (0,))
        log.decided(hand_made(arm=np.int64(0)), ARMS, ids=np.array([1, 2, 3]))
        log.rewarded(5, 2.0)
        log.rewarded(0, 1.0)
    assert rewards(folder) == [1.0, 2.0]


@pytest.mark.parametrize("token", ["x", 10**400, None, -1])
def test_a_reward_for_a_token_that_is_none_is_refused(token, tmp_path):
    with ht.DecisionLog(tmp_path) as log:
        for one in (token, hand_made(token=token)):
            with pytest.raises((ValueError, TypeError), match=r"DecisionLog.rewarded: .*token"):
                log.rewarded(one, 1.0)


@pytest.mark.parametrize("again", [False, True])
def test_a_policy_of_before_cannot_double_tokens(tmp_path, again):
    """Saved, decided on, loaded as it was before: its tokens are those of other decisions."""
    policy = ht.TwinUCB(2)
    policy.save(tmp_path / "it.npz")
    log = ht.DecisionLog(tmp_path / "log")
    made = [policy.decide(ARMS[:2], explore=0.5) for _ in range(6)]
    for decision in made:
        log.decided(decision, ARMS[:2])
    for decision in made[:5]:
        log.rewarded(decision, 1.0)
    if again:
        log.close()
        log = ht.DecisionLog(tmp_path / "log")
    stale = ht.load(tmp_path / "it.npz")
    for _ in made:
        decision = stale.decide(ARMS[:2], explore=0.5)
        with pytest.raises(ValueError, match="is in the log already"):
            log.decided(decision, ARMS[:2])
    with pytest.raises(ValueError, match="is another"):  # token 5 waits, and is not this one
        log.rewarded(decision, 9.0)
    assert log.waiting == (5,)
    log.rewarded(made[5], 1.0)
    log.close()
    assert ht.evaluate(tmp_path / "log", lambda r: np.full((len(r.action), 2), 0.5)).rows == 6
