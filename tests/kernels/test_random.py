"""Philox by its published answers, and numbers made of its words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.kernels import random

ONES = np.uint64(2**64 - 1)


@pytest.mark.parametrize(
    ("key", "high", "low", "words"),
    [  # the known answers of Random123's philox4x32-10
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (ONES, ONES, ONES, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x299F31D0A4093822,
            0x0370734413198A2E,
            np.uint64(0x85A308D3243F6A88),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(key, high, low, words):
    assert [f"{int(word):08x}" for word in random._philox(key, high, low)] == words.split()


def join(a, b):
    return ((int(a) >> 5) * 2**26 + (int(b) >> 6)) / 2**53


def test_uniform_numbers_are_53_bits_of_two_words():
    a, b, c, d = random._philox(7, 3, 11)
    assert random.uniform(7, 3, 11) == join(a, b)
    assert random.uniform_pair(7, 3, 11) == (join(a, b), join(c, d))


def test_a_normal_number_is_box_and_mullers_of_two_counters():
    for low in (0, 1, 5):
        u, v = 1.0 - random.uniform(7, 3, 2 * low), random.uniform(7, 3, 2 * low + 1)
        expected = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
        assert random.normal(7, 3, low) == pytest.approx(expected, rel=1e-14)
