"""The model of a Decider: a forecast from all columns, and a policy that chooses by it.

The forecast is Twin-UCB's estimate on every feature: what each offer is worth in each context. The
policy is Twin-UCB on few: which offer it is, and its forecast. So an offer is tried for what is not
known of it as a whole, not once for every feature of every context, of which there may be hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import Rows
from heavytail.decider.offers import Offers
from heavytail.decider.shape import Shape, encoder_for, joined, learn_shape
from heavytail.encoding import Catalogue, Encoder
from heavytail.policies.core.forgetting import LEAST_WINDOW
from heavytail.policies.twin_ucb import TwinUCB

__all__ = ["Model"]

HALF: Final = 0.5**0.5  # the length of each of the two parts of what the policy sees
MOST_OWN: Final = 64  # offers that the policy tells apart; more share places
PRICES: Final = 10  # hats of a policy that chooses among prices
LOOKED_AT: Final = 1000  # contexts from which the range of the forecast is read
ROOM: Final = 1.5  # times the range that forecasts have had
CHUNK: Final = 4096  # rows encoded at a time
ENOUGH: Final = 32  # rewards before the policy alone says what it expects
STRAIGHT: Final = Shape()
Progress = Callable[[int], None]


class Model:
    """An encoder with its forecast, and the policy.

    Attributes:
        encoder: of contexts and offers; None before the first shape is learned.
        forecast: a policy on the encoder's features, of which the estimate alone is used.
        policy: the policy that chooses.
        shape: what is more than a straight line.
        centre: of the forecasts, and ``scale``, the range within which they are told apart.
    """

    def __init__(
        self,
        offers: Offers,
        *,
        options: dict[str, Any],
        encoder: Encoder | None = None,
        shape: Shape = STRAIGHT,
        centre: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        self.encoder, self.shape, self.centre, self.scale = encoder, shape, centre, scale
        self.options = options
        self.catalogue: Catalogue | None = None
        self.forecast: TwinUCB | None = None
        if encoder is not None:
            self.catalogue = encoder.catalogue(offers.table(), ids=offers.id_column)
            self.forecast = _twin(encoder.dim, options)
            self.forecast.encoder = encoder
        self._static = _identities(offers)
        self.policy = _twin(self._static.shape[1], options)
        self.policy._wide = False  # what it sees is mostly 0, which its kernel passes over
        self._all = np.arange(len(offers))

    @classmethod
    def learned(
        cls,
        contexts: Contexts,
        offers: Offers,
        rows: Rows,
        *,
        options: dict[str, Any],
    ) -> Self:
        """Learn rows from the beginning, the shape first."""
        if options["forget"] is None:  # order says nothing then, and a sorted log must not matter
            rows = rows.where(np.random.default_rng(0).permutation(len(rows)))
        shape = learn_shape(contexts, offers, rows.contexts, rows.offers, rows.rewards)
        encoder = encoder_for(contexts, offers, rows.contexts, shape)
        if encoder is not None:
            encoder = encoder.fixed()
        model = cls(offers, options=options, encoder=encoder, shape=shape)
        model.learn(contexts, offers, rows, begins=True)
        return model

    def fresh(self, offers: Offers) -> Self:
        """One of the same shape and range that has learned nothing."""
        return type(self)(
            offers, options=self.options, encoder=self.encoder, shape=self.shape,
            centre=self.centre, scale=self.scale,
        )  # fmt: skip

    def clone(self, offers: Offers) -> Self:
        """A copy, with all that was learned."""
        twin = self.fresh(offers)
        twin.policy.restore(self.policy.state_arrays())
        if self.forecast is not None and twin.forecast is not None:
            twin.forecast.restore(self.forecast.state_arrays())
        return twin

    def learn(
        self,
        contexts: Contexts,
        offers: Offers,
        rows: Rows,
        *,
        begins: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Learn rows in order. Each is forecast from those before it, some at a time, so that the
        policy sees of the forecast what it will see when it decides.
        """
        forecasts = np.zeros(len(rows))
        start = 0
        while start < len(rows):
            before = start if begins else start + CHUNK
            stop = min(len(rows), start + max(16, min(before // 8, CHUNK)))
            part = rows.where(slice(start, stop))
            if self.forecast is not None:
                X = self.features(contexts, offers, part)
                forecasts[start:stop] = self.forecasts(X, len(X))
                self.forecast.update_many(X, part.rewards)
            if not begins:
                self.policy.update_many(self.arms(part.offers, forecasts[start:stop]), part.rewards)
            if progress is not None:
                progress(stop - start)
            start = stop
        if begins and len(rows):
            self._find_range(contexts, offers, rows)
            self.policy.update_many(self.arms(rows.offers, forecasts), rows.rewards)

    def _find_range(self, contexts: Contexts, offers: Offers, rows: Rows) -> None:
        """Read centre and scale off the forecasts of all offers in recent contexts."""
        if self.forecast is None:
            return
        few = rows.where(np.unique(np.linspace(0, len(rows) - 1, LOOKED_AT).astype(np.int64)))
        shown = np.arange(max(len(few), len(offers)))
        places, at = shown % len(offers), shown % len(few)
        all_of_them = replace(few.where(at), offers=places)
        X = self.features(contexts, offers, all_of_them)
        values = self.forecasts(X, len(X))
        self.centre = float(np.median(values))
        widest = float(np.quantile(np.abs(values - self.centre), 0.99))
        self.scale = max(ROOM * widest, 1e-100)

    def features(self, contexts: Contexts, offers: Offers, rows: Rows) -> FloatArray:
        """The forecast's features of rows, (n, dim)."""
        assert self.encoder is not None
        return self.encoder.transform(joined(contexts, offers, rows.contexts, rows.offers))

    def vectors(self, context: Mapping[str, Any], which: IntArray) -> FloatArray | None:
        """The forecast's features of some offers in one context; None without a forecast."""
        if self.catalogue is None:
            return None
        known = {name: context[name] for name in self.catalogue.context}
        return self.catalogue.arms(known, None if len(which) == len(self._all) else which)

    def forecasts(self, X: FloatArray | None, count: int) -> FloatArray:
        """The rewards expected of offers with these features, 0 before there is a forecast."""
        if X is None or self.forecast is None:
            return np.zeros(count)
        return self.forecast._means(X)

    def expected(self, forecasts: FloatArray, which: IntArray) -> FloatArray | None:
        """The rewards to name as expected of some offers: the forecasts; without one, those that
        the policy expects, and None before it learned much.
        """
        if self.forecast is not None:
            return forecasts
        if self.policy.rounds < ENOUGH:
            return None
        return self.policy._means(self.arms(which, forecasts))

    def arms(self, which: IntArray, forecasts: FloatArray) -> FloatArray:
        """The policy's features of some offers: which offer it is, and its forecast, each of length
        at most sqrt(1/2).
        """
        rows = self._static[which]
        seen = (forecasts - self.centre) * (HALF / self.scale)
        rows[:, -1] = np.minimum(np.maximum(seen, -HALF), HALF)
        return rows

    def updates(
        self, x: FloatArray | None, place: int, reward: float
    ) -> list[tuple[TwinUCB, FloatArray]]:
        """The estimates that learn a reward, and the features of each: ``x`` the forecast, which
        comes first, and the policy those of the offer and what was forecast.
        """
        expected = self.forecasts(None if x is None else x[None], 1)
        seen = self.arms(np.array([place]), expected)[0]
        if x is None or self.forecast is None:
            return [(self.policy, seen)]
        return [(self.forecast, x), (self.policy, seen)]


def _twin(dim: int, options: dict[str, Any]) -> TwinUCB:
    """A policy that forgets as stated, but no sooner than its number of features allows."""
    forget = options["forget"]
    if isinstance(forget, float):
        forget = max(forget, 1.0 - 1.0 / (LEAST_WINDOW * (dim + 1)))
    return TwinUCB(dim, **{**options, "forget": forget})


def _identities(offers: Offers) -> FloatArray:
    """Features that tell offers apart for the policy, and room for the forecast, (n, k + 1)."""
    count = len(offers)
    if offers.ordered is not None:
        at = np.linspace(0.0, PRICES - 1.0, count)[:, None]
        own = np.maximum(1.0 - np.abs(at - np.arange(PRICES)), 0.0)
    else:
        own = np.eye(min(count, MOST_OWN))[np.arange(count) % MOST_OWN]
    return np.column_stack([HALF * own, np.zeros(count)])
