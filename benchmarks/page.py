"""The results page of the documentation, written by ``python -m benchmarks --page PATH``."""

from __future__ import annotations

import datetime
import os
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks import cold, rounds, threads
from heavytail.kernels.index import WIDE

# Too near another line of the plot to be told from it.
HIDDEN = (
    "Hvt-UCB compiled, no ball",
    "Hvt-UCB compiled, projecting",
    "OFUL from Python, a pool",
)

OWN_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
OTHER_MARKS = ("s", "^", "v", "D", "x", "+")  # grey, told apart by these

HEAD = """# Benchmarks

Written on {date} by `{command}`, which `make bench` runs. Machine: {machine}, {cores} cores, Python
{python}; load average {load} at the end.

Times are processor time a round (one selection among n arms and one update), the least of a few
repeats, one thread. **Models differ**: Vowpal Wabbit (squarecb) and the NumPy code learn one model
over all arms, as heavytail does; river, contextualbandits and mabwiser fit one model an arm
(disjoint LinUCB), so their ratio mixes model and code. Vowpal Wabbit parses its text in every
round. "A pool" is `heavytail.Pool` and "same arms" one array in every round: O(n d), the array from
{wide} features on. "Fresh arms" are others in every round, O(n d²). NumPy and the peers are shown
the same arms. "Projecting" is Hvt-UCB with a `theta_bound` halved from the true length until one
round in a hundred or more has to return to the ball; OFUL never projects. The byte floor is the
time in which this machine copies as many bytes as a round moves: the pool read once, the inverse
read twice and written once. Threads are by the clock: other work on the machine shows in them, and
in the two processes beside them.

![Microseconds a round](benchmarks.svg)
"""

COLD = """
## Cold start

Printed by `python -m benchmarks.cold` on {date}: a fresh process, kernels and bytecode cached.
Clock time is processor time only where a core is free; importing NumPy and numba is the floor.

```text
{table}
```
"""


def write(path: Path, report: dict[str, Any]) -> None:
    """The page, and the plot beside it."""
    text = HEAD.format(
        date=datetime.date.today().isoformat(),
        machine=platform.machine(),
        cores=os.cpu_count(),
        python=platform.python_version(),
        command=" ".join(["python -m benchmarks", *sys.argv[1:]]),
        load=f"{os.getloadavg()[0]:.1f}",
        wide=WIDE,
    )
    for key, ours in report["rounds"].items():
        dim, arms = (int(v) for v in key.split(","))
        shown = rounds.table(dim, arms, ours, report["peers"][key]).strip()
        text += f"\n## d = {dim}, n = {arms}\n\n```text\n{shown}\n```\n"
    text += "\n## Growth and threads\n\n```text\n"
    text += rounds.growth_text(report["growth"]).strip() + "\n"
    text += threads.text(report["threads"]).strip() + "\n```\n"
    text += COLD.format(date=datetime.date.today().isoformat(), table=cold.text(report["cold"]))
    extra = path.with_name("benchmarks_gpu.txt")
    if extra.exists():
        text += (
            "\n## GPU\n\nPrinted by `python -m benchmarks.gpu`, which `make bench-gpu` runs:\n\n"
            f"```text\n{extra.read_text().strip()}\n```\n"
        )
    path.write_text(text)
    plot(path.with_name("benchmarks.svg"), report)


def plot(path: Path, report: dict[str, Any]) -> None:
    """Microseconds a round against the size, one line a library."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    series: dict[str, list[float]] = {}
    keys = list(report["rounds"])
    for i, key in enumerate(keys):
        for name, value in {
            **rounds.times(report["rounds"][key]),
            **report["peers"][key],
        }.items():
            series.setdefault(name, [float("nan")] * len(keys))
            if isinstance(value, float):
                series[name][i] = value
    figure, axes = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
    shown = {name: values for name, values in series.items() if name not in HIDDEN}
    colours = iter(OWN_COLOURS)
    grey = iter(OTHER_MARKS)
    for name, values in sorted(shown.items(), key=lambda item: -item[1][-1]):
        if "UCB" in name or "OFUL" in name:
            axes.plot(range(len(keys)), values, "o-", color=next(colours), label=name)
        else:
            axes.plot(range(len(keys)), values, next(grey) + "--", color="0.45", label=name)
    axes.set_yscale("log")
    axes.set_xticks(range(len(keys)), [f"({key.replace(',', ', ')})" for key in keys])
    axes.set(xlabel="(d, n)", ylabel="microseconds a round")
    axes.grid(alpha=0.25)
    figure.legend(loc="outside right center", fontsize="small", frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
