"""Twin-UCB beside its twin: every estimate, radius and choice, round after round."""

from __future__ import annotations

import numpy as np
import pytest
from tests.naive.common import game, near
from tests.naive.forgetting import TwinFading
from tests.naive.twin import TwinUCB as NaiveTwin

import heavytail as ht
from heavytail.kernels.layout import INVERSE, RADIUS, THETA
from heavytail.policies.core.every_round import CONVERSION, JUDGE, SLOPES
from heavytail.policies.core.every_round import EVERY_ROUND as E
from heavytail.policies.core.noise_size import NOISE_SIZE as N
from heavytail.policies.core.practice import PRACTICE as P
from heavytail.policies.core.twin import OWN as S
from heavytail.policies.core.two_estimates import TWO, bulk_row


def facts(policy):
    """All that a choice hangs on, by name."""
    s, M = policy.packed
    at, size = bulk_row(M), M.shape[1]
    return {
        "mean": M[THETA],
        "bulk": M[at],
        "V": M[INVERSE : INVERSE + size],
        "U": M[policy._rows["tried_inverse"]],
        "conversion": M[at + CONVERSION],
        "judge": M[at + JUDGE],
        "slopes": M[at + SLOPES],
        "theta": policy.theta,
        "radii": s[[RADIUS, TWO.BULK_RADIUS, S.TRUSTED]],
        "conversion radius": s[E.CONVERSION_RADIUS] if s[E.ZEROS] > 0.0 else 0.0,
        "shift": s[S.SHIFT],
        "kappa": s[N.SIZE_FACTOR],
        "turn": s[[S.SHARE, S.DUE, S.AUDIT]],
        "held": s[S.HELD],
        "zeros": s[E.ZEROS],
        "tau": s[P.TAU],
        "unit": s[[P.UNIT, P.TYPICAL]],
    }


def expected(twin):
    begun = twin.typical is not None
    return {
        "mean": twin.theta_all,
        "bulk": twin.bulk_all,
        "V": twin.inverse_gram,
        "U": np.linalg.inv(twin.conversions.V),
        "conversion": twin.conversions.theta,
        "judge": twin.judge.theta,
        "slopes": twin.noise.by_x.theta,
        "theta": twin.theta,
        "radii": [
            twin.radius,
            twin.beta(0.45, twin.bulk_squares, twin.bulk_stability),
            twin.beta(0.12, twin.squares, twin.stability),
        ],
        "conversion radius": twin.conversion_radius if twin.zeros > 0.0 else 0.0,
        "shift": twin.shift,
        "kappa": twin.noise.kappa,
        "turn": [twin.share, twin.due, twin.audit],
        "held": twin.held,
        "zeros": twin.zeros,
        "tau": twin.tau,
        "unit": [twin.unit, twin.typical.value] if begun else [0.0, 0.0],
    }


def side_by_side(policy, twin, rounds, reward, stated=False, without=()):
    """Play both; every seventh round the arm played is not the one chosen."""
    for t, (arms, noise, scale) in enumerate(rounds):
        choice = policy.select(arms)
        assert choice == twin.choose(arms), f"round {t}: choice"
        x = arms[t % len(arms)] if t % 7 == 6 else arms[choice]
        paid = float(reward(t, x, noise))
        policy.update(x, paid, scale=scale)
        twin.learn(x, paid, scale)
        if t % 5 and t > 40:
            continue
        mine, yours = facts(policy), expected(twin)
        begun = twin.typical is not None
        for name, value in yours.items():
            if name in without or not (begun or name in ("V", "U", "judge", "conversion", "turn")):
                continue
            floor = twin.unit if name in ("mean", "bulk", "judge", "shift", "theta") else 1.0
            size = max(float(np.max(np.abs(value))), 1e-6 * floor)
            off = np.max(np.abs(np.asarray(mine[name]) - value))
            assert off <= 1e-7 * size, f"round {t}: {name}: {mine[name]} is not {value}"
        assert twin.rounds == policy.rounds
    x = arms[0]
    near(policy.conversion(x), twin.conversion(x), "conversion", 1e-7)
    near(policy.amount(x), twin.amount(x), "amount", 1e-7)
    return policy, twin


def linear(t, x, noise):
    return x @ np.linspace(0.7, -0.4, len(x)) + noise


def clicks(t, x, noise):
    return 2.5 * float(noise > 0.4 - x[0])


def rarely(t, x, noise):
    """Something in one round of five, more often along the first coordinate."""
    pays = (7 * t) % 10 < 2.0 + 2.0 * x[0]
    return 3.0 + x.sum() + noise if pays else 0.0


def later(t, x, noise):
    return 0.0 if t > 150 and t % 3 == 0 else linear(t, x, noise)


def offset(t, x, noise):
    return 1000.0 + linear(t, x, noise)


def unequal(t, x, noise):
    """The noise is ten times as large at one end."""
    return x[0] + noise * 10.0 ** x[0]


def doubted(t, x, noise):
    return 1e9 * (1.0 + t) if t < 4 else linear(t, x, noise)


def small_at_first(t, x, noise):
    return 1e-9 * (1.0 + t) if t < 4 else linear(t, x, noise)


def zero_first(t, x, noise):
    return 0.0 if t in (0, 2, 3, 9) else linear(t, x, noise)


def of_one_sign(t, x, noise):
    return abs(linear(t, x, noise)) + 0.1


def alike_at_first(t, x, noise):
    """Three of five alike at one end: ratings, say."""
    return [2.0, 1.0, 1.0, 3.0, 1.0][t] if t < 5 else linear(t, x, noise)


def jumps(t, x, noise):
    """Rewards that no unit may be made of, and one far off later."""
    return 1e200 * (1.0 + t) if t < 4 else 1e9 if t == 99 else linear(t, x, noise)


def one_far_off_at_first(t, x, noise):
    return 1e300 if t == 2 else linear(t, x, noise)


def rises(t, x, noise):
    """A level that becomes another one."""
    return linear(t, x, noise) + (1e7 if t >= 20 else 0.0)


LAWS = [linear, rarely, later, offset, unequal, zero_first, of_one_sign]
STARTS = [doubted, small_at_first, alike_at_first, jumps, one_far_off_at_first, rises]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_it_is_its_formulas(law, d):
    side_by_side(ht.TwinUCB(d), NaiveTwin(d), game(d, 300, noise=0.4), law)


@pytest.mark.parametrize("law", STARTS)
def test_its_start_is_its_formulas(law):
    policy, _ = side_by_side(ht.TwinUCB(2), NaiveTwin(2), game(2, 200, noise=0.4), law)
    s = policy.packed[0]
    assert 1.0 < s[P.UNIT] < 100.0
    assert (s[P.BEGAN] > 30.0) == (law in (doubted, small_at_first, jumps, rises))


@pytest.mark.parametrize("patience", [0.0, 20.0])
@pytest.mark.parametrize("law", [linear, rarely, clicks])
def test_patience_is_its_formula(law, patience):
    knobs = {"patience": patience}
    rounds = game(3, 300, noise=0.4, fixed=True)
    side_by_side(ht.TwinUCB(3, **knobs), NaiveTwin(3, **knobs), rounds, law)


@pytest.mark.parametrize("law", [linear, rarely, unequal])
def test_scales_and_the_length_of_arms_are_in_the_formulas(law):
    rounds = game(2, 300, length=2.5, noise=0.4, scales=True)
    policy, twin = ht.TwinUCB(2, arm_bound=2.5), NaiveTwin(2, arm_bound=2.5)
    side_by_side(policy, twin, rounds, law)


def test_a_stated_scale_is_where_the_typical_size_begins():
    policy, twin = ht.TwinUCB(2, tail=ht.MomentBound(2.0, 0.5)), NaiveTwin(2, scale=0.5)
    side_by_side(policy, twin, game(2, 300, noise=0.4), unequal)


@pytest.mark.parametrize("law", [linear, unequal])
def test_evidence_is_asked_from_the_150th_round_a_coordinate_on(law):
    policy, twin = ht.TwinUCB(1), NaiveTwin(1)
    side_by_side(policy, twin, game(1, 420, noise=0.4), law)
    assert twin.share != pytest.approx(min(3.0 * (twin.rounds - 3) ** (-1 / 3), 0.5), rel=1e-2)


@pytest.mark.parametrize("law", [linear, rarely, later, unequal, doubted])
@pytest.mark.parametrize(("forget", "d"), [(0.95, 1), (0.99, 2), (0.99, 5)])
def test_what_fades_is_its_formula(law, forget, d):
    policy, twin = ht.TwinUCB(d, forget=forget), TwinFading(d, forget=forget)
    side_by_side(policy, twin, game(d, 300, noise=0.4), law)


@pytest.mark.parametrize("zeros", [False, True])
def test_what_begins_anew_is_its_formula(zeros):
    policy, twin = ht.TwinUCB(2, forget="auto"), TwinFading(2, restarts=True)

    def law(t, x, noise):
        if zeros and t % 4 == 1:
            return 0.0
        return (1.0 if t <= 250 else -4.0) * float(x[0]) + noise + 2.0

    side_by_side(policy, twin, game(2, 600, noise=0.3), law)
    assert twin.changes >= 1
