"""The report: one HTML file that opens offline, and a short page for the documentation."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from heavytail.experiments.registry import Heat, Section, Table
from heavytail.experiments.verdicts import HOLDS, NOT, PART, Verdict

__all__ = ["markdown", "page"]

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 72rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; border-top: 1px solid #ccc;
  padding-top: 1rem; } h3 { font-size: 1.05rem; margin: 1.2rem 0 .3rem; }
.scroll { overflow-x: auto; border: 1px solid #ddd; border-radius: 4px; }
table { border-collapse: collapse; font-size: .88rem; min-width: 100%; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid #eee; overflow-wrap: normal; }
th { background: #f4f4f4; white-space: nowrap; }
table:not(.verdicts) td { white-space: nowrap; }
.verdicts td:nth-child(3), .verdicts td:nth-child(5) { min-width: 15rem; }
.verdicts td:nth-child(4) { min-width: 22rem; }
.verdicts td:nth-child(2) { white-space: nowrap; font-weight: 600; }
.holds { color: #00603f; } .part { color: #7a5200; } .not { color: #a11b00; }
.missing { color: #555; }
ul { margin: 0; padding: 0; list-style: none; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; flex: 0 1 30rem; min-width: 0; } figure img { width: 100%; height: auto; }
figcaption, .note { font-size: .85rem; color: #444; }
.heat td { text-align: right; font-variant-numeric: tabular-nums; }
.heat td.best { outline: 3px solid #000; outline-offset: -3px; font-weight: 700; }
details summary { cursor: pointer; padding: .4rem 0; }
nav a { margin-right: .8rem; display: inline-block; }
"""
INTRO = (
    "Every claim of the paper's experiments, what was measured, and the verdict that the rule "
    "beside it gives. Tuned means: one radius and one threshold multiplier for every algorithm "
    "from the same grid, chosen on seeds that are not reported."
)
MANY = 8  # parts of a claim: more are folded away
_MARK = {HOLDS: ("✓", "holds"), PART: ("◐", "part"), NOT: ("✗", "not")}


def page(
    verdicts: list[Verdict],
    sections: list[Section],
    made: dict[str, Any],
    *,
    title: str = "Heavy-tailed linear bandits with one-pass Huber regression, checked",
    intro: str = INTRO,
    figures: Path,
) -> str:
    """The whole report; every figure (its SVG is in ``figures``) is inside, nothing is fetched."""
    links = " ".join(f'<a href="#{s.name}">{_e(s.name)}</a>' for s in sections)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{_e(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_e(title)}</h1><p>{_e(intro)}</p>",
            _verdict_table(verdicts) if verdicts else "",
            f"<nav>{links}</nav>",
            *(_section(section, figures) for section in sections),
            _made(made),
            "</body></html>",
        ]
    )


def _e(text: str) -> str:
    return html.escape(text)


def _verdict_table(verdicts: list[Verdict]) -> str:
    rows = []
    for one in verdicts:
        mark, kind = _MARK.get(one.verdict, ("·", "missing"))
        parts = "".join(f"<li>{'✓' if p.met else '✗'} {_e(p.measured)}</li>" for p in one.measured)
        parts = f"<ul>{parts}</ul>" if parts else "-"
        if len(one.measured) > MANY:
            met = sum(p.met for p in one.measured)
            head = f"{met} of {len(one.measured)} parts met: each of them"
            parts = f"<details><summary>{head}</summary>{parts}</details>"
        rows.append(
            f'<tr><td>{one.claim}</td><td class="{kind}">{mark} {one.verdict}</td>'
            f"<td>{_e(one.statement)}</td><td>{parts}</td>"
            f"<td>{_e(one.rule)}</td></tr>"
        )
    head = "".join(f"<th>{c}</th>" for c in ("claim", "verdict", "the paper", "measured", "rule"))
    return (
        '<h2 id="verdicts">Verdicts</h2><p class="note">Each ✓ or ✗ is one part of the claim: all '
        "met, it holds; some, it holds in part; none, it does not hold.</p>"
        f'<div class="scroll"><table class="verdicts"><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
    )


def _section(section: Section, figures: Path) -> str:
    parts = [f'<h2 id="{section.name}">{_e(section.title)}</h2>']
    parts += [f"<p>{_e(text)}</p>" for text in section.text]
    if section.figures:
        parts.append('<div class="figures">')
        parts += [_figure(section, name, figures) for name in section.figures]
        parts.append("</div>")
    parts += [_table(table) for table in section.tables]
    if section.heats:
        parts.append(
            "<details><summary>The tuning grid: mean regret on the tuning seeds, by radius "
            "multiplier (columns) and threshold multiplier (rows); the chosen one framed"
            "</summary>"
        )
        parts += [_heat(heat) for heat in section.heats]
        parts.append("</details>")
    return "\n".join(parts)


def _figure(section: Section, name: str, figures: Path) -> str:
    data = base64.b64encode((figures / f"{name}.svg").read_bytes()).decode()
    caption = _e(section.captions.get(name, ""))
    return (
        f'<figure><img id="figure-{name}" alt="{_e(section.title)}. {caption}" '
        f'src="data:image/svg+xml;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{_e(c)}</th>" for c in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{_e(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{_e(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _heat(heat: Heat) -> str:
    logs = [[math.log(max(value, 1e-9)) for value in row] for row in heat.values]
    low, high = min(map(min, logs)), max(map(max, logs))
    least = min(map(min, heat.values))
    head = "".join(f"<th>{_e(c)}</th>" for c in ("radius", *heat.columns))
    body = []
    for label, row, shades in zip(heat.rows, heat.values, logs, strict=True):
        cells = "".join(
            f'<td class="{"best" if value == least else ""}" style="{_shade(shade, low, high)}">'
            f"{value:,.0f}</td>"
            for value, shade in zip(row, shades, strict=True)
        )
        body.append(f"<tr><th>{_e(label)}</th>{cells}</tr>")
    return (
        f'<h3>{_e(heat.title)}</h3><div class="scroll"><table class="heat"><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _shade(value: float, low: float, high: float) -> str:
    """From light yellow (least regret) to dark blue: order is told by lightness alone."""
    share = 0.0 if high <= low else (value - low) / (high - low)
    stops = ((255, 247, 188), (127, 188, 196), (20, 45, 105))
    at = min(int(share * 2), 1)
    t = share * 2 - at
    mixed = [round(a + t * (b - a)) for a, b in zip(stops[at], stops[at + 1], strict=True)]
    ink = "#000" if share < 0.6 else "#fff"
    return f"background:rgb({mixed[0]},{mixed[1]},{mixed[2]});color:{ink}"


def _made(made: dict[str, Any]) -> str:
    rows = "".join(f"<tr><th>{_e(k)}</th><td>{_e(v)}</td></tr>" for k, v in _flat(made))
    return (
        '<h2 id="made">How this was made</h2><div class="scroll"><table><tbody>'
        f"{rows}</tbody></table></div>"
    )


def _flat(made: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in made.items():
        if isinstance(value, dict):
            yield key, ", ".join(f"{k} {v}" for k, v in value.items())
        else:
            yield key, str(value)


def markdown(verdicts: list[Verdict], sections: list[Section], made: dict[str, Any]) -> str:
    """The documentation's page, from the same results."""
    lines = [
        "# The reproduction",
        "",
        "Written by `heavytail reproduce --docs docs/reproduction.md`; do not edit. "
        f"Made at commit `{made['commit']}` by `{made['command']}`, on {made['date']}, "
        f"{made['machine']}, seed {made['seed']}, {made['trials']} trials.",
        "",
        "| claim | the paper | verdict | measured |",
        "| --- | --- | --- | --- |",
    ]
    for one in verdicts:
        parts = "; ".join(f"{'✓' if p.met else '✗'} {p.measured}" for p in one.measured)
        lines.append(f"| {one.claim} | {one.statement} | **{one.verdict}** | {parts} |")
    lines += ["", "## Rules", ""]
    lines += [f"- **{one.claim}**: {one.rule}" for one in verdicts]
    for section in sections:
        lines += ["", f"## {section.title}", "", *section.text]
        for table in section.tables:
            lines += ["", f"| {' | '.join(table.columns)} |", "| --- " * len(table.columns) + "|"]
            lines += [f"| {' | '.join(row)} |" for row in table.rows]
            lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"
