"""A policy of a user's own is in every figure and table of regret, untuned and, if so, tuned."""

from __future__ import annotations

import math

import numpy as np
import pytest

from heavytail.experiments.experiment import Request
from heavytail.experiments.tune import Tuned
from heavytail.experiments.unit import join
from heavytail.reproduction import settings
from heavytail.reproduction.protocol import TUNED, policy_names
from heavytail.reproduction.reproduce import EXPERIMENTS

PATH = "tests.reproduction.own:Mine"
NO_REGRET = {"coverage", "cost", "speedup", "mdp", "control"}  # or none of a bandit's


def request(tmp_path, *, tuned=False):
    chosen = Tuned.read(TUNED)
    if tuned:
        mine = {"options": {"radius_scale": 1.0}, "grid": [{"radius_scale": 1.0, "regret": 1.0}]}
        every = {name: {**one, PATH: mine} for name, one in chosen.settings.items()}
        chosen = Tuned(every, chosen.provenance)
    return Request(
        out=tmp_path, quick=True, trials=2, rounds=120, tuned=chosen,
        policies=policy_names(own=[PATH]),
    )  # fmt: skip


def outcome(unit):
    """What a unit might give."""
    trials = unit.arguments["trials"]
    marks = np.asarray(unit.arguments.get("marks", (1, 2)), dtype=float)
    rng = np.random.default_rng(int(unit.key, 16) % 2**32)
    return {
        "regret": np.outer(rng.uniform(1.0, 2.0, trials), marks),
        "seconds": np.ones(trials),
        "truncated": np.full(trials, math.nan),
        "worst": np.ones(trials),
    }


def shown(name, asked):
    one = EXPERIMENTS[name]
    plan = one.plan(asked)
    outcomes = {unit.key: outcome(unit) for units in plan.values() for unit in units}
    return one.show(asked, {key: join(units, outcomes) for key, units in plan.items()})


def lines(figure):
    """What the lines of a figure are of, without the number of trials."""
    labels = {line.get_label() for axis in figure.axes for line in axis.get_lines()} | {
        str(one) for axis in figure.axes for one in axis.get_legend_handles_labels()[1]
    }
    return {label.removesuffix(", n = 2") for label in labels}


def cells(table):
    return " ".join([*table.columns, *(cell for row in table.rows for cell in row)])


@pytest.mark.parametrize("name", [one for one in EXPERIMENTS if one not in NO_REGRET])
def test_it_is_in_every_figure_and_table_of_an_experiment(name, tmp_path):
    section = shown(name, request(tmp_path))
    for title, figure in section.figures.items():
        if not title.endswith("-time"):
            assert "Mine, untuned" in lines(figure), title
    apart = ("Ratios of mean regret", "GLB-OMD by theory")
    for table in section.tables:
        if table.values is None and not table.title.startswith(apart):
            assert "Mine" in cells(table), table.title


def test_it_is_in_what_the_settings_say_together(tmp_path):
    asked = request(tmp_path, tuned=True)
    found = {name: shown(name, asked).data for name in ("student", "jackpot")}
    assert {key for key in found["student"] if key[0] == "Mine"} == {
        ("Mine", variant) for variant in ("untuned", "tuned", "theory")
    }
    sections = [
        settings.figures_section(found),
        settings.ours_section(found),
        settings.variants_section(found),
        settings.untuned_section(found, "Mine"),
    ]
    for section in sections:
        for figure in section.figures.values():
            assert {"Mine, untuned", "Mine, tuned"} <= lines(figure)
    for section in sections[1:3]:
        assert all("Mine" in cells(table) for table in section.tables)
    assert "Mine, untuned" in sections[3].title
    assert sections[3].tables[0].rows


def test_a_name_that_another_has_is_refused():
    with pytest.raises(ValueError, match="calls itself 'OFUL', as another does"):
        policy_names(own=["tests.reproduction.own:Double"])
    assert policy_names(own=[PATH, PATH, "OFUL"]) == policy_names(own=[PATH])
