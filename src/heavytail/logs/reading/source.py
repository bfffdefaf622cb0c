"""A log as the estimates read it: its source, the names of its columns, and rereading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from heavytail.logs.reading.files import Count
from heavytail.logs.reading.log import chunks, counted
from heavytail.logs.reading.rows import LOGGED, Rows
from heavytail.logs.reading.spread import map_chunks
from heavytail.logs.reading.tables import CHUNK, Reading

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Source", "merged"]

Found = TypeVar("Found")


@dataclass(frozen=True)
class Source:
    """A log and how to read it.

    Attributes:
        log: as for :func:`heavytail.logs.reading.chunks`.
        columns: where the log has other names: ours -> its own.
        default_reward: what a reward that never came counts as, or None.
        reserved: whether "logged" is asked for as the policy that wrote the log.
    """

    log: Any
    columns: Mapping[str, Any] | None
    default_reward: float | None
    reserved: bool = False

    def __post_init__(self) -> None:
        """Refuse invalid columns before anything is read."""
        Reading.of(self.columns, CHUNK, self.default_reward)

    def names_column(self, target: object) -> TypeGuard[str]:
        """Tell whether a target names a column of the log."""
        stated = (self.columns or {}).get("target")
        return isinstance(target, str) and (target != LOGGED or stated == LOGGED)

    def naming(self, target: object) -> Source:
        """The same, with the column that ``target`` names, if it is a name, read as the target."""
        if not self.names_column(target):
            unsaid = (self.columns or {}).get("target", "") is not None
            return replace(self, reserved=True) if isinstance(target, str) and unsaid else self
        return replace(self, columns={**(self.columns or {}), "target": target})

    def held(self) -> Source:
        """The same, to be read more than once: an iterator's parts are held in memory."""
        return replace(self, log=list(self.log)) if self.once else self

    @property
    def once(self) -> bool:
        """True if it can be read only once."""
        return isinstance(self.log, Iterator)

    def chunks(self) -> Iterator[Rows]:
        """The rows in order, some at a time."""
        return chunks(self.log, **self._options)

    def length(self) -> int | None:
        """The number of rows, where it is known without reading them."""
        return self.count().rows

    def count(self) -> Count:
        """The same, and the number of decisions left out because they wait for their reward."""
        return Count(None) if self.once else counted(self.log, default_reward=self.default_reward)

    def map(
        self, call: Callable[[Rows], Found], dask: Client | str | bool | None
    ) -> Iterator[Found]:
        """The results of ``call`` on every chunk, in order; on a Dask cluster if one is named."""
        return map_chunks(self.log, call, dask, **self._options)

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "columns": self.columns,
            "default_reward": self.default_reward,
            "reserved": self.reserved,
        }


def merged(parts: Iterable[Found]) -> Found:
    """Summaries, or tuples of them, merged in order; a log without rows is refused."""
    joined: Any = None
    for part in parts:
        if joined is None:
            joined = part
        elif isinstance(part, tuple):
            joined = tuple(a + b for a, b in zip(joined, part, strict=True))
        else:
            joined = joined + part
    if joined is None:
        raise ValueError("the log has no rows with a reward; there is nothing to evaluate.")
    return joined
