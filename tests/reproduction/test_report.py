"""The report, looked at in a real browser: all is there, nothing is fetched, at any width."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import chromium

from heavytail import cli
from heavytail.reproduction.reproduce import asked_claims

pytestmark = pytest.mark.pages

NAMES = ["student", "gaussian", "noise-level"]

PROBE = """<script>
addEventListener("load", () => {
  const images = [...document.images].map(i => [i.id, i.naturalWidth, i.clientWidth]);
  const spill = [...document.querySelectorAll("table")].filter(t => !t.closest(".scroll")).length;
  parent.postMessage(JSON.stringify({
    images, spill,
    verdicts: document.querySelectorAll("table.verdicts tbody tr").length,
    page: document.documentElement.scrollWidth, window: innerWidth,
    fetched: performance.getEntriesByType("resource").map(e => e.name)
      .filter(name => !name.startsWith("data:")),
  }), "*");
});
</script></body>"""
FRAME = """<!doctype html><body style="margin:0"><script>
addEventListener("message", e => document.body.setAttribute("data-found", e.data));
</script><iframe src="probe.html" style="border:0;width:{width}px;height:900px"></iframe></body>"""
FLAGS = [
    *chromium.FLAGS,
    "--allow-file-access-from-files",
    "--virtual-time-budget=8000",
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    names = NAMES
    small = ["--trials", "2", "--rounds", "300", "--jobs", "1"]
    assert cli.main(["reproduce", *names, *small, "--out", str(out)]) == 0
    return out / "report.html"


def look(report: Path, width: int, folder: Path) -> dict[str, Any]:
    browser = shutil.which("chromium")
    if browser is None:
        assert os.environ.get("CI") != "true", "CI installs Chromium; it is not there"
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    probe = report.read_text(encoding="utf-8").replace("</body>", PROBE)
    (folder / "probe.html").write_text(probe, encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width))
    page = subprocess.run(
        [
            browser,
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={max(width, 600)},1000",
            "--dump-dom",
            (folder / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    found = re.search(r'data-found="([^"]*)"', page)
    assert found, "the report did not load"
    return dict(json.loads(html.unescape(found.group(1))))


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_finds_every_verdict_and_figure_and_fetches_nothing(
    report: Path, tmp_path: Path, width: int
) -> None:
    found = look(report, width, tmp_path)
    assert found["verdicts"] == len(asked_claims(NAMES)) > 1
    figures = {path.stem for path in (report.parent / "figures").glob("*.svg")}
    assert {image[0].removeprefix("figure-") for image in found["images"]} == figures
    assert all(
        natural > 0 and shown > 0.75 * min(width, 460) for _, natural, shown in found["images"]
    )
    assert found["fetched"] == []
    assert found["spill"] == 0  # every table scrolls inside itself
    assert found["page"] <= found["window"] == width


def test_the_report_names_no_other_file_or_host(report: Path) -> None:
    page = report.read_text(encoding="utf-8")
    for address in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert address.startswith(("data:", "#")), address[:80]
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
