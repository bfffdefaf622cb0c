"""The parts of a packed policy, each by itself: what an algorithm promises and a state keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.policies.core.forgetting import with_memory
from heavytail.policies.core.practice import update

TAIL = ht.MomentBound(order=1.5, scale=1.0)
ARMS = np.random.default_rng(0).uniform(-0.3, 0.3, (6, 10))


def build(name: str, dim: int = 3) -> Any:
    return ht.make_policy(name, dim=dim, horizon=2000, tail=TAIL, arms=6)


@pytest.mark.parametrize("name", ["LinTS", "EpsilonGreedy", "Uniform", "LOTUS"])
def test_a_new_seed_begins_its_draws_anew(name: str) -> None:
    used, fresh = build(name), build(name)
    for _ in range(7):
        used.select(ARMS[:, :3])
    for policy in (used, fresh):
        policy.reseed(5)
    assert [used.select(ARMS[:, :3]) for _ in range(20)] == [
        fresh.select(ARMS[:, :3]) for _ in range(20)
    ]


def test_a_choice_after_a_long_history_was_taken_over_reads_that_history() -> None:
    learned, fresh = build("BTC"), build("BTC")
    for k in range(100):  # more than the room to begin with
        learned.update(ARMS[k % 3, :3], 0.1 * k)
    fresh.restore(learned.state_arrays())
    assert fresh.packed[2] is fresh._H
    assert fresh.packed[2].shape[0] > fresh.kept == learned.kept > 64
    assert fresh.select(ARMS[:3, :3]) == learned.select(ARMS[:3, :3])


@pytest.mark.parametrize("row", [-2.0, 0.5, 5.0])
def test_rows_that_are_not_there_are_refused(row: float) -> None:
    policy = build("HEAVY-OFUL")
    for k in range(5):
        policy.update(ARMS[k, :3], 1.0)
    arrays = policy.state_arrays()
    arrays["history"][2, -1] = row
    with pytest.raises(ValueError, match="names rows that are not there"):
        policy.restore(arrays)


@pytest.mark.parametrize("part", ["theta", "inverse"])
def test_a_state_that_is_not_finite_is_refused(part: str) -> None:
    policy = build("OFUL")
    arrays = policy.state_arrays()
    arrays[part].flat[0] = np.inf
    with pytest.raises(ValueError, match=f"{part}.*not finite"):
        policy.restore(arrays)


def test_scores_that_were_kept_are_given_up_when_a_round_is_refused() -> None:
    policy = ht.OFUL(10, noise_scale=1.0)
    policy.select(ht.Pool(ARMS))
    assert policy._last is not None
    with pytest.raises(ValueError, match="finite"):
        policy.update(ARMS[0], np.nan)
    assert policy._last is None


def test_engines_do_not_play_around_a_method_of_a_subclass() -> None:
    class Same(ht.OFUL):
        """No method of its own."""

    class Chooses(ht.OFUL):
        def select(self, arms: Any) -> int:
            return 0

    class Learns(ht.OFUL):
        def update(self, x: Any, reward: float, *, scale: float | None = None) -> None: ...

    kinds = (Same, Chooses, Learns)
    assert [kind(3, noise_scale=1.0).plays_by_kernels for kind in kinds] == [True, False, False]
    assert not ht.HeavyOFUL(3, tail=TAIL, horizon=100, solver="lbfgs").plays_by_kernels


@pytest.mark.parametrize("name", ["Uniform", "LinTS", "BTC"])
def test_what_chooses_by_no_index_explains_none(name: str) -> None:
    with pytest.raises(ValueError, match="does not choose by one index"):
        build(name).explain(ARMS[:, :3])


def test_a_start_is_before_the_first_reward_and_symmetric() -> None:
    policy = ht.OFUL(2, noise_scale=0.5)
    with pytest.raises(ValueError, match="symmetric with positive eigenvalues"):
        policy.start_from([0.0, 0.0], [[1.0, 0.0], [0.5, 1.0]])
    skewed = np.array([[1.0, 0.1], [0.1 + 1e-9, 2.0]])  # as much as rounding may leave
    policy.start_from([0.1, 0.0], skewed)
    np.testing.assert_array_equal(policy.inverse_gram, policy.inverse_gram.T)
    np.testing.assert_allclose(policy.inverse_gram, skewed / 0.25, rtol=1e-8)
    policy.update([0.5, 0.0], 1.0)
    with pytest.raises(ValueError, match="before the first reward; 1 are learned"):
        policy.start_from([0.1, 0.0], np.eye(2))


def test_an_algorithm_made_from_another_keeps_its_checks_and_reports() -> None:
    plain = ht.HvtUCB(3, tail=TAIL).algorithm
    fading = with_memory(plain, update)
    assert fading.update is update
    assert fading.agree[:-1] == plain.agree
    assert fading.reports[:-1] == plain.reports
    crmm = ht.CRMM.algorithm
    assert len(crmm.agree) == 2
    assert crmm.agree[-1] is ht.MoM.algorithm.agree[-1]


def test_a_reward_that_was_learned_before_an_error_is_not_owed_again() -> None:
    class Interrupted(ht.OFUL):
        def update(self, x: Any, reward: float, *, scale: float | None = None) -> None:
            super().update(x, reward, scale=scale)
            raise KeyboardInterrupt

    policy = Interrupted(3, noise_scale=1.0)
    decision = policy.decide(ARMS[:, :3])
    with pytest.raises(KeyboardInterrupt):
        policy.learn(decision, 1.0)
    assert (policy.rounds, policy.pending) == (1, ())


def test_rows_of_a_history_that_were_taken_back_leave_nothing() -> None:
    policy = build("HEAVY-OFUL")
    for k in range(3):
        policy.update(ARMS[k, :3], 1.0)
    earlier = policy.state_arrays()
    for k in range(3):
        policy.update(ARMS[k, :3], 1.0)
    policy.restore(earlier)
    assert policy._H[:3].any()
    assert not policy._H[3:].any()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_single_number_that_is_not_finite_makes_a_state_unsound(value: float) -> None:
    policy = build("OFUL")
    assert policy.is_sound()
    policy._M[-1, -1] = value
    assert not policy.is_sound()
    slots = build("OFUL")
    slots._s[0] = value
    assert slots.is_sound() == np.isinf(value)


@pytest.mark.parametrize("name", ["MoM", "BMM", "MENU", "CRMM"])
def test_an_epoch_of_more_pulls_than_it_has_is_refused(name: str) -> None:
    policy = build(name)
    policy.update(ARMS[0, :3], 1.0)
    arrays = policy.state_arrays()
    slots = policy.slot_names()["scalars"]
    arrays["scalars"][slots.index("pulls")] = policy.repeats
    with pytest.raises(ValueError, match="counts do not fit"):
        policy.restore(arrays)
