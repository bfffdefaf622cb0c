"""The demo: a shop that is simulated, until it is told to stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import numpy as np
import pytest

from heavytail import cli
from heavytail.cli import main
from heavytail.serve.demo import OFFERS, SPEC, Shop


def counted(address: str) -> int:
    (model,) = httpx.get(f"{address}v1/stats", timeout=60.0).json()["models"] or [{"decisions": 0}]
    return int(model["decisions"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_decides_until_it_is_stopped_and_leaves_nothing(tmp_path, number):
    command = [sys.executable, "-m", "heavytail", "serve", "--demo", "--no-browser", "--port", "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        address = ""
        while not address:
            line = process.stderr.readline()
            assert line, "it ended"
            address = "".join(re.findall(r"http://\S+", line))
        assert [path.name[:15] for path in tmp_path.iterdir()] == ["heavytail-demo-"]
        assert httpx.get(address).text.startswith("<!doctype html>")
        first, tries = counted(address), 0
        while counted(address) < first + 20 and tries < 600:
            tries += 1
            time.sleep(0.1)
        assert counted(address) >= first + 20
        process.send_signal(number)
        _, rest = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number
    assert "Traceback" not in rest
    assert list(tmp_path.iterdir()) == []


def test_what_the_shop_pays_is_linear_on_average_and_heavy():
    shop = Shop(seed=0)
    for regular in (False, True):
        arms = shop.arms(regular)
        assert arms.shape == (len(OFFERS), SPEC.dim)
        assert np.linalg.norm(arms, axis=1).max() <= 1.0
        theta = shop.means.ravel() / 0.7
        paid = np.array([shop.revenue(0, regular) for _ in range(200_000)])
        assert paid.mean() == pytest.approx(arms[0] @ theta, rel=0.1)
        assert paid.max() > 100.0 * paid.mean()


def test_a_store_is_needed_but_for_the_demo(capsys):
    assert cli.main(["serve"]) == 2
    assert "--store is missing" in capsys.readouterr().err
    assert cli.main(["serve", "--demo", "--new-key", "ops"]) == 2
    assert "--store is missing" in capsys.readouterr().err


def test_a_port_that_is_taken_is_said_before_anything_is_made(tmp_path, capsys):
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = str(one.getsockname()[1])
        assert main(["serve", "--store", str(tmp_path / "store"), "--port", port]) == 2
    assert f"--port {port}" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
