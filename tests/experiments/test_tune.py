"""The one grid search, the scores over environments, and the file of what was chosen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from heavytail.experiments.store import Store, complete
from heavytail.experiments.tune import APART, Tuned, best, scores, search
from heavytail.experiments.unit import Unit


def squared(x: float, target: float) -> dict[str, np.ndarray]:
    """Stands for trials whose final regret is the squared distance to ``target``."""
    return {"regret": np.array([[9.0, (x - target) ** 2], [9.0, (x - target) ** 2 + 2.0]])}


def test_a_search_gives_the_mean_final_regret_of_every_point_of_every_case() -> None:
    grid = {"near": [{"x": 0.0}, {"x": 1.0}], "far": [{"x": 0.0}, {"x": 5.0}, {"x": 9.0}]}
    target = {"near": 1.0, "far": 5.0}
    found = search(
        grid,
        lambda case, point: [Unit(f"{__name__}:squared", {**point, "target": target[case]})],
        lambda units: {unit.key: squared(**unit.arguments) for unit in units},
    )
    assert found == {"near": [2.0, 1.0], "far": [26.0, 1.0, 17.0]}
    assert best(grid["far"], found["far"]) == {"x": 5.0}


def test_a_score_is_over_the_best_point_of_the_same_environment() -> None:
    mean, worst = scores(np.array([[10.0, 20.0, 10.0], [3.0, 1.0, 2.0]]))
    assert mean == pytest.approx([np.sqrt(3.0), np.sqrt(2.0), np.sqrt(2.0)])
    assert worst == pytest.approx([3.0, 2.0, 2.0])


def test_what_was_chosen_is_read_back_and_what_was_there_stays(tmp_path) -> None:
    path = tmp_path / "tuned.json"
    points = [{"r": 0.1}, {"r": 1.0}]
    first = Tuned().with_search("s", "A", points, [5.0, 4.0], {"date": "d1"})
    tuned = first.with_search("s", "B", points, [1.0, 4.0], {"date": "d2"})
    tuned = tuned.with_finals("s", "B", points[::-1], [3.0, 3.5], {"date": "d3"})
    tuned.write(path)
    again = Tuned.read(path)
    assert again == tuned
    assert again.options("s", "A") == {"r": 1.0}
    assert again.options("s", "B") == {"r": 1.0}  # the finals decide
    assert again.grids("s")["B"] == [{"r": 0.1, "regret": 1.0}, {"r": 1.0, "regret": 4.0}]
    assert again.options("s", "C") is again.options("t", "A") is None
    assert again.provenance["s"] == {"date": "d3"}


def test_a_file_of_before_with_one_provenance_for_all_is_read(tmp_path) -> None:
    path = tmp_path / "old.json"
    chosen = {"options": {"r": 1.0}, "grid": [{"r": 1.0, "regret": 2.0}]}
    old = {"provenance": {"date": "then"}, "settings": {"s": {"A": chosen}}}
    path.write_text(json.dumps(old))
    tuned = Tuned.read(path)
    assert tuned.options("s", "A") == {"r": 1.0}
    assert tuned.provenance == {"s": {"date": "then"}}
    assert Tuned.read(tmp_path / "none.json") == Tuned()


def test_tuning_seeds_are_far_from_the_reported_ones() -> None:
    assert APART > 10_000  # coverage and the spread add small numbers to the seed
    assert APART == 1_000_003  # files of before were chosen on these, and must be found again


def test_the_choice_is_made_on_regret_as_the_file_shows_it_to_two_digits() -> None:
    points = [{"r": 0.1}, {"r": 1.0}, {"r": 2.0}]
    tuned = Tuned().with_search("s", "A", points, [1.2344, 1.2341, 1.3], None)
    assert [row["regret"] for row in tuned.grids("s")["A"]] == [1.23, 1.23, 1.3]
    assert tuned.options("s", "A") == {"r": 0.1}  # equal as shown: the first
    assert Tuned().with_search("s", "A", points, [1.24, 1.23, 1.3], None).options("s", "A") == {
        "r": 1.0
    }


@pytest.mark.parametrize("regret", [[1.0], [1.0, 2.0, 3.0]])
def test_a_search_with_more_or_fewer_numbers_than_points_is_an_error(regret) -> None:
    with pytest.raises(ValueError, match="zip"):
        Tuned().with_search("s", "A", [{"r": 0.1}, {"r": 1.0}], regret, None)


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    unit = Unit("heavytail.experiments.unit:chunks", {"trials": 3})
    assert Store().path(unit) is None
    assert complete([], Store()) == {}
    assert list(tmp_path.iterdir()) == []
