"""Agents in linear MDPs: reductions, engines, memory, refusals."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.mdp import (
    LSVIUCB,
    VARA,
    GreedyLSVI,
    HeavyLSVIUCB,
    HvtLSVIUCB,
    LinearMDP,
    UniformAgent,
    combination_lock,
    random_mdp,
    river_swim,
    simulate_agents,
)
from heavytail.mdp.simulation import run_agent

TAIL = ht.MomentBound(order=1.5, scale=1.0)
AGENTS = [UniformAgent, GreedyLSVI, LSVIUCB, HvtLSVIUCB, HeavyLSVIUCB, VARA]
LEARNERS = AGENTS[1:]


def world(noise=None, **changes):
    sizes = {"states": 5, "actions": 3, "horizon": 3, "seed": 2, **changes}
    return random_mdp(4, noise=noise or ht.noise.StudentT(2.1), **sizes)


def needs(kind):
    """What some agents must be told beside the tail, and VARA's order."""
    if kind in (GreedyLSVI, UniformAgent):
        return {}
    if kind not in (HeavyLSVIUCB, VARA):
        return {"tail": TAIL}
    return {"episodes": 500, "tail": ht.MomentBound(2.0, 1.0) if kind is VARA else TAIL}


def build(kind, place, **options):
    return kind(place.features, place.horizon, **{**needs(kind), **options})


def test_the_census_is_complete():
    import heavytail.mdp as mdp

    found = {v for v in vars(mdp).values() if isinstance(v, type) and issubclass(v, mdp.Agent)}
    assert found - {mdp.Agent} == set(AGENTS)


def one_stage(arms, seed):
    """A contextual bandit as an MDP of one stage: states are the contexts."""
    rng = np.random.default_rng(seed)
    features = rng.dirichlet(np.full(4, 0.3), (6, arms))
    return LinearMDP(
        features,
        theta=rng.random((1, 4)),
        mu=np.full((1, 4, 6), 1 / 6),
        noise=ht.noise.StudentT(1.7),
        start=np.full(6, 1 / 6),
    )


SCALES = {"radius_scale": 1e-3, "threshold_scale": 0.1}  # the agents' own
PLAIN = {"switching": "every", "monotone": False}
PAIRS = {
    "Hvt": (
        lambda w: HvtLSVIUCB(w.features, 1, tail=TAIL, reward_bonus=1.0),
        lambda w: ht.HvtUCB(4, tail=TAIL, theta_bound=2.0, ridge=4.0, delta=0.01),
    ),
    "Heavy": (
        lambda w: HeavyLSVIUCB(w.features, 1, episodes=500, tail=TAIL, **PLAIN),
        lambda w: ht.HeavyOFUL(4, horizon=500, tail=TAIL, theta_bound=2.0, delta=0.01, **SCALES),
    ),
    "Ada": (
        lambda w: VARA(w.features, 1, episodes=500, tail=ht.MomentBound(2.0, 1.0), **PLAIN),
        lambda w: ht.AdaOFUL(
            4, horizon=500, tail=ht.MomentBound(2.0, 1.0), theta_bound=2.0, delta=0.01, **SCALES
        ),
    ),
    "OFUL": (
        lambda w: LSVIUCB(w.features, 1, noise_scale=1.0, reward_bonus=1.0),
        lambda w: ht.OFUL(
            4, noise_scale=1.0, theta_bound=2.0, arm_bound=1.0, delta=0.01, radius_scale=1.0
        ),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_with_one_stage_an_agent_is_its_bandit_policy_choice_for_choice(name):
    place = one_stage(5, seed=4)
    agent, policy = (make(place) for make in PAIRS[name])
    for draws, _ in zip(place.deal(np.random.SeedSequence(1)), range(7), strict=False):
        for k in range(draws.length):
            s = int(draws.first[k])
            a = agent.act(0, s)
            assert a == policy.select(place.features[s])
            reward = float(place.means[0, s, a] + draws.noise[k, 0])
            agent.update(0, s, a, reward, 0)
            policy.update(place.features[s, a], reward)
    assert agent.episodes == policy.rounds == 448
    mine, theirs = agent.state_arrays(), policy.state_arrays()
    np.testing.assert_array_equal(mine["reward_scalars"][0], theirs["scalars"])


@pytest.mark.parametrize("kind", AGENTS)
def test_the_compiled_engine_is_the_reference_engine(kind):
    place = world(ht.noise.Scaled(ht.noise.StudentT(2.1), 0.5))
    agents = [build(kind, place)]
    runs = [
        simulate_agents(agents, place, episodes=80, trials=2, seed=3, engine=engine, jobs=1)
        for engine in ("compiled", "reference")
    ]
    one, two = (run[kind.name].regret for run in runs)
    np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", LEARNERS)
def test_regret_is_exact_and_never_negative(kind):
    place = world()
    agent = build(kind, place)
    regret, _ = run_agent(agent, place, np.random.SeedSequence(0), 100)
    steps = np.diff(regret, prepend=0.0)
    assert steps.min() >= -1e-12
    gap = place.values[0, 0] - place.value(agent.policy)[0, 0]
    longer, _ = run_agent(build(kind, place), place, np.random.SeedSequence(0), 101)
    assert longer[100] - longer[99] == pytest.approx(gap)
    np.testing.assert_array_equal(longer[:100], regret)


def test_adding_an_agent_does_not_move_the_others():
    place = world()
    alone = simulate_agents([build(HvtLSVIUCB, place)], place, episodes=60, trials=2, seed=1)
    crowd = simulate_agents(
        [build(kind, place) for kind in reversed(AGENTS)], place, episodes=60, trials=2, seed=1
    )
    np.testing.assert_array_equal(alone["Hvt-LSVI-UCB"].regret, crowd["Hvt-LSVI-UCB"].regret)


@pytest.mark.compiled
def test_only_the_reward_part_is_one_pass_and_not_even_that_in_full_batch():
    place = world()
    sizes = {}
    for kind in (HvtLSVIUCB, HeavyLSVIUCB):
        for episodes in (10, 400):
            agent = build(kind, place, switching="doubling")
            run_agent(agent, place, np.random.SeedSequence(0), episodes)
            sizes[kind, episodes] = np.array([agent.reward_bytes, agent.state_bytes])
    reward, everything = sizes[HvtLSVIUCB, 400] - sizes[HvtLSVIUCB, 10]
    assert reward == 0
    assert everything == 390 * 24 * place.horizon
    reward, everything = sizes[HeavyLSVIUCB, 400] - sizes[HeavyLSVIUCB, 10]
    assert reward >= 390 * 8 * (place.dim + 2) * place.horizon
    assert everything == reward + 390 * 24 * place.horizon


def test_a_plan_relabels_the_whole_past():
    """w_h by ridge regression in NumPy, from the agent's own values and a record of its past."""
    place = world()
    agent = build(LSVIUCB, place)
    rows, rewards, landed = [], [], []
    rng = np.random.default_rng(0)
    for _ in range(30):
        s = 0
        for h in range(3):
            a = agent.act(h, s)
            r, t = rng.standard_normal(), int(rng.integers(5))
            agent.update(h, s, a, r, t)
            rows.append((h, s, a)), rewards.append(r), landed.append(t)
            s = t
    assert agent.policy.shape == (3, 5)  # asking for it plans
    upper = agent.upper
    past = [(s, a, r, t) for (h, s, a), r, t in zip(rows, rewards, landed, strict=True) if h == 1]
    X = np.array([place.features[s, a] for s, a, _, _ in past])
    V = np.minimum(upper[2].max(axis=1), 1.0).clip(min=0.0)
    target = np.array([r + V[t] for _, _, r, t in past])
    w = np.linalg.solve(np.eye(4) + X.T @ X, X.T @ target)
    P = np.linalg.inv(np.eye(4) + X.T @ X)
    arrays = agent.state_arrays()
    radius = arrays["reward_scalars"][1, 1] + arrays["value_scalars"][1, 1]
    phi = place.features
    q = phi @ w + radius * np.sqrt(np.einsum("sad,de,sae->sa", phi, P, phi))
    np.testing.assert_allclose(upper[1], np.minimum(q, 2.0), atol=1e-9)


@pytest.mark.compiled
def test_rare_switching_plans_logarithmically_often():
    place = world()
    every, rare = (build(HvtLSVIUCB, place, switching=how) for how in ("every", "doubling"))
    for agent in (every, rare):
        run_agent(agent, place, np.random.SeedSequence(0), 2000)
    assert every.switches == 2000
    # log det of d x d grows as d log k; every doubling of one of 2 H of them is at most one plan.
    assert rare.switches <= 2 * 3 * 4 * np.log2(2000)


def test_a_monotone_q_never_rises_and_its_lower_bound_never_falls():
    place = world()
    agent = build(HvtLSVIUCB, place, monotone=True, switching="every")
    upper, lower = agent.upper, agent.lower
    for _ in range(5):
        run_agent(agent, place, np.random.SeedSequence(0), 20)
        assert (agent.policy >= 0).all()
        assert (agent.upper <= upper).all()
        assert (agent.lower >= np.minimum(lower, agent.upper)).all()
        upper, lower = agent.upper, agent.lower


# Hvt-UCB's practical radius is 0.4 of what its proof observes: for bounds on Q the whole is taken.
BOUNDS = {
    "LSVI-UCB": (LSVIUCB, {"reward_bonus": 1.0}),
    "Hvt-LSVI-UCB": (HvtLSVIUCB, {"reward_bonus": 2.5}),
    "Hvt-LSVI-UCB, weighted": (HvtLSVIUCB, {"reward_bonus": 2.5, "weighting": "variance"}),
    "Hvt-LSVI-UCB, no intercept": (HvtLSVIUCB, {"reward_bonus": 2.5, "intercept": False}),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_with_full_bonuses_the_truth_lies_between_the_bounds(name):
    place = world(ht.noise.Gaussian())
    kind, options = BOUNDS[name]
    agent = build(kind, place, value_bonus=1.0, **options)
    for _ in range(4):
        run_agent(agent, place, np.random.SeedSequence(1), 25)
        assert agent.policy.shape == (3, 5)
        assert (agent.lower <= place.action_values + 1e-9).all()
        assert (place.action_values <= agent.upper + 1e-9).all()


@pytest.mark.parametrize("weighting", ["none", "variance"])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_lower_bound_is_never_above_the_upper_one(weighting, monotone):
    """Also where there is no bonus at all, and nothing else keeps the two apart."""
    place = world()
    agent = build(
        HvtLSVIUCB,
        place,
        reward_bonus=0.0,
        value_bonus=0.0,
        weighting=weighting,
        monotone=monotone,
    )
    for _ in range(15):
        run_agent(agent, place, np.random.SeedSequence(1), 2)
        assert agent.policy.shape == (3, 5)
        assert (agent.lower <= agent.upper).all()
        assert (agent.lower >= 0.0).all()


def rich_and_poor(noise):
    """Nine states, two stages. From state 0 the actions lead to states that pay 0 and 0.5 next;
    from the six others, where most episodes start, everything leads to a pay of 1.
    """
    S, A = 9, 2
    move, pay = np.zeros((S, A, S)), np.zeros((2, S, A))
    move[range(1, S), :, range(1, S)] = 1.0
    move[0, 0, 2] = move[0, 1, 1] = 1.0
    pay[1, 1], pay[1, 3:] = 0.5, 1.0
    return LinearMDP(
        np.eye(S * A).reshape(S, A, S * A),
        theta=pay.reshape(2, S * A),
        mu=move.reshape(S * A, S),
        noise=noise,
        start=[0.4, 0.0, 0.0, *[0.1] * 6],
    )


@pytest.mark.compiled
def test_an_intercept_that_bears_the_level_does_not_hide_the_better_state():
    """The intercept learns the pay of most states, near 1. A Q without it is below 0 in both the
    states that 0 leads to, and with V at its floor in both there would be nothing to choose by.
    """
    place = rich_and_poor(ht.noise.Gaussian(0.1))
    tail = place.noise.tail(1.5)
    agents = {
        "with": HvtLSVIUCB(place.features, 2, tail=tail),
        "without": HvtLSVIUCB(place.features, 2, tail=tail, intercept=False),
    }
    results = simulate_agents(agents, place, episodes=600, trials=2, seed=0)
    chance = 0.4 * 0.25 * 600  # regret of tossing a coin in state 0
    assert results["with"].final.max() < 0.3 * chance
    assert results["without"].final.max() < 0.3 * chance


@pytest.mark.parametrize("kind", [LSVIUCB, GreedyLSVI])
def test_a_refused_reward_changes_nothing_not_even_the_plan(kind):
    place = world()
    agent = build(kind, place)
    for stage in (0, 1, 2):
        agent.update(stage, 0, agent.act(stage, 0), 0.3, 1)
    before = {key: array.tobytes() for key, array in agent.state_arrays().items()}
    with pytest.raises(ValueError, match="out of the floating-point range"):
        agent.update(0, 0, 0, 1e300, 0)
    after = {key: array.tobytes() for key, array in agent.state_arrays().items()}
    assert after == before


def test_an_agent_names_its_scalars():
    place = world()
    names = build(UniformAgent, place).slot_names()["scalars"]
    assert names == ("episodes", "stage", "planned", "switches", "key")
    for kind in AGENTS:
        agent = build(kind, place)
        arrays = agent.state_arrays()
        for key, columns in agent.slot_names().items():
            assert arrays[key].shape[-1] == len(columns)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [LSVIUCB, HvtLSVIUCB])
def test_the_lock_is_opened(kind):
    place = combination_lock(noise=ht.noise.Gaussian(0.1), horizon=4, actions=2, lure=0.05)
    agent = build(kind, place, reward_bonus=0.1, value_bonus=0.1)
    run_agent(agent, place, np.random.SeedSequence(2), 1500)
    np.testing.assert_array_equal(agent.policy[:, 0], place.optimal_policy[:, 0])


@pytest.mark.compiled
def test_the_threshold_matters_where_tails_are_heavy():
    place = random_mdp(
        5, bias=True, states=5, actions=3, horizon=3, noise=ht.noise.StudentT(1.5), seed=1
    )
    agents = {clip: HvtLSVIUCB(place.features, 3, tail=TAIL, clip=clip) for clip in (1.345, np.inf)}
    results = simulate_agents(agents, place, episodes=600, trials=8, seed=0)
    assert results[1.345].final.mean() < 0.8 * results[np.inf].final.mean()


@pytest.mark.compiled
def test_who_does_not_explore_drifts_down_the_river():
    place = river_swim(noise=ht.noise.Gaussian(0.05), states=4, horizon=8)
    tail = ht.MomentBound(order=2.0, scale=0.05)
    agents = [
        GreedyLSVI(place.features, 8),
        HvtLSVIUCB(place.features, 8, tail=tail, value_bonus=0.1),
    ]
    results = simulate_agents(agents, place, episodes=800, trials=2, seed=0)
    assert results["Hvt-LSVI-UCB"].final.mean() <= 0.5 * results["Greedy LSVI"].final.mean()


def test_one_enormous_reward_does_not_move_the_plan_far():
    place = world()
    agent = build(HvtLSVIUCB, place)
    agent.update(0, 0, 0, 1e12, 1)
    assert np.isfinite(agent.upper).all()
    assert np.abs(agent.state_arrays()["reward_theta"][0]).max() < 10.0


def test_the_theory_radius_is_the_papers():
    place = world()
    agent = build(LSVIUCB, place, radius="theory", episodes=1000, delta=0.01)
    beta = 4 * 3 * np.sqrt(np.log(2 * 4 * 3000 / 0.01))
    assert agent.state_arrays()["reward_scalars"][:, 1] == pytest.approx(np.full(3, beta))
    with pytest.raises(ValueError, match="episodes must be given"):
        build(LSVIUCB, place, radius="theory")


@pytest.mark.parametrize("kind", AGENTS)
def test_bad_input_is_refused_and_nothing_is_learned(kind):
    place = world()
    agent = build(kind, place)
    agent.update(0, 0, 1, 0.5, 2)
    before = {key: array.copy() for key, array in agent.state_arrays().items()}
    calls = [
        (0, 0, 0, 0.0, 0),  # not this stage
        (1, 5, 0, 0.0, 0),
        (1, 0, 3, 0.0, 0),
        (1, 0, 0, np.nan, 0),
        (1, 0, 0, np.inf, 0),
        (1, 0, 0, 0.0, 5),
        (1, -1, 0, 0.0, 0),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=rf"{kind.__name__}\.update: "):
            agent.update(*call)
    with pytest.raises(ValueError, match="scale must be"):
        agent.update(1, 0, 0, 0.0, 0, scale=0.0)
    with pytest.raises(ValueError, match="stage 1 of 3 comes next; got 0"):
        agent.act(0, 0)
    for key, array in agent.state_arrays().items():
        np.testing.assert_array_equal(array, before[key])


@pytest.mark.parametrize("kind", AGENTS)
def test_worlds_that_do_not_fit_are_refused(kind):
    place = world()
    with pytest.raises(ValueError, match=r"features must have shape \(S, A, d\)"):
        kind(np.eye(3), 3, **needs(kind))
    with pytest.raises(ValueError, match=r"features\[\d, \d\] has norm .* above the bound 1"):
        kind(3.0 * place.features, 3, **needs(kind))
    with pytest.raises(ValueError, match="horizon must be a whole number"):
        kind(place.features, 0, **needs(kind))
    if "tail" in needs(kind):
        with pytest.raises(TypeError, match="tail must be a MomentBound"):
            kind(place.features, 3, **{**needs(kind), "tail": 1.0})
    with pytest.raises(ValueError, match=r"built for \(H, S, A, d\) = \(2, 5, 3, 4\)"):
        simulate_agents(
            [kind(place.features, 2, **needs(kind))], place, episodes=1, trials=1, seed=0
        )


def test_options_that_mean_nothing_are_refused():
    place = world()
    for option in ({"weighting": "x"}, {"switching": "x"}, {"value_bonus": -1.0}):
        with pytest.raises(ValueError, match=rf"HvtLSVIUCB\.{next(iter(option))}"):
            build(HvtLSVIUCB, place, **option)
    with pytest.raises(ValueError, match="no agents given"):
        simulate_agents([], place, episodes=1, trials=1, seed=0)
    with pytest.raises(ValueError, match="two agents are called"):
        simulate_agents([build(LSVIUCB, place)] * 2, place, episodes=1, trials=1, seed=0)
    with pytest.raises(ValueError, match="noise_scale must be given"):
        LSVIUCB(place.features, 3)
    with pytest.raises(ValueError, match=r"HeavyLSVIUCB\.solver must be one of 'lazy', 'newton'"):
        build(HeavyLSVIUCB, place, solver="lbfgs")
    with pytest.raises(ValueError, match="must be of order 2"):
        build(VARA, place, tail=TAIL)


def test_a_clone_keeps_what_was_learned_and_a_fresh_agent_does_not():
    place = world()
    agent = build(HvtLSVIUCB, place, value_bonus=0.2)
    run_agent(agent, place, np.random.SeedSequence(0), 5)
    twin = agent.clone()
    assert (agent.episodes, twin.episodes, agent.fresh().episodes) == (5, 5, 0)
    assert repr(twin).startswith("HvtLSVIUCB(d=4, S=5, A=3, H=3, tail=")
    assert "value_bonus=0.2" in repr(twin)
