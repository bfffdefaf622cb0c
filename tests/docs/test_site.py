"""The documentation as a reader meets it: built once, in strict mode, and looked at."""

from __future__ import annotations

import functools
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs.hooks.commands import on_page_markdown as with_commands
from docs.hooks.commands import parsers
from docs.hooks.docstrings import markdown
from docs.hooks.math import on_page_content
from docs.hooks.names import CONSTANTS, public_modules, public_names
from tests import chromium
from tests.docs.rendered import PROSE, Page, Site, faults, link_faults

import heavytail
from heavytail import cli

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class _Plain(yaml.SafeLoader):
    """Of mkdocs.yml, whose own tags name nothing that is read here."""


def nav() -> dict[str, list[str]]:
    """The pages of each section of the site's navigation, without the home page."""
    told = yaml.load((ROOT / "mkdocs.yml").read_text(), _Plain)["nav"]
    sections = {title: pages for part in told for title, pages in part.items() if title != "Home"}
    return {title: [next(iter(p.values())) for p in pages] for title, pages in sections.items()}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    # Not --quiet: it drops the warnings that --strict counts, such as a name without an entry.
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    environment = {**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return Site(folder)


def test_no_page_shows_its_markup_or_loads_anything_from_outside(site: Site) -> None:
    assert len(site.pages) == 1 + sum(len(pages) for pages in nav().values())
    found = {path: faults(page) for path, page in site.pages.items()}
    assert {path: all_of for path, all_of in found.items() if all_of} == {}


def test_every_link_and_anchor_leads_somewhere(site: Site) -> None:
    assert link_faults(site.pages, site.files) == []


def test_no_style_sheet_of_the_site_asks_for_anything_from_outside(site: Site) -> None:
    sheets = [one for one in site.files if one.endswith(".css")]
    assert sheets
    for sheet in sheets:
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", site.read(sheet)), sheet


# A page that is well, and for each check one that is not.
WELL = "<p>Words, <code>`code`</code>, <em>one</em> mark.</p><pre><code>>>> f(x)\n</code></pre>"
TWINS = {
    "a doctest in prose": "<p>&gt;&gt;&gt; policy = f(2)</p>",
    "a backslash outside code": r"<p>the set \{ x \}</p>",
    "bold left raw": "<p>this is **bold</p>",
    "a backtick left raw": "<p>the `name</p>",
    "a role of another markup": "<p>see :class:</p>",
    "a formula left raw": "<p>where $x_t$ is</p>",
    "a link left raw": "<p>see [that](other.md)</p>",
    "a table left raw": "<p>words\n| a | b |\n</p>",
    "a list left raw": "<p>two things:\n- one</p>",
    "a heading left raw": "<p># Title</p>",
    "a directive left raw": "<p>::: heavytail.links</p>",
    "a literal block left raw": "<p>as in::</p>",
    "a macro that the formula leaves raw": r"<math><mi>\arg</mi></math>",
    "a quote in a quote": "<blockquote><blockquote><p>x</p></blockquote></blockquote>",
    "an image without words for it": '<img src="a.png">',
    "emphasis inside a word": "<p>theta<em> of theta</em></p>",
    "a comment that nothing filled in": "<!-- policies: table -->",
    "an asset from outside": '<script src="https://example.org/a.js"></script>',
}


def made(inside: str, path: str = "index.html") -> Page:
    return Page(path, f"<article>{inside}</article>")


def test_a_page_that_is_well_has_no_fault() -> None:
    assert faults(made(WELL)) == []


@pytest.mark.parametrize("fault", TWINS)
def test_each_check_finds_its_fault_and_no_other(fault: str) -> None:
    assert set(PROSE) <= set(TWINS)
    assert {one.partition(":")[0] for one in faults(made(WELL + TWINS[fault]))} == {fault}


@pytest.mark.parametrize("link", ["gone/", "a.png", "other/#gone", "#gone", "../other/#here"])
def test_a_link_that_leads_nowhere_is_found(link: str) -> None:
    pages = {
        "index.html": made(f'<a href="{link}">x</a><a href="other/#here">x</a>'),
        "other/index.html": made('<h2 id="here">x</h2>', "other/index.html"),
    }
    (found,) = link_faults(pages, set(pages))
    assert found.startswith(f"index.html: {link} ")


def test_docstrings_become_markdown() -> None:
    text = "See :class:`a.B` of theta* and Theta*::\n\n    raw\n\n>>> f(1)\n2\n\nAfter *that*."
    shown = markdown(text)
    assert "`a.B` of theta\\* and Theta\\*:\n\n    raw\n" in shown
    assert "```pycon\n>>> f(1)\n2\n```\n\nAfter *that*." in shown


def test_formulas_become_mathml_without_a_macro_left() -> None:
    tex = r"\(\arg\min \big\{ s' \big\}\)"
    shown = on_page_content(f'so <span class="arithmatex">{tex}</span>, it is')
    assert re.match(r'so <span class="kept"><math.*</math>,</span> it is$', shown)
    assert "\\" not in shown
    assert "<msup>" not in shown  # the prime
    tex = r"\[\begin{aligned} a &= b \\ c &= d \end{aligned}\]"
    shown = on_page_content(f'<div class="arithmatex">{tex}</div>')
    assert shown.startswith('<div class="formula"><math')
    assert faults(made(shown)) == []


# What is where.


def test_every_public_name_leads_to_its_entry_on_a_reference_page(site: Site) -> None:
    page = site.read("reference/names.html")
    for module in (heavytail, *public_modules()):
        section = page.partition(f">{module.__name__}<a")[2].partition("<h2")[0]
        for name in public_names(module):
            if name in CONSTANTS:
                assert f'<span id="{module.__name__}.{name}"><code>{name}<' in section, name
            else:  # links that lead nowhere are found above
                assert re.search(rf'href="[^":]*#[^":]*"><code>{name}</code></a>', section), name
    assert {*heavytail.__all__, *heavytail.policies.NAMES} <= {
        name for module in (heavytail, *public_modules()) for name in public_names(module)
    }


def test_what_the_guides_call_is_on_the_page_of_policies(site: Site) -> None:
    shown = site.pages["reference/policies.html"].ids
    for name in (
        *("policy.Policy.update_many", "base.PackedPolicy.select_many", "base.PackedPolicy.width"),
        *("base.PackedPolicy.start_from", "base.PackedPolicy.predict", "policy.Policy.learn"),
        *("pool.Pool", "base.PackedPolicy.explain", "diagnostics.Diagnostics"),
    ):
        assert f"heavytail.policies.core.{name}" in shown, name


def test_constants_on_the_page_of_names_exist() -> None:
    everywhere = {name for module in public_modules() for name in public_names(module)}
    assert set(CONSTANTS) <= everywhere


def test_the_page_of_commands_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    page = with_commands((DOCS / "reference" / "commands.md").read_text())
    titles = re.findall(r"^## heavytail ?(.*)$", page, re.MULTILINE)
    assert set(cli.COMMANDS) <= set(titles)
    for name in cli.COMMANDS:
        assert f"| `{name}` |" in page, "say in the table what it is for"
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        (own,) = [one for one in parsers() if one.prog == f"heavytail {name}"]
        assert options <= set(re.findall(r"--[a-z-]+", own.format_help()))
        assert own.format_help().strip() in page


def test_the_page_of_installing_names_every_extra_and_the_python_version() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    page = (DOCS / "start" / "install.md").read_text()
    extras = project.partition("[project.optional-dependencies]")[2].partition("\n\n")[0]
    for extra in re.findall(r"^(\w+) = ", extras, re.MULTILINE):
        assert f"| `{extra}` |" in page, extra
    (version,) = re.findall(r'requires-python = ">=(.*)"', project)
    assert f"Python {version} or newer" in page


def test_a_section_is_a_folder_of_the_same_name_and_every_page_is_in_the_navigation() -> None:
    for title, pages in nav().items():
        folder = title.lower().replace(" ", "")
        assert {page.partition("/")[0] for page in pages} == {folder}, title
    listed = {page for pages in nav().values() for page in pages}
    there = {one.relative_to(DOCS).as_posix() for one in DOCS.rglob("*.md")}
    assert there == {"index.md", *listed}


def test_the_home_page_leads_to_every_page_and_says_whom_it_is_for() -> None:
    home = (DOCS / "index.md").read_text()
    said = dict(re.findall(r"^- \[[^]]+\]\(([^)]+)\): (\S.*\.)$", home, re.MULTILINE))
    listed = [page for pages in nav().values() for page in pages]
    assert list(said) == listed  # in the order of the navigation
    assert re.findall(r"^## (.*)$", home, re.MULTILINE) == list(nav())


# In a browser.

LOOK = """<!doctype html><body><script>
const pages = {pages}, found = {{}};
const settled = () => new Promise(done => setTimeout(done, 50));
async function lane() {{
  while (pages.length) {{
    const page = pages.pop(), frame = document.createElement("iframe");
    frame.style.cssText = "border:0;width:1280px;height:900px";
    frame.src = "/" + page;
    await new Promise(done => {{ frame.onload = done; document.body.append(frame); }});
    const inside = frame.contentDocument, root = inside.documentElement, wide = [];
    for (const width of [1280, 420]) {{
      frame.style.width = width + "px";
      await settled();
      if (root.scrollWidth > width) wide.push(width);
    }}
    found[page] = {{
      wide, broken: [...inside.images].filter(i => !i.naturalWidth).map(i => i.src),
      outside: frame.contentWindow.performance.getEntriesByType("resource")
        .map(e => e.name).filter(name => !name.startsWith(location.origin)),
    }};
    frame.remove();
  }}
}}
Promise.all([lane(), lane(), lane(), lane()]).then(() =>
  fetch("/found", {{method: "POST", body: JSON.stringify(found)}}));
</script></body>"""


class Shelf(http.server.SimpleHTTPRequestHandler):
    """A folder over HTTP, a page that looks at its pages, and what that page found."""

    answer: queue.Queue[dict[str, Any]]
    look: str

    def do_GET(self) -> None:
        if self.path != "/look":
            return super().do_GET()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.look.encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()
        self.answer.put(json.loads(body))

    def log_message(self, *_: Any) -> None:
        pass


def browser_or_skip() -> str:
    browser = shutil.which("chromium")
    if browser is None:
        assert os.environ.get("CI") != "true", "CI installs Chromium; it is not there"
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    return browser


def looked(folder: Path, pages: list[str], profile: Path) -> dict[str, Any]:
    """What a browser finds on each page at two widths."""
    browser = browser_or_skip()

    class Own(Shelf):
        answer = queue.Queue()
        look = LOOK.format(pages=json.dumps(pages))

    shelf = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Own, directory=str(folder))
    )
    threading.Thread(target=shelf.serve_forever, daemon=True).start()
    flags = [*chromium.FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    window = subprocess.Popen(
        [browser, *flags, "--window-size=1400,1000", f"http://127.0.0.1:{shelf.server_port}/look"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return Own.answer.get(timeout=180)
    finally:
        window.terminate()
        window.wait()
        shelf.shutdown()
        shelf.server_close()


def test_a_browser_scrolls_no_page_sideways_and_asks_nobody_else(
    site: Site, tmp_path: Path
) -> None:
    found = looked(site.folder, list(site.pages), tmp_path)
    assert set(found) == set(site.pages)
    well = {"wide": [], "broken": [], "outside": []}
    assert {page: one for page, one in found.items() if one != well} == {}


@pytest.mark.parametrize("page", ["index.html", "howto/serve.html"])
def test_search_works_on_a_page_that_was_opened_as_a_file(
    site: Site, page: str, tmp_path: Path
) -> None:
    address = f"{(site.folder / page).resolve().as_uri()}?q=huber"
    flags = [*chromium.FLAGS, f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000"]
    run = subprocess.run(
        [browser_or_skip(), *flags, "--dump-dom", address], capture_output=True, timeout=180
    )
    shown = run.stdout.decode()
    assert re.search(r"\d+ matching documents", shown)
    assert 'mathematics/one_pass_huber.html" class="md-search-result__link"' in shown


def test_the_browser_finds_a_page_that_is_too_wide(tmp_path: Path) -> None:
    image = '<img src="gone.png" alt="x"><img src="http://127.0.0.1:9/a.png" alt="y">'
    (tmp_path / "bad.html").write_text(f'<p style="width:900px">x</p>{image}')
    found = looked(tmp_path, ["bad.html"], tmp_path / "profile")["bad.html"]
    assert found["wide"] == [420]
    assert len(found["broken"]) == 2
    assert found["outside"] == ["http://127.0.0.1:9/a.png"]
