"""The common part of policies whose arms are matrices of low rank: both forms of arms, the rows
kept for the fit of Theta, and rounds that explore.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import LARGEST, are_counts
from heavytail._turns import alone
from heavytail._typing import FloatArray, IntArray
from heavytail._validate import Check, as_array, as_numbers, refuse_disguised
from heavytail.kernels.layout import (
    CONSTANT,
    ROUNDS,
    SCRATCH,
    THETA,
)
from heavytail.kernels.low_rank import (
    NU,
    REWARD,
    SHAPE,
    WIDTH,
    inside,
    turn,
)
from heavytail.kernels.low_rank import rows as fit_rows
from heavytail.policies.core.algorithm import Arrays, History
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.pool import Pool

__all__ = ["LARGEST_REWARD", "ROWS", "LowRankPolicy", "agrees", "pairs"]

S: Final = SHAPE
ROWS: Final = History(WIDTH, counter=S.KEPT)
FORMS: Final = ("matrices", "pairs")
LARGEST_REWARD: Final = 1e140  # over nu: its square can be summed


def pairs(left: ArrayLike, right: ArrayLike) -> FloatArray:
    """Arms that are pairs of feature vectors, one pair a row: u, and behind it v.

    ``left`` (d1,) or (n, d1) and ``right`` (d2,) or (n, d2); one vector is paired with all rows of
    the other.

    >>> import heavytail as ht
    >>> user, items = [1.0, 0.5], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    >>> ht.pairs(user, items)
    array([[1. , 0.5, 1. , 0. , 0. ],
           [1. , 0.5, 0. , 1. , 0. ]])
    """
    sides = []
    for name, value in (("left", left), ("right", right)):
        side = as_numbers(value, f"pairs: {name}", "numbers, one vector or one a row")
        if side.ndim not in (1, 2):
            raise ValueError(
                f"pairs: {name} must be one vector or one a row; got shape {side.shape}."
            )
        sides.append(side if side.ndim == 2 else side[None])
    counts = [len(side) for side in sides]
    if counts[0] != counts[1] and 1 not in counts:
        raise ValueError(
            f"pairs: left and right must have as many rows, or one of them one; got {counts[0]} "
            f"and {counts[1]}. Pair one user with all items at a time."
        )
    n = max(counts) if min(counts) else 0
    return np.hstack([np.broadcast_to(side, (n, side.shape[1])) for side in sides])


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether shape, rank and rows of a state from outside fit each other."""
    assert isinstance(policy, LowRankPolicy)
    own, s, shape, rows = policy._s, arrays["scalars"], arrays["shape"], arrays["history"]
    column = rows.shape[1] - WIDTH
    return bool(
        (shape[[S.D1, S.D2, S.PAIRS]] == own[[S.D1, S.D2, S.PAIRS]]).all()
        and are_counts(shape[[S.RANK]], min(policy.d1, policy.d2) + 1.0, 1.0)
        and (policy.finds_rank or shape[S.RANK] == own[S.RANK])
        and are_counts(shape[[S.KEPT, S.FITS]])
        and (np.abs(shape[[S.OFFSET, S.PENALTY]]) <= LARGEST).all()
        and shape[S.KEPT] <= min(s[ROUNDS], policy._state.most_kept)
        and (rows[:, column + NU] > 0.0).all()
        and (np.abs(rows[:, column + REWARD]) <= LARGEST_REWARD * rows[:, column + NU]).all()
    )


class LowRankPolicy(PackedPolicy):
    """A policy of arms X (d1, d2) that turns them into coordinates of its own.

    Its state s ends with SHAPE, and behind the common rows of M lie ``left``, ``right`` and
    ``estimate``: what :meth:`_low_rank_parts` asks for. ``whole`` says whether coordinates outside
    the subspace are kept too.
    """

    whole: ClassVar[bool] = False

    d1: int
    d2: int
    _pairs: bool

    @classmethod
    def taken(cls, problem: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
        """A problem of plain features is one of matrices with one column."""
        arguments = super().taken(problem, options)
        if "dim" in problem and "d1" not in options:
            arguments |= {"d1": problem["dim"], "d2": 1}
        return arguments

    def reward_problem(self, reward: float, scale: float | None = None) -> str:
        nu = self._nu if scale is None else scale
        most = LARGEST_REWARD * (nu if self.info.uses_scale else 1.0)
        if abs(reward) <= most:
            return ""
        return (
            f"{type(self).__name__}: reward must be at most {most:g} in size at this scale; got "
            f"{reward!r}. Change the unit of the reward."
        )

    def _start_low_rank(self, d1: int, d2: int, form: str, rank: int | None) -> tuple[Check, int]:
        """Check and keep the shape of an arm; the checker for the rest, and the rank, the root of
        the lesser side unless given.
        """
        check = Check(type(self))
        self.d1, self.d2 = check.count("d1", d1), check.count("d2", d2)
        self._pairs = check.choice("form", form, FORMS) == "pairs"
        most = min(self.d1, self.d2)
        rank = math.ceil(math.sqrt(most)) if rank is None else check.count("rank", rank)
        if rank > most:
            raise ValueError(
                f"{check.owner}.rank must be at most min(d1, d2) = {most}; got {rank}. "
                f"No matrix has more; TwinUCB({self.d1 * self.d2}) learns one of any rank."
            )
        return check, rank

    @property
    def _length(self) -> int:
        """Numbers of an arm."""
        return self.d1 + self.d2 if self._pairs else self.d1 * self.d2

    def _bounds(self, check: Check, given: float | None) -> tuple[float, float]:
        """Bounds on the norms of an arm's vector and matrix; of a pair ‖u‖ ‖v‖ <= ‖(u, v)‖² / 2."""
        if given is None:
            given = math.sqrt(2.0) if self._pairs else 1.0
        bound = check.number("arm_bound", given, above=0.0)
        return bound, bound**2 / 2.0 if self._pairs else bound

    def _smallest(self, check: Check, given: float | None, bound: float, rank: int) -> float:
        """D_r: the least singular value of Theta*, at most bound / sqrt(rank)."""
        most = bound / math.sqrt(rank)
        return most if given is None else check.number("smallest", given, above=0.0, most=most)

    def _low_rank_parts(self, room: int = 0) -> dict[str, Any]:
        """Rows, runs and room, for ``_allocate``."""
        d1, d2 = self.d1, self.d2
        return {
            "rows": {"left": d1, "right": d2, "estimate": d1},
            "room": fit_rows(d1, d2) + room,
            "runs": {"shape": len(SHAPE)},
        }

    def _write_shape(self, rank: int) -> None:
        s = self._s
        s[S.D1], s[S.D2], s[S.RANK], s[S.PAIRS] = self.d1, self.d2, rank, float(self._pairs)
        self._M[self._rows["left"], : self.d1] = np.eye(self.d1)
        self._M[self._rows["right"], : self.d2] = np.eye(self.d2)

    @property
    def rank(self) -> int:
        """r: as given, or as the last fit found it."""
        return int(self._s[S.RANK])

    @property
    def finds_rank(self) -> bool:
        """Tell whether the rank is found; otherwise it stays as it was given."""
        return False

    # --- both forms of arms

    def _flat(self, value: Any, axes: int, method: str) -> Any:
        """Matrices, row by row, as vectors; ``axes`` is how many axes are left then."""
        if isinstance(value, Pool):
            return value
        if not self._pairs and type(value) is np.ndarray and value.shape[axes - 1 :] == (self.dim,):
            return value
        where = type(self).__name__ + method
        if self._pairs and isinstance(value, tuple) and len(value) == 2:
            sides = [np.shape(as_array(side, where, "numbers"))[-1:] for side in value]
            if sides == [(self.d1,), (self.d2,)]:
                raise ValueError(f"{where}: got two sides. Lay them together by ht.pairs(u, v).")
        if isinstance(value, list | tuple):
            shape = np.shape(as_array(value, where, "numbers"))
        else:
            shape = tuple(getattr(value, "shape", ()))
        if not self._pairs and len(shape) == axes + 1 and shape[-2:] == (self.d1, self.d2):
            refuse_disguised(value, where, "numbers")  # a mask or a bool is not seen afterwards
            return np.reshape(np.asarray(value), (*shape[:-2], self.dim))
        if shape[-1:] == (self.dim,):
            return value
        hint = ""
        if self._pairs and shape[-2:] == (self.d1, self.d2):
            hint = 'For matrices build the policy with form="matrices".'
        elif not self._pairs and shape[-1:] == (self.d1 + self.d2,):
            hint = 'For pairs of vectors build the policy with form="pairs".'
        elif not self._pairs and shape == (self.d1, self.d2):
            hint = "One matrix is offered as X[None]."
        elif shape[-2:] == (self.d2, self.d1):
            hint = "Are d1 and d2 swapped?"
        if not hint:
            return value  # whatever is wrong with it is said where it is looked at
        raise ValueError(f"{where}: got shape {shape}. {hint}")

    def select(self, arms: ArrayLike | Pool) -> int:
        return super().select(self._flat(arms, 2, ".select"))

    def select_many(self, arms: ArrayLike) -> IntArray:
        return super().select_many(self._flat(arms, 3, ".select_many"))

    def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None:
        super().update(self._flat(x, 1, ".update"), reward, scale=scale)

    def update_many(
        self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
    ) -> None:
        super().update_many(self._flat(X, 2, ".update_many"), rewards, scale=scale)

    def _offered(self, arms: ArrayLike, method: str) -> FloatArray:
        return super()._offered(self._flat(arms, 2, method), method)

    def _asked_at(self, x: ArrayLike, method: str) -> FloatArray:
        return super()._asked_at(self._flat(x, 1, method), method)

    def _asked_rows(self, x: ArrayLike, level: float) -> tuple[FloatArray, bool]:
        many = np.ndim(x) == 3 or (self._pairs and np.ndim(x) == 2)
        many = many or (np.ndim(x) == 2 and np.shape(x) != (self.d1, self.d2))
        return super()._asked_rows(self._flat(x, 2 if many else 1, ".predict"), level)

    # --- what it answers

    def turned(self, X: FloatArray) -> FloatArray:
        """The coordinates of arms, and the constant feature where there is one."""
        M, coordinates = self._M, np.empty((len(X), self._M.shape[1]))
        for a in range(len(X)):
            M[SCRATCH, -1] = self._s[CONSTANT]
            turn(self._s, M, X, a, SCRATCH, self.whole)
            coordinates[a] = M[SCRATCH]
        return coordinates

    @property
    def _one_estimate(self) -> bool:
        return True

    @property
    def intercept(self) -> float:
        """The amount that the constant feature adds to every prediction; 0 without one."""
        return 0.0 if self.whole else float(self._M[THETA, -1] * self._s[CONSTANT])

    def _chances(self, sets: FloatArray) -> FloatArray:
        if self.explores:
            return np.full(sets.shape[:2], 1.0 / sets.shape[1])
        return np.eye(sets.shape[1])[self.select_many(sets)]

    @property
    def explores(self) -> bool:
        """Tell whether the next round plays any arm."""
        return bool(self._s[S.FITS] == 0.0)

    @property
    def _no_index(self) -> str:
        return "the next round explores, and plays any arm." if self.explores else ""

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        if self._s[S.FITS] == 0.0:  # nothing is known yet
            return np.full(len(X), math.inf)
        return super()._half_widths(X, level)

    def diagnostics(self) -> Diagnostics:
        report = super().diagnostics()
        if self._s[S.FITS] > 0.0:
            return report
        word = "exploring: any arm is played, and nothing is predicted, until the first fit."
        return replace(report, advice=(word, *report.advice))

    def _means(self, X: FloatArray) -> FloatArray:
        if self._s[S.FITS] == 0.0 and self.kept:
            rewards = self._H[: self.kept, self.dim + REWARD]
            return np.full(len(X), rewards.mean())
        return np.asarray(self.turned(X) @ self._M[THETA])

    def _widths(self, X: FloatArray) -> FloatArray:
        Z = self.turned(X)
        return np.asarray(np.sqrt(np.maximum(np.sum(Z @ self.inverse_gram * Z, axis=1), 0.0)))

    @property
    @alone
    def matrix(self) -> FloatArray:
        """The estimate of Theta, (d1, d2)."""
        M, d2, r, k = self._M, self.d2, int(self._s[S.RANK]), int(inside(self._s))
        U, V = M[self._rows["left"], : self.d1], M[self._rows["right"], :d2]
        z, shape = M[THETA], (self.d1 - r, d2 - r)
        matrix = U[:r].T @ z[: r * d2].reshape(r, d2)
        matrix += U[r:].T @ z[r * d2 : k].reshape(-1, r) @ V[:r]
        if self.whole:
            matrix += U[r:].T @ z[k:].reshape(shape) @ V[r:]
        return np.asarray(matrix)

    @property
    def theta(self) -> FloatArray:
        """The estimate of Theta, row by row; ``matrix`` is the same as a matrix."""
        return self.matrix.ravel()
