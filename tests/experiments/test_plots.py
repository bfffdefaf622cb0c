"""Figures: a line says whose it is and whether it is tuned, and is told apart without colour."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from heavytail.experiments import plots
from heavytail.experiments.unit import Trials, Unit

TUNED = [(name, "tuned") for name in ("Hvt-UCB", "HEAVY-OFUL", "OFUL", "CRTM", "CRMM")]
SHOWN = [*TUNED, ("Hvt-UCB", "untuned"), ("Twin-UCB", "untuned"), ("Uniform", "untuned")]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (("Hvt-UCB", "tuned"), "Hvt-UCB, tuned (paper's)"),
        (("Hvt-UCB", "theory"), "Hvt-UCB, theory (paper's)"),
        (("Hvt-UCB", "untuned"), "Hvt-UCB, untuned (our constants)"),
        (("Twin-UCB", "untuned"), "Twin-UCB, untuned (ours)"),
        (("OFUL", "tuned"), "OFUL, tuned"),
    ],
)
def test_a_label_says_whose_a_policy_is_and_whether_it_is_tuned(key, said) -> None:
    assert plots.label(key) == said


def test_lines_are_told_apart_without_their_colours() -> None:
    looks = [(str(one["ls"]), one.get("marker")) for one in map(plots.look, SHOWN)]
    assert all(one != other for one, other in itertools.combinations(looks, 2))
    assert plots.look(("Hvt-UCB", "theory"))["ls"] == ":"


def test_panels_stand_three_to_a_row_under_one_legend() -> None:
    marks = tuple(range(10, 110, 10))
    unit = Unit("none", {"marks": marks, "rounds": 100})
    regret = np.cumsum(np.ones((3, 10)), axis=1)
    found = {key: Trials([unit], {"regret": regret}) for key in SHOWN}
    figure = plots.regret_panels({f"world {k}": (found, SHOWN) for k in range(5)})
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title() for axis in shown] == [f"world {k}" for k in range(5)]
    assert len(figure.axes) == 6
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [plots.label(k) for k in SHOWN]
