"""MENU: Shao, Yu, King and Lyu (NeurIPS 2018), median of means under optimism."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.confidence import bmm_radius
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    INVERSE,
    OK,
    RADIUS,
    THETA,
    Count,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.repeats import (
    EPOCH,
    absorb,
    credit,
    end_epoch,
    lay_meant,
    meant_row,
    measure_meant,
    median,
)
from heavytail.policies.core.algorithm import Algorithm
from heavytail.policies.core.epochs import EpochPolicy, check_epoch, in_epochs
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["MENU"]


class Slots(NamedTuple):
    """MENU's own numbers."""

    ORDER: Fixed
    NOISE: Fixed  # (9 d c)^(1/p)
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    RADIUS_SCALE: Fixed
    CHOSEN: Count  # k*, the copy that the estimate is


S: Final = numbered(Slots, after=EPOCH)
ROOM: Final = behind(S)  # k distances


@jit
def menu_radius(n: float, order: float, noise: float, prior_root: float) -> float:
    """3 ((9 d c)^(1/p) n^((2-p)/(2p)) + sqrt(lambda) S) after n epochs; ``noise`` is (9 d c)^(1/p).

    Shao, Yu, King and Lyu (NeurIPS 2018), Algorithm 1.
    """
    return 3.0 * (bmm_radius(n, order, noise, prior_root))


@jit
def current_radius(s: Vector) -> float:
    """beta_n, with radius_scale."""
    return s[S.RADIUS_SCALE] * menu_radius(s[EPOCH.EPOCHS], s[S.ORDER], s[S.NOISE], s[S.PRIOR_ROOT])


@jit
def choose(s: Vector, M: Matrix, copies: int) -> None:
    """theta = theta_k*, the copy whose median V-distance to the others is least. O(k² d + k d²).

    theta_j = P b_j, so that ‖theta_j - theta_i‖²_V = (b_j - b_i)'(theta_j - theta_i) needs no V.
    """
    size = M.shape[1]
    sums = meant_row(M) + 1
    thetas = sums + copies
    for c in range(copies):
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += M[INVERSE + i, j] * M[sums + c, j]
            M[thetas + c, i] = total
    chosen = 0
    least = math.inf
    for c in range(copies):
        room = ROOM
        for other in range(copies):
            if other != c:
                squared = 0.0
                for j in range(size):
                    gap = M[thetas + c, j] - M[thetas + other, j]
                    squared += (M[sums + c, j] - M[sums + other, j]) * gap
                s[room] = math.sqrt(max(squared, 0.0))
                room += 1
        distance = median(s, ROOM, copies - 1) if copies > 1 else 0.0
        if distance < least:
            chosen = c
            least = distance
    s[S.CHOSEN] = chosen
    for i in range(size):
        M[THETA, i] = M[thetas + chosen, i]


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Pull j of an epoch teaches copy j; after the last, V grows once and a copy is chosen."""
    copies = int(s[EPOCH.REPEATS])
    pull = int(s[EPOCH.PULLS])
    code = credit(s, M, x, meant_row(M) + 1 + pull, reward)
    if code != OK:
        return code
    lay_meant(s, M, x)
    if pull + 1 < copies:
        return OK
    absorb(s, M, measure_meant(s, M, x))
    choose(s, M, copies)
    end_epoch(s)
    s[RADIUS] = current_radius(s)
    return OK


class MENU(EpochPolicy):
    r"""Optimism with the median, by distance, of k ridge estimates, each from its own pulls.

    $$k^* = \operatorname*{argmin}_j\ \operatorname*{median}_{i\ne j}\
      \|\hat\theta_{n,j}-\hat\theta_{n,i}\|_{V_n},\qquad
      \beta_n = 3\left((9dc)^{1/p}\,n^{\frac{2-p}{2p}} + \sqrt\lambda S\right)$$

    Every arm chosen is played k times, once for each estimate. With probability 1 - delta the
    regret is Õ(d^((p+2)/(2p)) T^(1/p)) at ``radius_scale=1``. An epoch costs O(k d² + k² d), a
    round O(k d); k grows with log T. Arms must be playable again: with k in the hundreds a short
    horizon holds few epochs.

    >>> import heavytail as ht
    >>> tail = ht.MomentBound(order=1.5, scale=1.0)
    >>> ht.MENU(2, horizon=18_000, tail=tail).repeats
    370

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise; c = nu^p.
        copies: k; ceil(24 log(e T/delta)), e = 2.718, unless given. Published experiments use 51.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.

    Note: the distances are to the other copies, without the zero to itself. There is no threshold
    to scale.
    """

    name = "MENU"
    info = Info(
        method="median of estimates",
        reference="Shao et al. 2018",
        regret="d^((p+2)/2p) T^(1/p)",
        cost="O(log T)",
        storage="O(log T)",
        moment="central",
        repeats=True,
        horizon=True,
        sources=(
            r"*Certain*: $k = \lceil 24\log(eT/\delta)\rceil$ with e = 2.718, the choice by median "
            "distance, and the radius, from memory of the paper and three published scripts (one "
            "of which reads e as epsilon). *Decided*: a copy's distance to itself does not count."
        ),
    )
    algorithm = in_epochs(Algorithm(update=update, slots=(COMMON, EPOCH, S)))

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        copies: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.1,
    ) -> None:
        check = self._start(dim, tail, horizon)
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        log_inverse_delta = check.log_inverse(delta)
        given = None if copies is None else check.count("copies", copies)
        k = check_epoch(
            check,
            horizon,
            lambda T: given or math.ceil(24.0 * (1.0 + math.log(T) + log_inverse_delta)),
        )
        self._allocate_epochs(
            k,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,  # ridge estimates, without a ball
            rows={"copies": k},
            room=k,
            spare=k,
        )
        s = self._s
        s[S.ORDER] = tail.order
        s[S.NOISE] = (9.0 * self.dim) ** (1.0 / tail.order) * tail.scale
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)
