"""LowESTR: Lu, Meisami and Tewari (ICML 2021), explore the subspace, then OFUL with two ridges."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.confidence import oful_radius
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.low_rank import (
    SHAPE,
    any_arm,
    inside,
    keep,
    room_row,
    select_whole,
    settle,
    turn,
)
from heavytail.kernels.nuclear_norm import PASSES, fit
from heavytail.kernels.one_pass import learn, measure
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.info import Info
from heavytail.policies.core.low_rank import LARGEST_REWARD, ROWS, LowRankPolicy, agrees

__all__ = ["LowESTR"]

SHARE: Final = 0.05  # of the horizon: no more explore unless told


class Slots(NamedTuple):
    """LowESTR's own numbers."""

    KEY: Count
    DRAWS: Count  # arms drawn so far
    EXPLORE: Fixed  # T_1
    RIDGE: Fixed  # lambda
    RIDGE_OUTSIDE: Fixed  # lambda_perp
    NOISE_SCALE: Fixed
    LOG_INVERSE_DELTA: Fixed
    PRIOR_ROOT: Fixed  # a bound on the norm of theta* by V_0
    RADIUS_SCALE: Fixed


L: Final = SHAPE
S: Final = numbered(Slots, after=COMMON)


@jit
def current_radius(s: Vector, outside: int) -> float:
    """beta_t, of the growth of det V since the second stage began; ``outside`` coordinates have
    the ridge lambda_perp.
    """
    grown = s[LOG_DET] - outside * math.log(s[S.RIDGE_OUTSIDE] / s[S.RIDGE])
    radius: float = oful_radius(grown, s[S.NOISE_SCALE], s[S.LOG_INVERSE_DELTA], s[S.PRIOR_ROOT])
    return s[S.RADIUS_SCALE] * radius


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """Any arm in the first stage, the largest index in the second."""
    if s[L.FITS] == 0.0:
        return any_arm(s, arms, S.KEY, S.DRAWS)
    return select_whole(s, M, arms)


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: kept in the first stage, ridge regression in the second."""
    if not (abs(reward) <= LARGEST_REWARD):
        return OVERFLOW
    if s[L.FITS] > 0.0:
        z = room_row(s, M)
        turn(s, M, x.reshape((1, x.shape[0])), 0, z, True)
        squared = measure(s, M, M[z, : M.shape[1]])
        code = learn(s, M, M.shape[1], squared, reward - predict(M), 1.0, 1.0, math.inf)
        s[RADIUS] = current_radius(s, M.shape[1] - inside(s))
        return code
    row = min(s[L.KEPT], s[S.EXPLORE] - 1.0)  # the last again while rounds say nothing
    keep(H, int(row), x, reward, 1.0)
    s[L.KEPT] = row + 1.0
    s[ROUNDS] += 1.0
    if s[ROUNDS] >= s[S.EXPLORE] and fit(s, M, H, int(s[L.KEPT]), math.inf, PASSES):
        settle(s, M, s[S.RIDGE], s[S.RIDGE_OUTSIDE])
        s[RADIUS] = current_radius(s, M.shape[1] - inside(s))
    return OK


class LowESTR(LowRankPolicy):
    r"""Explore, find the subspace of Theta by least squares with the nuclear norm, then OFUL.

    $$\hat\Theta = \operatorname*{argmin}_\Theta\ \frac1{2T_1}\sum_{t\le T_1}
      (y_t - \langle X_t,\Theta\rangle)^2 + \rho\|\Theta\|_*,\qquad
      V_0 = \operatorname{diag}(\lambda I_k, \lambda_\perp I)$$

    After T_1 rounds of any arm, arms are turned by the singular vectors of Theta, and coordinates
    outside the first r of them have the ridge lambda_perp = T_2 L² / (k log(1 + T_2 L²/lambda)):
    Wedin's theorem, twice, bounds what Theta* has there. With sub-Gaussian noise the regret is
    Õ((d1 + d2)^(3/2) sqrt(r T) / D_r), D_r the least singular value of Theta*. A round costs
    O(n (d1 d2)²), and so much is stored: use :class:`heavytail.HvtLowRank` for anything large.

    >>> import heavytail as ht
    >>> policy = ht.LowESTR(4, 3, rank=1, horizon=5000, noise_scale=1.0, theta_bound=3.0)
    >>> policy.explore, round(policy.ridge_outside)
    (250, 94)

    Args:
        d1: rows of an arm.
        d2: columns of an arm.
        horizon: T.
        noise_scale: R of the R-sub-Gaussian noise.
        rank: r, of Theta*.
        form: "matrices" or "pairs", as of :class:`heavytail.HvtLowRank`.
        theta_bound: S >= ‖Theta*‖_F.
        smallest: D_r <= the least singular value of Theta*; S / sqrt(r) unless given, which is
            what it can be at most.
        arm_bound: L >= ‖X‖_F, 1 unless given; of a pair >= sqrt(‖u‖² + ‖v‖²), sqrt(2) unless
            given. Longer arms are refused, and a feature of the size of an arm is what L says.
        explore: T_1; R sqrt(r T) (d1 + d2)^(3/2) / (L D_r) unless given, a twentieth of T at most.
        ridge: lambda.
        ridge_outside: lambda_perp, at least lambda; equal, the second stage is plain OFUL.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory.
        seed: of the choices of any arm.

    Note: the norm of Theta* by V_0 is bounded by sqrt(lambda S² + (lambda_perp - lambda) S_perp²),
    which is less than the published sum of two roots and becomes OFUL's where the ridges are equal.
    """

    name = "LowESTR"
    info = Info(
        method="least squares, nuclear norm",
        reference="Lu et al. 2021",
        regret="(d1+d2)^(3/2) sqrt(r T)",
        cost="O(1)",
        storage="bounded",
        moment="sub-Gaussian",
        horizon=True,
        randomised=True,
        sources=(
            "*Certain*: the two stages and the two ridges, from a published script (which forgets "
            "a square root in its bonus and the step size in its proximal map). *Ours*: the "
            "constant of T_1, the penalty read off the residuals, the sharper bound of theta*."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, S),
        history=ROWS,
        key_slot=S.KEY,
        draws_slot=S.DRAWS,
        agree=(agrees,),
    )
    whole = True

    def __init__(
        self,
        d1: int,
        d2: int,
        *,
        horizon: int,
        noise_scale: float = 1.0,
        rank: int = 1,
        form: str = "matrices",
        theta_bound: float = 1.0,
        smallest: float | None = None,
        arm_bound: float | None = None,
        explore: int | None = None,
        ridge: float = 1.0,
        ridge_outside: float | None = None,
        delta: float = 0.01,
        radius_scale: float = 0.3,
        seed: int = 0,
    ) -> None:
        check, rank = self._start_low_rank(d1, d2, form, rank)
        d1, d2 = self.d1, self.d2
        self._start(self._length, None, horizon)
        R = check.number("noise_scale", noise_scale, above=0.0)
        bound = check.number("theta_bound", theta_bound, above=0.0)
        limit, arm_bound = self._bounds(check, arm_bound)
        least = self._smallest(check, smallest, bound, rank)
        ridge = check.number("ridge", ridge, above=0.0)
        theory = R * math.sqrt(rank * horizon) * (d1 + d2) ** 1.5 / (arm_bound * least)
        first = max(d1 + d2, math.ceil(min(theory, SHARE * horizon)))
        if explore is not None:
            first = check.count("explore", explore, least=d1 + d2)
        if first >= horizon:
            raise ValueError(
                f"{check.owner}.horizon must be above the {first} rounds that explore; got "
                f"{horizon}. Pass a horizon of {20 * first} or more."
            )
        k, size = rank * (d1 + d2) - rank * rank, d1 * d2
        left = horizon - first
        if ridge_outside is None:
            grown = left * arm_bound**2
            ridge_outside = max(ridge, grown / (k * math.log1p(grown / ridge)))
        outside = check.number("ridge_outside", ridge_outside, least=ridge)
        error = R * math.sqrt(rank * size * (d1 + d2) / first) / arm_bound
        bound_outside = bound * min(1.0, (error / least) ** 2) if k < size else 0.0
        self._allocate(
            ridge=ridge,
            arm_bound=limit,
            weight=(arm_bound / limit) ** 2,
            theta_bound=math.inf,
            size=size,
            most_kept=first,
            **self._low_rank_parts(),
        )
        self._write_shape(rank)
        s = self._s
        s[S.EXPLORE] = first
        s[S.RIDGE], s[S.RIDGE_OUTSIDE] = ridge, outside
        s[S.NOISE_SCALE] = R
        s[S.LOG_INVERSE_DELTA] = check.log_inverse(delta)
        s[S.PRIOR_ROOT] = math.sqrt(ridge * bound**2 + (outside - ridge) * bound_outside**2)
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        self.reseed(seed)

    @property
    def explore(self) -> int:
        """T_1."""
        return int(self._s[S.EXPLORE])

    @property
    def ridge_outside(self) -> float:
        """lambda_perp."""
        return float(self._s[S.RIDGE_OUTSIDE])
