"""No page shows a number whose record is of other code, unless its head says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks import evidence
from benchmarks.evidence import COMMIT, Made
from benchmarks.evidence_parts import PARTS

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
GUARANTEES = "docs/mathematics/guarantees.md"
HISTORY = "docs/developers/unbreakable.md"  # what runs of old found; none of it is said of today
BY_NAME = {part.name: part for part in PARTS}
MAKES_NUMBERS = re.compile(
    r"`((?:python -m benchmarks\.|heavytail (?:reproduce|coverage) )\w[^`]*)`"
)


TABLE = re.compile(r"^\|[^\n]*\n\| --- [^\n]*\n((?:\|[^\n]*\n)+)", re.MULTILINE)


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    return evidence.records()


def feeding(page: str) -> list[str]:
    """The parts whose numbers stand on a page."""
    return [part.name for part in PARTS if page in part.pages]


def test_the_records_that_are_stale_are_those_that_are_listed_each_with_a_reason(made) -> None:
    assert evidence.stale(made) == set(evidence.known()), (
        "make them anew by python -m benchmarks.evidence --only NAME, or say why not in "
        "benchmarks/stale_evidence.toml; what is fresh is not listed"
    )
    assert all(len(reason) > 20 for reason in evidence.known().values())
    assert set(made) <= set(BY_NAME)


def test_the_readme_cites_no_stale_record() -> None:
    assert set(feeding("README.md")) & set(evidence.known()) == set()


@pytest.mark.parametrize("page", [page for page in PAGES if feeding(page) and page != "README.md"])
def test_the_head_of_a_page_says_which_of_its_numbers_are_stale(page: str, made) -> None:
    now = evidence.with_head(page, PAGES[page], made, evidence.known())
    assert PAGES[page] == now, "run python -m benchmarks.evidence --heads"


@pytest.mark.parametrize("page", sorted(set(PAGES) - {HISTORY}))
def test_a_commit_on_a_page_is_that_of_a_record_which_feeds_it(page: str, made) -> None:
    named = re.findall(rf"\bat\s+(?:commit\s+)?`?({COMMIT})\b", PAGES[page])
    of_records = {made[name].commit[:7] for name in feeding(page) if name in made}
    assert {commit[:7] for commit in named if commit != "COMMIT"} <= of_records


def sections(text: str) -> list[str]:
    return re.split(r"^#+ .*$", text, flags=re.MULTILINE)


def rows(text: str) -> list[str]:
    """The rows of the tables in a text, without their heads."""
    return [row for table in TABLE.findall(text) for row in table.splitlines()]


@pytest.mark.parametrize("page", [page for page in PAGES if rows(PAGES[page])])
def test_a_table_whose_section_names_a_command_is_that_of_a_record(page: str, made) -> None:
    for section in sections(PAGES[page]):
        if not rows(section):
            continue
        for command in MAKES_NUMBERS.findall(section):
            script = " ".join(command.split()[:3])
            known = [name for name in feeding(page) if script in " ".join(BY_NAME[name].commands)]
            assert known, f"{command} is no part of benchmarks/evidence_parts.py for {page}"
        assert unprinted(page, section, made) == []


def unprinted(page: str, section: str, made: dict[str, Made]) -> list[str]:
    """The rows with a number that the record of their command has not: of the last command before
    their table, or of all that the section names where none comes before.

    Nothing where it kept no text: it is known to be stale, or writes its page itself.
    """
    commands = [(c, name) for name in feeding(page) for c in BY_NAME[name].commands]
    missing: list[str] = []
    if any(page in command for command, _ in commands):
        return missing
    for table in TABLE.finditer(section):
        places = [(section.rfind(c, 0, table.start()), name) for c, name in commands]
        last = max((place for place, _ in places), default=-1)
        here = [name for place, name in places if place == last >= 0]
        here = here or [name for c, name in commands if c in section]
        if not here or not all(name in made and made[name].printed for name in here):
            continue
        printed = evidence.numbers("\n".join(line for name in here for line in made[name].printed))
        missing += [row for row in table[1].splitlines() if not evidence.numbers(row) <= printed]
    return missing


def test_the_numbers_of_what_is_guaranteed_are_those_of_its_records(made) -> None:
    page = " ".join(PAGES[GUARANTEES].split())
    lemma = [line for line in made["lemma"].printed if "theory" in line]
    assert len(lemma) == 4
    assert all("2000 of 2000" in line for line in lemma)
    assert "all of 2,000 trials in each of four worlds" in page
    price = next(line for line in made["price"].printed if "geometric mean" in line)
    times = re.search(r"mean ([\d.]+) times", price)[1]
    assert f"its regret is {times} times that of `target" in page
    for name, rounds in (("normal-sooner", "20,000"), ("normal", "100,000")):
        lines = [line for line in made[name].printed if line.startswith("| normal")]
        ratios = [line.split(" | ")[3] for line in lines]
        assert len(ratios) == 3
        said = rf"{re.escape(min(ratios))} to {re.escape(max(ratios))} times [\w ]* over {rounds}\b"
        assert re.search(said, page), said


def test_what_is_guaranteed_says_of_the_sharp_width_what_is_recorded(made) -> None:
    page = " ".join(PAGES[GUARANTEES].split())
    shares = re.findall(r"\| 1/([\d,]+) \|", "\n".join(made["sharp-radius"].printed))
    assert len(shares) == 5
    assert all(500 < float(share.replace(",", "")) < 2000 for share in shares)
    assert "about a thousand times smaller" in page


# The mechanism itself.


def test_code_that_changes_makes_a_record_stale_and_words_about_it_do_not(
    made, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = {part.name: Made("c", "d", "m", evidence.stamp(part), []) for part in PARTS}
    assert evidence.stale(fresh) == set()
    plain = evidence.code_digest
    monkeypatch.setattr(
        evidence, "code_digest", lambda names: plain(names - {"heavytail.kernels.gram"})
    )
    old = evidence.stale(fresh)
    assert {"price", "mean", "mdp", "calibration"} <= old  # they step by that kernel
    assert "tails" not in old
    assert evidence.stale({}) == set(BY_NAME)


def test_a_number_that_was_not_printed_is_found() -> None:
    page, (command,) = "docs/howto/unknown.md", BY_NAME["tails"].commands
    table = f"`{command}`\n\n| a | b |\n| --- | --- |\n| x(2) | 1,200.5 |\n| y | 7 % |\n"
    kept = {"tails": Made("c", "d", "m", "s", ["x(2) 1200.5", "y  7%"])}
    assert unprinted(page, table, kept) == []
    kept = {"tails": Made("c", "d", "m", "s", ["x(2) 1200.5", "y  8%"])}
    assert unprinted(page, table, kept) == ["| y | 7 % |"]


def test_a_table_is_judged_by_the_last_command_before_it(made) -> None:
    page = "docs/howto/clicks.md"
    section = next(part for part in sections(PAGES[page]) if "benchmarks.link_regret`" in part)
    assert unprinted(page, section, made) == []
    row = next(row for row in rows(section) if row.startswith("| clicks, new arms |"))
    wrong = row.replace(" (", " 987,654 (", 1)
    assert unprinted(page, section.replace(row, wrong), made) == [wrong]


def test_a_head_comes_and_goes_with_the_list() -> None:
    page, text = "docs/howto/unknown.md", "# A title\n\nWords.\n\n    code\n"
    kept = {"tails": Made("0123456789", "2026-01-01", "m", "s", [])}
    told = evidence.with_head(page, text, kept, {"tails": "why."})
    assert "    - `tails` (0123456, 2026-01-01): why.\n\nWords." in told
    assert evidence.with_head(page, told, kept, {"tails": "why."}) == told
    assert evidence.with_head(page, told, kept, {}) == text


def test_the_commit_is_written_behind_the_command_and_nowhere_else(tmp_path: Path) -> None:
    part = BY_NAME["tails"]._replace(pages=("page.md",))
    page = tmp_path / "page.md"
    page.write_text(f"`{part.commands[0]}`, at commit COMMIT; `other` at 7654321")
    evidence.name_commit(part, "0123456789", tmp_path)
    assert page.read_text() == f"`{part.commands[0]}`, at commit 0123456; `other` at 7654321"


def test_a_part_that_fails_leaves_no_record_and_one_that_works_does(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(evidence, "RECORD", tmp_path / "record.json")
    (tmp_path / "record.json").write_text("{}")
    kept: dict[str, Made] = {}
    monkeypatch.setattr(evidence, "keep", lambda name, one: kept.update({name: one}))
    bad = BY_NAME["tails"]._replace(commands=("python -c 'raise SystemExit(3)'",), pages=())
    assert not evidence.make(bad)
    assert kept == {}
    good = bad._replace(commands=("python -c 'print(4.5)'",))
    assert evidence.make(good)
    assert kept["tails"].printed == ["4.5"]


def test_records_of_an_earlier_commit_are_renewed_all_or_by_name(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for name in ("tails", "links", "glb"):
        evidence.keep(name, Made("c", "d", "m", f"of {name}", []), path)
    earlier = {"tails": "of tails", "links": "of links", "glb": "of another commit"}
    assert evidence.renew(earlier, path, only=["tails", "glb"]) == ["tails"]
    assert evidence.renew(earlier, path) == ["links"]
    kept = evidence.records(path)
    assert kept["tails"] == Made("c", "d", "m", evidence.stamp(BY_NAME["tails"]), [])
    assert kept["glb"].stamp == "of glb"


def test_what_this_commit_has_recorded_is_not_made_again(monkeypatch, capsys) -> None:
    runs: list[str] = []
    kept = {name: Made("now", "d", "m", "s", []) for name in ("tails", "links", "sharp-coverage")}
    kept["links"] = kept["links"]._replace(commit="before")
    parts = tuple(BY_NAME[name] for name in ("tails", "links", "sharp-coverage", "glb"))
    for name, value in {
        "PARTS": parts,
        "records": lambda: kept,
        "commit": lambda: "now",
        "stale": lambda _: {"sharp-coverage", "glb"},
        "make": lambda part: runs.append(part.name) or part.name != "glb",
        "write_heads": lambda: None,
    }.items():
        monkeypatch.setattr(evidence, name, value)
    monkeypatch.setattr(evidence.cuda, "explain", lambda: "no GPU here.")
    assert evidence.main([]) == 1  # links are of another commit; glb fails
    assert runs == ["links", "glb"]
    shown = capsys.readouterr().out
    assert "sharp-coverage: left out. no GPU here." in shown
    assert "failed: glb" in shown
    runs.clear()
    evidence.main(["--stale"])
    assert runs == ["glb"]
    runs.clear()
    assert evidence.main(["--only", "tails"]) == 0
    assert runs == ["tails"]


def test_the_list_names_every_part_with_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert evidence.main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{part.name} .* {part.pages[0]}$", shown, re.M) for part in PARTS)


# Records with a file of their own.


def test_the_page_of_benchmarks_shows_what_the_gpu_printed() -> None:
    text = (ROOT / "docs" / "evidence" / "benchmarks_gpu.txt").read_text().strip()
    assert text in PAGES["docs/evidence/benchmarks.md"]
