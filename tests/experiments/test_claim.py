"""A claim: all parts, some, none; what is missing is named; a mistake inside is an error."""

from __future__ import annotations

import pytest

from heavytail.experiments.claim import (
    FEW,
    HOLDS,
    MISSING,
    NOT,
    OPEN,
    PART,
    Claim,
    Part,
    Verdict,
    results_of,
)
from heavytail.experiments.experiment import Section


def claim(parts, **more) -> Claim:
    return Claim("C", "says", "rule", (("one", "a"), ("one", "b"), ("two", "c")), parts, **more)


ALL = {("one", "a"): 1, ("one", "b"): 2, ("two", "c"): 3}


@pytest.mark.parametrize(
    ("met", "word"),
    [
        ([True, True], HOLDS),
        ([True, False], PART),
        ([True, None], PART),
        ([False, False], NOT),
        ([False, None], OPEN),
        ([None, None], OPEN),
    ],
)
def test_all_some_none(met, word) -> None:
    assert claim(lambda r: [Part("", one) for one in met]).judge(ALL).word == word


def test_what_is_missing_is_named_by_experiment() -> None:
    verdict = claim(lambda r: [Part("", True)]).judge({("one", "b"): 2})
    assert verdict.word == MISSING
    assert verdict.parts == ()
    assert verdict.lacks == "one: a; two: c"


def test_a_claim_without_parts_is_not_measured_though_nothing_is_missing() -> None:
    verdict = claim(lambda r: []).judge(ALL)
    assert (verdict.word, verdict.missing) == (MISSING, ())


def test_a_claim_that_lacks_something_is_not_measured_whatever_its_parts_say() -> None:
    one = claim(lambda r: [])
    assert Verdict(one, (Part("", True),), (("one", "a"),)).word == MISSING


def test_of_too_few_trials_no_part_is_judged() -> None:
    verdict = claim(lambda r: [Part("", True)]).judge(ALL, few=True)
    assert (verdict.word, verdict.parts) == (FEW, ())
    assert claim(lambda r: []).judge({}, few=True).word == MISSING


def test_a_part_is_marked_by_one_letter() -> None:
    assert [Part("", met).mark for met in (True, False, None)] == ["✓", "✗", "?"]


def test_a_mistake_inside_a_claim_is_an_error_and_never_not_measured() -> None:
    with pytest.raises(KeyError):
        claim(lambda r: [Part("", r["one", "typo"])]).judge(ALL)


def test_a_claim_sees_what_it_declares_and_nothing_else() -> None:
    more = {**ALL, ("three", "d"): 4, ("four", "e"): 5}
    seen = []
    claim(lambda r: seen.append(set(r)) or [], may_use=(("three", "d"),)).judge(more)
    assert seen == [{*ALL, ("three", "d")}]


def test_results_are_named_by_section_and_key() -> None:
    sections = [Section("one", "", data={("a",): 1}), Section("two", "", data={("b", "c"): 2})]
    assert results_of(sections) == {("one", "a"): 1, ("two", "b", "c"): 2}
