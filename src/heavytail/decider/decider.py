"""``Decider``: from a table of offers to decisions on rows as they come."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, final

import numpy as np

from heavytail._storage import Stored, is_plain
from heavytail._turns import alone
from heavytail._validate import Check, check_count, check_number, check_reward, shown
from heavytail.decider import (
    choosing,
    closing,
    diagnosing,
    effects,
    explaining,
    learning,
    reporting,
    saving,
    visits,
)
from heavytail.decider import snapshot as snapshots
from heavytail.decider.choice import Choice
from heavytail.decider.contexts import Contexts
from heavytail.decider.history import History
from heavytail.decider.limits import Limits
from heavytail.decider.model import Model
from heavytail.decider.offers import Offers, Rules
from heavytail.decider.prices import ID, VALUE, Grid
from heavytail.decider.report import Report
from heavytail.decider.rounds import KEPT, Round, learn_all, learn_round
from heavytail.decider.tokens import Tokens
from heavytail.encoding import Encoder
from heavytail.ledger.memory import Memory, clock
from heavytail.policies.twin_ucb import TwinUCB

__all__ = ["Decider"]

MOST_DRAW: Final = 2**53 - 1


@final
class Decider(Stored):
    """Chooses offers for visits, learns from what they earn, and says what it has learned.

    Rows go in as they are: dicts, frames, CSV or Parquet. It finds by itself which columns are
    numbers and which categories, which numbers need a curve, which columns act together, in what
    unit rewards are, how often they are 0 and how heavy their tail is: after 32, 64, 128, ...
    rewards, from the last 16,384, which are kept. All the rest is learned in one pass.

    A forecast (:class:`heavytail.TwinUCB` on the features of an :class:`heavytail.Encoder`) says
    what each offer is worth in a context; a second :class:`heavytail.TwinUCB`, which sees the offer
    and its forecast, chooses. Nothing is proved of the two together; how they fare is measured.

    >>> import heavytail as ht
    >>> offers = [{"sku": "card", "price": 19.0}, {"sku": "loan", "price": 49.0}]
    >>> shop = ht.Decider(offers, ids="sku", context=["segment", "basket"])
    >>> choice = shop.decide({"segment": "new", "basket": 31.0})
    >>> choice.id in ("card", "loan"), choice.probability > 0
    (True, True)
    >>> shop.reward(choice.token, 59.90)  # minutes or weeks later, in any order

    Args:
        offers: a list of ids; or one row per offer: a frame, a list of dicts, a dict of columns, a
            CSV or Parquet file. Columns besides the ids say what offers have in common.
        ids: the column of ids, or a list of ids; 0, 1, 2, ... unless given.
        context: the columns of a context: a list of names, whose kinds the first values tell, or a
            dict of kinds: "number", "category", a list of categories, a Spline, or None.
        prices: instead of offers, a :class:`heavytail.Grid` of prices: what is learned at one says
            something of those near it.
        explore: the share of visits in which any offer that may be shown is drawn, so that
            ``report`` can tell what another rule would have earned. 0 explores only as far as it
            serves to earn more.
        rules: who may see which offer: {"coupon": {"segment": ["new"], "basket": (20, None)}}.
        limits: how often an offer may be chosen per day (UTC): {"coupon": 100}.
        forget: as of :class:`heavytail.TwinUCB`: 0.999 lets old rounds fade, "auto" begins anew
            where the world seems to have changed. What has many features forgets no sooner than
            they allow. Nothing is forgotten unless given: under Pareto-like noise "auto" costs more
            than it saves.
        patience: as of :class:`heavytail.TwinUCB`: how much is spent on looking for rare prizes.
        seed: of the draws that explore.
    """

    noun: ClassVar[str] = "decider"

    def __init__(
        self,
        offers: object = None,
        *,
        ids: str | Iterable[object] | None = None,
        context: Sequence[str] | Mapping[str, Any] | None = None,
        prices: Grid | None = None,
        explore: float = 0.02,
        rules: Mapping[str, Mapping[str, Any]] | None = None,
        limits: Mapping[str, int] | None = None,
        forget: float | str | None = None,
        patience: float | None = None,
        seed: int = 0,
    ) -> None:
        check = Check(type(self))
        self._contexts = Contexts(context)
        if (offers is None) == (prices is None):
            raise TypeError("Decider: pass offers, one row for each, or prices=Grid(...).")
        if prices is not None and ids is not None:
            raise TypeError("Decider.ids: prices are their own ids. Leave ids out.")
        if prices is not None:
            offers, ids = Grid.read(prices).offers(), ID
        self._offers = Offers.of(offers, ids, "Decider.offers")
        if prices is not None:
            self._offers.ordered = VALUE
        self._refuse_shared()
        self.explore = explore
        self._rules = Rules({} if rules is None else rules, self._offers, self._contexts)
        self._limits = Limits({} if limits is None else limits, self._offers)
        if forget is not None and not isinstance(forget, str):
            forget = check.number("forget", forget, above=0.0, most=1.0)
        self._options = {"forget": forget, "patience": patience}
        self._seed = check.seed(seed)
        self._prices = prices
        self._arguments = {
            **self._arguments,
            "offers": None if prices is not None else self._offers.table(),
            "ids": None if prices is not None else self._offers.id_column,
            "context": saving.plain_context(context),
            "prices": None if prices is None else Grid.read(prices).plain(),
            "rules": saving.plain_rules(self._rules.stated),
            "limits": dict(self._limits.most),
        }
        self._model = Model(self._offers, options=self._options)
        self._history = History(len(self._contexts.names), KEPT)
        self._ledger, self._tokens = Memory(), Tokens()
        self._oldest = -np.inf  # no decision that waits is older; found out where it matters
        self._closing: tuple[float, float | None] | None = None
        self._counts = learning.Counts()

    def _refuse_shared(self) -> None:
        both = {self._offers.id_column, *self._offers.columns} & {*self._contexts.names}
        if both:
            raise ValueError(
                f"Decider: the column {shown(min(both))} is in the context and in the offers. "
                "Rename it in one of them."
            )
        names = {self._offers.id_column, *self._offers.columns, *self._contexts.names}
        for name in sorted(name for name in names if "*" in name):
            if {*name.split("*")} <= names:
                raise ValueError(
                    f"Decider: the column {shown(name)} has the name of a product of others. "
                    "Rename it."
                )

    # The parts

    @property
    def policy(self) -> TwinUCB:
        """The policy that chooses: it sees which offer it is, and its forecast."""
        return self._model.policy

    @property
    def forecast(self) -> TwinUCB | None:
        """The estimate from all features; None before the first shape is learned."""
        return self._model.forecast

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of contexts and offers; None before the first shape is learned."""
        return self._model.encoder

    @property
    def ledger(self) -> Memory:
        """The decisions that wait for their reward."""
        return self._ledger

    @property
    def explore(self) -> float:
        """The share of visits in which the offer is drawn; it may be changed."""
        return self._explore

    @explore.setter
    def explore(self, share: float) -> None:
        self._explore = Check(type(self)).number("explore", share, least=0.0, most=1.0)

    @property
    def offers(self) -> dict[str, bool]:
        """The ids of all offers, and whether they run."""
        offers = self._offers  # add may put others in its place meanwhile
        return dict(zip(offers.ids, offers.runs, strict=True))

    @property
    def rounds(self) -> int:
        """Rewards learned so far."""
        return self._model.policy.rounds

    @property
    def pending(self) -> tuple[str, ...]:
        """Tokens of the decisions that wait for their reward, oldest first."""
        return tuple(self._tokens.text(number) for number in self._ledger.waiting)

    # Deciding

    @alone
    def decide(
        self,
        context: Mapping[str, Any] | None = None,
        *,
        k: int | None = None,
        only: Iterable[object] | None = None,
        explore: float | None = None,
        now: float | None = None,
    ) -> Any:
        """Choose an offer for a visit; with ``k`` a list of k different ones, in order of place.

        Each choice has its token, and its probability: of a later place, given those before it.

        Args:
            context: values by column, None where one is not known; other columns are ignored.
            k: how many offers; fewer where fewer may be shown.
            only: ids of the offers that may be shown in this visit; all unless given.
            explore: another share than the Decider's.
            now: the time in seconds, where it is not the machine's.
        """
        where = "Decider.decide"
        when = time.time() if now is None else clock(where, now)
        count = None if k is None else check_count(f"{where}: k", k)
        only, explore = visits.plain_ids(only), visits.plain_share(explore, where)
        row, fresh, known = self._contexts.code({} if context is None else context, where)
        share, which = choosing.asked(self, known, only, explore, when, where)
        closing.close(self, when)
        made = self._ledger.made
        choices = choosing.chosen(self, known, share, which, when, made, count or 1)
        waiting = self._ledger.kept
        choices = [
            replace(each, token=self._tokens.of(number, waiting))
            for number, each in enumerate(choices, made)
        ]
        comparable = only is None and k is None
        visits.remember(self, choices, row, fresh, known, comparable=comparable)
        return choices[0] if k is None else choices

    @alone
    def select(
        self,
        context: Mapping[str, Any] | None = None,
        *,
        only: Iterable[object] | None = None,
        explore: float = 0.0,
        now: float | None = None,
        draw: int | None = None,
    ) -> Choice:
        """Choose as ``decide`` does, and remember nothing: the token is empty, the reward may be
        told to ``observe``. ``draw`` is a number below 2^53 by which it explores; that of the next
        decision unless given.
        """
        where = "Decider.select"
        number = self._ledger.made
        if draw is not None:
            number = check_count(f"{where}: draw", draw, least=0, most=MOST_DRAW)
        when = time.time() if now is None else clock(where, now)
        only, share = visits.plain_ids(only), visits.plain_share(explore, where)
        known = self._contexts.code({} if context is None else context, where)[2]
        share, which = choosing.asked(self, known, only, share, when, where)
        return choosing.chosen(self, known, share, which, when, number, 1)[0]

    # Learning

    @alone
    def reward(self, token: Any, value: Any) -> None:
        """Learn what a decision earned; with a list of tokens and a list of values, of many.

        Refuses a token that is unknown, was rewarded or closed, and a reward that is no finite
        number; then nothing of the call is learned.
        """
        where = "Decider.reward"
        many = isinstance(token, list | tuple | np.ndarray)
        if many and not (_is_list(token) and _is_list(value)):
            raise TypeError(
                f"{where}: a list of tokens needs a list of as many rewards; got {shown(value)}."
            )
        tokens, values = ([*token], [*value]) if many else ([token], [value])
        if len(values) != len(tokens):
            problem = f"{len(tokens)} tokens need as many rewards; got {len(values)}."
            raise ValueError(f"{where}: {problem}")
        rewards = [check_reward(f"{where}: reward", each) for each in values]
        texts = [getattr(each, "token", each) for each in tokens]  # of whoever may call back
        numbers = [self._tokens.number(text, self._ledger, where) for text in texts]
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"{where}: a token is twice in the list. Nothing was learned.")
        for reward in rewards:
            problem = self._model.policy.reward_problem(reward)
            if problem:
                raise ValueError(f"{where}: {problem} Nothing was learned.")
        learn_all(self, numbers, rewards)

    @alone
    def observe(
        self,
        context: Mapping[str, Any] | None,
        offer: object,
        reward: float,
        *,
        probability: float | None = None,
        time: float | None = None,
        selected: bool = False,
    ) -> None:
        """Learn what an offer earned in a context, without a token.

        Args:
            context: as for ``decide``.
            offer: its id.
            reward: what it earned.
            probability: of the choice, where it is known.
            time: of the choice, in seconds, where it is known.
            selected: whether ``select`` of this Decider chose it; then it counts in reports.
        """
        where = "Decider.observe"
        if not isinstance(selected, bool | np.bool_):
            raise TypeError(f"{where}: selected must be True or False; got {shown(selected)}.")
        value = check_reward(f"{where}: reward", reward)
        place = self._offers.place(offer, where)
        chance = np.nan
        if probability is not None:
            chance = check_number(f"{where}: probability", probability, above=0.0, most=1.0)
        when = np.nan if time is None else clock(where, time)
        problem = self._model.policy.reward_problem(value)
        if problem:
            raise ValueError(f"{where}: {problem} Nothing was learned.")
        row, fresh, known = self._contexts.code({} if context is None else context, where)
        contexts = self._contexts.settled(known, fresh)
        of = Round(row[:-2], place, chance, value, when, bool(selected))
        learn_round(self, of, contexts, [])

    @alone
    def learn(
        self,
        log: object,
        *,
        columns: Mapping[str, str] | None = None,
        progress: bool | None = None,
    ) -> learning.Learned:
        """Learn a log of another's decisions: a warm start. Returns what was learned and left out.

        The log has the columns of the context, that of the ids, and ``reward``; it may have
        ``propensity``, the probability with which each offer was chosen, and ``time``. Both are
        stored and not used: the same is learned without them. A row without a reward, or of an
        offer that is not here, is left out and counted. Reports are of the Decider's own decisions,
        and count no row of a log: :func:`heavytail.compare` and :func:`heavytail.evaluate` read the
        log itself, and use its propensities.

        Args:
            log: a frame, a dict of columns, a list of dicts, a CSV or Parquet file.
            columns: where the log has other names: {"reward": "paid", "sku": "shown"}.
            progress: show a bar; on a terminal unless given.
        """
        return learning.learn(self, log, {} if columns is None else columns, progress)

    @alone
    def close_after(self, age: str | float, reward: float | None = 0.0) -> int:
        """Learn ``reward`` for decisions that have waited longer than ``age``, from now on and by
        itself; returns how many were closed at once. Later rewards of theirs are refused.

        ``age`` is such as "7 days", "90 minutes", or seconds. With ``reward=None`` nothing is
        learned of them: for rewards that were lost, where silence does not mean none.
        """
        return closing.close_after(self, age, reward)

    @alone
    def close(self, *, now: float | None = None) -> int:
        """Close what ``close_after`` says by now, as ``decide`` does; returns how many."""
        return closing.close(self, clock("Decider.close", now))

    # Offers that come and go

    @alone
    def add(self, offers: object) -> None:
        """Add offers, or change those that are there: rows with the ids and all the columns.

        A new offer starts from what its columns say of it. Nothing bounds its mean yet, so it gets
        many of the first visits, until its rewards say what it is worth: often a few dozen where
        every visit earns something, hundreds where most earn 0. Pass ``only`` without it in most
        visits to spread them. What is known is learned anew from the rows that are kept.
        """
        where = "Decider.add"
        if self._prices is not None:
            raise ValueError(f"{where}: prices are those of the Grid. Build another Decider.")
        rows = [offers] if isinstance(offers, Mapping) else offers
        more = Offers.of(rows, self._offers.id_column, f"{where}: offers")
        grown = self._offers.with_rows(more, where)
        rows_kept = self._history.rows()
        model = Model.learned(self._contexts, grown, rows_kept, options=self._options)
        vars(self).update(_offers=grown, _model=model)

    @alone
    def retire(self, offer: object) -> None:
        """Choose an offer no more; what was learned of it stays, and ``add`` brings it back."""
        place = self._offers.place(offer, "Decider.retire")
        self._offers = self._offers.with_runs(place, False)

    # Answers

    @alone
    def expected(
        self, context: Mapping[str, Any] | None = None, *, level: float = 0.95
    ) -> dict[str, tuple[float, float, float]]:
        """The mean reward expected of each offer that runs, and its interval: (mean, low, high)."""
        known = self._contexts.code({} if context is None else context, "Decider.expected")[2]
        which = self._offers.running
        X = self._model.vectors(known, which)
        by, seen = self._model.forecast, X
        if by is None or seen is None:  # the policy tells the offers apart by itself
            by, seen = self._model.policy, self._model.arms(which, np.zeros(len(which)))
        columns = (part.tolist() for part in by.predict(seen, level=level))
        return dict(
            zip([self._offers.ids[i] for i in which], zip(*columns, strict=True), strict=True)
        )

    # What it says

    @alone
    def _snapshot(self) -> snapshots.Snapshot:
        return snapshots.snapshot(self)

    def report(self, against: object = None, *, level: float = 0.95) -> Report:
        """Report what its own decisions earned: in all, by offer, by segment, and against a rule.

        Args:
            against: an id, for always that offer; or a callable that gives an id for a context.
            level: of each bound by itself.
        """
        check_number("Decider.report: level", level, above=0.0, below=1.0)
        return reporting.report(self._snapshot(), against, level)

    def effects(self, column: str | None = None, *, level: float = 0.95) -> effects.Effects:
        """Measure what each column of the context, or one of them, changes about each offer.

        Only what is beyond chance becomes a sentence, at ``level`` for all of them together.
        """
        check_number("Decider.effects: level", level, above=0.0, below=1.0)
        return effects.effects(self._snapshot(), column, level)

    def diagnostics(self) -> diagnosing.Diagnosis:
        """List what deserves a look, in sentences."""
        return diagnosing.diagnose(self._snapshot())

    @alone
    def explain(
        self, context: Mapping[str, Any] | None = None, *, only: Iterable[object] | None = None
    ) -> explaining.Parts:
        """The parts of the choice in a context, for experts."""
        where = "Decider.explain"
        only = visits.plain_ids(only)
        known = self._contexts.code({} if context is None else context, where)[2]
        which = choosing.offered(self, known, only, time.time(), where)
        X = self._model.vectors(known, which)
        return explaining.parts_of(self._model, self._offers.ids, which, X)

    # Saving

    def slot_names(self) -> dict[str, tuple[str, ...]]:
        return saving.slot_names()

    @classmethod
    def later_slots(cls) -> tuple[str, ...]:
        return TwinUCB.later_slots()

    @alone
    def state_arrays(self) -> dict[str, Any]:
        return saving.arrays_of(self)

    @alone
    def restore(self, arrays: dict[str, Any]) -> None:
        if not all(is_plain(array) for array in arrays.values()):
            raise ValueError("Decider: the saved state has what is no array.")
        saving.restore(self, arrays)

    def __repr__(self) -> str:
        runs = int(np.sum(self._offers.runs))
        return (
            f"Decider({runs} offers, context={list(self._contexts.names)}, {self.rounds:,} rewards "
            f"learned, {len(self._ledger.kept):,} waiting)"
        )

    def _repr_html_(self) -> str:
        return reporting.html_of(self)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
