"""Twin-UCB: a bulk and a mean on one Gram matrix. Ours; no paper's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._turns import alone
from heavytail._typing import FloatArray, IntArray, Matrix, Vector
from heavytail._validate import Check
from heavytail.kernels.gram import predict
from heavytail.kernels.huber import score
from heavytail.kernels.index import MARGIN, MEAN, SCORES, SQUARED, beyond, may_win, scoring, usable
from heavytail.kernels.index import choose as choose_linear
from heavytail.kernels.index import choose_offered as choose_offered_linear
from heavytail.kernels.index import rate as rate_linear
from heavytail.kernels.index import select as select_linear
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    ARM_LIMIT,
    BAD_X,
    CLIPPED,
    COMMON,
    CONSTANT,
    DIRECTION,
    FEATURE,
    GAIN,
    INVERSE,
    NO_ARM,
    OK,
    PROJECTED,
    RADIUS,
    SET_ANEW,
    STEP,
    THETA,
    Count,
    Flag,
    Size,
    numbered,
)
from heavytail.kernels.one_pass import measure
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.scores import PRODUCT, multiply
from heavytail.policies.core import forgetting, practice, theory
from heavytail.policies.core.answers import Explanation
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.forgetting import clear, drop_log_det, foresee, remember
from heavytail.policies.core.info import Info
from heavytail.policies.core.practice import (
    PRACTICE,
    SIZES,
    begin,
    doubt_unit,
    growing_radius,
    learned,
    radius,
    scale_of,
    step,
    tune,
    watch,
)
from heavytail.policies.core.theory import THEORY
from heavytail.policies.core.theory import step as step_theory
from heavytail.tails import MomentBound

__all__ = ["TwinUCB"]

EXPLORATION: Final = 0.7  # of the mean's optimism
BULK_EXPLORATION: Final = 0.6
TYPICAL_EXPLORATION: Final = 0.8  # of the bulk where it is alone
TRUST: Final = 0.15  # of the mean's radius without exploration: how far the bulk is believed
AUDITS: Final = 3.0  # a share AUDITS t^(-1/3) of the rounds, but at most ...
MOST_AUDITS: Final = 0.5
FEWER: Final = (AUDITS / MOST_AUDITS) ** 3.0  # the round from which it is less
WIDER: Final = 3.0  # c of the theory: optimism's arm is played where it is c times less known


class Slots(NamedTuple):
    """TwinUCB's own numbers."""

    BULK_RADIUS: Size
    BULK_STEP: int  # what the bulk moved by along u
    BULK_STABILITY: Size
    BULK_ENERGY: Size
    TRUSTED: int  # how far from the mean the bulk is believed, in widths
    SHIFT: int  # what the bulk lies below the mean where most is known
    AUDIT: Flag  # 1 if the next round is the mean's
    TURN: Count  # the first round not played yet that is
    APART: int  # sum of (psi of the mean - psi of the bulk)²


S: Final = numbered(Slots, after=THEORY)
P: Final = PRACTICE
BULK: Final = SCORES  # the row of a pool's scores behind the linear index's


@jit
def bulk_row(M: Matrix) -> int:
    """The row of M that holds the bulk's estimate; the weighted sum of all x follows it."""
    return INVERSE + 2 * M.shape[1] + 1


@jit
def audits(t: float) -> float:
    """Rounds among the first t that are the mean's: the integral of their share, and a quarter, so
    that past the turn it is never whole and rounding decides nothing.
    """
    if t <= FEWER:
        return MOST_AUDITS * t + 0.25
    return MOST_AUDITS * FEWER + 0.25 + 1.5 * AUDITS * (t ** (2.0 / 3.0) - FEWER ** (2.0 / 3.0))


@jit
def next_audit(t: float) -> float:
    """The first round after t that is the mean's: where ``audits`` reaches the next whole number.
    Roots are dear, so it is asked only once that round is over.
    """
    due = math.floor(audits(t)) + 0.75 - MOST_AUDITS * FEWER
    if due <= 0.0:
        return math.ceil(FEWER + due / MOST_AUDITS)
    return math.ceil((FEWER ** (2.0 / 3.0) + due / (1.5 * AUDITS)) ** 1.5)


@jit
def predict_bulk(M: Matrix) -> float:
    """What the bulk expects of the x that was measured last."""
    bulk = bulk_row(M)
    expected = 0.0
    for i in range(M.shape[1]):
        expected += M[bulk, i] * M[FEATURE, i]
    return expected


@jit
def learn_bulk(s: Vector, M: Matrix, squared: float, y: float, mean: float, sigma: float) -> None:
    """The bulk's step along the u of the mean's, after it; ``y`` is the bulk's residual in units of
    sigma, ``mean`` the clipped one of the mean. 1 / (sigma² growth) is alpha times the gain.
    """
    bulk = bulk_row(M)
    psi = score(y, s[P.CLIP])
    gain = s[P.ALPHA] * s[GAIN]
    s[S.BULK_STEP] = psi * sigma * gain
    s[S.BULK_STABILITY] += psi * psi * squared * gain
    s[S.BULK_ENERGY] += psi * psi
    s[S.APART] += (mean - psi) * (mean - psi)
    for i in range(M.shape[1]):
        M[bulk, i] += s[S.BULK_STEP] * M[DIRECTION, i]


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round: the mean's step, then the bulk's along the same u; OVERFLOW with the state
    untouched.
    """
    squared = measure(s, M, x)
    if s[P.UNIT] == 0.0:
        return begin(s, M, x.shape[0], squared, reward, nu)
    bulk = bulk_row(M)
    expected = predict_bulk(M)
    sigma = scale_of(s, squared, nu)
    z = (reward - predict(M)) / sigma if squared > 0.0 else 0.0
    y = (reward - expected) / sigma if squared > 0.0 else 0.0
    tau = s[P.TAU]
    code = step(s, M, x.shape[0], squared, z, sigma)
    if code != OK:
        return code
    learn_bulk(s, M, squared, y, score(z, tau), sigma)
    for i in range(M.shape[1]):
        M[bulk + 1, i] += M[FEATURE, i] / (sigma * sigma)
    tune(s, M, z)
    watch(s, reward, abs(reward - expected) / nu)
    if doubt_unit(s, M, abs(reward) / nu):
        s[S.BULK_STABILITY] = s[S.BULK_ENERGY] = s[S.APART] = s[S.TURN] = 0.0
        for i in range(M.shape[1]):
            M[bulk, i] = M[bulk + 1, i] = 0.0
    prepare(s, M, x.shape[0])
    return OK


@jit
def update_forgetting(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """A round and what it lets fade; OVERFLOW with the state untouched."""
    begun = s[P.UNIT] > 0.0
    bulk = bulk_row(M)
    off = (reward - foresee(s, M, bulk, x)) / nu
    typical = NORMAL_CONSISTENCY * s[P.TYPICAL]
    clipped, began = s[CLIPPED], s[P.BEGAN]
    code = update(s, M, x, reward, nu)
    if code != OK:
        return code
    drop_log_det(s)
    if not begun:
        return OK
    if learned(s) == 0.0:
        clear(s)
        return OK
    factor = remember(s, M, off / typical, s[CLIPPED] - clipped)
    if factor < 1.0:
        s[S.BULK_STABILITY] *= factor
        s[S.BULK_ENERGY] *= factor
        s[S.APART] *= factor
        for i in range(M.shape[1]):
            M[bulk + 1, i] *= factor
        s[S.TURN] = max(s[S.TURN] - (s[P.BEGAN] - began), 0.0)
        prepare(s, M, x.shape[0])
    return OK


@jit
def prepare(s: Vector, M: Matrix, dim: int) -> None:
    """What the next choice needs: both radii, how far the bulk is trusted, whose turn it is."""
    bulk = bulk_row(M)
    beta = radius(s, 1.0, s[P.STABILITY], s[P.ENERGY])
    s[RADIUS] = s[P.EXPLORATION] * beta
    s[S.TRUSTED] = TRUST * beta
    s[S.BULK_RADIUS] = radius(s, BULK_EXPLORATION, s[S.BULK_STABILITY], s[S.BULK_ENERGY])
    shift = 0.0
    for i in range(dim):
        shift += (M[THETA, i] - M[bulk, i]) * M[bulk + 1, i]
    s[S.SHIFT] = shift / max(s[P.WEIGHT], 1e-300)
    t = learned(s)
    if t >= s[S.TURN]:
        s[S.TURN] = next_audit(t)
    s[S.AUDIT] = 1.0 if t + 1.0 == s[S.TURN] else 0.0


@jit
def index_of(s: Vector, mean: float, bulk: float, width: float) -> float:
    """clip(bulk + shift, mean ± trusted width) + the bulk's radius times the width."""
    reach = s[S.TRUSTED] * width
    return min(max(bulk + s[S.SHIFT], mean - reach), mean + reach) + s[S.BULK_RADIUS] * width


@jit
def widest(s: Vector) -> float:
    """An index is at most mean + this times the width, squared and a little more."""
    furthest = s[S.TRUSTED] + s[S.BULK_RADIUS]
    return furthest * furthest * (1.0 + MARGIN)


@jit
def look(s: Vector, M: Matrix, arms: Matrix, a: int) -> tuple[float, float, float]:
    """Of arm a: its mean and its typical reward, without the constant feature's share, which is
    the same for all, and its squared width. O(d²).
    """
    bulk = bulk_row(M)
    size = arms.shape[1]
    mean = typical = half = 0.0
    for j in range(M.shape[1]):
        x = arms[a, j] if j < size else s[CONSTANT]
        row = 0.5 * M[INVERSE + j, j] * x
        for k in range(j):
            row += M[INVERSE + j, k] * arms[a, k]
        half += row * x
        if j < size:
            mean += M[THETA, j] * x
            typical += M[bulk, j] * x
    return mean, typical, max(2.0 * half, 0.0)


@jit
def select(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The first arm of largest index, the mean's own where it is its turn. O(n d²)."""
    if s[S.AUDIT] != 0.0:
        return select_linear(s, M, arms)
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    widened = widest(s)
    best = NO_ARM
    best_index = -math.inf
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        if may_win(mean, squared, widened, best_index):
            found = index_of(s, mean, typical, math.sqrt(squared))
            if found > best_index:
                best = a
                best_index = beyond(found)
    return best


@jit
def rate(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> int:
    """Score every arm of a pool from the state alone, the bulk's mean too. O(n d²)."""
    multiply(pool, pool.shape[0], M, bulk_row(M), scores, BULK)
    return rate_linear(s, M, pool, scores)


@jit
def follow(s: Vector, M: Matrix, pool: Matrix, scores: Matrix) -> None:
    """Bring the scores over the last update. O(n d)."""
    if s[PROJECTED] == SET_ANEW:
        rate(s, M, pool, scores)
        return
    size = pool.shape[0]
    constant = s[CONSTANT] * M[DIRECTION, size]
    multiply(pool, size, M, DIRECTION, scores, PRODUCT)
    for i in range(pool.shape[1]):
        g = scores[PRODUCT, i]
        scores[MEAN, i] += s[STEP] * g
        scores[BULK, i] += s[S.BULK_STEP] * g
        scores[SQUARED, i] -= s[GAIN] * (g + constant) * (g + constant)


@jit
def choose(s: Vector, scores: Matrix) -> int:
    """The first arm of the pool of largest index. O(n)."""
    if s[S.AUDIT] != 0.0:
        return choose_linear(s, scores)
    widened = widest(s)
    best = NO_ARM
    best_index = -math.inf
    for i in range(scores.shape[1]):
        if may_win(scores[MEAN, i], scores[SQUARED, i], widened, best_index):
            width = math.sqrt(max(scores[SQUARED, i], 0.0))
            found = index_of(s, scores[MEAN, i], scores[BULK, i], width)
            if found > best_index:
                best = i
                best_index = beyond(found)
    return best


@jit
def choose_offered(s: Vector, scores: Matrix, offered: IntArray, t: int) -> int:
    """The place in row t of ``offered`` of the first arm of largest index. O(k)."""
    if s[S.AUDIT] != 0.0:
        return choose_offered_linear(s, scores, offered, t)
    widened = widest(s)
    best = NO_ARM
    best_index = -math.inf
    for k in range(offered.shape[1]):
        i = offered[t, k]
        if may_win(scores[MEAN, i], scores[SQUARED, i], widened, best_index):
            width = math.sqrt(max(scores[SQUARED, i], 0.0))
            found = index_of(s, scores[MEAN, i], scores[BULK, i], width)
            if found > best_index:
                best = k
                best_index = beyond(found)
    return best


TWIN: Final = scoring(
    "twin",
    select=select,
    rate=rate,
    follow=follow,
    choose=choose,
    choose_offered=choose_offered,
    rows=SCORES + 1,
)


@jit
def update_theory(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Algorithm 1 for the mean, then the bulk along the same u; OVERFLOW with the state
    untouched.
    """
    squared = measure(s, M, x)
    expected = predict_bulk(M)
    residual = reward - predict(M)
    code = step_theory(s, M, x.shape[0], squared, residual, reward, nu)
    if code != OK:
        return code
    sigma = s[P.SIGMA]
    z = residual / sigma if squared > 0.0 else 0.0
    y = (reward - expected) / sigma if squared > 0.0 else 0.0
    learn_bulk(s, M, squared, y, score(z, s[P.TAU]), sigma)
    s[S.BULK_RADIUS] = bulk_radius_theory(s)
    return OK


@jit
def bulk_radius_theory(s: Vector) -> float:
    """The bulk's optimism, which no theorem asks about: not scaled with Lemma 1's radius."""
    return growing_radius(s, BULK_EXPLORATION, s[S.BULK_STABILITY], s[S.BULK_ENERGY], learned(s))


@jit
def select_theory(s: Vector, M: Matrix, arms: Matrix) -> int:
    """The bulk's favourite among the arms that the mean has not ruled out, unless the mean's
    optimist is WIDER times less known: then that. O(n d²).

    An arm is ruled out where its upper end lies below another's lower end. One with the largest
    lower end never is, so there is a favourite wherever there are arms.
    """
    if not usable(arms, s[ARM_LIMIT]):
        return BAD_X
    radius = s[RADIUS]
    optimist = favourite = NO_ARM
    unknown = known = 0.0  # widths of the two
    best = floor = -math.inf
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        width = math.sqrt(squared)
        if mean + radius * width > best:
            optimist = a
            unknown = width
            best = beyond(mean + radius * width)
        floor = max(floor, mean - radius * width)
    best = -math.inf
    for a in range(arms.shape[0]):
        mean, typical, squared = look(s, M, arms, a)
        width = math.sqrt(squared)
        found = typical + s[S.BULK_RADIUS] * width
        if beyond(mean + radius * width) >= floor and found > best:
            favourite = a
            known = width
            best = beyond(found)
    return optimist if unknown > beyond(WIDER * known) else favourite


@final
class TwinUCB(forgetting.ForgettingPolicy):
    r"""The best mean reward, with the help of the typical one. One pass, nothing tuned.

    Two estimates share the weights, and with them the Gram matrix $V_t$: the *mean* $m$, clipped
    at a threshold that grows by itself, made for every noise with a finite moment of order above 1
    whatever its shape; and the *bulk* $r$, clipped at a fixed one, which learns fast and
    finds the mean only where the noise has one shape for all arms. In most rounds

    $$\operatorname*{argmax}_x\ \mathrm{clip}\big(x^\top r_t + c_t,\ x^\top m_t \pm
      k\,\beta_t\|x\|_{V_t^{-1}}\big) + \gamma_t\|x\|_{V_t^{-1}},$$

    the bulk as long as the mean does not contradict it, $c_t$ what the two differ by where most is
    known; in a share $3\,t^{-1/3}$ of the rounds, at most a half, the mean's own optimism,
    $\operatorname*{argmax}_x x^\top m_t + 0.7\,\beta_t\|x\|_{V_t^{-1}}$, so that a rare large
    reward is seen wherever it is. A round costs O(d²), the state is constant, and decisions do not
    change with the unit of the rewards.

    **Theory** (``radius="theory"``, needs ``tail`` and ``horizon``): the mean is Hvt-UCB's
    Algorithm 1 with Lemma 1's radius, to the letter. Play the bulk's favourite among the arms that
    the mean has not ruled out, unless optimism's arm has more than 3 times its width: then that.
    On Lemma 1's event every round's regret is at most $8\,\beta_{t-1}\|x_t\|_{V_{t-1}^{-1}}$, four
    times the bound of Hvt-UCB. As there, the radius is too large to learn at a human horizon.

    >>> import heavytail as ht
    >>> policy = ht.TwinUCB(2)
    >>> arm = policy.select([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.update([1.0, 0.0], reward=3.5)

    Args:
        dim: length of a feature vector.
        target: "mean", or "typical": the bulk alone, for noise that is an error to be ignored
            (sensors, contaminated logs), and the fastest where it has one shape for all arms.
            The theory is of the mean.
        tail: the moment bound on the noise, if it is known; otherwise its scale is learned, and a
            round's ``scale`` says how it compares with other rounds. Needed by the theory.
        horizon: T. Needed by the theory; otherwise only a promise that is warned about once it is
            broken.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        radius: "empirical" (no guarantee) or "theory".
        theta_bound: S >= ‖theta*‖, theory only; 1 unless given.
        radius_scale: multiplies Lemma 1's radius, theory only; below 1 the guarantee is gone.
        forget: weight of a round one step older, not in theory: 0.999 remembers about 1,000 rounds,
            1 all of them, and the diagnostics say when theta seems to have changed; "auto" then
            begins anew by itself. Nothing is forgotten nor watched unless given.
    """

    name = "Twin-UCB"
    info = Info(
        method="two Huber estimates",
        reference="this library",
        regret="none proved; in theory 4 times Hvt-UCB's",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        uses_scale=True,
        sources=(
            "*Ours*: the rule, and constants chosen for the distribution of regret. "
            '`radius="theory"`: the mean is Algorithm 1 with Lemma 1 of the paper of Hvt-UCB; that '
            "playing another's choice among plausible arms costs a factor 1 + c is ours, proved on "
            "the page on two estimates. *Decided*: c = 3."
        ),
    )
    slots = (COMMON, PRACTICE, THEORY, S)
    takes_prior = True
    rank_one = True

    def __init__(
        self,
        dim: int,
        *,
        target: str = "mean",
        tail: MomentBound | str | None = None,
        horizon: int | None = None,
        arm_bound: float = 1.0,
        radius: str = "empirical",
        theta_bound: float | None = None,
        radius_scale: float | None = None,
        forget: float | str | None = None,
    ) -> None:
        check = Check(type(self))
        self._start(dim, practice.stated(check, tail), horizon, scale_known=False)
        twin = check.choice("target", target, ("mean", "typical")) == "mean"
        is_theory = check.choice("radius", radius, ("empirical", "theory")) == "theory"
        forget = self._asked_to_forget(check, forget, self.dim + 1, is_theory)
        if is_theory:
            told = theory.check_told(check, tail, horizon)
            if not twin:
                raise ValueError('TwinUCB.target must be "mean" for radius="theory".')
            self._begin_theory(
                check,
                told,
                arm_bound=arm_bound,
                theta_bound=1.0 if theta_bound is None else theta_bound,
                radius_scale=1.0 if radius_scale is None else radius_scale,
            )
            return
        for name, value in (("theta_bound", theta_bound), ("radius_scale", radius_scale)):
            if value is not None:
                raise ValueError(f'TwinUCB.{name} is for radius="theory" only; got {value!r}.')
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        ridge = practice.own_ridge(self.dim, arm_bound)
        if forget is None:
            self.update_kernel = update if twin else practice.update
        else:
            self.update_kernel = update_forgetting if twin else forgetting.update
        if twin:
            self.select_kernel, self.scoring = select, TWIN
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            size=self.dim + 1,
            rows={"bulk": None, "centre": None} if twin else None,
            runs=self._remembers(forget, {"sizes": SIZES} if twin else {}),
        )
        self._s[CONSTANT] = arm_bound
        practice.start(
            self,
            check,
            exploration=EXPLORATION if twin else TYPICAL_EXPLORATION,
            delta=None,
            ridge=ridge,
            arm_bound=arm_bound,
            tunes=twin,
        )
        self._forget(forget)
        if twin:
            prepare(self._s, self._M, self.dim)

    def _begin_theory(
        self,
        check: Check,
        told: tuple[MomentBound, int],
        *,
        arm_bound: float,
        theta_bound: float,
        radius_scale: float,
    ) -> None:
        ridge = float(self.dim)
        self.update_kernel, self.select_kernel = update_theory, select_theory
        self._allocate(
            ridge=ridge, arm_bound=arm_bound, theta_bound=theta_bound, rows={"bulk": None}
        )
        practice.start(
            self,
            check,
            exploration=EXPLORATION,
            delta=None,
            ridge=ridge,
            alpha=theory.ALPHA,
            radius_scale=radius_scale,
            arm_bound=arm_bound,
        )
        theory.start(self, *told, arm_bound=arm_bound)
        self._s[S.BULK_RADIUS] = bulk_radius_theory(self._s)

    @property
    def _is_twin(self) -> bool:
        """Whether it has two estimates and no theory."""
        return self.select_kernel is select

    @property
    def bulk(self) -> FloatArray:
        """The fast estimate, of a typical reward, a copy; theta itself with target="typical"."""
        row = bulk_row(self._M) if self._s[P.TUNES] != 0.0 else THETA
        return np.asarray(self._M[row, : self.dim].copy())

    def _begun(self) -> None:
        if self.update_kernel is not update_theory:
            practice.settle_prior(self._s, self._M, self.dim)
        if self.update_kernel is update_theory or self._is_twin:
            self._M[bulk_row(self._M), : self.dim] = self._M[THETA, : self.dim]

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        if self.update_kernel is update_theory:
            return super()._half_widths(X, level)
        return practice.half_widths(self._s, self._widths(X), level)

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Why ``select`` would choose as it does among ``arms``: the parts of each index."""
        s, found = self._s, super().explain(arms)
        if self.update_kernel is update_theory:
            rule = "the bulk's favourite of the arms that the mean has not ruled out, unless the "
            rule += f"largest mean + radius * width is {WIDER:g} times less known"
            return replace(found, rule=rule)
        if not self._is_twin or s[S.AUDIT] != 0.0:
            return found
        X = self._offered(arms, ".explain")
        mean, widths = found.parts["mean"], self._widths(X)
        shift = s[S.SHIFT] + self.intercept
        bulk, reach = X @ self.bulk + shift, s[S.TRUSTED] * widths
        believed = np.clip(bulk, mean - reach, mean + reach)
        bonus = s[S.BULK_RADIUS] * widths
        parts = {"mean": mean, "bulk": bulk, "believed": believed, "bonus": bonus}
        parts["index"] = believed + bonus
        rule = "the largest believed + bonus; believed is the bulk, held near the mean"
        return Explanation(found.arm, rule, parts)

    def hausman(self) -> tuple[float, float]:
        """H, of the difference between the slopes of mean and bulk, and what it may be by chance.

        H = D' C^-1 D with D the difference and C its covariance, that of noise of one size; by
        chance it stays below d + 2 sqrt(d l) + 2 l, l = log 100 + 2 log log t, at every t.
        """
        t = max(learned(self._s), 3.0)
        D = self.theta - self.bulk
        C = self.inverse_gram[: self.dim, : self.dim] * max(self._s[S.APART] / t, 1e-300)
        sure = math.log(100.0) + 2.0 * math.log(math.log(t))
        most = self.dim + 2.0 * math.sqrt(self.dim * sure) + 2.0 * sure
        try:
            np.linalg.cholesky(C)  # a determinant would be 0 to a double where d is large
        except np.linalg.LinAlgError:  # nothing can be told
            return 0.0, most
        return float(D @ np.linalg.solve(C, D)), most

    def diagnostics(self) -> Diagnostics:
        found = super().diagnostics()
        if not self._is_twin or learned(self._s) < practice.ENOUGH:
            return found
        H, most = self.hausman()
        words = found.advice
        if H > most:
            words += (
                "the mean and the typical reward do not order the arms alike; the mean decides. "
                'target="typical" would choose otherwise.',
            )
        return replace(found, mean_differs=H / most, advice=words)
