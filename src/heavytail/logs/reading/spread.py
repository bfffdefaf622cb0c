"""One function over all chunks of a log, here or on a Dask cluster, with equal results."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from heavytail._extras import need
from heavytail._validate import shown
from heavytail.logs.reading.actions import named
from heavytail.logs.reading.files import Unit
from heavytail.logs.reading.log import chunks, steps
from heavytail.logs.reading.rows import Rows
from heavytail.logs.reading.tables import CHUNK, Columns, Order, Reading, pieces, read_rows
from heavytail.tables.place import Place

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["map_chunks"]

Found = TypeVar("Found")
AHEAD = 2  # tasks per thread of the cluster that are handed out before the first is back


def map_chunks(
    log: object,
    function: Callable[[Rows], Found],
    dask: Client | str | bool | None = None,
    *,
    columns: Columns | None = None,
    size: int = CHUNK,
    default_reward: float | None = None,
    reserved: bool = False,
) -> Iterator[Found]:
    """``function(rows)`` of every chunk of ``log``, in the order of the chunks.

    The chunks do not depend on where they are read, so the results in order are equal to the bit.

    Args:
        log: as for :func:`heavytail.logs.reading.chunks`.
        function: called with every chunk. On a cluster it is sent to every worker, and its results
            are sent back.
        dask: a ``distributed.Client``, the address of a cluster, or True for one on this machine.
            Groups of rows of Parquet files are read by the workers, one task per group (small ones
            together), who must see the files under the same path; all else is read here and sent.
        columns: as for ``chunks``, and so are the rest.
        size: rows at a time.
        default_reward: what a reward that never came counts as.
        reserved: as for ``chunks``.
    """
    options: dict[str, Any] = {"size": size, "default_reward": default_reward}
    if dask is None or dask is False:
        for rows in chunks(log, columns=columns, reserved=reserved, **options):
            yield function(rows)
        return
    log, reading = named(log, replace(Reading.of(columns, **options), reserved=reserved))
    with _client(dask) as client:
        [shared] = client.scatter([function], broadcast=True, hash=False)
        tasks = _tasks(log, reading, client, shared)
        most = AHEAD * max(1, sum(client.nthreads().values()))
        pending: deque[tuple[Future, Place]] = deque()
        order = Order()
        try:
            for task in tasks:
                pending.append(task)
                if len(pending) > most:
                    yield from _result(pending.popleft(), order)
            while pending:
                yield from _result(pending.popleft(), order)
        finally:
            client.cancel([future for future, _ in pending])


def _tasks(
    log: object, reading: Reading, client: Client, shared: Future
) -> Iterator[tuple[Future, Place]]:
    """Futures of the results, and the place that each begins at."""
    start = 0
    for mode, step in steps(log, reading):
        if isinstance(step, Unit):
            unit = replace(step, path=os.path.abspath(step.path))
            time = mode.columns.get("time") or "time"
            place = Place(step.path, str(time), range(step.first, step.first + step.length))
            yield client.submit(_of_unit, shared, unit, mode, start, pure=False), place
            start += step.kept(mode)
            continue
        for piece in pieces(step):
            order = Order()
            for rows in read_rows([piece], mode, start, order):
                start += len(rows.action)
                yield client.submit(_of_rows, shared, rows, order, pure=False), piece.place("time")


def _of_unit(
    function: Callable[[Rows], Found], unit: Unit, reading: Reading, start: int
) -> tuple[list[Found], Order]:
    order = Order()
    results = [function(rows) for rows in read_rows(unit.tables(reading), reading, start, order)]
    return results, order


def _of_rows(
    function: Callable[[Rows], Found], rows: Rows, order: Order
) -> tuple[list[Found], Order]:
    return [function(rows)], order


def _result(task: tuple[Future, Place], order: Order) -> list[Any]:
    future, place = task
    results, times = future.result()
    order.go_on(times, place)
    return list(results)


@contextlib.contextmanager
def _client(dask: object) -> Iterator[Client]:
    need("dask=", "distributed", extra="dask")
    from distributed import Client

    if isinstance(dask, Client):
        yield dask
    elif isinstance(dask, str) or dask is True:
        with Client() if dask is True else Client(dask) as client:
            yield client
    else:
        raise TypeError(
            f"dask must be a distributed.Client, an address, True or None; got {shown(dask)}."
        )
