"""Controllers that learn the system they steer: certainty equivalence, OFU-LQ, Thompson sampling.

Each works with any identifier. Each has a fallback gain, which the user vouches for: it steers
while nothing is known, when no usable gain is found, and whenever the state is caught diverging.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import check_slots, damaged
from heavytail._storage import Stored, afford, check_fit
from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrices, Matrix, Vector
from heavytail._validate import Check, shown
from heavytail.control.identify import Identifier, as_state, refusal
from heavytail.control.riccati import Q as STATE_COST
from heavytail.control.riccati import R as INPUT_COST
from heavytail.control.riccati import lay
from heavytail.control.steering import (
    DUE,
    FALLBACK,
    GAINS,
    IN_USE,
    C,
    act,
    choose_estimate,
    choose_optimist,
    choose_sample,
    keep_gain,
    learn,
    postpone,
)
from heavytail.control.systems import check_cost, check_gain
from heavytail.kernels.layout import ROUNDS, behind, slot_kinds, slot_names

__all__ = ["OFULQ", "CertaintyEquivalence", "Controller", "ThompsonLQ"]

PREFIX = "identifier."  # of the names of saved arrays


class Controller(Stored):
    """The base of the controllers. ``act(x)`` gives the input, ``update(x, u, x_next)`` learns."""

    noun = "controller"
    name: ClassVar[str]
    choose_kernel: ClassVar[Callable[..., bool]]
    identifier: Identifier

    def _start(
        self,
        identifier: Identifier,
        Q: ArrayLike,
        R: ArrayLike,
        fallback: ArrayLike,
        warmup: int,
        excitation: float,
        state_limit: float,
        gain_limit: float | None,
        seed: int,
    ) -> Check:
        """Check and lay down what all share; the checker of the other arguments."""
        where, check = type(self).__name__, Check(type(self))
        if not isinstance(identifier, Identifier) or identifier.steps:
            raise TypeError(
                f"{where}.identifier must be a fresh SystemIdentifier, RidgeIdentifier or "
                f"BatchHuberIdentifier; got {shown(identifier)}."
            )
        self.identifier = identifier.clone()
        n, d = identifier.n, identifier.d
        m = max(n, d)
        afford(where, (behind(GAINS) + 9) * m * m, {"n": n, "d": d})
        self._W = np.zeros((behind(GAINS), m, m))
        self._room = np.zeros((m, 3 * m))
        self._F = np.zeros((4 * n + d + n, n + d))
        self._u = np.zeros(d)
        c = self._c = np.zeros(behind(C))
        lay(self._W, STATE_COST, check_cost(f"{where}.Q", Q, n, "state", strictly=False))
        lay(self._W, INPUT_COST, check_cost(f"{where}.R", R, d, "input", strictly=True))
        for i in range(d, m):
            self._W[INPUT_COST, i, i] = 1.0
        gain = check_gain(f"{where}.fallback", fallback, d, n)
        lay(self._W, FALLBACK, gain)
        lay(self._W, IN_USE, gain)
        c[C.WARMUP] = check.count("warmup", warmup)
        c[C.EXCITATION] = check.number("excitation", excitation, least=0.0)
        c[C.STATE_LIMIT] = check.number("state_limit", state_limit, above=0.0)
        if gain_limit is None:
            gain_limit = 10.0 * (1.0 + float(np.linalg.norm(gain)))
        c[C.GAIN_LIMIT] = check.number("gain_limit", gain_limit, above=0.0)
        c[C.THETA_LIMIT] = math.inf
        self.reseed(seed)
        return check

    @property
    def packed(self) -> tuple[Vector, Matrices, Vector, Matrix, Matrix]:
        """The arrays that acting and learning work on: c, W, s, M, H."""
        return (self._c, self._W, *self.identifier.packed)

    def reseed(self, seed: int) -> None:
        """Start the controller's own randomness anew."""
        self._c[C.KEY] = Check(type(self)).seed(seed, 2**31)

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        """For each saved array of scalars, the names of its entries."""
        theirs = {PREFIX + key: names for key, names in self.identifier.slot_names().items()}
        return {"scalars": slot_names(C)} | theirs

    @alone
    def state_arrays(self) -> dict[str, Any]:
        own = {"scalars": self._c.copy(), "gain": self._W[IN_USE].copy()}
        return own | {PREFIX + k: array for k, array in self.identifier.state_arrays().items()}

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        where, own = type(self).__name__, {"scalars": self._c, "gain": self._W[IN_USE]}
        check_fit(where, arrays, own)
        check_slots(where, "scalars", slot_kinds(C), arrays["scalars"], self._c)
        if not np.isfinite(arrays["gain"]).all():
            raise damaged(where, "gain", "it is not finite")
        theirs = {k.removeprefix(PREFIX): a for k, a in arrays.items() if k.startswith(PREFIX)}
        check_fit(where, theirs, {"scalars": self.identifier.packed[0]})
        if arrays["scalars"][C.STEPS] != theirs["scalars"][ROUNDS]:
            raise ValueError(f"{where}: the saved state is damaged.")
        self.identifier.restore(theirs)  # refuses before it changes anything
        for key, array in own.items():
            array[...] = arrays[key]

    @alone
    def act(self, x: ArrayLike) -> FloatArray:
        """The input for state ``x``."""
        state = as_state(x, self.identifier.n, type(self).__name__ + ".act", "x")
        if not np.isfinite(state).all():
            raise ValueError(f"{type(self).__name__}.act: x must be finite; got {shown(state)}.")
        act(self._c, self._W, self.identifier.packed[0], state, self._u)
        return self._u.copy()

    @alone
    def update(self, x: ArrayLike, u: ArrayLike, x_next: ArrayLike) -> None:
        """Learn that state ``x`` and input ``u`` led to ``x_next``; the gain is renewed when due.

        ``u`` is what was really applied, should it differ from what :meth:`act` said.
        """
        where = type(self).__name__ + ".update"
        n, d = self.identifier.n, self.identifier.d
        vectors = (
            as_state(x, n, where, "x"),
            as_state(u, d, where, "u"),
            as_state(x_next, n, where, "x_next"),
        )
        self.identifier.reserve(1)
        s, M, H = self.identifier.packed
        code = learn(self._c, s, M, H, *vectors)
        if code < 0:
            raise refusal(code, where, *vectors)
        if code == DUE:
            self.renew()

    @alone
    def renew(self) -> None:
        """Choose a model and its gain now; where none is usable the fallback steers."""
        s, M, _ = self.identifier.packed
        n, d = self.identifier.n, self.identifier.d
        self.identifier.refit()
        usable = type(self).choose_kernel(self._c, self._W, self._room, self._F, s, M, n)
        keep_gain(self._c, self._W, d, n, usable)
        postpone(self._c, s)

    @property
    @alone
    def gain(self) -> FloatArray:
        """K that steers now, the excitation aside: u = K x."""
        c, warm = self._c, self._c[C.STEPS] < self._c[C.WARMUP]
        slot = FALLBACK if warm or c[C.DIVERGING] or c[C.REFUSED] else IN_USE
        return self._W[slot, : self.identifier.d, : self.identifier.n].copy()

    @property
    def steps(self) -> int:
        """Steps learned so far."""
        return int(self._c[C.STEPS])

    @property
    def fallbacks(self) -> int:
        """The number of times that the state was caught diverging and the fallback took over."""
        return int(self._c[C.FALLBACKS])

    @property
    def fallback_steps(self) -> int:
        """Steps the fallback steered after the warm-up."""
        return int(self._c[C.FALLBACK_STEPS])

    @property
    def refusals(self) -> int:
        """The number of times that a model had no usable gain."""
        return int(self._c[C.REFUSALS])

    @property
    def refreshes(self) -> int:
        """The number of times that a gain was computed."""
        return int(self._c[C.REFRESHES])


@final
class CertaintyEquivalence(Controller):
    r"""Steer as if the estimate were the truth, with an excitation that dies out.

    $$u_t = K(\hat\Theta_t)\,x_t + \sigma_0\,t^{-1/4}\,\xi_t,\qquad \xi_t\sim N(0, I)$$

    With sub-Gaussian noise and least squares the regret is Õ(sqrt(T)) (Mania, Tu and Recht 2019;
    Simchowitz and Foster 2020), and the rate of the excitation is the best one. A new gain is
    computed each time t has grown by a tenth.

    >>> import heavytail as ht
    >>> system = ht.control.laplacian(ht.noise.StudentT(2.1))
    >>> identifier = ht.control.SystemIdentifier(system.n, system.d)
    >>> controller = ht.control.CertaintyEquivalence(
    ...     identifier, Q=system.Q, R=system.R, fallback=-0.5 * system.A)
    >>> u = controller.act([0.0, 0.0, 0.0])

    Args:
        identifier: a fresh one; it is copied.
        Q: cost of the state.
        R: cost of the input.
        fallback: a gain that stabilises the true system. Nothing here can check it.
        warmup: steps of fallback and full excitation to begin with.
        excitation: sigma_0.
        decay: the power of t by which the excitation dies out.
        growth: a new gain each time t has grown by this share.
        state_limit: a state longer than this times the noise's spread times log t is diverging.
        gain_limit: a gain with a larger Frobenius norm is refused; 10 (1 + ‖fallback‖) unless
            given.
        seed: fixes the excitation.
    """

    name = "certainty equivalence"
    choose_kernel = staticmethod(choose_estimate)

    def __init__(
        self,
        identifier: Identifier,
        *,
        Q: ArrayLike,
        R: ArrayLike,
        fallback: ArrayLike,
        warmup: int = 50,
        excitation: float = 1.0,
        decay: float = 0.25,
        growth: float = 0.1,
        state_limit: float = 20.0,
        gain_limit: float | None = None,
        seed: int = 0,
    ) -> None:
        check = self._start(
            identifier, Q, R, fallback, warmup, excitation, state_limit, gain_limit, seed
        )
        self._c[C.AFTER] = 1.0
        self._c[C.DECAY] = check.number("decay", decay, least=0.0)
        self._c[C.GROWTH] = check.number("growth", growth, above=0.0)
        self._c[C.EPOCH] = 1.0


class SetController(Controller):
    """The constructor of the controllers that take a model from the confidence set.

    Args:
        identifier: a fresh one; it is copied.
        Q: cost of the state.
        R: cost of the input.
        fallback: a gain that stabilises the true system. Nothing here can check it.
        warmup: steps of fallback and excitation to begin with.
        excitation: standard deviation of the excitation in the warm-up; there is none later.
        radius_scale: multiplies the identifier's radius; below 1 the guarantee is gone.
        theta_limit: S; models of larger Frobenius norm are not taken.
        epoch: least steps between two choices; a choice is due when det V has doubled.
        state_limit: as in :class:`CertaintyEquivalence`.
        gain_limit: as in :class:`CertaintyEquivalence`.
        seed: fixes the excitation, and the draws where there are any.
    """

    def __init__(
        self,
        identifier: Identifier,
        *,
        Q: ArrayLike,
        R: ArrayLike,
        fallback: ArrayLike,
        warmup: int = 50,
        excitation: float = 1.0,
        radius_scale: float = 0.1,
        theta_limit: float = math.inf,
        epoch: int = 10,
        state_limit: float = 20.0,
        gain_limit: float | None = None,
        seed: int = 0,
    ) -> None:
        check = self._start(
            identifier, Q, R, fallback, warmup, excitation, state_limit, gain_limit, seed
        )
        c = self._c
        c[C.RADIUS_SCALE] = check.number("radius_scale", radius_scale, least=0.0)
        limit = check.number("theta_limit", theta_limit, above=0.0, infinite=True)
        c[C.THETA_LIMIT] = limit**2
        c[C.EPOCH] = check.count("epoch", epoch)
        c[C.DOUBLING] = math.log(2.0)


@final
class OFULQ(SetController):
    r"""OFU-LQ: optimism over the confidence set (Abbasi-Yadkori and Szepesvari, COLT 2011).

    $$\tilde\Theta_t \approx \operatorname*{argmin}_{\Theta\in C_t} \operatorname{trace} P(\Theta),
      \qquad u = K(\tilde\Theta_t)\,x$$

    chosen anew when det V has doubled. For sub-Gaussian noise, the ridge identifier with its own
    radius and ``radius_scale=1`` the regret is Õ(sqrt(T)). Arguments: :class:`SetController`.

    >>> import heavytail as ht
    >>> system = ht.control.double_integrator(ht.noise.Gaussian())
    >>> controller = ht.control.OFULQ(ht.control.RidgeIdentifier(2, 1),
    ...     Q=system.Q, R=system.R, fallback=[[-0.2, -0.8]])
    >>> u = controller.act([0.0, 0.0])

    Note: the minimum is not convex and the paper asks for it up to 1/sqrt(t). Here it is sought by
    at most ten Frank-Wolfe steps from the estimate, along the exact gradient: a local minimum.
    """

    name = "OFU-LQ"
    choose_kernel = staticmethod(choose_optimist)


@final
class ThompsonLQ(SetController):
    r"""Thompson sampling: steer by a model drawn uniformly from the confidence set.

    $$\tilde\Theta_t \sim U(C_t),\qquad u = K(\tilde\Theta_t)\,x$$

    drawn anew when det V has doubled (Abeille and Lazaric 2018). A draw without a gain is drawn
    again, at most ten times; then the estimate is taken. Arguments: :class:`SetController`.

    >>> import heavytail as ht
    >>> system = ht.control.double_integrator(ht.noise.Gaussian())
    >>> controller = ht.control.ThompsonLQ(ht.control.SystemIdentifier(2, 1),
    ...     Q=system.Q, R=system.R, fallback=[[-0.2, -0.8]])
    >>> u = controller.act([0.0, 0.0])
    """

    name = "Thompson sampling"
    choose_kernel = staticmethod(choose_sample)
