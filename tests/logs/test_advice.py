"""A sentence is said where a test at its level says so, and not by chance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.logs.drawing import draw
from tests.naive import logs as naive

import heavytail as ht
from heavytail.logs import DM, SNIPS, Betting
from heavytail.logs.advice import _about_order, explored, half_rows, log_wealth
from heavytail.logs.means import _side
from heavytail.logs.reading import chunks
from heavytail.logs.sketch import Sketch
from heavytail.logs.summary import Plan, summarise
from heavytail.logs.target import Target

HALF = "Half of all gains and losses together"


def always_one(n):
    return np.tile([0.0, 1.0], (n, 1))


def two_actions(rng, p, reward, factor=1.0):
    """A log that plays action 1 with probability ``p``, which differs by row."""
    action = (rng.random(len(p)) < p).astype(int)
    propensity = factor * np.where(action == 1, p, 1.0 - p)
    return {"action": action, "reward": reward, "propensity": np.minimum(propensity, 1.0)}


def said(log, words, **kw):
    advice = ht.evaluate(log, always_one(len(log["action"])), bound=None, **kw).advice
    return any(words in sentence for sentence in advice)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("mean", [1.0, 0.6])
def test_the_wealth_of_bets_on_the_mean_weight_is_its_twins(mean, side):
    rng = np.random.default_rng(0)
    w = rng.choice([0.0, 0.5, 2.0, 3.0], 400)
    for shift in (0.3, 0.8, 1.0, 1.2, 2.0):
        moved = w * (mean / w.mean()) * shift
        wealth = log_wealth(Sketch(moved), mean, side)
        assert wealth == pytest.approx(naive.log_wealth(moved, mean, side))
        if abs(shift - 1.0) > 0.5:  # far enough to be proved; and never on the wrong side
            assert (wealth > math.log(2000.0)) == (side * (shift - 1.0) > 0.0)
    assert log_wealth(Sketch(w), 0.0, side) == 0.0  # nothing that the target plays is in the log


def test_the_wealth_in_cells_is_from_below():
    w = np.random.default_rng(1).uniform(0.5, 1.5, 3000) * 1.2
    for side in (1.0, -1.0):
        exact, binned = (log_wealth(Sketch(w, limit=n), 1.0, side) for n in (3000, 10))
        assert binned < exact
        assert binned == pytest.approx(exact, rel=1e-2)


def test_right_propensities_are_hardly_ever_called_wrong_and_wrong_ones_mostly_are():
    """Weights of index 2 and of index 1.5: 60 logs each, of which the normal law called several."""
    rng = np.random.default_rng(2)
    for power in (1.0, 2.0):
        for _ in range(60):
            p = rng.random(1000) ** power
            assert not said(two_actions(rng, p, np.ones(1000)), "mean weight")
    wrong = sum(
        said(two_actions(rng, np.full(1000, 0.5), np.ones(1000), factor), "mean weight")
        for factor in (0.8, 1.25)
        for _ in range(20)
    )
    assert wrong >= 38


def test_what_the_log_could_not_play_is_counted_where_its_probabilities_are_known():
    """In a fifth of the rows action 1 has probability 0, and the log says so."""
    n = 500
    p = np.where(np.arange(n) % 5 == 0, 0.0, 0.5)
    log = two_actions(np.random.default_rng(3), p, np.ones(n))
    known = {**log, "probabilities": np.column_stack([1.0 - p, p])}
    found = ht.evaluate(known, always_one(n))
    assert found.unsupported == ()
    assert found.unsupported_share == pytest.approx(0.2)
    assert found.propensities_ok  # 0.8 is what it should be
    assert "With probability 20.0% the target plays what the log could not play" in found.advice[0]
    half = ht.evaluate(known, np.full((n, 2), 0.5))
    assert half.unsupported_share == pytest.approx(0.1)
    blind = ht.evaluate(known, always_one(n), propensities=log["propensity"])
    assert blind.unsupported_share == 0.0
    wider = np.column_stack([always_one(n), np.zeros(n)])  # an arm that is not played
    assert ht.evaluate(known, wider).unsupported_share == pytest.approx(0.2)
    never = {**known, "action": np.zeros(n, int), "propensity": 1.0 - p}
    found = ht.evaluate(never, always_one(n))
    assert (found.unsupported, found.unsupported_share) == ((1,), pytest.approx(1.0))


def test_a_known_lack_of_support_does_not_hide_wrong_propensities():
    n = 2000
    p = np.where(np.arange(n) % 5 == 0, 0.0, 0.5)
    log = two_actions(np.random.default_rng(4), p, np.ones(n))
    both = np.column_stack([1.0 - p, p])
    assert ht.evaluate({**log, "probabilities": both}, always_one(n)).propensities_ok
    few = {**log, "action": np.where(np.arange(n) % 3 == 0, 0, log["action"])}
    few["propensity"] = both[np.arange(n), few["action"]]
    assert not ht.evaluate({**few, "probabilities": both}, always_one(n)).propensities_ok


@pytest.mark.parametrize("limit", [2**17, 10])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_rows_with_half_of_the_sum_are_counted(power, limit):
    x = np.random.default_rng(5).standard_t(1.5, 3000)
    size = np.sort(np.abs(x))[::-1] ** power
    expected = int(np.argmax(np.cumsum(size) >= 0.5 * size.sum())) + 1
    sign = np.sign(x[np.argsort(-np.abs(x))])[:expected]
    rows, side = half_rows(Sketch(x, limit=limit), power)
    assert rows == pytest.approx(expected, rel=0.02)  # in cells nearly
    assert side == pytest.approx(np.sum(sign * size[:expected]) / size[:expected].sum(), abs=0.02)
    assert half_rows(Sketch(np.abs(x)), power) == (expected, 1.0)
    assert half_rows(Sketch(-np.abs(x)), power) == (expected, -1.0)


def test_half_of_nothing_is_in_no_row_and_of_equal_ones_in_half():
    assert half_rows(Sketch(np.zeros(5))) == (0, 0.0)
    assert half_rows(Sketch(np.empty(0))) == (0, 0.0)
    assert half_rows(Sketch(np.full(7, 1e-160)), 2.0) == (4, 1.0)
    assert half_rows(Sketch(np.array([3.0, 1.0, 1.0, 1.0]))) == (1, 1.0)


def test_no_sentence_claims_a_law_that_rows_cannot_show():
    """Exponentials of which 2 % are 40 times as large have all moments."""
    rng = np.random.default_rng(7)
    half = np.full(2000, 0.5)
    for _ in range(10):
        large = np.where(rng.random(2000) < 0.02, 40.0, 1.0)
        log = two_actions(rng, half, large * rng.exponential(size=2000))
        assert not said(log, "infinite")
        found = ht.evaluate(log, always_one(2000), bound=None)
        x = np.sort((log["action"] * log["reward"]) ** 2)[::-1]
        k = found.square_rows
        assert x[: k - 1].sum() < 0.5 * x.sum() <= x[:k].sum()
        assert said(log, "half of the sum of squares") == (k < 10)


def test_what_few_rows_carry_is_said_with_its_side():
    rng = np.random.default_rng(9)
    usual = rng.uniform(0.5, 1.5, 400)
    few = np.where(np.arange(400) % 100 == 0, 200.0, usual)
    many = np.where(np.arange(400) % 10 == 0, 20.0, usual)
    log = {"action": np.zeros(400, int), "propensity": np.ones(400)}

    def advice(reward, bound=None):
        found = ht.evaluate({**log, "reward": reward}, np.ones((400, 1)), bound=bound)
        return " ".join(found.advice)

    words = "is in 3 of the 400 rows: if there are larger {}, too rare for this log, the value lies"
    assert words.format("gains") + " low." in advice(few, Betting(0.0, 201.0))
    for sign, ends in ((1.0, (0.0, 200.0)), (-1.0, (-200.0, 0.0))):  # there are no larger ones
        assert f"{HALF} is in 3 of the 400 rows." in advice(sign * few, Betting(*ends))
    assert words.format("gains") + " low." in advice(few)
    assert words.format("losses") + " high." in advice(-few)
    mixed = np.where(np.arange(400) % 200 == 0, -few, few)
    assert f"{HALF} is in 3 of the 400 rows." in advice(mixed)
    assert HALF not in advice(many)
    assert HALF not in advice(np.zeros(400))
    assert "3 rows have half of the sum of squares" in advice(few)
    for large, told in ((17, True), (19, False)):  # 9 of them have half, and 10
        equal = np.where(np.arange(400) < large, 200.0, usual)
        assert ("rows have half of the sum of squares" in advice(equal)) == told
    once = np.where(np.arange(400) == 7, 2000.0, usual)
    assert "1 row has half of the sum of squares" in advice(once)
    capped = ht.evaluate({**log, "reward": once}, np.ones((400, 1)), bound=Betting(0.0, 3000.0))
    assert "sum of squares" not in " ".join(capped.advice)


def test_few_rows_are_called_few_and_policies_different_only_where_they_are():
    alike = {"action": np.zeros(50, int), "reward": np.ones(50), "propensity": np.ones(50)}
    [sentence] = ht.evaluate(alike, np.ones((50, 1))).advice
    assert sentence == "The 50 rows are worth 50 of the target's own."
    apart = draw(1, n=600, arm=9)
    words = " ".join(ht.evaluate(apart.log, apart.target).advice)
    assert "the two policies differ much. Log with more exploration." in words


@pytest.mark.parametrize(("arms", "rows"), [(40, 2_000), (3, 300)])
@pytest.mark.parametrize("propensities", [None, "frequencies"])
def test_more_rows_are_what_a_log_of_even_draws_lacks(arms, rows, propensities):
    rng = np.random.default_rng(2)
    action = rng.permutation(np.arange(rows) % arms)[: rows - rows // 50]
    n = len(action)
    log = {"action": action, "reward": rng.gamma(2.0, size=n), "propensity": np.full(n, 1.0 / arms)}
    target = np.tile(np.eye(arms)[1], (n, 1))
    known = " ".join(ht.evaluate(log, target, propensities=propensities).advice)
    assert "the two policies differ much. Log more rows." in known
    own = {**log, "target": np.where(action == 1, 1.0, 0.0)}
    blind = " ".join(ht.evaluate(own, propensities=propensities).advice)
    assert "differ much. Log more rows, or with more exploration." in blind


def test_even_draws_are_of_the_arms_on_offer_and_exploring_helps_where_one_is_rare():
    rng = np.random.default_rng(3)
    action = rng.integers(2, size=150)
    arms = np.full((150, 40, 1), np.nan)  # two on offer, of 40 in another row
    arms[:, :2], arms[0] = 1.0, 1.0
    log = {"action": action, "reward": np.ones(150), "arms": arms, "propensity": np.full(150, 0.2)}
    target = np.tile(np.eye(40)[1], (150, 1))
    assert explored(summary_of(log, target)) is False
    assert explored(summary_of({**log, "propensity": np.full(150, 0.45)}, target)) is True
    soft = np.tile(np.append([0.5, 0.5], np.zeros(38)), (150, 1))
    assert explored(summary_of({**log, "propensity": np.full(150, 0.45)}, soft)) is True
    assert explored(summary_of({**log, "propensity": np.full(150, 0.2)}, soft)) is False


def summary_of(log, target):
    [rows] = chunks(log)
    return summarise(rows, Target(target), Plan(SNIPS(), None))


def test_an_action_that_the_log_never_has_is_named_and_reads_as_no_count():
    log = {"action": np.ones(300, int), "reward": np.ones(300), "propensity": np.full(300, 0.5)}
    for target, words in (
        ([0.5, 0.5], "plays an action that the log never has (action 0), with probability 50.0%"),
        ([0.3, 0.5, 0.2], "plays actions that the log never has (actions 0, 2), with probability"),
    ):
        advice = ht.evaluate(log, np.tile(target, (300, 1))).advice
        assert any(words in sentence for sentence in advice)
        pays = "they pay" if "actions" in words else "it pays"
        assert any(f"what {pays} cannot be known" in sentence for sentence in advice)


def offset(seed, odds=0.1, truth=0.1):
    """Rewards of 5 and a little noise, of two actions; the second one's logged odds and its own."""
    rng = np.random.default_rng(seed)
    action = (rng.random(300) < truth).astype(int)
    reward = 5.0 + 0.1 * rng.standard_normal(300)
    return {
        "action": action,
        "reward": reward,
        "propensity": np.where(action == 1, odds, 1.0 - odds),
    }


@pytest.mark.parametrize("seed", [11112, 11177, 11437])
@pytest.mark.parametrize("mean", ["huber", "plain"])
def test_a_bound_is_no_better_guess_where_nothing_was_clipped(seed, mean):
    found = ht.evaluate(offset(seed), always_one(300), estimator=SNIPS(mean=mean))
    assert max(found.value, found.plain) < found.lower > 5.05
    words = " ".join(found.advice)
    assert "better guess" not in words
    assert f"lies below its own lower bound, {found.lower:.4g}: either it is too low, or" in words
    assert "one of the at most 5% of logs" in words
    assert f"A mean weight of {found.mean_weight[0]:.3g} raises the bound" in words


def test_nothing_is_said_of_a_bound_that_rests_on_wrong_propensities():
    found = ht.evaluate(offset(0, 0.3, 0.5), always_one(300))
    assert found.value < found.lower
    [sentence] = found.advice
    assert sentence.endswith("Trust nothing here before that is explained.")


@pytest.mark.parametrize(
    ("mean", "words"),
    [("huber", "clipped"), ("catoni", "clipped"), ("median-of-means", "count in part, or not at")],
)
def test_a_bound_is_the_better_guess_where_clipping_took_what_is_missing(mean, words):
    found = ht.evaluate(offset(0), always_one(300), estimator=SNIPS(mean=mean))
    below = replace(found, value=4.0, plain=4.6, lower=4.5, propensities_ok=True)
    [sentence] = _about_order(below)
    assert "lies below its own lower bound, 4.5, which is the better guess: a few" in sentence
    assert words in sentence
    assert "better guess" not in _about_order(replace(below, plain=4.4))[0]
    stated = replace(below, plain=4.4, interval="catoni")
    assert "too low, or the stated moment is wrong, or" in _about_order(stated)[0]
    for fine in ({"lower": None}, {"value": 4.7}, {"propensities_ok": False}):
        assert _about_order(replace(below, **fine)) == []


def test_frequencies_are_not_said_to_hide_what_the_mean_weight_shows():
    rng = np.random.default_rng(1)
    x = rng.integers(2, size=4_000)
    action = np.where(rng.random(4_000) < 0.9, x, 1 - x)
    log = {"action": action, "reward": rng.gamma(2.0, 0.5, 4_000), "context": x[:, None] * 1.0}

    def looking(rows):
        return np.eye(2)[np.asarray(rows.context)[:, 0].astype(int)]

    found = ht.evaluate(log, looking, propensities="frequencies")
    assert found.mean_weight[0] > 1.7
    assert "show it only for a target that looks at the context, too." in found.advice[0]
    assert found.advice[1].startswith("The mean weight is 1.8 and cannot be above 1")
    assert len(found.advice) == 2
    blind = ht.evaluate(log, always_one(4_000), propensities="frequencies")
    assert blind.mean_weight[0] == pytest.approx(1.0)
    assert blind.propensities_ok


def test_the_mean_weight_is_printed_with_what_its_test_says():
    right = ht.evaluate(draw(1).log, draw(1).target)
    assert right.propensities_ok
    assert "; approximate; a test finds nothing wrong)" in str(right)
    assert "should be 1" not in str(right)
    assert "; should be 1)" in str(ht.evaluate(offset(0, 0.3, 0.5), always_one(300)))
    bare = {"action": np.zeros(9, int), "reward": np.ones(9)}
    model = ht.evaluate(bare, np.ones((9, 1)), estimator=DM(lambda rows: np.ones((9, 1))))
    assert "mean weight      none: no propensities" in str(model)


def clipped(reward, mean="huber"):
    """The value, and what is said of the rows that count in part; the target plays all."""
    n = len(reward)
    log = {"action": np.zeros(n, int), "reward": reward, "propensity": np.ones(n)}
    found = ht.evaluate(log, np.ones((n, 1)), estimator=SNIPS(mean=mean), bound=None)
    return found, " ".join(sentence for sentence in found.advice if "count in part" in sentence)


def test_what_clipping_takes_is_said_beside_the_value():
    reward = np.random.default_rng(8).uniform(0.5, 1.5, 400)
    reward[7] += 4e5 - reward.sum()
    found, words = clipped(reward)
    assert found.plain == pytest.approx(reward.mean())
    assert words.endswith("in full, the mean is 1000, and hangs on them.")  # one row has no side
    full, words = clipped(reward, mean="plain")
    assert (full.value, words) == (full.plain, "")
    assert clipped(np.where(reward > 2.0, 30.0, reward))[1] == ""


def test_a_side_is_named_only_where_nearly_all_large_rows_stand_on_it():
    rng = np.random.default_rng(21)
    skewed = 0
    for _ in range(30):
        reward = rng.pareto(1.05, 2000) + 0.1
        for sign, side in ((1.0, "low"), (-1.0, "high")):
            words = clipped(sign * reward)[1]
            assert "lies" not in words or f"in part lies {side}: nearly all" in words
            skewed += "lies" in words
        assert "lies" not in clipped(rng.standard_t(1.1, 2000) + 0.3)[1]
    assert skewed >= 20


def test_the_side_of_large_rows_is_that_of_a_sign_test():
    """By the binomial law, of which Chernoff's bound is a little stricter."""
    for rows in range(1, 60):
        for most in range((rows + 1) // 2, rows + 1):
            chance = 2.0 * sum(math.comb(rows, k) for k in range(most, rows + 1)) / 2.0**rows
            side = _side(float(most), float(rows - most))
            assert side == -_side(float(rows - most), float(most)) or most == rows - most
            assert side in (0.0, 1.0)
            if side:
                assert chance <= 0.001
                assert most >= 0.9 * rows
            elif most >= 0.9 * rows:
                assert chance > 0.0001
    assert (_side(11.0, 0.0), _side(10.0, 0.0), _side(0.0, 0.0)) == (1.0, 0.0, 0.0)


def test_where_nothing_was_paid_there_is_doubt():
    log = {"action": np.zeros(300, int), "reward": np.zeros(300), "propensity": np.ones(300)}
    for bound in ("betting", Betting(0.0, 1.0), None):
        [sentence] = ht.evaluate(log, np.ones((300, 1)), bound=bound).advice
        assert sentence.startswith("No row with an action of the target's paid anything")
    paid = {**log, "reward": np.ones(300)}
    assert "no reason for doubt" in ht.evaluate(paid, np.ones((300, 1))).advice[0]


@pytest.mark.parametrize(
    ("law", "says"),
    [("uniform", "Weights, support and tail give no"), ("t", "Whether the variance is finite")],
)
def test_the_tail_is_named_only_where_its_index_is_above_2(law, says):
    rng = np.random.default_rng(5)
    drawn = {"uniform": rng.uniform(1.0, 2.0, 3_000), "t": 30.0 + rng.standard_t(1.8, 3_000)}
    log = {"action": np.zeros(3_000, int), "reward": drawn[law], "propensity": np.ones(3_000)}
    evaluation = ht.evaluate(log, np.ones((3_000, 1)), bound=None)
    assert says in evaluation.advice[-1]
    assert (evaluation.tail.low > 2.0) == (law == "uniform")


def test_a_low_mean_weight_is_no_proof_while_larger_weights_may_be_missing():
    """With right propensities: without a row of the rare kind it is said that rows may be missing,
    and once the log has the largest weight there can be it is not said.
    """
    rng = np.random.default_rng(22)
    p = np.where(np.arange(1000) < 600, 0.99, 0.002)
    some = none = 0
    for _ in range(150):
        log = two_actions(rng, p, np.ones(1000))
        rare = bool(np.any((p < 0.5) & (log["action"] == 1)))
        told = said(log, "mean weight")
        some, none = some + (told and rare), none + (told and not rare)
        assert not told or said(log, "Either rows of larger weight than any of this log's")
    assert some == 0
    assert none >= 30


def test_no_side_is_named_where_most_large_rows_stand_on_the_other():
    """Hundred gains, and one loss that outweighs them: what counts in part is the loss."""
    reward = np.random.default_rng(23).uniform(-1.0, 1.0, 2000)
    reward[:100], reward[100] = 60.0, -4000.0
    found, words = clipped(reward)
    assert found.plain < found.value
    assert words.endswith("hangs on them.")


def test_a_reward_of_zero_is_no_limit_that_was_stated():
    reward = np.where(np.arange(400) < 3, -200.0, -1.0 * (np.arange(400) % 2))
    found, _ = clipped(reward)
    assert "if there are larger losses" in " ".join(found.advice)
