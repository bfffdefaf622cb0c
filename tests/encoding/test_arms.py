"""Arms in a context: vectors with ids, as a policy takes them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.encoding.tools import ANY_ROW, DRESSES, columns, fitted

import heavytail as ht

CONTEXT = {"segment": "new", "age": 40}
ARMS = [{"price": float(p), "region": p % 5, "sku": f"sku-{p}"} for p in range(10, 22)]


def test_arms_are_the_rows_of_context_and_arm_together():
    encoder = fitted()
    arms = encoder.arms(CONTEXT, ARMS)
    assert (np.asarray(arms) == encoder.transform([{**CONTEXT, **arm} for arm in ARMS])).all()
    assert arms.ids == tuple(range(12))
    assert arms.shape == (12, encoder.dim)
    assert (encoder.arms(None, [{**CONTEXT, **arm} for arm in ARMS])[3] == arms[3]).all()
    assert (encoder.arms({}, [{**CONTEXT, **ARMS[5]}])[0] == arms[5]).all()


@given(row=ANY_ROW, cut=st.sets(st.sampled_from(list(columns(1)))))
@settings(max_examples=40, deadline=None)
def test_it_does_not_matter_which_columns_the_context_has(row, cut):
    encoder = fitted(missing="indicator")
    context = {name: row[name] for name in cut}
    arm = {name: value for name, value in row.items() if name not in cut}
    arms = encoder.arms(context, [arm, arm, arm])
    assert (np.asarray(arms) == encoder.transform([row] * 3)).all()


@pytest.mark.parametrize("dress", DRESSES)
def test_arms_come_in_every_dress_and_ids_from_a_column(dress):
    encoder, told = fitted(), {k: [arm[k] for arm in ARMS] for k in ARMS[0]}
    arms = encoder.arms(CONTEXT, DRESSES[dress](told), ids="sku")
    assert (np.asarray(arms) == np.asarray(encoder.arms(CONTEXT, ARMS))).all()
    assert arms.ids == tuple(told["sku"])
    assert arms.place("sku-13") == 3
    with pytest.raises(KeyError, match="no arm has the id 'sku-99'"):
        arms.place("sku-99")


def test_a_policy_takes_arms_where_it_takes_an_array():
    encoder = fitted()
    arms = encoder.arms(CONTEXT, ARMS, ids="sku")
    plain = np.asarray(arms).copy()
    one, other = ht.TwinUCB(encoder.dim), ht.TwinUCB(encoder.dim)
    for t in range(20):
        place = one.select(arms)
        assert place == other.select(plain)
        one.update(arms[place], float(t % 3))
        other.update(plain[place], float(t % 3))
    decision = one.decide(arms)
    assert (decision.x == plain[decision.arm]).all()
    assert ht.Pool(arms)[2].tolist() == plain[2].tolist()
    assert "12 of dimension" in repr(arms)
    with pytest.raises(ValueError, match="read-only"):
        arms[0][0] = 1.0


def test_ids_are_checked():
    encoder = fitted(strict=True)
    with pytest.raises(ValueError, match=r"arms 0 and 2 share the id 'a'"):
        encoder.arms(CONTEXT, ARMS[:3], ids=["a", "b", "a"])
    with pytest.raises(ValueError, match="3 arms need as many ids; got 2"):
        encoder.arms(CONTEXT, ARMS[:3], ids=["a", "b"])
    with pytest.raises(TypeError, match=r"ids\[1\] must be text or a whole number; got 1.5"):
        encoder.arms(CONTEXT, ARMS[:2], ids=[1, 1.5])
    with pytest.raises(TypeError, match="ids must be a list"):
        encoder.arms(CONTEXT, ARMS[:2], ids=7)
    with pytest.raises(ValueError, match="there is no column 'name'"):
        encoder.arms(CONTEXT, ARMS[:2], ids="name")
    named = [{**arm, "name": f"n{i}"} for i, arm in enumerate(ARMS)]
    assert encoder.arms(CONTEXT, named, ids="name").ids[2] == "n2"
    assert encoder.arms(CONTEXT, ARMS[:2], ids=np.array([5, 6])).ids == (5, 6)


def test_arms_that_cannot_be_are_refused_by_place():
    encoder = fitted()
    with pytest.raises(ValueError, match=r"column 'age' is in the context and in the arms"):
        encoder.arms(CONTEXT, [*ARMS, {**ARMS[0], "age": 3}])
    with pytest.raises(ValueError, match="arms is empty"):
        encoder.arms(CONTEXT, [])
    with pytest.raises(TypeError, match=r"arms, row 1, column 'price': must be a number; got 'x'"):
        encoder.arms(CONTEXT, [ARMS[0], {**ARMS[1], "price": "x"}])
    with pytest.raises(ValueError, match=r"context, column 'age': the number is missing"):
        encoder.arms({**CONTEXT, "age": None}, ARMS)
    with pytest.raises(ValueError, match=r"arms, row 1: there is no column 'sku'.*Pass None"):
        encoder.arms(CONTEXT, [ARMS[0], {"price": 1.0, "region": 2}])
    with pytest.raises(TypeError, match=r"context must be a dict of values by column; got \[1\]"):
        encoder.arms([1], ARMS)
    with pytest.raises(TypeError, match=r"arms, row 0: must be a dict of values by column; got 3"):
        encoder.arms(CONTEXT, [3])
    with pytest.raises(ValueError, match="does not name the column 'colour'"):
        fitted(strict=True).arms({**CONTEXT, "colour": 1}, ARMS)


def test_arms_leave_the_callers_array_alone():
    rows = np.eye(2)
    arms = ht.Arms(rows, ["a", "b"])
    rows[0, 0] = 7.0
    assert arms[0][0] == 1.0
    assert not arms[0].flags.writeable
    for odd in (np.eye(3), np.zeros(2)):
        with pytest.raises(ValueError, match=r"Arms: rows must have shape \(n, dim\), with n ids"):
            ht.Arms(odd, ["a", "b"])
