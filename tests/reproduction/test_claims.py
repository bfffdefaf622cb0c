"""The paper's claims: judged from results by the rule beside them; all verdicts can come out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from heavytail.experiments.claim import FEW, HOLDS, MISSING, NOT, OPEN, PART, Part, Verdict
from heavytail.experiments.experiment import Request
from heavytail.experiments.stats import Interval
from heavytail.experiments.tune import Tuned
from heavytail.experiments.unit import Trials
from heavytail.reproduction import claims
from heavytail.reproduction.catalogue import SETTINGS
from heavytail.reproduction.claims import CLAIMS, FIVE
from heavytail.reproduction.cost import IN_TURNS, NOISES, SOLVERS
from heavytail.reproduction.coverage import Share
from heavytail.reproduction.growth import ENVIRONMENTS, OURS, PAPERS
from heavytail.reproduction.protocol import TUNED, VARIANTS, policy_names
from heavytail.reproduction.reproduce import EXPERIMENTS, _write_verdicts

BY_NAME = {claim.name: claim for claim in CLAIMS}
LEVEL = ("noise-level", "Hvt-UCB", "tuned")


def settings(means: dict[str, float], truncated: float = 0.1) -> dict[Any, Any]:
    """Every setting alike: each policy's regret is its mean times the same draws' factors."""
    factors = np.random.default_rng(0).uniform(0.9, 1.1, 20)
    found = {}
    for setting in SETTINGS:
        for policy in FIVE:
            regret = np.stack([means[policy] * factors] * 2, axis=1)
            share = np.full(20, truncated if policy == "CRTM" else np.nan)
            for variant in VARIANTS:
                trials = Trials((), {"regret": regret, "truncated": share})
                found[setting.name, policy, variant] = trials
    return found


def speeds(ratio: float, **others: float) -> dict[Any, Any]:
    """HEAVY-OFUL so many times slower with every solver under both noises, or as named."""
    by_solver = {solver: others.get(solver, ratio) for solver in SOLVERS}
    times = {f"HEAVY-OFUL ({s})": np.full(5, by_solver[s]) for s in IN_TURNS}
    found: dict[Any, Any] = {
        ("speedup", noise, s): {"ratio": by_solver[s]}
        for noise in NOISES
        for s in SOLVERS
        if s not in IN_TURNS
    }
    return {**found, **{("cost", noise): {"Hvt-UCB": np.ones(5), **times} for noise in NOISES}}


def extras(good: bool) -> dict[Any, Any]:
    """What the other experiments give when they meet every rule, or none."""
    sharp = Interval(0.3, 0.2, 0.4) if good else Interval(1.5, 1.4, 1.6)
    grow = Interval(1.0, 0.9, 1.1) if good else Interval(0.1, 0.0, 0.2)
    cost = SimpleNamespace(
        seconds=np.full(5, 1e-6), time_slope=0.0 if good else 0.9, bytes_slope=0.0
    )
    quick = SimpleNamespace(**{**vars(cost), "seconds": np.full(5, 5e-7 if good else 2e-5)})
    quickest = SimpleNamespace(**{**vars(cost), "seconds": np.full(5, 3e-7 if good else 3e-5)})
    newton = SimpleNamespace(seconds=None, time_slope=1.0 if good else 0.0, bytes_slope=1.0)
    share = Share(1000 if good else 500, 1000, 0.999)
    return {
        **speeds(900.0 if good else 3.0),
        ("cost", "Hvt-UCB"): cost,
        ("cost", "OFUL"): quick,
        ("cost", "CRTM"): quick,
        ("cost", "CRMM"): quickest,
        ("cost", "HEAVY-OFUL (newton)"): newton,
        ("cost", "TOFU"): newton,
        ("cost", "MENU"): cost,
        **{("coverage", name, v): share for name in claims.TRUE_NU for v in ("theory", "sharp")},
        **{("horizon", e, *run): (sharp, 0.5) for e in ENVIRONMENTS for run in (*PAPERS, *OURS)},
        **{
            ("noise-level", *run): (grow, 0.0 if good else 0.5, Interval(1.0, 1.0, 1.0))
            for run in (*PAPERS, *OURS)
        },
    }


AS_THE_PAPER_SAYS = {"Hvt-UCB": 1.0, "HEAVY-OFUL": 1.06, "OFUL": 9.0, "CRTM": 4.0, "CRMM": 5.0}
THE_REVERSE = {"Hvt-UCB": 9.0, "HEAVY-OFUL": 3.0, "OFUL": 1.0, "CRTM": 3.5, "CRMM": 2.0}


def verdicts(found: dict[Any, Any]) -> dict[str, str]:
    return {claim.name: claim.judge(found).word for claim in CLAIMS}


def test_there_are_eleven_claims_and_ours_each_with_a_sentence_a_rule_and_needs() -> None:
    assert [claim.name for claim in CLAIMS] == [*(f"C{k}" for k in range(1, 12)), "sharp", "ours"]
    assert all(claim.says and claim.rule and claim.needs for claim in CLAIMS)


def test_claims_hold_where_results_are_as_the_paper_says() -> None:
    found = verdicts({**settings(AS_THE_PAPER_SAYS), **extras(True)})
    # In C8 CRTM must be comparable while in C7 it must be worse: one table of means cannot be both.
    for claim in ("C1", "C2", "C3", "C4", "C6", "C7", "C9", "C10", "C11", "ours"):
        assert found[claim] == HOLDS, claim
    assert verdicts(settings({**AS_THE_PAPER_SAYS, "OFUL": 1.0}))["C5"] == HOLDS
    assert verdicts(settings({**AS_THE_PAPER_SAYS, "CRTM": 1.1}))["C8"] == HOLDS


def test_claims_fail_where_results_are_the_reverse() -> None:
    found = verdicts({**settings(THE_REVERSE), **extras(False)})
    for claim in ("C1", "C2", "C4", "C5", "C6", "C10", "C11"):
        assert found[claim] == NOT, claim


def test_a_claim_met_in_some_parts_holds_in_part() -> None:
    found = verdicts(settings({**AS_THE_PAPER_SAYS, "CRMM": 1.0}))
    assert found["C6"] == PART
    assert found["C7"] == PART
    assert verdicts(speeds(2.0, gd=2000.0))["C2"] == PART


def test_a_claim_whose_experiment_was_not_run_says_what_it_lacks() -> None:
    assert verdicts({}) == dict.fromkeys(BY_NAME, MISSING)
    some = {("speedup", "student", "gd"): {"ratio": 2.0}}
    verdict = BY_NAME["C2"].judge(some)
    assert verdict.word == MISSING  # all four solvers, or no verdict
    assert verdict.lacks == "cost: student, gaussian; speedup: student lbfgs"


def test_a_slow_solver_that_was_not_run_under_one_noise_leaves_that_undecided() -> None:
    found = speeds(900.0)
    del found["speedup", "gaussian", "gd"]
    verdict = BY_NAME["C2"].judge(found)
    assert verdict.by_world == {"student": HOLDS, "gaussian": PART}
    assert [part.measured for part in verdict.parts if part.met is None] == [
        "gaussian, gd: not run"
    ]


def test_each_noise_of_the_first_two_claims_has_a_verdict_of_its_own() -> None:
    found = settings(AS_THE_PAPER_SAYS)
    found["gaussian", "Hvt-UCB", "tuned"] = settings(THE_REVERSE)["gaussian", "Hvt-UCB", "tuned"]
    verdict = BY_NAME["C1"].judge(found)
    assert verdict.by_world == {"student": HOLDS, "gaussian": NOT, "student-true-nu": HOLDS}
    slow = {**speeds(900.0), ("cost", "gaussian"): speeds(2.0)["cost", "gaussian"]}
    assert BY_NAME["C2"].judge(slow).by_world == {"student": HOLDS, "gaussian": PART}


def test_one_interval_and_one_question_have_one_answer_in_all_claims(monkeypatch) -> None:
    monkeypatch.setattr(claims, "ratio", lambda *_: Interval(0.67, 0.50, 0.89))
    answers: dict[str, set[bool | None]] = {}
    for name in ("C1", "C4", "C5", "C6", "C7", "C8"):
        for part in BY_NAME[name].judge(settings(dict.fromkeys(FIVE, 1.0))).parts:
            if part.met_at is not None:
                answers.setdefault(part.measured.rpartition("], ")[2], set()).add(part.met)
    assert all(len(marks) == 1 for marks in answers.values())
    assert answers["up to 1.25"] == answers["below 1"] == {True}
    assert answers["at least 0.8"] == {None}
    assert answers["above 1"] == answers["above 1.25"] == {False}


def test_the_student_world_is_compared_alike_as_student_and_as_fifty_arms() -> None:
    found = settings(AS_THE_PAPER_SAYS)
    said = [
        part.measured.partition(": ")[2]
        for name in ("C1", "C8")
        for part in BY_NAME[name].judge(found).parts
        if part.world in ("student", "arms-50") and "/ HEAVY" in part.measured
    ]
    sides = ("up to 1.25", "at least 0.8", "below 1", "at least 0.8")
    assert said == [f"Hvt-UCB / HEAVY-OFUL 0.94 [0.94, 0.94], {side}" for side in sides]


def test_a_verdict_says_what_chance_may_have_decided_and_what_stands_without_it(
    monkeypatch,
) -> None:
    levels = []

    def widening(above, below, level=0.95):
        levels.append(level)
        return Interval(2.0, 1.5 if level == 0.95 else 0.5, 3.0)

    monkeypatch.setattr(claims, "ratio", widening)
    verdict = BY_NAME["C7"].judge(settings(dict.fromkeys(FIVE, 1.0)))
    assert set(levels) == {0.95}  # asked only where it is told
    assert verdict.chance.startswith(
        "24 questions, each answered by a 95% interval: chance alone answers up to 0.6 of them "
    )
    assert sorted(set(levels)) == pytest.approx([0.95, 1 - 0.05 / 24])
    assert (
        "(Bonferroni: 99.79% each), 0 of the 24 answers stand; undecided then: " in verdict.chance
    )
    assert verdict.chance.count("scale-2:") == 8
    assert BY_NAME["C2"].judge(speeds(1.0)).chance == ""  # nothing of it is asked again


def offered(tmp_path: Any) -> set[Any]:
    """The keys that a whole reproduction gives to claims, by the plans alone."""
    request = Request(tmp_path, policies=policy_names(), tuned=Tuned.read(TUNED))
    found = set()
    for one in EXPERIMENTS.values():
        for key in one.plan(request):
            # The growth experiments say one thing of all T, and of all levels.
            short = {"horizon": key[:3], "noise-level": key[:2]}.get(one.name, key)
            found.add((one.name, *short))
    return found


def test_every_need_is_something_that_an_experiment_gives(tmp_path) -> None:
    there = offered(tmp_path)
    for claim in CLAIMS:
        assert set(claim.needs) <= there, claim.name


@pytest.mark.parametrize(
    ("claim", "rule", "met", "missed"),
    [
        # The ratio is exact here: the same draws for both, so its interval is one number.
        ("C1", "comparable up to 1.25", {"Hvt-UCB": 1.249}, {"Hvt-UCB": 1.251}),
        ("C4", "worse from 1.25 on", {"OFUL": 1.251}, {"OFUL": 1.249}),
        ("C5", "worse from 1 on", {"CRTM": 1.001}, {"CRTM": 0.999}),
        ("C6", "comparable up to 1.25", {"HEAVY-OFUL": 0.801}, {"HEAVY-OFUL": 0.799}),
        ("C7", "worse from 1 on", {"CRMM": 1.001}, {"CRMM": 0.999}),
        ("C8", "best below 1", {"OFUL": 1.001}, {"OFUL": 0.999}),
        ("C8", "competitive up to 1.25", {"CRTM": 1.249}, {"CRTM": 1.251}),
        ("C8", "CRMM fails from 2 on", {"CRMM": 2.001}, {"CRMM": 1.999}),
    ],
)
def test_a_rule_turns_at_its_number(claim, rule, met, missed) -> None:
    base = {**dict.fromkeys(FIVE, 1.0), **({"CRMM": 3.0} if claim in ("C6", "C8") else {})}
    count = [
        sum(part.met is True for part in BY_NAME[claim].judge(settings({**base, **change})).parts)
        for change in (met, missed)
    ]
    assert count[0] > count[1], rule


def _arrays(change: dict[str, Any]) -> dict[str, Any]:
    """Seconds by turn: the same in each."""
    return {k: np.full(5, v[0]) if isinstance(v, list) else v for k, v in change.items()}


@pytest.mark.parametrize(
    ("claim", "key", "met", "missed"),
    [
        ("C2", ("speedup", "student", "gd"), {"ratio": 800.1}, {"ratio": 799.9}),
        ("C2", ("speedup", "gaussian", "gd"), {"ratio": 800.1}, {"ratio": 799.9}),
        ("C2", ("cost", "student"), {"lazy": 800.1}, {"lazy": 799.9}),
        ("C2", ("cost", "gaussian"), {"newton": 800.1}, {"newton": 799.9}),
        ("C3", ("cost", "OFUL"), {"seconds": [1.01e-7]}, {"seconds": [0.99e-7]}),
        ("C3", ("cost", "OFUL"), {"seconds": [0.99e-6]}, {"seconds": [1.01e-6]}),
        ("C9", ("cost", "OFUL"), {"time_slope": 0.149}, {"time_slope": 0.151}),
        ("C9", ("cost", "OFUL"), {"bytes_slope": 0.0}, {"bytes_slope": 0.01}),
        ("C9", ("cost", "HEAVY-OFUL (newton)"), {"time_slope": 0.51}, {"time_slope": 0.49}),
        ("C10", ("coverage", "gaussian", "theory"), 996, 995),
    ],
)
def test_a_rule_of_the_other_experiments_turns_at_its_number(claim, key, met, missed) -> None:
    # A thousand trials of probability 0.999 fail four times or fewer with 99 %.
    count = []
    for change in (met, missed):
        found = extras(True)
        if isinstance(change, int):
            found[key] = Share(change, 1000, 0.999)
        elif "ratio" in change:
            found[key] = change
        elif key[1] in NOISES:
            found[key] = speeds(900.0, **change)[key]
        else:
            found[key] = SimpleNamespace(**{**vars(found[key]), **_arrays(change)})
        count.append(sum(part.met is True for part in BY_NAME[claim].judge(found).parts))
    assert count[0] > count[1]


@pytest.mark.parametrize(
    ("met", "missed"),
    [
        ((Interval(0.5, 0.4, 0.549), 0.5), (Interval(0.5, 0.4, 0.551), 0.5)),
        (
            (Interval(1.0, 0.801, 1.1), 0.0, Interval(1, 1, 1)),
            (Interval(1.0, 0.799, 1.1), 0.0, Interval(1, 1, 1)),
        ),
        (
            (Interval(1.0, 0.9, 1.1), 0.0099, Interval(1, 1, 1)),
            (Interval(1.0, 0.9, 1.1), 0.0101, Interval(1, 1, 1)),
        ),
    ],
)
def test_the_growth_of_regret_is_judged_by_the_end_of_its_interval(met, missed) -> None:
    key = ("horizon", next(iter(ENVIRONMENTS)), *PAPERS[0]) if len(met) == 2 else None
    count = [
        sum(
            p.met is True for p in BY_NAME["C11"].judge({**extras(True), key or LEVEL: value}).parts
        )
        for value in (met, missed)
    ]
    assert count[0] == count[1] + 1


def test_over_truncation_needs_a_hundredth_of_the_rewards() -> None:
    means = {**dict.fromkeys(FIVE, 1.0), "CRTM": 2.0}
    assert BY_NAME["C5"].judge(settings(means, truncated=0.0101)).word == HOLDS
    assert BY_NAME["C5"].judge(settings(means, truncated=0.0099)).word == PART


@pytest.mark.parametrize(
    ("claim", "end", "at", "met"),
    [
        ("C1", "high", 1.25, True),
        ("C1", "low", 0.8, True),
        ("C1", "high", 1.26, None),
        ("C1", "low", 0.79, None),
        ("C4", "low", 1.25, None),
        ("C5", "low", 1.0, None),
        ("C7", "low", 1.0, None),
    ],
)
def test_an_end_of_an_interval_on_the_number_counts_as_comparable(
    claim, end, at, met, monkeypatch
) -> None:
    inside = {"low": 1.0, "high": 1.0 if claim == "C1" else 1.5}
    there = Interval(1.0, **{**inside, end: at})
    monkeypatch.setattr(claims, "ratio", lambda above, below: there)
    parts = BY_NAME[claim].judge(settings(dict.fromkeys(FIVE, 1.0))).parts
    if claim == "C5":
        parts = parts[1:]  # the first is that of OFUL, which is comparable
    if claim == "C1":
        side = {"high": "up to", "low": "at least"}[end]
        assert all(part.met for part in parts if side not in part.measured)
        parts = tuple(part for part in parts if side in part.measured)
    assert {part.met for part in parts} == {met}


def test_best_is_less_than_every_other_and_the_number_does_not_belong(monkeypatch) -> None:
    monkeypatch.setattr(claims, "ratio", lambda above, below: Interval(0.9, 0.8, 1.0))
    parts = BY_NAME["C8"].judge(settings(dict.fromkeys(FIVE, 1.0))).parts
    each = [*4 * [None], *2 * [True]]
    assert [part.met for part in parts] == [*each, *2 * [*each, False]]


@pytest.mark.parametrize(
    ("low", "high", "answers", "word"),
    [
        (0.9, 1.2, [True, True], HOLDS),
        (0.3, 0.5, [False], NOT),
        (1.3, 2.0, [False], NOT),
        (0.5, 1.1, [True, None], PART),
        (0.9, 1.5, [None, True], PART),
        (0.5, 2.0, [None, None], OPEN),
    ],
)
def test_comparable_is_asked_from_both_sides(low, high, answers, word, monkeypatch) -> None:
    monkeypatch.setattr(claims, "ratio", lambda above, below: Interval(low, low, high))
    verdict = BY_NAME["C1"].judge(settings(dict.fromkeys(FIVE, 1.0)))
    assert [part.met for part in verdict.parts] == 3 * answers
    assert verdict.word == word


def test_a_no_is_an_answer_that_may_stand() -> None:
    firm = Part("a", False, met_at=lambda level: False)
    soft = Part("b", True, met_at=lambda level: None)
    open_part = Part("c", None, met_at=lambda level: None)
    verdict = Verdict(BY_NAME["C1"], (firm, soft, open_part, Part("d", True)))
    assert verdict.chance.startswith("3 questions")
    assert verdict.chance.endswith("1 of the 2 answers stand; undecided then: b.")


def test_a_claim_of_which_no_part_is_met_and_one_is_undecided_is_undecided(monkeypatch) -> None:
    monkeypatch.setattr(claims, "ratio", lambda above, below: Interval(1.0, 0.5, 2.0))
    assert BY_NAME["C1"].judge(settings(dict.fromkeys(FIVE, 1.0))).word == OPEN


def test_the_sharp_width_is_judged_by_regret_and_by_coverage() -> None:
    found = {**settings(AS_THE_PAPER_SAYS), **extras(True)}
    assert BY_NAME["sharp"].judge(found).word == HOLDS
    found["coverage", "gaussian", "sharp"] = Share(932, 1000, 0.95)  # 67 failures at most, at 99 %
    assert [part.met for part in BY_NAME["sharp"].judge(found).parts].count(False) == 1
    found["coverage", "gaussian", "sharp"] = Share(933, 1000, 0.95)
    assert BY_NAME["sharp"].judge(found).word == HOLDS
    worse = {**settings(THE_REVERSE), **extras(True)}
    assert [part.met for part in BY_NAME["sharp"].judge(worse).parts] == [False] * 3 + [True] * 3


def test_with_too_few_trials_there_is_no_verdict() -> None:
    found = {**settings(AS_THE_PAPER_SAYS), **extras(True)}
    assert {claim.judge(found, few=True).word for claim in CLAIMS} == {FEW}
    assert BY_NAME["C1"].judge({}, few=True).word == MISSING


def test_the_papers_algorithm_and_ours_are_judged_apart() -> None:
    found = extras(True)
    for name in ENVIRONMENTS:
        for run in OURS:
            found["horizon", name, *run] = (Interval(1.5, 1.4, 1.6), 0.5)
    assert BY_NAME["C11"].judge(found).word == HOLDS
    assert BY_NAME["ours"].judge(found).word == PART
    assert {key[-2:] for key in BY_NAME["C11"].needs} == set(PAPERS)
    assert {key[-2:] for key in BY_NAME["ours"].needs} == set(OURS)


def test_the_choice_of_the_multipliers_widens_the_interval_of_a_ratio() -> None:
    found = settings(dict.fromkeys(FIVE, 1.0))
    key = ("student", "Hvt-UCB", "tuned")
    worse = 3.0 * found[key].final
    found[key] = Trials((), found[key].arrays, ((0.3, worse),))
    part = BY_NAME["C1"].judge(found).parts[0]
    assert part.met is None
    assert "[1.00, 3.0" in part.measured or "[1.00, 3.1" in part.measured


def test_crmm_must_fail_only_where_arms_vary() -> None:
    parts = BY_NAME["C8"].judge(settings(dict.fromkeys(FIVE, 1.0))).parts
    crmm = [part.world for part in parts if part.measured.endswith("below 0.5")]
    assert crmm == ["arms-40", "arms-30"]


@pytest.mark.parametrize(
    ("claim", "key", "change", "met"),
    [
        ("C2", ("speedup", "student", "lbfgs"), {"ratio": 800.0}, False),
        ("C3", ("cost", "OFUL"), {"seconds": [0.1]}, True),
        ("C3", ("cost", "OFUL"), {"seconds": [1.0]}, False),
        ("C9", ("cost", "OFUL"), {"time_slope": 0.15}, True),
        ("C9", ("cost", "OFUL"), {"bytes_slope": 0.9e-9}, True),
        ("C9", ("cost", "OFUL"), {"bytes_slope": 1e-9}, False),
        ("C9", ("cost", "HEAVY-OFUL (newton)"), {"time_slope": 0.5}, True),
        ("C9", ("cost", "HEAVY-OFUL (newton)"), {"bytes_slope": 0.5}, True),
        ("C9", ("cost", "HEAVY-OFUL (newton)"), {"bytes_slope": 0.49}, False),
        ("C9", ("cost", "TOFU"), {"time_slope": 0.49}, False),
        ("C9", ("cost", "TOFU"), {"time_slope": 0.5}, True),
        ("C9", ("cost", "TOFU"), {"time_slope": 2.0}, True),
        ("C9", ("cost", "TOFU"), {"time_slope": 2.01}, False),
        ("C9", ("cost", "MENU"), {"time_slope": -1.01}, False),
        ("C9", ("cost", "MENU"), {"time_slope": -1.0}, True),
        ("C9", ("cost", "MENU"), {"time_slope": 0.15}, True),
        ("C9", ("cost", "MENU"), {"time_slope": 0.16}, False),
        ("C11", ("horizon", next(iter(ENVIRONMENTS)), *PAPERS[0]), (0.5, 0.4, 0.5 + 0.05), True),
        ("C11", LEVEL, (1.0, 0.8, 1.1, 0.0), True),
        ("C11", LEVEL, (1.0, 0.9, 1.1, 0.01), True),
    ],
)
def test_the_number_of_a_rule_belongs_to_one_side_of_it(claim, key, change, met) -> None:
    found = extras(True)
    for name in ("Hvt-UCB", "OFUL", "CRTM", "CRMM"):  # in whole seconds, so that 1/10 is exact
        seconds = 1.0 if name == "Hvt-UCB" else 0.125 if name == "CRMM" else 0.5
        told = {**vars(found["cost", name]), "seconds": np.full(5, seconds)}
        found["cost", name] = SimpleNamespace(**told)
    before = BY_NAME[claim].judge(found).parts
    assert all(part.met for part in before)
    if isinstance(change, tuple):
        interval, rest = Interval(*change[:3]), change[3:]
        found[key] = (interval, *rest, Interval(1, 1, 1)) if rest else (interval, 0.5)
    elif "ratio" in change:
        found[key] = change
    else:
        now = vars(found.get(key, found["cost", "HEAVY-OFUL (newton)"]))
        found[key] = SimpleNamespace(**{**now, **_arrays(change)})
    # OFUL's time is compared with CRMM's too.
    parts = [p for p in BY_NAME[claim].judge(found).parts if "of OFUL's" not in p.measured]
    assert sum(not part.met for part in parts) == (not met)


def test_over_truncation_at_exactly_a_hundredth_counts() -> None:
    found = settings({**dict.fromkeys(FIVE, 1.0), "CRTM": 2.0})
    key = ("gaussian", "CRTM", "tuned")
    found[key] = Trials((), {**found[key].arrays, "truncated": np.array([0.01])})
    assert BY_NAME["C5"].judge(found).word == HOLDS


def test_every_part_that_was_measured_has_its_number_and_rule_in_a_frame(tmp_path) -> None:
    results = {**settings(dict.fromkeys(FIVE, 100.0)), **speeds(1000.0), **extras(True)}
    verdicts = [claim.judge(results) for claim in CLAIMS]
    _write_verdicts(tmp_path / "verdicts.parquet", verdicts)
    rows = pq.read_table(tmp_path / "verdict_numbers.parquet").to_pylist()
    assert [row["claim"] for row in rows] == [v.claim.name for v in verdicts for _ in v.parts]
    assert {row["claim"] for row in rows} == set(BY_NAME)
    for row in rows:
        assert np.isfinite(row["value"]), row
        assert row["rule"], row
        assert (row["low"] is None) == (row["high"] is None)
    first = rows[0]
    assert (first["claim"], first["world"], first["rule"]) == ("C1", "student", "up to 1.25")
    assert first["low"] <= first["value"] == 1.0 <= first["high"]
    assert first["met"] is True
    by_rule = {"above": "low", "below": "high", "up": "high"}
    for row in rows:
        side, number = row["rule"].split()[0], row["rule"].split()[-1]
        if row["met"] and row["low"] is not None and side in by_rule:
            end = row[by_rule[side]]
            assert end >= float(number) if side == "above" else end <= float(number)
