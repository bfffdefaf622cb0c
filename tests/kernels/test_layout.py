"""Where the parts of a state lie, and the numbers that kernels answer with."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from heavytail.kernels import layout, quadratic
from heavytail.kernels.layout import behind, numbered, rows, slot_names


class Two(NamedTuple):
    FIRST: int
    SECOND: int


def test_answers_and_slots_have_their_numbers() -> None:
    answers = ("OK", "BAD_X", "BAD_REWARD", "BAD_SCALE", "OVERFLOW", "NO_ARM")
    assert [getattr(layout, name) for name in answers] == [0, -1, -2, -3, -4, -5]
    vectors = ("THETA", "DIRECTION", "FEATURE", "SCRATCH", "INVERSE")
    assert [getattr(layout, name) for name in vectors] == [0, 1, 2, 3, 4]
    assert layout.COMMON == tuple(range(10))
    assert layout.behind(layout.COMMON) == 10


@pytest.mark.parametrize("size", [1, 2, 7])
def test_rows_hold_vectors_p_and_room_for_a_factor(size: int) -> None:
    assert rows(size) == 4 + size + (size + 1)
    assert quadratic.first_extra(size) == rows(size)
    assert quadratic.extra_rows(size) == size + 3
    behind_q = (quadratic.LINEAR, quadratic.NEXT, quadratic.GRADIENT, quadratic.BEHIND)
    assert behind_q == (0, 1, 2, 3)


def test_slots_are_numbered_one_behind_the_other() -> None:
    assert numbered(Two) == (0, 1)
    two = numbered(Two, after=(0, 1, 2))
    assert two == (3, 4)
    assert behind(two) == 5
    assert behind(()) == 0
    assert slot_names(numbered(Two)) == ("first", "second")
    with pytest.raises(ValueError, match="one behind the other"):
        slot_names(two)
