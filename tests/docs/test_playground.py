"""The playground: its runs are those of the library as it is, and a real browser plays them."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks import playground
from docs.hooks import playground as hook
from tests import chromium

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "assets" / "playground.js"


# The runs.


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("noise", "arms", "policy"),
    [
        ("student", "apart", "Twin-UCB"),
        ("zeros", "close", "Hvt-UCB"),
        ("zeros", "shared", "Twin-UCB"),
        ("student", "apart", "OFUL"),
        ("pareto", "close", "LinTS"),
        ("normal", "shared", "Uniform"),
    ],
)
def test_a_cell_that_is_played_again_is_as_recorded(noise, arms, policy):
    recorded = hook.recorded()["runs"][playground.name(noise, arms, policy)]
    assert playground.cell(noise, arms, policy) == recorded


def test_every_choice_has_its_run():
    record = hook.recorded()
    wanted = {
        playground.name(*one)
        for one in (
            (n, a, p) for n in record["noises"] for a in record["arms"] for p in record["policies"]
        )
    }
    assert set(record["runs"]) == wanted
    assert record["policies"] == list(playground.POLICIES)
    assert hook.PLACE.stat().st_size < 300_000
    for name, run in record["runs"].items():
        best, median, mean, worst = run["regret"]
        assert len(median) == playground.MARKS
        assert len(run["percent"]) == len(record["arms"][name.split("/")[1]]["means"])
        for rows in zip(best, median, mean, worst, strict=True):
            assert rows[0] <= min(rows[1:3]) <= max(rows[1:3]) <= rows[3]


def test_runs_that_were_edited_or_made_by_another_source_are_refused(tmp_path, monkeypatch):
    record = json.loads(hook.PLACE.read_text())
    record["runs"]["normal/apart/OFUL"]["regret"][1][0] += 1.0
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"edited\.json does not fit.*benchmarks\.playground"):
        hook.recorded(edited)
    with monkeypatch.context() as patch:
        patch.setattr(hook, "code_digest", lambda modules: "of other policies")
        with pytest.raises(ValueError, match="one was changed after the other"):
            hook.recorded()
    source = (hook.BENCHMARKS / "playground.py").read_text()
    (tmp_path / "playground.py").write_text(source.replace("SEED = 3_000, 40, 60, 17", "x"))
    monkeypatch.setattr(hook, "BENCHMARKS", tmp_path)
    with pytest.raises(ValueError, match="one was changed after the other"):
        hook.recorded()


def test_the_stamp_is_of_the_policies_that_are_played():
    assert {one.name for one in hook.played()} == set(playground.POLICIES)


def test_what_the_page_says_was_lost_was_lost():
    said = (ROOT / "docs" / "start" / "playground.md").read_text()
    runs, (median, mean, worst) = hook.recorded()["runs"], range(1, 4)
    told = [
        ("student/apart", "OFUL", [median, mean, worst]),
        ("student/apart", "Twin-UCB", [median, mean, worst]),
        ("normal/apart", "OFUL", [mean]),
        ("pareto/apart", "OFUL", [mean]),
        ("pareto/close", "OFUL", [mean, worst]),
        ("pareto/close", "Twin-UCB", [mean, worst]),
        ("normal/apart", "Twin-UCB", [mean]),
        *(("zeros/apart", policy, [worst]) for policy in ("OFUL", "Twin-UCB")),
    ]
    for world, policy, rows in told:
        for row in rows:
            assert f"{runs[f'{world}/{policy}']['regret'][row][-1]:,.0f}" in said, (world, policy)


# The page.


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The page as the site has it, built alone."""
    folder = tmp_path_factory.mktemp("playground")
    for part in ("start/playground.md", "assets/playground.js", "assets/site.css"):
        (folder / "docs" / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "docs" / part, folder / "docs" / part)
    (folder / "docs" / "howto").mkdir()
    (folder / "docs" / "howto" / "zeros.md").write_text("# Zeros\n")
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "hooks": [str(ROOT / "docs" / "hooks" / "playground.py")],
        "plugins": ["search"],
        "nav": ["start/playground.md", "howto/zeros.md"],
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=folder, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "site" / "start" / "playground.html"


DRIVE = """<script>
const at = name => document.getElementById("playground-" + name), found = {};
const all = chosen => [...document.querySelectorAll(chosen)];
const shown = () => all("#playground-regret path").map(e => e.getAttribute("d")).join();
const shares = () => all("#playground-shares td").map(e => e.textContent).join();
function choose(name, value) {
  const before = [shown(), shares(), at("said").textContent];
  if (at(name).type === "checkbox") at(name).checked = value; else at(name).value = value;
  at(name).dispatchEvent(new Event(at(name).type === "range" ? "input" : "change"));
  const after = [shown(), shares(), at("said").textContent];
  found[name] = after.map((one, k) => one !== before[k]);
}
addEventListener("load", () => setTimeout(async () => {
  found.first_said = at("said").textContent;
  choose("noise", "normal"); choose("arms", "close"); choose("first", "Hvt-UCB");
  choose("second", "Uniform"); choose("log", true); choose("time", 9);
  found.said_at_10 = at("said").textContent;
  at("play").click();
  found.playing = at("play").textContent;
  await new Promise(done => setTimeout(done, 400));
  at("play").click();
  found.moved = Number(at("time").value) > 9;
  found.paused = at("play").textContent;
  found.rows = all("#playground-shares tr").length;
  found.numbers = !/NaN|undefined|Infinity/.test(at("box").outerHTML);
  found.bare = all(".playground :is(select, input)").filter(e => !e.labels.length).length;
  found.asked = performance.getEntriesByType("resource").map(e => e.name)
    .filter(name => !name.startsWith("file:"));
  document.body.setAttribute("data-found", JSON.stringify(found));
}, 200));
</script>"""


def opened(page: Path, profile: Path) -> tuple[str, str]:
    """What a browser makes of the file, and what it complains of."""
    browser = shutil.which("chromium")
    if browser is None:
        assert os.environ.get("CI") != "true", "CI installs Chromium; it is not there"
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    flags = [*chromium.FLAGS, "--virtual-time-budget=4000", "--enable-logging=stderr"]
    command = [browser, *flags, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, "\n".join(said)


def test_a_browser_draws_what_is_chosen_from_a_file_and_asks_nobody(page, tmp_path):
    driven = page.with_name("driven.html")
    driven.write_text(page.read_text().replace("</body>", f"{DRIVE}</body>"))
    text, complaints = opened(driven, tmp_path)
    assert complaints == ""
    inside = re.search(r'data-found="([^"]*)"', text)
    assert inside, "the page did not load"
    found: dict[str, Any] = json.loads(html.unescape(inside[1]))
    lost = re.match(
        r"After 3,000 rounds Twin-UCB has lost ([\d.,]+) in the median", found["first_said"]
    )
    assert lost, found["first_said"]
    shown_first = playground.name("student", "apart", "Twin-UCB")
    _, median, _, _ = hook.recorded()["runs"][shown_first]["regret"]
    assert float(lost[1].replace(",", "")) == pytest.approx(median[-1], rel=0.005)
    for choice in ("noise", "arms", "first", "second", "time"):  # lines, bars and words
        assert found[choice] == [True, True, True], choice
    assert found["log"] == [True, False, False]
    assert found["said_at_10"].startswith("After 500 rounds Hvt-UCB has lost ")
    assert (found["playing"], found["paused"], found["moved"]) == ("Pause", "Play", True)
    assert found["rows"] == 1 + 5
    assert found["numbers"]
    assert found["bare"] == 0  # every control has its label
    assert found["asked"] == []


def test_the_browser_finds_a_page_whose_script_fails(page, tmp_path):
    broken = page.with_name("broken.html")
    broken.write_text(page.read_text().replace('id="runs"', 'id="gone"'))
    _, complaints = opened(broken, tmp_path)
    assert "TypeError" in complaints


def test_the_script_is_plain_and_reads_nothing_from_elsewhere():
    text = SCRIPT.read_text()
    for word in ("fetch(", "XMLHttpRequest", "import ", "innerHTML", "eval("):
        assert word not in text
    assert re.findall(r"https?://[^\"']*", text) == ["http://www.w3.org/2000/svg"]
