"""One episode, round by round: what a policy is shown and told, what is counted, what is timed."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import heavytail as ht
from heavytail.environments import Block, Environment
from heavytail.kernels.counts import count
from heavytail.simulation import engines, trials
from heavytail.simulation.engines import episode
from heavytail.simulation.results import checkpoints

TAIL = ht.MomentBound(1.5, 2.0)
EMPTY = np.empty((0, 0), dtype=np.int64)
ALIKE = np.empty((0, 4)), np.empty((0, 2))  # no shapes and no events: arms differ in their means


class Blocks(Environment):
    """Blocks of three rounds over four arms: a pool, a part of it, or fresh arms."""

    dim = 2

    def __init__(self, kind: str = "pool", factors: bool = False, **wrong: Any) -> None:
        self.kind, self.factors, self.wrong = kind, factors, wrong

    def deal(self, seed: np.random.SeedSequence) -> Any:
        rng = np.random.default_rng(seed.entropy)
        theta = np.array([0.6, -0.3])
        pool = rng.uniform(-0.6, 0.6, (4, 2))
        t = 0
        while True:
            arms = rng.uniform(-0.6, 0.6, (3, 4, 2)) if self.kind == "fresh" else pool
            noise = rng.standard_t(2.0, 3)
            if t == self.wrong.get("block"):
                noise[self.wrong["at"]] = self.wrong["noise"]
            offered = np.array([rng.permutation(4)[:2] for _ in range(3)])
            yield Block(
                arms=arms,
                means=arms @ theta,
                noise=noise,
                factor=rng.uniform(1.0, 9.0, 3) if self.factors else None,
                offered=offered if self.kind == "offered" else None,
            )
            t += 1


class Witness(ht.Policy):
    """Plays the second arm and notes what it is shown and told."""

    name = "Witness"
    info = ht.Uniform.info
    theta = property(lambda self: np.zeros(self.dim))
    radius = property(lambda self: 0.0)
    rounds = property(lambda self: len(self.told))

    def __init__(self, tail: Any = None) -> None:
        self._start(2, tail, None)
        self.told: list[Any] = []
        self.key = None

    def reseed(self, key: int) -> None:
        self.key = key

    def select(self, arms: Any) -> int:
        self.shown = arms
        return 1

    def update(self, x: Any, reward: float, *, scale: Any = None) -> None:
        self.told.append((self.shown.copy(), x.copy(), reward, scale))

    def state_arrays(self) -> Any:
        return {}

    def restore(self, arrays: Any) -> None:
        pass


@pytest.mark.parametrize("kind", ["pool", "offered", "fresh"])
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("tail", [None, TAIL])
def test_a_policy_is_shown_the_arms_and_told_the_reward_and_its_scale(kind, factors, tail) -> None:
    policy, environment, seed = Witness(tail), Blocks(kind, factors), np.random.SeedSequence(4)
    regret, _ = episode(policy, environment, seed, 8, "compiled")  # it has no kernels
    assert policy.key == int(seed.generate_state(1, np.uint64)[0]) // 2**11
    expected = []
    rounds = ((b, t) for b in environment.deal(seed) for t in range(3))
    for (shown, x, reward, scale), (block, t) in zip(policy.told, rounds, strict=False):
        arms, means = block.round(t)
        np.testing.assert_array_equal(shown, arms)
        np.testing.assert_array_equal(x, arms[1])
        assert reward == means[1] + block.noise[t]
        nu = 1.0 if tail is None else 2.0
        assert scale == (block.factor[t] * nu if factors else None)
        expected.append(means.max() - means[1])
    np.testing.assert_allclose(regret, np.cumsum(expected))
    assert len(regret) == 8


@pytest.mark.parametrize("kind", ["pool", "offered", "fresh"])
@pytest.mark.parametrize("factors", [False, True])
@pytest.mark.parametrize("name", ["hvt", "CRMM"])
def test_both_engines_play_alike_over_short_blocks(kind, factors, name, monkeypatch) -> None:
    def build() -> Any:
        if name == "hvt":
            return ht.HvtUCB(2, tail=TAIL, exploration=0.1)
        return ht.make_policy("CRMM", dim=2, horizon=50, tail=TAIL, arms=4, repeats=2)

    fast, slow = build(), build()
    seed, environment = np.random.SeedSequence(1), Blocks(kind, factors)
    want, _ = episode(slow, environment, seed, 20, "reference")
    monkeypatch.setattr(engines, "_reference", None)  # the compiled engine does not walk
    found, _ = episode(fast, environment, seed, 20, "compiled")
    np.testing.assert_allclose(found, want, atol=1e-12)
    for key, array in fast.state_arrays().items():
        np.testing.assert_allclose(array, slow.state_arrays()[key], rtol=1e-9, atol=1e-12)
    monkeypatch.setattr(engines, "_compiled", None)
    with pytest.raises(TypeError):
        episode(build(), environment, seed, 20, "compiled")


def test_kept_scores_are_used_over_a_pool_and_nowhere_else(monkeypatch) -> None:
    ran = []
    for way in ("_play_pool", "_play_fresh"):
        monkeypatch.setattr(
            engines, way, lambda p, b, r, way=way: ran.append((way, b.length, len(r))) or -1
        )
    crmm = ht.make_policy("CRMM", dim=2, horizon=50, tail=TAIL, arms=4)
    plan = [
        ("pool", ht.HvtUCB(2, tail=TAIL), "_play_pool"),
        ("offered", ht.HvtUCB(2, tail=TAIL), "_play_pool"),
        ("fresh", ht.HvtUCB(2, tail=TAIL), "_play_fresh"),
        ("pool", crmm, "_play_fresh"),
    ]
    for kind, policy, way in plan:
        ran.clear()
        episode(policy, Blocks(kind), np.random.SeedSequence(0), 7, "compiled")
        # Once without a round, to compile before the clock starts; then block by block.
        assert ran == [(way, n, n) for n in (0, 3, 3, 1)]


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_the_clock_runs_while_the_policy_plays_and_not_while_a_kernel_compiles(
    engine, monkeypatch
) -> None:
    clock = SimpleNamespace(now=100.0)

    def spend(*_: Any) -> int:
        clock.now += 2.0
        return -1

    def compile_or_play(policy: Any, block: Any, regret: Any) -> int:
        clock.now += 2.0 if block.length else 50.0
        return -1

    monkeypatch.setattr(engines, "time", SimpleNamespace(thread_time=lambda: clock.now))
    monkeypatch.setattr(engines, "_play_pool", compile_or_play)
    monkeypatch.setattr(engines, "_reference", spend)
    policy = ht.HvtUCB(2, tail=TAIL)
    _, seconds = episode(policy, Blocks(), np.random.SeedSequence(0), 7, engine)
    assert seconds == 6.0  # three blocks


@pytest.mark.parametrize("kind", ["pool", "offered", "fresh"])
@pytest.mark.parametrize(("block", "at"), [(0, 0), (0, 2), (1, 1)])
def test_a_round_that_a_kernel_refuses_is_refused_in_the_policys_words(kind, block, at) -> None:
    environment = Blocks(kind, block=block, at=at, noise=-np.inf)
    policy = ht.HvtUCB(2, tail=TAIL)
    with pytest.raises(ValueError, match="got -inf"):
        episode(policy, environment, np.random.SeedSequence(0), 9, "compiled")
    assert policy.rounds == 3 * block + at


def test_arms_that_cannot_be_rated_are_refused_in_the_first_round() -> None:
    policy = ht.HvtUCB(2, tail=TAIL, intercept=False)
    pool = np.full((2, 4), np.nan)
    scores = np.empty((policy.algorithm.scoring.rows, 4))
    assert policy.algorithm.scoring.rate(*policy.packed, pool, scores) < 0
    bad = Blocks()
    block = next(bad.deal(np.random.SeedSequence(0)))
    bad.deal = lambda seed: iter([replace(block, arms=np.full((4, 2), np.nan))])
    with pytest.raises(ValueError, match="nan"):
        episode(policy, bad, np.random.SeedSequence(0), 3, "compiled")


@pytest.mark.parametrize("bad", [None, 0, 1])
def test_a_block_over_a_pool_is_played_as_any_other(bad, monkeypatch) -> None:
    told: list[Any] = []

    def update(s: Any, M: Any, x: Any, reward: float, scale: float) -> int:
        if len(told) == bad:
            return -1
        told.append((tuple(x), reward, scale))
        return 0

    monkeypatch.setattr(engines, "update", update)
    monkeypatch.setattr(engines, "rate", lambda *_: 0)
    monkeypatch.setattr(engines, "follow", lambda *_: None)
    monkeypatch.setattr(engines, "choose", lambda s, scores: 2)
    monkeypatch.setattr(engines, "choose_offered", lambda s, scores, offered, t: 1)
    policy = ht.HvtUCB(2, tail=TAIL, intercept=False)

    def play(
        rounds: int, offered: Any, factor: Any, alike: Any = ALIKE, counts: bool = False
    ) -> Any:
        told.clear()
        regret = np.full(rounds, -1.0)
        room = np.empty(2)
        given = (np.ascontiguousarray(ARMS[0].T), np.empty((2, 3)), room, MEANS[0], offered)
        noise = np.arange(1.0, rounds + 1.0)
        code = engines._run_pool(policy.packed, 3.0, *given, noise, factor, *alike, counts, regret)
        return code, list(told), regret.tolist()

    none = np.empty(0)
    if bad is not None:
        assert play(2, EMPTY, none)[0] == bad
        return
    whole = (-1, [((0.1, 0.2), 2.0, 3.0), ((0.1, 0.2), 3.0, 3.0)], [6.0, 6.0])
    assert play(2, EMPTY, none) == whole
    assert play(2, np.empty((0, 5), dtype=np.int64), none) == whole
    one = play(1, np.array([[2, 0]]), np.array([10.0]))
    assert one == (-1, [((0.5, 0.0), 6.0, 30.0)], [0.0])
    two = play(2, np.array([[0, 2], [1, 0]]), np.array([10.0, 0.5]))
    shapes = np.array([[9.0, 9.0, 1.0, 9.0], [9.0, 9.0, 1.0, 9.0], [0.5, 2.0, 0.3, 4.0]])
    events = np.array([[0.29, 100.0], [0.3, 100.0]])  # the second just does not happen
    paid = [((0.1, 0.2), 402.5, 3.0), ((0.1, 0.2), 4.5, 3.0)]
    assert play(2, EMPTY, none, (shapes, events)) == (-1, paid, [6.0, 6.0])
    counted = [
        (x, 0.5 + 2.0 * (t + 1) + 100.0 * count(events[t, 0], 4.0), 3.0)
        for t, (x, _, _) in enumerate(paid)
    ]
    assert play(2, EMPTY, none, (shapes, events), True) == (-1, counted, [6.0, 6.0])
    assert two == (-1, [((0.1, 0.2), 2.0, 30.0), ((0.5, 0.0), 7.0, 1.5)], [4.0, 2.0])


def play_block(monkeypatch: Any, rounds: int, bad: Any = None, **more: Any) -> Any:
    """Run the template: select plays the last arm, update notes and fails at round ``bad``."""
    noted: list[Any] = []

    def update(s: Any, M: Any, x: Any, reward: float, scale: float) -> int:
        if len(noted) == bad:
            return -1
        noted.append((tuple(x), reward, scale))
        return 0

    refuse = more.get("refuse")
    monkeypatch.setattr(engines, "update", update)
    monkeypatch.setattr(engines, "select", lambda s, M, arms: -1 if refuse else len(arms) - 1)
    factor = more.get("factor", np.empty(0))
    offered = more.get("offered", EMPTY)
    noise = np.arange(1.0, rounds + 1.0)
    policy = ht.HvtUCB(2, tail=TAIL, intercept=False)
    regret = np.full(rounds, -1.0)
    room = np.empty((offered.shape[1], 2))
    code = engines._run_block(
        *(policy.packed, 3.0, more["arms"], more["means"], offered, room, noise, factor),
        *more.get("alike", (ALIKE[0][None], ALIKE[1])),
        more.get("counts", False),
        regret,
    )
    return code, noted, regret


ARMS = np.array([[[0.5, 0.0], [0.0, 0.5], [0.1, 0.2]], [[0.2, 0.0], [0.0, 0.3], [0.3, 0.3]]])
MEANS = np.array([[5.0, 7.0, 1.0], [2.0, 3.0, 9.0]])


def test_a_block_of_one_or_two_rounds_is_played_as_any_other(monkeypatch) -> None:
    fresh = play_block(monkeypatch, 2, arms=ARMS, means=MEANS)
    assert fresh[:2] == (-1, [((0.1, 0.2), 2.0, 3.0), ((0.3, 0.3), 11.0, 3.0)])
    assert fresh[2].tolist() == [6.0, 0.0]
    shapes = np.tile([0.5, 2.0, 0.3, 4.0], (2, 3, 1)) + np.arange(2.0)[:, None, None]
    events = np.array([[0.3, 100.0], [0.29, 100.0]])  # the first just does not happen
    told = play_block(monkeypatch, 2, arms=ARMS, means=MEANS, alike=(shapes, events))[1]
    assert told == [((0.1, 0.2), 2.5, 3.0), ((0.3, 0.3), 507.5, 3.0)]
    law = {"alike": (shapes, events), "counts": True}
    told = play_block(monkeypatch, 2, arms=ARMS, means=MEANS, **law)[1]
    assert [reward for _, reward, _ in told] == [
        2.5 + 100.0 * count(0.3, 4.0),
        7.5 + 100.0 * count(0.29, 5.0),
    ]
    pool = {"arms": ARMS[:1], "means": MEANS[:1]}
    part = {**pool, "offered": np.array([[2, 0]]), "factor": np.array([10.0])}
    code, noted, regret = play_block(monkeypatch, 1, **part)
    assert (code, noted, regret.tolist()) == (-1, [((0.5, 0.0), 6.0, 30.0)], [0.0])
    part["offered"] = np.array([[0, 2], [1, 0]])
    part["factor"] = np.array([10.0, 0.5])
    code, noted, regret = play_block(monkeypatch, 2, **part)
    assert noted == [((0.1, 0.2), 2.0, 30.0), ((0.5, 0.0), 7.0, 1.5)]
    assert regret.tolist() == [4.0, 2.0]
    whole = play_block(monkeypatch, 2, **pool, offered=np.empty((0, 5), dtype=np.int64))
    assert whole[2].tolist() == [6.0, 6.0]  # no rows: nothing is offered in part


@pytest.mark.parametrize("bad", [0, 1])
def test_a_block_says_which_round_was_refused(bad, monkeypatch) -> None:
    pool = {"arms": ARMS[:1], "means": MEANS[:1]}
    code, noted, _ = play_block(monkeypatch, 3, bad=bad, **pool)
    assert (code, len(noted)) == (bad, bad)
    assert play_block(monkeypatch, 3, refuse=True, **pool)[0] == 0
    wild = np.where(np.arange(3) < bad, 1.0, np.nan)  # a scale that is none
    assert play_block(monkeypatch, 3, factor=wild, **pool)[0] == bad


# --- trials


def test_the_seed_of_a_trial_is_the_seed_and_its_number() -> None:
    assert trials.trial_seed(7, 3).entropy == [7, 3]


def test_a_block_of_trials_is_a_part_of_the_simulation() -> None:
    environment, policy = ht.LinearBandit(2, 5, ht.noise.StudentT(2.1)), ht.HvtUCB(2, tail=TAIL)
    whole = ht.simulate([policy], environment, rounds=9, trials=4, seed=3, jobs=1, progress=False)
    marks = (2, 5, 9)
    part = trials.trial_block(policy, environment, 9, 3, 1, 2, marks)
    np.testing.assert_array_equal(
        part["regret"], whole["Hvt-UCB"].regret[1:3][:, np.array(marks) - 1]
    )
    assert part["seconds"].shape == part["truncated"].shape == (2,)
    assert np.all(part["seconds"] > 0.0)
    assert np.isnan(part["truncated"]).all()
    few = ht.simulate([policy], environment, rounds=9, trials=2, seed=3, jobs=1, record=3)
    np.testing.assert_array_equal(few["Hvt-UCB"].regret, whole["Hvt-UCB"].regret[:2, [2, 5, 8]])
    assert few.rounds.tolist() == [3, 6, 9]
    assert (whole.settings["rounds"], whole.settings["trials"], whole.settings["seed"]) == (9, 4, 3)


def test_the_share_of_truncated_rewards_is_of_all_rounds() -> None:
    environment = ht.LinearBandit(2, 5, ht.noise.StudentT(1.2))
    crtm = ht.make_policy("CRTM", dim=2, horizon=20, tail=TAIL, arms=5, threshold_scale=1e-3)
    twin = crtm.clone()
    episode(twin, environment, trials.trial_seed(3, 0), 20, "compiled")
    found = trials.trial_block(crtm, environment, 20, 3, 0, 1, (20,))
    assert found["truncated"][0] == twin.truncated / 20 > 0.0


def test_a_block_of_a_distribution_is_the_distribution_at_the_end() -> None:
    environment, policy = ht.LinearBandit(2, 5, ht.noise.StudentT(2.1)), ht.HvtUCB(2, tail=TAIL)
    found = trials.distribution_block(policy, environment, 9, 3, 2, True)
    whole = trials.distribution(
        policy, environment, rounds=9, trials=2, seed=3, cover=True, record=9, jobs=1
    )
    np.testing.assert_array_equal(found["regret"], whole.regret[-1:].T)
    np.testing.assert_array_equal(found["worst"], whole.worst)
    assert found["seconds"].shape == (1,)
    assert 0.0 < found["seconds"][0] < 60.0
    assert "worst" not in trials.distribution_block(policy, environment, 9, 3, 2, False)


@pytest.mark.parametrize(
    ("rounds", "record", "kept"), [(400, None, 100), (400, 8, 8), (50, None, 50), (5, 9, 5)]
)
def test_the_gpu_keeps_a_hundred_rounds_unless_told_and_shares_its_seconds(
    rounds, record, kept, monkeypatch
) -> None:
    asked = {}
    clock = iter([10.0, 16.0])

    def fake(policy: Any, environment: Any, **options: Any) -> Any:
        asked.update(options)
        return SimpleNamespace(regret=np.arange(3.0 * kept).reshape(kept, 3))

    monkeypatch.setattr(trials, "distribution", fake)
    monkeypatch.setattr(trials, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    found = ht.simulate(
        [ht.Uniform(2)],
        ht.LinearBandit(2, 5, ht.noise.Gaussian()),
        rounds=rounds,
        trials=3,
        seed=2,
        engine="cuda",
        record=record,
    )
    assert (asked["engine"], asked["record"], asked["rounds"]) == ("cuda", kept, rounds)
    assert (asked["trials"], asked["seed"]) == (3, 2)
    assert found.rounds.tolist() == checkpoints(rounds, kept).tolist()
    np.testing.assert_array_equal(found["Uniform"].regret, np.arange(3.0 * kept).reshape(kept, 3).T)
    np.testing.assert_array_equal(found["Uniform"].seconds, [2.0, 2.0, 2.0])


def test_threads_are_for_policies_that_are_all_kernels_in_the_compiled_engine(monkeypatch) -> None:
    asked = []

    def fake(named: Any, play: Any, count: int, *, threads: bool, **_: Any) -> Any:
        asked.append(threads)
        return {name: [(np.zeros(3), 1.0)] * count for name in named}

    monkeypatch.setattr(trials, "play_trials", fake)
    environment = ht.LinearBandit(2, 5, ht.noise.Gaussian())
    both = {"kernels": ht.Uniform(2), "python": Witness()}
    options = {"rounds": 3, "trials": 2, "seed": 0}
    ht.simulate([ht.Uniform(2)], environment, **options)
    ht.simulate([ht.Uniform(2)], environment, engine="reference", **options)
    ht.simulate(both, environment, **options)
    assert asked == [True, False, False]
    assert [trials.releases_gil(p) for p in both.values()] == [True, False]


def test_the_least_counts_are_accepted_and_less_is_refused() -> None:
    environment = ht.LinearBandit(2, 5, ht.noise.Gaussian())
    least = {"rounds": 1, "trials": 1, "seed": 0, "jobs": 1}
    ht.simulate([ht.Uniform(2)], environment, **least)
    for name in least:
        with pytest.raises(ValueError, match=f"simulate: {name}"):
            ht.simulate([ht.Uniform(2)], environment, **{**least, name: least[name] - 1})
    with pytest.raises(ValueError, match="no policies"):
        ht.simulate([], environment, **least)


def test_a_warning_of_a_broken_need_points_at_the_caller() -> None:
    environment = ht.LinearBandit(2, 5, ht.noise.StudentT(2.1))
    with pytest.warns(UserWarning, match="sub-Gaussian") as seen:
        ht.simulate([ht.OFUL(2, noise_scale=1.0)], environment, rounds=1, trials=1, seed=0, jobs=1)
    assert [warning.filename for warning in seen] == [__file__]


def test_a_block_of_a_distribution_shows_no_bar(monkeypatch) -> None:
    asked: dict[str, Any] = {}
    none = SimpleNamespace(regret=np.zeros((1, 2)), worst=None)
    monkeypatch.setattr(trials, "distribution", lambda *_, **options: asked.update(options) or none)
    trials.distribution_block(ht.Uniform(2), None, 9, 3, 2, False)  # type: ignore[arg-type]
    assert asked["progress"] is False
    assert (asked["record"], asked["jobs"], asked["engine"]) == (1, 1, "compiled")
