"""Each claim of the paper, what was measured, and the verdict a written rule gives. No opinions.

A claim is a list of parts, each met or not by its rule. All met: it holds; some: it holds in part;
none: it does not hold. A part whose experiment was not run leaves the claim without a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytail.experiments.measured import Measured
from heavytail.experiments.stats import Interval, ratio

__all__ = ["CLAIMS", "HOLDS", "MISSING", "NOT", "PART", "Part", "Results", "Verdict", "judge"]

HOLDS, PART, NOT, MISSING = "holds", "holds in part", "does not hold", "not measured"

COMPARABLE = 1.25  # a regret ratio up to this, its whole interval, is comparable
SAME_ORDER = 10.0
SPEED_CLAIM = 800.0
FLAT = 0.15  # a log-log slope of time up to this is O(1)
GROWS = 0.6  # and from this on, growth; below 1, for the fixed part of a round dilutes it
SLACK = 0.05  # of an exponent
OVER = 0.01  # of rewards truncated: from here on it may be called too much
LATE = 0.01  # of all regret earned in the second half: it has stopped
LINEAR = 0.8  # regret falls with the noise at least like noise^0.8

SOLVERS = ("gd", "lbfgs", "newton", "lazy")  # of HEAVY-OFUL: the claim is judged on all
HVT, HEAVY, OFUL, CRTM, CRMM = "Hvt-UCB", "HEAVY-OFUL", "OFUL", "CRTM", "CRMM"


@dataclass(frozen=True)
class Part:
    """What was measured, and whether it meets the rule."""

    measured: str
    met: bool


@dataclass(frozen=True)
class Verdict:
    """A row of the table."""

    claim: str
    statement: str
    measured: list[Part]
    verdict: str
    rule: str


@dataclass(frozen=True)
class Results:
    """What verdicts are computed from: settings by name, and the other experiments' data."""

    settings: Mapping[str, Measured]
    data: Mapping[str, Any]

    def ratio(self, name: str, above: str, below: str, how: str = "tuned tuned") -> Interval:
        """Mean regret of one over another's, paired, in one setting."""
        first, second = how.split()
        one = self.settings[name]
        return ratio(one.final(above, first), one.final(below, second))


def judge(results: Results) -> list[Verdict]:
    """The verdict on every claim."""
    found = []
    for claim, (statement, rule, parts) in CLAIMS.items():
        try:
            measured = parts(results)
        except KeyError:  # an experiment that this claim needs was not run
            measured = []
        found.append(Verdict(claim, statement, measured, decide(measured), rule))
    return found


def decide(parts: list[Part]) -> str:
    """All, some, none."""
    if not parts:
        return MISSING
    met = sum(part.met for part in parts)
    return HOLDS if met == len(parts) else PART if met else NOT


def _comparable(r: Results, name: str, above: str, below: str) -> Part:
    found = r.ratio(name, above, below)
    return Part(f"{name}: {above} / {below} {found:.2f}", found.high <= COMPARABLE)


def _worse(r: Results, name: str, above: str, below: str, by: float = 1.0) -> Part:
    found = r.ratio(name, above, below)
    return Part(f"{name}: {above} / {below} {found:.2f}", found.low > by)


def _c1(r: Results) -> list[Part]:
    return [_comparable(r, name, HVT, HEAVY) for name in ("student", "student-true-nu")]


def _c2(r: Results) -> list[Part]:
    ratios = {solver: r.data["speedup"][solver]["ratio"] for solver in SOLVERS}
    return [Part(f"{s}: {value:.3g} times", value > SPEED_CLAIM) for s, value in ratios.items()]


def _c3(r: Results) -> list[Part]:
    costs = r.data["costs"]
    times = {name: costs[name].seconds / costs[HVT].seconds for name in (OFUL, CRTM, CRMM)}
    parts = [
        Part(f"{name} takes {value:.2f} of Hvt-UCB's time", 1.0 / SAME_ORDER <= value < 1.0)
        for name, value in times.items()
    ]
    least = min(times, key=lambda name: times[name])
    return [*parts, Part(f"fastest: {least}", least == CRMM)]


def _c4(r: Results) -> list[Part]:
    tuned = _worse(r, "student", OFUL, HVT, COMPARABLE)
    theory = r.ratio("student", OFUL, HVT, "theory tuned")
    return [
        tuned,
        Part(f"student: OFUL, its paper's radius / Hvt-UCB {theory:.2f}", theory.low > COMPARABLE),
    ]


def _c5(r: Results) -> list[Part]:
    share = float(np.mean(r.settings["gaussian"].curves[CRTM, "tuned"].truncated))
    worse = _worse(r, "gaussian", CRTM, HVT)
    return [
        _comparable(r, "gaussian", HVT, OFUL),
        Part(f"{worse.measured}; {share:.2%} of rewards truncated", worse.met and share >= OVER),
    ]


def _c6(r: Results) -> list[Part]:
    parts = []
    for name in ("pareto", "lomax", "fisk"):
        parts += [_comparable(r, name, HVT, HEAVY), _worse(r, name, CRMM, HVT, COMPARABLE)]
    return parts


def _c7(r: Results) -> list[Part]:
    parts = []
    for name in ("scale-1.5", "scale-2", "scale-2.5"):
        parts += [
            _worse(r, name, other, best) for best in (HVT, HEAVY) for other in (OFUL, CRTM, CRMM)
        ]
        parts += [_worse(r, name, OFUL, other) for other in (CRTM, CRMM)]
    return parts


def _c8(r: Results) -> list[Part]:
    parts = []
    for name in ("arms-50", "arms-40", "arms-30"):
        parts += [_best(r, name, other) for other in (HEAVY, OFUL, CRTM, CRMM)]
        parts += [_comparable(r, name, other, HVT) for other in (HEAVY, CRTM)]
        if name != "arms-50":
            parts.append(_worse(r, name, CRMM, HVT, 2.0))
    return parts


def _best(r: Results, name: str, other: str) -> Part:
    found = r.ratio(name, HVT, other)
    return Part(f"{name}: Hvt-UCB / {other} {found:.2f}", found.high <= 1.0 + SLACK)


def _c9(r: Results) -> list[Part]:
    costs = r.data["costs"]
    parts = []
    for name in (HVT, OFUL, CRTM, CRMM):
        one = costs[name]
        flat = one.time_slope <= FLAT and abs(one.bytes_slope) < 1e-9
        parts.append(
            Part(f"{name}: time t^{one.time_slope:.2f}, state t^{one.bytes_slope:.2f}", flat)
        )
    one = costs[f"{HEAVY} (newton)"]
    text = f"HEAVY-OFUL (newton): time t^{one.time_slope:.2f}, state t^{one.bytes_slope:.2f}"
    parts.append(Part(text, one.time_slope >= GROWS and one.bytes_slope >= GROWS))
    for name, least, most in (("TOFU", GROWS, 2.0), ("MENU", -1.0, FLAT)):
        if name in costs:
            slope = costs[name].time_slope
            parts.append(Part(f"{name}: time t^{slope:.2f}", least <= slope <= most))
    return parts


def _c10(r: Results) -> list[Part]:
    true_nu = ("student-true-nu", "gaussian", "pareto")
    found = []
    for (name, variant), share in r.data["shares"].items():
        if variant == "theory" and name in true_nu:
            text = f"{name}: {share.covered} of {share.trials} trials"
            found.append(Part(f"{text} (at least {share.least:.4f})", share.agrees))
    return found


def _c11(r: Results) -> list[Part]:
    parts = []
    for (name, variant), (found, exponent) in r.data["slopes"].items():
        text = f"{name}, {variant}: T^{found:.2f}, bound {exponent:.2f}"
        parts.append(Part(text, found.high <= exponent + SLACK))
    for variant, (found, late, last) in r.data["levels"].items():
        parts.append(
            Part(
                f"{variant}: regret above that without noise ~ noise^{found:.2f}",
                found.low >= LINEAR,
            )
        )
        text = f"{variant}, no noise: {last:.3g}, {late:.1%} of it in the second half"
        parts.append(Part(text, late <= LATE))
    return parts


_RATIO = "Ratios are of mean final regret, tuned, paired over trials, 95 % bootstrap interval."
CLAIMS: dict[str, tuple[str, str, Callable[[Results], list[Part]]]] = {
    "C1": (
        "Student t: Hvt-UCB's regret is comparable to HEAVY-OFUL's",
        f"Interval of the ratio up to {COMPARABLE}, with the paper's nu and with the true one. "
        + _RATIO,
        _c1,
    ),
    "C2": (
        "Over 800 times faster than HEAVY-OFUL at T = 18,000",
        f"Time ratio above {SPEED_CLAIM:g} against each of the four solvers, all run in full.",
        _c2,
    ),
    "C3": (
        "OFUL, CRTM, CRMM are faster than Hvt-UCB but of the same order; CRMM fastest",
        f"Each between 1/{SAME_ORDER:g} and 1 of Hvt-UCB's time a round; the least is CRMM's.",
        _c3,
    ),
    "C4": (
        "Under Student t noise OFUL drops significantly",
        f"Interval of OFUL / Hvt-UCB above {COMPARABLE}: with OFUL tuned, and at its own radius. "
        + _RATIO,
        _c4,
    ),
    "C5": (
        "Gaussian: Hvt-UCB is competitive with OFUL; CRTM worse through over-truncation",
        f"Interval up to {COMPARABLE}; interval of CRTM / Hvt-UCB above 1 with at least "
        f"{OVER:.0%} of rewards truncated. {_RATIO}",
        _c5,
    ),
    "C6": (
        "Pareto, Lomax, Fisk: Hvt-UCB similar to HEAVY-OFUL; CRMM poor",
        f"Interval up to {COMPARABLE}; interval of CRMM / Hvt-UCB above {COMPARABLE}. {_RATIO}",
        _c6,
    ),
    "C7": (
        "Varying nu_t: Hvt-UCB and HEAVY-OFUL clearly best, OFUL worst",
        f"Interval of each other's ratio to each of the two above 1; of OFUL's to CRTM and CRMM "
        f"above 1. {_RATIO}",
        _c7,
    ),
    "C8": (
        "Varying arm sets: Hvt-UCB best, HEAVY-OFUL and CRTM competitive, CRMM fails",
        f"Interval of Hvt-UCB's ratio to each up to {1 + SLACK}; of HEAVY-OFUL's and CRTM's to "
        f"Hvt-UCB's up to {COMPARABLE}; of CRMM's above 2 where arms vary. {_RATIO}",
        _c8,
    ),
    "C9": (
        "Table 1: O(1) a round and of state for Hvt-UCB, OFUL, CRTM, CRMM; O(log T) for MENU, O(t) "
        "for TOFU, O(t log T) for HEAVY-OFUL",
        f"Log-log slope against t: time up to {FLAT} and state 0 for O(1); from {GROWS} for O(t).",
        _c9,
    ),
    "C10": (
        "Lemma 1: with probability 1 - 4 delta the confidence set holds for all t",
        "At the theory's constants and true nu: no more failures than a binomial of that "
        "probability has with 99 %.",
        _c10,
    ),
    "C11": (
        "Regret grows like T^(1/(1+eps)), like sqrt(sum nu_t^2), and is bounded with no noise",
        f"Interval of the slope up to the exponent + {SLACK}; that of the regret above the one "
        f"without noise, against the noise, from {LINEAR} up; without noise at most {LATE:.0%} of "
        "it comes in the second half.",
        _c11,
    ),
}
