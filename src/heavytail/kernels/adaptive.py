"""What adaptive Huber regression does with a round before it fits: sigma_t, tau_t, one row of
history.

Shared by HEAVY-OFUL (Huber) and AdaOFUL (pseudo-Huber), whose fits differ.
"""

from __future__ import annotations

import math
from typing import Final

from heavytail._typing import Matrix, Vector
from heavytail.kernels.batch import TARGET, TAU
from heavytail.kernels.gram import predict, shrink
from heavytail.kernels.huber import leverage, score, threshold
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import (
    CLIPPED,
    FEATURE,
    GAIN,
    LOG_DET,
    OK,
    OVERFLOW,
    OWN,
    PROJECTED,
    ROUNDS,
    STEP,
)
from heavytail.kernels.one_pass import LARGEST, admit, measure

__all__ = ["normaliser", "observe"]

# Slots of s; OWN itself is the lazy fit's.
ORDER: Final = OWN + 1
RIDGE: Final = OWN + 2
SIGMA_MIN: Final = OWN + 3
STEEP: Final = OWN + 4  # 1 / c_0
ROOT: Final = OWN + 5
TAU_0: Final = OWN + 6
RADIUS_SCALE: Final = OWN + 7
PRIOR_ROOT: Final = OWN + 8  # sqrt(lambda) B
SIGMA: Final = OWN + 9  # sigma_t of the last round
TAU_T: Final = OWN + 10  # tau_t of the last round
SLOTS: Final = OWN + 11

LARGEST_PULL: Final = 1e150  # of |psi| ‖a‖: past this a sum's square may leave the range


@jit
def normaliser(s: Vector, width: float, nu: float) -> float:
    """sigma_t = max(nu_t, sigma_min, n / c_0, sqrt(L B n) / (2 c_1 kappa)^(1/4)), n = ``width``."""
    return max(nu, s[SIGMA_MIN], s[STEEP] * width, s[ROOT] * math.sqrt(width))


@jit
def observe(s: Vector, M: Matrix, H: Matrix, x: Vector, reward: float, nu: float) -> int:
    """Keep a round: sigma_t and tau_t, its row of H, V's inverse. The estimate stays. O(d²).

    OK, or what was wrong with the observation, the state untouched.
    """
    code = admit(s, M, x, reward, nu)
    if code != OK:
        return code
    size = M.shape[1]
    row = int(s[ROUNDS])
    squared = measure(s, M, x)
    width = math.sqrt(squared)
    sigma = normaliser(s, width, nu)
    tau = threshold(s[TAU_0], leverage(width, sigma, 1.0), row + 1.0, s[ORDER])
    weight = 1.0 / (sigma * sigma)
    growth = 1.0 + weight * squared
    z = (reward - predict(M)) / sigma
    pull = abs(score(z, tau)) * math.sqrt(weight)
    for i in range(size):
        if not (pull * abs(M[FEATURE, i]) <= LARGEST_PULL):
            return OVERFLOW
    if not (weight <= LARGEST and growth <= LARGEST and abs(reward / sigma) < math.inf):
        return OVERFLOW
    for i in range(size):
        H[row, i] = M[FEATURE, i] / sigma
    H[row, size + TARGET] = reward / sigma
    H[row, size + TAU] = tau
    shrink(M, weight / growth)
    s[ROUNDS] += 1.0
    s[GAIN] = weight / growth
    s[STEP] = 0.0
    s[PROJECTED] = 1.0  # theta moves by a fit, not along u
    s[LOG_DET] += math.log(growth)
    s[SIGMA] = sigma
    s[TAU_T] = tau
    if abs(z) > tau:
        s[CLIPPED] += 1.0
    return OK
