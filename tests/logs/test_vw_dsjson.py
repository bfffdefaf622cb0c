"""JSON lines as Vowpal Wabbit's dsjson has them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from heavytail.logs.reading import chunks, length

SHARES = [0.2, 0.7, 0.1]


def event(i=0, **changes):
    action = i % 3
    told = {
        "_label_cost": -float(i),
        "_label_probability": SHARES[action],
        "_label_Action": action + 1,
        "_labelIndex": action,
        "Timestamp": f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}.2290000Z",
        "Version": "1",
        "EventId": f"e{i}",
        "a": [2, 1, 3],
        "p": [SHARES[1], SHARES[0], SHARES[2]],
        "c": {
            "User": {"age": 20 + i, "country": "nl", "_text": "no feature"},
            "_multi": [
                {"_tag": "x", "Item": {"price": 1.0 + k, "size": [k, 2 * k], "new": True}}
                for k in range(3)
            ],
        },
        "VWState": {"m": "N/A"},
    }
    told.update(changes)
    return {key: value for key, value in told.items() if value != "gone"}


def written(path, events):
    text = "".join(json.dumps(one) + "\n" for one in events).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


@pytest.mark.parametrize("name", ["log.dsjson", "log.json.gz"])
def test_a_line_is_a_row(name, tmp_path):
    path = written(tmp_path / name, [event(i) for i in range(10)])
    parts = list(chunks(path, size=4))
    assert [part.start for part in parts] == [0, 4, 8]
    assert length(path) is None
    rows = parts[1]
    np.testing.assert_array_equal(rows.reward, [4.0, 5.0, 6.0, 7.0])
    np.testing.assert_array_equal(rows.action, [1, 2, 0, 1])
    np.testing.assert_array_equal(rows.propensity, [0.7, 0.1, 0.2, 0.7])
    np.testing.assert_array_equal(rows.probabilities, [SHARES] * 4)  # in the actions' order
    one = [[1.0, 0.0, 0.0], [2.0, 1.0, 2.0], [3.0, 2.0, 4.0]]
    np.testing.assert_array_equal(rows.arms, [one] * 4)
    np.testing.assert_array_equal(rows.context, [[24.0], [25.0], [26.0], [27.0]])


def test_what_a_line_may_lack(tmp_path):
    lean = {"_labelIndex": "gone", "_label_probability": "gone", "a": "gone", "Timestamp": "gone"}
    told = [event(i, c={"_multi": [{}, {}, {}]}, p=SHARES, **lean) for i in range(3)]
    [rows] = chunks(written(tmp_path / "log.json", told))
    np.testing.assert_array_equal(rows.action, [0, 1, 2])
    np.testing.assert_array_equal(rows.propensity, SHARES)
    assert rows.arms is None
    assert rows.context is None
    told = [event(0, p="gone", a="gone", _label_probability="gone")]
    [rows] = chunks(written(tmp_path / "log.json", told))
    assert rows.propensity is None


def test_rows_may_offer_fewer_actions(tmp_path):
    few = event(1, p=[0.5, 0.5], a=[1, 2], _label_probability=0.5)
    few["c"]["_multi"].pop()
    [rows] = chunks(written(tmp_path / "log.json", [event(0), few]))
    assert rows.arms.shape == (2, 3, 3)
    assert np.isnan(rows.arms[1, 2]).all()


def test_features_are_chosen_by_name_and_absent_ones_are_0(tmp_path):
    lacking = event(1)
    lacking["c"]["_multi"][2]["Item"].pop("price")
    path = written(tmp_path / "log.json", [event(0), lacking])
    [rows] = chunks(path)
    assert rows.arms[1, 2, 0] == 0.0
    [rows] = chunks(path, columns={"arms": ["Item.size.1", "Item.price"], "context": None})
    np.testing.assert_array_equal(rows.arms[0], [[0.0, 1.0], [2.0, 2.0], [4.0, 3.0]])
    assert rows.context is None
    more = event(1)
    more["c"]["_multi"][0]["Item"]["weight"] = 3.0
    path = written(tmp_path / "log.json", [event(0), more])
    with pytest.raises(ValueError, match=r"row 1, column 'Item.weight': is a number that the fi"):
        list(chunks(path))
    assert next(chunks(path, columns={"arms": ["Item.weight"]})).arms[1, 0, 0] == 3.0


def test_lines_without_a_decision_are_passed_over_and_still_counted(tmp_path):
    told = [
        event(0),
        {"RewardValue": 1.0, "EventId": "late"},
        event(1, _skipLearn=True),
        event(2),
        event(3, _label_cost=float("nan")),
    ]
    path = written(tmp_path / "log.json", told[:4])
    [rows] = chunks(path)
    np.testing.assert_array_equal(rows.reward, [0.0, 2.0])
    assert not np.signbit(rows.reward[0])
    path = written(tmp_path / "log.json", told)
    with pytest.raises(ValueError, match=r"log\.json, row 4, column '_label_cost': must be a fin"):
        list(chunks(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"_label_cost": "gone"}, "column '_label_cost': is missing"),
        ({"_label_cost": "1"}, "column '_label_cost': must be a number; got '1'"),
        ({"_label_cost": True}, "column '_label_cost': must be a number; got True"),
        ({"_label_probability": 0.0}, "column '_label_probability': must be a probability above 0"),
        ({"_label_probability": 0.5}, "column '_label_probability': is 0.5, but 'p' has 0.7"),
        ({"_label_probability": "gone"}, "column '_label_probability': is missing"),
        ({"_labelIndex": 7, "_label_Action": 8}, "column '_labelIndex': must be .* below 3"),
        (
            {"_labelIndex": -1, "_label_Action": "gone"},
            "column '_labelIndex': must be a whole number from 0; got -1",
        ),
        ({"_label_Action": 3}, "column '_label_Action': is 3, but _labelIndex is 1"),
        ({"p": [0.7, 0.2]}, r"column 'a': must name actions 1 to 2, once each; got \[2, 1, 3\]"),
        ({"p": [0.7, 0.2, 0.3]}, "column 'p': must add up to 1"),
        ({"a": [1, 1, 2]}, "column 'a': must name actions 1 to 3"),
        ({"Timestamp": "yesterday"}, "column 'Timestamp': must be a time; got 'yesterday'"),
        ({"Timestamp": "2025-01-01T00:00:00Z"}, "column 'Timestamp': is earlier than"),
        ({"pdrop": 0.5}, "column 'pdrop': lines that stand for others"),
        ({"_outcomes": []}, "column '_outcomes': several decisions"),
        ({"c": []}, "column 'c': must be an object"),
        ({"c": {"_multi": [3]}}, "column 'c._multi': must hold objects"),
    ],
)
def test_whatever_is_wrong_with_a_line_is_said(change, words, tmp_path):
    path = written(tmp_path / "log.json", [event(0), event(1, **change), event(2)])
    with pytest.raises((ValueError, TypeError), match=rf"log\.json, row 1, {words}"):
        list(chunks(path))


@pytest.mark.parametrize("name", ["log.dsjson", "log.json.gz"])
def test_a_file_that_is_cut_short_is_refused_by_name_and_row(name, tmp_path):
    path = written(tmp_path / name, [event(i) for i in range(200)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 20])
    with pytest.raises(ValueError, match=rf"{name}, row \d+: .*cut short"):
        list(chunks(path))


def test_a_damaged_gzip_is_refused_by_name(tmp_path):
    path = written(tmp_path / "log.gz", [event(i) for i in range(500)])
    spoilt = bytearray(path.read_bytes())
    spoilt[len(spoilt) // 2] ^= 0xFF
    path.write_bytes(bytes(spoilt))
    with pytest.raises(ValueError, match=r"log\.gz, row \d+: "):
        list(chunks(path))


def test_other_columns_cannot_be_renamed(tmp_path):
    path = written(tmp_path / "log.json", [event(0)])
    with pytest.raises(ValueError, match="dsjson has names of its own"):
        list(chunks(path, columns={"reward": "EventId"}))


def test_a_damaged_gzip_is_named(tmp_path):
    content = bytearray(gzip.compress(bytes(range(256)) * 9))
    content[10:20] = b"\xff" * 10
    (tmp_path / "log.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"log\.gz is cut short or damaged"):
        list(chunks(tmp_path / "log.gz"))
