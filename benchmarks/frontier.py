"""The table of the page on the mean as a picture: each policy's regret over the least in its world.

``python -m benchmarks.frontier docs/assets/frontier.png`` draws the record of the part ``mean``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RECORD = Path(__file__).parent / "recorded_evidence.json"
STYLES = {  # Okabe and Ito: told apart by everyone; and by the mark too
    "uniform": ("#777777", "x"),
    "LinTS": ("#e69f00", "^"),
    "OFUL": ("#d55e00", "v"),
    'target="typical"': ("#cc79a7", "s"),
    "Hvt-UCB": ("#0072b2", "D"),
    "Twin-UCB": ("#009e73", "o"),
}


def table() -> dict[str, dict[str, float]]:
    """The mean regret by world and policy."""
    printed = json.loads(RECORD.read_text())["mean"]["printed"]
    first = next(k for k, line in enumerate(printed) if line.startswith("| world |"))
    head, _, *rows = (line.strip("| ").split(" | ") for line in printed[first:] if "|" in line)
    worlds = {}
    for name, *cells in rows:
        regret = dict(zip(head[1:], cells, strict=True))
        of = {policy: float(regret[policy].replace(",", "")) for policy in STYLES}
        worlds[name.removesuffix(" (3,10)")] = of
    return worlds


def main() -> None:
    worlds = table()
    least = {name: min(regret.values()) for name, regret in worlds.items()}
    order = sorted(worlds, key=lambda name: worlds[name]["Twin-UCB"] / least[name])
    figure, axes = plt.subplots(figsize=(6.4, 6.4), layout="constrained")
    for policy, (colour, mark) in STYLES.items():
        x = [worlds[name][policy] / least[name] for name in order]
        size = 7 if policy == "Twin-UCB" else 5
        axes.plot(x, range(len(order)), mark, color=colour, ms=size, label=policy, clip_on=False)
    axes.set_yticks(range(len(order)), order, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.95, None)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel(
        "mean regret over 20,000 rounds, as a multiple of the least in that world", fontsize=9
    )
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=6, frameon=False, fontsize=8, columnspacing=1)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "frontier.png", dpi=150)


if __name__ == "__main__":
    main()
