"""Worlds in which one of several offers is shown to a visitor: the cases of benchmarks/decider.py.

A world draws visitors as columns, what each offer would earn from each on average, and what it
would earn this time. All noise is heavy-tailed and has a mean; none of the worlds is told to a
player. Constants of a method may be chosen on ``TUNING`` and seeds below 1000 alone; ``REPORTED``
and seeds from 1000 on are for the record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heavytail._typing import FloatArray

BEFORE = 2000  # visitors seen beforehand, for encoders that must be fitted
RNG = np.random.Generator
Columns = dict[str, NDArray[Any]]
PRICES = np.arange(5.0, 51.0)


class Drawn(NamedTuple):
    """n visitors: the columns, and the mean and the reward of every offer, (n, offers)."""

    columns: Columns
    means: FloatArray
    rewards: FloatArray
    offers: list[dict[str, Any]]
    best: FloatArray | None = None  # what a regret is measured from; the largest mean unless given


class Play(NamedTuple):
    """The rounds of one trial; ``before`` has other visitors, without rewards."""

    columns: Columns
    means: FloatArray
    rewards: FloatArray
    best: FloatArray
    offers: list[dict[str, Any]]
    before: Columns

    @property
    def rounds(self) -> int:
        return len(self.means)

    @property
    def numbers(self) -> list[str]:
        return [name for name, column in self.columns.items() if column.dtype.kind == "f"]

    @property
    def categories(self) -> list[str]:
        return [name for name, column in self.columns.items() if column.dtype.kind != "f"]

    @property
    def features(self) -> dict[str, bool]:
        """The columns of the offers beside ``id``, and whether each is a number."""
        return {c: isinstance(v, float) for c, v in self.offers[0].items() if c != "id"}

    def context(self, t: int) -> dict[str, Any]:
        return {name: column[t].item() for name, column in self.columns.items()}


class World(NamedTuple):
    """A name, a group, and what draws from a generator."""

    name: str
    group: str
    draw: Callable[[RNG, int], Drawn]

    def play(self, seed: int, rounds: int) -> Play:
        drawn = self.draw(
            np.random.default_rng([zlib.crc32(self.name.encode()), seed]), rounds + BEFORE
        )
        ahead = {name: column[BEFORE:] for name, column in drawn.columns.items()}
        before = {name: column[:BEFORE] for name, column in drawn.columns.items()}
        best = drawn.means.max(axis=1) if drawn.best is None else drawn.best
        means, rewards = drawn.means[BEFORE:], drawn.rewards[BEFORE:]
        return Play(ahead, means, rewards, best[BEFORE:], drawn.offers, before)


# Noise: added to the mean, or a factor of mean 1


def t(rng: RNG, n: int, degrees: float = 2.1) -> FloatArray:
    return rng.standard_t(degrees, n)


def pareto(rng: RNG, n: int, index: float = 1.7) -> FloatArray:
    return rng.pareto(index, n) - 1.0 / (index - 1.0)


def lognormal(rng: RNG, n: int, sigma: float = 1.0) -> FloatArray:
    return rng.lognormal(0.0, sigma, n) - np.exp(0.5 * sigma**2)


def fisk(rng: RNG, n: int, index: float = 1.6) -> FloatArray:
    u = rng.uniform(size=n)
    return (u / (1.0 - u)) ** (1.0 / index) - (np.pi / index) / np.sin(np.pi / index)


def contaminated(rng: RNG, n: int) -> FloatArray:
    return rng.normal(size=n) * np.where(rng.random(n) < 0.05, 20.0, 0.7)


def zeros(rng: RNG, n: int, share: float = 0.9, sigma: float = 1.0) -> FloatArray:
    bought = rng.random(n) >= share
    return bought / (1.0 - share) * rng.lognormal(-0.5 * sigma**2, sigma, n)


def rare_lomax(rng: RNG, n: int) -> FloatArray:
    return (rng.random(n) < 0.08) / 0.08 * rng.pareto(2.2, n) * 1.2


def _plus(columns: Columns, means: FloatArray, noise: FloatArray) -> Drawn:
    return Drawn(columns, means, means + noise[:, None], _plain(means.shape[1]))


def _times(columns: Columns, means: FloatArray, factor: FloatArray) -> Drawn:
    return Drawn(columns, means, means * factor[:, None], _plain(means.shape[1]))


def _plain(count: int) -> list[dict[str, Any]]:
    return [{"id": f"offer{k}"} for k in range(count)]


# Visitors


def _pick(rng: RNG, n: int, *names: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    chance = rng.dirichlet(np.full(len(names), 8.0))
    which = rng.choice(len(names), n, p=chance)
    return np.array(names)[which], which


def _hours(rng: RNG, n: int) -> FloatArray:
    night = rng.random(n) < 0.15
    return np.where(night, rng.integers(0, 24, n), np.clip(rng.normal(15, 5, n), 0, 23) // 1.0)


def _rank(column: FloatArray) -> FloatArray:
    """The rank of each value among all, in (0, 1)."""
    return (np.argsort(np.argsort(column)) + 0.5) / len(column)


def _basket(rng: RNG, n: int) -> FloatArray:
    return np.round(rng.lognormal(np.log(30.0), 0.7, n), 2)


def _favourites(rng: RNG, cells: int, offers: int, gap: float = 1.0) -> FloatArray:
    """Levels (cells, offers): in every cell another offer stands out."""
    levels = rng.uniform(0.5, 1.0, (cells, offers))
    order = np.concatenate([rng.permutation(offers) for _ in range(-(-cells // offers))])
    levels[np.arange(cells), order[:cells]] += gap
    return levels


# Not linear, for tuning


def steps(rng: RNG, n: int) -> Drawn:
    """Which offer is best hangs on the basket's bracket, of five."""
    levels, cuts = _favourites(rng, 5, 5), np.linspace(0.0, 1.0, 6)[1:-1]
    cuts = cuts + rng.uniform(-0.05, 0.05, 4)
    basket, (segment, which) = _basket(rng, n), _pick(rng, n, "new", "loyal", "lapsed")
    means = levels[np.digitize(_rank(basket), cuts)] + rng.normal(0.0, 0.1, (3, 5))[which]
    columns = {"segment": segment, "basket": basket, "hour": _hours(rng, n)}
    return _plus(columns, means, t(rng, n))


def bumps(rng: RNG, n: int) -> Drawn:
    """Each offer sells in some hours of the day; one sells a little at all times."""
    centres = rng.permutation([1.0, 9.0, 13.0, 17.0, 21.0]) + rng.uniform(-1.0, 1.0, 5)
    hour, (device, which) = _hours(rng, n), _pick(rng, n, "phone", "desk")
    near = 1.6 * np.exp(-(((hour[:, None] - centres) / 2.2) ** 2))
    means = np.hstack([near + rng.normal(0, 0.1, (2, 5))[which], np.full((n, 1), 0.5)])
    columns = {"device": device, "basket": _basket(rng, n), "hour": hour}
    return _plus(columns, means, 0.7 * pareto(rng, n))


def xor(rng: RNG, n: int) -> Drawn:
    """Two numbers decide together and neither alone. One offer a sign: with two, straight lines
    would give each quadrant an offer of its own.
    """
    basket, visits = _basket(rng, n), rng.geometric(0.12, n).astype(float)
    both = np.tanh(8.0 * (_rank(basket) - 0.5)) * np.tanh(8.0 * (_rank(visits) - 0.5))
    sign = rng.permutation([0.8, 0.1, 0.0, -0.1, -0.8])
    means = 1.0 + both[:, None] * sign + rng.uniform(0.0, 0.1, 5)
    segment, _ = _pick(rng, n, "new", "loyal", "lapsed")
    columns = {"segment": segment, "basket": basket, "visits": visits}
    return _plus(columns, means, lognormal(rng, n))


def basket_by_segment(rng: RNG, n: int) -> Drawn:
    """Every segment has its own bracket of the basket for every offer; 90 of 100 buy nothing."""
    basket, (segment, which) = _basket(rng, n), _pick(rng, n, "new", "loyal", "lapsed", "firm")
    spots = np.array([rng.permutation([0.1, 0.3, 0.5, 0.7, 0.9]) for _ in range(4)])
    off = (_rank(basket)[:, None] - spots[which]) / 0.12
    columns = {"segment": segment, "basket": basket, "hour": _hours(rng, n)}
    return _times(columns, 0.5 + 1.5 * np.exp(-(off**2)), zeros(rng, n))


def three_of_twenty(rng: RNG, n: int) -> Drawn:
    """Fourteen numbers and six categories, of which two numbers and one category matter."""
    columns: Columns = {}
    for j in range(14):
        draws = (rng.normal(size=n), rng.lognormal(0.0, 1.0, n), rng.uniform(0, 100, n))
        columns[f"n{j:02}"] = draws[j % 3]
    for j in range(6):
        columns[f"c{j}"], which = _pick(rng, n, *"abcd"[: 2 + j % 3])
    u, v = (_rank(columns[name]) for name in ("n03", "n07"))
    spots = rng.permutation(np.linspace(0.05, 0.95, 6))
    bump = np.exp(-(((u[:, None] - spots) / 0.2) ** 2))
    above = np.where(v[:, None] > rng.uniform(0.3, 0.7, 6), 0.6, 0.0)
    which = np.unique(columns["c2"], return_inverse=True)[1]
    means = bump + above + rng.uniform(0.0, 0.6, (4, 6))[which]
    return _plus(columns, means, t(rng, n))


def waves(rng: RNG, n: int) -> Drawn:
    """Smooth waves in two numbers, each offer with its own phase."""
    months, hour = np.round(rng.uniform(0.0, 60.0, n), 1), _hours(rng, n)
    phases = rng.permutation(np.linspace(0.0, 2 * np.pi, 6)[:-1]) + rng.uniform(0, 1)
    other = rng.uniform(0.0, 2 * np.pi, 5)
    means = 1.0 + 0.7 * np.sin(2 * np.pi * months[:, None] / 35.0 + phases)
    means += 0.4 * np.cos(2 * np.pi * hour[:, None] / 24.0 + other)
    segment, _ = _pick(rng, n, "new", "loyal", "lapsed")
    columns = {"segment": segment, "months": months, "hour": hour}
    return _plus(columns, means, 0.5 * pareto(rng, n))


# Not linear, held out: other shapes, other noises


def plateaus(rng: RNG, n: int) -> Drawn:
    """The leaves of a tree over two numbers and a device."""
    age, basket = rng.gamma(6.0, 7.0, n), _basket(rng, n)
    device, which = _pick(rng, n, "phone", "desk", "tablet")
    old = _rank(age) > rng.uniform(0.35, 0.65)
    dear = _rank(basket) > np.where(old, rng.uniform(0.3, 0.6), rng.uniform(0.5, 0.8))
    leaf = 2 * old + dear + 4 * (which == 0)
    columns = {"age": np.round(age, 1), "basket": basket, "device": device}
    return _plus(columns, _favourites(rng, 8, 6, 0.9)[leaf], 0.5 * t(rng, n, 1.6))


def rings(rng: RNG, n: int) -> Drawn:
    """The best offer hangs on how far a visitor is from a shop, given two coordinates."""
    east, north = rng.normal(0.0, 4.0, n) + 7.0, rng.normal(0.0, 4.0, n) - 3.0
    far = np.hypot(east - 7.0, north + 3.0)
    spots = rng.permutation([0.0, 2.5, 5.0, 7.5, 10.0])
    means = 0.5 + 1.3 * np.exp(-(((far[:, None] - spots) / 1.6) ** 2))
    return _plus({"east": east, "north": north}, means, 0.8 * pareto(rng, n, 1.8))


def round_the_clock(rng: RNG, n: int) -> Drawn:
    """Peaks that go past midnight, and move by half a day on weekends."""
    hour, day = rng.integers(0, 24, n).astype(float), rng.integers(0, 7, n)
    moved = hour + np.where(day >= 5, 12.0, 0.0)
    centres = rng.permutation(np.linspace(0.0, 24.0, 6)[:-1]) + rng.uniform(0.0, 4.0)
    means = 0.4 + 1.4 * np.clip(np.cos(2 * np.pi * (moved[:, None] - centres) / 24), 0, 1) ** 3
    name = np.array(["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"])[day]
    return _plus({"hour": hour, "day": name}, means, 0.5 * fisk(rng, n))


def ratios(rng: RNG, n: int) -> Drawn:
    """Rewards follow the basket in proportion to the budget."""
    basket, budget = _basket(rng, n), np.round(rng.lognormal(np.log(40.0), 0.6, n), 2)
    level = np.digitize(np.log(basket / budget), np.array([-0.9, -0.1, 0.6]))
    segment, which = _pick(rng, n, "new", "loyal", "lapsed")
    means = _favourites(rng, 4, 5, 0.8)[level] + rng.uniform(0, 0.2, (3, 5))[which]
    columns = {"segment": segment, "basket": basket, "budget": budget}
    return _plus(columns, means, contaminated(rng, n))


def kinks(rng: RNG, n: int) -> Drawn:
    """Valleys |u - c| whose depth hangs on the country; the noise grows with the mean."""
    score, (country, which) = rng.beta(2.0, 2.0, n) * 10.0, _pick(rng, n, "de", "fr", "it", "es")
    centres, depth = rng.permutation(np.linspace(1.5, 8.5, 6)), rng.uniform(0.2, 0.7, (4, 6))
    means = 0.3 + np.clip(np.abs(score[:, None] - centres), 0.0, 4.0) * depth[which]
    columns = {"score": score, "country": country, "hour": _hours(rng, n)}
    return _times(columns, means, rng.lognormal(-0.72, 1.2, n))


def two_of_thirty(rng: RNG, n: int) -> Drawn:
    """Thirty columns; one number turns its effect round with a category. Most buy nothing."""
    columns: Columns = {f"n{j:02}": rng.standard_t(3.0, n) for j in range(20)}
    for j in range(10):
        columns[f"c{j}"], _ = _pick(rng, n, "no", "yes")
    u = np.tanh(2.0 * columns["n11"]) * np.where(columns["c4"] == "yes", 1.0, -1.0)
    means = 1.0 + u[:, None] * rng.permutation(np.linspace(-0.8, 0.8, 5))
    return _times(columns, means, rare_lomax(rng, n))


# Linear


def linear(
    numbers: int,
    categories: int,
    offers: int,
    noise: Callable[[RNG, int], FloatArray],
    matter: int | None = None,
) -> Callable[[RNG, int], Drawn]:
    """Every offer has its own slope in every number, or the first few, and effect of category."""

    def draw(rng: RNG, n: int) -> Drawn:
        columns, means = {}, np.tile(rng.normal(0.0, 0.3, offers), (n, 1))
        size = 1.0 / np.sqrt(max(1, matter or numbers + categories))
        for j in range(numbers):
            z = rng.uniform(-1.7, 1.7, n) if j % 2 else np.clip(rng.normal(size=n), -2.5, 2.5)
            columns[f"n{j}"] = 50.0 + 10.0 * (j + 1) * z
            if matter is None or j < matter:
                means += z[:, None] * rng.normal(0.0, size, offers)
        for j in range(categories):
            columns[f"c{j}"], which = _pick(rng, n, *"abcde"[: 3 + j % 3])
            if matter is None:
                means += rng.normal(0.0, size, (5, offers))[which]
        return _plus(columns, means, noise(rng, n))

    return draw


def shelf(noise: Callable[[RNG, int], FloatArray]) -> Callable[[RNG, int], Drawn]:
    """Fifty offers with a price and a kind; effects of both, and of their crosses."""

    def draw(rng: RNG, n: int) -> Drawn:
        kinds, price = rng.integers(0, 5, 50), np.round(rng.uniform(5.0, 50.0, 50), 2)
        segment, which = _pick(rng, n, "new", "loyal", "lapsed")
        age = np.clip(rng.normal(40.0, 12.0, n), 10.0, 70.0)
        z, p = (age - 40.0) / 12.0, (price - 27.5) / 13.0
        means = rng.normal(0.0, 0.5, 5)[kinds] + rng.normal(0.0, 0.6, (3, 5))[which][:, kinds]
        means = means + (0.2 * rng.normal() + 0.3 * z)[:, None] * p
        columns = {"segment": segment, "age": age}
        offers = [
            {"id": f"offer{k}", "price": float(price[k]), "kind": "abcde"[kinds[k]]}
            for k in range(50)
        ]
        return Drawn(columns, means, means + noise(rng, n)[:, None], offers)

    return draw


def no_context(offers: int, factor: Callable[[RNG, int], FloatArray]) -> Callable[..., Drawn]:
    def draw(rng: RNG, n: int) -> Drawn:
        return _times({}, np.tile(rng.uniform(0.5, 2.0, offers), (n, 1)), factor(rng, n))

    return draw


# Prices


def price(
    demand: Callable[[RNG, NDArray[np.int64]], FloatArray],
    segments: int = 1,
    index: float = 1.7,
) -> Callable[[RNG, int], Drawn]:
    """One product at 46 prices. Who buys pays the price and a heavy-tailed extra."""

    def draw(rng: RNG, n: int) -> Drawn:
        names, which = _pick(rng, n, *[f"s{j}" for j in range(segments)])
        chance = demand(rng, np.arange(segments))[which]
        extra = 2.0 * (index - 1.0) * rng.pareto(index, n)
        means = chance * (PRICES + 2.0)
        rewards = (rng.random(n)[:, None] < chance) * (PRICES + extra[:, None])
        offers = [{"id": f"p{p:.0f}", "price": float(p)} for p in PRICES]
        return Drawn({"segment": names} if segments > 1 else {}, means, rewards, offers)

    return draw


def _logit(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    middle, width = rng.uniform(15.0, 35.0, len(which)), rng.uniform(2.5, 5.0, len(which))
    return 0.6 / (1.0 + np.exp((PRICES - middle[:, None]) / width[:, None]))


def _kink(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    """Linear demand that falls faster beyond what a competitor asks."""
    at, slope = rng.uniform(15.0, 35.0), rng.uniform(0.002, 0.006)
    fall = 0.5 - slope * (PRICES - 5.0) - rng.uniform(0.02, 0.04) * np.clip(PRICES - at, 0, None)
    return np.clip(fall, 0.0, 1.0)[None, :]


def _two_peaks(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    middle = rng.permutation([rng.uniform(12.0, 18.0), rng.uniform(30.0, 40.0)])
    return 0.6 / (1.0 + np.exp((PRICES - middle[:, None]) / 3.0))


def _hidden_two(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    """A crowd that pays little and a few that pay much, whom nobody can tell apart."""
    low, high = rng.uniform(9.0, 14.0), rng.uniform(35.0, 42.0)
    share = rng.uniform(0.3, 0.4)
    both = [1.0 / (1.0 + np.exp((PRICES - middle) / 2.0)) for middle in (low, high)]
    return 0.6 * ((1.0 - share) * both[0] + share * both[1])[None, :]


def _round_prices(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    """Log-normal willingness to pay, and a loss of a fifth past every ten."""
    z = (np.log(PRICES) - np.log(rng.uniform(18.0, 30.0))) / 0.5
    tail = 1.0 / (1.0 + np.exp(1.7 * z))
    return (0.7 * tail * 0.88 ** np.floor((PRICES - 0.5) / 10.0))[None, :]


def _three(rng: RNG, which: NDArray[np.int64]) -> FloatArray:
    rate = rng.permutation([12.0, 20.0, 32.0])[which]
    return 0.7 * np.exp(-((PRICES / rate[:, None]) ** 2) / 2.0)


def _worlds(group: str, **draws: Callable[[RNG, int], Drawn]) -> list[World]:
    return [World(name.replace("_", " "), group, draw) for name, draw in draws.items()]


TUNING: dict[str, World] = {
    world.name: world
    for world in [
        *_worlds("non-linear", steps=steps, bumps=bumps, xor=xor),
        *_worlds("non-linear", basket_by_segment=basket_by_segment),
        *_worlds("non-linear", three_of_twenty=three_of_twenty, waves=waves),
        *_worlds("linear", few=linear(2, 1, 5, t), many=linear(6, 2, 8, lognormal)),
        *_worlds("linear", shelf=shelf(pareto), no_context=no_context(8, zeros)),
        *_worlds("price", logit=price(_logit), kink=price(_kink)),
        *_worlds("price", two_segments=price(_two_peaks, 2)),
    ]
}
REPORTED: dict[str, World] = {
    world.name: world
    for world in [
        *_worlds("non-linear", plateaus=plateaus, rings=rings, round_the_clock=round_the_clock),
        *_worlds("non-linear", ratios=ratios, kinks=kinks, two_of_thirty=two_of_thirty),
        *_worlds("linear", numbers=linear(4, 0, 6, fisk), sparse=linear(10, 3, 5, t, matter=2)),
        *_worlds("linear", groups=linear(0, 4, 6, contaminated), long_shelf=shelf(t)),
        *_worlds("linear", twenty=no_context(20, rare_lomax)),
        *_worlds("price", hidden_two=price(_hidden_two), round_prices=price(_round_prices)),
        *_worlds("price", three_segments=price(_three, 3, 1.5)),
    ]
}
