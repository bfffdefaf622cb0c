"""Counts of windows and arms: right, mergeable and bounded."""

from __future__ import annotations

import numpy as np
import pytest

from heavytail.serve.counts import ARMS, LENGTH, RECENT, WINDOWS, Counts

START = 1000  # number of the first window


def test_mean_and_standard_error_are_those_of_the_last_minutes_rewards():
    counts, rng = Counts(), np.random.default_rng(0)
    drawn = 1e6 + rng.standard_t(2.0, (20, 30))  # sums of squares would lose the spread
    for k, rewards in enumerate(drawn):
        counts.rewarded(START + k, rewards[:10].tolist())
        counts.rewarded(START + k, rewards[10:].tolist())
    now = (START + 19) * LENGTH
    last = drawn[-RECENT:].ravel()
    error = last.std(ddof=1) / np.sqrt(last.size)
    *_, mean, found = counts.lately(now, 0.0)
    assert (mean, found) == pytest.approx((last.mean(), error), rel=1e-9)
    windows = counts.listed(now)
    assert [one.ago for one in windows] == [LENGTH * k for k in range(19, -1, -1)]
    assert windows[-1].error == pytest.approx(error, rel=1e-9)
    assert windows[4].mean == pytest.approx(drawn[:5].mean(), rel=1e-12)
    assert windows[15].mean == pytest.approx(drawn[4:16].mean(), rel=1e-12)


def test_counts_of_several_workers_are_those_of_one():
    rng = np.random.default_rng(0)
    whole, parts, stored = Counts(), [Counts(), Counts(), Counts()], Counts()
    for k in range(300):
        number, arm, reward = START + k // 10, (f"id {rng.integers(5)}", 0), rng.standard_t(2.0)
        for counts in (whole, parts[rng.integers(3)]):
            counts.decided(number, [arm])
            counts.rewarded(number, [reward])
    for part in (*parts, Counts()):
        stored.merge(Counts.unpacked(part.packed()))
    now = (START + 29) * LENGTH
    assert stored.arms == whole.arms
    assert stored.lately(now, 0.0) == pytest.approx(whole.lately(now, 0.0), rel=1e-12)
    for one, other in zip(stored.listed(now), whole.listed(now), strict=True):
        assert (one.decisions, one.rewards, one.ago) == (other.decisions, other.rewards, other.ago)
        assert (one.mean, one.error) == pytest.approx((other.mean, other.error), rel=1e-12)
    assert stored.without_decisions().lately(now, 0.0)[1:] == stored.lately(now, 0.0)[1:]
    assert stored.without_decisions().lately(now, 0.0)[0] == 0.0


def test_rates_are_of_the_last_minute_and_of_what_there_is_of_it():
    counts, begun = Counts(), 1000.0
    counts.decided(int(begun // LENGTH), [("a", 0)] * 20)
    assert counts.lately(begun + 4.0, begun)[0] == 5.0
    assert counts.lately(begun + 4.0, 0.0)[0] == 20 / 59.0
    later = begun + 2.0 * RECENT * LENGTH
    assert counts.lately(later, begun) == (0.0, 0.0, None, None)
    assert [one.decisions for one in counts.listed(later)] == [20]


def test_one_reward_has_a_mean_and_no_error():
    counts = Counts()
    counts.rewarded(START, [3.0])
    assert counts.lately(START * LENGTH, 0.0)[2:] == (3.0, None)
    counts.rewarded(START, [1e100, -1e100])
    assert all(np.isfinite(counts.lately(START * LENGTH, 0.0)[2:]))
    assert np.isfinite(counts.listed(START * LENGTH)[0].mean)


def test_windows_and_ids_are_bounded():
    stored = Counts()
    for i in range(3 * ARMS):
        counts = Counts()
        counts.decided(START + i, [(f"id {i}", 0), ("liked", 1)])
        stored.merge(counts)
    assert len(stored.arms) == ARMS
    assert len(stored.windows) == WINDOWS
    assert len(stored.listed((START + 3 * ARMS) * LENGTH)) == WINDOWS - 1  # the present is empty
    assert len(stored.packed()) < 40 * ARMS
    top, others = stored.top(6 * ARMS)
    assert (top[0].id, top[0].decisions, len(top)) == ("liked", 3 * ARMS, 10)
    assert sum(one.decisions for one in top) + others == 6 * ARMS


def test_an_id_that_is_a_number_is_no_place_and_no_text():
    counts = Counts()
    counts.decided(START, [(1, 0), ("1", 0), (None, 1), (1, 5)])
    top, _ = Counts.unpacked(counts.packed()).top(4)
    found = {(one.id, one.place): one.decisions for one in top}
    assert found == {(1, None): 2, ("1", None): 1, (None, 1): 1}


@pytest.mark.parametrize(
    "content", [b"", b"\xc1", b"\x93\x01", b"\x92\x90\x91\x93\xa1\xff\x00\x00"]
)
def test_damaged_counts_count_as_none(content):
    assert not Counts.unpacked(content)
