"""The report: one HTML file that opens offline, and a short page for the documentation."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from heavytail._citation import citation
from heavytail.experiments import plots
from heavytail.experiments.claim import HOLDS, NOT, OPEN, PART, SIGNS, Verdict
from heavytail.experiments.experiment import Bold, Section, Table
from heavytail.experiments.store import write_text

__all__ = ["markdown", "page", "write"]

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
.verdicts td:nth-child(2) { min-width: 8rem; font-weight: 600; }
.holds { color: #00603f; } .part { color: #7a5200; } .not { color: #a11b00; }
.missing { color: #555; }
pre { padding: .6rem; font-size: .85rem; } ul { margin: 0; padding: 0; list-style: none; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; flex: 0 1 30rem; min-width: 0; } figure img { width: 100%; height: auto; }
figcaption, .note { font-size: .85rem; color: #444; }
.heat td { text-align: right; font-variant-numeric: tabular-nums; }
.heat td.best { outline: 3px solid #000; outline-offset: -3px; font-weight: 700; }
details summary { cursor: pointer; padding: .4rem 0; }
nav a { margin-right: .8rem; display: inline-block; }
"""
MANY = 8  # parts of a claim: more are folded away
_MARK = {HOLDS: ("✓", "holds"), PART: ("◐", "part"), NOT: ("✗", "not"), OPEN: ("?", "part")}


def page(
    verdicts: list[Verdict],
    sections: list[Section],
    made: dict[str, Any],
    *,
    title: str,
    intro: str,
    figures: Path,
    source: str = "",
) -> str:
    """The whole report; every figure (its SVG is in ``figures``) is inside, nothing is fetched.

    ``source`` names the paper that the report is about.
    """
    links = " ".join(f'<a href="#{plots.file_name(s.name)}">{_e(s.name)}</a>' for s in sections)
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{_e(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{_e(title)}</h1><p>{_rich(intro)}</p>",
            f"<p>{_rich(source)}</p>" if source else "",
            _verdict_table(verdicts) if verdicts else "",
            f"<nav>{links}</nav>",
            *(_section(section, figures) for section in sections),
            _made(made),
            _cite(),
            "</body></html>",
        ]
    )


def _e(text: str) -> str:
    return html.escape(text)


def _rich(text: str) -> str:
    """A sentence or a cell as HTML: code between backticks, and bold cells."""
    plain = re.sub(r"`([^`]+)`", r"<code>\1</code>", _e(text))
    return f"<b>{plain}</b>" if isinstance(text, Bold) else plain


def _verdict_table(verdicts: list[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        mark, kind = _MARK.get(verdict.word, ("·", "missing"))
        parts = "".join(f"<li>{p.mark} {_rich(p.measured)}</li>" for p in verdict.parts)
        parts = f"<ul>{parts}</ul>" if parts else _e(_instead(verdict))
        if len(verdict.parts) > MANY:
            met = sum(p.met is True for p in verdict.parts)
            head = f"{met} of {len(verdict.parts)} parts met: each of them"
            parts = f"<details><summary>{head}</summary>{parts}</details>"
        parts += f'<p class="note">{_e(verdict.chance)}</p>' if verdict.chance else ""
        apart = f"<br>{_e(_apart(verdict))}" if verdict.by_world else ""
        rows.append(
            f'<tr><td>{verdict.claim.name}</td><td class="{kind}">{mark} {verdict.word}{apart}</td>'
            f"<td>{_e(verdict.claim.says)}</td><td>{parts}</td>"
            f"<td>{_rich(verdict.claim.rule)}</td></tr>"
        )
    head = "".join(f"<th>{c}</th>" for c in ("claim", "verdict", "the paper", "measured", "rule"))
    return (
        f'<h2 id="verdicts">Verdicts</h2><p class="note">{SIGNS}</p>'
        f'<div class="scroll"><table class="verdicts"><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(rows)}</tbody></table></div>"
    )


def _apart(verdict: Verdict) -> str:
    """The verdict on each world, in words; nothing where there is one."""
    return "; ".join(f"{world}: {word}" for world, word in verdict.by_world.items())


def _instead(verdict: Verdict) -> str:
    """Return the text for a verdict without parts."""
    return f"needs {verdict.lacks}" if verdict.lacks else "-"


def _section(section: Section, figures: Path) -> str:
    parts = [f'<h2 id="{plots.file_name(section.name)}">{_e(section.title)}</h2>']
    parts += [f"<p>{_rich(text)}</p>" for text in section.text]
    if section.figures:
        parts.append('<div class="figures">')
        parts += [_figure(section, name, figures) for name in section.figures]
        parts.append("</div>")
    parts += [_table(table) for table in section.tables if table.values is None]
    shaded = [table for table in section.tables if table.values is not None]
    if shaded:
        parts.append(
            "<details><summary>The tuning grid: mean regret on the tuning seeds, by radius "
            "multiplier (columns) and threshold multiplier (rows); the chosen one framed"
            "</summary>"
        )
        parts += [_shaded(table) for table in shaded]
        parts.append("</details>")
    return "\n".join(parts)


def _figure(section: Section, name: str, figures: Path) -> str:
    stem = plots.file_name(name)
    drawing = (figures / f"{stem}.svg").read_bytes()
    data = base64.b64encode(drawing).decode()
    size = re.search(rb'width="([0-9.]+)pt"', drawing)
    wide = f"{0.09 * float(size[1]):.1f}rem" if size else "30rem"  # letters of one size in all
    caption = section.captions.get(name, "")
    return (
        f'<figure style="flex-basis:{wide}"><img id="figure-{stem}" '
        f'alt="{_e(section.title)}. {_e(caption)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{_rich(caption)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{_e(c)}</th>" for c in table.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_rich(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    note = f'<p class="note">{_rich(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{_e(table.title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _shaded(table: Table) -> str:
    values = table.values or ()
    logs = [[math.log(max(value, 1e-9)) for value in row] for row in values]
    low, high = min(map(min, logs)), max(map(max, logs))
    least = min(map(min, values))
    head = "".join(f"<th>{_e(c)}</th>" for c in table.columns)
    body = []
    for (label, *texts), row, shades in zip(table.rows, values, logs, strict=True):
        cells = "".join(
            f'<td class="{"best" if value == least else ""}" style="{_shade(shade, low, high)}">'
            f"{text}</td>"
            for text, value, shade in zip(texts, row, shades, strict=True)
        )
        body.append(f"<tr><th>{_e(label)}</th>{cells}</tr>")
    return (
        f'<h3>{_e(table.title)}</h3><div class="scroll"><table class="heat"><thead><tr>{head}</tr>'
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


def _cite() -> str:
    return f'<h2 id="cite">To cite</h2><pre class="scroll">{_e(citation())}</pre>'


def _flat(made: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in made.items():
        if isinstance(value, dict):
            yield key, _joined(value)
        else:
            yield key, str(value)


def _joined(versions: dict[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in versions.items())


def markdown(
    verdicts: list[Verdict],
    sections: list[Section],
    made: dict[str, Any],
    command: str,
    *,
    intro: str = "",
    images: str = "",
) -> str:
    """The documentation's page, from the same results; ``command`` writes it.

    ``images`` is the folder of the figures, as seen from the page; without it none is shown.
    """
    lines = [
        "# The reproduction",
        "",
        f"Written by `{command}`; do not edit. "
        f"Made at commit `{made['commit']}` by `{made['command']}`, on {made['date']}, "
        f"{made['machine']}, seed {made['seed']}; {_joined(made['versions'])}. {made['digits']} "
        f"{made['trials']}",
        "",
        *([intro, ""] if intro else []),
        "| claim | the paper | verdict |",
        "| --- | --- | --- |",
        *(
            f"| {verdict.claim.name} | {verdict.claim.says} | {_words(verdict)} |"
            for verdict in verdicts
        ),
        *("", "## What was measured", ""),
        *(SIGNS, ""),
    ]
    for verdict in verdicts:
        parts = "; ".join(f"{p.mark} {p.measured}" for p in verdict.parts) or _instead(verdict)
        chance = f". {verdict.chance}" if verdict.chance else ""
        lines.append(f"- **{verdict.claim.name}**: {parts}{chance}")
    lines += ["", "## Rules", ""]
    lines += [f"- **{verdict.claim.name}**: {verdict.claim.rule}" for verdict in verdicts]
    for section in sections:
        lines += ["", f"## {section.title}"]
        for text in section.text:
            lines += ["", text]
        for name in section.figures if images else ():
            lines += [
                "",
                f"![{section.captions.get(name, name)}]({images}/{plots.file_name(name)}.png)",
            ]
        for table in section.tables:
            lines += ["", f"| {' | '.join(table.columns)} |", "| --- " * len(table.columns) + "|"]
            lines += [f"| {' | '.join(map(_marked, row))} |" for row in table.rows]
            lines += ["", table.note] if table.note else []
    return "\n".join(lines) + "\n"


def _marked(cell: str) -> str:
    """A cell in Markdown: its asterisks to the letter, and bold where it is."""
    text = cell.replace("*", r"\*")
    return f"**{text}**" if isinstance(cell, Bold) else text


def _words(verdict: Verdict) -> str:
    """The verdict, and that on each world, for a cell of a table."""
    return f"**{verdict.word}**" + (f" ({_apart(verdict)})" if verdict.by_world else "")


def write(
    out: Path,
    verdicts: list[Verdict],
    sections: list[Section],
    made: dict[str, Any],
    *,
    title: str,
    intro: str,
    source: str = "",
) -> None:
    """Figures and ``report.html`` under ``out``; ``source`` says which paper it is about."""
    for section in sections:
        plots.save(section.figures, out / "figures")
    texts = {"title": title, "intro": intro, "source": source}
    text = page(verdicts, sections, made, **texts, figures=out / "figures")
    write_text(out / "report.html", text)
