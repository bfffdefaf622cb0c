"""A Decider's report says what is true, and says so where it cannot say."""

from __future__ import annotations

import math
import re
import time

import numpy as np
import pandas as pd
import pytest
from tests.decider.shops import SHARE, visits, worth

import heavytail as ht
from heavytail.decider.against import Against, _rounded_up
from heavytail.decider.choice import amount
from heavytail.decider.reporting import bounds, least, thirds

THEORY = re.compile(r"\b(bulk|believed|radius|arms?|regret|context vector)\b")
BAD = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shop() -> ht.Decider:
    return visits(1200)[0]


def test_the_report_adds_up(shop):
    report = shop.report()
    assert report.decisions == report.rewards == report.kept == 1200
    assert sum(line.visits for line in report.offers) == 1200
    assert sum(line.total for line in report.offers) == pytest.approx(report.total)
    assert sum(line.share for line in report.offers) == pytest.approx(1.0)
    assert report.mean == pytest.approx(report.total / 1200)
    assert 0.0 < report.lower < report.mean
    assert report.upper is None
    assert [line.value for line in report.segments] == ["new", "returning"] or {
        line.value for line in report.segments
    } == {"new", "returning"}
    assert sum(line.visits for line in report.segments) == 1200


def test_the_report_says_that_there_is_no_upper_bound(shop):
    assert "There is no upper bound" in str(shop.report())


def test_the_report_has_no_words_of_theory(shop):
    report, effects = shop.report(against="none"), shop.effects()
    said = [str(report), report._repr_html_(), str(effects), effects.table()]
    said += [str(shop.diagnostics()), str(report.against)]
    assert not any(THEORY.search(text) for text in said)


def test_rewards_of_a_log_are_not_own():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    rng = np.random.default_rng(0)
    log = {"sku": ["a", "b"] * 100, "x": rng.normal(size=200), "reward": rng.random(200)}
    shop.learn(log, progress=False)
    report = shop.report(against="a")
    assert report.rewards == report.kept == 0
    assert report.mean is None
    assert "no reward yet" in str(report)
    assert report.against.why == (
        "cannot be said: no decision has its reward yet. Visits of a log do not count: ht.compare "
        "reads the log."
    )
    report.plot()


def test_a_decided_comparison_is_right_and_names_its_bound():
    """'best' pays 10 more: a few hundred visits decide."""
    rng = np.random.default_rng(5)
    shop = ht.Decider([{"sku": "best"}, {"sku": "none"}], ids="sku", explore=0.4)
    for _ in range(800):
        choice = shop.decide()
        shop.reward(choice.token, float(rng.random() + 10.0 * (choice.id == "best")))
    report = shop.report(against="none")
    against, share = report.against, report.offers[0].share
    assert against.better is True
    assert 0.0 < against.lower < 10.0 * share < against.upper
    assert re.match(r"Against always 'none': \+\d\.\d\d a visit, at least \+", str(against))
    assert shop.report(against="best").against.better is False
    by_rule = shop.report(against=lambda context: "none").against
    assert by_rule.lower == against.lower
    assert str(by_rule).startswith("Against the rule: +")


def test_an_undecided_comparison_says_how_many_visits_more():
    shop, _ = visits(1200, seed=1)
    said = str(shop.report(against="none").against)
    assert re.match(
        r"Against always 'none': not decided yet, between -.* a visit \(95 %\)\. ", said
    )
    assert re.search(r"About [1-9]0*(,000)? more visits like these would decide it\.", said)


@pytest.mark.parametrize(
    ("more", "visits", "words"),
    [
        (4000, 1000, "About 4,000 more visits like these would decide it."),
        (6000, 1000, "not decide it for a long time: more than 5 times the 1,000 so far"),
        (None, 1000, "Visits like these would not decide it."),
    ],
)
def test_a_comparison_far_off_is_said_to_be_so(more, visits, words):
    against = Against("always 'none'", 1.0, -1.0, 3.0, 0.95, visits, more)
    assert words in str(against)


@pytest.mark.parametrize(
    ("count", "rounded"), [(0.0, 1), (1.0, 1), (7.2, 8), (651.0, 700), (1000.0, 1000), (1290, 2000)]
)
def test_visits_are_rounded_up_to_one_digit(count, rounded):
    assert _rounded_up(count) == rounded


def test_visits_too_few_to_compare_are_said_to_be_so():
    shop, _ = visits(40, explore=0.3)
    said = str(shop.report(against="none").against)
    assert re.search(
        r"not decided yet: the visits that showed what (only the rule would show|the rule would "
        r"not show) count like \d+, and 29 are needed\. About [\d,]+ more visits like these would "
        r"be enough to compare\.",
        said,
    )


def test_without_exploring_nothing_is_compared():
    shop, _ = visits(120, explore=0.0)
    said = str(shop.report(against="none").against)
    assert "cannot be said: no visit explores (explore=0)" in said
    assert "explore=0.05" in said


def test_a_rule_that_the_visits_could_not_follow_is_not_compared():
    shop, _ = visits(300, limits={"card": 10})
    assert "daily limit" in shop.report(against="card").against.why
    shop.retire("none")
    assert "is retired" in shop.report(against="none").against.why
    shop.add({"sku": "later"})
    assert "is new" in shop.report(against="later").against.why


def test_where_the_rules_bar_a_rules_offer_both_are_alike():
    shop, _ = visits(400, rules={"card": {"segment": ["new"]}})
    against = shop.report(against="card").against
    assert any("both are taken to be alike" in sentence for sentence in against.notes)


@pytest.mark.parametrize("against", [True, ["none"], None])
def test_what_is_no_rule_is_refused(shop, against):
    if against is None:
        assert shop.report(against=against).against is None
        return
    with pytest.raises(TypeError, match=r"Decider\.report: against must be an offer's id, or a"):
        shop.report(against=against)


def test_an_offer_that_is_not_there_is_refused_with_the_nearest(shop):
    with pytest.raises(KeyError, match="Did you mean 'none'"):
        shop.report(against="nome")
    with pytest.raises(KeyError, match="no offer has the id 'x'"):
        shop.report(against=lambda context: "x")
    with pytest.raises(ValueError, match=r"Decider\.report: level"):
        shop.report(level=1.0)


def test_an_error_in_a_rule_names_the_context(shop):
    with pytest.raises(ZeroDivisionError) as caught:
        shop.report(against=lambda context: 1 / 0)
    assert "segment" in caught.value.__notes__[0]


def test_a_shop_before_its_first_reward_has_a_report():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    shop.decide({"x": 1.0})
    report = shop.report(against="a")
    assert str(report).startswith("1 decision, and no reward yet.\n1 decision waits")
    report.plot()
    report._repr_html_()
    assert len(report.to_pandas()) == 2
    assert len(report.to_pandas("segments")) == 0


def test_a_shop_with_one_offer_no_context_and_rewards_of_0_has_a_report():
    shop = ht.Decider([{"sku": "a"}], ids="sku")
    for _ in range(120):
        shop.reward(shop.decide().token, 0.0)
    report = shop.report(against="a")
    assert "chose as the rule does in every visit" in report.against.why
    assert "Too little was paid for a bound above 0." in str(report)
    report.plot()
    assert "All 120 rewards are 0" in str(shop.diagnostics())


def test_numbers_that_are_missing_are_a_segment():
    shop = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    rng = np.random.default_rng(2)
    for i in range(90):
        x = (float(rng.normal()), None, float("nan"))[i % 3]
        shop.reward(shop.decide({"x": x}).token, float(rng.normal()))
    report = shop.report(against=lambda context: "a" if context["x"] is None else "b")
    (missing,) = (line for line in report.segments if line.value == "(missing)")
    assert missing.visits == 60
    assert report.approximate
    assert report.upper is not None
    assert "This is approximate" in str(report)
    assert "of the rewards are not 0." in str(report)
    assert "each bound by itself holds at about 95 %" in str(report)
    assert all(line.upper is not None for line in report.offers)


def test_an_offer_without_losses_has_the_bounds_of_a_shop_with_some():
    """Its rewards may be below 0, as those of the other are."""
    shop = ht.Decider([{"sku": "sure"}, {"sku": "odd"}], ids="sku", explore=1.0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        choice = shop.decide()
        shop.reward(choice.token, 1.0 + (rng.normal() if choice.id == "odd" else rng.random()))
    assert all(line.lower < line.mean < line.upper for line in shop.report().offers)
    losing = ht.Decider([{"sku": "sure"}], ids="sku")
    for _ in range(30):
        losing.reward(losing.decide().token, -1.0)
    assert "All rewards are equal." in losing.report().sentences


def test_prices_have_a_report():
    rng = np.random.default_rng(1)
    shop = ht.Decider(prices=ht.Grid(5, 50, 10), context=["segment"], explore=0.3)
    for _ in range(300):
        choice = shop.decide({"segment": ["a", "b"][rng.integers(2)]})
        price = float(choice.id)
        shop.reward(choice.token, price * float(rng.random() < np.exp(-price / 20.0)))
    report = shop.report(against="20")
    assert sum(line.visits for line in report.offers) == 300
    assert {line.best for line in report.segments} <= set(shop.offers)
    report.plot()
    along = shop.effects()
    assert [each.price for each in along.prices] == [float(name) for name in shop.offers]
    assert re.search(r"Most is expected at a price of \d+: [\d.]+ a visit \(", str(along))
    along.plot()


def test_every_text_is_escaped():
    shop = ht.Decider([{"sku": BAD}, {"sku": "b"}], ids="sku", context=["<i>", "x"])
    rng = np.random.default_rng(0)
    for i in range(400):
        choice = shop.decide({"<i>": [BAD, "u", "v"][i % 3], "x": float(i)})
        shop.reward(choice.token, float(rng.random() + 5.0 * (choice.id == BAD) * (i % 3)))
    choice = shop.decide({"<i>": "<b>new</b>", "x": 1.0})
    assert choice.unknown
    shown = [shop, shop.report(against=BAD), shop.effects(), choice, shop.diagnostics(),
             shop.explain({"<i>": "u", "x": 1.0})]  # fmt: skip
    for each in shown:
        text = each._repr_html_()
        assert "<script" not in text
        assert "<b>" not in text
        assert "<i>" not in text
        assert "src=" not in text
        assert "href=" not in text
    assert any("&lt;script&gt;" in each._repr_html_() for each in shown)
    shop.report().plot().savefig("/dev/null", format="png")


def test_unknown_categories_are_named():
    shop, _ = visits(200)
    for _ in range(60):
        shop.decide({"segment": "lapsed"})
    assert "in segment: 'lapsed' (60)." in str(shop.report())
    assert "most often 'lapsed'" in str(shop.diagnostics())
    assert "60 decisions wait for their reward" in str(shop.report())


def test_frames_have_a_row_for_each_line(shop):
    report = shop.report()
    frame = report.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["id"]) == set(SHARE)
    assert list(report.to_pandas("segments").columns)[:3] == ["column", "value", "visits"]
    with pytest.raises(ValueError, match=r"Report\.to_pandas: of"):
        report.to_pandas("offer")


def test_a_report_of_a_loaded_shop_is_the_same(shop, tmp_path):
    shop.save(str(tmp_path / "shop.npz"))
    again = ht.load(str(tmp_path / "shop.npz"))
    assert str(again.report(against="none")) == str(shop.report(against="none"))


def test_a_report_changes_nothing(shop):
    before = {name: array.copy() for name, array in shop.state_arrays().items()}
    shop.report(against="none").plot()
    shop.effects()
    shop.diagnostics()
    for name, array in shop.state_arrays().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    ("values", "count"),
    [([1.0, 2.0, 1.0], 2), ([0.0] * 9 + [1.0, 2.0, 3.0], 2), (list(range(9)), 3), ([np.nan], 0)],
)
def test_thirds_cover_every_number_once(values, count):
    array = np.array(values, dtype=float)
    groups = thirds(array)
    assert len(groups) == count
    inside = sum(np.asarray(group, dtype=int) for _, group in groups)
    assert np.all(inside == np.isfinite(array))
    assert all(np.any(group) for _, group in groups)


def test_few_rewards_have_no_bound():
    assert bounds(np.ones(19), 0.95) == (None, None, False)
    low, high, approximate = bounds(np.ones(60), 0.95)
    assert 0.3 < low < 1.0
    assert high is None
    assert not approximate


def test_a_bound_is_below_the_mean_where_rewards_grow():
    """As they do while a Decider learns: bets that follow the rewards would be too high."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        means = np.repeat([1.0, 1.5, 2.0, 6.0], 150)
        rewards = means * rng.exponential(size=600)
        low = least(rewards, 0.5)
        assert low < rewards.mean()
        wrong += low > means.mean()
    assert wrong <= 100 + 3 * 7
    assert least(1e-250 * rewards, 0.95) == pytest.approx(1e-250 * least(rewards, 0.95))
    assert least(1e80 * rewards, 0.95) == pytest.approx(1e80 * least(rewards, 0.95))
    tiny = np.concatenate([[5e-324], 1e100 * rewards])
    assert 0.0 <= least(tiny, 0.95) < tiny.mean()
    assert least(np.array([0.0, 3.0]), 0.95) == least(np.zeros(3), 0.95) == 0.0


@pytest.mark.slow
def test_bounds_of_simulated_shops_err_at_most_at_their_level():
    """200 shops that learn: the bound of all visits, those of each offer, and the comparison with
    "none". Measured: none of 200, 600 and 200 bounds errs.
    """
    wrong = np.zeros(3)
    total = np.zeros(3)
    for seed in range(200):
        shop, seen = visits(300, seed, explore=0.6)
        report = shop.report(against="none")
        truth = np.array([worth(*visit) for visit in seen])
        offers = np.array([offer for offer, _ in seen])
        rule = np.array([worth("none", segment) for _, segment in seen])
        wrong[0] += report.lower > truth.mean()
        total[0] += 1
        for line in report.offers:
            if line.lower is not None:
                wrong[1] += line.lower > truth[offers == line.id].mean()
                total[1] += 1
        against = report.against
        if against.lower is not None:
            wrong[2] += not against.lower <= truth.mean() - rule.mean() <= against.upper
            total[2] += 1
    print(wrong / total, total)
    assert np.all(total > 100)
    assert np.all(wrong / total <= 0.05)


def sells(
    days: int, seed: int = 0, per_day: int = 150
) -> tuple[ht.Decider, dict[str, float], float]:
    """A shop in which one visit of ten buys, at once, and silence is closed after a week; what each
    visit earned, by its token, and the time.
    """
    made = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", explore=0.5, seed=seed)
    made.close_after("7 days", reward=0.0)
    rng, began, earned = np.random.default_rng(seed), time.time(), {}
    for i in range(days * per_day):
        choice = made.decide(now=began + i * 86400.0 / per_day)
        earned[choice.token] = 0.0
        if rng.random() < 0.1:
            earned[choice.token] = float(5.0 + 5.0 * rng.exponential())
            made.reward(choice.token, earned[choice.token])
    return made, earned, choice.time


@pytest.mark.parametrize("loads", [False, True])
def test_visits_count_once_others_of_their_time_are_closed(loads, tmp_path):
    made, earned, now = sells(20)
    if loads:
        made.save(tmp_path / "shop.ht")
        made = ht.load(tmp_path / "shop.ht")
    report = made.report(against="a")
    assert report.kept == pytest.approx(13 * 150, abs=2)
    counted = np.array([*earned.values()][: report.kept])  # those of the first 13 days
    assert report.mean == pytest.approx(np.mean(counted))
    assert report.paid == pytest.approx(np.mean(counted > 0.0))
    assert report.lower < 1.0
    assert sum(line.visits for line in report.offers) == report.kept
    assert report.uncounted == sum(value > 0.0 for value in [*earned.values()][report.kept :])
    assert f"{report.uncounted} rewards of new visits count only in the total yet" in str(report)
    assert "has changed" not in str(made.diagnostics())
    assert report.against.better is None
    made.close(now=now + 8 * 86400.0)
    assert made.report().uncounted == 0
    assert made.report().mean == pytest.approx(np.mean([*earned.values()]))


def test_nothing_is_said_of_visits_that_are_all_too_new():
    made, earned, _ = sells(6)
    report = made.report(against="a")
    assert report.mean is report.lower is None
    assert report.rewards == report.uncounted == sum(value > 0.0 for value in earned.values())
    assert report.against.why == "cannot be said: all visits are so new that others still wait."
    assert "no reward yet" not in str(report)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_order_in_which_rewards_come_says_nothing(sign):
    rng = np.random.default_rng(4)
    made = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", explore=0.5, seed=4)
    for day in range(6):
        choices = [made.decide(now=1e6 + 86400.0 * day + i) for i in range(300)]
        values = 5.0 + 5.0 * rng.exponential(size=300)
        order = np.argsort(sign * values)
        made.reward([choices[i].token for i in order], [float(values[i]) for i in order])
    assert "has changed" not in str(made.diagnostics())


@pytest.mark.parametrize("seed", range(5))
def test_the_least_mean_is_that_of_the_mixture_written_out(seed):
    rng = np.random.default_rng(seed)
    rewards = (rng.random(300) < 0.4) * rng.pareto(1.6, 300)
    level = (0.5, 0.9, 0.95, 0.99, 0.999)[seed]
    first = next(i for i, reward in enumerate(rewards) if reward > 0.0)
    rest = [float(reward) for reward in rewards[first + 1 :]]
    bets = [2.0**k for k in range(-24, 7)]
    shares = [(1.0 + abs(k + 3)) ** -2.0 for k in range(-24, 7)]

    def wealth(mean: float) -> float:
        total = 0.0
        for bet, share in zip(bets, shares, strict=True):
            unit = bet / float(rewards[first])
            logs = math.fsum(math.log1p(unit * reward) for reward in rest)
            total += share * math.exp(logs - len(rest) * math.log1p(unit * mean))
        return total / sum(shares)

    mean = least(rewards, level) * len(rewards) / len(rest)
    assert wealth(mean) == pytest.approx(1.0 / (1.0 - level), rel=1e-6)


def test_rewards_far_below_0_have_a_report():
    made = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["x"])
    for i in range(40):
        made.observe({"x": 1.0}, "a", -1e101 if i == 39 else 1.0, selected=True)
    assert made.report().lower < -1e97


def test_amounts_are_for_people():
    values = [0.0, 0.00123, 2.346, 12_345_678.9, -1234.5]
    assert [amount(value) for value in values] == ["0", "0.00123", "2.35", "12,345,679", "-1,234"]
    assert amount(-5.78e-15, 300.0) == "0"
    assert amount(5.78e-15, 1e-14) == "5.78e-15"
