"""CRMM: Xue, Wang, Wan, Yi and Zhang (NeurIPS 2023), the algorithm by means of medians."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from heavytail import links
from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import predict
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    COMMON,
    LOG_DET,
    OK,
    OVERFLOW,
    RADIUS,
    THETA_BOUND,
    Fixed,
    behind,
    numbered,
)
from heavytail.kernels.one_pass import FARTHEST, learn
from heavytail.kernels.repeats import (
    EPOCH,
    end_epoch,
    lay_meant,
    measure_meant,
    median,
)
from heavytail.links import Link
from heavytail.policies.core.algorithm import Algorithm, Arrays
from heavytail.policies.core.base import PackedPolicy
from heavytail.policies.core.epochs import EpochPolicy, check_epoch, in_epochs
from heavytail.policies.core.info import Info
from heavytail.tails import MomentBound

__all__ = ["CRMM"]


class Slots(NamedTuple):
    """CRMM's own numbers."""

    NOISE: Fixed  # R, the bound on the medians' noise
    LOG_INVERSE_DELTA: Fixed
    PRIOR_ROOT: Fixed  # sqrt(lambda) S
    SPAN: Fixed  # 2 S L
    RADIUS_SCALE: Fixed


S: Final = numbered(Slots, after=EPOCH)
REWARDS: Final = behind(S)  # r rewards of the running epoch, then room for as many


@jit
def crmm_radius(
    log_det: float, noise_scale: float, log_inverse_delta: float, prior_root: float, span: float
) -> float:
    """The radius of the Newton step V <- V + x x'/2 under centred noise within ±R.

    sqrt(lambda S² + (4/3) R² log(1/delta) + 2 (R + 2 S L)² log(det V_n / det V_0)), ``span`` being
    2 S L. From ‖theta_{n+1} - theta*‖² <= ‖theta_n - theta*‖² + e²/2 - 2 e (e - eta) +
    (e - eta)² ‖x‖², e = x'(theta_n - theta*), norms in V_n and its inverse: the sum over e is a
    martingale's, minus 3/2 of the sum of e², and ‖x‖²/2 <= log(det V_n / det V_{n-1}).
    """
    range_ = noise_scale + span
    noise = 4.0 / 3.0 * noise_scale * noise_scale * log_inverse_delta
    return math.sqrt(prior_root * prior_root + noise + 2.0 * range_ * range_ * log_det)


def crmm_noise(scale: float, order: float, horizon: int, repeats: int, delta: float) -> float:
    """R with P(some median of ``repeats`` noises exceeds R within T rounds) <= delta.

    A median beyond R needs half of r noises beyond it, which has probability at most
    (4 nu^p / R^p)^(r/2); this is delta / T at R = 4^(1/p) nu (T/delta)^(2/(r p)).
    """
    growth = (horizon / delta) ** (2.0 / (repeats * order))
    return float(4.0 ** (1.0 / order) * scale * growth)


@jit
def current_radius(s: Vector) -> float:
    """The radius after the last epoch, with radius_scale."""
    radius = crmm_radius(s[LOG_DET], s[S.NOISE], s[S.LOG_INVERSE_DELTA], s[S.PRIOR_ROOT], s[S.SPAN])
    return s[S.RADIUS_SCALE] * radius


@jit
def largest_reward(s: Vector) -> float:
    """A median up to this moves theta to no place that the projection cannot come back from: the
    step is at most |z| / sqrt(2 lambda).
    """
    return FARTHEST * s[S.PRIOR_ROOT] * min(1.0, 1.0 / s[THETA_BOUND])


@jit
def spoils(s: Vector, reward: float) -> bool:
    """Tell whether the epoch's median could be too large with this reward, whatever comes after it:
    too many on one side are.
    """
    largest = largest_reward(s)
    if abs(reward) <= largest:
        return False
    side = math.copysign(1.0, reward)
    beyond = 1
    for i in range(int(s[EPOCH.PULLS])):
        if side * s[REWARDS + i] > largest:
            beyond += 1
    return beyond > (int(s[EPOCH.REPEATS]) - 1) // 2


@jit
def update(s: Vector, M: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep the reward; at the epoch's last pull take one Newton step on the median.

    OVERFLOW with the state untouched, at any pull: an epoch that the last one cannot end would
    never end.
    """
    if spoils(s, reward):
        return OVERFLOW
    count = int(s[EPOCH.REPEATS])
    pull = int(s[EPOCH.PULLS])
    if pull + 1 < count:
        s[REWARDS + pull] = reward
        lay_meant(s, M, x)
        return OK
    room = REWARDS + count
    for i in range(count - 1):
        s[room + i] = s[REWARDS + i]
    s[room + count - 1] = reward
    squared = measure_meant(s, M, x)
    z = median(s, room, count) - predict(M)
    code = learn(s, M, x.shape[0], squared, z, 1.0, 2.0, math.inf)
    if code != OK:
        return code
    end_epoch(s)
    s[RADIUS] = current_radius(s)
    return OK


def agrees(policy: PackedPolicy, arrays: Arrays) -> bool:
    """Tell whether an honest epoch could have kept the rewards of a state from outside."""
    s = policy._s
    pulls = int(arrays["scalars"][EPOCH.PULLS])
    kept, largest = arrays["rewards"][:pulls], largest_reward(s)
    beyond = max((kept > largest).sum(), (kept < -largest).sum())
    return bool(beyond <= (int(s[EPOCH.REPEATS]) - 1) // 2)


class CRMM(EpochPolicy):
    r"""Optimism on medians of r pulls of one arm; one pass, O(n d²) per epoch and O(r) kept.

    $$\tilde y_n = \operatorname{median}(y_{n,1},\dots,y_{n,r}),\qquad
      \hat\theta_{n+1} = \operatorname*{argmin}_{\|\theta\|\le S}\
      \tfrac12\|\theta-\hat\theta_n\|^2_{V_n} + (x_n^\top\hat\theta_n-\tilde y_n)\,x_n^\top\theta$$

    **Needs noise symmetric about zero**, and arms that can be played again. Then the regret is
    Õ(d sqrt(T)) with probability 1 - 2 delta at ``radius_scale=1``. Under skewed noise the median
    is not the mean and no number of pulls removes the difference: for centred Pareto noise of
    index 1.5 it is -1.41. ``select`` gives the same arm until its r pulls are spent, and where
    that arm is not offered the nearest one that is; the reward counts for the arm meant.

    >>> import heavytail as ht
    >>> policy = ht.CRMM(1, horizon=100, tail=ht.MomentBound(order=2.0, scale=1.0), repeats=3)
    >>> for reward in (1.0, 1e9, 0.8):
    ...     policy.update([1.0], reward)
    >>> policy.theta.round(3), policy.epochs
    (array([0.667]), 1)

    Args:
        dim: length of a feature vector.
        horizon: T.
        tail: the moment bound on the noise.
        link: "identity" alone. A median of rewards of 0 and 1, or of counts, is no estimate of
            their mean, so that the links for them are refused.
        repeats: r; ceil(2 log(T/delta)) unless given.
        theta_bound: S >= ‖theta*‖.
        arm_bound: L >= ‖x‖; longer vectors are refused.
        ridge: lambda.
        delta: failure probability.
        radius_scale: multiplies the radius; 1 is the theory, below it the guarantee is gone.

    Note: the structure is the paper's, the constants are ours: r and the bound R on the medians
    by ``crmm_noise``, the radius by
    ``crmm_radius``, both derived there. The paper's r is O(log T) with a
    larger constant. There is no threshold to scale.
    """

    name = "CRMM"
    info = Info(
        method="median of pulls",
        reference="Xue et al. 2023",
        regret="d sqrt(T)",
        cost="O(1)",
        storage="O(log T)",
        moment="central",
        symmetric=True,
        repeats=True,
        horizon=True,
        sources=(
            "*Certain*: epochs of r = O(log T) pulls, the median, the same Newton step, and the "
            "need of symmetric noise. *Re-derived*: all constants. A median of r noises exceeds "
            r"$R = (4\nu^p)^{1/p}(T/\delta)^{2/(rp)}$ with probability at most $\delta/T$, and "
            r"$\gamma_n = \lambda S^2 + \tfrac43R^2\log\tfrac1\delta + 2(R+2SL)^2\log\frac{\det "
            r"V_n}{\det V_0}$ follows from the step's own inequality with centred noise within "
            r"$\pm R$. *Decided*: $r = \lceil 2\log(T/\delta)\rceil$, the smallest for which R is "
            "a constant; the paper's own constant is not known here and larger. A test sees it "
            "fail on centred Pareto noise, as it must."
        ),
    )
    algorithm = in_epochs(Algorithm(update=update, slots=(COMMON, EPOCH, S), agree=(agrees,)))

    def __init__(
        self,
        dim: int,
        *,
        horizon: int,
        tail: MomentBound,
        link: str | Link = "identity",
        repeats: int | None = None,
        theta_bound: float = 1.0,
        arm_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        radius_scale: float = 0.03,
    ) -> None:
        check = self._start(dim, tail, horizon)
        self.link = links.named("CRMM.link", link)
        if "link" in self._arguments:
            self._arguments["link"] = self.link.name  # as a file holds it
        if self.link.name != "identity":
            raise ValueError(
                f"CRMM.link must be 'identity'; got {self.link.name!r}. CRMM learns from medians, "
                "and a median of 0/1 rewards or counts is no estimate of their mean. Use CRTM or "
                "GLBOMD with this link."
            )
        theta_bound = check.number("theta_bound", theta_bound, above=0.0)
        arm_bound = check.number("arm_bound", arm_bound, above=0.0)
        log_inverse_delta = check.log_inverse(delta)
        given = None if repeats is None else check.count("repeats", repeats)
        r = check_epoch(check, horizon, lambda T: given or math.ceil(2.0 * math.log(T / delta)))
        self._allocate_epochs(
            r,
            ridge=ridge,
            arm_bound=arm_bound,
            theta_bound=theta_bound,
            runs={"rewards": r},
            spare=r,
        )
        s = self._s
        s[S.NOISE] = crmm_noise(tail.scale, tail.order, horizon, r, delta)
        s[S.LOG_INVERSE_DELTA] = log_inverse_delta
        s[S.PRIOR_ROOT] = math.sqrt(ridge) * theta_bound
        s[S.SPAN] = 2.0 * theta_bound * arm_bound
        s[S.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        s[RADIUS] = current_radius(s)
