"""Tokens that a log has, and what is refused because of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heavytail as ht
from heavytail.logs.tokens import Tokens

ARMS = np.eye(2)


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=5), st.data())
def test_stretches_are_a_set(parts, data):
    found, wanted = Tokens(), set()
    for part in parts:
        if data.draw(st.booleans()):
            found.add_many(np.array(part, np.int64))
        else:
            for token in part:
                found.add(token)
        wanted |= set(part)
        assert {token for token in range(-1, 32) if token in found} == wanted
        gaps = np.diff(sorted(wanted)) > 1
        assert len(found.starts) == len(found.ends) == (np.sum(gaps) + 1 if wanted else 0)


@pytest.mark.parametrize("rows", [2, 100])
@pytest.mark.parametrize("again", [False, True])
def test_a_policy_of_before_cannot_double_tokens(tmp_path, rows, again):
    """Saved, decided on, loaded as it was before: its tokens are those of other decisions."""
    policy = ht.TwinUCB(2)
    policy.save(tmp_path / "it.npz")
    log = ht.DecisionLog(tmp_path / "log", rows=rows)
    made = [policy.decide(ARMS, explore=0.5) for _ in range(6)]
    for decision in made:
        log.decided(decision, ARMS)
    for decision in made[:5]:
        log.rewarded(decision, 1.0)
    if again:
        log.close()
        log = ht.DecisionLog(tmp_path / "log", rows=rows)
    stale = ht.load(tmp_path / "it.npz")
    for _ in made:
        decision = stale.decide(ARMS, explore=0.5)
        with pytest.raises(ValueError, match="is in the log already"):
            log.decided(decision, ARMS)
    with pytest.raises(ValueError, match="is another"):  # token 5 waits, and is not this one
        log.rewarded(decision, 9.0)
    assert log.waiting == (5,)
    log.rewarded(made[5], 1.0)
    log.close()
    assert ht.evaluate(tmp_path / "log", lambda r: np.full((len(r.action), 2), 0.5)).rows == 6


def test_a_part_without_tokens_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    policy = ht.TwinUCB(2)
    with ht.DecisionLog(tmp_path, rows=1) as log:
        decision = policy.decide(ARMS, explore=0.5)
        log.decided(decision, ARMS)
        log.rewarded(decision, 1.0)
    part = next(tmp_path.glob("part-*.parquet"))
    table = pq.read_table(part)
    for other in (table.drop_columns(["token"]), table.set_column(0, "token", pa.array(["x"]))):
        pq.write_table(other, part)
        with pytest.raises(ValueError, match=r"part-.*(damaged|no part)"):
            ht.DecisionLog(tmp_path)
