"""``make evidence``: every recorded number of the README and the documentation, made anew.

    python -m benchmarks.evidence --list          # parts, pages, minutes, and what is stale
    python -m benchmarks.evidence --only tails    # a part or more
    python -m benchmarks.evidence --stale         # those whose code has changed since
    python -m benchmarks.evidence --stamps        # today's stamp of every part, as JSON
    python -m benchmarks.evidence --renew FILE    # give records of the stamps in FILE today's;
                                                  # with --only, these parts'

A part is a command and the pages it feeds. What it printed is kept in ``recorded_evidence.json``
with the commit, the machine and a stamp of the code it ran: the command's own file, the modules
that the part names and the kernels these call, comments and docstrings aside. A record whose stamp
is not today's is stale. ``stale_evidence.toml`` lists those with the reason, the head of each of
their pages says it (``--heads`` writes that), and ``tests/docs/test_evidence.py`` refuses any
other, and a table with a number that its record has not.

A change that moves code and no number, such as a new shape of classes, makes no record wrong. Where
``python -m benchmarks.bits`` prints the same at the commit before and at the one after, write the
stamps of the one before to a file, and renew those records by it at the one after. So for single
parts whose own command prints the same at both commits, on fewer trials or the other engine: renew
these by name, and say in the message of the commit what was compared.

A part that this commit has recorded is not made again, so that an interrupted run goes on where it
was. Parts for a GPU are left out where there is none.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

from benchmarks.evidence_parts import PARTS, Part
from heavytail.experiments.machine import commit, machine, provenance
from heavytail.experiments.source import code_digest, kernel_modules
from heavytail.simulation import cuda

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "benchmarks" / "recorded_evidence.json"
KNOWN = ROOT / "benchmarks" / "stale_evidence.toml"
NO_NUMBERS = (  # code that no number hangs on: checking, compiling, numbering, naming
    *("heavytail._", "heavytail.kernels.jit", "heavytail.kernels.layout"),
    "heavytail.experiments.machine",
)
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
COMMIT = r"(?:[0-9a-f]{7,10}\+?|COMMIT)"


class Made(NamedTuple):
    """The record of a part."""

    commit: str
    date: str
    machine: str
    stamp: str
    printed: list[str]  # empty where it was not kept, or the command writes its page itself


def records(path: Path = RECORD) -> dict[str, Made]:
    """Every record by the name of its part."""
    return {name: Made(**made) for name, made in json.loads(path.read_text()).items()}


def keep(name: str, made: Made, path: Path = RECORD) -> None:
    """Put one record among the others."""
    every = {**(records(path) if path.exists() else {}), name: made}
    text = {one: every[one]._asdict() for one in sorted(every)}
    path.write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n")


def stamp(part: Part) -> str:
    """A hash of the code that the part's numbers depend on."""
    modules = set(_scripts(part))
    for name in part.code:
        modules |= {name, *_kernels(name)}
    return code_digest(frozenset(modules))


def _scripts(part: Part) -> Iterable[str]:
    for command in part.commands:
        words = shlex.split(command)
        if words[:2] == ["python", "-m"]:
            yield words[2] if "." in words[2] else f"{words[2]}.__main__"
        elif words[1].endswith(".py"):
            yield words[1].removesuffix(".py").replace("/", ".")


@functools.cache
def _kernels(name: str) -> set[str]:
    """The modules of the kernels that a module holds or uses; of all its files, if a package."""
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):
        inside = {f"{name}.{file.stem}" for file in Path(module.__path__[0]).glob("[!_]*.py")}
        return inside.union(*map(_kernels, inside))
    functions = [getattr(value, "py_func", value) for value in vars(module).values()]
    own = ("heavytail.kernels", name)
    found = kernel_modules(
        [f for f in functions if isinstance(f, FunctionType) and f.__module__.startswith(own)]
    )
    return {module for module in found if not module.startswith(NO_NUMBERS)}


def stale(made: dict[str, Made]) -> set[str]:
    """The parts without a record of today's code."""
    return {p.name for p in PARTS if p.name not in made or made[p.name].stamp != stamp(p)}


def known() -> dict[str, str]:
    """The records that are known to be stale, each with the reason."""
    return dict(tomllib.loads(KNOWN.read_text()))


def renew(
    earlier: dict[str, str], path: Path = RECORD, only: Sequence[str] | None = None
) -> list[str]:
    """Give the records whose stamp is that of their part in ``earlier`` the stamp of today: all of
    them, or those of the parts named.
    """
    made = records(path)
    names = [p.name for p in PARTS if p.name in made and made[p.name].stamp == earlier.get(p.name)]
    names = [name for name in names if only is None or name in only]
    parts = {part.name: part for part in PARTS}
    for name in names:
        keep(name, made[name]._replace(stamp=stamp(parts[name])), path)
    return names


def numbers(text: str) -> set[float]:
    """The numbers in a text, whatever stands around them."""
    return {float(found.replace(",", "")) for found in NUMBER.findall(text)}


def make(part: Part) -> bool:
    """Run a part and keep what it printed; False where a command failed."""
    printed: list[str] = []
    before, code = commit(), stamp(part)
    for command in part.commands:
        print(f"$ {command}", flush=True)
        words = shlex.split(command)
        words[:1] = [sys.executable] if words[0] == "python" else [sys.executable, "-m", words[0]]
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            return False
        printed += [line.rstrip() for line in done.stdout.splitlines()]
    if part.file:
        (ROOT / part.file).write_text("\n".join(printed) + "\n")
    where = machine("cuda" if part.gpu else "compiled")
    kept = [] if part.file or part.writes else printed
    keep(part.name, Made(before, provenance()["date"], where, code, kept))
    name_commit(part, before)
    return True


def name_commit(part: Part, made_at: str, root: Path = ROOT) -> None:
    """Write the commit behind the command, wherever a page of the part names one there."""
    for page in part.pages:
        text = new = (root / page).read_text()
        for command in part.commands:
            script = re.match(r"python examples/\S+", command)  # a page leaves out the picture
            told = re.escape(script[0]) + "[^`]*" if script else re.escape(command)
            behind = re.compile(rf"({told}`[,;]?\s+at\s+(?:commit\s+)?){COMMIT}")
            new = behind.sub(rf"\g<1>{made_at[:7]}", new)
        if new != text:
            (root / page).write_text(new)


OLD = '!!! warning "Older than the code"'


def with_head(page: str, text: str, made: dict[str, Made], why: dict[str, str]) -> str:
    """The page's text, its head saying which of its records are known to be stale, and why."""
    text = re.sub(rf"{re.escape(OLD)}\n(?:(?: {{4}}.*)?\n)*", "", text, count=1)
    parts = [part.name for part in PARTS if part.name in why and page in part.pages]
    if not parts:
        return text
    said = [
        OLD,
        "    These numbers were made by earlier code; `make evidence` makes them anew:\n",
    ]
    for name in parts:
        at = f"{made[name].commit[:7]}, {made[name].date}" if name in made else "no commit kept"
        said.append(f"    - `{name}` ({at}): {why[name]}")
    title, rest = text.split("\n\n", 1)
    return "\n".join([title, "", *said, "", rest])


def write_heads(root: Path = ROOT) -> None:
    """Bring the head of every page up to the list of what is stale."""
    made, why = records(), known()
    for page in {page: None for part in PARTS for page in part.pages if page != "README.md"}:
        text = (root / page).read_text()
        new = with_head(page, text, made, why)
        if new != text:
            (root / page).write_text(new)


def listing(made: dict[str, Made]) -> str:
    """The parts as a table."""
    old = stale(made)
    rows = []
    for part in PARTS:
        state = "no record" if part.name not in made else made[part.name].commit
        state += ", stale" if part.name in old and part.name in made else ""
        where = "GPU" if part.gpu else "   "
        rows.append(f"{part.name:18} {part.minutes:5g} min {where}  {state:20} {part.pages[0]}")
        rows += [f"{'':54} {page}" for page in part.pages[1:]]
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [part.name for part in PARTS]
    parser.add_argument("--list", action="store_true", help="say what there is and stop")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these parts")
    parser.add_argument("--stale", action="store_true", help="those whose code has changed since")
    parser.add_argument("--heads", action="store_true", help="only say on the pages what is stale")
    parser.add_argument("--stamps", action="store_true", help="print today's stamps and stop")
    parser.add_argument("--renew", metavar="FILE", help="renew records of the stamps in FILE")
    args = parser.parse_args(arguments)
    if args.stamps:
        print(json.dumps({part.name: stamp(part) for part in PARTS}, indent=1))
        return 0
    if args.renew:
        renewed = renew(json.loads(Path(args.renew).read_text()), only=args.only)
        print(f"renewed: {', '.join(renewed)}")
        return 0
    if args.heads:
        write_heads()
        return 0
    made: dict[str, Any] = records()
    if args.list:
        print(listing(made))
        return 0
    old, now, failed = stale(made), commit(), []
    for part in PARTS:
        fresh = part.name not in old
        done = fresh and (args.stale or made[part.name].commit == now)
        if args.only is not None and part.name not in args.only:
            continue
        if args.only is None and done:
            print(f"{part.name}: recorded at {made[part.name].commit}")
            continue
        problem = cuda.explain() if part.gpu else None
        if problem:
            print(f"{part.name}: left out. {problem}")
            continue
        start = time.perf_counter()
        if not make(part):
            failed.append(part.name)
        print(f"{part.name}: {(time.perf_counter() - start) / 60:.1f} min", flush=True)
    write_heads()
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
