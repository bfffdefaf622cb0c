"""What the settings say together: the mark, the grid's edge, what an untuned policy was told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.experiments import plots
from heavytail.experiments.stats import Interval
from heavytail.experiments.tune import Tuned
from heavytail.experiments.unit import Trials
from heavytail.reproduction import tuning
from heavytail.reproduction.catalogue import SETTINGS, TEN
from heavytail.reproduction.protocol import TUNED
from heavytail.reproduction.settings import (
    chosen_section,
    meets_mark,
    untuned_section,
    variants_section,
)


def results(twin: float) -> dict[str, dict[Any, Trials]]:
    """Every setting alike: tuned policies have regret 1, Twin-UCB, untuned, ``twin``."""
    policy = ht.TwinUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0), horizon=9)
    units: Any = (SimpleNamespace(arguments={"policy": policy}),)
    factors = np.random.default_rng(0).uniform(0.9, 1.1, 20)

    def trials(mean: float) -> Trials:
        return Trials(units, {"regret": np.stack([mean * factors] * 2, axis=1)})

    tuned = {(name, "tuned"): trials(1.0) for name in ("Hvt-UCB", "HEAVY-OFUL", "OFUL")}
    return {one.name: {**tuned, ("Twin-UCB", "untuned"): trials(twin)} for one in SETTINGS}


@pytest.mark.parametrize(
    ("heavy", "best", "met"),
    [
        ((0.9, 1.1), (0.9, 1.25), True),
        ((0.9, 1.11), (0.9, 1.25), None),  # the point estimate, 1, would meet it
        ((0.9, 1.1), (0.9, 1.26), None),
        ((1.11, 1.2), (0.9, 1.25), False),
        ((0.9, 1.2), (1.26, 1.3), False),
    ],
)
def test_a_mark_goes_by_whole_intervals(heavy, best, met) -> None:
    assert meets_mark(Interval(1.0, *heavy), Interval(1.0, *best)) is met


def test_the_mark_counts_each_run_once_and_says_what_the_policy_was_told() -> None:
    section = untuned_section(results(1.05), "Twin-UCB")
    assert [row[0] for row in section.tables[0].rows] == list(TEN)
    text = section.text[1]
    assert text.startswith("Twin-UCB, untuned (ours, told nu and T): met in 10, undecided in 0, ")
    assert "missed in 0 of 10 settings. 20 intervals" in text
    assert "missed in 10" in untuned_section(results(1.2), "Twin-UCB").text[1]


def test_the_table_of_variants_has_each_run_once() -> None:
    rows = [row[0] for row in variants_section(results(1.0)).tables[0].rows]
    assert rows == [one.name for one in SETTINGS if one.name != "arms-50"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (ht.HvtUCB(2), "Hvt-UCB, untuned (our constants, told neither nu nor T)"),
        (ht.HvtUCB(2, horizon=9), "Hvt-UCB, untuned (our constants, told T)"),
        (
            ht.OFUL(2, noise_scale=1.0, horizon=9),
            "OFUL, untuned (told nu and T)",
        ),
    ],
)
def test_a_label_says_what_an_untuned_policy_was_told(policy, said) -> None:
    assert plots.label((policy.name, "untuned"), policy) == said
    assert "told" not in plots.label((policy.name, "tuned"), policy)


def searched(radius: float) -> Tuned:
    """One search in student, in which ``radius`` is best and each smaller one costs 10 % less."""
    points = [{"radius_scale": r} for r in (0.01, 0.1, 1.0)]
    regret = [90.0, 100.0, 110.0] if radius == 0.01 else [110.0, 100.0, 120.0]
    made = {"trials": 4, "screened": 2, "rounds": 60}
    tuned = Tuned().with_search("student", "OFUL", points, regret, made)
    return tuned.with_finals("student", "OFUL", points[:2], regret[:2], made)


def test_multipliers_at_the_edge_are_listed_with_what_the_last_step_brought() -> None:
    edge = chosen_section({"student": {}}, searched(0.01)).tables[1]
    assert edge.rows == [("OFUL, tuned", "radius", "1: student", "0.90", "0.90 (student)")]
    assert chosen_section({"student": {}}, searched(0.1)).tables[1].rows == []


def test_the_recorded_edges_are_those_with_an_asterisk() -> None:
    tuned = Tuned.read(TUNED)
    chosen, edge = chosen_section({one.name: {} for one in SETTINGS}, tuned).tables
    asterisks = sum(cell.count("*") for row in chosen.rows for cell in row)
    assert sum(int(row[2].partition(":")[0]) for row in edge.rows) == asterisks > 0


def test_the_report_says_which_grid_and_trials_chose_the_multipliers() -> None:
    text = tuning.search_text(Tuned.read(TUNED), ["student", "arms-50"])
    assert text == (
        "every point of a grid of 9 or 45 on 10 trials of 18,000 rounds, the 6 best on 40"
    )
    short = "every point of a grid of 3 on 2 trials of 60 rounds, the 2 best on 4"
    assert tuning.search_text(searched(0.1), ["arms-50"]) == short
    assert tuning.search_text(Tuned(), ["student"]) == "nothing is recorded for these settings"
    both = Tuned.read(TUNED)
    mixed = Tuned({**both.settings, "student": searched(0.1).settings["student"]},
                  {**both.provenance, **searched(0.1).provenance})  # fmt: skip
    said = tuning.search_text(mixed, ["student", "gaussian"])
    assert said == f"student: {short}; gaussian: {text}"
