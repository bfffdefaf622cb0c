"""Verdicts: computed from results by the rule written beside them; all three can come out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from heavytail.experiments.catalogue import SETTINGS
from heavytail.experiments.covering import Share
from heavytail.experiments.measured import Curves, Measured
from heavytail.experiments.protocol import VARIANTS, Entry
from heavytail.experiments.stats import Interval, ratio, slope
from heavytail.experiments.verdicts import (
    CLAIMS,
    HOLDS,
    MISSING,
    NOT,
    PART,
    SOLVERS,
    Results,
    judge,
)

FIVE = ("Hvt-UCB", "HEAVY-OFUL", "OFUL", "CRTM", "CRMM")


def results(means: dict[str, float], data: dict[str, object]) -> Results:
    """Every setting alike: each policy's regret is its mean times the same worlds' factors."""
    factors = np.random.default_rng(0).uniform(0.9, 1.1, 20)
    settings = {}
    for setting in SETTINGS:
        curves = {}
        for policy in FIVE:
            for variant in VARIANTS:
                entry = Entry(policy, variant, None)  # type: ignore[arg-type]
                regret = np.stack([means[policy] * factors] * 2, axis=1)
                share = np.full(20, 0.1 if policy == "CRTM" else np.nan)
                curves[policy, variant] = Curves(entry, regret, np.ones(20), share)
        settings[setting.name] = Measured(setting, np.array([1, 2]), curves)
    return Results(settings, data)


def extras(good: bool) -> dict[str, object]:
    """Data of the other experiments that meet every rule, or none."""
    sharp = Interval(0.3, 0.2, 0.4) if good else Interval(1.5, 1.4, 1.6)
    grow = Interval(1.0, 0.9, 1.1) if good else Interval(0.1, 0.0, 0.2)
    cost = SimpleNamespace(seconds=1e-6, time_slope=0.0 if good else 0.9, bytes_slope=0.0)
    quick = SimpleNamespace(**{**vars(cost), "seconds": 5e-7 if good else 2e-5})
    quickest = SimpleNamespace(**{**vars(cost), "seconds": 3e-7 if good else 3e-5})
    newton = SimpleNamespace(seconds=None, time_slope=1.0 if good else 0.0, bytes_slope=1.0)
    return {
        "speedup": {s: {"ratio": 900.0 if good else 3.0} for s in SOLVERS},
        "costs": {
            "Hvt-UCB": cost,
            "OFUL": quick,
            "CRTM": quick,
            "CRMM": quickest,
            "HEAVY-OFUL (newton)": newton,
        },
        "shares": {("gaussian", "theory"): Share(1000 if good else 500, 1000, 0.999)},
        "slopes": {("t", "untuned"): (sharp, 0.5)},
        "levels": {"untuned": (grow, 0.0 if good else 0.5, Interval(1.0, 1.0, 1.0))},
    }


AS_THE_PAPER_SAYS = {"Hvt-UCB": 1.0, "HEAVY-OFUL": 1.06, "OFUL": 9.0, "CRTM": 4.0, "CRMM": 5.0}
THE_REVERSE = {"Hvt-UCB": 9.0, "HEAVY-OFUL": 3.0, "OFUL": 1.0, "CRTM": 3.5, "CRMM": 2.0}


def verdicts(found: Results) -> dict[str, str]:
    return {one.claim: one.verdict for one in judge(found)}


def test_there_are_eleven_claims_each_with_a_rule() -> None:
    assert list(CLAIMS) == [f"C{k}" for k in range(1, 12)]
    for statement, rule, _ in CLAIMS.values():
        assert statement
        assert rule


def test_claims_hold_where_results_are_as_the_paper_says() -> None:
    found = verdicts(results(AS_THE_PAPER_SAYS, extras(True)))
    # In C8 CRTM must be comparable while in C7 it must be worse: one table of means cannot be both.
    for claim in ("C1", "C2", "C3", "C4", "C6", "C7", "C9", "C10", "C11"):
        assert found[claim] == HOLDS, claim
    gaussian = results({**AS_THE_PAPER_SAYS, "OFUL": 1.0}, {})
    assert verdicts(gaussian)["C5"] == HOLDS
    arms = results({**AS_THE_PAPER_SAYS, "CRTM": 1.1}, {})
    assert verdicts(arms)["C8"] == HOLDS


def test_claims_fail_where_results_are_the_reverse() -> None:
    found = verdicts(results(THE_REVERSE, extras(False)))
    for claim in ("C1", "C2", "C4", "C5", "C6", "C10", "C11"):
        assert found[claim] == NOT, claim


def test_a_claim_met_in_some_parts_holds_in_part() -> None:
    found = verdicts(results({**AS_THE_PAPER_SAYS, "CRMM": 1.0}, extras(True)))
    assert found["C6"] == PART
    assert found["C7"] == PART
    speed = {"speedup": {s: {"ratio": 2000.0 if s == "gd" else 2.0} for s in SOLVERS}}
    assert verdicts(results(AS_THE_PAPER_SAYS, speed))["C2"] == PART


def test_a_claim_whose_experiment_was_not_run_has_no_verdict() -> None:
    assert verdicts(Results({}, {})) == dict.fromkeys(CLAIMS, MISSING)
    some = {"speedup": {"lazy": {"ratio": 2.0}}}
    assert verdicts(Results({}, some))["C2"] == MISSING  # all four solvers, or no verdict


def test_a_paired_ratio_ignores_what_both_share() -> None:
    worlds = np.exp(np.random.default_rng(1).normal(0, 2, 20))
    found = ratio(2.0 * worlds, worlds)
    assert found.low == pytest.approx(2.0)
    assert found.high == pytest.approx(2.0)


def test_the_slope_of_a_power_is_its_exponent() -> None:
    x = np.array([1e3, 1e4, 1e5])
    found = slope(x, np.outer(np.ones(4), x**0.7))
    assert found.value == pytest.approx(0.7)
    assert replace(found).high == pytest.approx(0.7)
