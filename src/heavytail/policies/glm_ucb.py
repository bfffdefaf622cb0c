"""GLM-UCB: Filippi, Cappé, Garivier and Szepesvári (NIPS 2010), the generalised linear baseline."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import are_counts
from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail.confidence import oful_radius
from heavytail.kernels.gram import shrink
from heavytail.kernels.index import beyond, usable
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    COMMON,
    INVERSE,
    LOG_DET,
    NO_ARM,
    OK,
    OUT_OF_RANGE,
    OVERFLOW,
    RADIUS,
    ROUNDS,
    THETA,
    THETA_BOUND,
    Count,
    Fixed,
    numbered,
)
from heavytail.kernels.likelihood import COUNT, ahead, fit_likelihood, row_of, scan_likelihood
from heavytail.kernels.links import IDENTITY, link_mean, within
from heavytail.kernels.m_estimate import TARGET
from heavytail.kernels.one_pass import LARGEST, measure
from heavytail.kernels.quadratic import BEHIND, first_extra
from heavytail.links import Link
from heavytail.policies.core.algorithm import Algorithm, Arrays, History
from heavytail.policies.core.answers import Explanation, sides
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.info import Info
from heavytail.policies.core.linked import (
    DELTA,
    LINKED,
    LinkedPolicy,
    noise_of,
    report_spread,
    slope_of,
    steepest_of,
)
from heavytail.tails import MomentBound

__all__ = ["GLMUCB"]


class Slots(NamedTuple):
    """GLMUCB's own numbers."""

    NOISE_SCALE: Fixed  # R
    PRIOR: Fixed  # sqrt(lambda) S; times the largest slope in practice
    FACTOR: Fixed  # the largest slope over the least; 1 in practice
    STEEPEST: Fixed  # the largest slope
    THEORY: Fixed
    KEPT: Count  # rows of history: one per x


L: Final = LINKED
S: Final = numbered(Slots, after=LINKED)


@jit
def current_radius(s: Vector) -> float:
    """rho_t, with radius_scale: that of the estimate's error, times what it means for a mean."""
    rho = oful_radius(s[LOG_DET], s[S.NOISE_SCALE], s[L.LOG_INVERSE_DELTA], s[S.PRIOR])
    return s[L.RADIUS_SCALE] * s[S.FACTOR] * rho


@jit
def select(s: Vector, M: Matrix, H: Matrix, arms: Matrix) -> int:
    """The first arm of largest mu(x'theta) + rho ‖x‖_{V^-1}. O(n d²)."""
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    size = arms.shape[1]
    best = NO_ARM
    best_index = -math.inf
    for a in range(arms.shape[0]):
        score = 0.0
        half = 0.0  # x'P x / 2, from the lower triangle
        for j in range(size):
            score += M[THETA, j] * arms[a, j]
            row = 0.5 * M[INVERSE + j, j] * arms[a, j]
            for k in range(j):
                row += M[INVERSE + j, k] * arms[a, k]
            half += row * arms[a, j]
        index = link_mean(s[L.LINK], score) + s[RADIUS] * math.sqrt(max(2.0 * half, 0.0))
        if index > best_index:
            best = a
            best_index = beyond(index)
    return best


@jit
def fit(s: Vector, M: Matrix, H: Matrix, count: int, y: float) -> bool:
    """theta of the first ``count`` rows, from that before y; whether it was found. O(count d²).

    Where it is not, theta is as before.
    """
    size = M.shape[1]
    Q = first_extra(size)
    before = Q + size + BEHIND
    for i in range(size):
        M[before, i] = M[THETA, i]
    ahead(M, y, THETA, s[L.RIDGE], s[THETA_BOUND], s[L.LINK])
    sound = fit_likelihood(M, H, count, THETA, s[L.RIDGE], s[THETA_BOUND], s[L.LINK]) > 0
    for i in range(size):
        sound = sound and abs(M[THETA, i]) <= LARGEST
        for j in range(i + 1):
            sound = sound and abs(M[Q + i, j]) <= LARGEST
    if not sound:
        for i in range(size):
            M[THETA, i] = M[before, i]
    return sound


@jit
def update(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """One round's learning: the likelihood of all rounds is fitted anew."""
    if not within(s[L.LINK], reward, s[L.FRACTIONS]):
        return OUT_OF_RANGE
    squared = measure(s, M, x)
    if not (abs(reward) <= LARGEST and squared <= LARGEST):
        return OVERFLOW
    size = M.shape[1]
    kept = int(s[S.KEPT])
    row = row_of(M, H, kept)
    for i in range(size):
        H[row, i] = x[i]
    total = H[row, size + TARGET] if row < kept else 0.0
    often = H[row, size + COUNT] if row < kept else 0.0
    H[row, size + TARGET] = total + reward
    H[row, size + COUNT] = often + 1.0
    if not fit(s, M, H, max(row + 1, kept), reward):
        H[row, size + TARGET] = total
        H[row, size + COUNT] = often
        scan_likelihood(M, H, kept, THETA, s[L.RIDGE], s[L.LINK])
        return OVERFLOW
    shrink(M, 1.0 / (1.0 + squared))
    s[S.KEPT] = max(row + 1, kept)
    s[ROUNDS] += 1.0
    s[LOG_DET] += math.log1p(squared)
    s[RADIUS] = current_radius(s)
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the rounds that rows stand for are as many as there were."""
    often = arrays["history"][:, policy.dim + COUNT]
    return are_counts(often, least=1.0) and bool(often.sum() == arrays["scalars"][ROUNDS])


def half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """Half of an interval of scores: the set's in theory, in practice by the curvature of the
    likelihood.
    """
    s = policy._s
    if s[S.THEORY] != 0.0:
        return policy.radius / s[S.STEEPEST] * policy._widths(X)
    lower = np.tril(policy._M[policy._rows["curvature"]])
    Q = lower + np.tril(lower, -1).T
    widths = np.sqrt(np.sum(X.T * np.linalg.solve(Q, X.T), axis=0))
    is_identity = s[L.LINK] == IDENTITY
    spread = s[S.NOISE_SCALE] if is_identity else 1.0
    return np.asarray(sides(spread**2, level) * widths)


class GLMUCB(LinkedPolicy):
    r"""Maximum likelihood over all rounds, and optimism on the mean: the baseline with a link.

    $$\sum_{s\le t}\bigl(y_s-\mu(x_s^\top\hat\theta_t)\bigr)x_s = \lambda\hat\theta_t,\qquad
      x_{t+1} = \operatorname*{argmax}_x\ \mu(x^\top\hat\theta_t) + \rho_t\|x\|_{V_t^{-1}},\qquad
      \rho_t = \frac{L_\mu}{\kappa}\Bigl(R\sqrt{\log\frac{\det V_t}{\det\lambda I}
      + 2\log\frac1\delta} + \sqrt\lambda S\Bigr)$$

    in theory over the ball ‖theta‖ <= S, with $V_t = \lambda I + \sum x_s x_s^\top$, $L_\mu$ and
    $\kappa$ the largest and the least slope of the link within the ball. A round costs O(t d²), and
    the history O(t d); rounds of one and the same x are one row, so that over a pool of n arms both
    stop growing at n.

    **Theory** (``radius="theory"``): for R-sub-Gaussian rewards the regret is Õ(d sqrt(T) / kappa)
    with probability 1 - delta, and 1 / kappa is e^S with clicks and counts. Poisson counts are not
    sub-Gaussian: with the log link the guarantee is of rewards that are.

    **Practice** (the default): 0.3 (R sqrt(...) + L_mu sqrt(lambda) S), as if the least slope were
    the largest and the start weighed on the mean's scale. With the identity link it is OFUL.

    >>> import heavytail as ht
    >>> policy = ht.GLMUCB(2, link="logistic")
    >>> for click in (1, 0, 1, 1, 0, 1):
    ...     policy.update([1.0, 0.0], click)
    >>> policy.theta.round(3)
    array([0.403, 0.   ])

    Args:
        dim: length of a feature vector.
        link: "identity", "logistic", "log" or "probit"; or one of ``heavytail.links``.
        noise_scale: R, of a reward about its mean; unless given 1/2 for rewards of 0 and 1,
            e^(S L / 2), the widest spread of Poisson counts, with the log link, and with the
            identity link the scale of ``tail``, or 1.
        tail: taken for its scale alone, with the identity link.
        theta_bound: S >= ‖theta*‖.
        ridge: lambda.
        radius_scale: multiplies the radius; 1 in theory, 0.3 in practice. Below 1 the theory's
            guarantee is gone.

    ``horizon``, ``arm_bound``, ``radius``, ``delta`` and ``fractions`` are as in ``GLBOMD``; a
    round's ``scale`` is not used.
    """

    name = "GLM-UCB"
    info = Info(
        method="likelihood",
        reference="Filippi et al. 2010",
        regret="d sqrt(T)",
        cost="O(t)",
        storage="O(t)",
        moment="sub-Gaussian",
        sources=(
            r"*Certain*: the estimate and the index. *Re-derived*: $\rho_t$ by today's "
            "self-normalised bound, with a ridge in place of the paper's first d rounds. "
            "*Decided*: where the estimate could leave the ball and the link bends, the theory's "
            "is the maximum likelihood over the ball, not the paper's projection, which is not "
            r"convex: for it $\kappa\|\hat\theta-\theta^*\|_V \le \|\nabla\ell(\theta^*)"
            r"\|_{V^{-1}}$ as well, by the inequality that a minimiser over a convex set "
            "satisfies. *Ours*: practice."
        ),
    )
    algorithm = Algorithm(
        update=update,
        select=select,
        slots=(COMMON, LINKED, S),
        history=History(COUNT + 1, counter=S.KEPT),
        agree=(agrees,),
        half_widths=half_widths,
        reports=(report_spread,),
    )
    exploration = 0.3

    def __init__(
        self,
        dim: int,
        *,
        link: str | Link = "identity",
        noise_scale: float | None = None,
        tail: MomentBound | None = None,
        horizon: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        ridge: float = 1.0,
        delta: float = DELTA,
        fractions: bool = False,
        radius_scale: float | None = None,
    ) -> None:
        check = self._start(dim, tail, horizon)
        stated = self._start_linked(
            check, link, radius, theta_bound=theta_bound, arm_bound=arm_bound
        )
        bends = self.link.name != "identity"
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound if stated.is_theory and bends else math.inf,
            rows={"curvature": self.dim},
            room=BEHIND + 1,
        )
        prior, factor = math.sqrt(ridge) * stated.theta_bound, 1.0
        steepest = steepest_of(stated)
        if stated.is_theory:
            factor = steepest / slope_of(check, self.link, None, stated.reach)
        s = self._write_linked(
            stated, ridge=ridge, delta=delta, fractions=fractions, radius_scale=radius_scale
        )
        s[S.NOISE_SCALE] = noise_of(stated, noise_scale, tail)
        s[S.PRIOR] = prior if stated.is_theory else prior * steepest
        s[S.FACTOR] = factor
        s[S.STEEPEST] = steepest
        s[S.THEORY] = stated.is_theory
        s[RADIUS] = current_radius(s)
        self._M[self._rows["curvature"]] = ridge * np.eye(self.dim)

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Explain the choice of ``select`` among ``arms`` by the parts of each index."""
        X = self._offered(arms, ".explain")
        score, bonus = self._means(X), self.radius * self._widths(X)
        mean = np.asarray(self.link.mean(score))
        parts: dict[str, Any] = {
            "score": score,
            "mean": mean,
            "bonus": bonus,
            "index": mean + bonus,
        }
        return Explanation(self.select(X), "the largest mean + radius * width", parts)
