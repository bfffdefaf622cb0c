"""How long ``/healthz`` waits beside each kind of work on a large model.

``python -m benchmarks.serve_loop``: a service of its own with a model of 4096 features; each work
is asked for once, with 500 arms, while another process asks for ``/healthz`` every 5 ms. Printed
are the seconds of the work and the longest wait beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

from benchmarks.serve import started


def watch(port: int) -> None:
    """Ask for /healthz until the input ends, and print the longest wait in seconds."""
    import http.client
    import threading

    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    connection, longest = http.client.HTTPConnection("127.0.0.1", port), 0.0
    while not ended.is_set():
        start = time.perf_counter()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        longest = max(longest, time.perf_counter() - start)
        time.sleep(0.005)
    print(longest)


def asked(port: int, path: str, body=None, method: str = "POST"):
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    call = urllib.request.Request(f"http://127.0.0.1:{port}{path}", raw, method=method)
    with urllib.request.urlopen(call, timeout=600.0) as answer:
        return answer.read()


def beside(port: int, name: str, work) -> bytes:
    """Do work, and print how long it took and the longest wait beside it."""
    command = [sys.executable, "-m", "benchmarks.serve_loop", "--watch", "--port", str(port)]
    watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(1.0)
    start = time.perf_counter()
    found = work()
    taken = time.perf_counter() - start
    longest = float(watcher.communicate()[0])
    print(f"{name:28} {taken:7.2f} s  /healthz within {1e3 * longest:6.1f} ms", flush=True)
    return found


def report(args: argparse.Namespace) -> None:
    """Each kind of work once."""
    port, dim, big = args.port, args.dim, "/v1/models/big"
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(args.arms, dim)) / np.sqrt(1.1 * dim)
    lines = ",".join("[" + ",".join(f"{v:.4f}" for v in row) + "]" for row in rows)
    arms = f'{{"arms":[{lines}]}}'.encode()
    named = f'{{"ids":{json.dumps(list(range(args.arms)))},{arms[1:].decode()}'.encode()
    few = [{"arms": np.eye(dim)[:1].tolist()}]
    with tempfile.TemporaryDirectory() as folder, started("ours", port, store=folder):
        print(f"{args.arms} arms of {dim} features, a body of {len(arms) / 2**20:.1f} MiB")
        beside(port, "nothing", lambda: time.sleep(1.0))
        beside(port, "create", lambda: asked(port, big, {"dim": dim}, "PUT"))
        decide = beside(port, "decide", lambda: asked(port, f"{big}/decisions", arms))
        beside(port, "decide, read carefully", lambda: asked(port, f"{big}/decisions", named))
        token = json.loads(decide)["token"]
        one = {"token": token, "reward": 1.0}
        beside(port, "reward", lambda: asked(port, f"{big}/rewards", one))
        made = [json.loads(asked(port, f"{big}/decisions", few))[0] for _ in range(args.rewards)]
        many = [{"token": each["token"], "reward": 1.0} for each in made]
        beside(port, f"{args.rewards} rewards", lambda: asked(port, f"{big}/rewards", many))
        beside(port, "predict", lambda: asked(port, f"{big}/predict", arms))
        beside(port, "explain", lambda: asked(port, f"{big}/explain", arms))
        while json.loads(asked(port, big, method="GET"))["rounds"] <= args.rewards:
            time.sleep(0.5)  # the model is learning
        beside(port, "describe", lambda: asked(port, big, method="GET"))
        beside(port, "stats", lambda: asked(port, "/v1/stats", method="GET"))
        kept = beside(port, "snapshot", lambda: asked(port, f"{big}/snapshots", b""))
        path = f"{big}/snapshots/{json.loads(kept)['snapshot']}"
        beside(port, "snapshot, as a file", lambda: asked(port, path, method="GET"))
        beside(port, "log", lambda: asked(port, f"{big}/log", method="GET"))
        beside(port, "delete", lambda: asked(port, big, method="DELETE"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--watch", action="store_true", help=argparse.SUPPRESS)
    add("--port", type=int, default=8331)
    add("--dim", type=int, default=4096)
    add("--arms", type=int, default=500)
    add("--rewards", type=int, default=50)
    args = parser.parse_args()
    if args.watch:
        watch(args.port)
    else:
        report(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
