"""Reliable snapshots: each is loaded once before it is saved. If one cannot be loaded later, an
older snapshot and the log lead to the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._load import from_bytes
from heavytail.decider import Decider
from heavytail.policies.build import find
from heavytail.policies.core.policy import Policy
from heavytail.serve.wire import ModelSpec

__all__ = ["FORKED", "LEARNED", "RESTORED", "Way", "checked", "loaded", "loaded_decider", "ways"]

RESTORED = "restored from "  # and the number of the snapshot; begins a line of states
FORKED = "forked from "  # and the name of the model; likewise
LEARNED = "learned the log "  # and the digest of the file; likewise

Kept = tuple[int, int, float, str]  # number, outcome, time and note of a snapshot


def checked(policy: Policy | Decider, arrays: Mapping[str, Any]) -> bytes:
    """Return the state ``arrays`` of a policy as bytes; raise ValueError unless loading them gives
    the same state.
    """
    data = policy.to_bytes(arrays)
    again = from_bytes(data, name="the snapshot").saved_arrays()
    changed = [key for key in arrays if not _same(arrays[key], again.get(key))]
    if changed or len(again) != len(arrays):
        raise ValueError(f"the snapshot changes when it is loaded: {sorted(changed)}.")
    return data


def loaded(data: bytes, spec: ModelSpec, name: str) -> Policy:
    """Return the policy in a snapshot; refuse one that does not match the specification."""
    policy = from_bytes(data, name=name)
    if not isinstance(policy, Policy):
        raise ValueError(f"{name} contains no policy.")
    policy_class = find(spec.policy)
    if type(policy) is not policy_class or spec.dim not in (None, policy.dim):
        raise ValueError(
            f"{name} holds {type(policy).__name__} of dim {policy.dim}; the model is a "
            f"{policy_class.__name__} of dim {spec.dim}."
        )
    return policy


def loaded_decider(data: bytes, name: str) -> Decider:
    """Return the Decider in a file; refuse a file of anything else."""
    decider = from_bytes(data, name=name)
    if not isinstance(decider, Decider):
        raise ValueError(f"{name} contains {type(decider).__name__}; it must be a Decider's file.")
    return decider


def _same(array: NDArray[Any], other: NDArray[Any] | None) -> bool:
    return (
        other is not None
        and (array.dtype, array.shape) == (other.dtype, other.shape)
        and np.ascontiguousarray(array).tobytes() == np.ascontiguousarray(other).tobytes()
    )


class Way(NamedTuple):
    """A way to the present state of a model.

    Attributes:
        number: number of the snapshot to start from; None for a fresh policy.
        version: the outcome that it is after.
        turns: pairs (a, b): after learning outcome a the state counts as that after b, because the
            model was restored there.
    """

    number: int | None
    version: int
    turns: tuple[tuple[int, int], ...] = ()


def ways(kept: Sequence[Kept], *, from_log: bool) -> Iterator[Way]:
    """The ways to the present state of a model, shortest first. All lead to the same bits.

    A restored model starts a new line of states with a copy of its snapshot; outcomes after a
    snapshot of an older line lead elsewhere. If the copy cannot be loaded, the original can be
    reached in its own line, as long as it is listed there.

    Args:
        kept: all snapshots of the model, in any order.
        from_log: whether the log has all outcomes of the first line of states.
    """
    sound = [
        snapshot
        for snapshot in kept
        if isinstance(snapshot[1], int) and isinstance(snapshot[3], str)
    ]
    yield from _ways(sorted(sound), (), from_log and sound == [*kept])


def _ways(
    kept: Sequence[Kept], turns: tuple[tuple[int, int], ...], from_log: bool
) -> Iterator[Way]:
    """The ways to the end of the line that the last of ``kept``, by number, belongs to."""
    begun = [
        i for i, snapshot in enumerate(kept) if snapshot[3].startswith((RESTORED, FORKED, LEARNED))
    ]
    start = begun[-1] if begun else 0
    for number, seq, *_ in sorted(
        kept[start:], key=lambda snapshot: (snapshot[1], snapshot[0]), reverse=True
    ):
        yield Way(number, seq, turns)
    if not begun:
        if from_log:
            yield Way(None, 0, turns)
        return
    _, seq, _, note = kept[start]
    origin = note.removeprefix(RESTORED)  # that of a fork or a log is no number
    for i, (number, before, *_) in enumerate(kept[:start]):
        if str(number) == origin:
            line = [snapshot for snapshot in kept[: i + 1] if snapshot[1] <= before]
            yield from _ways(line, ((before, seq), *turns), from_log)
