"""The paper's experiments, each a frozen value: what it says, what it leaves open, what was chosen.

Every world is d = 2, 50 arms, T = 18,000, coordinates U[-1, 1], each arm and theta* rescaled to
unit length (the paper's "rescaled to L = 1" could also mean division by the longest; this was
chosen). All noise is centred exactly. A policy that can use a round's scale is told nu_t; the
others get the bound that holds in every round.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from heavytail.environments import LinearBandit
from heavytail.environments.noise import (
    Fisk,
    Gaussian,
    Lomax,
    Noise,
    Pareto,
    Scaled,
    StudentT,
)
from heavytail.tails import MomentBound

__all__ = ["ELEVEN", "SEED", "SETTINGS", "Setting", "setting"]

SEED = 2025  # of the reproduction; another with --seed


@dataclass(frozen=True)
class Setting:
    """A world, what is assumed of its noise, and how that relates to the paper.

    ``scale`` is the paper's nu where it states one (right or wrong); None takes the true one.
    ``worlds`` names the stream of seeds: settings that share it meet the same worlds.
    """

    name: str
    title: str
    group: str
    noise: Noise
    order: float
    says: str = ""
    leaves_open: str = ""
    chosen: str = ""
    scale: float | None = None
    offered: int | None = None
    dim: int = 2
    arms: int = 50
    rounds: int = 18_000
    worlds: str = ""

    @property
    def environment(self) -> LinearBandit:
        """The world."""
        return LinearBandit(self.dim, self.arms, self.noise, offered=self.offered)

    def tail(self, *, uses_scale: bool) -> MomentBound:
        """What a policy is told: the scale at factor 1 if it uses each round's, else the worst."""
        nu = self.noise.scale(self.order) if self.scale is None else self.scale
        if isinstance(self.noise, Scaled) and not uses_scale:
            nu *= 10.0**self.noise.spread
        return MomentBound(order=self.order, scale=nu)

    def seed(self, base: int) -> int:
        """This setting's own seed: adding a setting moves no other."""
        text = f"{base} {self.worlds or self.name}".encode()
        return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")


_STUDENT = Setting(
    name="student",
    title="Student t, 2.1 degrees of freedom",
    group="main",
    noise=StudentT(2.1),
    order=1.99,
    scale=1.31,
    says="t(2.1), eps = 0.99, nu = 1.31; 10 trials.",
    leaves_open="Radius and threshold multipliers, lambda, delta, every baseline's constants.",
    chosen="nu = 1.31 as in the paper, though the true (E|t|^1.99)^(1/1.99) is 4.388: that one is "
    "run beside it as student-true-nu.",
)
_SCALE = "lambda, delta and the radii; which bound the policies without nu_t were given."
_SKEWED = replace(
    _STUDENT,
    group="skewed",
    order=1.49,
    scale=None,
    says="b = c = 1.5, 'eps = 1.49', a time-varying scale as where nu_t varies; 5 trials.",
    leaves_open="Which of the three scales; whether the noise is centred (scipy's is not, and "
    "regret is then linear for everyone); nu.",
    chosen="Order 1 + eps = 1.49 (eps must lie in (0, 1]); centred exactly; factor 10^U(0, 1.5); "
    "true nu.",
)
_VARYING = replace(
    _STUDENT,
    group="scale",
    order=1.69,
    scale=None,
    says="t(1.7), 'eps = df - 0.01', noise times 10^U(0, scale).",
    leaves_open=f"The number of trials; nu; {_SCALE}",
    chosen="Order 1 + eps = 1.69; true nu = 18.71 at factor 1, times the round's factor for "
    "policies that use it, times 10^scale for the others.",
)
_ARMS = replace(
    _STUDENT,
    group="arms",
    says="50 arms, a random subset shown each round; regret against the best shown; 5 trials.",
    leaves_open="The noise.",
    chosen="t(2.1) with the paper's nu = 1.31, on worlds of its own.",
)

SETTINGS: tuple[Setting, ...] = (
    _STUDENT,
    replace(
        _STUDENT,
        name="gaussian",
        title="Gaussian, N(0, 1)",
        noise=Gaussian(),
        order=2.0,
        scale=None,
        says="N(0, 1), eps = 1; 10 trials.",
        chosen="nu = 1, which is the true one.",
    ),
    replace(_SKEWED, name="pareto", title="Pareto, index 1.5", noise=Scaled(Pareto(1.5), 1.5)),
    replace(_SKEWED, name="lomax", title="Lomax, index 1.5", noise=Scaled(Lomax(1.5), 1.5)),
    replace(_SKEWED, name="fisk", title="Fisk, index 1.5", noise=Scaled(Fisk(1.5), 1.5)),
    *(
        replace(
            _VARYING,
            name=f"scale-{spread:g}",
            title=f"Student t(1.7) times 10^U(0, {spread:g})",
            noise=Scaled(StudentT(1.7), spread),
        )
        for spread in (1.5, 2.0, 2.5)
    ),
    *(
        replace(
            _ARMS, name=f"arms-{k}", title=f"{k} of 50 arms shown", offered=None if k == 50 else k
        )
        for k in (50, 40, 30)
    ),
    replace(
        _STUDENT,
        name="student-true-nu",
        title="Student t, 2.1 degrees of freedom, the true nu",
        group="true",
        scale=None,
        worlds="student",
        chosen="The worlds of student with nu = 4.388, the true scale at order 1.99.",
    ),
)
ELEVEN: tuple[str, ...] = tuple(s.name for s in SETTINGS if s.group != "true")


def setting(name: str) -> Setting:
    """The setting called ``name``."""
    for one in SETTINGS:
        if one.name == name:
            return one
    raise ValueError(
        f"no setting is called {name!r}; there are {', '.join(s.name for s in SETTINGS)}."
    )
