"""What is common to the policies whose state is packed arrays and whose mathematics is kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from heavytail import _turns
from heavytail._storage import afford
from heavytail._turns import alone
from heavytail._typing import FloatArray, IntArray, State
from heavytail._validate import (
    GREATEST,
    LEAST,
    NORM_SLACK,
    Check,
    as_arms,
    as_rows,
    as_vector,
    check_number,
    check_reward,
    explain_arms,
    vector_problem,
)
from heavytail.kernels import index
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_REWARD,
    BAD_SCALE,
    BAD_X,
    CLIPPED,
    COMMON,
    INVERSE,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    THETA,
    THETA_BOUND,
    behind,
)
from heavytail.kernels.layout import rows as common_rows
from heavytail.policies.core.answers import Answering
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.loops import around, enter, select_rows, update_rows
from heavytail.policies.core.own import replaces
from heavytail.policies.core.policy import Policy
from heavytail.policies.core.pool import Kept, Pool
from heavytail.policies.core.remembering import Remembering

__all__ = ["PackedPolicy", "Policy"]

LEAST_RIDGE = 1e-15  # of an arm's squared length: below it V^-1 is lost to rounding
UNBOUNDED = 1e300  # squared norm: where no bound is stated, anything that can be squared
SYMMETRY = 1e-8  # of the largest entry of a covariance: more than this apart is not rounding


class PackedPolicy(Answering, Remembering, Policy):
    """A policy whose state is (s, M), laid out as in :mod:`heavytail.kernels.layout`, and whose
    round is kernels.

    A subclass names its ``slots``, sets ``update_kernel`` (and ``select_kernel`` where it does not
    choose by the linear index, with a ``scoring`` of its own where scores can be kept), on the
    class or, where its modes differ, on the instance, and calls
    ``_allocate``. Every engine runs the very same kernels. ``rank_one`` promises that every update
    leaves GAIN, STEP, PROJECTED and DIRECTION as the layout says, so that the scores of a pool of
    arms can be kept instead of formed anew. ``key_slot`` is the slot of s that holds the key of the
    policy's own randomness; -1 where it has none.
    """

    slots: tuple[Any, ...] = (COMMON,)
    select_kernel: Callable[..., int] = staticmethod(index.select)
    update_kernel: Callable[..., int]
    scoring: index.Scoring = index.LINEAR
    rank_one: ClassVar[bool] = False
    takes_prior: bool = False
    projects: bool = True  # whether theta is kept in the ball of THETA_BOUND
    key_slot: ClassVar[int] = -1
    any_ridge: ClassVar[bool] = False  # whether sigma_t keeps x x' / sigma_t² small beside V
    grows: ClassVar[bool] = False  # whether a round needs room, or leaves something to `_settle`

    _s: FloatArray
    _M: FloatArray
    _least_ridge: float  # below it V^-1 is lost to rounding
    _packed: State  # both, and what else the kernels take
    _rows: dict[str, slice | int]  # of M, by the name they are saved under
    _runs: dict[str, slice]  # of s behind the named slots, likewise
    _enter: Callable[..., int]  # admits an observation and learns it
    _nu: float = 1.0
    _late: bool = False
    keeps_scores: bool = False  # whether scores of arms can be kept over an update
    _wide: bool = False  # whether plain arms are worth laying out and keeping
    _last: Kept | None = None  # of the arms chosen from last, for speed; no part of the state

    def _allocate(
        self,
        *,
        ridge: float,
        arm_bound: float | None,
        theta_bound: float,
        size: int | None = None,
        rows: Mapping[str, int | None] | None = None,
        room: int = 0,
        runs: Mapping[str, int] | None = None,
        spare: int = 0,
        weight: float = 1.0,
    ) -> None:
        """Fresh state for an estimate of ``size`` (dim unless given) coordinates: theta = 0,
        P = I / ridge. Kernels of the instance's own are set before.

        Behind the common rows of M follow the named ``rows`` (so many; None is one, as a vector)
        and ``room`` to work in, as rows named "" are; behind the named slots of s the named
        ``runs`` and ``spare`` numbers to work with. What is named is saved. A round weighs at most
        ``weight`` xx'.
        """
        check = Check(type(self))
        size = self.dim if size is None else size
        ridge = check.number("ridge", ridge, above=0.0)
        self._rows = {"theta": THETA, "inverse": slice(INVERSE, INVERSE + size)}
        row = common_rows(size)
        for name, count in (rows or {}).items():
            if count != 0 and name:
                self._rows[name] = row if count is None else slice(row, row + count)
            row += 1 if count is None else count
        self._runs = {}
        slot = behind(self.slots[-1])
        for name, length in (runs or {}).items():
            self._runs[name] = slice(slot, slot + length)
            slot += length
        self._enter = around(enter, update=self.update_kernel)
        self.keeps_scores = self.rank_one and self.select_kernel is self.scoring.select
        self._wide = self.keeps_scores and self.dim >= index.WIDE
        afford(type(self).__name__, slot + spare + (row + room) * size, self._arguments)
        self._s = np.zeros(slot + spare)
        self._M = np.zeros((row + room, size))
        self._packed = (self._s, self._M)
        each = np.arange(size)
        self._M[INVERSE + each, each] = 1.0 / ridge  # without the GIL
        self._s[THETA_BOUND] = check.number("theta_bound", theta_bound, above=0.0, infinite=True)
        self._s[ARM_LIMIT] = UNBOUNDED
        if arm_bound is not None:
            bound = check.number("arm_bound", arm_bound, above=0.0)
            self._s[ARM_LIMIT] = (bound * (1.0 + NORM_SLACK)) ** 2
        longest = 1.0 if arm_bound is None else bound
        self._least_ridge = 0.0 if self.any_ridge else LEAST_RIDGE * weight * longest**2
        if ridge < self._least_ridge:
            raise ValueError(
                f"{check.owner}.ridge must be at least {self._least_ridge:g} for arms as long as "
                f"{longest:g}; got {ridge!r}. Below that rounding loses the inverse of the Gram "
                "matrix; raise ridge, or state a smaller arm_bound."
            )
        if self.tail is not None:
            self._nu = self.tail.scale

    def _draw_key(self) -> int:
        return self._key if self.key_slot < 0 else int(self._s[self.key_slot])

    @property
    def prior_unit(self) -> float:
        """A covariance over this is P: 1 where rounds are weighed by 1 / sigma_t²."""
        return 1.0

    @property
    def has_kernels(self) -> bool:
        """Tell whether the kernels do the whole round."""
        return True

    @property
    def plays_by_kernels(self) -> bool:
        """Tell whether engines may run the kernels in place of ``select`` and ``update``: a
        subclass that has one of these of its own is played by that.
        """
        kind = type(self)
        return self.has_kernels and not (replaces(kind, "select") or replaces(kind, "update"))

    @property
    def forgets(self) -> bool:
        """Tell whether old rounds may come to count for less than new ones."""
        return False

    @property
    def packed(self) -> State:
        """The arrays the kernels work on, in the order they take them."""
        return self._packed

    def reserve(self, rounds: int) -> None:
        """Make room for ``rounds`` more rounds; a policy that keeps no history needs none."""

    def select(self, arms: ArrayLike | Pool) -> int:
        if type(arms) is Pool:
            return self._select_from(arms)
        matrix = as_arms(arms, self.dim, type(self), ".select")
        choice: int
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        try:
            if self._wide:
                kept = self._last
                if kept is None or not kept.fits(matrix):
                    kept = self._last = Kept(matrix.shape, self.scoring.rows)
                choice = self.scoring.select_again(self._s, self._M, matrix, *kept.room)
            else:
                choice = self.select_kernel(*self._packed, matrix)
        finally:
            self._inside = outer or self._next_turn
        if choice < 0:
            raise explain_arms(matrix, self._s[ARM_LIMIT], type(self).__name__ + ".select")
        return choice

    def _select_from(self, pool: Pool) -> int:
        """Choose by the pool's kept scores, where the policy's updates let them be kept."""
        if not self.keeps_scores:
            return self.select(pool._rows)
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        try:
            kept = self._last
            if kept is None or kept.pool is not pool:
                as_arms(pool._rows, self.dim, type(self), ".select")
                kept = self._last = Kept(pool, self.scoring.rows)
            choice: int = self.scoring.select_kept(self._s, self._M, *kept.scored)
        finally:
            self._inside = outer or self._next_turn
        if choice < 0:
            raise explain_arms(pool._rows, self._s[ARM_LIMIT], type(self).__name__ + ".select")
        return choice

    def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None:
        vector = as_vector(x, self.dim, type(self), ".update")
        if not isinstance(reward, float):
            reward = check_reward(f"{type(self).__name__}.update: reward", reward)
        if scale is None:
            nu = self._nu
        elif isinstance(scale, float):
            nu = scale
        else:
            name = f"{type(self).__name__}.update: scale"
            nu = check_number(name, scale, least=LEAST, most=GREATEST)
        late = True  # or there is no word to say
        if self.horizon is not None and not self._late:
            late = False
            self._warn_past_horizon(1)  # first: where a warning is an error nothing may be learned
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        before = None
        try:
            if self.grows:
                self.reserve(1)  # before, so that an interrupt after the round does no harm
                before = None if self.has_kernels else (self._s.copy(), self._M.copy())
            code = self._enter(*self._packed, vector, float(reward), nu)
            if code < 0:
                if not late:
                    self._late = False  # the word was for a round that was not learned
                self._last = None  # a kernel that refuses may have lost the direction to follow
            elif self.grows:
                self._settle()
        except BaseException:  # an interrupt: what no kernel does alone is as before
            if self._undo(before):
                self._late = self._late and late
            raise
        finally:
            self._inside = outer or self._next_turn
        if code < 0:
            why = self._refusal(code, vector, float(reward), nu)
            raise ValueError(f"{type(self).__name__}.update: {why} Nothing was learned.")

    @alone
    def select_many(self, arms: ArrayLike) -> IntArray:
        """One choice for each of many sets of arms, (b, n, dim), all from what is known now."""
        where = f"{type(self).__name__}.select_many"
        sets = as_rows(arms, (None, None, self.dim), f"{where}: arms")
        if replaces(type(self), "select"):
            return np.array([self.select(one) for one in sets], dtype=np.int64)
        choices = np.empty(sets.shape[0], dtype=np.int64)
        before = self._s.copy()  # a policy that draws counts its draws there
        if self._wide:
            room = Kept(sets.shape[1:], self.scoring.rows).room
            bad = self.scoring.select_each(self._s, self._M, sets, *room, choices)
        else:
            bad = around(select_rows, select=self.select_kernel)(self.packed, sets, choices)
        if bad >= 0:
            self._s[:] = before
            raise explain_arms(sets[bad], self._s[ARM_LIMIT], f"{where}: set {bad}")
        return choices

    @alone
    def update_many(
        self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
    ) -> None:
        if replaces(type(self), "update"):
            return super().update_many(X, rewards, scale=scale)
        features, paid = self._rows_and_rewards(X, rewards)
        count = len(paid)
        where = f"{type(self).__name__}.update_many"
        if scale is None:
            scale = np.full(count, self._nu)
        elif not isinstance(scale, list | tuple) and np.ndim(scale) == 0:
            nu_all = check_number(f"{where}: scale", scale, least=LEAST, most=GREATEST)
            scale = np.full(count, nu_all)
        nu = as_rows(scale, (count,), f"{where}: scale").copy()
        late = self._late
        self._warn_past_horizon(count)
        self.reserve(count)
        before = self.state_arrays()
        try:
            bad = around(update_rows, update=self.update_kernel)(self.packed, features, paid, nu)
            if bad >= 0:
                row = (features[bad], float(paid[bad]), float(nu[bad]))
                why = self._refusal(self._enter(*self.packed, *row), *row)
                raise ValueError(f"{where}: row {bad}: {why} No row was learned.")
            self._settle()
        except BaseException:  # an interrupt too: all rows are learned, or none
            self._take(before)
            self._late = late
            raise

    def _undo(self, before: tuple[FloatArray, FloatArray] | None) -> bool:
        """Back to what was before the round, and whether that was kept.

        Rows of a history are counted in s, so that a row more is none when s is as before. Scores
        that were kept may follow a direction that the round has overwritten.
        """
        self._last = None
        if before is not None:
            self._s[:], self._M[:] = before
        return before is not None

    def _settle(self) -> None:
        """What is left to do after an update, where the kernels do not do the whole of it."""

    @alone
    def start_from(self, theta: ArrayLike, covariance: ArrayLike) -> None:
        """Begin from an earlier estimate instead of from nothing; before the first reward only.

        ``covariance`` (dim, dim) is that of the estimate's error, in the reward's unit squared; it
        takes the place of I / ridge. To begin from logged data, ``update_many`` them.
        """
        where = f"{type(self).__name__}.start_from"
        if not self.takes_prior:
            raise ValueError(f"{where}: this policy has no single Gram matrix to begin from.")
        if self.rounds:
            raise ValueError(
                f"{where} must come before the first reward; {self.rounds} are learned."
            )
        d = self.dim
        start = as_rows(theta, (d,), f"{where}: theta")
        C = as_rows(covariance, (d, d), f"{where}: covariance")
        if not (np.all(np.abs(start) <= GREATEST) and np.all(np.abs(C) <= GREATEST)):
            raise ValueError(
                f"{where}: theta and covariance must be at most {GREATEST:g} in size; change the "
                "unit of the reward."
            )
        skew = np.max(np.abs(C - C.T)) > SYMMETRY * np.max(np.abs(C))
        variances = np.linalg.eigvalsh(C)
        if skew or variances[0] <= 0.0:
            raise ValueError(f"{where}: covariance must be symmetric with positive eigenvalues.")
        widest = min(GREATEST, self.prior_unit / max(self._least_ridge, LEAST))
        if not (LEAST <= variances[0] and variances[-1] <= widest):
            raise ValueError(
                f"{where}: covariance must have eigenvalues between {LEAST:g} and {widest:g}; got "
                f"{variances[0]:g} to {variances[-1]:g}. Change the unit of the reward."
            )
        norm, bound = float(np.linalg.norm(start)), self._s[THETA_BOUND]
        if norm > bound:
            raise ValueError(
                f"{where}: theta has norm {norm:.6g}, above theta_bound {bound:.6g}. "
                "Raise theta_bound."
            )
        self._M[THETA, :d] = start
        self._M[INVERSE : INVERSE + d, :d] = (C + C.T) / (2.0 * self.prior_unit)
        self._last = None  # scores that were kept are of the old start
        self._begun()

    def _begun(self) -> None:
        """What is left to do after a start from an earlier estimate."""

    def _warn_past_horizon(self, count: int) -> None:
        """A word, once, before the first ``count`` rounds that go past the horizon."""
        if self.horizon is None or self._late:
            return
        rounds = self.rounds + count
        if rounds > self.horizon:
            warnings.warn(
                f"{type(self).__name__}: round {rounds} is past horizon={self.horizon}. "
                "It goes on learning, but what its constants promise ended there.",
                stacklevel=3,
            )
            self._late = True

    def _refusal(self, code: int, x: FloatArray, reward: float, scale: float) -> str:
        """Why a kernel refused an observation, in a sentence."""
        if code == BAD_X:
            problem = vector_problem(x, self._s[ARM_LIMIT])
            return f"x {problem or 'changed while it was read.'}"
        if code == BAD_REWARD:
            return f"reward must be finite; got {reward!r}."
        if code == BAD_SCALE:
            return f"scale must lie between {LEAST:g} and {GREATEST:g}; got {scale!r}."
        assert code == OVERFLOW
        return (
            f"reward {reward!r} at scale {scale!r} would take the estimate out of the "
            "floating-point range; change the unit of the reward."
        )

    @property
    @alone
    def theta(self) -> FloatArray:
        return self._M[THETA, : self.dim].copy()

    @property
    def one_estimate(self) -> bool:
        """Tell whether the row THETA of M is all that predictions are made of."""
        return type(self).theta is PackedPolicy.theta

    @property
    def radius(self) -> float:
        return float(self._s[RADIUS])

    @property
    def rounds(self) -> int:
        return int(self._s[ROUNDS])

    @property
    @alone
    def inverse_gram(self) -> FloatArray:
        """P = V_t^-1, a copy; with an intercept, the last row and column are of the constant."""
        size = self._M.shape[1]
        return self._M[INVERSE : INVERSE + size].copy()

    def diagnostics(self) -> Diagnostics:
        share = self._s[CLIPPED] / max(self._s[ROUNDS], 1.0)
        return replace(super().diagnostics(), clipped_share=float(share))
