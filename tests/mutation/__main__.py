"""Mutation testing: `python -m tests.mutation --target kernels --sample 100`.

For every target of targets.toml: mutants of its sources against its tests, compiler off. Fails
where a mutant survives that survivors.toml does not explain, or where it explains one that no
longer exists. Results and records are kept in build/mutation: a second run goes on where the
first stopped, and runs survivors again when their tests have changed.

mutmut leaves every decorated function alone, and all kernels are decorated; cosmic-ray starts the
whole suite anew for every mutant. Hence this one.
"""

from __future__ import annotations

import os

os.environ |= {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half a second a process, and none is needed

import argparse
import importlib
import json
import random
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutation import runner
from tests.mutation.mutants import Mutant, accepted, mutants_of
from tests.mutation.targets import Target, Worker

HERE = Path(__file__).parent
DEAD = ("killed", "timeout")


def read_results(path: Path) -> dict[str, Any]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {entry["key"]: entry for entry in map(json.loads, lines)}


def run(target: Target, options: argparse.Namespace, known: dict[str, Any]) -> list[Mutant]:
    """The target's mutants, all or a sample, each with a result in the file afterwards."""
    mutants = [m for m in target.mutants() if options.only in m.id]
    if options.sample and options.sample < len(mutants):
        chosen = random.Random(options.seed).sample(range(len(mutants)), options.sample)
        mutants = [mutants[i] for i in sorted(chosen)]
    target.read_records(options.jobs)
    for name in target.failing:
        print(f"  left out, it fails or is too slow with the compiler off: {name}")

    def settled(mutant: Mutant) -> bool:
        entry = known.get(mutant.key)
        if options.fresh or entry is None or entry["source"] != target.digests[mutant.file]:
            return False
        return entry["status"] in DEAD or entry["tests"] == target.state

    todo = [m for m in mutants if not settled(m)]
    print(f"{target.name}: {len(mutants)} mutants, {len(todo)} to run", flush=True)
    seconds, out = options.seconds_per_mutant, options.results
    runner.share(
        options.jobs,
        lambda k: Worker(target, todo[k :: options.jobs], seconds, out).work(),
    )
    print(flush=True)
    return mutants


def table(mutants: list[Mutant], results: dict[str, Any], excused: dict[str, str]) -> list[Mutant]:
    """Print killed/total for each file; the survivors that nothing excuses."""
    rows: dict[str, Counter[str]] = {}
    bad = []
    for mutant in mutants:
        status = results.get(mutant.key, {}).get("status", "not run")
        if status not in DEAD and mutant.key in excused:
            status = "explained"
        elif status not in DEAD:
            bad.append(mutant)
        for row in (mutant.file, "all"):
            rows.setdefault(row, Counter())[status] += 1
    if mutants:
        rows["all"] = rows.pop("all")
    for name, row in rows.items():
        total = sum(row.values())
        dead = sum(row[status] for status in DEAD)
        share = (dead + row["explained"]) / total
        notes = ", ".join(
            f"{n} {status}" for status, n in sorted(row.items()) if status != "killed"
        )
        print(f"  {name:38} {dead:5}/{total:<5} {dead / total:6.1%}  {share:6.1%}  {notes}")
    return bad


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    add = parser.add_argument
    add("--target", action="append", help="by name; all where none is named")
    add("--only", default="", help="mutants whose id holds this text")
    add("--sample", type=int, default=0, help="so many mutants of each target, drawn by --seed")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=2)
    add("--seconds-per-mutant", type=float, default=60.0, help="processor time")
    add("--list-survivors", action="store_true", help="print results, run nothing")
    add("--fresh", action="store_true", help="run again what has been run")
    add("--root", type=Path, default=HERE.parents[1])
    add("--table", type=Path, default=HERE / "targets.toml")
    add("--survivors", type=Path, default=HERE / "survivors.toml")
    options = parser.parse_args(arguments)
    root = options.root = options.root.resolve()
    (root / "build" / "mutation").mkdir(parents=True, exist_ok=True)
    options.results = root / "build" / "mutation" / "results.jsonl"
    described = tomllib.loads(options.table.read_text())
    targets = [Target(root, described["package"], **entry) for entry in described["target"]]
    for module in described.get("preload", ()):
        importlib.import_module(module)
    excused = accepted(options.survivors)
    bad: list[Mutant] = []
    everything: dict[str, Mutant] = {}
    for target in targets:
        if options.target and target.name not in options.target:
            continue
        known = read_results(options.results)
        mutants = target.mutants() if options.list_survivors else run(target, options, known)
        print(target.name, "(killed/total, share killed, share killed or explained)")
        bad += table(mutants, read_results(options.results), excused)
        everything |= {m.key: m for m in mutants}
    if len(targets) > 1 and not options.target:
        print("overall")
        table(list(everything.values()), read_results(options.results), excused)
    files = {file: target.home for target in targets for file in target.sources}
    alive = {m.key for f, home in files.items() for m in mutants_of(f, (home / f).read_bytes())}
    stale = [key for key in excused if key not in alive]
    for mutant in bad:
        print(f"survives, line {mutant.line}: {mutant.key}: {mutant.shown}")
    for key in stale:
        print(f"stale, no such mutant: {key}")
    return 1 if bad or stale else 0


if __name__ == "__main__":
    sys.exit(main())
