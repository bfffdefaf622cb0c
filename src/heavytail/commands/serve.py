"""``heavytail serve``: a decision service over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import importlib.util
import ipaddress
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from heavytail._extras import need
from heavytail._validate import on_one_line

if TYPE_CHECKING:
    import uvicorn

    from heavytail.ledger.store import Store
    from heavytail.ledger.transaction import Operation, Transaction
    from heavytail.serve.archiving import Retention

__all__ = ["add_arguments", "run"]

WHO = "command line"
COUNTERS = "PROMETHEUS_MULTIPROC_DIR"
NEEDED = ("starlette", "msgspec", "uvicorn", "prometheus_client")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    add(
        "--store",
        metavar="STORE",
        help="a folder, created if it does not exist; or postgresql://USER@HOST/DATABASE, which "
        "several workers share",
    )
    add(
        "--model",
        metavar="FILE",
        help="serve the Decider in this file; on the store FILE.store without --store",
    )
    add("--name", metavar="NAME", help="with --model: the model's name (that of the file)")
    add(
        "--workers",
        type=int,
        default=1,
        help="worker processes; several need a PostgreSQL store (1)",
    )
    add(
        "--demo",
        action="store_true",
        help="show a simulated shop in the browser; on a temporary store without --store",
    )
    add("--no-browser", action="store_true", help="with --demo: print the address alone")
    add("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    add("--port", type=int, default=8080, help="its port (8080)")
    add(
        "--rate",
        type=float,
        default=0.0,
        help="requests per second that each key may send (0: any number)",
    )
    add(
        "--keep",
        metavar="TIME",
        help="90d, 26w, at least 1d: how long decisions stay in the store once they have their "
        "reward; older ones go to the archive, where whatever reads the log finds them (for ever)",
    )
    add(
        "--archive",
        metavar="PATH",
        help="with --keep: an address of fsspec, such as s3://BUCKET/FOLDER, or a folder, which "
        "begins in the folder of the store if it is relative (archive)",
    )
    add(
        "--new-key",
        metavar="NAME",
        help="create an API key with this name, print it once, and stop; with --scopes",
    )
    add(
        "--scopes",
        default="read,decide",
        help="scopes of the new key: read, decide, admin (read,decide)",
    )
    add("--revoke-key", metavar="NAME", help="revoke the key with this name, and stop")
    add(
        "--open",
        action="store_true",
        help="if all keys are revoked, serve this machine without a key again, and stop",
    )
    add(
        "--proxy",
        metavar="ADDRESS",
        help="proxies whose X-Forwarded-For is trusted, separated by commas (none)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until stopped."""
    need("heavytail serve", *NEEDED, extra="serve")
    from heavytail.serve.tracing import is_wanted

    is_wanted()  # refused here, before any worker starts
    if not 0 <= args.port <= 65535:
        raise ValueError(f"--port must lie from 0 to 65535; got {args.port}.")
    _check_workers(args)
    if not 0.0 <= args.rate < 1e9:
        raise ValueError(f"--rate must be at least 0, and finite; got {args.rate:g}.")
    _check_proxies(args)
    if not _manages_keys(args):
        _check_port(args)
    args.retention = _retention(args)
    begin = _model(args)
    if args.store is not None:
        _check_keys(args)
        return _with_store(args, begin)
    if not args.demo or _manages_keys(args):
        raise ValueError("--store is missing: name the folder for models and log.")
    before = signal.signal(signal.SIGTERM, _stop)  # so that the folder is removed then too
    try:
        with tempfile.TemporaryDirectory(prefix="heavytail-demo-") as folder:
            args.store = folder
            return _with_store(args)
    finally:
        signal.signal(signal.SIGTERM, before)


def _retention(args: argparse.Namespace) -> Retention | None:
    """The age from which rows move, and the place they move to."""
    if args.keep is None:
        if args.archive is not None:
            raise ValueError("--archive says where old decisions go: pass --keep TIME too.")
        return None
    if args.demo:
        raise ValueError("--demo keeps nothing: leave out --keep.")
    from heavytail.decider.tokens import span
    from heavytail.ledger.archive import check_place
    from heavytail.ledger.opening import is_database
    from heavytail.serve.archiving import DAY, Retention

    need("heavytail serve --keep", "pyarrow", extra="serve")
    try:
        keep = span("--keep", args.keep)
    except ValueError:
        keep = 0.0
    if keep < DAY:
        raise ValueError(
            f"--keep must be at least a day, such as 1d or 12w; got {on_one_line(args.keep)}."
        )
    of_folder = args.store is None or not is_database(args.store)
    if args.archive is None and not of_folder:
        raise ValueError(
            "--keep: a database has no folder for old decisions. Pass --archive with an address, "
            "such as s3://BUCKET/FOLDER, or with an absolute folder that all workers share."
        )
    place = "archive" if args.archive is None else args.archive
    try:
        return Retention(keep, check_place(place, relative=of_folder))
    except ValueError as error:
        raise ValueError(f"--archive: {error}") from None


def _check_waits(store: Store, retention: Retention) -> None:
    """Refuse to keep decisions for a shorter time than a model waits for their rewards."""
    for row in store.models():
        try:
            wait = float(json.loads(row.spec).get("wait") or 0.0)
        except (ValueError, TypeError, AttributeError):  # it is said when it is opened
            continue
        if wait > retention.keep:
            raise ValueError(
                f"--keep must be at least {wait:g} s, as long as model {row.name!r} waits for "
                f"rewards; got {retention.keep:g} s."
            )


def _manages_keys(args: argparse.Namespace) -> bool:
    """Tell whether the command manages keys instead of serving."""
    return args.open or args.new_key is not None or args.revoke_key is not None


def _model(args: argparse.Namespace) -> Operation | None:
    """Read the file of --model and return what begins its model in the store."""
    if args.model is None:
        if args.name is not None:
            raise ValueError("--name names the model of a file: pass --model FILE too.")
        return None
    if args.demo:
        raise ValueError("--demo shows a shop of its own: leave out --model.")
    if args.store is None:
        args.store = f"{args.model}.store"
    if _manages_keys(args):
        return None
    from heavytail._archive import contents
    from heavytail.ledger.layout import NAME
    from heavytail.ledger.refusal import Refusal
    from heavytail.serve.decider_model import adopt, spec_of
    from heavytail.serve.keeping import loaded_decider
    from heavytail.serve.service import Limits

    file = os.path.basename(args.model)
    name = os.path.splitext(file)[0] if args.name is None else args.name
    if not re.fullmatch(NAME, name):
        what = "--name" if args.name is not None else "--model"
        raise ValueError(
            f"{what}: a model's name must be a letter or digit, followed by up to 63 letters, "
            f"digits, dots, underscores and hyphens; got {on_one_line(name)!r}. Pass --name."
        )
    args.name, content = name, contents(args.model)
    where = f"--model {on_one_line(args.model)}"
    decider = loaded_decider(content, where)
    spec = spec_of(decider, content, where)
    if decider.pending:
        print(
            f"heavytail serve: {where}: {len(decider.pending)} decisions of the file wait for "
            "their rewards, which the service cannot take: reward them before you save the file.",
            file=sys.stderr,
        )
    note = f"the file {on_one_line(file)}"

    def begin(tx: Transaction) -> None:
        try:
            adopt(tx, name, content, spec, Limits().models, note, WHO)
        except Refusal as refusal:
            if refusal.code != "another_model":
                raise
            message = (
                f"The store has a model {name!r} that did not begin with this file. To go on with "
                "the models of the store, pass --store without --model; to serve the file beside "
                "them, pass another --name."
            )
            raise Refusal(409, refusal.code, message) from None

    return begin


def _check_proxies(args: argparse.Namespace) -> None:
    try:
        for address in () if args.proxy is None else args.proxy.split(","):
            ipaddress.ip_network(address.strip())
    except ValueError:
        raise ValueError(
            "--proxy must be the IP address or network of a proxy, or several with commas; "
            f"got {on_one_line(args.proxy)!r}."
        ) from None


def _check_workers(args: argparse.Namespace) -> None:
    from heavytail.ledger.opening import is_database

    if args.workers < 1:
        raise ValueError(f"--workers must be at least 1; got {args.workers}.")
    if args.workers > 1 and (args.demo or args.store is None or not is_database(args.store)):
        raise ValueError(
            "--workers: a folder or the demo allows one worker only. For several, use a database: "
            "--store postgresql://USER@HOST/DATABASE."
        )


def _check_keys(args: argparse.Namespace) -> None:
    """Refuse a bad key, or a missing store, before a store is created."""
    from heavytail.ledger.opening import is_database
    from heavytail.ledger.refusal import Refusal
    from heavytail.serve.keys import check

    if args.new_key is not None:
        try:
            check(args.new_key, _scopes(args))
        except Refusal as refusal:
            raise ValueError(refusal.message) from None
    new = not is_database(args.store) and not os.path.exists(args.store)
    if new and (args.open or args.revoke_key is not None):
        what = "open" if args.open else "revoke a key of"
        raise ValueError(f"--store {on_one_line(args.store)}: there is no store to {what}.")


def _scopes(args: argparse.Namespace) -> list[str]:
    return list(args.scopes.replace(",", " ").split())


def _check_port(args: argparse.Namespace) -> None:
    """Refuse an address on which the service cannot listen, before anything is created."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            args.host, args.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        raise ValueError(
            f"--host {args.host} --port {args.port}: {error.strerror}. Pass another --port, or "
            "stop the program that listens there."
        ) from None


def _stop(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def _with_store(args: argparse.Namespace, begin: Operation | None = None) -> int:
    """Open the store and run the command on it."""
    from heavytail.ledger.opening import opened
    from heavytail.ledger.store import StoreError

    try:
        store = opened(args.store)
        try:
            return _run_on(store, args, begin)
        finally:
            store.close()
    except StoreError as error:
        raise ValueError(str(error)) from None


def _run_on(store: Store, args: argparse.Namespace, begin: Operation | None) -> int:
    from heavytail.ledger.opening import is_local
    from heavytail.serve.keys import issue, reopen, revoke

    if args.new_key is not None:
        # Printed before the commit: a key that nobody read is none.
        tell = functools.partial(print, flush=True)
        _done(store, lambda tx: tell(issue(tx, args.new_key, _scopes(args), WHO)))
        return 0
    if args.revoke_key is not None:
        _done(store, lambda tx: revoke(tx, args.revoke_key, WHO))
        return 0
    if args.open:
        _done(store, lambda tx: reopen(tx, WHO))
        return 0
    local = is_local(args.host)
    if not local and not store.keys():
        raise ValueError(
            f"--host {args.host} can be reached from other machines, and the store has no key. "
            "Create one with --new-key NAME --scopes read,decide,admin first."
        )
    if begin is not None:
        _done(store, begin)
    if args.retention is not None:
        _check_waits(store, args.retention)
    if args.workers > 1:
        store.close()  # each worker opens its own
        return _serve_workers(args, local)
    return _serve_alone(store, args, local)


def _config(app: Any, args: argparse.Namespace, **more: Any) -> uvicorn.Config:
    import uvicorn

    http: Any = "h11"  # has limits of its own
    if importlib.util.find_spec("httptools") is not None:
        from heavytail.serve.protocol import Protocol as http
    return uvicorn.Config(
        app, host=args.host, port=args.port, log_level="warning", access_log=False,
        timeout_keep_alive=30, timeout_graceful_shutdown=10, proxy_headers=args.proxy is not None,
        forwarded_allow_ips=args.proxy or "", http=http, ws="none", **more,
    )  # fmt: skip


def _serve_alone(store: Store, args: argparse.Namespace, local: bool) -> int:
    import uvicorn

    from heavytail.serve.app import build
    from heavytail.serve.demo import play, prepare
    from heavytail.serve.service import Limits

    limits = Limits(rate=args.rate)
    beside = play if args.demo else None
    app = build(
        store, local=local, limits=limits, retention=args.retention, beside=beside, alone=True
    )
    if not store.shared:
        asyncio.run(app.state.service.live.start())  # here a damaged store is one sentence
    server = uvicorn.Server(_config(app, args))
    if args.demo:
        print("heavytail serve: getting ready", file=sys.stderr, flush=True)
        prepare()
        threading.Thread(target=_show, args=(server, args), daemon=True).start()
    else:
        _announce(args)
    server.run()
    return 0


def _serve_workers(args: argparse.Namespace, local: bool) -> int:
    """Run workers that share one socket; restart one that dies."""
    with _counting_together() as folder:
        from heavytail.serve.app import worker
        from heavytail.serve.service import Limits
        from heavytail.serve.workers import Workers

        app = functools.partial(
            worker, args.store, local=local, limits=Limits(rate=args.rate),
            retention=args.retention,
        )  # fmt: skip
        config = _config(app, args, factory=True, workers=args.workers)
        _announce(args)
        Workers(config, [config.bind_socket()], folder).run()
    return 0


@contextlib.contextmanager
def _counting_together() -> Iterator[str]:
    """A folder for the counters of all workers, unless the operator names one. prometheus_client
    looks for it when it is first imported, here and in each worker.
    """
    named = os.environ.get(COUNTERS)
    if named:
        os.makedirs(named, exist_ok=True)
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="heavytail-metrics-") as folder:
        os.environ[COUNTERS] = folder
        try:
            yield folder
        finally:
            del os.environ[COUNTERS]


def _announce(args: argparse.Namespace) -> None:
    from heavytail.ledger.opening import shown

    url = f"http://{args.host}:{args.port}"
    workers = f", {args.workers} workers" if args.workers > 1 else ""
    model = "" if args.model is None else f", model {args.name}"
    print(f"heavytail serve: {url}{model}, store {shown(args.store)}{workers}", file=sys.stderr)


def _show(server: uvicorn.Server, args: argparse.Namespace) -> None:
    """Print the address of the page once it is up, and open it if there is a browser."""
    while not server.started:
        if server.should_exit:
            return
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(args.host, args.host)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    print(
        f"heavytail serve: {address} shows the demo; Ctrl-C stops it", file=sys.stderr, flush=True
    )
    if not args.no_browser and _has_screen():
        webbrowser.open(address)


def _has_screen() -> bool:
    """Tell whether a browser would open a window; a text browser would block the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _done(store: Store, operation: Operation) -> Any:
    """Apply an operation and return its result; raise its refusal as a ValueError."""
    from heavytail.ledger.refusal import Refusal

    (result,), _ = store.apply([operation])
    if isinstance(result, Refusal):
        raise ValueError(result.message)
    return result
