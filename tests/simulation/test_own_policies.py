"""Policies of a user's own are played by their own code, and what fails in it is named."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks import check_policy
from heavytail.simulation.distribution import distribution
from heavytail.simulation.trials import releases_gil

WORLD = ht.LinearBandit(2, arms=5, noise=ht.noise.Gaussian())
RUN = {"rounds": 60, "trials": 2, "seed": 3, "jobs": 1}


class First(ht.TwinUCB):
    """A class that keeps the library's learning and chooses by itself."""

    name = "First"

    def select(self, arms):
        return 0


class Halved(ht.HvtUCB):
    """One that learns something else."""

    name = "Halved"

    def update(self, x, reward, *, scale=None):
        super().update(x, 0.5 * reward, scale=scale)


class Alone(ht.Uniform):
    """One that does nothing as the library does; what it chooses is told."""

    name = "Alone"
    answer: object = 0

    def select(self, arms):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def update(self, x, reward, *, scale=None):
        pass


class Patient(ht.TwinUCB):
    """One that hands options on, as the documentation shows."""

    name = "Patient"

    def __init__(self, dim, *, first=10, **options):
        super().__init__(dim, **options)
        self.first = first

    def select(self, arms):
        choice = super().select(arms)
        return 0 if self.rounds < self.first else choice


def regret(policy, **more):
    return ht.simulate([policy], WORLD, **RUN, **more)[policy.name].final


def test_a_select_of_ones_own_is_played_in_every_engine():
    always = regret(Alone(2))
    for engine in ("compiled", "reference"):
        np.testing.assert_array_equal(regret(First(2), engine=engine), always)
    assert not releases_gil(First(2))
    assert releases_gil(ht.TwinUCB(2))
    rng = np.random.default_rng(0)
    assert First(2).select_many(rng.normal(size=(4, 3, 2))).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="kernels alone"):
        distribution(First(2), WORLD, rounds=5, trials=2, seed=0)


def test_an_update_of_ones_own_learns_in_batches_too():
    rng = np.random.default_rng(1)
    X, rewards = rng.normal(size=(20, 2)) / 4, rng.normal(size=20)
    many, plain = Halved(2), ht.HvtUCB(2)
    many.update_many(X, rewards)
    plain.update_many(X, 0.5 * rewards)
    np.testing.assert_array_equal(many.theta, plain.theta)
    np.testing.assert_array_equal(regret(Halved(2)), regret(Halved(2), engine="reference"))


@pytest.mark.parametrize("answer", [-1, 5, None, True, "0", 0.5, np.array([0])])
def test_what_is_no_place_of_an_arm_is_refused(answer, monkeypatch):
    monkeypatch.setattr(Alone, "answer", answer)
    with pytest.raises(ValueError, match=r"^Alone failed: .*place of an arm, 0 to 4; got"):
        regret(Alone(2))


@pytest.mark.parametrize("error", [KeyError("x"), ZeroDivisionError("by 0"), SystemExit(3)])
def test_an_error_of_ones_own_code_is_said_with_its_line(error, monkeypatch):
    monkeypatch.setattr(Alone, "answer", error)
    with pytest.raises(ValueError, match=r"test_own_policies.py, line \d+") as found:
        regret(Alone(2))
    assert str(found.value).startswith(f"Alone failed: {type(error).__name__}: ")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise RuntimeError('no')", "RuntimeError: no (module_{}.py, line 1)"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 (module_{}.py, line 2)"),
        ("def (", "SyntaxError: invalid syntax"),
        (
            "class P(ht.Uniform):\n def __init__(self, dim): {}['x']",
            "P(...) failed: KeyError: 'x' (",
        ),
    ],
)
def test_a_module_that_fails_is_said_with_its_line(source, said, tmp_path, monkeypatch):
    number = abs(hash(source)) % 10**9
    (tmp_path / f"module_{number}.py").write_text(
        source if "class" not in source else "import heavytail as ht\n" + source
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="failed: ") as found:
        ht.make_policy(f"module_{number}:P", dim=2)
    assert said.replace("module_{}", f"module_{number}") in str(found.value)
    sys.modules.pop(f"module_{number}", None)


def test_options_that_are_handed_on_are_saved_by_their_names(tmp_path):
    policy = Patient(2, first=3, target="typical")
    policy.update([0.6, 0.1], 2.0)
    policy.save(tmp_path / "p.npz")
    loaded = ht.load(tmp_path / "p.npz", kinds=(Patient,))
    assert repr(loaded) == repr(policy.clone()) == "Patient(dim=2, first=3, target='typical')"
    np.testing.assert_array_equal(loaded.theta, policy.theta)
    check_policy(Patient(3, first=3, target="typical"))
    with pytest.raises(TypeError, match=r"takes no argument 'targt'\. Did you mean 'target'"):
        Patient(2, targt="typical")
    assert "horizon" in Patient.taken({"horizon": 5}, {})


def test_arguments_without_names_are_refused_where_the_class_is_made():
    with pytest.raises(TypeError, match=r"Loose.__init__ must name its arguments.*got \*more"):

        class Loose(ht.TwinUCB):
            def __init__(self, *more):
                super().__init__(*more)


def test_a_class_is_no_policy():
    with pytest.raises(TypeError, match=r"^pass one, not the class: Patient\(\.\.\.\)$"):
        check_policy(Patient)
