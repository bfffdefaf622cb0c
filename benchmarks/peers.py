"""Other libraries in one table: decisions, streams and logs, with heavy tails and without.

    make .bench/.ready          # vowpalwabbit, river, contextualbandits, mabwiser and obp
    python -m benchmarks.peers  # needs pip install 'heavytail[learn]'

The peers run in an environment of their own, and one that is not installed there is named below
the table. obp runs without torch, which it requires and these estimators do not use:

    pip install vowpalwabbit river contextualbandits mabwiser
    pip install mypy-extensions pyyaml seaborn tqdm typing-extensions
    pip install --no-deps obp

A cell is the mean score of a library's first setting in benchmarks/peer_players.py and, in
brackets, of the setting that is best in hindsight, by its mean. A second table has the differences
to heavytail's first setting, trial by trial. Times are processor time, as ratios to heavytail's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from benchmarks.peer_players import LIBRARIES
from benchmarks.peer_worlds import JOBS, drawn

ROOT = Path(__file__).parents[1]
OURS = "heavytail"
HERE = (OURS, "sklearn", "ten lines")  # what this interpreter has
TITLES = {"vowpalwabbit": "Vowpal Wabbit", "sklearn": "scikit-learn"}
SCORES = {
    "contexts": "regret, offers in a context",
    "arms": "regret, arms without context",
    "stream": "error of the mean, stream",
    "log": "error of a policy's value, log",
}
Answers = dict[tuple[str, str], dict[str, Any]]


class Row(NamedTuple):
    """The scores of every setting of every library in one world, trial by trial."""

    job: str
    world: str
    scores: dict[str, dict[str, np.ndarray]]
    micros: dict[str, float]


def run(library: str, job: str, folder: Path) -> dict[str, Any]:
    """What benchmarks/peer_players.py printed, or why it printed nothing."""
    python = Path(sys.executable) if library in HERE else ROOT / ".bench/bin/python"
    if not python.exists():
        return {"missing": "no environment for the peers; make .bench/.ready makes one"}
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        [python, ROOT / "benchmarks/peer_players.py", library, job, folder],
        capture_output=True,
        text=True,
        env={**os.environ, **single},
    )
    if done.returncode:
        return {"missing": (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def rows(answers: Answers, truths: dict[str, float]) -> tuple[list[Row], list[str]]:
    """The rows of the table, and what failed."""
    made, failed = [], []
    for job, (_, worlds) in JOBS.items():
        for i, world in enumerate(worlds):
            row = Row(job, world, {}, {})
            for (library, of), answer in answers.items():
                if of != job or "missing" in answer:
                    continue
                told = answer["worlds"][f"{job}-{i}"]
                for setting, value in told.items():
                    if isinstance(value, str):
                        failed.append(f"{library}, {setting}, {world}: {value}")
                        continue
                    score = np.array(value[0])
                    row.scores.setdefault(library, {})[setting] = score
                    row.micros.setdefault(library, value[1])
            made.append(row)
            if job == "log":
                made[-1:] = _of_log(row, truths[world])
    return made, failed


def _of_log(row: Row, truth: float) -> list[Row]:
    """The rows of one log: the error, what the intervals hold, and the lower bound."""

    def each(name: str, of: Any) -> Row:
        return Row(
            name,
            row.world,
            {a: {b: of(v) for b, v in w.items()} for a, w in row.scores.items()},
            {},
        )

    error = each("log", lambda v: np.abs(v[:, 0] - truth) / truth)
    return [
        error._replace(micros=row.micros),
        each("interval", lambda v: 100.0 * ((v[:, 1] <= truth) & (truth <= v[:, 2]))),
        each("width", lambda v: 100.0 * (v[:, 2] - v[:, 1]) / truth),
        each("lower", lambda v: 100.0 * (v[:, 3] <= truth)),
        each("bound", lambda v: 100.0 * v[:, 3] / truth),
    ]


WORDS = {
    **SCORES,
    "interval": "intervals that hold the value, %",
    "width": "width of the interval, % of the value",
    "lower": "lower bounds that hold, %",
    "bound": "lower bound, % of the value",
}


def shown(value: float) -> str:
    """A number with as many digits as matter."""
    return f"{value:,.0f}" if abs(value) >= 10.0 else f"{value:.3f}"


def best(settings: dict[str, np.ndarray]) -> str:
    """The setting with the least mean score."""
    return min(settings, key=lambda name: float(settings[name].mean()))


def cell(row: Row, library: str) -> str:
    """The mean of a library's first setting and, of scores, of its best."""
    settings = row.scores.get(library)
    if not settings:
        return "-"
    first = shown(float(next(iter(settings.values())).mean()))
    if row.job not in SCORES or len(settings) == 1:
        return first
    return f"{first} ({shown(float(settings[best(settings)].mean()))})"


def table(made: list[Row]) -> str:
    """One row a world; the last rows are times."""
    lines = ["| what | world | " + " | ".join(TITLES.get(n, n) for n in LIBRARIES) + " |"]
    lines.append("| --- " * (2 + len(LIBRARIES)) + "|")
    for row in sorted(made, key=lambda row: list(WORDS).index(row.job)):
        cells = " | ".join(cell(row, library) for library in LIBRARIES)
        lines.append(f"| {WORDS[row.job]} | {row.world} | {cells} |")
    for job, words in SCORES.items():
        times = [row.micros for row in made if row.job == job and OURS in row.micros]
        ratios = []
        for library in LIBRARIES:
            both = [t[library] / t[OURS] for t in times if library in t]
            ratios.append(f"{np.exp(np.mean(np.log(both))):.2g}" if both else "-")
        lines.append(f"| time, {words.partition(', ')[2]} | all | {' | '.join(ratios)} |")
    return "\n".join(lines)


def difference(row: Row, others: dict[str, np.ndarray]) -> str:
    """The least mean score among others, minus ours, with the standard error over the trials."""
    name = best(others)
    off = others[name] - next(iter(row.scores[OURS].values()))
    error = float(off.std(ddof=1) / np.sqrt(len(off)))
    mean = float(off.mean())
    sure = abs(mean) > float(student.ppf(0.975, len(off) - 1)) * error
    who = ("heavytail" if mean > 0.0 else "the peer") if sure else "not sure"
    return f"{name} | {shown(mean)} | {shown(error)} | {who}"


def differences(made: list[Row]) -> str:
    """Beside our first setting: the best of the peers' first settings, and of all of theirs."""
    lines = [
        "| what | world | best peer by default | minus ours | error | who has less | best peer "
        "of all settings | minus ours | error | who has less |",
        "| --- " * 10 + "|",
    ]
    for row in made:
        peers = {n: s for n, s in row.scores.items() if n != OURS}
        if row.job not in SCORES or not peers or OURS not in row.scores:
            continue
        first = {
            f"{TITLES.get(n, n)}, {next(iter(s))}": next(iter(s.values())) for n, s in peers.items()
        }
        every = {f"{TITLES.get(n, n)}, {k}": v for n, s in peers.items() for k, v in s.items()}
        said = f"{difference(row, first)} | {difference(row, every)}"
        lines.append(f"| {SCORES[row.job]} | {row.world} | {said} |")
    return "\n".join(lines)


def main() -> None:
    games = [(library, job) for library, jobs in LIBRARIES.items() for job in jobs]
    slow = ("mabwiser", "contextualbandits", "river", "vowpalwabbit", OURS)
    games.sort(key=lambda game: slow.index(game[0]) if game[0] in slow else len(slow))
    with tempfile.TemporaryDirectory() as name:
        folder, truths = Path(name), {}
        for job, (_, worlds) in JOBS.items():
            for i, world in enumerate(worlds):
                arrays = drawn(job, world)
                np.savez(folder / f"{job}-{i}.npz", **arrays)
                if job == "log":
                    truths[world] = float(arrays["truth"])
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda game: run(*game, folder), games))
    answers = dict(zip(games, told, strict=True))
    made, failed = rows(answers, truths)
    print(f"{table(made)}\n\n{differences(made)}\n")
    versions = {n: a["version"] for (n, _), a in answers.items() if a.get("version") and n != OURS}
    print("Versions: " + ", ".join(f"{TITLES.get(n, n)} {v}" for n, v in sorted(versions.items())))
    for (library, job), answer in answers.items():
        if "missing" in answer:
            print(f"Not run: {TITLES.get(library, library)}, {SCORES[job]}: {answer['missing']}.")
    for line in failed:
        print(f"Failed: {line}")


if __name__ == "__main__":
    main()
