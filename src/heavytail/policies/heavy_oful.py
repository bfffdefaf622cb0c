"""HEAVY-OFUL: Huang, Zhong, Wang and Yang (NeurIPS 2023), Algorithm 1."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from heavytail._typing import Matrix, Vector
from heavytail.confidence import theory_radius
from heavytail.kernels.huber import time_exponent
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    OK,
    RADIUS,
    ROUNDS,
    THETA,
    THETA_BOUND,
    Count,
    Fixed,
    Size,
    numbered,
)
from heavytail.kernels.m_estimate import (
    MOST_DESCENTS,
    TARGET,
    TAU,
    advance,
    descend,
    newton,
    residual,
)
from heavytail.kernels.quadratic import LINEAR, NEXT, first_extra, minimise_quadratic
from heavytail.policies._lbfgs import minimise
from heavytail.policies.core.adaptive import ADAPTIVE, AdaptiveHuber, observe, set_constants, start
from heavytail.policies.core.algorithm import Algorithm, Arrays, History, select_past_history
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["HeavyOFUL"]


class Slots(NamedTuple):
    """HeavyOFUL's own numbers."""

    PATH: Size  # lazy: the length of theta's path since the heap was built
    SLOPE: Fixed  # beta_t = SLOPE t^a + 3 sqrt(lambda) B
    ACCURACY: Fixed  # of theta, for the solvers that only come near it
    STEPS: Count  # gradient steps of the last round


S: Final = numbered(Slots, after=ADAPTIVE)


def heavy_oful_constants(
    dim: int,
    order: float,
    horizon: int,
    *,
    ridge: float,
    theta_bound: float,
    arm_bound: float,
    sigma_min: float,
    delta: float,
) -> tuple[AdaptiveHuber, float]:
    """The constants of HEAVY-OFUL, Huang et al. (NeurIPS 2023), Theorem 3.1, and the slope of its
    radius: beta_t = slope t^a + 3 sqrt(lambda) B for t >= 1, a = (2-p)/(2p).

    kappa has no alpha, unlike Lemma 1 of Hvt-UCB. The factor sqrt(L B) of the second lower bound is
    1 in the published code, where L = B = 1.
    """
    T, a = float(horizon), time_exponent(order)
    kappa = dim * math.log1p(T * arm_bound**2 / (dim * ridge * sigma_min**2))
    ell = math.log(2.0 * T**2 / delta)
    log_term = math.log(3.0 * T) ** a
    c_1 = log_term**2 / (48.0 * ell ** (2.0 / order))
    constants = AdaptiveHuber(
        kappa=kappa,
        ell=ell,
        tau_0=math.sqrt(2.0 * kappa) * log_term / ell ** (1.0 / order),
        steep=math.sqrt(23.0 * ell),
        root=math.sqrt(arm_bound * theta_bound) / (2.0 * c_1 * kappa) ** 0.25,
    )
    return constants, 24.0 * math.sqrt(2.0 * kappa) * log_term * ell ** ((order - 1.0) / order)


# --- The lazy solver: the exact Huber fit of every round, amortised.
#
# Given every row's region (inside ±tau, above, below) the loss is one quadratic, theta'Q theta / 2
# - c'theta, whose sums are kept. A row with residual z changes region only after theta has moved by
# ||z| - tau| / ‖a‖. So each row carries the length of theta's path at which it must be looked at
# again, in a heap; a round pops the few rows that are due. When no due row has changed region, the
# quadratic's minimiser over the ball is the minimiser of the loss, exactly.
#
# The heap lies in H: position i of it names a row in column HEAP, and a row's due length stands in
# its column KEY.

# Columns of H, counted from behind the features.
REGION: Final = 2  # -1 below, 0 inside, 1 above
KEY: Final = 3
HEAP: Final = 4

MOST_STEPS: Final = 30  # full steps before the safeguarded iteration takes over


@jit
def shift(M: Matrix, H: Matrix, row: int, region: float, sign: float) -> None:
    """Add (sign 1) or take away (-1) what a row in ``region`` gives to the sums Q and c."""
    size = M.shape[1]
    Q = first_extra(size)
    inside = region == 0.0
    pull = H[row, size + TARGET] if inside else region * H[row, size + TAU]
    for i in range(size):
        scaled = sign * H[row, i]
        M[Q + size + LINEAR, i] += pull * scaled
        if inside:
            for j in range(i + 1):
                M[Q + i, j] += scaled * H[row, j]


@jit
def look(s: Vector, M: Matrix, H: Matrix, row: int) -> float:
    """A row's region at theta; its KEY is set to the path length at which to look again, infinite
    where no path is as long: a row of no length, or a reward near the largest float.
    """
    size = M.shape[1]
    z = residual(M, H, row, THETA)
    tau = H[row, size + TAU]
    squared = 0.0
    for i in range(size):
        squared += H[row, i] * H[row, i]
    margin = abs(abs(z) - tau)
    H[row, size + KEY] = s[S.PATH] + margin / math.sqrt(squared) if squared > 0.0 else math.inf
    if abs(z) <= tau:
        return 0.0
    return math.copysign(1.0, z)


@jit
def sink(H: Matrix, count: int, start: int, size: int) -> None:
    """Let the row at a heap position sink to its place."""
    key = size + KEY
    heap = size + HEAP
    row = int(H[start, heap])
    here = start
    while True:
        child = 2 * here + 1
        if child >= count:
            break
        other = child + 1
        if other < count and H[int(H[other, heap]), key] < H[int(H[child, heap]), key]:
            child = other
        if not (H[int(H[child, heap]), key] < H[row, key]):
            break
        H[here, heap] = H[child, heap]
        here = child
    H[here, heap] = row


@jit
def rise(H: Matrix, start: int, size: int) -> None:
    """Let the row at a heap position rise to its place."""
    key = size + KEY
    heap = size + HEAP
    row = int(H[start, heap])
    here = start
    while here > 0:
        parent = (here - 1) // 2
        if not (H[row, key] < H[int(H[parent, heap]), key]):
            break
        H[here, heap] = H[parent, heap]
        here = parent
    H[here, heap] = row


@jit
def build(s: Vector, M: Matrix, H: Matrix, count: int, ridge: float) -> None:
    """Sums, regions and heap from the rows alone. O(count d²)."""
    size = M.shape[1]
    Q = first_extra(size)
    for i in range(size):
        for j in range(i):
            M[Q + i, j] = 0.0
        M[Q + i, i] = ridge
        M[Q + size + LINEAR, i] = 0.0
    s[S.PATH] = 0.0
    for row in range(count):
        region = look(s, M, H, row)
        H[row, size + REGION] = region
        H[row, size + HEAP] = row
        shift(M, H, row, region, 1.0)
    for position in range(count // 2 - 1, -1, -1):
        sink(H, count, position, size)


@jit
def follow(s: Vector, M: Matrix, H: Matrix, count: int) -> int:
    """Look again at every row that is due; return how many changed region."""
    size = M.shape[1]
    changed = 0
    while H[int(H[0, size + HEAP]), size + KEY] < s[S.PATH]:
        row = int(H[0, size + HEAP])
        region = look(s, M, H, row)
        before = H[row, size + REGION]
        if region != before:
            shift(M, H, row, before, -1.0)
            shift(M, H, row, region, 1.0)
            H[row, size + REGION] = region
            changed += 1
        sink(H, count, 0, size)
    return changed


@jit
def fit(s: Vector, M: Matrix, H: Matrix, count: int, ridge: float, bound: float) -> None:
    """Move THETA to the minimiser over all ``count`` rows, the last of them new.

    O(d³ + log t) amortised while few rows are near their threshold; the sums are made anew, against
    rounding, whenever the rows have doubled.
    """
    size = M.shape[1]
    new = count - 1
    if count & new == 0:
        build(s, M, H, count, ridge)
    else:
        region = look(s, M, H, new)
        H[new, size + REGION] = region
        H[new, size + HEAP] = new
        shift(M, H, new, region, 1.0)
        rise(H, new, size)
    following = first_extra(size) + size + NEXT
    for _ in range(MOST_STEPS):
        minimise_quadratic(M, ridge, bound)
        moved = 0.0
        for i in range(size):
            step = M[following, i] - M[THETA, i]
            moved += step * step
            M[THETA, i] = M[following, i]
        s[S.PATH] += math.sqrt(moved)
        if follow(s, M, H, count) == 0:
            return
    newton(M, H, count, THETA, ridge, bound, 0.0, False, 0, -1)
    build(s, M, H, count, ridge)


# --- The other solvers, and a round of each.


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
        return s[ADAPTIVE.RADIUS_SCALE] * s[ADAPTIVE.PRIOR_ROOT]
    return s[ADAPTIVE.RADIUS_SCALE] * theory_radius(
        t, s[ADAPTIVE.ORDER], s[S.SLOPE], 3.0 * s[ADAPTIVE.PRIOR_ROOT]
    )


@jit
def update_lazy(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the round, then the lazy fit over everything kept."""
    code = observe(s, M, H, x, reward, nu)
    if code == OK:
        fit(s, M, H, int(s[ROUNDS]), s[ADAPTIVE.RIDGE], s[THETA_BOUND])
        s[RADIUS] = current_radius(s)
    return code


@jit
def update_newton(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the round, then Newton's method from the last estimate."""
    code = observe(s, M, H, x, reward, nu)
    if code == OK:
        advance(M, H, int(s[ROUNDS]), THETA, s[ADAPTIVE.RIDGE], s[THETA_BOUND], False)
        s[RADIUS] = current_radius(s)
    return code


@jit
def update_gd(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the round, then projected gradient descent from 0."""
    code = observe(s, M, H, x, reward, nu)
    if code == OK:
        count = int(s[ROUNDS])
        lipschitz = widen(M, H, count - 1)
        s[S.STEPS] = descend(
            M, H, count, THETA, s[ADAPTIVE.RIDGE], s[THETA_BOUND], lipschitz, s[S.ACCURACY]
        )
        s[RADIUS] = current_radius(s)
    return code


@jit
def update_kept(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the round: L-BFGS has no kernel, and the policy fits after it."""
    code = observe(s, M, H, x, reward, nu)
    if code == OK:
        s[RADIUS] = current_radius(s)
    return code


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the heap of a state from outside names every row once."""
    heap = arrays["history"][:, policy.dim + HEAP]
    return bool(np.array_equal(np.sort(heap), np.arange(len(heap))))


NEWTON: Final = Algorithm(
    update=update_newton,
    select=select_past_history,
    slots=(COMMON, ADAPTIVE, S),
    history=History(TAU + 1),
    any_ridge=True,
)
SOLVERS: Final = {
    "lazy": replace(
        NEWTON, update=update_lazy, history=History(HEAP + 1, pointers=(HEAP,)), agree=(agrees,)
    ),
    "newton": NEWTON,
    "gd": replace(NEWTON, update=update_gd),
    "lbfgs": replace(NEWTON, update=update_kept, has_kernels=False),
}


class HeavyOFUL(PackedPolicy):
    r"""Optimism with adaptive Huber regression, solved anew over the whole history every round.

    $$\hat\theta_t = \arg\min_{\|\theta\|\le B} \frac\lambda2\|\theta\|^2 + \sum_{s\le t}
      f_{\tau_s}\Big(\frac{r_s - x_s^\top\theta}{\sigma_s}\Big),\qquad \sigma_t = \max\Big(\nu_t,
      \sigma_{\min}, \frac{n_t}{c_0}, \frac{\sqrt{L B n_t}}{(2 c_1\kappa)^{1/4}}\Big)$$

    with f the Huber loss and n_t = ‖x_t‖_{V^-1}. With probability 1 - 3 delta the regret is
    Õ(d T^a sqrt(sum nu_t²) + d T^a), a = (2 - p)/(2p), at ``radius_scale=1`` (which, as with all of
    this family, does not learn at any horizon a person will run).

    Cost: O(t d) memory, whatever the solver. Time per round: "lazy" O(d³ + log t), amortised, while
    few rewards lie near their threshold; "newton" one or two passes over the history; "lbfgs" some
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
        sources=(
            r"*Certain*: the estimator, both lower bounds of $\sigma_t$ and the radius, from the "
            "paper as the Hvt-UCB paper and the published script restate them. *Re-derived*: the "
            "factor LB in the second lower bound, which the script omits because its L = B = 1. "
            r"*Decided*: the regulariser is $\lambda/2$, so that the Hessian is V."
        ),
    )

    algorithm = SOLVERS["lazy"]

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
        check = self._start(dim, tail, horizon)
        self.solver = check.choice("solver", solver, tuple(SOLVERS))
        self.algorithm = SOLVERS[self.solver]
        problem = start(
            self,
            check,
            theta_bound=theta_bound,
            arm_bound=arm_bound,
            ridge=ridge,
            delta=delta,
            sigma_min=sigma_min,
            radius_scale=radius_scale,
        )
        constants, slope = heavy_oful_constants(self.dim, tail.order, horizon, **problem)
        set_constants(self, check, constants, tail.order, threshold_scale)
        s = self._s
        s[S.SLOPE] = slope
        s[S.ACCURACY] = check.number("tolerance", tolerance, above=0.0)
        s[RADIUS] = current_radius(s)

    def _settle(self) -> None:
        """The fit, where no kernel does it, and a word where one gave up."""
        super()._settle()
        s = self._s
        if self.solver == "lbfgs":
            self._M[THETA] = minimise(
                self._H[: self.rounds],
                self._M[THETA],
                s[ADAPTIVE.RIDGE],
                s[THETA_BOUND],
                s[S.ACCURACY],
            )
        if s[S.STEPS] >= MOST_DESCENTS:
            warnings.warn(
                f"HeavyOFUL: gradient descent stopped after {MOST_DESCENTS} steps, short of "
                f"tolerance={s[S.ACCURACY]}. Use another solver, or a larger tolerance.",
                stacklevel=3,
            )

    @property
    def sigma(self) -> float:
        """sigma_t of the last round."""
        return float(self._s[ADAPTIVE.SIGMA])

    @property
    def tau(self) -> float:
        """tau_t of the last round, in units of sigma_t."""
        return float(self._s[ADAPTIVE.TAU_T])
