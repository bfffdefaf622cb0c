"""A service that a real browser looks at, in a frame of any width."""

from __future__ import annotations

import contextlib
import html
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from tests import chromium

from heavytail.ledger.sqlite import SQLiteStore
from heavytail.serve.app import build

# The frame is of the same origin, so that it can look into the page without a word in it.
FRAME = """<!doctype html><body style="margin:0">
<iframe src="/" style="border:0;width:{width}px;height:1900px"></iframe><script>
const frame = document.querySelector("iframe");
const query = new URL(location).searchParams, key = query.get("key");
const act = new Function("page", "done", query.get("act")), done = new Set();
let turns = 0, first = null, sent = false;
setInterval(() => {{
  const page = frame.contentDocument, root = page.documentElement;
  const door = page.getElementById("door");
  if (key && door && !door.hidden && !sent) {{
    sent = true;
    page.getElementById("key").value = key;
    door.requestSubmit();
  }}
  first = first || page.querySelector("article");
  if (first) act(page, done);
  if (++turns < 40 && !({ready})) return;
  document.body.setAttribute("data-found", JSON.stringify({{
    names: [...page.querySelectorAll("article h2")].map(e => e.textContent),
    words: page.querySelector("main").innerText,
    asking: page.getElementById("sure").open && page.getElementById("sure").innerText,
    bars: [...page.querySelectorAll("rect.day")].map(e => +e.getAttribute("height")),
    labels: [...page.querySelectorAll("svg text")].map(e => e.textContent),
    odd: /NaN|Infinity|undefined/.test(page.querySelector("main").outerHTML),
    means: page.querySelectorAll(".span").length,
    picked: [...page.querySelectorAll("select")].map(e => e.value),
    choices: [...page.querySelectorAll("option")].map(e => e.textContent),
    progress: [...page.querySelectorAll("progress")].map(e => e.value / e.max),
    buttons: [...page.querySelectorAll("main button")].map(e => e.textContent),
    arms: [...page.querySelectorAll("tbody th")].map(e => e.textContent),
    images: page.images.length, hacked: String(frame.contentWindow.hacked || window.hacked),
    summary: page.getElementById("summary").textContent,
    door: !door.hidden, same: first !== null && first === page.querySelector("article"),
    held: frame.contentWindow.sessionStorage.getItem("heavytail-key"),
    looks: frame.contentWindow.performance.getEntriesByType("resource").length,
    lines: page.querySelectorAll("polyline").length,
    dots: page.querySelectorAll("circle").length,
    wide: root.scrollWidth, window: frame.contentWindow.innerWidth,
    fetched: [...new Set(frame.contentWindow.performance.getEntriesByType("resource")
      .map(e => {{ const url = new URL(e.name); return url.pathname + url.search; }}))],
  }}));
}}, 100);
</script></body>"""
SOME = "page.querySelector('article') || !page.getElementById('door').hidden"
FLAGS = [
    *chromium.FLAGS,
    "--hide-scrollbars",
    "--virtual-time-budget=6000",
]


@contextlib.contextmanager
def open_service(folder: Path, *, local: bool = True) -> Iterator[str]:
    """Its address, which also has ``/frame/WIDTH``."""
    app = build(SQLiteStore(folder), local=local)

    async def framed(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if path.startswith("/frame/"):
            body = FRAME.format(width=int(path.rpartition("/")[2]), ready=SOME).encode()
            headers = [(b"content-type", b"text/html")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return

        async def loose(message: Any) -> None:
            if "headers" in message:
                message["headers"] = [
                    (key, value.replace(b"frame-ancestors 'none'", b"frame-ancestors 'self'"))
                    for key, value in message["headers"]
                ]
            await send(message)

        await app(scope, receive, loose)

    server = uvicorn.Server(uvicorn.Config(framed, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def looked(address: str, width: int, folder: Path, key: str = "", act: str = "") -> dict[str, Any]:
    """What a browser finds in the page at a width, where ``key`` is typed in if it is asked for.

    ``act`` is JavaScript that runs every 100 ms, with the page and a set of what it has done.
    """
    browser = shutil.which("chromium")
    if browser is None:
        assert os.environ.get("CI") != "true", "CI installs Chromium; it is not there"
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    profile, size = f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 600)},1900"
    frame = f"{address}/frame/{width}?{urlencode({'key': key, 'act': act})}"
    command = [browser, *FLAGS, profile, size, "--dump-dom", frame]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r'data-found="([^"]*)"', text)
    assert found, "the page did not load"
    return dict(json.loads(html.unescape(found.group(1))))
