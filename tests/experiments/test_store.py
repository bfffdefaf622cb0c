"""What the store keeps is believed only where every byte of it is the store's own."""

from __future__ import annotations

import io

import numpy as np
import pytest

from heavytail.experiments.store import Store
from heavytail.experiments.unit import Unit

UNIT = Unit("heavytail.experiments.unit:chunks", {"trials": 3})
OTHER = Unit("heavytail.experiments.unit:chunks", {"trials": 4})
OUTCOME = {"regret": np.arange(6.0).reshape(2, 3), "time": np.array([0.5, np.nan])}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.put(UNIT, OUTCOME)
    return store


def test_what_was_kept_is_found_to_the_bit(store):
    found = store.get(UNIT)
    assert set(found) == set(OUTCOME)
    for name, array in OUTCOME.items():
        np.testing.assert_array_equal(found[name], array)
    assert store.get(OTHER) is None


def test_every_changed_byte_and_every_truncation_is_run_again(store):
    path = store.path(UNIT)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert store.get(UNIT) is None
        path.write_bytes(whole[:at])
        assert store.get(UNIT) is None
    path.write_bytes(whole)
    assert store.get(UNIT) is not None


def test_a_file_of_another_unit_or_another_hand_is_run_again(store):
    store.put(OTHER, OUTCOME)
    store.path(UNIT).write_bytes(store.path(OTHER).read_bytes())
    assert store.get(UNIT) is None
    plain = io.BytesIO()
    np.savez(plain, **OUTCOME)
    store.path(UNIT).write_bytes(plain.getvalue())
    assert store.get(UNIT) is None
