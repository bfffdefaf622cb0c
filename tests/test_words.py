"""What a newcomer gets wrong is refused in words that say what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import heavytail as ht
from heavytail import _lazy, cli

ARMS = [[1.0, 0.0], [0.0, 1.0]]


@pytest.fixture
def counts() -> ht.Policy:
    return ht.GLBOMD(2, link="log")


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [[1, 2], (3, 4, 5)], [[1, 2], 3]])
def test_rows_of_different_lengths_are_refused_in_our_words(counts, rows):
    with pytest.raises(ValueError, match=r"arms must be numbers .* rows of different lengths"):
        counts.select(rows)
    with pytest.raises(ValueError, match=r"X must be numbers.* rows of different lengths"):
        counts.update_many(rows, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"X must be numbers; got rows of different lengths"):
        ht.OnePassHuberRegressor().fit(rows, [1.0, 2.0])


def test_the_row_that_is_too_short_is_named(counts):
    with pytest.raises(ValueError, match=r"row 0 has 2, row 1 has 1\. Give every row as many"):
        counts.select([[1, 2], [3]])


@pytest.mark.parametrize("reward", [True, np.True_, False])
def test_a_bool_for_a_reward_is_refused_with_what_to_pass(counts, reward):
    with pytest.raises(TypeError, match=r"GLBOMD\.update: reward .* got .*\. Pass 1 or 0\."):
        counts.update(ARMS[0], reward)


def test_bools_for_rewards_are_refused_with_what_to_call(counts):
    words = r"rewards must be numbers of shape \(2,\); got dtype bool\. Pass it \.astype\(float\)"
    with pytest.raises(TypeError, match=words):
        counts.update_many(ARMS, np.array([True, False]))
    with pytest.raises(TypeError, match=r"among numbers\. Pass 1 for True, 0 for False"):
        counts.update_many(ARMS, [True, False])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_a_frame_that_hold_no_numbers_are_named(counts, frame):
    with pytest.raises(TypeError, match=r"Encode 'colour' first, for example one column of 0"):
        counts.select(frame({"price": [1.0, 0.5], "colour": ["red", "blue"]}))
    if frame is pd.DataFrame:  # polars makes numbers of bools beside numbers
        with pytest.raises(TypeError, match=r"Make 'vip' numbers by \.astype\(float\)"):
            counts.select(frame({"price": [1.0, 0.5], "vip": [True, False]}))
        kinds = pd.Categorical(["red", "blue"])
        with pytest.raises(TypeError, match=r"Encode 'kind' first"):
            counts.select(frame({"price": [1.0, 0.5], "kind": kinds}))


@pytest.mark.parametrize(
    ("name", "meant"), [("logit", "logistic"), ("poisson", "log"), ("Log", "log")]
)
def test_a_link_by_another_name_is_told_ours(name, meant):
    with pytest.raises(ValueError, match=rf'GLBOMD.link must be one of .*\. Pass "{meant}"\.'):
        ht.GLBOMD(2, link=name)
    with pytest.raises(ValueError, match=r"got 'cubic'\.$"):
        ht.GLBOMD(2, link="cubic")


def test_learning_is_refused_as_learning(counts):
    decision = counts.decide(ARMS)
    with pytest.raises(TypeError, match=r"GLBOMD\.learn: reward must be a number .* got None"):
        counts.learn(decision.token, None)
    assert counts.pending == (decision.token,)
    counts.learn(decision, 3)
    assert counts.rounds == 1


@pytest.mark.parametrize(
    ("X", "rewards"),
    [(ARMS, [1.0, -2.0]), (ARMS, [1.0, np.nan]), ([[1.0, 0.0], [9.0, 0.0]], [1, 1])],
)
def test_a_batch_says_once_that_nothing_was_learned(counts, X, rewards):
    with pytest.raises(ValueError, match=r"^GLBOMD\.update_many: row 1: ") as caught:
        counts.update_many(X, rewards)
    said = str(caught.value)
    assert said.count("was learned") == 1
    assert said.count("GLBOMD") == 1


def test_a_path_that_cannot_be_written_is_named_as_it_was_given(counts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = r"missing/x\.npz: there is no folder missing to write to"
    with pytest.raises(FileNotFoundError, match=words):
        counts.save("missing/x.npz")

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied", args[0])

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(PermissionError) as caught:
        counts.save("x.npz")
    assert caught.value.filename == "x.npz"


def test_an_argument_that_a_policy_does_not_take_is_refused_with_those_it_takes():
    words = r"^GLBOMD takes no argument 'lnk'\. Did you mean 'link'\? It takes dim, link, horizon"
    with pytest.raises(TypeError, match=words):
        ht.GLBOMD(2, lnk="log")
    with pytest.raises(TypeError, match=r"^OFUL takes no argument 'zzzz'\. It takes dim, "):
        ht.OFUL(2, zzzz=1)
    with pytest.raises(TypeError, match=r"^OFUL: missing a required argument: 'dim'\. It takes"):
        ht.OFUL()


@pytest.mark.parametrize(
    ("name", "near"),
    [("GLB_OMD", "GLBOMD"), ("hvtucb", "HvtUCB"), ("simulat", "simulate")],
)
def test_a_name_that_is_not_there_is_refused_with_the_nearest(name, near):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'\. Did you mean '{near}'\?"):
        getattr(ht, name)
    assert not hasattr(ht, "_private")


def test_a_class_that_is_gone_is_refused_with_the_one_that_does_its_work():
    assert {*_lazy.GONE.values()} <= {*ht.policies.NAMES}
    assert not {*_lazy.GONE} & {*ht.policies.NAMES}
    words = r"has no attribute 'HurdleUCB': TwinUCB does its work now\.$"
    for place in (ht, ht.policies):
        with pytest.raises(AttributeError, match=words):
            place.HurdleUCB  # noqa: B018
    with pytest.raises(ValueError, match="called 'Hurdle-UCB'; did you mean TwinUCB"):
        ht.make_policy("Hurdle-UCB", dim=2)
    assert _lazy.nearest("HurdleUCB", ["colour"]) is None


def test_all_that_can_be_had_from_the_package_is_listed():
    assert {*ht.policies.NAMES, *ht.__all__, "__version__"} == set(dir(ht))
    assert all(hasattr(ht, name) for name in dir(ht))


@pytest.mark.parametrize("command", [["run"], ["diagnose", "--column", "a"]])
def test_a_file_that_is_not_there_is_named_without_a_number(command, tmp_path, capsys):
    path = str(tmp_path / "nope")
    assert cli.main([*command, path]) == 2
    said = capsys.readouterr().err
    assert said == f"heavytail {command[0]}: {path}: No such file or directory. Check the path.\n"


def test_a_run_that_is_stopped_says_how_to_go_on(monkeypatch, capsys):
    def stop(args):
        raise KeyboardInterrupt

    monkeypatch.setattr("heavytail.commands.run.run", stop)
    monkeypatch.setattr("heavytail.commands.diagnose.run", stop)
    assert cli.main(["run", "my.toml"]) == 130
    assert "stopped. The same command goes on from what is done." in capsys.readouterr().err
    assert cli.main(["diagnose", "my.csv", "--column", "a"]) == 130
    assert capsys.readouterr().err.endswith("diagnose: stopped.\n")
