"""The reproduction from end to end: experiments, results, figures, verdicts, report."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heavytail._archive import check_target, folder
from heavytail._citation import AUTHORS, PROCEEDINGS, YEAR
from heavytail._citation import TITLE as TITLE_OF_PAPER
from heavytail._validate import check_count
from heavytail.experiments import across, plots, report
from heavytail.experiments.claim import Claim, Part, Verdict, results_of
from heavytail.experiments.experiment import Experiment, Request, Section, carry_out
from heavytail.experiments.limits import check_memory, check_work
from heavytail.experiments.machine import DIGITS, provenance, record_at
from heavytail.experiments.setting import (
    Setting,
    cost_section,
    regret_text,
    write_parquet,
    write_table,
)
from heavytail.experiments.stats import Interval
from heavytail.experiments.store import write_text
from heavytail.experiments.tune import Tuned
from heavytail.policies.build import find
from heavytail.reproduction import cost, mdp, protocol, spread, tuning
from heavytail.reproduction.catalogue import OURS, SETTINGS, TEN, setting
from heavytail.reproduction.claims import CLAIMS
from heavytail.reproduction.control import CONTROL
from heavytail.reproduction.coverage import COVERAGE
from heavytail.reproduction.glb import GLB
from heavytail.reproduction.growth import HORIZON, NOISE_LEVEL
from heavytail.reproduction.lowrank import LOWRANK
from heavytail.reproduction.settings import (
    HVT,
    TWIN,
    chosen_section,
    figures_section,
    ours_section,
    setting_experiment,
    trials_text,
    untuned_section,
    variants_section,
)

__all__ = ["EXPERIMENTS", "asked_claims", "reproduce", "wanted"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *map(setting_experiment, (*SETTINGS, *OURS)),
        HORIZON,
        NOISE_LEVEL,
        COVERAGE,
        cost.COST,
        cost.SPEEDUP,
        mdp.MDP,
        CONTROL,
        GLB,
        LOWRANK,
    )
}
UNTUNED = (mdp.MDP, CONTROL, GLB, LOWRANK)  # they use none of the multipliers checked here
TITLE = "Heavy-tailed linear bandits with one-pass Huber regression, checked"
INTRO = (
    "Every claim of the paper's experiments, what was measured, and the verdict that the rule "
    "beside it gives. Tuned means: one radius and one threshold multiplier for every algorithm "
    "from the same grid, chosen on seeds that are not reported: {grid}. Intervals "
    "of ratios cover that choice too: the tuning trials are resampled, each resample chooses anew, "
    f"and what at least {tuning.LEAST_SHARE:.0%} of the resamples choose was run on the reported "
    "trials as well and recorded; every bootstrap draw takes one of the choices, with these "
    "shares, and its trials. Hvt-UCB tuned and by theory is the paper's. Hvt-UCB untuned is the "
    "paper's step with a radius and a threshold of ours, and Twin-UCB is ours; every figure and "
    "table says which. Untuned means that no multiplier was chosen, not that nothing is known: "
    "both are told nu and T, as all policies are."
)
PAPER = (
    f"The paper: {', '.join(AUTHORS[:-1])} and {AUTHORS[-1]}, \u201c{TITLE_OF_PAPER},\u201d "
    f"{PROCEEDINGS}, {YEAR}. Its Figure 1 is Student t (here student), regret and time; Figure 2 "
    "the Gaussian (gaussian), likewise; Figure 3 Pareto, Lomax and Fisk noise (pareto, lomax, "
    "fisk); Figure 4 scales that vary (scale-1.5, scale-2, scale-2.5); Figure 5 sets of arms that "
    "vary (arms-50, arms-40, arms-30). Its source prints no numbers in them, so that the claims of "
    "its text are what is checked."
)
OTHERS = "Experiments beyond the paper's"
WHOSE = (
    "Hvt-UCB tuned and by theory is the paper's, untuned it has our constants; Twin-UCB is ours."
)
MOST_TRIALS = 10_000  # one-pass policies run ten times as many
LONGEST_ROW = 7  # numbers that HEAVY-OFUL keeps of a round
ENOUGH = 20  # trials that a verdict needs
IMAGES = "assets/reproduction"  # beside the documentation's page
TUNED = "src/heavytail/reproduction/recorded/tuned.json"  # in a source tree
NUMBERS = ("claim", "verdict", "world", "measured", "value", "low", "high", "rule", "met")
_SETTINGS = [world.name for world in (*SETTINGS, *OURS)]


def reproduce(
    names: Sequence[str],
    request: Request,
    *,
    retune: bool = False,
    tuned: Path | None = None,
    docs: Path | None = None,
) -> str:
    """Run ``names`` (all unless given), write everything under ``request.out``, return a table.

    ``tuned`` is a file of multipliers other than ours; with ``retune`` it is where they are
    recorded.
    """
    start = time.perf_counter()
    experiments = wanted(names)
    _check_size(request)
    if docs is not None:
        check_target(docs, "--docs")
    if tuned is not None and not retune and not tuned.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(tuned))
    request = dataclasses.replace(request, tuned=Tuned.read(tuned or protocol.TUNED))
    if retune:
        path = record_at(tuned, TUNED, "--tuned FILE")
        check_target(path, "--tuned")
        if request.quick and tuned is None:
            raise ValueError(
                "--retune with --quick would put a quick look in the place of our records. Leave "
                "out --quick, or say where to with --tuned FILE."
            )
        request = _retuned([experiment.name for experiment in experiments], request, path)
    elif any(experiment not in UNTUNED for experiment in experiments):
        where = "" if tuned is None else " --tuned FILE"
        tuning.check_fresh(request.tuned, _used(experiments), request.policies, where)
    with folder(request.out):
        sections = carry_out(experiments, request)
    for section in sections:
        if section.name == cost.SPEEDUP.name:
            cost.record_speedup(section, request)
    return _report(names, sections, request, start, docs)


def _used(experiments: Sequence[Experiment]) -> list[Setting]:
    """The settings whose multipliers are used: of other experiments than settings, maybe all."""
    names = [experiment.name for experiment in experiments if experiment not in UNTUNED]
    chosen_in = {setting(name).tuned_as if name in _SETTINGS else None for name in names}
    return [world for world in (*SETTINGS, *OURS) if None in chosen_in or world.name in chosen_in]


def _check_size(request: Request) -> None:
    """Refuse what would never be done, or has no room, before anything is planned."""
    trials, rounds = check_count("--trials", request.trials), request.rounds
    if rounds is not None:
        rounds = check_count("--rounds", rounds)
        check_memory(f"--rounds {rounds:,}", rounds * (LONGEST_ROW + 2), "Lower it.")
    check_work("--trials and --rounds", trials, rounds, MOST_TRIALS)


def wanted(names: Sequence[str]) -> list[Experiment]:
    """The experiments called ``names``; without names, all that do not take too long."""
    for name in names:
        if name not in EXPERIMENTS:
            known = ", ".join(EXPERIMENTS)
            raise ValueError(f"no experiment is called {name!r}; there are {known}.")
    if names:
        return [EXPERIMENTS[name] for name in dict.fromkeys(names)]
    return [experiment for experiment in EXPERIMENTS.values() if not experiment.by_name_only]


def asked_claims(names: Sequence[str]) -> list[Claim]:
    """The claims that are judged on any of the experiments ``names``; without names, all."""
    if not names:
        return list(CLAIMS)
    return [claim for claim in CLAIMS if any(key[0] in names for key in claim.needs)]


def _retuned(names: Sequence[str], request: Request, path: Path) -> Request:
    """Choose multipliers anew for the experiments that have any, and record them."""
    settings = [setting(name) for name in names if name in _SETTINGS]
    if settings:
        request = dataclasses.replace(request, tuned=tuning.retune(settings, request))
    if mdp.MDP.name in names:
        request = dataclasses.replace(request, tuned=mdp.retune(request))
    request.tuned.write(path)
    return request


def _report(
    names: Sequence[str],
    sections: list[Section],
    request: Request,
    start: float,
    docs: Path | None,
) -> str:
    """Result files, figures, verdicts and pages; the text that the command prints."""
    runs = {section.name: section.data for section in sections if section.name in _SETTINGS}
    mine = [section for section in sections if section.name in runs]
    others = [section for section in sections if section.name not in runs]
    others += [] if names else _recorded(sections)
    summary = [
        figures_section(runs),
        ours_section(runs),
        untuned_section(runs, HVT),
        untuned_section(runs, TWIN),
        *(untuned_section(runs, find(name).name) for name in protocol.own_names(request)),
        variants_section(runs),
        chosen_section(runs, request.tuned),
    ]
    summary = [
        section for section in summary if section.figures or any(t.rows for t in section.tables)
    ]
    results = results_of([*mine, *others])
    few = request.quick or request.trials < ENOUGH
    verdicts = [claim.judge(results, few=few) for claim in asked_claims(names)]
    made = _made(request, time.perf_counter() - start)
    header = {key: made[key] for key in ("seed", "trials", "machine", "versions")}
    write_parquet(request.out, mine, header)
    if verdicts:
        _write_verdicts(request.out / "verdicts.parquet", verdicts)
    summary += _together(mine)
    shown = [*summary, *mine, *others]
    title, intro = OTHERS, "What was asked for, alone."
    if runs or verdicts:
        title, intro = TITLE, INTRO.format(grid=tuning.search_text(request.tuned, runs))
    source = PAPER if runs or verdicts else ""
    report.write(request.out, verdicts, shown, made, title=title, intro=intro, source=source)
    if docs is not None:
        made["trials"] = trials_text(runs)
        _write_docs(docs, verdicts, [*summary, *others], made, intro)
    asked = [
        table.text() for section in others if section.name in names for table in section.tables
    ]
    lines = "\n".join(f"{v.claim.name:<4} {v.word:<14} {v.claim.says}" for v in verdicts)
    table = f"{regret_text(runs)}\n{WHOSE}" if runs else ""
    return "\n\n".join(part for part in (table, *asked, lines) if part)


def _together(sections: Sequence[Section]) -> list[Section]:
    """Regret against time where the paper reports it, and all its settings, each once, as one."""
    mine = [section for section in sections if section.name in TEN]
    if not mine:
        return []
    found = {section.name: section.data for section in mine}
    together = across.section(found, {section.name: section.shown for section in mine})
    timed = [section for section in mine if setting(section.name).group == "main"]
    return [*([cost_section(timed)] if timed else []), *([together] if together else [])]


def _write_docs(
    docs: Path,
    verdicts: list[Verdict],
    sections: list[Section],
    made: dict[str, Any],
    intro: str,
) -> None:
    """The documentation's page, and its figures in a folder beside it."""
    command = "heavytail reproduce --docs docs/evidence/reproduction.md"
    for section in sections:
        plots.save_small(section.figures, docs.parent / IMAGES)
    page = report.markdown(verdicts, sections, made, command, intro=intro, images=IMAGES)
    write_text(docs, page)


def _recorded(sections: Sequence[Section]) -> list[Section]:
    """Sections of every report from its records: the speed-up unless just run, and the spread."""
    shown = []
    if all(section.name != cost.SPEEDUP.name for section in sections):
        shown.append(cost.speedup_section(cost.read_speedup()))
    recorded = spread.read_record()
    if recorded is not None:
        shown.append(spread.section(recorded))
    return shown


def _write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> None:
    import pyarrow as pa

    rows = [
        {
            "claim": verdict.claim.name,
            "statement": verdict.claim.says,
            "measured": [part.measured for part in verdict.parts],
            "verdict": verdict.word,
            "by_world": [f"{world}: {word}" for world, word in verdict.by_world.items()],
            "chance": verdict.chance,
            "rule": verdict.claim.rule,
            "met": [part.met for part in verdict.parts],
            "missing": verdict.lacks,
        }
        for verdict in verdicts
    ]
    write_table(path, pa.Table.from_pylist(rows), {})
    parts = [_numbers(verdict, part) for verdict in verdicts for part in verdict.parts]
    kinds = {"value": pa.float64(), "low": pa.float64(), "high": pa.float64(), "met": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in NUMBERS])
    table = pa.Table.from_pylist(parts, schema=schema)
    write_table(path.with_name("verdict_numbers.parquet"), table, {})


def _numbers(verdict: Verdict, part: Part) -> dict[str, Any]:
    """A part of a claim as a row: its number, the interval, the rule and the answer."""
    number = part.number
    value, low, high = (
        (number.value, number.low, number.high)
        if isinstance(number, Interval)
        else (number, None, None)
    )
    about = verdict.claim.name, verdict.word, part.world, part.measured
    return dict(zip(NUMBERS, (*about, value, low, high, part.rule, part.met), strict=True))


def _made(request: Request, seconds: float) -> dict[str, Any]:
    made = {
        f"{origin['command']} at {origin['commit']} on {origin['date']}, {origin['machine']}": name
        for name, origin in request.tuned.provenance.items()
    }
    return {
        **provenance(seed=request.seed, trials=request.trials),
        "digits": DIGITS,
        "seconds": f"{seconds:.0f}",
        "tuned multipliers": "; ".join(made) or "none recorded",
        "results": "files with the ending .parquet and figures/ beside this file",
    }
