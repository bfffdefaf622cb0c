"""heavytail reproduce: what it writes, and that it can be stopped anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import heavytail as ht
from heavytail import cli
from heavytail.experiments.catalogue import ELEVEN, SETTINGS, setting
from heavytail.experiments.protocol import entries, entry_units, grid_of, policy_names
from heavytail.experiments.store import Store, complete
from heavytail.policies import ALL

SMALL = ["--trials", "2", "--rounds", "300", "--jobs", "1"]


class Count:
    done = 0

    def advance(self, steps: int = 1) -> None:
        self.done += steps


def reproduce(out: Path, *more: str) -> int:
    return cli.main(["reproduce", *more, *SMALL, "--out", str(out)])


def test_a_small_reproduction_writes_figures_results_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(tmp_path, "student", "gaussian") == 0
    assert "gaussian" in capsys.readouterr().out
    for kind in ("png", "svg", "pdf"):
        assert (tmp_path / "figures" / f"student.{kind}").stat().st_size > 1000
    assert (tmp_path / "regret.parquet").exists()


def test_an_unknown_experiment_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(tmp_path, "studnet") == 2
    assert "no experiment is called 'studnet'" in capsys.readouterr().err


def test_the_paper_has_eleven_settings() -> None:
    assert len(ELEVEN) == 11
    assert len({one.name for one in SETTINGS}) == len(SETTINGS)


def test_the_papers_nu_stands_beside_the_true_one() -> None:
    assert setting("student").tail(uses_scale=True).scale == 1.31
    assert setting("student-true-nu").tail(uses_scale=True).scale == pytest.approx(4.388, abs=1e-3)


def test_policies_that_cannot_use_a_rounds_scale_are_given_the_worst() -> None:
    one = setting("scale-2")
    ratio = one.tail(uses_scale=False).scale / one.tail(uses_scale=True).scale
    assert ratio == pytest.approx(100.0)


def test_finished_units_are_not_run_again_and_a_damaged_file_is(tmp_path: Path) -> None:
    world = setting("student")
    entry = entries(world, ("OFUL",), 200, {})[0]
    units = entry_units(world, entry, 200, 7, 1)
    assert [unit.trials for unit in units] == [5, 2]
    store, bar = Store(tmp_path), Count()
    first = complete(store, units, bar, jobs=1)
    assert bar.done == sum(unit.weight for unit in units)
    stamp = store.path(units[0]).stat().st_mtime_ns
    store.path(units[1]).write_bytes(b"torn")
    second = complete(store, units, Count(), jobs=1)
    assert store.path(units[0]).stat().st_mtime_ns == stamp
    for unit in units:
        np.testing.assert_array_equal(first[unit.key]["regret"], second[unit.key]["regret"])
        np.testing.assert_array_equal(first[unit.key]["regret"], unit.run()["regret"])


def test_a_policy_travels_to_another_process_with_all_it_learned() -> None:
    policy = ht.HvtUCB(2, tail=ht.MomentBound(order=1.5, scale=1.0))
    policy.update([1.0, 0.0], reward=3.0)
    twin = pickle.loads(pickle.dumps(policy))
    for name, array in policy.state_arrays().items():
        np.testing.assert_array_equal(array, twin.state_arrays()[name])


def test_every_policy_can_be_built_for_every_setting_in_every_variant() -> None:
    names = policy_names(everyone=True)
    assert {kind.__name__ for kind in ALL} == set(names)
    for world in SETTINGS:
        found = entries(world, names, world.rounds, {})
        assert {entry.variant for entry in found} == {"untuned", "theory"}
        for name in names:
            assert len(grid_of(name)) in (0, 9, 45)
