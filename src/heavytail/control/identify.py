"""Identifying x_{t+1} = Theta' z_t + w, z = (x, u), online: one-pass Huber, ridge, batch Huber.

All n rows of Theta' share one inverse Gram matrix, so a step costs O((n + d)²) once and O(n + d)
per row, whatever t is. The kernels and radii are the bandits' own.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from heavytail._invariants import check_slots, damaged
from heavytail._memory import grown
from heavytail._storage import Stored, afford, check_fit, of_length
from heavytail._turns import alone
from heavytail._typing import FloatArray, Matrix, Vector
from heavytail._validate import Check, as_numbers, as_rows
from heavytail.control.estimate import (
    FIELDS,
    PER_ROW,
    ROW,
    S,
    current_radius,
    kinds,
    names,
    observe,
    spread,
    threshold,
)
from heavytail.kernels.layout import ARM_LIMIT, CLIPPED, INVERSE, LOG_DET, RADIUS, ROUNDS, rows
from heavytail.kernels.m_estimate import extra_rows, newton
from heavytail.kernels.scale import NORMAL_CONSISTENCY

__all__ = ["BatchHuberIdentifier", "Identifier", "RidgeIdentifier", "SystemIdentifier"]

NO_GROUP = -1  # of rows: the batch fit takes them all
UNBOUNDED = 1e300  # ‖z‖²: anything that can be squared


class Identifier(Stored):
    """The base of the identifiers: they learn from (x, u, x_next) and know how sure they are.

    The confidence set is {Theta : trace((Theta - Theta_t)' V_t (Theta - Theta_t)) <= radius²}.
    """

    noun = "identifier"
    name: ClassVar[str]
    one_pass: ClassVar[bool]  # whether memory and the cost of a step never grow
    n: int
    d: int

    def _allocate(
        self, n: int, d: int, scale: float, clip: float, ridge: float, tunes: bool = False
    ) -> Check:
        """Build the state of one that has seen nothing; the checker of the other arguments."""
        check = Check(type(self))
        self.n, self.d = check.count("n", n), check.count("d", d)
        size = self.n + self.d
        afford(check.owner, (rows(size) + extra_rows(size) + self.n) * size, self._arguments)
        self._M = np.zeros((rows(size) + extra_rows(size) + self.n, size))  # first: it is the most
        s = self._s = np.zeros(len(names(self.n, tunes)))
        self._H = np.zeros((0, size + 1 + self.n))
        s[S.RIDGE] = check.number("ridge", ridge, above=0.0)
        s[S.SCALE] = check.number("scale", scale, above=0.0)
        s[S.CLIP] = check.number("clip", clip, above=0.0, infinite=True)
        s[S.KEEPS], s[S.TUNES] = not self.one_pass, tunes
        s[S.SEEN] = s[S.INSIDE] = 1.0
        s[ARM_LIMIT] = UNBOUNDED
        self._M[INVERSE : INVERSE + size] = np.eye(size) / s[S.RIDGE]
        # To begin with, the stated scale is believed.
        fields = s[FIELDS : FIELDS + PER_ROW * self.n].reshape(self.n, PER_ROW)
        fields[:, ROW.TYPICAL] = 1.0 / NORMAL_CONSISTENCY
        fields[:, ROW.TAU] = s[S.CLIP]
        return check

    @property
    def packed(self) -> tuple[Vector, Matrix, Matrix]:
        """The arrays the kernels work on."""
        return (self._s, self._M, self._H)

    def reserve(self, steps: int) -> None:
        """Make room for ``steps`` more steps where they are kept."""
        if self._s[S.KEEPS] == 1.0 and self.steps + steps > self._H.shape[0]:
            rows = self._H[: self.steps]
            self._H = grown(type(self).__name__, rows, self.steps + steps)

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        """For each saved array of scalars, the names of its entries."""
        return {"scalars": names(self.n, self._s[S.TUNES] == 1.0)}

    def _views(self) -> dict[str, Any]:
        """Views of the arrays that the identifier remembers, by name."""
        size = self.n + self.d
        inverse = self._M[INVERSE : INVERSE + size]
        arrays = {"scalars": self._s, "theta": self._M[-self.n :], "inverse": inverse}
        if self._s[S.KEEPS] == 1.0:
            arrays["history"] = self._H[: self.steps]
        return arrays

    def is_sound(self) -> bool:
        return not np.isnan(self._s).any()

    @alone
    def state_arrays(self) -> dict[str, Any]:
        return {key: array.copy() for key, array in self._views().items()}

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        self._check_saved(arrays)
        s = arrays["scalars"]
        self.reserve(int(s[ROUNDS]) - self.steps)
        self._s[...] = s  # first: they say how much of the rest is in use
        for key, array in self._views().items():
            array[...] = arrays[key]

    def _check_saved(self, arrays: dict[str, Any]) -> None:
        where, wanted = type(self).__name__, self._views()
        check_fit(where, arrays, {"scalars": self._s})
        s = arrays["scalars"]
        check_slots(where, "scalars", kinds(self.n, bool(self._s[S.TUNES])), s, self._s)
        if not 1.0 <= s[S.INSIDE] <= s[S.SEEN]:
            raise damaged(where, "scalars", "its counts do not fit what they count")
        if s[S.KEEPS] == 1.0:
            wanted["history"] = of_length(self._H, int(s[ROUNDS]), 0)
        check_fit(where, arrays, wanted)
        for key in wanted:
            if key != "scalars" and not np.isfinite(arrays[key]).all():
                raise damaged(where, key, "it is not finite")

    @alone
    def update(self, x: ArrayLike, u: ArrayLike, x_next: ArrayLike) -> None:
        """Learn that state ``x`` and input ``u`` led to ``x_next``."""
        where = type(self).__name__ + ".update"
        x, y = as_state(x, self.n, where, "x"), as_state(x_next, self.n, where, "x_next")
        u = as_state(u, self.d, where, "u")
        self.reserve(1)
        code = observe(self._s, self._M, self._H, x, u, y)
        if code < 0:
            raise refusal(code, where, x, u, y)

    @alone
    def refit(self) -> None:
        """Make the estimate that of everything kept; nothing to do for a one-pass identifier."""
        s, size = self._s, self.n + self.d
        if s[S.KEEPS] == 0.0 or s[S.FRESH] == 1.0:
            return
        for j in range(self.n):
            self._H[: self.steps, size] = self._H[: self.steps, size + 1 + j]
            tau, at = float(threshold(s, j)), self._M.shape[0] - self.n + j
            rows_of = (self._M, self._H, self.steps, at)
            newton(*rows_of, s[S.RIDGE], math.inf, tau, False, NO_GROUP, NO_GROUP)
        s[S.FRESH] = 1.0

    @property
    @alone
    def theta(self) -> FloatArray:
        """The estimate of Theta*, a copy, (n + d, n): x_next is theta' z plus noise."""
        self.refit()
        return self._M[-self.n :].T.copy()

    @property
    def A(self) -> FloatArray:
        """The estimate of A."""
        return self.theta.T[:, : self.n].copy()

    @property
    def B(self) -> FloatArray:
        """The estimate of B."""
        return self.theta.T[:, self.n :].copy()

    @property
    def steps(self) -> int:
        """Steps learned so far."""
        return int(self._s[ROUNDS])

    @property
    def radius(self) -> float:
        """beta_t of the confidence set."""
        return float(self._s[RADIUS])

    @property
    def log_det(self) -> float:
        """log det V_t - log det V_0: what has been learned, in nats."""
        return float(self._s[LOG_DET])

    @property
    @alone
    def inverse_gram(self) -> FloatArray:
        """V_t^-1, a copy."""
        size = self.n + self.d
        return self._M[INVERSE : INVERSE + size].copy()

    @property
    def spread(self) -> FloatArray:
        """The typical size of each row's residual, as a standard deviation is of a normal's."""
        return np.array([spread(self._s, j) for j in range(self.n)])

    @property
    def clipped(self) -> int:
        """Residuals beyond their threshold so far, all rows together."""
        return int(self._s[CLIPPED])

    @property
    def state_bytes(self) -> int:
        """Bytes of everything it remembers; what it has merely reserved does not count."""
        kept = self.steps * self._H.itemsize * self._H.shape[1] if self._s[S.KEEPS] == 1.0 else 0
        return int(self._s.nbytes + self._M.nbytes + kept)

    def contains(self, theta: ArrayLike) -> bool:
        """Tell whether ``theta``, (n + d, n), lies in the confidence set."""
        asked = self._asked(theta, "contains")  # first: to look refits what is kept
        gap = asked - self.theta
        squared = float(np.trace(gap.T @ np.linalg.solve(self.inverse_gram, gap)))
        return squared <= self.radius**2

    def error(self, theta: ArrayLike) -> float:
        """‖Theta_t - theta‖, the Frobenius distance."""
        asked = self._asked(theta, "error")
        return float(np.linalg.norm(self.theta - asked))

    def _asked(self, theta: ArrayLike, method: str) -> FloatArray:
        """``theta`` as a finite array of fitting shape."""
        where = f"{type(self).__name__}.{method}: theta"
        asked = as_rows(theta, (self.n + self.d, self.n), where)
        if not np.isfinite(asked).all():
            raise ValueError(f"{where} must be finite; got {asked[~np.isfinite(asked)][0]}.")
        return asked


class HuberIdentifier(Identifier):
    """The constructor of the Huber identifiers.

    Args:
        n: length of the state.
        d: length of the input.
        scale: a guess at the size of the noise; a wrong one corrects itself.
        target: "typical", a fixed threshold: consistent where the noise has one law whatever z is,
            which is the model, and the more exact there under heavy tails. Or "mean", a threshold
            that grows by itself: for noise whose skew or size depends on the state.
        clip: threshold in spreads of the residual, the least of it where it grows; ``math.inf``
            never clips, and the one-pass identifier is recursive ridge regression exactly.
        ridge: lambda.
        exploration: factor of the radius, :func:`heavytail.confidence.empirical_radius` row by row.
        delta: failure probability that the radius is computed for.
        theta_bound: a guess at the length of a row of Theta*', used in the radius alone.
    """

    def __init__(
        self,
        n: int,
        d: int,
        *,
        target: str = "typical",
        scale: float = 1.0,
        clip: float = 1.2,
        ridge: float = 1.0,
        exploration: float = 1.0,
        delta: float = 0.01,
        theta_bound: float = 1.0,
    ) -> None:
        tunes = Check(type(self)).choice("target", target, ("mean", "typical")) == "mean"
        check = self._allocate(n, d, scale, clip, ridge, tunes and clip != math.inf)
        s, bound = self._s, check.number("theta_bound", theta_bound, above=0.0)
        s[S.EXPLORATION] = check.number("exploration", exploration, least=0.0)
        s[S.PRIOR] = s[S.RIDGE] * bound**2 / s[S.SCALE] ** 2
        s[S.LOG_INVERSE_DELTA] = math.log(1.0 / check.delta(delta))
        s[RADIUS] = current_radius(s, self.n)


@final
class SystemIdentifier(HuberIdentifier):
    r"""One-pass Huber identification: O((n + d)²) per step, nothing of the past kept.

    $$\Theta_{j} \leftarrow \Theta_{j} + V_t^{-1} z_t\,
      \psi_{\tau_{t,j}}\bigl(x_{t+1,j} - \Theta_j^\top z_t\bigr),\qquad
      V_t = \lambda I + \sum_{s\le t} \frac{z_s z_s^\top}{\alpha_s}$$

    with psi the clip to ±tau, tau = ``clip`` (or more, where the target is the mean) times the
    row's running spread times sqrt(1 + ‖z‖²_{V^-1}/alpha), and 1/alpha the share of residuals not
    clipped so far. It is the bandits' one-pass step with three differences, all for the sake of
    z = (x, u) being heavy-tailed itself. No z is weighted down but one longer than 1e7
    sqrt(lambda), which V could not hold: the largest, which follow the largest w, say most about
    the system. A residual at such a z also carries the estimate's
    error times z, so its threshold grows with its leverage. And V is the Hessian of the Huber loss
    rather than of the squared one.

    No theorem covers it: the samples are dependent and ‖z‖ is unbounded. Under noise that is not
    symmetric a fixed clip shifts every row's mean; z averages to zero in a stable loop, so Theta is
    hardly moved by that, unless the skew depends on z. The confidence set leaves the bias out.
    Arguments: :class:`HuberIdentifier`.

    >>> import heavytail as ht
    >>> identifier = ht.control.SystemIdentifier(1, 1)
    >>> identifier.update([1.0], [0.0], [1e12])
    >>> bool(abs(identifier.theta).max() < 2.0)
    True
    """

    name = "one-pass Huber"
    one_pass = True


@final
class RidgeIdentifier(Identifier):
    r"""Recursive ridge regression: what adaptive control uses. O((n + d)²) per step.

    $$\Theta_t = V_t^{-1}\sum_s z_s x_{s+1}^\top,\qquad
      \beta_t = nL\sqrt{\log\frac{\det V_t}{\det\lambda I} + 2\log\frac1\delta}
      + \sqrt\lambda S$$

    For component-wise L-sub-Gaussian noise Theta* lies in the set at all times with probability
    1 - delta (Abbasi-Yadkori and Szepesvari, COLT 2011, Theorem 1). Heavy-tailed noise has no L.

    >>> import heavytail as ht
    >>> identifier = ht.control.RidgeIdentifier(1, 1)
    >>> identifier.update([1.0], [0.0], [1.0])
    >>> identifier.theta.ravel()
    array([0.5, 0. ])

    Args:
        n: length of the state.
        d: length of the input.
        noise_bound: L.
        ridge: lambda.
        delta: failure probability.
        theta_bound: S >= the Frobenius norm of Theta*.
    """

    name = "ridge"
    one_pass = True

    def __init__(
        self,
        n: int,
        d: int,
        *,
        noise_bound: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.01,
        theta_bound: float = 1.0,
    ) -> None:
        check = self._allocate(n, d, 1.0, math.inf, ridge)
        s, bound = self._s, check.number("theta_bound", theta_bound, above=0.0)
        s[S.NOISE_BOUND] = self.n * check.number("noise_bound", noise_bound, above=0.0)
        s[S.LOG_INVERSE_DELTA] = math.log(1.0 / check.delta(delta))
        s[S.PRIOR_ROOT] = math.sqrt(s[S.RIDGE]) * bound
        s[RADIUS] = current_radius(s, self.n)


@final
class BatchHuberIdentifier(HuberIdentifier):
    r"""Huber regression on everything seen, solved anew whenever it is asked for. O(t) memory.

    $$\Theta_{j} = \operatorname*{argmin}_\theta\ \tfrac\lambda2\|\theta\|^2 +
      \sum_{s\le t}\ell_{\tau_j}\bigl(x_{s+1,j} - \theta^\top z_s\bigr)$$

    The yardstick of :class:`SystemIdentifier`: the same thresholds (running spreads, without the
    leverage) and no shortcut. Solved exactly, from the last estimate on; a step that is not
    asked about costs what a one-pass step does. Arguments: :class:`HuberIdentifier`.

    >>> import heavytail as ht
    >>> identifier = ht.control.BatchHuberIdentifier(1, 1)
    >>> identifier.update([1.0], [0.0], [1.0])
    >>> identifier.one_pass
    False

    Note: V_t and the radius are the one-pass identifier's; the set is put around this estimate.
    """

    name = "batch Huber"
    one_pass = False


def as_state(value: ArrayLike, size: int, where: str, name: str) -> FloatArray:
    """``value`` as a float64 vector of length ``size``, or refuse it by name."""
    array = as_numbers(value, f"{where}: {name}", f"{size} numbers")
    if array.shape != (size,):
        raise ValueError(f"{where}: {name} must be {size} numbers; got shape {array.shape}.")
    return np.ascontiguousarray(array)


def refusal(code: int, where: str, x: FloatArray, u: FloatArray, y: FloatArray) -> ValueError:
    """The error for a step that :func:`observe` refused."""
    for name, vector in (("x", x), ("u", u), ("x_next", y)):
        bad = np.flatnonzero(~np.isfinite(vector))
        if bad.size:
            return ValueError(
                f"{where}: {name} must be finite; got {vector[bad[0]]} at {bad[0]}. "
                "Nothing was learned."
            )
    return ValueError(
        f"{where}: a step of size {max(np.abs(v).max() for v in (x, u, y)):.3g} would take the "
        "estimate out of the floating-point range. Nothing was learned; change the unit."
    )
