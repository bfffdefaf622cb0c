"""Every policy of matrices passes the battery with matrices, and with pairs of vectors."""

from __future__ import annotations

import pytest

import heavytail as ht
from heavytail.checks import POLICY_CHECKS

TAIL = ht.MomentBound(order=2.0, scale=0.5)
MADE = {
    "Hvt-LowRank, matrices": lambda: ht.HvtLowRank(3, 2, rank=1, explore=12),
    "Hvt-LowRank, pairs": lambda: ht.HvtLowRank(3, 2, rank=2, form="pairs", kept=40),
    "LowESTR, matrices": lambda: ht.LowESTR(3, 2, rank=1, horizon=2000, explore=30),
    "LowESTR, pairs": lambda: ht.LowESTR(2, 3, rank=1, horizon=2000, explore=30, form="pairs"),
    "LOTUS, matrices": lambda: ht.LOTUS(3, 2, tail=TAIL),
    "LOTUS, pairs": lambda: ht.LOTUS(2, 3, tail=TAIL, rank=1, form="pairs"),
}
PAIRS = {  # what a policy of pairs cannot have: its features are not those that theta multiplies
    "reports_its_estimate": "theta is of d1 d2 entries, an arm of d1 + d2 numbers",
    "learns_the_better_arm": "the battery's rewards are linear in u and v, not in u v'",
}


@pytest.mark.parametrize("check", POLICY_CHECKS)
@pytest.mark.parametrize("name", MADE)
def test_a_policy_of_matrices_passes_the_battery(name, check):
    if "pairs" in name and check in PAIRS:
        pytest.skip(PAIRS[check])
    POLICY_CHECKS[check](MADE[name]())
