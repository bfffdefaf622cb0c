"""The ring of the last rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heavytail.decider.history import EXTRA, History, Rows

COLUMNS = 2


def row(i: int) -> tuple[Any, ...]:
    context = np.array([float(i), -float(i)])
    return context, i % 3, 0.5, float(i), 10.0 * i, bool(i % 2)


def rows(first: int, last: int) -> Rows:
    each = [row(i) for i in range(first, last)]
    context = np.array([r[0] for r in each]).reshape(-1, COLUMNS)
    return Rows(context, *(np.array([r[k] for r in each]) for k in range(1, 6)))


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_it_is_always_the_last_rows_in_order(size):
    rng = np.random.default_rng(size)
    ring, i = History(COLUMNS, size), 0
    for _ in range(60):
        act = int(rng.integers(4))
        if act == 0:
            count = int(rng.integers(1, 2 * size))
            ring.extend(rows(i, i + count))
            i += count
        elif act == 1:
            arrays = ring.arrays()
            ring = History(COLUMNS, size)
            ring.resume(arrays, [-1, -1], 3)
        elif act == 2:
            ring = ring.copy()
        else:
            ring.add(*row(i))
            i += 1
        kept = ring.rows()
        assert (ring.seen, len(ring), len(kept)) == (i, min(i, size), min(i, size))
        np.testing.assert_array_equal(kept.rewards, np.arange(max(0, i - size), i))
        np.testing.assert_array_equal(kept.contexts[:, 0], kept.rewards)
        np.testing.assert_array_equal(kept.contexts[:, 1], -kept.rewards)
        np.testing.assert_array_equal(kept.offers, kept.rewards % 3)
        np.testing.assert_array_equal(kept.times, 10 * kept.rewards)
        np.testing.assert_array_equal(kept.own, kept.rewards % 2 == 1)


def test_a_copy_is_apart_from_the_ring():
    ring = History(COLUMNS, 5)
    ring.extend(rows(0, 7))
    twin = ring.copy()
    twin.add(*row(7))
    assert (ring.rows().rewards[-1], twin.rows().rewards[-1]) == (6.0, 7.0)


@pytest.mark.parametrize(
    ("place", "value"),
    [((0, 0), 4.0), ((0, 0), -2.0), ((0, 0), 0.5), ((1, 1), np.inf), ((0, COLUMNS), 3.0),
     ((0, COLUMNS), -1.0), ((0, COLUMNS), np.nan), ((0, COLUMNS + 1), 0.0),
     ((0, COLUMNS + 1), 1.5), ((0, COLUMNS + 2), np.nan), ((0, COLUMNS + 3), np.inf),
     ((0, COLUMNS + 4), 0.5), ((0, COLUMNS + 4), np.nan)],
)  # fmt: skip
def test_damaged_rows_are_refused(place, value):
    ring = History(COLUMNS, 9)
    ring.extend(rows(0, 4))
    arrays = ring.arrays()
    History(COLUMNS, 9).resume(arrays, [4, -1], 3)
    arrays["history"][place] = value
    with pytest.raises(ValueError, match="history"):
        History(COLUMNS, 9).resume(arrays, [4, -1], 3)


@pytest.mark.parametrize("seen", [-1.0, 0.0, 3.0, 5.0, 4.5, np.nan, np.inf, 2.0**53])
def test_a_number_of_rows_that_does_not_fit_is_refused(seen):
    ring = History(COLUMNS, 9)
    ring.extend(rows(0, 4))
    with pytest.raises(ValueError, match="its"):
        History(COLUMNS, 9).resume(ring.arrays() | {"seen": np.array([seen])}, [-1, -1], 3)
    shape = np.zeros((4, COLUMNS + EXTRA + 1))
    with pytest.raises(ValueError, match="fit"):
        History(COLUMNS, 9).resume(ring.arrays() | {"history": shape}, [-1, -1], 3)
