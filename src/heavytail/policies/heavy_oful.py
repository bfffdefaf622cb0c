"""HEAVY-OFUL: Huang, Zhong, Wang and Yang (NeurIPS 2023), Algorithm 1."""

from __future__ import annotations

import warnings
from typing import Final

from numpy.typing import ArrayLike

from heavytail._typing import Matrix, Vector
from heavytail._validate import check_choice, check_number
from heavytail.confidence import heavy_oful_constants, theory_radius
from heavytail.kernels import adaptive
from heavytail.kernels.adaptive import (
    ORDER,
    PRIOR_ROOT,
    RADIUS_SCALE,
    RIDGE,
    SIGMA,
    TAU_T,
    observe,
)
from heavytail.kernels.batch import MOST_DESCENTS, TAU, advance, descend
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import OK, RADIUS, ROUNDS, THETA, THETA_BOUND
from heavytail.kernels.lazy_huber import HEAP, fit
from heavytail.kernels.quadratic import extra_rows, first_extra
from heavytail.policies.adaptive import set_constants, start
from heavytail.policies.base import check_tail
from heavytail.policies.history import HistoryPolicy
from heavytail.policies.info import Info
from heavytail.policies.lbfgs import minimise
from heavytail.tails import MomentBound

__all__ = ["HeavyOFUL"]

SOLVERS: Final = ("lazy", "newton", "gd", "lbfgs")
LAZY: Final = 0
NEWTON: Final = 1
GD: Final = 2

SLOPE: Final = adaptive.SLOTS  # beta_t = SLOPE t^a + 3 sqrt(lambda) B
SOLVER: Final = adaptive.SLOTS + 1
ACCURACY: Final = adaptive.SLOTS + 2  # of theta, for the solvers that only come near it
STEPS: Final = adaptive.SLOTS + 3  # gradient steps of the last round
SLOTS: Final = adaptive.SLOTS + 4


@jit
def widen(M: Matrix, H: Matrix, row: int) -> float:
    """Add a row to Q = V, and return its largest row sum: a Lipschitz constant of the gradient."""
    size = M.shape[1]
    Q = first_extra(size)
    largest = 0.0
    for i in range(size):
        total = 0.0
        for j in range(size):
            M[Q + i, j] += H[row, i] * H[row, j]
            total += abs(M[Q + i, j])
        largest = max(largest, total)
    return largest


@jit
def current_radius(s: Vector) -> float:
    """beta_t, with radius_scale; sqrt(lambda) B before the first round."""
    t = s[ROUNDS]
    if t == 0.0:
        return s[RADIUS_SCALE] * s[PRIOR_ROOT]
    return s[RADIUS_SCALE] * theory_radius(t, s[ORDER], s[SLOPE], 3.0 * s[PRIOR_ROOT])


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: keep it, then the minimiser over everything kept.

    The solver "lbfgs" has no kernel: then this only keeps the round.
    """
    code = observe(s, M, H, x, reward, nu)
    if code != OK:
        return code
    count = int(s[ROUNDS])
    if s[SOLVER] == LAZY:
        fit(s, M, H, count, s[RIDGE], s[THETA_BOUND])
    elif s[SOLVER] == NEWTON:
        advance(M, H, count, THETA, s[RIDGE], s[THETA_BOUND], False)
    elif s[SOLVER] == GD:
        lipschitz = widen(M, H, count - 1)
        s[STEPS] = descend(M, H, count, THETA, s[RIDGE], s[THETA_BOUND], lipschitz, s[ACCURACY])
    s[RADIUS] = current_radius(s)
    return OK


class HeavyOFUL(HistoryPolicy):
    r"""Optimism with adaptive Huber regression, solved anew over the whole history every round.

    $$\hat\theta_t = \arg\min_{\|\theta\|\le B} \frac\lambda2\|\theta\|^2 + \sum_{s\le t}
      f_{\tau_s}\Big(\frac{r_s - x_s^\top\theta}{\sigma_s}\Big),\qquad \sigma_t = \max\Big(\nu_t,
      \sigma_{\min}, \frac{n_t}{c_0}, \frac{\sqrt{L B n_t}}{(2 c_1\kappa)^{1/4}}\Big)$$

    with f the Huber loss and n_t = ‖x_t‖_{V^-1}. With probability 1 - 3 delta the regret is
    Õ(d T^a sqrt(sum nu_t²) + d T^a), a = (2 - p)/(2p), at ``radius_scale=1`` (which, as with all of
    this family, does not learn at any horizon a person will run).

    Cost: O(t d) memory, whatever the solver. Time a round: "lazy" O(d³ + log t) amortised while few
    rewards lie near their threshold; "newton" one or two passes over the history; "lbfgs" some
    tens; "gd" as many as the condition number asks. All four find the same minimiser: "lazy" and
    "newton" exactly, "gd" and "lbfgs" within ``tolerance``. A speed-up over this policy means
    nothing without the solver's name.

    >>> import heavytail as ht
    >>> policy = ht.HeavyOFUL(2, horizon=1000, tail=ht.MomentBound(order=1.5, scale=1.0))
    >>> policy.update([1.0, 0.0], reward=1e12)
    >>> bool(abs(policy.theta).max() <= 1.0)
    True

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; its scale is nu_t of a round that does not say.
        theta_bound: B >= ‖theta*‖; ``math.inf`` leaves the ball out (and the theory), and the
            constants are then those of B = 1.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        solver: "lazy", "newton" (from the last round's estimate), "gd" (projected gradient descent
            from 0 every round, step 1/L) or "lbfgs" (SciPy's, from the last round's estimate; the
            only one that does not run compiled).
        tolerance: how near "gd" and "lbfgs" come to the minimiser, in ‖theta‖.
        ridge: lambda; d / B² unless given.
        delta: failure probability; 1/(8T) unless given.
        sigma_min: floor of sigma_t; 1/sqrt(T) unless given.
        radius_scale: multiplies the radius; 1 is the theory.
        threshold_scale: multiplies tau_0; 1 is the theory, ``math.inf`` weighted ridge regression.

    Note: the regulariser is lambda/2, as in the published code, so that the Hessian is V. The
    minimiser over the ball is found with its multiplier; projecting the free minimiser in the
    V-norm, as is usual, is another point. No solver ever starts at theta*, as a public script does.
    """

    name = "HEAVY-OFUL"
    info = Info(
        method="Huber",
        reference="Huang et al. 2023",
        regret="d T^((2-p)/2p) sqrt(sum nu_t^2)",
        cost="O(t log T)",
        storage="O(t)",
        moment="central",
        horizon=True,
        uses_scale=True,
    )
    update_kernel = staticmethod(update)

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        solver: str = "lazy",
        tolerance: float = 1e-9,
        ridge: float | None = None,
        delta: float | None = None,
        sigma_min: float | None = None,
        radius_scale: float = 0.001,
        threshold_scale: float = 1.0,
    ) -> None:
        self._start(dim, check_tail("HeavyOFUL", tail), horizon)
        self.solver = check_choice("HeavyOFUL.solver", solver, SOLVERS)
        problem = start(
            self,
            SLOTS,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            ridge=ridge,
            delta=delta,
            sigma_min=sigma_min,
            radius_scale=radius_scale,
        )
        constants, slope = heavy_oful_constants(self.dim, tail.order, horizon, **problem)
        set_constants(self, constants, tail.order, threshold_scale)
        s = self._s
        s[SLOPE] = slope
        s[SOLVER] = SOLVERS.index(self.solver)
        s[ACCURACY] = check_number("HeavyOFUL.tolerance", tolerance, above=0.0)
        s[RADIUS] = current_radius(s)
        lazy = self.solver == "lazy"
        sums = extra_rows(self.dim) if self.has_kernels else 0
        self._allocate_history(self.dim + (HEAP if lazy else TAU) + 1, sums=sums)
        self.pointers = (HEAP,) if lazy else ()

    @property
    def has_kernels(self) -> bool:
        return self.solver != "lbfgs"

    def update(self, x: ArrayLike, reward: float, *, scale: float | None = None) -> None:
        super().update(x, reward, scale=scale)
        self._finish()

    def update_many(
        self, X: ArrayLike, rewards: ArrayLike, *, scale: ArrayLike | None = None
    ) -> None:
        super().update_many(X, rewards, scale=scale)
        self._finish()

    def _finish(self) -> None:
        """The fit, where no kernel does it, and a word where one gave up."""
        s = self._s
        if self.solver == "lbfgs":
            kept = self._H[: self.rounds]
            self._M[THETA] = minimise(kept, self._M[THETA], s[RIDGE], s[THETA_BOUND], s[ACCURACY])
        if s[STEPS] >= MOST_DESCENTS:
            warnings.warn(
                f"HeavyOFUL: gradient descent stopped after {MOST_DESCENTS} steps, short of "
                f"tolerance={s[ACCURACY]}. Use another solver, or a larger tolerance.",
                stacklevel=3,
            )

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[TAU_T])
