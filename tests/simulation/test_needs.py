"""A world that breaks what a policy assumes is run, with a warning that says which."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import heavytail as ht
from heavytail.policies import ALL

TAIL = ht.MomentBound(order=1.5, scale=1.0)
SKEWED = ht.noise.Pareto(1.8)
T_1_7 = ht.noise.StudentT(1.7)


def world(noise: Any = T_1_7, **options: Any) -> ht.LinearBandit:
    return ht.LinearBandit(2, arms=4, noise=noise, **options)


def build(name: str, tail: ht.MomentBound = TAIL) -> ht.Policy:
    return ht.make_policy(name, dim=2, horizon=2000, tail=tail, arms=4)


BROKEN = {
    "symmetric noise": ("CRMM", world(SKEWED), 10),
    "sub-Gaussian noise": ("OFUL", world(), 10),
    "a finite central moment of order 1.5": ("MENU", world(ht.noise.StudentT(1.4)), 10),
    "a finite raw moment of order 1.5": ("CRTM", world(ht.noise.StudentT(1.5)), 10),
    "arms that can be played again": ("CRMM", world(offered=3), 10),
    "at most 2000 rounds, its horizon": ("CRTM", world(), 2001),
}


@pytest.mark.parametrize("need", BROKEN)
def test_a_broken_need_is_named(need: str) -> None:
    name, place, rounds = BROKEN[need]
    with pytest.warns(UserWarning, match=f"{name} assumes {need}") as seen:
        ht.simulate([build(name)], place, rounds=rounds, trials=1, seed=0)
    assert len(seen) == 1


def test_robust_ucb_needs_the_same_arms_every_round() -> None:
    assert world(fresh=True).broken_needs(build("RobustUCB")) == ["arms that can be played again"]


@pytest.mark.parametrize("name", [kind.name for kind in ALL if kind.info.rewards == "any"])
def test_a_world_that_keeps_every_need_is_run_in_silence(name: str) -> None:
    tail = ht.MomentBound(order=2.0, scale=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        place = world(ht.noise.Gaussian())
        assert place.broken_needs(build(name, tail), rounds=2000) == []


def test_a_policy_that_declares_nothing_is_asked_nothing() -> None:
    assert world(SKEWED).broken_needs(object()) == []


def test_needs_are_printed_in_words() -> None:
    assert ht.CRMM.info.needs.split(", ")[-3:] == ["symmetric noise", "repeatable arms", "horizon"]
    assert ht.CRTM.info.needs.startswith("raw moment")
    assert ht.OFUL.info.needs == "sub-Gaussian noise"
