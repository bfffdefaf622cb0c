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
    said = [f"{plots.label(key)}, n = 3" for key in SHOWN]
    assert [text.get_text() for text in legend.get_texts()] == said


def trials(regret, seconds=1.0, marks=(10, 20)) -> Trials:
    unit = Unit("none", {"marks": marks, "rounds": marks[-1]})
    regret = np.asarray(regret, float)
    return Trials([unit], {"regret": regret, "seconds": np.full(len(regret), seconds)})


KEY = ("OFUL", "tuned")
THREE = [[1.0, 2.0], [1.0, 3.0], [1.0, 7.0]]


def test_a_band_is_the_interval_of_the_mean_by_students_t():
    figure = plots.regret_figure("mild", {KEY: trials(THREE)}, [KEY])
    (axis,) = figure.axes
    (band,) = axis.collections
    heights = band.get_paths()[0].vertices
    at_end = heights[heights[:, 0] == 20.0][:, 1]
    half = 4.302653 * np.std([2, 3, 7], ddof=1) / np.sqrt(3)
    assert (at_end.min(), at_end.max()) == pytest.approx((max(4 - half, 0), 4 + half), rel=1e-6)
    assert axis.get_legend().get_texts()[0].get_text() == "OFUL, tuned, n = 3"
    assert axis.get_xlabel() == "round"


def test_a_single_trial_has_a_line_and_no_band():
    figure = plots.regret_figure("mild", {KEY: trials([[1.0, 2.0]])}, [KEY])
    (axis,) = figure.axes
    assert axis.get_lines()[0].get_ydata().tolist() == [1.0, 2.0]
    assert not any(np.isfinite(path.vertices).all() for path in axis.collections[0].get_paths())


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_no_title_is_cut_off_in_any_number_of_panels(count):
    long = "A world with a title of the kind that people write: Pareto noise, 1.5, centred, " * 3
    panels = {f"{k} {long}": ({KEY: trials(THREE)}, [KEY]) for k in range(count)}
    for figure in (
        plots.regret_panels(panels),
        plots.cost_panels(panels),
        plots.regret_figure(long, {KEY: trials(THREE)}, [KEY]),
    ):
        figure.draw_without_rendering()
        whole = figure.bbox
        for axis in (axis for axis in figure.axes if axis.get_visible()):
            box = axis.title.get_window_extent()
            assert whole.x0 <= box.x0
            assert box.x1 <= whole.x1
            assert box.y1 <= whole.y1
            assert axis.get_title().endswith(" ...")
            assert axis.get_title().count("\n") == 2
        for one, other in itertools.combinations(figure.axes[:3], 2):
            assert not one.title.get_window_extent().overlaps(other.title.get_window_extent())


def test_panels_of_different_numbers_of_trials_say_so_once():
    panels = {"a": ({KEY: trials(THREE)}, [KEY]), "b": ({KEY: trials(THREE[:2])}, [KEY])}
    (legend,) = plots.regret_panels(panels).legends
    assert [text.get_text() for text in legend.get_texts()] == ["OFUL, tuned, n = 2 to 3"]


def test_regret_stands_over_the_processor_time_of_a_trial():
    figure = plots.cost_panels({"a": ({KEY: trials(THREE, seconds=0.25)}, [KEY])})
    (axis,) = figure.axes
    (point,) = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (0.25, 4.0)
    assert axis.get_xlabel() == "processor seconds of a trial"
    assert axis.get_xscale() == "log"
