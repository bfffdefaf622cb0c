"""The probabilities of a target's choices, row by row.

A target is a policy of the library, frozen; a callable of the rows; an array over the whole log;
the name of one of its columns; or "logged", the policy that wrote the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray, IntArray
from heavytail._validate import as_numbers, check_count, check_number, shown
from heavytail.logs.fixed import Always, Logged
from heavytail.logs.reading.rows import LOGGED, SUM_SLACK, Rows, offered
from heavytail.policies.core.policy import Policy

__all__ = ["Chooser", "Target", "greedy", "probabilities"]

MOST_DRAWS = 10**6  # per row
Chooser = Policy | Callable[[Rows], ArrayLike] | ArrayLike  # what a Target is made of


def probabilities(
    policy: Chooser, rows: Rows, *, explore: float = 0.0, draws: int | None = None
) -> FloatArray:
    """Return pi(a|x) of the target, (n, K), or (n,) if only that of the logged action is known.

    For many chunks of one log create one :class:`Target` and call it.

    Args:
        policy: the target, see :class:`Target`.
        rows: a chunk of the log.
        explore: the share of uniform draws to mix in, as in ``policy.decide``.
        draws: see :class:`Target`.
    """
    return Target(policy, explore=explore, draws=draws)(rows)


def greedy(policy: Policy) -> Callable[[Rows], FloatArray]:
    """A target that plays the arm with the largest mean predicted by ``policy``, without
    exploration.

    A frozen policy still chooses by its index, bonuses included; this target shows the value of its
    estimate. For :func:`heavytail.evaluate`, ``compare`` and ``select``.

    >>> import heavytail as ht
    >>> policy = ht.TwinUCB(2)
    >>> policy.update([1.0, 0.0], 3.0)
    >>> log = {"arms": [[[1.0, 0.0], [0.0, 1.0]]] * 50, "action": [0, 1] * 25,
    ...        "reward": [3.0, 1.0] * 25, "propensity": [0.5] * 50}
    >>> ht.evaluate(log, ht.greedy(policy)).value
    3.0
    """
    if not isinstance(policy, Policy) or not hasattr(policy, "predict"):
        raise TypeError(f"greedy.policy must be a policy that predicts; got {shown(policy)}.")
    return _Greedy(policy.clone())


class Target:
    """The choices of a target, frozen at construction.

    A library policy is copied. The copy chooses among each row's arms without learning: probability
    1 for its choice and 0 for the others. This costs as much as ``select_many``. Uniform,
    EpsilonGreedy and exploring rounds of low-rank policies draw with known probabilities. LinTS
    does not know its own and is refused, unless ``draws`` gives the number of draws per row. The
    share of draws is an unbiased estimate of the probability and independent of the reward, so
    inverse propensity weighting stays unbiased; the variance of a row's value grows by at most E(r²
    / p²) / (4 draws). The draws are fixed by the policy's seed and the number of the chunk's first
    row.

    Args:
        policy: a policy; a callable that takes :class:`heavytail.logs.reading.rows.Rows` and
            returns (n, K) probabilities or (n,) of the logged actions; an array of either shape
            over the whole log; "logged", for the policy that wrote the log; or another name, for
            the column that was read as ``target``.
        explore: a share e of uniform draws mixed in: (1 - e) pi + e / K, of the K arms offered.
        draws: number of draws per row that estimate the probabilities of a policy that does not
            know them.
    """

    def __init__(self, policy: Chooser, *, explore: float = 0.0, draws: int | None = None) -> None:
        self.explore = check_number("explore", explore, least=0.0, most=1.0)
        self.draws = None if draws is None else check_count("draws", draws, most=MOST_DRAWS)
        self._ask: Callable[[Rows], ArrayLike]
        inner = getattr(policy, "target", None)  # of a callable that asks another target
        self._inner = inner if isinstance(inner, Target) else None
        self.notes: tuple[str, ...] = ()  # what to tell who reads the evaluation
        if isinstance(policy, type):
            raise TypeError(
                f"policy: pass a policy, not its class {policy.__name__}: one that has learned, "
                f"or {policy.__name__}(...)."
            )
        if isinstance(policy, Policy):
            self.name = type(policy).__name__
            self._ask = _Frozen(policy.clone(), self.draws)
            if policy.rounds == 0 and not policy.info.randomised:
                self.notes = (f"{self.name} has learned nothing yet: it was just built.",)
        elif isinstance(policy, str) and policy == LOGGED:
            self.name, self._ask = LOGGED, Logged()
        elif isinstance(policy, str):
            self.name, self._ask = f"column {policy!r}", _from_column
        elif callable(policy):
            self.name, self._ask = getattr(policy, "__name__", type(policy).__name__), policy
        else:
            self.name = "array"
            self._ask = _Whole(as_numbers(policy, "policy", "a policy, or numbers (n, K) or (n,)"))

    def of_log(self, rows: Rows) -> bool:
        """Tell whether it plays as the log did, so that all weights are 1."""
        if self._inner is not None:
            return self._inner.of_log(rows)
        return isinstance(self._ask, Logged) and not self.explore and self._ask.of_log(rows)

    def __call__(self, rows: Rows, propensity: FloatArray | None = None) -> FloatArray:
        """(n, K), or (n,): of the logged actions.

        ``propensity``, (n,), is stated in place of the log's own.
        """
        if isinstance(self._ask, Always | Logged):
            answer: ArrayLike = self._ask(rows, propensity)
        else:
            answer = self._ask(rows)
        shares = as_numbers(answer, f"{self.name}: probabilities", "numbers (n, K) or (n,)")
        counts = offered(rows)
        _check(shares, rows, counts, self.name)
        if not self.explore:
            return shares
        if shares.ndim == 2:
            counts = np.full(len(shares), shares.shape[1]) if counts is None else counts
            each = np.where(
                np.arange(shares.shape[1]) < counts[:, None], 1.0 / counts[:, None], 0.0
            )
        elif counts is None:
            raise ValueError(
                f"{self.name}: explore needs to know how many arms a row offered; give "
                "probabilities of all arms, (n, K), or a log with arms."
            )
        else:
            each = 1.0 / counts
        return np.asarray((1.0 - self.explore) * shares + self.explore * each)

    def finish(self, rows: int, counts: FloatArray | None = None) -> None:
        """Refuse, after ``rows`` rows of the log, an array that goes on, and one action in every
        row if no row plays or offers it; ``counts`` says how often numbers are.
        """
        if self._inner is not None:
            self._inner.finish(rows, counts)
        if isinstance(self._ask, Always) and counts is not None:
            self._ask.finish(counts)
        if isinstance(self._ask, _Whole) and len(self._ask.array) != rows:
            raise ValueError(
                f"policy: probabilities of {len(self._ask.array)} rows were given, and the log has "
                f"{rows}. Give those of every row, in its order."
            )


def _check(found: FloatArray, rows: Rows, counts: IntArray | None, name: str) -> None:
    """Refuse, by row, what are no probabilities of these rows."""
    n = len(rows.action)
    arms = None if rows.actions is None else len(rows.actions)
    arms = arms if rows.arms is None else rows.arms.shape[1]
    fits = found.ndim in (1, 2) and len(found) == n
    fits = fits and (found.ndim == 1 or arms is None or found.shape[1] == arms)
    if not fits:
        wanted = f"({n},) or ({n}, {'K' if arms is None else arms})"
        raise ValueError(f"{name}: probabilities must have shape {wanted}; got {found.shape}.")
    flat = found.reshape(n, -1)
    good = ((flat >= 0.0) & (flat <= 1.0 + SUM_SLACK)).all(axis=1)
    problem = "must lie from 0 to 1"
    if found.ndim == 2:
        sums = abs(flat.sum(axis=1) - 1.0) <= SUM_SLACK * max(1, flat.shape[1])
        inside = rows.action < flat.shape[1]
        if not inside.all():
            bad = int(np.argmin(inside))
            raise ValueError(
                f"{rows.at(bad)}: the action is {rows.action[bad]}, and {name} has arms 0 to "
                f"{flat.shape[1] - 1}. Actions count from 0."
            )
        if counts is not None:
            beyond = np.arange(flat.shape[1]) >= counts[:, None]
            inside &= ~((flat > 0.0) & beyond).any(axis=1)
        problem += ", add up to 1, and be of arms that were offered"
        good &= sums & inside
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(
            f"{rows.at(bad)}: the probabilities of {name} {problem}; got "
            f"{shown(found[bad].tolist())}."
        )


def _arms(rows: Rows, policy: Policy) -> FloatArray:
    """The arms of a chunk, in the form that the policy takes, or an error."""
    name, where = type(policy).__name__, f"{rows.source}, column {rows.column('arms')!r}"
    if rows.arms is None:
        do = "Log their features, or pass probabilities."
        if policy.encoder is not None:
            do = "Let its encoder fill them in: columns={'arms': policy.encoder.catalogue(...)}"
            do += ", of the table of arms."
        raise ValueError(f"{where}: is missing, and {name} chooses among arms. {do}")
    if rows.arms.shape[2] != policy.dim:
        raise ValueError(
            f"{where}: has {rows.arms.shape[2]} features per arm, and "
            f"{name} was built for {policy.dim}."
        )
    return rows.arms


class _Greedy:
    """The arm with the largest predicted mean; the first of equals."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.__name__ = policy, f"greedy {type(policy).__name__}"

    def __call__(self, rows: Rows) -> FloatArray:
        arms = _arms(rows, self.policy)
        there = np.asarray(~np.isnan(arms).any(axis=2))
        means = np.full(there.shape, -np.inf)
        try:
            means[there] = self.policy.predict(arms[there]).mean
        except ValueError:  # asked again one by one, for the row
            for i, row in enumerate(arms):
                with _at(rows, i):
                    means[i, there[i]] = self.policy.predict(row[there[i]]).mean
        return _one_hot(np.argmax(means, axis=1), arms.shape[1])


class _Frozen:
    """A library policy that chooses without learning."""

    def __init__(self, policy: Policy, draws: int | None) -> None:
        self.policy, self.draws = policy, draws

    def __call__(self, rows: Rows) -> FloatArray:
        policy, arms = self.policy, _arms(rows, self.policy)
        counts = offered(rows)
        assert counts is not None
        shares = np.zeros(arms.shape[:2])
        if policy.info.randomised:
            policy = policy.clone()  # what it draws for one chunk does not move the next
            if self.draws is not None:
                policy.reseed(_seed(policy, rows.start))
        for count in np.unique(counts):  # arms that fill up are not offered
            mine = np.flatnonzero(counts == count)
            sets = np.ascontiguousarray(arms[mine, :count])
            shares[mine, :count] = self._shares(policy, sets, rows, mine)
        return shares

    def _shares(self, policy: Policy, sets: FloatArray, rows: Rows, mine: IntArray) -> FloatArray:
        if not policy.info.randomised:
            return _one_hot(_choices(policy, sets, rows, mine), sets.shape[1])
        _choices(policy.clone(), sets, rows, mine)  # for its words where arms are bad
        known = policy._chances(sets)
        if known is not None:
            return known
        if self.draws is None:
            raise ValueError(
                f"{type(policy).__name__} draws its choices and does not know their "
                "probabilities. Pass draws=100 to estimate them by so many draws per row, or "
                "evaluate a policy that does not draw."
            )
        total = np.zeros(sets.shape[:2])
        for _ in range(self.draws):
            total += _one_hot(_choices(policy, sets, rows, mine), sets.shape[1])
        return total / self.draws


def _seed(policy: Policy, start: int) -> int:
    """A seed of the policy's own for the chunk that begins at ``start``."""
    return (policy._draw_key() * 1_000_003 + start) % 2**53


def _one_hot(choices: IntArray, count: int) -> FloatArray:
    encoded = np.zeros((len(choices), count))
    encoded[np.arange(len(choices)), choices] = 1.0
    return encoded


def _choices(policy: Policy, sets: FloatArray, rows: Rows, mine: IntArray) -> IntArray:
    """The policy's choice from each set; an error names the row of a bad set."""
    try:
        if hasattr(policy, "select_many"):
            return np.asarray(policy.select_many(sets), dtype=np.int64)
    except ValueError:
        pass  # asked again one by one, for the row
    choices = np.empty(len(sets), dtype=np.int64)
    for i, arms in enumerate(sets):
        with _at(rows, int(mine[i])):
            choices[i] = policy.select(arms)
    return choices


@contextmanager
def _at(rows: Rows, i: int) -> Iterator[None]:
    """A refusal of arms names their row."""
    try:
        yield
    except ValueError as error:
        where = f"{rows.at(i)}, column {rows.column('arms')!r}"
        raise ValueError(f"{where}: {error}") from None


class _Whole:
    """Probabilities over the whole log, of which a chunk takes its own."""

    def __init__(self, array: FloatArray) -> None:
        if array.ndim not in (1, 2):
            raise ValueError(
                f"policy: probabilities must have shape (n, K) or (n,); got {array.shape}."
            )
        self.array = array

    def __call__(self, rows: Rows) -> FloatArray:
        stop = rows.start + len(rows.action)
        if self.array.ndim == 2 and rows.actions is not None and rows.arms is None:
            raise ValueError(
                "policy: an array (n, K) does not say whose its probabilities are, and the "
                f"actions of {rows.source} have names. Pass a callable of Rows, whose columns "
                "follow rows.actions, or the probabilities of the logged actions, (n,)."
            )
        if stop > len(self.array):
            raise ValueError(
                f"policy: probabilities of {len(self.array)} rows were given, and the log goes on "
                f"to row {stop - 1}. Give those of every row."
            )
        return self.array[rows.start : stop]


def _from_column(rows: Rows) -> FloatArray:
    if rows.target is None:
        raise ValueError(
            f"{rows.source}: the target's column was not read. Say columns={{'target': its name}}."
        )
    return rows.target
