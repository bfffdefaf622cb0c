"""The choice of multipliers, how sure it is, and whether a record of it is still true.

- Every point of a grid is run on :data:`SCREENED` trials, and the :data:`FINALISTS` best of them on
  :data:`TUNING_TRIALS` in all: the least mean regret is chosen. The seeds are not reported.
- The tuning trials of the finalists are resampled, and each resample chooses anew. What at least
  :data:`LEAST_SHARE` of the resamples choose instead is run on the reported trials too, and its
  regret recorded, so that an interval can draw the choice as well as the trials. Choices of two
  policies are drawn independently; that another point might have reached the finals is left out.
- Each choice keeps a stamp of the code it was made with. When that has changed, the record is
  refused. Where the code of now finds the recorded regret again, to every digit, at the first point
  of the grid, the last and the chosen one, the change moved no number and the record is confirmed;
  what is left is chosen anew, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from heavytail.experiments.experiment import Request, run_units
from heavytail.experiments.machine import provenance
from heavytail.experiments.setting import Setting, build, trial_units
from heavytail.experiments.source import code_digest, kernel_modules
from heavytail.experiments.stats import choice_shares
from heavytail.experiments.tune import APART, Point, Tuned, regrets, shown
from heavytail.experiments.unit import Outcome, Unit
from heavytail.policies import PackedPolicy, Policy
from heavytail.policies.build import find
from heavytail.reproduction.catalogue import setting
from heavytail.reproduction.protocol import grid_of, options_of, trials_of, weight_of

__all__ = [
    "FINALISTS",
    "LEAST_SHARE",
    "SCREENED",
    "TUNING_TRIALS",
    "check_fresh",
    "retune",
    "search_text",
    "stale",
    "stamp",
    "tuning_units",
]

SCREENED = 10  # trials of every point
FINALISTS = 6  # points that are run again ...
TUNING_TRIALS = 40  # ... on so many trials in all
LEAST_SHARE = 0.05  # of the resamples must choose a point for it to count
_DIGITS = 4  # of a regret that is recorded

Case = tuple[str, str]  # setting, policy
Run = Callable[[list[Unit]], dict[str, Outcome]]
UnitsOf = Callable[[Case, Point], list[Unit]]


def stamp(policy: Policy, setting: Setting) -> str:
    """A hash of the code that decides what is best: of the policy, its kernels, and the world."""
    modules = {type(policy).__module__, type(setting.environment).__module__}
    modules |= {"heavytail.environments.geometry", "heavytail.environments.noise"}
    if isinstance(policy, PackedPolicy):
        modules |= kernel_modules([policy.algorithm.update, policy.algorithm.select])
    return code_digest(frozenset(modules))


def _stamp(name: str, setting: Setting) -> str:
    return stamp(build(name, setting, setting.rounds, **options_of(name, "tuned")), setting)


def stale(tuned: Tuned, settings: Iterable[Setting], names: Iterable[str]) -> list[Case]:
    """List the (setting, policy) pairs whose record was made with other code than today's."""
    return [
        (setting.name, name)
        for setting in settings
        for name in names
        if not setting.repeats
        and tuned.options(setting.name, name) is not None
        and tuned.source(setting.name, name) != _stamp(name, setting)
    ]


def check_fresh(
    tuned: Tuned, settings: Iterable[Setting], names: Iterable[str], where: str = ""
) -> None:
    """Refuse multipliers that were chosen with other code; ``where`` is the option that names them.

    Raises:
        ValueError: which policies' multipliers are stale, and what to run.
    """
    old = stale(tuned, settings, names)
    if old:
        policies = ", ".join(dict.fromkeys(find(name).name for _, name in old))
        raise ValueError(
            f"the recorded multipliers of {policies} were chosen with other code than this. "
            f"Run `heavytail reproduce --retune{where}`, which chooses those anew and no others."
        )


def tuning_units(
    request: Request, setting: Setting, name: str, point: Point, trials: int
) -> list[Unit]:
    """A point of a policy's grid in a setting, on seeds that are not reported."""
    return _units(request, setting, name, point, trials, request.seed + APART)


def _units(
    request: Request, setting: Setting, name: str, point: Point, trials: int, seed: int
) -> list[Unit]:
    rounds = request.rounds or setting.rounds
    policy = build(name, setting, rounds, **options_of(name, "tuned"), **point)
    return trial_units(setting, policy, rounds, trials, seed, weight=weight_of(name))


def retune(settings: Sequence[Setting], request: Request) -> Tuned:
    """Choose where nothing is recorded, or what is recorded is stale or of other seeds."""
    by_name = {setting.name: setting for setting in settings if not setting.repeats}
    screened = min(request.trials, SCREENED)
    trials = min(2 * request.trials, TUNING_TRIALS)
    made = provenance(
        trials=trials, screened=screened, seed=request.seed + APART, rounds=request.rounds
    )

    def run(units: list[Unit]) -> dict[str, Outcome]:
        return run_units(units, request, "tuning")

    def on(count: int) -> UnitsOf:
        return lambda case, point: tuning_units(request, by_name[case[0]], case[1], point, count)

    tuned = _confirm(by_name, request, made, run, on(screened))
    grid = {
        (s, name): grid_of(name)
        for s in by_name
        for name in request.policies
        if grid_of(name) and not _stands(tuned, by_name[s], name, made)
    }
    finals: dict[Case, list[Point]] = {}
    for case, values in regrets(grid, on(screened), run).items():
        means = values.mean(axis=1)
        tuned = tuned.with_search(*case, grid[case], means.tolist(), made)
        best = np.argsort(means, kind="stable")[:FINALISTS]
        finals[case] = [grid[case][k] for k in sorted(best)]
    shares: dict[Case, dict[int, float]] = {}
    for case, values in regrets(finals, on(trials), run).items():
        tuned = tuned.with_finals(*case, finals[case], values.mean(axis=1).tolist(), made)
        chosen = tuned.options(*case)
        shares[case] = {
            k: float(share)
            for k, share in enumerate(choice_shares(values))
            if share >= LEAST_SHARE and finals[case][k] != chosen
        }
    again = regrets(
        {
            case: [finals[case][k] for k in by_point]
            for case, by_point in shares.items()
            if by_point
        },
        lambda case, point: _units(
            request,
            by_name[case[0]],
            case[1],
            point,
            trials_of(case[1], "tuned", request),
            request.seed,
        ),
        run,
    )
    for case, by_point in shares.items():
        others = [
            {**finals[case][k], "share": share, "regret": [_short(r) for r in again[case][row]]}
            for row, (k, share) in enumerate(by_point.items())
        ]
        tuned = tuned.with_others(*case, others, _stamp(case[1], by_name[case[0]]))
    return tuned


def search_text(tuned: Tuned, names: Iterable[str]) -> str:
    """Sentences on the grids and trials of these settings' record, alike settings together."""
    said: dict[str, list[str]] = {}
    for world in dict.fromkeys(setting(name).tuned_as for name in names):
        searches = tuned.settings.get(world)
        if not searches:
            continue
        made = tuned.provenance.get(world, {})
        points = sorted({len(search["grid"]) for search in searches.values()})
        finals = sorted({len(search.get("finals", ())) for search in searches.values()})
        rounds = made.get("rounds") or setting(world).rounds
        text = (
            f"every point of a grid of {_either(points)} on {made.get('screened', '?')} trials of "
            f"{rounds:,} rounds, the {_either(finals)} best on {made.get('trials', '?')}"
        )
        said.setdefault(text, []).append(world)
    if len(said) < 2:
        return next(iter(said), "nothing is recorded for these settings")
    return "; ".join(f"{', '.join(worlds)}: {text}" for text, worlds in said.items())


def _either(counts: Sequence[int]) -> str:
    return " or ".join(map(str, counts))


def _confirm(
    by_name: dict[str, Setting],
    request: Request,
    made: dict[str, Any],
    run: Run,
    units_of: UnitsOf,
) -> Tuned:
    """The record with the stamp of this code wherever its regret was found again."""
    tuned = request.tuned
    tunable = [name for name in request.policies if grid_of(name)]
    old = stale(tuned, by_name.values(), tunable)
    samples = {case: _sample(tuned, *case) for case in old if _alike(tuned, case[0], made)}
    for case, values in regrets(samples, units_of, run).items():
        if _found_again(tuned, case, samples[case], values.mean(axis=1).tolist()):
            tuned = tuned.with_source(*case, _stamp(case[1], by_name[case[0]]))
    return tuned


def _alike(tuned: Tuned, setting: str, made: dict[str, Any]) -> bool:
    """Tell whether the record is of these trials."""
    before = tuned.provenance.get(setting, {})
    return all(before.get(key) == made[key] for key in ("trials", "screened", "seed", "rounds"))


def _stands(tuned: Tuned, setting: Setting, name: str, made: dict[str, Any]) -> bool:
    """Tell whether the record is of this code, on these trials."""
    alike = _alike(tuned, setting.name, made)
    return alike and tuned.source(setting.name, name) == _stamp(name, setting)


def _sample(tuned: Tuned, setting: str, name: str) -> list[Point]:
    """The points by which a record is confirmed: the ends of its grid, and what was chosen."""
    grid = grid_of(name)
    chosen = tuned.options(setting, name) or grid[0]
    return [grid[0], grid[-1], chosen]


def _found_again(tuned: Tuned, case: Case, points: list[Point], regret: list[float]) -> bool:
    """Tell whether the grid on file has these points with this regret."""
    setting, name = case
    return all(
        {**point, "regret": shown(value)} in tuned.grids(setting)[name]
        for point, value in zip(points, regret, strict=True)
    )


def _short(value: float) -> float:
    """To a few digits, which is all an interval needs."""
    return float(f"{value:.{_DIGITS}g}")
