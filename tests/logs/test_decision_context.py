"""A DecisionLog keeps ids and context, so that it can be encoded anew; what waits is spoken of."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import heavytail as ht
from heavytail.ledger.decision import Decision
from heavytail.ledger.layout import CONTEXT
from heavytail.logs.reading import chunks, counted

BANNERS = [{"sku": f"s{k}", "price": 5.0 + k} for k in range(4)]
CONTEXTS = [{"age": 20 + i, "kind": "new" if i % 3 else "old", "member": None} for i in range(12)]
ARMS = np.eye(2)


def encoder(**more):
    return ht.Encoder(numbers={"age": (40.0, 10.0), "price": (7.0, 2.0)}, hashed={"sku": 4}, **more)


def decision(token, arm=1, arms=ARMS):
    return Decision(token, arm, np.asarray(arms)[arm], 0.5, 0.25, 1e9 + token)


def written(folder, rewarded=range(12)):
    """A log of 12 decisions among two to four banners each."""
    own = encoder()
    with ht.DecisionLog(folder) as log:
        for token, context in enumerate(CONTEXTS):
            offered = [BANNERS[(token + k) % 4] for k in range(2 + token % 3)]
            arms = own.arms(context, offered, ids="sku")
            log.decided(decision(token, arms=arms), arms, context=context)
        for token in rewarded:
            log.rewarded(token, float(token))
    return folder


def exported(folder):
    """The log as a frame."""
    path = folder.with_suffix(".parquet")
    with ht.DecisionLog(folder) as log:
        log.export(path)
    return pl.read_parquet(path)


FORMS = {
    "polars": lambda frame, path: frame,
    "lazy": lambda frame, path: frame.lazy(),
    "pandas": lambda frame, path: frame.to_pandas(),
    "Arrow": lambda frame, path: frame.to_arrow(),
    "a dict": lambda frame, path: {name: frame[name].to_list() for name in frame.columns},
    "Parquet of polars": lambda frame, path: frame.write_parquet(path) or path,
    "Parquet of pandas": lambda frame, path: frame.to_pandas().to_parquet(path) or path,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_log_is_the_same_in_every_form_and_can_be_encoded_anew_in_each(tmp_path, form):
    folder = written(tmp_path / "log", rewarded=[0, 1, 2, 4, 5, 6, 8, 9, 10])
    log = FORMS[form](exported(folder), tmp_path / "again.parquet")
    for columns in (None, {"arms": encoder().catalogue(BANNERS, ids="sku")}):
        (ours,) = chunks(folder, columns=columns)
        (theirs,) = chunks(log, columns=columns)
        for name in ("action", "reward", "propensity", "arms"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        assert len(ours.action) == 9
    assert len(next(chunks(log, default_reward=0.0)).action) == 12
    if form != "lazy":
        assert counted(log) == counted(folder) == (9, 3)


def test_a_log_of_our_own_is_encoded_anew_by_another_encoder(tmp_path):
    folder = written(tmp_path, rewarded=[0, 1, 2, 3, 4, 5, 6, 8, 9, 10])
    same = {"arms": encoder().catalogue(BANNERS, ids="sku")}
    for old, new in zip(chunks(folder), chunks(folder, columns=same), strict=True):
        np.testing.assert_array_equal(old.arms, new.arms)
        np.testing.assert_array_equal(old.action, new.action)
    other = encoder(categories={"kind": ["new", "old"]}, crosses=[("kind", "sku", 8)])
    found = chunks(folder, columns={"arms": other.catalogue(BANNERS, ids="sku")})
    arms = [one for rows in found for one in rows.arms]
    first = other.arms(CONTEXTS[0], BANNERS[:2])
    np.testing.assert_array_equal(arms[0][:2], np.asarray(first))


def test_the_context_is_a_column_of_json_that_anybody_reads(tmp_path):
    frame = exported(written(tmp_path / "log"))
    assert [json.loads(text) for text in frame[CONTEXT]] == CONTEXTS
    assert frame["ids"].to_list()[0] == ["s0", "s1"]


def test_ids_come_from_arms_unless_given(tmp_path):
    arms = encoder().arms({"age": 30}, BANNERS, ids="sku")
    with ht.DecisionLog(tmp_path / "log") as log:
        log.decided(decision(0, arms=arms), arms)
        log.decided(decision(1, arms=arms), arms, ids=["a", "b", "c", "d"])
        log.decided(decision(2, arms=arms), np.asarray(arms))
    ids = exported(tmp_path / "log")["ids"].to_list()
    assert ids == [["s0", "s1", "s2", "s3"], ["a", "b", "c", "d"], None]


DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (3, "context must be a dict of values by name; got 3"),
        ([("a", 1)], "context must be a dict"),
        ({1: 2}, "a name must be text; got 1"),
        ({"a": [1]}, r"context\['a'\] must be text, a finite number, a bool or None; got \[1\]"),
        ({"a": DEEP}, "got something of type list"),
        ({"a": {"b": 1}}, "A context is flat"),
        ({"a": float("nan")}, "got nan"),
        ({"a": float("inf")}, "got inf"),
        ({"a": 2**63}, "got 9223372036854775808"),
        ({"a": 1j}, "got 1j"),
        ({"a": b"x"}, "got b'x'"),
        ({"a": np.zeros(2)}, "must be text"),
        ({"a": "\ud800"}, "half a character"),
        ({"a": "x" * 2**16}, "65,544 bytes as JSON, and 65,536 are logged at most"),
    ],
)
def test_a_bad_context_is_refused_and_nothing_is_written(tmp_path, context, words):
    with ht.DecisionLog(tmp_path) as log:
        with pytest.raises((ValueError, TypeError), match=words):
            log.decided(decision(0), ARMS, context=context)
        assert log.decisions == 0
        log.decided(decision(0), ARMS, context={})
        assert log.decisions == 1


def test_a_log_without_ids_or_context_says_why_it_cannot_be_encoded(tmp_path):
    arms = encoder().arms({"age": 30}, BANNERS, ids="sku")
    told = {"arms": encoder().catalogue(BANNERS, ids="sku")}
    for name, given, words in (
        ("ids", {"context": {"age": 3}}, "row 1, column 'ids': is null"),
        ("context", {"ids": arms.ids}, r"row 1, .*: is null: this decision was logged without con"),
        ("part", {"ids": arms.ids, "context": {"old": 1}}, "row 1, .*: has no 'age', which the en"),
    ):
        with ht.DecisionLog(tmp_path / name) as log:
            for token in range(2):
                plain = {"ids": arms.ids, "context": {"age": 3}} if token == 0 else given
                log.decided(decision(token, arms=arms), np.asarray(arms), **plain)
                log.rewarded(token, 1.0)
        with pytest.raises(ValueError, match=words):
            list(chunks(tmp_path / name, columns=told))


def everyone(rows):
    return np.tile([0.5, 0.5], (len(rows.action), 1))


def two_armed(folder, rewarded):
    with ht.DecisionLog(folder) as log:
        for token in range(20):
            log.decided(decision(token, arm=token % 2), ARMS)
        for token in rewarded:
            log.rewarded(token, 1.0 + token)


def test_decisions_that_wait_are_spoken_of(tmp_path):
    two_armed(tmp_path / "some", range(0, 20, 2))
    two_armed(tmp_path / "all", range(20))
    said = "10 decisions wait for their reward and are left out"
    found = ht.evaluate(tmp_path / "some", everyone)
    assert (found.rows, found.waiting) == (10, 10)
    assert found.advice[0].startswith(said)
    assert "default_reward=0.0" in found.advice[0]
    assert said in str(found)
    assert said in ht.compare(tmp_path / "some", everyone, everyone).advice[0]
    assert said in ht.select(tmp_path / "some", {"a": everyone}).advice[0]
    both = ht.evaluate([tmp_path / "all", tmp_path / "some"], everyone)
    assert (both.rows, both.waiting) == (30, 10)


def test_nothing_is_said_where_nothing_waits_or_silence_has_a_meaning(tmp_path):
    two_armed(tmp_path / "all", range(20))
    two_armed(tmp_path / "one", range(19))
    for found in (
        ht.evaluate(tmp_path / "all", everyone),
        ht.evaluate(tmp_path / "one", everyone, default_reward=0.0),
    ):
        assert found.waiting == 0
        assert not any("left out" in sentence for sentence in found.advice)
    one = ht.evaluate(tmp_path / "one", everyone)
    assert one.advice[0].startswith("1 decision waits for its reward and is left out")


def test_a_log_in_which_all_wait_is_refused_in_words(tmp_path):
    two_armed(tmp_path, [])
    with pytest.raises(ValueError, match="the log has no rows with a reward"):
        ht.evaluate(tmp_path, everyone)
