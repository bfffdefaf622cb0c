"""The quick reader agrees with the careful one, or leaves the body to it."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from heavytail.serve import fast
from heavytail.serve.handlers import VECTORS

pytest.importorskip("simdjson")

NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**70), 2**70), st.just("1")
)
VALUE = st.recursive(NUMBER | st.booleans() | st.none(), lambda x: st.lists(x, max_size=3))
ROW = st.lists(NUMBER, min_size=2, max_size=2) | st.lists(VALUE, max_size=3)
ASKED = st.fixed_dictionaries(
    {"arms": st.lists(ROW, max_size=4)},
    optional={
        "ids": st.lists(st.text(max_size=3) | st.integers(), max_size=4),
        "explore": VALUE,
        "other": VALUE,
    },
)


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(fast, "SHORT", 0)


def careful(body: bytes):
    """What the careful reader makes of it; None where it refuses."""
    try:
        found = VECTORS.decode(body)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
    many = found if isinstance(found, list) else [found]
    if any(len(row) != 2 for one in many for row in one.arms):
        return None
    return [(one.arms, one.ids, one.explore) for one in many]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(ASKED, st.lists(ASKED, max_size=3)))
def test_what_is_read_quickly_is_read_the_same_carefully(told):
    body = json.dumps(told).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "SHORT", 0)
        found = fast.plain(body, 2, fast.CHOICE)
    if found is None:
        return
    wanted = careful(body)
    assert wanted is not None, body
    many = found if isinstance(found, list) else [found]
    assert isinstance(found, list) == isinstance(told, list)
    assert len(many) == len(wanted)
    for one, (arms, ids, explore) in zip(many, wanted, strict=True):
        assert one.arms.tolist() == [[float(v) for v in row] for row in arms]
        assert (one.ids, one.explore) == (ids, explore)


def test_numbers_are_read_to_the_bit():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**63, size=40_000).view(np.float64)
    arms = bits[np.isfinite(bits)][:30_000].reshape(-1, 2)
    found = fast.plain(json.dumps({"arms": arms.tolist()}).encode(), 2, fast.CHOICE)
    assert np.array_equal(found.arms, arms)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"{}", b'"x"', b'{"arms": 1}', b'{"arms": [[1, 2], [3]]}',
        b'{"arms": [[[1], 2]]}', b'{"arms": [[[1, 2]]]}', b'{"arms": [["1", 2]]}',
        b'{"arms": [[true, 2]]}', b'{"arms": [[NaN, 2]]}', b'{"arms": [[1e999, 2]]}',
        b'{"arms": [[1, 2]], "arms": [[3, 4]]}', b'{"arms": [[1, 2]], "seed": 1}',
        b'{"arms": [[1, 2]], "explore": true}', b'{"arms": [[1, 2]], "explore": 2}',
        b'{"arms": [[1, 2]], "ids": [1.5]}', b'{"arms": [[1, 2]], "ids": ["["]}', b"\xff",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_careful_reader(body):
    found = fast.plain(body, 2, fast.CHOICE)
    assert found is None or found == []
