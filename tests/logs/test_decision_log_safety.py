"""A log of decisions when the system, a caller or a file fails: nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os

import numpy as np
import pytest

import heavytail as ht
from heavytail.logs.reading import chunks
from heavytail.policies.core.decisions import Decision

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def decision(token, arm=1, probability=0.5):
    return Decision(token, arm, ARMS[arm], probability, 0.25, 1e9 + token)


def rewards(folder, **told):
    return [float(r) for part in chunks(folder, **told) for r in part.reward]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), KeyboardInterrupt])
@pytest.mark.parametrize("name", ["open", "replace", "fsync", "write", "close", "stat", "fstat"])
def test_no_failing_call_of_the_system_loses_what_was_acknowledged(
    name, error, after, tmp_path, monkeypatch
):
    """Each call of a name fails once, before it did its work or after it."""
    real = getattr(os, name)
    for k in range(12):
        folder = tmp_path / str(k)
        log = ht.DecisionLog(folder, rows=3, waiting=4)
        decided, rewarded = [], []
        used = iter(range(10**9))

        def tried(*given, used=used, k=k, **named):
            fails = next(used) == k
            if fails and not after:
                raise error
            told = real(*given, **named)
            if fails and name not in ("open", "write"):  # these were done, as far as one knows
                raise error
            return told

        with monkeypatch.context() as patch:
            patch.setattr(os, name, tried)
            for token in range(8):
                with contextlib.suppress(OSError, KeyboardInterrupt, ValueError):
                    log.decided(decision(token), ARMS)
                    decided.append(token)
                    if token != 1:
                        log.rewarded(token, float(token))
                        rewarded.append(token)
        there = [float(token) for token in rewarded]
        assert set(there) <= set(rewards(folder)), k  # as after a kill
        assert len(rewards(folder, default_reward=0.0)) >= len(decided), k
        with contextlib.suppress(OSError):
            log.close()
        with ht.DecisionLog(folder) as log:
            log.decided(decision(99), ARMS)
            log.rewarded(99, 99.0)
        assert {*there, 99.0} <= set(rewards(folder)), k


def test_a_log_goes_on_where_no_file_can_be_opened(tmp_path, monkeypatch):
    real = os.open

    def full(*given, **named):
        raise OSError(errno.EMFILE, "Too many open files")

    log = ht.DecisionLog(tmp_path, rows=2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        for token in range(7):
            log.decided(decision(token), ARMS)
            log.rewarded(token, float(token))
    assert rewards(tmp_path) == [float(token) for token in range(7)]
    assert os.open is real
    log.close()
    assert rewards(tmp_path) == [float(token) for token in range(7)]


@pytest.mark.skipif(os.name != "posix", reason="removes an open file")
@pytest.mark.parametrize("put", [False, True])
def test_a_journal_that_somebody_removed_or_replaced_is_not_written_to(put, tmp_path):
    log = ht.DecisionLog(tmp_path)
    log.decided(decision(0), ARMS)
    content = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").rename(tmp_path / "elsewhere")
    if put:
        (tmp_path / "journal").write_bytes(content)
    for _ in range(2):
        with pytest.raises(OSError, match=r"its journal was removed or replaced.*Open it again"):
            log.rewarded(0, 1.0)
    log.close()
    assert (tmp_path / "elsewhere").read_bytes() == content


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
    with ht.DecisionLog(folder, rows=1) as log:
        log.decided(decision(0), ARMS)
        before = (folder / "journal").read_bytes()
        with pytest.raises((ValueError, TypeError), match=words):
            call(log)
        assert (folder / "journal").read_bytes() == before
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
