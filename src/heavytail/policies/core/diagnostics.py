"""The state of a policy in numbers that an engineer can put on a dashboard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytail._typing import FloatArray

__all__ = ["Diagnostics", "on_ball"]


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """A snapshot; None where the policy does not keep track of it.

    Attributes:
        rounds: rewards learned.
        pending: decisions that wait for their reward.
        radius: beta_t.
        clipped_share: part of the rewards that were clipped or truncated.
        threshold: where the last reward would have been clipped, as a distance from its
            prediction, in the unit of the reward.
        scale: the noise's running scale, in the unit of the reward: its standard deviation where
            it is normal. With the log link both are in units of the model's standard deviation,
            the root of the mean for counts and the mean for amounts.
        effective_samples: (sum w)² / sum w² over the rounds' weights w: how many equal rounds
            carry as much.
        tail_index: of the residuals, from how many lie beyond 4 and beyond 16 scales; infinity
            where none is beyond 16. Below 2 the variance looks infinite. It is the slope between
            the two: a few values all far beyond 16 make it small and say nothing of the tail.
        mean_differs: Hausman's H over what it may be by chance: above 1, the mean and the typical
            reward do not rise and fall alike over the arms. Exact for noise of one size.
        drift: how far rewards keep lying from what is expected of them, as a share of what is taken
            for a theta that changed; None where ``forget`` was not given.
        advice: what deserves a look, in words; empty where nothing does.
    """

    rounds: int
    pending: int
    radius: float
    clipped_share: float | None = None
    threshold: float | None = None
    scale: float | None = None
    effective_samples: float | None = None
    tail_index: float | None = None
    mean_differs: float | None = None
    drift: float | None = None
    advice: tuple[str, ...] = ()


def on_ball(theta: FloatArray, bound: float) -> list[str]:
    """Advice where the estimate lies on its ball; empty where it does not."""
    if np.linalg.norm(theta) <= 0.999 * bound:
        return []
    return [f"theta lies on the ball of radius {bound:.3g}: theta_bound may be too small."]
