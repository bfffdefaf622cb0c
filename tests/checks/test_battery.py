"""How a battery fails: every failure named, the first foreign error kept, refusals with reasons."""

from __future__ import annotations

import pytest

import heavytail as ht
from heavytail.checks import CheckFailed
from heavytail.checks.battery import refused, run


def failing(error):
    """A check, or a call, that ends with ``error``."""

    def act(*subject):
        raise error

    return act


def test_one_failure_stands_alone_and_two_are_counted():
    checks = {name: failing(CheckFailed(f"is {name}")) for name in ("odd", "late")}
    with pytest.raises(CheckFailed) as found:
        run(checks, 7, skip=["late"])
    assert str(found.value) == "odd: 7 is odd"
    assert found.value.__cause__ is None
    with pytest.raises(CheckFailed) as found:
        run(checks, 7, skip=[])
    assert str(found.value) == "2 checks failed.\nodd: 7 is odd\nlate: 7 is late"


def test_the_first_error_that_is_no_failure_is_its_cause():
    first, second = KeyError("first"), OSError("second")
    checks = {"a": failing(CheckFailed("is a")), "b": failing(first), "c": failing(second)}
    with pytest.raises(CheckFailed) as found:
        run(checks, 7, skip=[])
    assert found.value.__cause__ is first
    assert found.value.failures["c"] == "raises OSError: second"


def test_a_refusal_says_why_and_changes_nothing():
    policy = ht.OFUL(2, noise_scale=1.0)

    def learn_and_refuse():
        policy.update([1.0, 0.0], 1.0)
        raise ValueError("the reward is of another kind")

    refused(policy, failing(ValueError("the reward is no number")), "this")
    with pytest.raises(CheckFailed, match=r"refuses this without saying why: ValueError\('no'\)"):
        refused(policy, failing(ValueError("no")), "this")
    with pytest.raises(CheckFailed, match="answers this with KeyError: 'x'"):
        refused(policy, failing(KeyError("x")), "this")
    with pytest.raises(CheckFailed, match="accepts this"):
        refused(policy, lambda: None, "this")
    with pytest.raises(CheckFailed, match="refuses this but has changed its state"):
        refused(policy, learn_and_refuse, "this")
