"""Every policy that takes a link passes the battery with one."""

from __future__ import annotations

import inspect

import pytest

import heavytail as ht
from heavytail.checks import POLICY_CHECKS
from heavytail.checks.policies import paid
from heavytail.policies import ALL

TAIL = ht.MomentBound(order=2.0, scale=0.5)

LINKED = [
    ("HvtGLB", "log"),
    *(
        (name, link)
        for name in ("GLBOMD", "GLMUCB", "GLOC", "CRTM")
        for link in ("logistic", "log")
    ),
]


@pytest.mark.parametrize("check", POLICY_CHECKS)
@pytest.mark.parametrize(("name", "link"), LINKED)
def test_a_policy_with_a_link_passes_the_battery_with_rewards_of_its_kind(name, link, check):
    POLICY_CHECKS[check](ht.make_policy(name, dim=3, horizon=2000, tail=TAIL, link=link))


def test_every_policy_that_takes_a_link_is_tried_with_one():
    taking = {kind.__name__ for kind in ALL if "link" in inspect.signature(kind).parameters}
    own = {"OL2M", "CRMM"}  # one has a link as it comes, the other refuses all but the identity
    assert taking - own == {name for name, _ in LINKED}


@pytest.mark.parametrize(
    ("reward", "link", "found"),
    [
        (0.3, "logistic", 1.0),
        (-0.3, "probit", 0.0),
        (-2.5, "log", 2.5),
        (-2.5, "identity", -2.5),
    ],
)
def test_the_battery_pays_what_a_link_takes(reward, link, found):
    assert paid(ht.GLMUCB(2, link=link), reward) == found
    assert paid(ht.OFUL(2, noise_scale=1.0), reward) == reward
