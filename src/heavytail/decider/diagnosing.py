"""Advice on a Decider: what deserves a look, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from heavytail._typing import FloatArray
from heavytail.decider.choice import amount
from heavytail.decider.contexts import CATEGORY, NUMBER
from heavytail.decider.effects import effects
from heavytail.decider.markup import note, percent, signed
from heavytail.decider.shape import MOST_FEATURES
from heavytail.decider.snapshot import Snapshot, features
from heavytail.tables.cells import looks_like_number

__all__ = ["Diagnosis", "diagnose"]

NOTHING: Final = "Nothing deserves a look."
OFTEN: Final = 0.01  # of the decisions had an unknown category
SURE: Final = 0.95
SMALL: Final = 0.25  # of a usual reward is an effect that may be left out
ENOUGH: Final = 500  # rewards before a column is said not to matter
MANY: Final = 50  # visits of an offer, or decisions that wait
WAITING: Final = 0.5  # of the decisions wait
PARTS: Final = 5  # of a number, in each of which the forecast should be right
LEVEL: Final = 1e-3  # of all tests of patterns together
ROWS: Final = 4096  # that are looked at for a pattern
CUT: Final = 0.005  # of what the forecast leaves, on each side
NEAR_LIMIT: Final = 0.8  # of the features that a shape may have
HEAVY: Final = 0.5  # of all rewards in one visit of a hundred
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
        *_about_silence(of), *_about_unknown(of), *_about_texts(of), *_about_exploring(of),
        *_about_drift(drift), *_about_patterns(of), *_about_columns(of), *_about_rewards(of),
    ]  # fmt: skip
    return Diagnosis(
        rounds=model.policy.rounds,
        features=0 if model.encoder is None else model.encoder.dim,
        curves=model.shape.curves,
        pairs=model.shape.pairs,
        drift=drift,
        advice=tuple(advice),
    )


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
    return [
        f"All {len(texts):,} different values of {name} are numbers that came as text, and each "
        "is a category by itself. If they are amounts and not codes, pass float(...), and state "
        f'context={{{name!r}: "number"}}.'
        for name, kind, texts in zip(
            of.contexts.names, of.contexts.kinds, of.contexts.texts, strict=True
        )
        if kind == CATEGORY and len(texts) > MANY and all(map(looks_like_number, texts))
    ]


def _about_exploring(of: Snapshot) -> list[str]:
    if of.explore or len(of.offers.running) < 2:
        return []
    return [
        "No visit explores (explore=0): report(against=...) cannot say what another rule would "
        "have earned. explore=0.05 shows any offer in one visit of twenty."
    ]


def _about_drift(drift: float | None) -> list[str]:
    if drift is None or drift <= 1.0:
        return []
    return ["What offers earn seems to have changed. Look at report().plot(), over time."]


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
    """Numbers along which the forecast is wrong: a straight line where a curve is needed."""
    model, rows = of.model, of.rows
    if model.forecast is None or model.encoder is None or len(rows) < ENOUGH:
        return []
    rows = rows.where(slice(max(0, len(rows) - ROWS), None))
    X = features(of, rows.contexts, rows.offers)
    left = rows.rewards - model.forecasts(X, len(X))
    numbers = [
        (column, name)
        for column, name in enumerate(of.contexts.names)
        if of.contexts.kinds[column] == NUMBER and name not in model.shape.curves
    ]
    said = []
    for column, name in numbers:
        worst = _pattern(rows.contexts[:, column], left, LEVEL / len(numbers))
        if worst is None:
            continue
        at, off = worst
        do = "State a curve: context={" + f"{name!r}: ht.Spline(5), ..." + "}."
        if model.encoder.dim > NEAR_LIMIT * MOST_FEATURES:
            do = (
                f"No curve was taken, as there are {model.encoder.dim} features already: leave out "
                "columns that do not matter."
            )
        said.append(
            f"The forecast is off along {name}: by {signed(off)} a visit about {amount(at)}. {do}"
        )
    return said


def _pattern(values: FloatArray, left: FloatArray, level: float) -> tuple[float, float] | None:
    """The part of a number in which rewards lie off the forecast beyond chance, and by how much."""
    from scipy.stats import chi2

    known = np.isfinite(values)
    values, left = values[known], left[known]
    if len(values) < 20 * PARTS:
        return None
    low, high = np.quantile(left, (CUT, 1.0 - CUT))
    cut = np.clip(left, low, high)
    cut -= cut.mean()
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, PARTS + 1)[1:-1]))
    part = np.searchsorted(edges, values, side="right")
    count = np.bincount(part)
    mean = np.bincount(part, cut) / np.maximum(count, 1)
    spread = np.bincount(part, np.square(cut - mean[part])) / np.maximum(count, 1)
    shown = (count >= 20) & (spread > 0.0)
    z = np.where(shown, mean / np.sqrt(np.where(shown, spread / np.maximum(count, 1), 1.0)), 0.0)
    if shown.sum() < 3 or chi2.sf(float(z @ z), int(shown.sum()) - 1) > level:
        return None
    worst = int(np.argmax(np.abs(z)))
    return float(np.median(values[part == worst])), float(mean[worst])


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
    said += [
        words
        for words in report.advice
        if words.startswith(("A few rounds dominate", "rewards are "))
    ]
    return [sentence[0].upper() + sentence[1:] for sentence in said]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
