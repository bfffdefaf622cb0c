"""A part of the package with the tests that watch it, and a worker that runs its mutants."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import resource
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.mutation import runner
from tests.mutation.mutants import Mutant, mutants_of

MARKS = {"killed": ".", "survived": "S", "timeout": "T", "uncovered": "U", "error": "E"}


class Target:
    """A part of the package with the tests that watch it."""

    def __init__(
        self, root: Path, package: str, name: str, sources: Any, tests: Any, without: Any = ()
    ) -> None:
        self.root, self.package, self.name = root, package, name
        self.home = root / "src" / package
        files = {path: None for glob in sources for path in sorted(self.home.glob(glob))}
        for glob in without:
            files = {path: None for path in files if path not in set(self.home.glob(glob))}
        self.sources = [str(path.relative_to(self.home)) for path in files]
        found = {
            path: None
            for glob in tests
            for place in sorted(root.glob(glob))
            for path in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        }
        self.tests = [str(path.relative_to(root)) for path in found]
        if not self.sources or not self.tests:
            raise SystemExit(f"target {name!r}: no files for {sources} or no tests for {tests}.")
        for place, globs in ((self.home, sources), (root, tests)):
            for glob in globs:
                if not any(place.glob(glob)):
                    print(f"target {name!r}: {glob} matches nothing")
        self.digests = {file: runner.digest(self.home / file) for file in self.sources}

    def mutants(self) -> list[Mutant]:
        return [m for f in self.sources for m in mutants_of(f, (self.home / f).read_bytes())]

    def read_records(self, jobs: int) -> None:
        """Which test runs which line: what is known still, and the rest measured now."""
        stale = [file for file in self.tests if self._known(file) is None]
        runner.share(jobs, lambda k: [self._record(file) for file in stale[k::jobs]])
        self.records: dict[str, Any] = {file: self._known(file) for file in self.tests}
        tests = {n: t for r in self.records.values() for n, t in r["tests"].items()}
        self.failing = [n for n, t in tests.items() if t["failed"] not in (None, "skipped")]
        self.seconds = {n: t["seconds"] for n, t in tests.items() if t["failed"] is None}
        self.runs: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for name in self.seconds:
            for file, lines in tests[name]["lines"].items():
                for line in lines:
                    self.runs[file][line].append(name)
        own = json.dumps([sorted(r["files"].items()) for r in self.records.values()])
        self.state = hashlib.blake2b(own.encode(), digest_size=8).hexdigest()

    def _store(self, file: str) -> Path:
        return self.root / "build" / "mutation" / (file.replace("/", "-") + ".json")

    def _known(self, file: str) -> Any:
        """The record of a test file, where no file that it imports has changed since."""
        store = self._store(file)
        known = json.loads(store.read_text()) if store.exists() else {"files": {"no record": ""}}
        paths = {self.root / name: old for name, old in known["files"].items()}
        fresh = all(p.exists() and runner.digest(p) == old for p, old in paths.items())
        return known if fresh else None

    def _record(self, file: str) -> None:
        print(f"  recording {file}", flush=True)
        work = partial(runner.record, self.root, self.package, file)
        status, known = runner.in_child(work, 3600.0)
        if status != "done" or known is None:
            print(f"  {file} cannot be run with the compiler off: left out {known}", flush=True)
            known = {"imported": {}, "tests": {}, "files": {file: runner.digest(self.root / file)}}
        self._store(file).write_text(json.dumps(known))

    def watching(self, mutant: Mutant, budget: float, killers: Counter[str]) -> list[str]:
        """The tests that run the mutant's line, those that killed before and quick ones first."""
        lines = self.runs[mutant.file]
        if mutant.outer is None:  # a constant: whatever runs a function of the file, and its tests
            at: Iterable[int] = [line for line in lines if lines[line]]
            own = f"test_{Path(mutant.file).stem}.py::"
            names = {name for name in self.seconds if own in name}
        else:
            at, names = range(mutant.lines[0], mutant.lines[1] + 1), set()
        names |= {name for line in at for name in lines.get(line, ())}
        order = sorted(names, key=lambda n: (self.seconds[n] / (1 + killers[n]), n))
        chosen, total = [], 0.0
        for name in order:
            total += self.seconds[name]
            if total <= budget / 2 or not chosen:
                chosen.append(name)
        return chosen

    def imports(self, mutant: Mutant) -> list[str]:
        """The test files whose import runs the mutant's line, in the table's order."""
        at = set(range(mutant.lines[0], mutant.lines[1] + 1))
        return [f for f in self.tests if at & set(self.records[f]["imported"].get(mutant.file, ()))]


class Worker:
    """Runs its share of a target's mutants; writes a line of JSON for each."""

    def __init__(self, target: Target, mutants: list[Mutant], seconds: float, out: Path) -> None:
        self.target, self.mutants, self.seconds, self.out = target, mutants, seconds, out
        self.killers: dict[str, Counter[str]] = defaultdict(Counter)
        self.terminal = os.dup(2)
        self.spent = 0.0

    def work(self) -> str:
        hot = [m for m in self.mutants if m.outer is not None]
        left = [m for m in self.mutants if m.outer is None]
        if hot:
            files = self.target.tests
            root = self.target.root
            status, again = runner.in_child(
                lambda: runner.with_items(root, files, lambda items: self.serve(items, hot)), 1e6
            )
            if status != "done" or again is None:
                raise RuntimeError(f"{self.target.name}: the tests were not collected ({again}).")
            keys = set(again)
            left += [m for m in hot if m.key in keys]
        for mutant in left:
            self.write(mutant, *self.cold(mutant))
        return "done"

    def serve(self, items: runner.Items, mutants: list[Mutant]) -> list[str]:
        """All mutants that need no import; the keys of those that do after all."""
        for file in self.target.sources:  # names load lazily: what is not there cannot be changed
            importlib.import_module(runner.module_name(self.target.package, file))
        functions, again = runner.Hot(str(self.target.home)), []
        for mutant in mutants:
            killers = self.killers[mutant.function]
            names = [n for n in self.target.watching(mutant, self.seconds, killers) if n in items]
            status, by = "uncovered", None
            if names:
                chosen = [items[name] for name in names]
                limit = min(self.seconds, 3.0 + 5.0 * sum(self.target.seconds[n] for n in names))
                status, by = runner.in_child(partial(self.hot, functions, mutant, chosen), limit)
            if status == "crash":
                status, by = "killed", "crash"
            elif status == "done":
                status = "killed" if by else "survived"
            if status == "killed":
                killers[str(by)] += 1
            elif status in ("survived", "uncovered") and self.target.imports(mutant):
                again.append(mutant.key)
                continue
            self.write(mutant, status, by, len(names))
        return again

    def hot(self, functions: runner.Hot, mutant: Mutant, items: Any) -> str | None:
        functions.change(mutant, self.target.home / mutant.file)
        return runner.run_items(items)

    def cold(self, mutant: Mutant) -> tuple[str, str | None, int]:
        """A mutant that is imported: file by file of the tests, until one fails."""
        target, path = self.target, self.target.home / mutant.file
        compile(mutant.applied(path.read_bytes()), str(path), "exec")  # or every test would fail
        names = target.watching(mutant, self.seconds, self.killers[mutant.file])
        files = dict.fromkeys(
            f for n in names for f in target.tests if n in target.records[f]["tests"]
        )
        files |= dict.fromkeys(target.imports(mutant) if mutant.outer else ())

        def attempt(file: str) -> Any:
            def play(items: runner.Items) -> str | None:
                chosen = [items[n] for n in names if n in items] or list(items.values())[:1]
                return runner.run_items(chosen) or "survived"

            runner.import_mutated(mutant, path, target.package)
            return runner.with_items(target.root, [file], play)

        for file in files:
            status, by = runner.in_child(partial(attempt, file), self.seconds)
            if status in ("timeout", "error"):
                return status, by or file, len(names)
            if by not in ("survived", "skipped"):
                self.killers[mutant.file][by or file] += 1
                return "killed", by or file, len(names)
        return ("survived" if files else "uncovered"), None, len(names)

    def write(self, mutant: Mutant, status: str, by: str | None, tests: int) -> None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.spent, before = used.ru_utime + used.ru_stime, self.spent
        line = {"key": mutant.key, "id": mutant.id, "status": status, "by": by, "run": tests}
        line |= {"seconds": round(self.spent - before, 3), "tests": self.target.state}
        line |= {"source": self.target.digests[mutant.file]}
        with self.out.open("a") as out:
            out.write(json.dumps(line) + "\n")
        os.write(self.terminal, MARKS[status].encode())
