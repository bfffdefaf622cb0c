"""Twin-UCB: a bulk and a mean, conversion, and a judge of them all. Ours; no paper's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._turns import alone
from heavytail._typing import FloatArray
from heavytail._validate import Check
from heavytail.kernels import index
from heavytail.kernels.layout import CONSTANT, INVERSE, ROUNDS, THETA
from heavytail.policies.core import (
    answers,
    forgetting,
    practice,
    practice_report,
    sharp,
    theory,
    twin,
    twin_choice,
    two_estimates,
)
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.answers import Explanation, sides
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.diagnostics import Diagnostics
from heavytail.policies.core.every_round import CONVERSION, EVERY_ROUND, JUDGE, own_rows
from heavytail.policies.core.info import Info
from heavytail.policies.core.noise_size import NOISE_SIZE
from heavytail.policies.core.practice import PRACTICE, SIZES, learned
from heavytail.policies.core.practice_report import half_widths_of
from heavytail.policies.core.twin import OWN
from heavytail.policies.core.two_estimates import bulk_row
from heavytail.tails import MomentBound

__all__ = ["TwinUCB"]

TYPICAL_EXPLORATION: Final = 0.8  # of the bulk where it is alone
MOST_PATIENCE: Final = 1e6

S: Final = OWN
E: Final = EVERY_ROUND
P: Final = PRACTICE


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether the shares and counts of a state from outside fit each other."""
    s = arrays["scalars"]
    audits = max(s[S.AUDIT], s[S.LAST_AUDIT])
    shares = s[S.SHARE] <= 1.0 and s[S.DUE] <= 1.0 and audits <= twin.JUDGES
    return bool(shares and s[E.ZEROS] <= s[ROUNDS])


def half_widths(policy: PackedPolicy, X: FloatArray, level: float) -> FloatArray:
    """Half of an interval. A product lies off by what its factors do, each of these at half of
    what ``level`` leaves over.
    """
    assert isinstance(policy, TwinUCB)
    if not policy._has_zeros:
        return half_widths_of(policy, X, level)
    s, each = policy._s, 0.5 + 0.5 * level
    share, amount, spread = policy._parts(X)
    q = sides((1.0 + s[E.CONVERSION_ENERGY]) / (1.0 + s[ROUNDS]), each) * spread
    m = half_widths_of(policy, X, each)
    return np.asarray(np.abs(amount) * q + share * m + q * m)


def explained(policy: PackedPolicy, X: FloatArray) -> Explanation:
    """The parts of the index of each arm: what is expected of it, and by whom."""
    assert isinstance(policy, TwinUCB)
    s, M, at = policy._s, policy._M, bulk_row(policy._M)
    share, amount, spread = policy._parts(X)
    judge = X @ M[at + JUDGE, : policy.dim]
    slopes = X @ M[at + CONVERSION, : policy.dim]
    squares, mean = policy._widths(X) ** 2, X @ M[THETA, : policy.dim]
    rows = zip(mean, X @ policy.bulk, judge, slopes, squares, spread**2, strict=True)
    by = twin_choice.rule_of(s)
    index = np.array([twin_choice.index_of(by, *row) for row in rows])
    parts = {"mean": share * amount, "judge": judge + s[S.JUDGE_LEVEL], "index": index}
    if policy._has_zeros:
        parts = {"conversion": share, "amount": amount, **parts}
    rule = "the largest index: the bulk, held near the mean and the judge, and a bonus"
    if s[S.AUDIT] != 0.0:
        whose = "the mean, or the judge," if s[S.AUDIT] == twin.JUDGES else "the mean"
        rule = f"an arm that was tried too little, else the largest index: {whose} and a bonus"
    return Explanation(policy.select(X), rule, parts)


def report_hausman(policy: PackedPolicy, report: Diagnostics) -> Diagnostics:
    """Add whether the mean and the typical reward order the arms alike."""
    assert isinstance(policy, TwinUCB)
    if learned(policy._s) < practice_report.ENOUGH:
        return report
    H, most = policy.hausman()
    words = report.advice
    if H > most:
        words += (
            "the mean and the typical reward do not order the arms alike; the mean decides. "
            'target="typical" would choose otherwise.',
        )
    return replace(report, mean_differs=H / most, advice=words)


TYPICAL: Final = replace(
    two_estimates.THEORETICAL,
    update=practice.update,
    select=index.select,
    half_widths=half_widths_of,
    explain=answers.explained,
)


def for_the_mean(algorithm: Algorithm) -> Algorithm:
    """The bulk's algorithm held near the mean: choices, answers and checks of Twin-UCB's own."""
    return replace(
        algorithm,
        select=twin_choice.select,
        scoring=twin_choice.TWIN,
        slots=(*algorithm.slots, EVERY_ROUND, NOISE_SIZE, OWN),
        half_widths=half_widths,
        explain=explained,
        agree=(*algorithm.agree, agrees),
        reports=(*algorithm.reports, report_hausman),
    )


MEAN: Final = for_the_mean(replace(TYPICAL, update=twin.update))
ALGORITHMS: Final = {  # by whether the target is the mean, and whether rounds are forgotten
    (True, False): MEAN,
    (True, True): for_the_mean(forgetting.with_memory(TYPICAL, twin.update_forgetting)),
    (False, False): TYPICAL,
    (False, True): forgetting.with_memory(TYPICAL, forgetting.update),
}


class TwinUCB(PackedPolicy):
    r"""The best mean reward, whatever the noise: the policy to take where nothing is known of it.
    One pass, nothing tuned, no unit.

    Four estimates, each for what it is good at:

    - the *mean* $m$ of an amount, a reward other than 0, clipped at a threshold that grows by
      itself: for every noise with a finite moment of order above 1, whatever its shape;
    - the *bulk* $r$, clipped at a fixed one: fast, and right where the noise has one shape for all
      arms. Both weigh a round by $1/\sigma_t^2$, where $\sigma_t$ follows x if the sizes of
      residuals say so, and share the Gram matrix $V_t$;
    - *conversion* $q$, how often a reward is other than 0, 1 as long as none was 0;
    - the *judge* $j$, plain least squares of all rewards, on the unweighted Gram matrix $U_t$.

    In most rounds it plays

    $$\operatorname*{argmax}_x\ \mathrm{clip}\big(q_t(x)\,a_t(x),\ j_t(x) \pm h_t\big)
      + \text{bonus},\qquad
      a_t(x) = \mathrm{clip}\big(x^\top r_t + c_t,\ m_t(x) \pm k\,\beta_t\|x\|_{V_t^{-1}}\big):$$

    the bulk, shifted by $c_t$ to the mean where most is known, as long as neither the mean nor the
    judge contradicts it. A share of the rounds, at first 70 %, are *audits*, played by the mean's
    own optimism so that a rare large reward is seen wherever it is, every fourth by the judge's
    where that expects more. Their share falls as
    $t^{-1/3}$, faster where the mean agrees with the bulk and slower where it does not (Hausman's
    statistic). An audit first looks at an arm that was tried less often than patience asks,
    $\log^2 t$ / 5 times, or $2 \log^2 t$ times until it has paid three times, unless all rewards
    other than 0 were equal (clicks): with these looks regret is o(T) for every law of the rewards
    that has a mean (docs/mathematics/consistency.md). A round costs O(d²), and the state is
    constant.

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
            then begins anew by itself. Nothing is forgotten nor watched unless given. Amounts
            are forgotten with every reward other than 0, conversion with every round.
        patience: how much is spent on looking for rare prizes, 1 unless given; of the mean,
            "empirical" only: multiplies how often an arm is tried that seems not worth it. 0 never
            looks.
    """

    name = "Twin-UCB"
    info = Info(
        method="two Huber estimates",
        reference="this library",
        regret="o(T) on fixed arms, for every law; in theory and sharp 4 times Hvt-UCB's",
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
    algorithm = MEAN

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
        patience: float | None = None,
    ) -> None:
        check = Check(type(self))
        check.choice("radius", radius, ("empirical", "theory", "sharp"))
        self._start(dim, sharp.stated(check, tail, radius), horizon, scale_known=False)
        mean = check.choice("target", target, ("mean", "typical")) == "mean"
        if patience is not None and (radius != "empirical" or not mean):
            raise ValueError(
                f'TwinUCB.patience is for radius="empirical" and target="mean"; got {patience!r}.'
            )
        patience = 1.0 if patience is None else patience
        patience = check.number("patience", patience, least=0.0, most=MOST_PATIENCE)
        if radius != "empirical" and not mean:
            raise ValueError(f'TwinUCB.target must be "mean" for radius="{radius}".')
        if radius != "sharp" and delta is not None:
            raise ValueError(f'TwinUCB.delta is for radius="sharp" only; got {delta!r}.')
        proved: dict[str, Any] = {"arm_bound": arm_bound, "theta_bound": theta_bound}
        proved["radius_scale"] = 1.0 if radius_scale is None else radius_scale
        if radius == "sharp":
            sharp.check_unused(check, forget=forget)
            two_estimates.begin_sharp(self, check, delta=delta, **proved)
            return
        forget = forgetting.checked(check, forget, self.dim + 1, radius == "theory")
        if radius == "theory":
            stated = theory.check_told(check, tail, horizon)
            two_estimates.begin_theory(self, check, stated, **proved)
            return
        for name, value in (("theta_bound", theta_bound), ("radius_scale", radius_scale)):
            if value is not None:
                raise ValueError(f'TwinUCB.{name} is not for radius="empirical"; got {value!r}.')
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        ridge = practice.own_ridge(self.dim, arm_bound)
        self.algorithm = ALGORITHMS[mean, forget is not None]
        runs = {"sizes": SIZES} if mean else {}
        size = self.dim + 1
        self._allocate(
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=math.inf,
            size=size,
            rows={"bulk": None, "centre": None, **own_rows(size)} if mean else None,
            runs=runs if forget is None else forgetting.MEMORY_RUNS,
        )
        self._s[CONSTANT] = arm_bound
        practice.start(
            self,
            check,
            exploration=twin.EXPLORATION if mean else TYPICAL_EXPLORATION,
            delta=None,
            ridge=ridge,
            arm_bound=arm_bound,
            tunes=mean,
        )
        if forget is not None:
            forgetting.start(self, forget)
        if mean:
            self._s[S.PATIENCE], self._s[S.RATIO] = patience, 1.0
            for name in ("tried_inverse", "size_inverse"):
                self._M[self._rows[name]] = np.eye(size) / ridge
            twin.prepare(self._s, self._M, self.dim)

    @property
    def _is_twin(self) -> bool:
        """Tell whether it has two estimates and no theory."""
        return self.algorithm.select is twin_choice.select

    @property
    def bulk(self) -> FloatArray:
        """The fast estimate, of a typical reward, a copy; theta itself with target="typical"."""
        row = bulk_row(self._M) if self._s[P.TUNES] != 0.0 else THETA
        return np.asarray(self._M[row, : self.dim].copy())

    def _begun(self) -> None:
        in_theory = self.algorithm is two_estimates.THEORETICAL
        if not in_theory:
            practice.settle_prior(self._s, self._M, self.dim)
        if in_theory or self._is_twin:
            self._M[bulk_row(self._M), : self.dim] = self._M[THETA, : self.dim]
        if self._is_twin:
            s, M, at = self._s, self._M, bulk_row(self._M)
            M[at + JUDGE] = M[THETA]
            M[at + CONVERSION, self.dim] = 1.0 / s[CONSTANT]
            inverse = M[INVERSE : INVERSE + M.shape[1]]
            M[self._rows["tried_inverse"]] = inverse / (s[P.UNIT] * s[P.NU]) ** 2

    @property
    def _one_estimate(self) -> bool:
        """Predictions may be of a product; ``_means`` and ``half_widths`` know it."""
        return True

    @property
    def _has_zeros(self) -> bool:
        """Tell whether a reward was exactly 0, so that conversion is learned by itself."""
        return self._is_twin and bool(self._s[E.ZEROS] > 0.0)

    @property
    @alone
    def theta(self) -> FloatArray:
        """The slopes of the mean reward; where rewards were 0, those of conversion times amount at
        the average x, a copy.
        """
        M = self._M
        slopes = M[THETA].copy()
        if self._has_zeros:
            at, s = bulk_row(M), self._s
            middle = M[at + 1] / max(s[P.WEIGHT], 1e-300)
            share = float(np.clip(M[at + CONVERSION] @ middle, 0.0, 1.0))
            slopes = share * slopes + float(M[THETA] @ middle) * M[at + CONVERSION]
        return np.asarray(slopes[: self.dim])

    def conversion(self, x: ArrayLike) -> float:
        """The estimated chance that ``x`` pays anything, in [0, 1]; 1 if nothing was ever 0."""
        feature = self._asked_at(x, ".conversion")
        return float(self._parts(feature[None])[0][0])

    def amount(self, x: ArrayLike) -> float:
        """The amount that ``x`` is estimated to pay if it pays, without optimism."""
        return float(self._parts(self._asked_at(x, ".amount")[None])[1][0])

    def _parts(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of each row: the chance that it pays, its mean amount, and the width of the chance."""
        M, F = self._M, self._with_constant(X)
        amount = F[:, : M.shape[1]] @ M[THETA, : F.shape[1]]
        if not self._has_zeros:
            return np.ones(len(X)), amount, np.zeros(len(X))
        at = bulk_row(M)
        U = M[self._rows["tried_inverse"]]
        spread = np.sqrt(np.maximum(np.sum(F @ U * F, axis=1), 0.0))
        return np.clip(F @ M[at + CONVERSION], 0.0, 1.0), amount, spread

    def _means(self, X: FloatArray) -> FloatArray:
        if not self._has_zeros:
            return super()._means(X)
        M, F = self._M, self._with_constant(X)
        share = np.clip(F @ M[bulk_row(M) + CONVERSION], 0.0, 1.0)
        return np.asarray(share * (F[:, : M.shape[1]] @ M[THETA, : F.shape[1]]))

    def _with_constant(self, X: FloatArray) -> FloatArray:
        """The rows with the constant feature behind them."""
        return np.hstack([X, np.full((len(X), 1), self._s[CONSTANT])])

    def hausman(self) -> tuple[float, float]:
        """H, of the difference between the slopes of mean and bulk, and what it may be by chance.

        H = D' C^-1 D with D the difference and C its covariance, that of noise of one shape; by
        chance it stays below d + 2 sqrt(d l) + 2 l, l = log 100 + 2 log log t, at every t.
        """
        t = max(learned(self._s), 3.0)
        sure = math.log(100.0) + 2.0 * math.log(math.log(t))
        most = self.dim + 2.0 * math.sqrt(self.dim * sure) + 2.0 * sure
        if "bulk" not in self._rows:  # one estimate
            return 0.0, most
        block = sharp.gram_row(self._M) if "gram_inverse" in self._rows else INVERSE
        return float(twin.hausman(self._s.copy(), self._M.copy(), self.dim, block, 1.0)), most
