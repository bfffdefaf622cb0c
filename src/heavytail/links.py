r"""Links as values: the mean reward as a function of the score $z = x^\top\theta$.

| link | $\mu(z)$ | rewards | canonical |
| --- | --- | --- | --- |
| `identity` | $z$ | any | yes |
| `logistic` | $1 / (1 + e^{-z})$ | 0 or 1: clicks, conversions | yes |
| `log` | $e^z$ | counts, amounts: at least 0 | yes, for counts |
| `probit` | $\Phi(z)$ | 0 or 1 | no |

>>> import heavytail as ht
>>> ht.links.logistic.mean(0.0), ht.links.logistic.slope(0.0)
(0.5, 0.25)
>>> round(1 / ht.links.logistic.flattest(5.0))  # what a policy pays that needs the least slope
150
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from heavytail._typing import FloatArray
from heavytail._validate import as_numbers, check_choice, check_number
from heavytail.kernels import links as kernels

__all__ = ["LINKS", "Link", "hint", "identity", "log", "logistic", "named", "probit"]

KINDS = ("any", "at least 0", "from 0 to 1", "0 or 1")  # of rewards: each holds those behind it
SYNONYMS = {
    "logit": "logistic",
    "sigmoid": "logistic",
    "bernoulli": "logistic",
    "binomial": "logistic",
    "poisson": "log",
    "exp": "log",
    "exponential": "log",
    "counts": "log",
    "linear": "identity",
    "gaussian": "identity",
    "normal": "identity",
}


@dataclass(frozen=True, slots=True)
class Link:
    """mu and what is known of it.

    Attributes:
        name: what policies take it by.
        canonical: whether it is the natural one of an exponential family, so that a likelihood
            stands behind the pull y - mu(z).
        rewards: what rewards it is for, in words.
    """

    name: str
    canonical: bool
    rewards: str
    code: float = field(repr=False)

    @overload
    def mean(self, z: float) -> float: ...
    @overload
    def mean(self, z: FloatArray) -> FloatArray: ...
    @overload
    def mean(self, z: ArrayLike) -> FloatArray | float: ...

    def mean(self, z: ArrayLike) -> FloatArray | float:
        """mu(z), of a number or of each entry of an array."""
        return self._each(kernels.means, z, "mean")

    @overload
    def slope(self, z: float) -> float: ...
    @overload
    def slope(self, z: FloatArray) -> FloatArray: ...
    @overload
    def slope(self, z: ArrayLike) -> FloatArray | float: ...

    def slope(self, z: ArrayLike) -> FloatArray | float:
        """mu'(z), likewise."""
        return self._each(kernels.slopes, z, "slope")

    def steepest(self, bound: float) -> float:
        """The largest slope for |z| <= ``bound``."""
        bound = check_number("Link.steepest: bound", bound, least=0.0)
        return float(kernels.link_slope(self.code, bound if self.name == "log" else 0.0))

    def flattest(self, bound: float) -> float:
        """The least slope for |z| <= ``bound``: all four are flattest at -bound."""
        bound = check_number("Link.flattest: bound", bound, least=0.0)
        return float(kernels.link_slope(self.code, -bound))

    def concordance(self, bound: float) -> float:
        """R of |mu''| <= R mu' for |z| <= ``bound``: self-concordance."""
        bound = check_number("Link.concordance: bound", bound, least=0.0)
        return {"identity": 0.0, "probit": bound}.get(self.name, 1.0)

    def takes(self, rewards: str, *, fractions: bool = False) -> bool:
        """Tell whether all rewards of a kind are fit for it: "any", "at least 0", "from 0 to 1" or
        "0 or 1". With ``fractions`` a link for 0 and 1 takes numbers between them, too.
        """
        least = "from 0 to 1" if fractions and self.rewards == "0 or 1" else self.rewards
        return rewards in KINDS[KINDS.index(least) :]

    def _each(
        self, kernel: Callable[[float, FloatArray], None], z: ArrayLike, name: str
    ) -> FloatArray | float:
        numbers = as_numbers(z, f"Link.{name}: z", "a number or an array of numbers")
        values = np.array(numbers, order="C")  # a copy, which the kernel writes to
        kernel(self.code, values.reshape(-1))
        return values if values.ndim else float(values)


identity = Link("identity", True, "any", kernels.IDENTITY)
logistic = Link("logistic", True, "0 or 1", kernels.LOGISTIC)
log = Link("log", True, "at least 0", kernels.LOG)
probit = Link("probit", False, "0 or 1", kernels.PROBIT)

LINKS = {link.name: link for link in (identity, logistic, log, probit)}


def named(where: str, link: str | Link) -> Link:
    """The link given by its name, or as a link."""
    if isinstance(link, Link):
        link = link.name
    return LINKS[check_choice(where, link, tuple(LINKS), hint=hint(link))]


def hint(link: object) -> str:
    """Advice that names a link by its name here if ``link`` is another name for it, else ""."""
    plain = str.__str__(link).strip().lower() if isinstance(link, str) else ""
    meant = plain if plain in LINKS else SYNONYMS.get(plain)
    return f'Pass "{meant}".' if meant else ""
