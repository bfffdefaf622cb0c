"""A Decider that is saved, loaded, copied or forged."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from typing import Any

import numpy as np
import pytest
from tests.decider.tools import log, nameless, shop, snap, visit
from tests.storage_tools import rewrite

import heavytail as ht


def act(made: ht.Decider, tokens: list[str], rng: np.random.Generator, step: int) -> Any:
    """One call of many kinds, drawn; ``tokens`` are those of the decisions that wait."""
    now, kind = 1e6 + 3600.0 * step, int(rng.integers(12))
    context = visit(rng)
    if kind < 4:
        chosen = made.decide(context, now=now, k=None if kind else int(rng.integers(1, 5)))
        choices = chosen if isinstance(chosen, list) else [chosen]
        tokens += [choice.token for choice in choices]
        return [(c.id, c.probability, c.expected, c.unknown, c.place) for c in choices]
    if kind < 8:
        count = int(rng.integers(1, 12))
        numbers, rewards = sorted(rng.permutation(len(tokens))[:count]), rng.standard_t(2.1, count)
        given = [tokens[i] for i in numbers]
        for token in given:
            tokens.remove(token)
        made.reward(given, rewards[: len(given)])
    elif kind == 8:
        made.observe(context, "tea", 1.0, probability=0.5, selected=bool(rng.integers(2)))
    elif kind == 9 and step % 7 == 0:
        return str(made.learn(log(int(rng.integers(1, 40)), step), progress=False))
    elif kind == 10 and step % 5 == 0:
        new = f"new {int(rng.integers(3))}"
        made.add({"sku": new, "price": float(step)})
        made.retire(("card", new)[int(rng.integers(2))])
    elif kind == 11:
        if step % 3 == 0:
            made.close_after("2 days", (None, 0.0)[int(rng.integers(2))])
            tokens.clear()  # by the machine's time all are late
        return made.select(context, now=now).id
    return made.expected(context)


@pytest.mark.parametrize("seed", range(3))
def test_one_that_is_saved_and_loaded_goes_on_as_one_that_never_stopped(seed, tmp_path):
    def fresh() -> ht.Decider:
        rules = {"loan": {"segment": ["new", None], "basket": (-1.0, None)}}
        return shop(explore=0.3, rules=rules, limits={"tea": 9}, seed=seed)

    steady, often, rng = fresh(), fresh(), np.random.default_rng(seed)
    tokens: list[list[str]] = [[], []]
    for step in range(170):
        if rng.random() < 0.2:
            way = int(rng.integers(4))
            if way == 0:
                often.save(tmp_path / "it.npz")
                often = ht.load(tmp_path / "it.npz")
            else:
                often = (ht.Decider.clone, copy.deepcopy, _pickled)[way - 1](often)
        twins = [np.random.default_rng([seed, step]) for _ in range(2)]
        answers = [act(each, *rest, step) for each, *rest in zip((steady, often), tokens, twins,
                                                                 strict=True)]  # fmt: skip
        assert answers[0] == answers[1]
        assert nameless(steady) == nameless(often)
        ours = [[token.partition("-")[2] for token in each] for each in tokens]
        assert ours[0] == ours[1]
        pending = {*often.pending}
        tokens = [[t for t, u in zip(*tokens, strict=True) if u in pending],
                  [u for u in tokens[1] if u in pending]]  # fmt: skip
    assert steady.rounds > 64


def _pickled(made: ht.Decider) -> ht.Decider:
    return pickle.loads(pickle.dumps(made))


def test_a_run_that_was_only_looked_at_can_be_saved_again(tmp_path):
    made = shop(5)
    for _ in range(3):
        made.save(tmp_path / "it.npz")
        made = ht.load(tmp_path / "it.npz")
        before = snap(made)
        made.select({"segment": None, "basket": 1.0})
        made.expected({"segment": None, "basket": 1.0})
        assert snap(made) == before
    token = made.decide({"segment": None, "basket": 1.0}).token
    ht.load(tmp_path / "it.npz").decide({"segment": None, "basket": 2.0})
    with pytest.raises(ValueError, match="lost it with an earlier run"):
        ht.load(tmp_path / "it.npz").reward(token, 1.0)


def told(change: Any) -> Any:
    """Return a change of the JSON of a state."""

    def apply(header: Any, arrays: Any) -> None:
        state = json.loads(bytes(arrays["told"]).decode())
        state = change(state) or state
        arrays["told"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8).copy()

    return apply


def array(name: str, change: Any) -> Any:
    """Return a change of an array of a state."""

    def apply(header: Any, arrays: Any) -> None:
        result = change(arrays[name])
        if result is not None:
            arrays[name] = result

    return apply


def put(place: Any, value: Any) -> Any:
    return lambda a: a.__setitem__(place, value)


def at(*path: Any, value: Any) -> Any:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return told(change)


def without(*path: Any) -> Any:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return told(change)


def other_schema(**change: Any) -> Any:
    return told(lambda state: state["schema"].update(change))


def raw(content: bytes) -> Any:
    return array("told", lambda a: np.frombuffer(content, dtype=np.uint8).copy())


FORGERIES = {
    "a JSON bomb": raw(b"[" * 200_000),
    "a number of a million digits": raw(b"1" * 10**6),
    "no JSON": raw(b"\xff\x00"),
    "a list": raw(b"[]"),
    "null": raw(b"null"),
    "told as floats": array("told", lambda a: a.astype(np.float64) + 0.5),
    "told of two dimensions": array("told", lambda a: np.stack([a, a])),
    **{f"no {name}": without(name)
       for name in ("contexts", "offers", "tokens", "limits", "counts", "closing", "explore",
                    "shape", "range", "schema")},
    **{f"{name} is {value!r}": at(name, value=value)
       for name, value in itertools.product(
           ("contexts", "offers", "tokens", "limits", "counts", "closing", "explore", "shape",
            "range", "schema"), (5, "x", [], {}, [[]], True))},
    "explore of 2": at("explore", value=2.0),
    "explore of NaN": at("explore", value=float("nan")),
    "closes in no time": at("closing", value=[float("inf"), 0.0]),
    "closes with NaN": at("closing", value=[1.0, float("nan")]),
    "another kind of column": at("contexts", "kinds", 0, value="number"),
    "a column too many": at("contexts", "kinds", value=["category"] * 3),
    "texts that are numbers": at("contexts", "texts", 0, value=[1, 2, 3]),
    "a text too few": at("contexts", "texts", 0, value=["new"]),
    "other ids": at("offers", "ids", 0, value="other"),
    "an id that is a number": at("offers", "ids", 0, value=7),
    "an id too many": at("offers", "ids", value=["card", "loan", "tea", "more"]),
    "two of an id": at("offers", "ids", value=["card", "card", "tea"]),
    "another column of ids": at("offers", "id", value="price"),
    "a price that is text": at("offers", "columns", "price", value=["a", "b", "c"]),
    "an infinite price": at("offers", "columns", "price", 0, value=float("inf")),
    "a price of 400 digits": at("offers", "columns", "price", 0, value=10**399),
    "a price that is True": at("offers", "columns", "price", 0, value=True),
    "another column of offers": at("offers", "columns", value={"size": [1.0, 2.0, 3.0]}),
    "ordered by what is not there": at("offers", "ordered", value="price"),
    "runs that are numbers": at("offers", "runs", 0, value=1),
    "a run that has no name": at("tokens", "runs", 0, 1, value="x"),
    "a run that begins later": at("tokens", "runs", 0, 0, value=3),
    "a run that begins at 0.0": at("tokens", "runs", 0, 0, value=0.0),
    "closed what was not made": at("tokens", "closed", value=[10**9]),
    "counts of no offer": at("counts", "offers", 0, 0, value=99),
    "counts below 0": at("counts", "offers", 0, 1, value=-1.0),
    "counts that are NaN": at("counts", "offers", 0, 2, value=float("nan")),
    "closed below 0": at("counts", "closed", value=-1),
    "unknown below 0": at("counts", "unknown", value={"segment": {"x": -1}}),
    "limits of no offer": at("limits", "counts", value=[[0, 1]]),
    "limits below 0": at("limits", "counts", value=[[2, -1]]),
    "limits of a day that is none": at("limits", "day", value=float("nan")),
    "a shape of other columns": at("shape", value=[["zz"], [], []]),
    "a shape of other pairs": at("shape", value=[[], [["segment", "zz"]], []]),
    "a range that is NaN": at("range", value=[float("nan"), 1.0]),
    "a range of 0": at("range", value=[0.0, 0.0]),
    "no encoder": at("schema", value=None),
    "a gigantic encoder": other_schema(hashed={"segment": 2**16}),
    "an encoder of another column": other_schema(categories={"zz": ["a", "b"]}),
    "an encoder of another kind": other_schema(numbers={"segment": [0.0, 1.0]}, categories={}),
    "an encoder of another size": other_schema(crosses=[]),
    "a map": other_schema(maps={"m": 5}),
    "an offer that is not there": array("kept.history", put((0, 2), 3.0)),
    "an offer below 0": array("kept.history", put((0, 2), -1.0)),
    "half an offer": array("kept.history", put((0, 2), 0.5)),
    "a category that is not there": array("kept.history", put((0, 0), 9.0)),
    "a reward that is NaN": array("kept.history", put((0, 4), np.nan)),
    "an infinite number": array("kept.history", put((0, 1), np.inf)),
    "a chance of 0": array("kept.history", put((0, 3), 0.0)),
    "more rows than were seen": array("kept.seen", put(0, 3.0)),
    "whole rows": array("kept.history", lambda a: a.astype(np.int64)),
    "a row too few": array("kept.history", lambda a: a[1:].copy()),
    "a column too few": array("kept.history", lambda a: a[:, 1:].copy()),
    "it waits for no offer": array("ledger.features", put((0, 2), 3.0)),
    "it waits with NaN as an offer": array("ledger.features", put((0, 2), np.nan)),
    "it waits with a chance of 2": array("ledger.features", put((0, 3), 2.0)),
    "it waits with a chance of 0": array("ledger.features", put((0, 3), 0.0)),
    "it waits in no category": array("ledger.features", put((0, 0), 50.0)),
    "it waits with infinity": array("ledger.features", put((0, 1), np.inf)),
    "it waits from infinity": array("ledger.times", put(0, np.inf)),
    "a token of the future": array("ledger.tokens", put(0, 1e9)),
    "fewer made": array("ledger.made", put(0, 1.0)),
    "NaN in the forecast": array("forecast.theta", put(0, np.nan)),
    "NaN in the policy": array("policy.theta", put(0, np.nan)),
    "the policy of another": array("policy.theta", lambda a: a[:-1].copy()),
    "the forecast of another": array("forecast.theta", lambda a: np.zeros(70)),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    made = shop(40, limits={"tea": 50})
    made.decide({"segment": "new", "basket": None}, now=5.0)
    made.save(path := tmp_path_factory.mktemp("saved") / "it.npz")
    return path.read_bytes()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_state_is_refused(name, saved, tmp_path):
    (path := tmp_path / "it.npz").write_bytes(saved)
    ht.load(path)
    rewrite(path, FORGERIES[name])
    with pytest.raises(ValueError, match=r"it\.npz"):
        ht.load(path)


def test_a_refused_state_changes_nothing(saved, tmp_path):
    made = shop(7)
    before = snap(made)
    other = shop(40).state_arrays()
    other["told"] = other["told"][:-5]
    with pytest.raises(ValueError, match="damaged"):
        made.restore(other)
    assert snap(made) == before


@pytest.mark.parametrize("key", ["offers", "ids", "context", "rules", "limits", "explore", "seed",
                                 "forget", "patience", "prices"])  # fmt: skip
@pytest.mark.parametrize("value", [
    None, True, -1, 3, "x", [], [1.0], {"items": []},
    {"items": [["low", 1], ["high", 2], ["count", 10**9]]},
])  # fmt: skip
def test_other_arguments_are_refused_or_safe_to_go_on_from(key, value, saved, tmp_path):
    (path := tmp_path / "it.npz").write_bytes(saved)
    rewrite(path, lambda header, _: header["arguments"].update({key: value}))
    try:
        made = ht.load(path)
    except ValueError:
        return
    made.decide({"segment": "new", "basket": 1.0})
    assert snap(made.clone()) == snap(made)
