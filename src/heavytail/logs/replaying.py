"""``replay``: a policy that goes on learning, on the rows of a log that it would have played.

Li, Chu, Langford and Schapire (WWW 2010): go through the log. If the policy chooses the arm that
was played, it learns the reward; all other rows are skipped. If arms were drawn uniformly, the used
rows are rounds as the policy would have met them. With other propensities p a match is used with
probability c / p, c the smallest propensity of any row, so that again all arms are used equally
often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytail._typing import FloatArray
from heavytail._validate import Check, shown
from heavytail.logs.reading import chunks
from heavytail.logs.reading.rows import DRAWN, needed
from heavytail.policies.core.policy import Policy

__all__ = ["Replay", "replay"]

MARKS = 200  # points of the course that are kept


@dataclass(frozen=True)
class Replay:
    """The reward of a learning policy on the rows that it could use.

    Attributes:
        value: the mean reward of the used rows; nan if there are none.
        used: rows used.
        matched: rows with the policy's own choice.
        rows: rows of the log.
        policy: the trained copy; the given policy is not changed.
        rounds: (m,) increasing numbers of used rounds at which ...
        course: (m,) ... this was the mean reward so far.
    """

    value: float
    used: int
    matched: int
    rows: int
    policy: Policy
    rounds: FloatArray = field(repr=False)
    course: FloatArray = field(repr=False)

    @property
    def share(self) -> float:
        """The share of used rows."""
        return self.used / self.rows

    def __str__(self) -> str:
        return (
            f"value            {self.value:.6g}\n"
            f"rows used        {self.used:,} of {self.rows:,} ({self.share:.1%}); "
            f"{self.matched:,} matched"
        )


def replay(
    log: object,
    policy: Policy,
    *,
    least: float | None = None,
    columns: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Replay:
    """Let a copy of ``policy`` choose and learn on the rows of ``log`` that it would have played.

    >>> import numpy as np, heavytail as ht
    >>> rng = np.random.default_rng(0)
    >>> arms = np.tile(np.eye(3), (900, 1, 1))
    >>> action = rng.integers(3, size=900)
    >>> log = {"arms": arms, "action": action, "reward": 1.0 * (action == 2),
    ...        "propensity": np.full(900, 1 / 3)}
    >>> replayed = ht.replay(log, ht.TwinUCB(3))
    >>> replayed.value > 0.5, 0.2 < replayed.share < 0.5
    (True, True)

    Args:
        log: with arms and propensities; see :mod:`heavytail.logs.reading`.
        policy: it decides by ``select`` and learns by ``update``.
        least: c, a number that no propensity is below. Without it the log is read twice, to find
            the smallest one.
        columns: where the log has other names: ours -> its own.
        seed: seed of the draws that decide which matches are used.
    """
    if not isinstance(policy, Policy):
        raise TypeError(
            f"replay.policy must be a policy of the library; got {shown(policy)}. What does not "
            "learn is for ht.evaluate."
        )
    seed = Check("replay").seed(seed)
    learner, bound = policy.clone(), _least(log, least, columns)
    rows = matched = used = 0
    total, due = 0.0, 1.0
    rounds: list[float] = []
    course: list[float] = []
    for part in chunks(log, columns=columns):
        arms, p = needed(part, "replay", DRAWN)
        draws = np.random.default_rng([seed, part.start]).random(len(p))
        _check_least(part, bound)
        for i, offered in enumerate(arms):
            offered = offered[~np.isnan(offered).any(axis=1)]
            if learner.select(offered) != part.action[i]:
                continue
            matched += 1
            if draws[i] * p[i] >= bound:
                continue
            learner.update(offered[part.action[i]], float(part.reward[i]))
            used += 1
            total += float(part.reward[i])
            if used >= due:
                rounds.append(used)
                course.append(total / used)
                due = max(due + 1.0, 1.05 * due)
        rows += len(p)
    if rows == 0:
        raise ValueError("replay: the log has no rows; there is nothing to replay.")
    value = total / used if used else math.nan
    return Replay(value, used, matched, rows, learner, np.array(rounds), np.array(course))


def _least(log: object, given: float | None, columns: Mapping[str, Any] | None) -> float:
    if given is not None:
        return float(Check("replay").number("least", given, above=0.0, most=1.0))
    if hasattr(log, "__next__"):
        raise ValueError(
            "replay: an iterator can be read once alone; pass least=, a number that no propensity "
            "is below."
        )
    minima = [
        np.min(needed(part, "replay", DRAWN)[1], initial=1.0)
        for part in chunks(log, columns=columns)
    ]
    return float(min(minima, default=1.0))


def _check_least(part: Any, bound: float) -> None:
    low = part.propensity < bound
    if low.any():
        row = int(np.argmax(low))
        raise ValueError(
            f"{part.at(row)}, column {part.column('propensity')!r}: must be at least "
            f"least={bound}; got {part.propensity[row]}."
        )
