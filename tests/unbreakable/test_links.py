"""Rewards of any size with a link: refused, or learned and saved."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fuzz.player import through_file

import heavytail as ht

CASES = {
    "a ball": (ht.GLBOMD(2, link="identity", theta_bound=1.0), [1e104, 1e100, 1e139]),
    "theory": (ht.GLBOMD(2, link="identity", radius="theory"), [1e104, 1e139]),
    "counts": (ht.GLBOMD(2, link="log", intercept=False), [1e18, 1.0, 1e18, 1.0]),
    "counts, intercept": (ht.GLBOMD(2, link="log"), [1e15, 3.0, 1e12, 1e18]),
    "little noise": (ht.GLBOMD(2, link="identity", noise_scale=4e-7, ridge=1.0), [0.001, -1.0]),
    "Hvt-GLB": (ht.HvtGLB(2, link="log"), [1e18, 1.0, 1e300, 3.0, 1.0, 1e100, 2.0]),
    "GLM-UCB": (ht.GLMUCB(2, link="log"), [3.0, 3.0, 1e18, 5.0, 0.0, 3.0]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_size_of_rewards_what_was_accepted_can_be_saved(name, seed):
    policy, rewards = CASES[name][0].clone(), CASES[name][1]
    rng = np.random.default_rng(seed)
    for reward in rewards * 4:
        x = rng.normal(size=2)
        x *= 10.0 ** rng.uniform(-4, 0) * 0.99 / np.linalg.norm(x)
        before = policy.rounds
        try:
            policy.update(x, reward)
        except ValueError:
            assert policy.rounds == before
        assert np.isfinite(policy.theta).all()
        assert (np.linalg.eigvalsh(policy.inverse_gram) > 0.0).all()
    again = through_file(policy)
    arms = 0.7 * np.array([[1.0, 0.0], [0.5, 0.6], [-0.3, 0.8]])
    assert again.select(arms) == policy.clone().select(arms)


def test_a_ridge_that_little_noise_outweighs_is_refused():
    with pytest.raises(ValueError, match=r"GLBOMD\.ridge must be at least 1000"):
        ht.GLBOMD(2, link="identity", noise_scale=1e-8, ridge=1.0)


BAD = {
    "text": "1",
    "a flag": True,
    "flags": [1.0, True],
    "nothing": None,
    "masked": np.ma.masked_array([1.0, 2.0], [False, True]),
    "beyond all floats": 10**400,
    "complex": 1j,
    "ragged": [[1.0], [1.0, 2.0]],
    "a span of time": np.timedelta64(3, "s"),
}


@pytest.mark.parametrize("link", ht.links.LINKS.values(), ids=ht.links.LINKS)
@pytest.mark.parametrize("bad", BAD)
def test_a_link_is_of_numbers_alone(link, bad):
    for of in (link.mean, link.slope):
        with pytest.raises((TypeError, ValueError), match=rf"Link\.{of.__name__}: z must be"):
            of(BAD[bad])
        assert of(np.float32(0.5)) == of(0.5)
        assert of([[0, 1]]).shape == (1, 2)


class Equal(str):
    """Equal to everything."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5


class Shy(str):
    """Equal to nothing, and not to be asked."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def strip(self, *_: object) -> str:
        raise RuntimeError

    __hash__ = str.__hash__


@pytest.mark.parametrize("kind", [Equal, Shy])
def test_a_name_is_what_it_spells_whatever_it_says_it_equals(kind):
    assert ht.links.named("here", kind("log")) is ht.links.log
    assert ht.GLBOMD(2, link=kind("logistic")).link is ht.links.logistic
    with pytest.raises(ValueError, match=r"here must be one of 'identity', 'logistic', 'log', 'pr"):
        ht.links.named("here", kind("logg"))


@pytest.mark.parametrize("radius", ["empirical", "theory"])
@pytest.mark.parametrize("bounds", [{"theta_bound": 1e50}, {"theta_bound": 2, "arm_bound": 300}])
def test_a_ball_on_which_the_link_is_too_steep_is_refused(radius, bounds):
    with pytest.raises(ValueError, match=r"GLMUCB\.theta_bound is too large for the log link"):
        ht.GLMUCB(2, link="log", radius=radius, **bounds)
    assert np.isfinite(ht.GLMUCB(2, link="log", theta_bound=200.0, radius=radius).radius)


def test_the_largest_outliers_have_a_moment_and_larger_ones_are_refused():
    assert ht.LinkBandit(2, 5, "log", base=9.0, outliers=0.5, factor=1e90).tail(1.5).scale > 1e90
    for factor in (1e91, 1e300):
        with pytest.raises(ValueError, match=r"LinkBandit\.factor must be a number in \(0, 1e\+90"):
            ht.LinkBandit(2, 5, "log", outliers=0.5, factor=factor)


@pytest.mark.parametrize("make", [ht.HvtGLB, ht.HvtUCB])
def test_without_a_clip_the_threshold_is_infinite_from_the_first_round_on(make):
    policy = make(2, clip=np.inf)
    for reward in (None, 1.0, 2.0, 3.0, 1.0, 2.0, 9.0):
        if reward is not None:
            policy.update([0.6, 0.8], reward)
        assert policy.diagnostics().threshold == np.inf


class Shares(ht.LinearBandit):
    """Says that it pays shares."""

    rewards = "from 0 to 1"


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_link_that_cannot_have_the_rewards_is_refused_before_the_first_round(engine, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("a round was played")

    counts, clicks = ht.LinkBandit(2, 4, "log"), ht.GLBOMD(2, link="logistic")
    told = {"rounds": 9, "trials": 1, "seed": 0}
    with monkeypatch.context() as patch:
        patch.setattr(ht.LinkBandit, "deal", never)
        with pytest.raises(ValueError, match=r"policy 'mine': with the logistic link .* at least"):
            ht.simulate({"mine": clicks}, counts, engine=engine, **told)
        if engine == "compiled":
            with pytest.raises(ValueError, match=r"with the logistic link .* at least"):
                ht.simulation.distribution(clicks, counts, **told)
    shares = Shares(2, 4, ht.noise.Gaussian(0.1))
    with pytest.raises(ValueError, match="those of this world are from 0 to 1"):
        shares.check_link(clicks)
    shares.check_link(ht.GLBOMD(2, link="logistic", fractions=True))
    shares.check_link(ht.GLBOMD(2, link="log"))
