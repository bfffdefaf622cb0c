"""Where the parts of a packed state lie.

The state of a linear-index policy is two arrays: ``s``, a vector of scalars, and ``M``, a matrix
whose first rows are vectors and whose later rows are square blocks. Two arrays make a call from
Python cheap and saving, copying, comparing and batching trivial. The first slots are common to all
such policies, so that one selection kernel and one episode loop serve them all; a policy's own
slots start at ``OWN``. A policy with ``rank_one`` leaves GAIN, STEP, PROJECTED and DIRECTION as
said here after every update, 0 where nothing moved.
"""

from __future__ import annotations

from typing import Final

# --- slots of s
ROUNDS: Final = 0  # t, rounds learned so far
RADIUS: Final = 1  # beta_t, the radius the next selection uses
GAIN: Final = 2  # k of the last update: P <- P - k u u', u = M[DIRECTION]
STEP: Final = 3  # c of the last update: theta <- theta + c u, before any projection
PROJECTED: Final = 4  # 1 when the last update moved theta otherwise too: projected, or solved anew
LOG_DET: Final = 5  # log det V_t - log det V_0
ARM_LIMIT: Final = 6  # largest squared norm an arm may have
THETA_BOUND: Final = 7  # S; infinity where there is no ball
CONSTANT: Final = 8  # the constant feature appended to every arm; unused without intercept
CLIPPED: Final = 9  # rounds whose reward was clipped or truncated
OWN: Final = 10  # first slot of a policy's own

# --- rows of M
THETA: Final = 0  # the estimate
DIRECTION: Final = 1  # u = P x of the last update, P before it
FEATURE: Final = 2  # x of the last update, with the constant feature where there is one
SCRATCH: Final = 3  # room for one vector
INVERSE: Final = 4  # P = V^-1 begins here, D rows; room for a factor of it follows, D + 1 rows

# --- what a kernel answers
OK: Final = 0
BAD_X: Final = -1  # a feature that is not finite, or a vector longer than its bound
BAD_REWARD: Final = -2
BAD_SCALE: Final = -3
OVERFLOW: Final = -4  # finite input, but the state would leave the floating-point range
NO_ARM: Final = -5  # no arms, or all of them NaN


def rows(size: int) -> int:
    """Rows of ``M`` for an estimate of ``size`` coordinates."""
    return INVERSE + 2 * size + 1
