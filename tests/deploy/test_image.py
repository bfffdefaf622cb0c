"""The service with the kernels and the environment of the image."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.deploy.dockerfile import instructions
from tests.serve.killing import free_port

import heavytail as ht

DOCKERFILE = Path(__file__).parents[2] / "deploy" / "Dockerfile"
ARMS = (0.9 * np.eye(3)).tolist()
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1

pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.skipif(sys.platform != "linux", reason="of containers"),
]


def _obey_permissions() -> None:
    """Let the program that starts next write only where its user may, root included."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The image's environment, with a cache that the image's own command has filled."""
    pairs = [rest.partition("=") for name, rest in instructions(DOCKERFILE) if name == "ENV"]
    settings = {name: value for name, _, value in pairs if name.startswith("NUMBA_")}
    assert set(settings) == {"NUMBA_CACHE_DIR", "NUMBA_CPU_NAME"}
    settings["NUMBA_CACHE_DIR"] = str(tmp_path_factory.mktemp("kernels"))
    (policies,) = [rest for name, rest in instructions(DOCKERFILE) if rest.startswith("POLICIES=")]
    (names,) = shlex.split(policies.partition("=")[2])
    command = [sys.executable, "-m", "heavytail", "warm", *names.split()]
    subprocess.run(command, env={**os.environ, **settings}, check=True, capture_output=True)
    return {**os.environ, **settings, "NUMBA_DEBUG_CACHE": "1"}


@contextlib.contextmanager
def serving(environment: dict[str, str], folder: Path) -> Iterator[ht.Client]:
    """A service that other machines could reach, with a key and a Decider."""
    decider = ht.Decider([{"sku": "a"}, {"sku": "b"}], ids="sku", context=["segment", "basket"])
    decider.save(folder / "shop.ht")
    command = [sys.executable, "-m", "heavytail", "serve", "--store", str(folder / "store")]
    made = subprocess.run(
        [*command, "--new-key", "ops", "--scopes", "read,decide,admin"],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    port, model = free_port(), str(folder / "shop.ht")
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [*command, "--model", model, "--host", "0.0.0.0", "--port", str(port)],
            env=environment, cwd=folder, stdout=output, stderr=output,
            preexec_fn=_obey_permissions,
        )  # fmt: skip
    try:
        _wait(process, f"http://127.0.0.1:{port}/readyz")
        with ht.Client(f"http://127.0.0.1:{port}", key=made.stdout.split()[-1]) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def test_no_request_waits_for_the_compiler(environment: dict[str, str], tmp_path: Path) -> None:
    cache = Path(environment["NUMBA_CACHE_DIR"])
    files = sorted(cache.rglob("*.nbc"))
    with serving(environment, tmp_path) as client:
        for name, options in (
            ("twin", {"policy": "TwinUCB"}),
            ("hvt", {"policy": "HvtUCB", "tail": {"order": 2.0, "scale": 1.0}}),
        ):
            model = client.create(name, dim=3, explore=0.1, **options)
            for k in range(40):
                model.learn(model.decide(ARMS), float(k % 5))
            model.learn([model.decide(ARMS) for _ in range(5)], [1.0] * 5)
            model.predict(ARMS)
            model.explain(ARMS)
            model.snapshot()
        shop = client.model("shop")
        for k in range(70):  # its shape is learned anew after 32 and 64
            shop.learn(shop.decide({"segment": "ab"[k % 2], "basket": float(k % 7)}), float(k % 5))
        shop.explain({"segment": "a", "basket": 1.0})
    assert sorted(cache.rglob("*.nbc")) == files  # what is compiled is kept


def test_a_read_only_image_serves_from_its_cache(
    environment: dict[str, str], tmp_path: Path
) -> None:
    cache = Path(environment["NUMBA_CACHE_DIR"])
    folders = [cache, *(path for path in cache.iterdir() if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        with serving(environment, tmp_path) as client:
            model = client.create("twin", policy="TwinUCB", dim=3)
            model.learn(model.decide(ARMS), 1.0)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    lines = (tmp_path / "output").read_text().splitlines()
    assert [line for line in lines if "data loaded" in line and "select" in line]
    assert not [line for line in lines if "data saved" in line]


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    for _ in range(1200):
        assert process.poll() is None, "the service ended"
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the service does not answer")
