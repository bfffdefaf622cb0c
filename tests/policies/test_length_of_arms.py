"""Features in another unit, told by ``arm_bound``, lead untuned policies to the same choices."""

from __future__ import annotations

import numpy as np
import pytest

import heavytail as ht
from heavytail.checks.policies import paid

UNTUNED = {
    "Twin-UCB": lambda L: ht.TwinUCB(3, arm_bound=L),
    "Twin-UCB, typical": lambda L: ht.TwinUCB(3, target="typical", arm_bound=L),
    "Hvt-UCB": lambda L: ht.HvtUCB(3, arm_bound=L),
    "Hvt-UCB, no intercept": lambda L: ht.HvtUCB(3, intercept=False, arm_bound=L),
    "GLB-OMD, clicks": lambda L: ht.GLBOMD(3, link="logistic", arm_bound=L),
    "GLB-OMD, counts": lambda L: ht.GLBOMD(3, link="log", arm_bound=L),
    "Hvt-GLB, counts": lambda L: ht.HvtGLB(3, link="log", arm_bound=L),
    "Hvt-GLB, amounts": lambda L: ht.HvtGLB(3, link="log", rewards="amounts", arm_bound=L),
    "ECOLog": lambda L: ht.ECOLog(3, arm_bound=L),
}


@pytest.mark.parametrize("length", [2.0**-6, 2.0**10])
@pytest.mark.parametrize("name", UNTUNED)
def test_longer_arms_lead_to_the_same_choices_to_the_bit(name: str, length: float) -> None:
    plain, other = UNTUNED[name](1.0), UNTUNED[name](length)
    rng, theta = np.random.default_rng(0), np.array([0.5, -0.3, 0.7])
    for _ in range(150):
        arms = rng.normal(size=(6, 3))
        arms /= 1.01 * np.linalg.norm(arms, axis=1, keepdims=True)
        arm = plain.select(arms)
        assert other.select(length * arms) == arm
        reward = paid(plain, float(arms[arm] @ theta + rng.standard_t(2.0)))
        plain.update(arms[arm], reward)
        other.update(length * arms[arm], reward)
    np.testing.assert_array_equal(length * other.theta, plain.theta)
    assert other.radius == plain.radius
