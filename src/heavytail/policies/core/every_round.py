"""Statistics that every round updates, unweighted and without a unit: how often a reward is not 0,
the plain least-squares fit of all rewards, and how well each direction is known.

Conversion is ridge regression of 1{r ≠ 0}: light-tailed, however heavy the rewards. Least squares
on the same Gram matrix are the *judge*: where every direction is tried again and again they find
the mean under every law that has one, so what is believed of an arm is held near them. An arm is
*overdue* where x'U x, U the inverse of the Gram matrix, is above what the rounds so far ask for.
docs/mathematics/consistency.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from heavytail._typing import Matrix, Vector
from heavytail.kernels.gram import multiply, shrink_block
from heavytail.kernels.jit import jit
from heavytail.kernels.layout import FEATURE, Size, numbered
from heavytail.policies.core.two_estimates import TWO, bulk_row

__all__ = [
    "CONVERSION",
    "EVERY_ROUND",
    "INVERSE",
    "JUDGE",
    "SIZED",
    "SLOPES",
    "TRIED",
    "foretell",
    "learn_always",
    "own_rows",
    "weigh",
]

# Rows behind the bulk's and the sum of all x, counted from the bulk's.
CONVERSION: Final = 2
JUDGE: Final = 3
SLOPES: Final = 4  # of the size of the noise: see :mod:`heavytail.policies.core.noise_size`
TRIED: Final = 5  # U x of the last round
SIZED: Final = 6  # the same by the Gram matrix of the rounds that had a size
INVERSE: Final = 7  # U begins here, and that matrix behind it


class EveryRound(NamedTuple):
    """Slots of what every round teaches."""

    ZEROS: Size  # rewards of exactly 0
    CONVERSION_RADIUS: Size
    CONVERSION_STABILITY: Size
    CONVERSION_ENERGY: Size
    CONVERSION_STEP: int  # what conversion moved by along U x
    JUDGE_STEP: int
    TRIED_GAIN: Size  # k of U <- U - k (U x)(U x)'


EVERY_ROUND: Final = numbered(EveryRound, after=TWO)
E: Final = EVERY_ROUND


def own_rows(size: int) -> dict[str, int | None]:
    """Names and numbers of the rows, as ``PackedPolicy._allocate`` takes them."""
    named = {"conversion": None, "judge": None, "slopes": None}
    return {**named, "": 2, "tried_inverse": size, "size_inverse": size}


@jit
def foretell(M: Matrix, row: int) -> float:
    """Predict by the estimate in a row of M at the x that was measured last."""
    expected = 0.0
    for i in range(M.shape[1]):
        expected += M[row, i] * M[FEATURE, i]
    return expected


@jit
def weigh(M: Matrix) -> float:
    """Lay U x into its row, for the x that was measured last; return x'U x. O(d²)."""
    at = bulk_row(M)
    return multiply(M, at + INVERSE, at + TRIED)


@jit
def learn_always(s: Vector, M: Matrix, squared: float, reward: float, judged: float) -> None:
    """Conversion, the judge, who is told of ``judged``, and U after a round; ``squared`` is what
    ``weigh`` returned. O(d²).
    """
    at = bulk_row(M)
    gain = 1.0 / (1.0 + squared)
    paid = 1.0 if reward != 0.0 else 0.0
    off = paid - foretell(M, at + CONVERSION)
    s[E.CONVERSION_STEP] = off * gain
    s[E.JUDGE_STEP] = (judged - foretell(M, at + JUDGE)) * gain
    s[E.TRIED_GAIN] = gain
    s[E.CONVERSION_STABILITY] += off * off * squared * gain
    s[E.CONVERSION_ENERGY] += off * off
    s[E.ZEROS] += 1.0 - paid
    for i in range(M.shape[1]):
        M[at + CONVERSION, i] += s[E.CONVERSION_STEP] * M[at + TRIED, i]
        M[at + JUDGE, i] += s[E.JUDGE_STEP] * M[at + TRIED, i]
    shrink_block(M, at + INVERSE, at + TRIED, gain)
