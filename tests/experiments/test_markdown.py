"""The documentation's page of an experiment: a table of verdicts, then what was measured."""

from __future__ import annotations

from heavytail.experiments.claim import Claim, Part
from heavytail.experiments.experiment import Bold, Section, Table
from heavytail.experiments.report import markdown, page

MADE = {
    "commit": "c",
    "command": "run",
    "date": "d",
    "machine": "m",
    "versions": {"python": "3"},
    "digits": "Bits are a machine's.",
    "seed": 0,
    "trials": "Few.",
}


def test_the_verdicts_come_first_and_stars_are_no_emphasis() -> None:
    claim = Claim("C1", "It is so", "a rule", (), lambda _: [Part("2 of 2", True), Part("x", None)])
    tables = [Table("t", ("a", "b"), [("0.1*", "0.2*"), ("**x**", Bold("1, 2*"))])]
    page = markdown([claim.judge({})], [Section("s", "Tuned", tables=tables)], MADE, "again")
    assert "| C1 | It is so | **holds in part** |\n\n## What was measured\n" in page
    assert "\n- **C1**: ✓ 2 of 2; ? x\n" in page
    assert r"| 0.1\* | 0.2\* |" in page
    assert r"| \*\*x\*\* | **1, 2\*** |" in page
    assert "1, 2*" in tables[0].text()


def test_the_report_shows_code_and_bold_cells_and_no_markup(tmp_path) -> None:
    rows = [("<b>", Bold("4*")), ("**mine**", "$x$")]
    section = Section("s", "S", ["Run `a < b` twice."], [Table("t", ("a", "b"), rows, "By `c`.")])
    texts = {"title": "T", "intro": "By `d`.", "source": "The paper."}
    text = page([], [section], {"a": "b"}, **texts, figures=tmp_path)
    for shown in (
        "Run <code>a &lt; b</code> twice.",
        "By <code>c</code>.",
        "By <code>d</code>.",
        "<p>The paper.</p>",
        "<td>&lt;b&gt;</td><td><b>4*</b></td>",
        "<td>**mine**</td><td>$x$</td>",
        "@inproceedings{",
    ):
        assert shown in text
    assert "`" not in text


def test_a_wide_figure_gets_a_wide_place(tmp_path) -> None:
    for points in (331, 691):
        (tmp_path / "f.svg").write_text(f'<svg width="{points}.2pt" height="9pt"></svg>')
        section = Section("s", "S", figures={"f": None})
        text = page([], [section], {}, title="T", intro="", figures=tmp_path)
        assert f'style="flex-basis:{0.09 * (points + 0.2):.1f}rem"' in text
