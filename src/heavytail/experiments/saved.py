"""Results read back from Parquet: tables for a paper, and figures drawn again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytail._validate import printable
from heavytail.experiments import across, plots
from heavytail.experiments.setting import COST, cost_figure
from heavytail.experiments.unit import Key, Trials, Unit
from heavytail.simulation.results import FORMAT, Results

__all__ = ["Saved", "as_csv", "as_latex", "draw", "read"]

COLUMNS = (
    "setting",
    "policy",
    "variant",
    "trials",
    "rounds",
    "mean_regret",
    "standard_error",
    "median_regret",
    "mean_seconds",
)
PASS = (
    "Pass the folder that heavytail run or reproduce wrote, its regret.parquet, or a file of "
    "Results.save."
)
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip


@dataclass(frozen=True)
class Saved:
    """Trials by setting and (policy, variant); titles, and what figures show, by setting."""

    found: Mapping[str, Mapping[Key, Trials]]
    titles: Mapping[str, str]
    shown: Mapping[str, list[Key]]


def read(path: Path) -> Saved:
    """The results in a folder, of ``heavytail run`` or ``reproduce``, or in a file of theirs or of
    ``Results.save``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = path / "regret.parquet" if path.is_dir() else path
    if not file.exists():
        raise ValueError(f"{printable(str(file))}: there is no such file. {PASS}")
    try:
        table = pq.read_table(file)
        header = json.loads(table.schema.metadata[b"heavytail"])
        if header.get("format") == FORMAT:
            return _of_results(Results.load(file), file.stem)
        rows = table.to_pylist()
        seconds = _seconds(file.with_name("seconds.parquet"))
        found: dict[str, dict[Key, list[dict[str, Any]]]] = {}
        for row in rows:
            if not row["rounds"] or np.shape(row["regret"]) != np.shape(row["rounds"]):
                raise ValueError("a trial has not one regret for each of its rounds")
            runs = found.setdefault(row["setting"], {})
            runs.setdefault((row["policy"], row["variant"]), []).append(row)
        trials = {
            name: {key: _trials(mine, seconds) for key, mine in runs.items()}
            for name, runs in found.items()
        }
        shown = {
            name: [tuple(key) for key in header.get("shown", {}).get(name, runs)]
            for name, runs in trials.items()
        }
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        what = printable(str(error))
        raise ValueError(
            f"{printable(str(file))} is not results of heavytail ({what}). {PASS}"
        ) from None
    titles = {name: header.get("titles", {}).get(name, name) for name in trials}
    return Saved(trials, titles, shown)


def _of_results(results: Results, name: str) -> Saved:
    unit = Unit("", {"marks": results.rounds, "rounds": int(results.rounds[-1])})
    runs: dict[Key, Trials] = {
        (policy, "as given"): Trials([unit], {"regret": run.regret, "seconds": run.seconds})
        for policy, run in results.items()
    }
    return Saved({name: runs}, {name: name}, {name: list(runs)})


def _seconds(path: Path) -> dict[tuple[Any, ...], float]:
    """The seconds of each trial; nothing where the file is not there."""
    import pyarrow.parquet as pq

    if not path.exists():
        return {}
    rows = pq.read_table(path).to_pylist()
    return {(r["setting"], r["policy"], r["variant"], r["trial"]): r["seconds"] for r in rows}


def _trials(rows: list[dict[str, Any]], seconds: Mapping[tuple[Any, ...], float]) -> Trials:
    keys = [(row["setting"], row["policy"], row["variant"], row["trial"]) for row in rows]
    marks = np.array(rows[0]["rounds"])
    arrays = {
        "regret": np.array([row["regret"] for row in rows]),
        "seconds": np.array([seconds.get(key, np.nan) for key in keys]),
    }
    return Trials([Unit("", {"marks": marks, "rounds": int(marks[-1])})], arrays)


def _rows(saved: Saved) -> Iterator[tuple[Any, ...]]:
    for name, runs in saved.found.items():
        for key, trials in runs.items():
            final, rounds = trials.final, trials.arguments["rounds"]
            error = final.std(ddof=1) / np.sqrt(len(final)) if len(final) > 1 else np.nan
            numbers = (final.mean(), error, np.median(final), trials["seconds"].mean())
            yield (name, *key, len(final), rounds, *map(float, numbers))


def as_csv(saved: Saved) -> str:
    """A row for each setting, policy and variant: final regret with its standard error, seconds."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in _rows(saved):
        writer.writerow("" if cell != cell else cell for cell in row)
    return stream.getvalue()


def as_latex(saved: Saved) -> str:
    """A table for LaTeX with booktabs: a row for each policy, a column for each setting, the mean
    of the final regret and its standard error; the least mean of a column is bold.
    """
    cells: dict[Key, dict[str, tuple[float, float]]] = {}
    for name, policy, variant, _, _, mean, error, *_ in _rows(saved):
        cells.setdefault((policy, variant), {})[name] = (mean, error)
    best = {name: min(mine[name][0] for mine in cells.values() if name in mine)
            for name in saved.found}  # fmt: skip
    lines = [
        r"\begin{tabular}{l" + "r" * len(saved.found) + "}",
        r"\toprule",
        " & ".join(["policy", *map(_latex, saved.found)]) + r" \\",
        r"\midrule",
    ]
    for (policy, variant), mine in cells.items():
        label = policy if variant == "as given" else f"{policy}, {variant}"
        numbers = [
            _number(*mine[name], bold=mine[name][0] == best[name]) if name in mine else "--"
            for name in saved.found
        ]
        lines.append(" & ".join([_latex(label), *numbers]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _number(mean: float, error: float, *, bold: bool) -> str:
    """mean ± error, with the digits that the error leaves."""
    digits = 1 if not error > 0.0 else min(max(1 - int(np.floor(np.log10(error))), 0), 6)
    text = f"{mean:.{digits}f}"
    text = rf"\mathbf{{{text}}}" if bold else text
    return f"${text}$" if error != error else rf"${text} \pm {error:.{digits}f}$"


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in printable(text))


def draw(saved: Saved, folder: Path) -> list[str]:
    """Draw every figure of results again, as the report has it; the names of the files."""
    figures = {
        name: plots.regret_figure(saved.titles[name], runs, saved.shown[name])
        for name, runs in saved.found.items()
    }
    seconds = [t["seconds"] for runs in saved.found.values() for t in runs.values()]
    if not np.isnan(np.concatenate(seconds)).any():
        figures[COST] = cost_figure(saved.found, saved.titles, saved.shown)
    together = across.section(saved.found, saved.shown)
    figures |= together.figures if together else {}
    plots.save(figures, folder)
    return [plots.file_name(name) for name in figures]
