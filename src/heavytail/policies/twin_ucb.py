"""Twin-UCB: a bulk and a mean on one Gram matrix. Ours; no paper's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final, final

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
    NO_ARM,
    OK,
    PROJECTED,
    RADIUS,
    SET_ANEW,
    STEP,
    THETA,
)
from heavytail.kernels.one_pass import measure
from heavytail.kernels.scale import NORMAL_CONSISTENCY
from heavytail.kernels.scores import PRODUCT, multiply
from heavytail.policies.core import forgetting, practice, sharp, theory, two_estimates
from heavytail.policies.core.answers import Explanation
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.forgetting import clear, drop_log_det, foresee, remember
from heavytail.policies.core.info import Info
from heavytail.policies.core.practice import (
    PRACTICE,
    SIZES,
    begin,
    doubt_unit,
    learned,
    radius,
    scale_of,
    step,
    tune,
    watch,
)
from heavytail.policies.core.theory import THEORY
from heavytail.policies.core.two_estimates import (
    BULK_EXPLORATION,
    EXPLORATION,
    TWO,
    bulk_row,
    learn_bulk,
    look,
    predict_bulk,
)
from heavytail.tails import MomentBound

__all__ = ["TwinUCB"]

TYPICAL_EXPLORATION: Final = 0.8  # of the bulk where it is alone
TRUST: Final = 0.15  # of the mean's radius without exploration: how far the bulk is believed
AUDITS: Final = 3.0  # a share AUDITS t^(-1/3) of the rounds, but at most ...
MOST_AUDITS: Final = 0.5
FEWER: Final = (AUDITS / MOST_AUDITS) ** 3.0  # the round from which it is less

S: Final = TWO
P: Final = PRACTICE
BULK: Final = SCORES  # the row of a pool's scores behind the linear index's


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

    **Sharp** (``radius="sharp"``, needs ``tail`` and ``theta_bound``; anytime): the same rule with
    the mean and the width of ``HvtUCB(radius="sharp")``. With probability 1 - delta every round's
    regret is at most 8 radius * width of the arm played, and it learns at the whole width.

    >>> import heavytail as ht
    >>> policy = ht.TwinUCB(2)
    >>> arm = policy.select([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.update([1.0, 0.0], reward=3.5)

    Args:
        dim: length of a feature vector.
        target: "mean", or "typical": the bulk alone, for noise that is an error to be ignored
            (sensors, contaminated logs), and the fastest where it has one shape for all arms.
            What is proved is of the mean.
        tail: the moment bound on the noise, if it is known; otherwise its scale is learned, and a
            round's ``scale`` says how it compares with other rounds. Needed by the theory and by
            the sharp width, which also takes "symmetric": symmetric noise of any size.
        horizon: T. Needed by the theory; otherwise a promise, warned about once it is broken.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        radius: "empirical" (no guarantee), "theory" or "sharp".
        theta_bound: S >= ‖theta*‖; 1 in the theory unless given, the sharp width must be told.
        radius_scale: multiplies the radius, not if "empirical"; below 1 the guarantee is gone.
        delta: failure probability, sharp only; 0.05 unless given.
        forget: weight of a round one step older, "empirical" only: 0.999 remembers about 1,000
            rounds, 1 all of them, and the diagnostics say when theta seems to have changed; "auto"
            then begins anew by itself. Nothing is forgotten nor watched unless given.
    """

    name = "Twin-UCB"
    info = Info(
        method="two Huber estimates",
        reference="this library",
        regret="none proved; in theory and sharp 4 times Hvt-UCB's",
        cost="O(1)",
        storage="O(1)",
        moment="central",
        uses_scale=True,
        sources=(
            "*Ours*: the rule, and constants chosen for the distribution of regret. "
            '`radius="theory"`: the mean is Algorithm 1 with Lemma 1 of the paper of Hvt-UCB; that '
            "playing another's choice among plausible arms costs a factor 1 + c is ours, proved on "
            "the page on two estimates, which says what holds at the sharp width. *Decided*: c = 3."
        ),
    )
    slots: tuple[Any, ...] = (COMMON, PRACTICE, THEORY, S)
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
        delta: float | None = None,
        forget: float | str | None = None,
    ) -> None:
        check = Check(type(self))
        check.choice("radius", radius, ("empirical", "theory", "sharp"))
        self._start(dim, sharp.stated(check, tail, radius), horizon, scale_known=False)
        twin = check.choice("target", target, ("mean", "typical")) == "mean"
        if radius != "empirical" and not twin:
            raise ValueError(f'TwinUCB.target must be "mean" for radius="{radius}".')
        if radius != "sharp" and delta is not None:
            raise ValueError(f'TwinUCB.delta is for radius="sharp" only; got {delta!r}.')
        proved: dict[str, Any] = {"arm_bound": arm_bound, "theta_bound": theta_bound}
        proved["radius_scale"] = 1.0 if radius_scale is None else radius_scale
        if radius == "sharp":
            sharp.check_unused(check, forget=forget)
            two_estimates.begin_sharp(self, check, delta=delta, **proved)
            return
        forget = self._asked_to_forget(check, forget, self.dim + 1, radius == "theory")
        if radius == "theory":
            told = theory.check_told(check, tail, horizon)
            two_estimates.begin_theory(self, check, told, **proved)
            return
        for name, value in (("theta_bound", theta_bound), ("radius_scale", radius_scale)):
            if value is not None:
                raise ValueError(f'TwinUCB.{name} is not for radius="empirical"; got {value!r}.')
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
        if self.update_kernel is not two_estimates.update_theory:
            practice.settle_prior(self._s, self._M, self.dim)
        if self.update_kernel is two_estimates.update_theory or self._is_twin:
            self._M[bulk_row(self._M), : self.dim] = self._M[THETA, : self.dim]

    def _half_widths(self, X: FloatArray, level: float) -> FloatArray:
        if self.update_kernel is two_estimates.update_sharp:
            return sharp.half_widths("TwinUCB", self._s, two_estimates.AT, self._widths(X), level)
        if self.update_kernel is two_estimates.update_theory:
            return super()._half_widths(X, level)
        return practice.half_widths(self._s, self._widths(X), level)

    @alone
    def explain(self, arms: ArrayLike) -> Explanation:
        """Why ``select`` would choose as it does among ``arms``: the parts of each index."""
        s, found = self._s, super().explain(arms)
        if self.select_kernel is two_estimates.select_plausible:
            rule = "the largest index, the bulk's, of arms whose high reaches the largest low; but "
            rule += f"the arm of the largest high where it is {two_estimates.WIDER:g} times wider"
            X = self._offered(arms, ".explain")
            mean, bonus = found.parts["mean"], found.parts["bonus"]
            index = X @ self.bulk + s[S.BULK_RADIUS] * self._widths(X)
            parts = {"low": mean - bonus, "mean": mean, "high": mean + bonus, "index": index}
            return replace(found, rule=rule, parts=parts)
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
        inverse = self._M[self._rows.get("gram_inverse", self._rows["inverse"])]
        C = inverse[: self.dim, : self.dim] * max(self._s[S.APART] / t, 1e-300)
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
