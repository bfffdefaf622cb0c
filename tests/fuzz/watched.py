"""Files are loaded in a process of their own, which is watched: it may crash, or never end."""

from __future__ import annotations

import multiprocessing
import resource
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
from tests.fuzz.files import Bench
from tests.fuzz.player import Folder
from tests.fuzz.subjects import subjects

PATIENCE = 10.0  # seconds for one file
START = 120.0  # and for the process to begin, kernels to be compiled
MOST = 6 * 2**30  # bytes that the process may take


def work(names: list[str], share: int, seed: int, start: int, at: Any, counts: Any) -> None:
    """Files from ``start`` on, ``share`` of each subject; says at which it is."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    with Folder() as folder:
        bench, built = None, ""
        for number in range(start, share * len(names)):
            name, found = names[number // share], Counter[str]()
            if name != built:
                at.value = -2 - number  # kernels may have to be compiled
                bench, built = Bench(name, folder, seed), name
            assert bench is not None
            at.value = number
            bench.run(number % share, found)
            counts.send((name, dict(found)))
    at.value = share * len(names)


def fuzz_files(files: int, seed: int) -> dict[str, Counter]:
    """So many files in all, spread over everything that saves."""
    names = list(subjects())
    share = -(-files // len(names))
    return watch(names, share, seed)


def watch(names: list[str], share: int, seed: int) -> dict[str, Counter]:
    """All files of all subjects, in as many processes as it takes."""
    spawn, start, count = multiprocessing.get_context("spawn"), 0, share * len(names)
    found = {name: Counter[str]() for name in names}
    while start < count:
        at, (mine, theirs) = spawn.Value("q", -1), spawn.Pipe(duplex=False)
        worker = spawn.Process(target=work, args=(names, share, seed, start, at, theirs))
        worker.start()
        theirs.close()
        seen, since, ended = -1, time.monotonic(), ""
        while not ended:
            worker.join(0.05)
            _drain(mine, found)
            if at.value != seen:
                seen, since = at.value, time.monotonic()
            if worker.exitcode is not None:
                ended = "" if worker.exitcode == 0 and seen == count else "crashes"
                break
            if time.monotonic() - since > (START if seen < 0 else PATIENCE):
                worker.kill()
                worker.join()
                ended = "hangs"
        _drain(mine, found)
        if not ended:
            return found
        lost = seen if seen >= 0 else -2 - seen
        name = names[max(lost, 0) // share]
        found[name][ended] += 1
        print(f"{name} file {lost % share}: {ended} (exit {worker.exitcode})", flush=True)
        if seen < 0:
            return found
        start = seen + 1
    return found


def _drain(mine: Any, found: dict[str, Counter]) -> None:
    try:
        while mine.poll():
            name, counts = mine.recv()
            found[name].update(counts)
    except EOFError:
        return
