"""The one parallel loop: every simulation, and the experiments, run their work through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from heavytail._extras import need
from heavytail.simulation.progress import progress_bar

__all__ = ["finished", "play_trials"]

Player = TypeVar("Player")
Found = TypeVar("Found")


def finished(
    function: Callable[..., Found],
    tasks: Sequence[tuple[Any, ...]],
    *,
    threads: bool,
    jobs: int | None = None,
    dask: str | None = None,
) -> Iterator[tuple[int, Found]]:
    """``(place, function(*tasks[place]))`` for every task, in the order in which they finish.

    Args:
        function: what to call; importable by name unless ``threads``.
        tasks: the arguments of each call.
        threads: compiled kernels release the GIL, so work that is spent in them shares this
            process; work in Python takes processes, in each of which BLAS keeps to one thread.
        jobs: how many at once; all cores unless given.
        dask: the address of a Dask cluster to run on instead.
    """
    if not tasks:
        return
    if dask is not None:  # not by joblib, which does alone what a cluster of one thread could do
        yield from _on_cluster(function, tasks, dask)
        return
    import joblib

    call = joblib.delayed(_numbered)
    work = (call(place, function, task) for place, task in enumerate(tasks))
    backend = {"backend": "threading"} if threads else _PROCESSES
    with joblib.parallel_config(**backend):
        parallel = joblib.Parallel(
            n_jobs=jobs or joblib.cpu_count(), return_as="generator_unordered"
        )
    yield from parallel(work)


WORKERS = 10.0  # seconds in which a cluster must have a worker
_PROCESSES: dict[str, Any] = {"backend": "loky", "inner_max_num_threads": 1}


def _numbered(
    place: int, function: Callable[..., Found], task: tuple[Any, ...]
) -> tuple[int, Found]:
    return place, function(*task)


def _unpacked(place: int, call: bytes) -> tuple[int, Any]:
    """Run a call that was packed elsewhere; what this worker cannot import is an error of it."""
    import pickle

    try:
        function, task = pickle.loads(call)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"a worker of the cluster cannot import what it is to run ({error}). Put the module "
            "where every worker finds it: in the folder that it was started in, on its "
            "PYTHONPATH, or installed."
        ) from None
    return _numbered(place, function, task)


def _on_cluster(
    function: Callable[..., Found], tasks: Sequence[tuple[Any, ...]], address: str
) -> Iterator[tuple[int, Found]]:
    need("--dask", "distributed", extra="dask")
    from distributed import Client, as_completed
    from distributed.protocol.pickle import dumps

    with Client(address) as client:
        running = as_completed(
            # Packed: a worker that fails to unpack a plain argument is lost, and nobody is told.
            client.submit(_unpacked, place, dumps((function, task)), pure=False)
            for place, task in enumerate(tasks)
        )
        try:
            client.wait_for_workers(1, timeout=WORKERS)
        except TimeoutError:
            raise TimeoutError(
                f"the cluster at {address} has no worker after {WORKERS:g} seconds. Nothing was "
                "run; start its workers."
            ) from None
        for future in running:
            yield future.result()


def play_trials(
    players: Mapping[str, Player],
    play: Callable[[Player, int], Found],
    trials: int,
    *,
    threads: bool,
    jobs: int | None,
    progress: bool | None,
) -> dict[str, list[Found]]:
    """``play(player, trial)`` for every player and trial; by name, in the order of the trials."""
    work = [(name, trial) for trial in range(trials) for name in players]
    tasks = [(players[name], trial) for name, trial in work]
    outcomes: dict[tuple[str, int], Found] = {}
    with progress_bar(progress, "simulating", len(work)) as bar:
        for place, outcome in finished(play, tasks, threads=threads, jobs=jobs):
            outcomes[work[place]] = outcome
            bar.advance()
    return {name: [outcomes[name, trial] for trial in range(trials)] for name in players}
