"""Advice on a Decider: what deserves a look, in sentences."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.decider.choice import amount
from heavytail.decider.contexts import CATEGORY, NUMBER
from heavytail.decider.effects import effects
from heavytail.decider.markup import note, percent
from heavytail.decider.shape import MOST_FEATURES
from heavytail.decider.snapshot import Snapshot, features
from heavytail.encoding.fit import fewest_rows, lack_of_fit, score_test
from heavytail.tables.cells import looks_like_number, may_be_amount

__all__ = ["Diagnosis", "diagnose"]

NOTHING: Final = "Nothing deserves a look."
OFTEN: Final = 0.01  # of the decisions had an unknown category
SURE: Final = 0.95
SMALL: Final = 0.25  # of a usual reward is an effect that may be left out
ENOUGH: Final = 500  # rewards before a column is said not to matter
MANY: Final = 50  # visits of an offer, or decisions that wait
NAMES: Final = 0.5  # of the values of a column are different, so that they name visits
WAITING: Final = 0.5  # of the decisions wait
LASTS: Final = (100, 400, 1600)  # rewards of an offer that are compared with those before
CUT: Final = 0.005  # of what the forecast leaves, on each side
LEVEL: Final = 1e-3  # of all tests of patterns, or of changes, together
ROWS: Final = 4096  # that are looked at for a pattern
NEAR_LIMIT: Final = 0.8  # of the features that a shape may have
HEAVY: Final = 0.5  # of all rewards in one visit of a hundred, or in one
FEW: Final = 20  # rewards other than 0 among which one may have that much
SILENCE: Final = 'close_after("7 days")'


@dataclass(frozen=True)
class Diagnosis:
    """Advice about a Decider; ``print`` it.

    Attributes:
        rounds: rewards learned, of logs too.
        features: that the forecast sees.
        curves: columns that have a curve.
        pairs: columns that act together.
        drift: above 1 where the world seems to have changed; None unless ``forget`` was given.
        advice: sentences, the most important first.
    """

    rounds: int
    features: int
    curves: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    drift: float | None
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.advice or (NOTHING,))

    def _repr_html_(self) -> str:
        return f"<div>{note(*(self.advice or (NOTHING,)))}</div>"


def diagnose(of: Snapshot) -> Diagnosis:
    """Look at all that may go wrong."""
    model = of.model
    drift = model.policy.diagnostics().drift
    advice = [
        *_about_one_reward(of), *_about_silence(of), *_about_unknown(of), *_about_texts(of),
        *_about_names(of), *_about_exploring(of),
        *_about_changes(of, drift), *_about_patterns(of), *_about_columns(of), *_about_rewards(of),
    ]  # fmt: skip
    return Diagnosis(
        rounds=model.policy.rounds,
        features=0 if model.encoder is None else model.encoder.dim,
        curves=model.shape.curves,
        pairs=model.shape.pairs,
        drift=drift,
        advice=tuple(advice),
    )


def _about_one_reward(of: Snapshot) -> list[str]:
    """A reward, of a log too, that is most of all that was earned."""
    sizes = np.abs(of.rows.rewards)
    if np.count_nonzero(sizes) < FEW:
        return []
    row = int(np.argmax(sizes))
    part = float(sizes[row] / sizes.sum())
    if part < HEAVY:
        return []
    return [
        f"One reward, {amount(float(of.rows.rewards[row]))} for "
        f"'{of.offers.ids[of.rows.offers[row]]}', has {percent(part)} of all that {len(sizes):,} "
        "visits earned. It may decide what is shown. If it is an error, learn the others in a new "
        "Decider."
    ]


def _about_silence(of: Snapshot) -> list[str]:
    """Rewards that never come."""
    if of.closes:
        return []
    said, waiting = [], sum(of.waiting.values())
    paid = sum(sums[2] for sums in of.sums.values())
    came = sum(sums[0] for sums in of.sums.values())
    if waiting >= MANY and waiting >= WAITING * of.made:
        said.append(
            f"{waiting:,} of {of.made:,} decisions wait for their reward, and none is ever closed. "
            f"If silence means that nothing was earned, call {SILENCE}."
        )
        if came and paid == came:
            said[-1] += " All rewards that came are other than 0, so that it probably does."
    for place, count in of.waiting.items():
        if count >= MANY and not of.sums.get(place, (0.0,))[0]:
            said.append(
                f"No reward has ever come for '{of.offers.ids[place]}': {count:,} decisions wait. "
                f"Call {SILENCE} if silence means that nothing was earned."
            )
    never = [
        (of.offers.ids[place], int(sums[0]))
        for place, sums in of.sums.items()
        if sums[0] >= MANY and not sums[2] and of.offers.runs[place]
    ]
    if len(never) > 3:
        said.append(f"{len(never)} offers have paid nothing in {MANY} visits or more each.")
    elif never and paid:
        named = ", ".join(f"'{name}' ({visits:,} visits)" for name, visits in never)
        said.append(f"Nothing has ever been paid for {named}.")
    if came >= MANY and not paid and not of.rows.rewards.any():  # those of a log, too
        said.append(f"All {came:,.0f} rewards are 0: there is nothing to choose by yet.")
    return said


def _about_unknown(of: Snapshot) -> list[str]:
    said = []
    for column, values in of.unknown.items():
        came = sum(values.values())
        if came < max(MANY, OFTEN * of.made):
            continue
        most = max(values, key=values.__getitem__)
        known = of.model.encoder is not None and not of.model.encoder.unknown({column: most})
        if not known:
            said.append(
                f"{column} had values that the model does not know in {percent(came / of.made)} of "
                f"the decisions, most often '{most}'. Call add with any offer of yours: it learns "
                "all columns anew from the rewards that are kept."
            )
    return said


def _about_texts(of: Snapshot) -> list[str]:
    """Numbers that came as text."""
    columns = zip(of.contexts.names, of.contexts.kinds, of.contexts.texts, strict=True)
    said = []
    for name, kind, texts in columns:
        if kind != CATEGORY or not _are_amounts(texts):
            continue
        do = "pass float(...)"
        if not all(map(looks_like_number, texts)):
            do = "pass them as numbers, without thousands separators, currency or unit"
        said.append(
            f"All {len(texts):,} different values of {name} are numbers that came as text, and "
            f"each is a category by itself. If they are amounts and not codes, {do}, and state "
            f'context={{{name!r}: "number"}}.'
        )
    return said


def _are_amounts(texts: Collection[str]) -> bool:
    return len(texts) > MANY and all(map(may_be_amount, texts))


def _about_names(of: Snapshot) -> list[str]:
    """Columns that name visits."""
    said = []
    for column, name in enumerate(of.contexts.names):
        places = of.rows.contexts[:, column]
        places = places[np.isfinite(places)]
        different = len(np.unique(places))
        texts = of.contexts.texts[column]
        if of.contexts.kinds[column] != CATEGORY or different <= max(MANY, NAMES * len(places)):
            continue
        if not _are_amounts(texts) or all(map(looks_like_number, texts)):
            said.append(
                f"{name} has {different:,} different values in {len(places):,} visits: what is "
                "learned of one says nothing about the next. Leave it out of context."
            )
    return said


def _about_exploring(of: Snapshot) -> list[str]:
    if of.explore or len(of.offers.running) < 2:
        return []
    return [
        "No visit explores (explore=0): report(against=...) cannot say what another rule would "
        "have earned. explore=0.05 shows any offer in one visit of twenty."
    ]


def _about_columns(of: Snapshot) -> list[str]:
    """Columns whose effects are small, by their bounds."""
    if of.model.forecast is None or len(of.rows) < ENOUGH:
        return []
    shape = of.model.shape
    bent = {*shape.curves, *(name for pair in shape.pairs for name in pair)}
    seen = effects(of, None, SURE)
    usual = float(np.mean(np.abs(of.rows.rewards)))
    small = [n for n in seen.silent if n not in bent and seen.most(n) < SMALL * usual]
    if not small:
        return []
    most = max(seen.most(name) for name in small)
    return [
        f"{_listed(small)}: no effect on any offer is above {amount(most)} a visit by itself "
        f"({100.0 * SURE:.4g} %), where {amount(usual)} is usual. Together with other columns "
        "they may matter."
    ]


def _about_patterns(of: Snapshot) -> list[str]:
    """Numbers along which rewards bend and the forecast does not."""
    model, rows = of.model, of.rows
    if model.forecast is None or model.encoder is None or len(rows) < ENOUGH:
        return []
    rows = rows.where(slice(max(0, len(rows) - ROWS), None))
    numbers = {
        name: rows.contexts[:, column]
        for column, name in enumerate(of.contexts.names)
        if of.contexts.kinds[column] == NUMBER and name not in model.shape.curves
    }
    numbers = {name: values for name, values in numbers.items() if np.isfinite(values).any()}
    X = features(of, rows.contexts, rows.offers)
    if len(rows) < fewest_rows(X.shape[1], len(numbers)):
        return []
    do, dim = "state a curve: context={{{!r}: ht.Spline(5), ...}}.", model.encoder.dim
    if dim > NEAR_LIMIT * MOST_FEATURES:
        do = f"there are {dim} features already, so leave out columns that matter less."
    return [
        f"Straight lines in {misfit.column} leave a pattern ({misfit.chance}): "
        + do.format(misfit.column)
        for misfit in lack_of_fit(X, rows.rewards, numbers, level=LEVEL)
    ]


def _about_changes(of: Snapshot, drift: float | None) -> list[str]:
    """Changes of what offers earn. A Decider that forgets tells them by its drift; otherwise a
    score test asks whether an offer's last rewards lie off the forecast, beside those before.
    """
    if drift is not None:
        seems = "What offers earn seems to have changed. Look at report().plot(), over time."
        return [seems] if drift > 1.0 else []
    if of.model.forecast is None and of.model.encoder is not None:
        return []
    said, level = [], LEVEL / (max(len(of.offers.running), 1) * len(LASTS))
    for place in of.offers.running:
        rows = of.rows.where(of.rows.offers == place)
        left, paid = rows.rewards, float(np.mean(rows.rewards != 0.0)) if len(rows) else 0.0
        if of.model.forecast is not None:
            X = features(of, rows.contexts, rows.offers)
            left = left - of.model.forecasts(X, len(X))
        lasts = [last for last in LASTS if 2 * last <= len(rows) and last * paid >= LASTS[0]]
        moves = [(*_moved(left, last), last) for last in lasts]
        if not moves or min(moves)[0] > math.log(level):
            continue
        _, by, last = min(moves)
        if abs(by) < SMALL * float(np.mean(np.abs(rows.rewards))):
            continue
        said.append(
            f"What '{of.offers.ids[place]}' earns has changed: its last {last:,} rewards lie about "
            f"{amount(abs(by))} {'above' if by > 0.0 else 'below'} those before them, in like "
            'visits. A Decider with forget="auto" follows such changes; this one weighs all '
            "rewards alike."
        )
    return said


def _moved(left: FloatArray, last: int) -> tuple[float, float]:
    """The logarithm of the p-value that the last of what a forecast leaves has the mean of those
    before, and the difference of both means. The outermost values are cut.
    """
    cut = np.clip(left, *np.quantile(left, (CUT, 1.0 - CUT)))
    late = np.zeros(len(cut))
    late[-last:] = 1.0
    by = float(np.mean(cut[-last:]) - np.mean(cut[:-last]))
    return score_test((late - np.mean(late))[:, None], cut - np.mean(cut)), by


def _about_rewards(of: Snapshot) -> list[str]:
    """Advice on the size of rewards, and the policy's own."""
    said, rewards = [], np.abs(of.own.rewards)
    if len(rewards) >= ENOUGH:
        largest = np.sort(rewards)[::-1][: len(rewards) // 100]
        part = float(largest.sum() / rewards.sum()) if rewards.any() else 0.0
        if part >= HEAVY:
            said.append(
                f"One visit of a hundred has {percent(part)} of all that was earned: means move "
                "with a few large rewards, and decide late."
            )
    report = (of.model.forecast or of.model.policy).diagnostics()
    if report.mean_differs is not None and report.mean_differs > 1.0:
        said.append(
            "What earns most on average is not what earns most in a typical visit: a few large "
            "rewards decide."
        )
    if report.clipped_share is not None and report.clipped_share > 0.3:
        said.append(
            f"{percent(report.clipped_share)} of the rewards were so far from what was expected "
            "that they counted in part."
        )
    said += [words for words in report.advice if words.startswith("A few rounds dominate")]
    return [sentence[0].upper() + sentence[1:] for sentence in said]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
