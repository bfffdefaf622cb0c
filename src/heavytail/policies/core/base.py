"""The policy that runs an algorithm: it checks, lays out the state and calls the kernels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from heavytail import _turns
from heavytail._invariants import LARGEST_COUNT, damaged
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
    check_count,
    check_number,
    check_reward,
    explain_arms,
)
from heavytail.kernels import index
from heavytail.kernels.layout import (
    ARM_LIMIT,
    CLIPPED,
    CONSTANT,
    INVERSE,
    RADIUS,
    ROUNDS,
    THETA,
    THETA_BOUND,
    slot_names,
)
from heavytail.policies.core import answers
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.answers import Explanation, Prediction
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.loops import around, enter, enter_history, select_rows, update_rows
from heavytail.policies.core.own import replaces
from heavytail.policies.core.policy import Policy
from heavytail.policies.core.pool import Kept, Pool
from heavytail.policies.core.refusals import checked_prior, refusal
from heavytail.policies.core.state import LATER, PackedState

__all__ = ["PackedPolicy", "Policy"]

LEAST_RIDGE = 1e-15  # of an arm's squared length: below it V^-1 is lost to rounding
UNBOUNDED = 1e300  # squared norm: where no bound is stated, anything that can be squared


class PackedPolicy(Policy):
    """A policy that plays an :class:`~heavytail.policies.core.algorithm.Algorithm`.

    A subclass names its ``algorithm`` on the class, or sets it on the instance where its modes have
    one each. Its constructor calls ``_start``, ``_allocate`` and then writes its slots. What
    differs beyond the kernels is a method: ``_means``, ``_widths`` and ``_half_widths`` of what it
    answers, ``_settle`` after a round, ``_begun`` after a start from an earlier estimate.
    """

    algorithm: Algorithm
    forgets: bool = False  # whether old rounds may come to count for less than new ones
    level: float = 0.95  # of an interval that is asked for without one

    _state: PackedState
    _s: FloatArray  # the two arrays of the state ...
    _M: FloatArray
    _rows: dict[str, slice | int]  # ... and where their parts lie
    _runs: dict[str, slice]
    _packed: State  # what the kernels take
    _enter: Callable[..., int]  # admits an observation and learns it
    _choose: Callable[..., int]
    _least_ridge: float  # below it V^-1 is lost to rounding
    _nu: float = 1.0
    _late: bool = False
    _grows: bool = False  # whether a round needs room, or leaves something to `_settle`
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
        most_kept: float = LARGEST_COUNT,
    ) -> None:
        """Fresh state for an estimate of ``size`` (dim unless given) coordinates: theta = 0,
        P = I / ridge. ``rows``, ``room``, ``runs``, ``spare`` and ``most_kept`` are those of
        :class:`heavytail.policies.core.state.PackedState`. A round weighs at most ``weight`` xx'.
        """
        check, algorithm = Check(type(self)), self.algorithm
        size = self.dim if size is None else size
        ridge = check.number("ridge", ridge, above=0.0)
        template = enter if algorithm.history is None else enter_history
        self._enter = around(template, update=algorithm.update)
        self._choose = algorithm.select
        self._grows = algorithm.history is not None
        self._wide = algorithm.keeps_scores and self.dim >= index.WIDE
        self._state = state = PackedState(
            check.owner,
            algorithm,
            self.dim,
            size,
            self._arguments,
            rows=rows or {},
            room=room,
            runs=runs or {},
            spare=spare,
            most_kept=most_kept,
        )
        self._s, self._M, self._packed = state.s, state.M, state.packed
        self._rows, self._runs = state.rows, state.runs
        each = np.arange(size)
        self._M[INVERSE + each, each] = 1.0 / ridge  # without the GIL
        self._s[THETA_BOUND] = check.number("theta_bound", theta_bound, above=0.0, infinite=True)
        self._s[ARM_LIMIT] = UNBOUNDED
        if arm_bound is not None:
            bound = check.number("arm_bound", arm_bound, above=0.0)
            self._s[ARM_LIMIT] = (bound * (1.0 + NORM_SLACK)) ** 2
        longest = 1.0 if arm_bound is None else bound
        self._least_ridge = 0.0 if algorithm.any_ridge else LEAST_RIDGE * weight * longest**2
        if ridge < self._least_ridge:
            raise ValueError(
                f"{check.owner}.ridge must be at least {self._least_ridge:g} for arms as long as "
                f"{longest:g}; got {ridge!r}. Below that rounding loses the inverse of the Gram "
                "matrix; raise ridge, or state a smaller arm_bound."
            )
        if self.tail is not None:
            self._nu = self.tail.scale

    def _draw_key(self) -> int:
        slot = self.algorithm.key_slot
        return self._key if slot < 0 else int(self._s[slot])

    def reseed(self, seed: int) -> None:
        if self.algorithm.key_slot < 0:
            super().reseed(seed)
        else:
            self._s[self.algorithm.key_slot] = Check(type(self)).seed(seed)
            self._s[self.algorithm.draws_slot] = 0.0

    @property
    def _prior_unit(self) -> float:
        """A covariance over this is P: 1 where rounds are weighed by 1 / sigma_t²."""
        return 1.0

    @property
    def plays_by_kernels(self) -> bool:
        """Tell whether engines may run the kernels: not for a ``select`` of a subclass's own."""
        kind, has_kernels = type(self), self.algorithm.has_kernels
        return has_kernels and not (replaces(kind, "select") or replaces(kind, "update"))

    @property
    def packed(self) -> State:
        """The arrays the kernels work on, in the order they take them."""
        return self._packed

    @property
    def kept(self) -> int:
        """Rows of the history; 0 where none is kept."""
        return self._state.kept

    @property
    def _H(self) -> FloatArray:
        """The history of a policy that has one, its unused rows too."""
        assert self._state.H is not None
        return self._state.H

    @alone
    def reserve(self, rounds: int) -> None:
        """Make room for ``rounds`` more rounds; a policy that keeps no history needs none."""
        self._reserve(check_count(f"{type(self).__name__}.reserve: rounds", rounds, least=0))

    def _reserve(self, rounds: int) -> None:
        """The same for whoever is at work: a row that a kernel writes meanwhile would be lost."""
        self._state.reserve(rounds)
        self._packed = self._state.packed

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
                    kept = self._last = Kept(matrix.shape, self.algorithm.scoring.rows)
                again = self.algorithm.scoring.select_again
                choice = again(self._s, self._M, matrix, *kept.room)
            else:
                choice = self._choose(*self._packed, matrix)
        finally:
            self._inside = outer or self._next_turn
        if choice < 0:
            raise explain_arms(matrix, self._s[ARM_LIMIT], type(self).__name__ + ".select")
        return choice

    def _select_from(self, pool: Pool) -> int:
        """Choose by the pool's kept scores, where the policy's updates let them be kept."""
        if not self.algorithm.keeps_scores:
            return self.select(pool._rows)
        scoring = self.algorithm.scoring
        while self._inside is not None and not self._ours():
            pass
        outer, self._inside = self._inside, _turns.AT_WORK
        try:
            kept = self._last
            if kept is None or kept.pool is not pool:
                as_arms(pool._rows, self.dim, type(self), ".select")
                kept = self._last = Kept(pool, scoring.rows)
            choice: int = scoring.select_kept(self._s, self._M, *kept.scored)
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
            if self._grows:
                self._reserve(1)  # before, so that an interrupt after the round does no harm
                if not self.algorithm.has_kernels:
                    before = (self._s.copy(), self._M.copy())
            code = self._enter(*self._packed, vector, float(reward), nu)
            if code < 0:
                if not late:
                    self._late = False  # the word was for a round that was not learned
                self._last = None  # a kernel that refuses may have lost the direction to follow
            elif self._grows:
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
            return np.array([self.select(arms) for arms in sets], dtype=np.int64)
        choices = np.empty(sets.shape[0], dtype=np.int64)
        before = self._s.copy()  # a policy that draws counts its draws there
        if self._wide:
            scoring = self.algorithm.scoring
            room = Kept(sets.shape[1:], scoring.rows).room
            bad = scoring.select_each(self._s, self._M, sets, *room, choices)
        else:
            bad = around(select_rows, select=self._choose)(self.packed, sets, choices)
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
        self._reserve(count)
        before = self.state_arrays()
        try:
            learn = around(update_rows, update=self.algorithm.update)
            bad = learn(self.packed, features, paid, nu)
            if bad >= 0:
                row = (features[bad], float(paid[bad]), float(nu[bad]))
                why = self._refusal(self._enter(*self.packed, *row), *row)
                raise ValueError(f"{where}: row {bad}: {why} No row was learned.")
            self._settle()
        except BaseException:  # an interrupt too: all rows are learned, or none
            self._restore(before)
            self._late = late
            raise

    def _undo(self, before: tuple[FloatArray, FloatArray] | None) -> bool:
        """Go back to the state before the round (s counts the rows of H); tell whether it can."""
        self._last = None  # kept scores may follow a direction that the round has overwritten
        if before is not None:
            self._s[:], self._M[:] = before
        return before is not None

    def _settle(self) -> None:
        """Do what remains after an update, if the kernels do not do all of it."""

    @alone
    def start_from(self, theta: ArrayLike, covariance: ArrayLike) -> None:
        """Begin from an earlier estimate instead of from nothing; before the first reward only.

        ``covariance`` (dim, dim) is that of the estimate's error, in the reward's unit squared; it
        takes the place of I / ridge. To begin from logged data, ``update_many`` them.
        """
        start, inverse = checked_prior(self, theta, covariance)
        self._M[THETA, : self.dim] = start
        self._M[INVERSE : INVERSE + self.dim, : self.dim] = inverse
        self._last = None  # scores that were kept are of the old start
        self._begun()

    def _begun(self) -> None:
        """Do what remains after a start from an earlier estimate."""

    def _warn_past_horizon(self, count: int) -> None:
        """Warn, once, before the first ``count`` rounds that go past the horizon."""
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
        """The reason why a kernel refused an observation, in a sentence."""
        return refusal(self, code, x, reward, scale)

    @property
    @alone
    def theta(self) -> FloatArray:
        return self._M[THETA, : self.dim].copy()

    @property
    def _one_estimate(self) -> bool:
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
        report = replace(super().diagnostics(), clipped_share=float(share))
        for add in self.algorithm.reports:
            report = add(self, report)
        return report

    @property
    def intercept(self) -> float:
        """The amount that the constant feature adds to every prediction; 0 without one."""
        return float(self._M[THETA, self.dim :].sum() * self._s[CONSTANT])

    @alone
    def width(self, x: ArrayLike) -> float:
        """‖x‖_{V_t^-1}, or ‖x‖_Q with ``radius="sharp"``; the half-width of the policy's confidence
        set at x is radius * width(x).
        """
        return float(self._widths(self._asked_at(x, ".width")[None])[0])

    @alone
    def predict(self, x: ArrayLike, *, level: float | None = None) -> Prediction:
        """The mean reward at ``x`` (dim,), or at each row of it (n, dim), and an interval for it.

        With ``radius="sharp"`` all intervals of a ``level`` hold at once, for every x and at all
        times, with that probability; it is 1 - delta unless given, and at most that. With
        ``radius="theory"``, and of the papers' policies, the interval is that of the confidence
        set, whatever ``level``. Where the radius is read off the data it is of ``level``, 0.95
        unless given, and no theorem's: the spread of the clipped residuals, and a bound on what the
        clip took; with a fixed clip all this is of a typical reward. It is infinite until the first
        rewards have set the unit. It is meant for the arm that is chosen: arms that were given up
        are those that looked worse than they are, and their intervals are too low.
        """
        level = self.level if level is None else level
        rows, many = self._asked_rows(x, level)
        return answers.predicted(self, rows, many, level)

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Explain the choice of ``select`` among ``arms`` by the parts of each index."""
        if self._no_index:
            raise ValueError(f"{type(self).__name__}.explain: {self._no_index}")
        return self.algorithm.explain(self, self._offered(arms, ".explain"))

    @property
    def _no_index(self) -> str:
        """The reason why the next choice is not by one index of the estimate; empty if it is."""
        ranked = self.algorithm.rank_one
        return "" if ranked else "this policy does not choose by one index of its estimate."

    def _score(self, x: FloatArray) -> float | None:
        if not self._one_estimate:
            return None
        mean = float(self._means(x[None])[0])
        return mean if math.isfinite(mean) else None

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        return self.algorithm.half_widths(self, X, level)

    def _widths(self, X: FloatArray) -> FloatArray:
        return answers.linear_widths(self, X)

    def _means(self, X: FloatArray) -> FloatArray:
        return answers.linear_means(self, X)

    def _offered(self, arms: ArrayLike, method: str) -> FloatArray:
        return answers.offered(self, arms, method)

    def _asked_at(self, x: ArrayLike, method: str) -> FloatArray:
        return answers.asked_at(self, x, method)

    def _asked_rows(self, x: ArrayLike, level: float) -> tuple[FloatArray, bool]:
        return answers.asked_rows(self, x, level)

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return {"scalars": slot_names(*self.algorithm.slots)}

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        return LATER.get(cls.__name__, ())

    def is_sound(self) -> bool:
        return self._state.is_sound()

    @alone
    def state_arrays(self) -> dict[str, FloatArray]:
        return {key: array.copy() for key, array in self._state.views().items()}

    @alone
    def restore(self, arrays: dict[str, FloatArray]) -> None:
        self._check_saved(arrays)
        self._restore(arrays)

    def _check_saved(self, arrays: Arrays, own: Arrays | None = None) -> None:
        """Refuse arrays that are no state of this policy, before a kernel sees them."""
        self._state.check(arrays, own)
        if not all(agree(self, arrays) for agree in self.algorithm.agree):
            raise damaged(type(self).__name__, "scalars", "its counts do not fit what they count")

    def _restore(self, arrays: Arrays) -> None:
        """Take over a state that is known to be sound."""
        if "history" in arrays:  # first: no count may name a row that is not there
            self._reserve(len(arrays["history"]) - self.kept + 1)
        self._state.take(arrays)
        self._last = None
