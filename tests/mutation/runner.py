"""Running tests against mutants in forked processes, with the compiler off.

A server collects the tests once and forks for every mutant. The child gives the functions that the
mutant changes their new code, wherever they were imported to, and runs the tests that execute the
mutated line: no import, no collection. What import itself runs (constants, defaults, a function
that a parametrisation calls) needs a child that imports the mutated file: 1 to 2 s instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coverage
import pytest
from hypothesis import settings
from tests.mutation.mutants import Mutant

SLOWEST = 20.0  # seconds of one test without the compiler, past which it is left out
MEMORY = 8 << 30
LIMITS = (signal.SIGXCPU, signal.SIGKILL)  # what ends a process whose time is up
# No traceback is read, and to explain one is nine tenths of the cost of a failure.
QUICK = ["--assert=plain", "--tb=no"]
OPTIONS = ["-q", "-p", "no:cacheprovider", "-m", "not slow", *QUICK]
Items = dict[str, pytest.Item]


def digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def orphan_dies() -> None:
    """Let this process end with the one that forked it (Linux): a stopped run leaves nothing."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def in_child(work: Callable[[], Any], seconds: float) -> tuple[str, Any]:
    """What ``work`` returns, from a forked process: ("done", answer), ("error", traceback), or
    "timeout" or "crash".

    The limit is of processor time, so that a busy machine kills no mutant; on the clock a minute
    and ten times that, for one that only waits.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            orphan_dies()
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            answer = ["done", work()]
        except BaseException:
            answer = ["error", traceback.format_exc()]
        with open(write, "w", closefd=False) as pipe:
            pipe.write(json.dumps(answer) + "\n")
        os._exit(0)
    os.close(write)
    answer, until = b"", time.monotonic() + 60.0 + 10.0 * seconds
    while not answer.endswith(b"\n"):
        ready, _, _ = select.select([read], [], [], max(until - time.monotonic(), 0.0))
        part = os.read(read, 1 << 16) if ready else b""
        if not part:
            break
        answer += part
    os.close(read)
    if answer.endswith(b"\n") or not ready:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)  # the child's own group: what it started goes with it
    _, status = os.waitpid(pid, 0)
    if answer.endswith(b"\n"):
        status, result = json.loads(answer)
        return status, result
    slow = not ready or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in LIMITS)
    return ("timeout" if slow else "crash"), None


def share(jobs: int, work: Callable[[int], Any]) -> None:
    """Call work(0) ... work(jobs - 1), each in a forked process; wait for all."""
    pids = []
    for k in range(jobs):
        pid = os.fork()
        if pid == 0:
            try:
                orphan_dies()
                work(k)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def run_items(items: list[pytest.Item]) -> str | None:
    """Run tests until one fails; its id."""
    failed: list[str] = []
    ran: list[str] = []

    class Listener:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                failed.append(report.nodeid)
            if report.when == "call" and not report.skipped:
                ran.append(report.nodeid)

    config = items[0].config
    config.pluginmanager.register(Listener())
    for item, following in zip(items, [*items[1:], None], strict=True):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed:
            return failed[0]
    return None if ran else "skipped"


def with_items(root: Path, files: list[str], play: Callable[[Items], Any]) -> Any:
    """Collect the tests of ``files`` and hand them to ``play``; None where they are not imported.

    For a forked process only: it imports, and writes nowhere.
    """
    answer: list[Any] = []

    class Loop:
        def pytest_runtestloop(self, session: pytest.Session) -> bool:
            if not session.testsfailed:
                answer.append(play({item.nodeid: item for item in session.items}))
            return True

    settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
    settings.load_profile("mutation")
    sys.path[:0] = [str(root / "src"), str(root)]
    os.chdir(root)
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    options = [*OPTIONS, f"--rootdir={root}"]
    options.append(f"--basetemp={root / 'build' / 'mutation' / f'tmp{os.getpid()}'}")
    pytest.main([*options, *files], plugins=[Loop()])
    return answer[0] if answer else None


def record(root: Path, package: str, file: str) -> Any:
    """Which lines each test of a file executes, alone in a process, and how long it takes.

    With the lines that importing the file executes inside functions, and a digest of every file
    of ours that it imported: the record holds as long as those do.
    """

    def watch() -> coverage.Coverage:
        places = [f"{root}/src/{package}/*"]
        cov = coverage.Coverage(data_file=None, config_file=False, include=places)
        cov.set_option("run:disable_warnings", ["no-data-collected"])
        return cov

    def lines(cov: coverage.Coverage) -> dict[str, list[int]]:
        data, home = cov.get_data(), f"{root}/src/{package}/"
        return {f.removeprefix(home): sorted(data.lines(f) or []) for f in data.measured_files()}

    def measure(item: pytest.Item) -> Any:
        cov = watch()
        cov.start()
        begin = time.process_time()
        failed = run_items([item])
        seconds = time.process_time() - begin
        cov.stop()
        return {"failed": failed, "seconds": seconds, "lines": lines(cov)}

    def play(items: Items) -> Any:
        first.stop()
        tests = {}
        for name, item in items.items():
            status, answer = in_child(lambda item=item: measure(item), SLOWEST)
            tests[name] = answer if status == "done" else {"failed": status, "lines": {}}
        paths = {getattr(m, "__file__", None) or "" for m in list(sys.modules.values())}
        paths = {p for p in paths if not p.startswith(f"{root}/tests/mutation/")}
        ours = [Path(p) for p in paths if p.startswith((f"{root}/src/", f"{root}/tests/"))]
        own = {str(p.relative_to(root)): digest(p) for p in [*ours, root / file] if p.exists()}
        return {"imported": lines(first), "files": own, "tests": tests}

    first = watch()
    first.start()
    return with_items(root, [file], play)


def codes(code: types.CodeType) -> dict[str, types.CodeType]:
    """The functions of a module's code and of its classes', by qualified name."""
    found = {}
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_flags & 0x2:  # CO_NEWLOCALS: a function, not the body of a class
                found[f"{const.co_qualname}:{const.co_firstlineno}"] = const
            else:
                found |= codes(const)
    return found


class Hot:
    """Functions in memory, to be given other code."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.functions: dict[str, list[types.FunctionType]] = {}
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType):
                code = thing.__code__
                if code.co_filename.startswith(home):
                    name = f"{code.co_filename}:{code.co_qualname}:{code.co_firstlineno}"
                    self.functions.setdefault(name, []).append(thing)
        gc.freeze()  # a child's collector would touch, and so copy, every page

    def change(self, mutant: Mutant, path: Path) -> None:
        """Give the functions that the mutant changes their new code."""
        source = path.read_bytes()
        old = codes(compile(source, str(path), "exec"))
        new = codes(compile(mutant.applied(source), str(path), "exec"))
        for name, code in new.items():
            if name.partition(":")[0] == mutant.outer and code != old.get(name):
                for function in self.functions.get(f"{path}:{name}", ()):
                    function.__code__ = code


def module_name(package: str, file: str) -> str:
    """The module that a source file is, given from within the package."""
    return ".".join([package, *Path(file).with_suffix("").parts]).removesuffix(".__init__")


def import_mutated(mutant: Mutant, path: Path, package: str) -> None:
    """From now on importing the mutant's module gives the mutant."""
    module = module_name(package, mutant.file)

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> types.CodeType:
            return compile(mutant.applied(path.read_bytes()), str(path), "exec")

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: Any) -> Any:
            if name == module:
                return importlib.util.spec_from_file_location(
                    name, path, loader=Loader(name, str(path))
                )
            return None

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
