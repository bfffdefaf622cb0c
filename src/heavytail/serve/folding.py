"""Sums over a model's log, folded as it grows: what decisions earned, by offer, by segment, by day,
and against a rule.

Outcomes are folded in the order of their numbers, once each, so that the sums do not depend on who
folds them, nor in how many pieces. Decisions are counted in the order of their keys up to a margin
behind the newest: another worker may still write one slightly earlier. If one comes later than
that, the tally of the store says so, and they are counted anew.

Rewards that come sooner the larger they are would mislead the bounds of a mean, as where silence is
taken for 0 after some time. So if decisions expire, their rewards are bet on in the order of the
decisions, once all up to there have their reward or have expired; otherwise in the order in which
they come.
"""

from __future__ import annotations

import copy
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from heavytail._typing import FloatArray, IntArray
from heavytail.decider.choice import amount
from heavytail.ledger.details import Detail, unpack
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.offers import Catalogues
from heavytail.ledger.store import Store, StoreError, as_bytes
from heavytail.ledger.tokens import first_key, time_of
from heavytail.logs.wealth import Wealths

__all__ = [
    "ALL",
    "BY_DEFAULT",
    "CHOSEN",
    "DECISIONS",
    "END",
    "EXPLORED",
    "FIRST",
    "GIVEN_UP",
    "MISSING",
    "MONEY",
    "REWARDS",
    "TAIL",
    "UNKNOWN",
    "Fold",
    "Offers",
    "Rows",
    "Rule",
    "Segments",
    "Sums",
    "expires_after",
    "is_settled",
    "labels",
]

BATCH: Final = 2048  # rows that are folded at a time
MARGIN: Final = 5.0  # seconds before the newest decision that are counted anew each time
OLD: Final = 60.0  # seconds after which no decision is written any more
TAIL: Final = 50_000  # decisions of the margin that are counted
DAY: Final = 86_400.0
DAYS: Final = 120  # that are kept
MOST_OFFERS: Final = 1_000
MOST_SEGMENTS: Final = 100
END: Final = bytes([255] * 32)  # a key behind all others
FIRST: Final = 1_000  # decisions that show what a column has
ALL, CHOSEN, EXPLORED, UNKNOWN = range(4)  # groups of every model, before the others and offers
MISSING: Final = "(missing)"
SEEN: Final = 2**24  # bits that remember units: 2 MiB, wrong of 1 in 500 after a million units
HASHES: Final = 4  # bits of a unit


class Rows:
    """Decisions that are folded together.

    Attributes:
        keys: in the log.
        arms: the places of the chosen offers.
        details: their surroundings.
    """

    def __init__(
        self, rows: Iterable[tuple[object, object, object]], catalogues: Catalogues | None = None
    ) -> None:
        self.keys: list[bytes] = []
        self.arms: list[int] = []
        self.details: list[Detail] = []
        try:
            for key, arm, detail in rows:
                self.keys.append(key if type(key) is bytes else as_bytes(key))
                self.arms.append(int(arm))  # type: ignore[call-overload]
                self.details.append(unpack(detail if type(detail) is bytes else as_bytes(detail)))
            if catalogues is not None:
                self.details = [catalogues.with_ids(detail) for detail in self.details]
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError):
            words = "a decision in the store is damaged. Restore it from a backup."
            raise StoreError(words) from None

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, wanted: Iterable[int]) -> Rows:
        """Some of them, by their numbers."""
        some = Rows(())
        for i in wanted:
            some.keys.append(self.keys[i])
            some.arms.append(self.arms[i])
            some.details.append(self.details[i])
        return some

    @property
    def names(self) -> list[str]:
        """The ids of the chosen offers, or their places without ids."""
        return [
            str(arm if detail.id is None else detail.id)
            for arm, detail in zip(self.arms, self.details, strict=True)
        ]

    @property
    def days(self) -> IntArray:
        """Days from 1970 (UTC) to each decision."""
        times = [
            time_of(key) if detail.made is None else detail.made
            for key, detail in zip(self.keys, self.details, strict=True)
        ]
        return np.floor_divide(np.array(times, dtype=np.float64), DAY).astype(np.int64)

    @property
    def chances(self) -> FloatArray:
        """The probability of each choice; NaN if unknown."""
        return np.array([detail.probability for detail in self.details], dtype=np.float64)

    @property
    def offered(self) -> IntArray:
        """The number of offers of each decision."""
        return np.array([detail.count for detail in self.details], dtype=np.int64)

    @property
    def ways(self) -> IntArray:
        """The group of each decision that tells a choice from a draw by exploration: the choice has
        a probability above that of a uniform draw, whatever share of the decisions explores. A draw
        may also give the choice.
        """
        chances, offered = self.chances, self.offered
        chosen = (chances * offered > 1.0 + 1e-9) | (offered == 1)
        return np.where(np.isnan(chances), UNKNOWN, np.where(chosen, CHOSEN, EXPLORED))


class Sums:
    """Counts, money and bounds of groups of decisions.

    The first groups are fixed; the last of these takes names beyond the first ``most``.

    Attributes:
        names: of the other groups, in the order in which they were first seen.
        counts: (5, groups): decisions, outcomes, default rewards among these, decisions that
            expired without an outcome, and the sum of the rewards.
        wealths: what bounds of the means rest on.
    """

    def __init__(self, fixed: int, most: int) -> None:
        self.fixed, self.most = fixed, most
        self.names: dict[str, int] = {}
        self.counts, self.wealths = np.zeros((5, fixed)), Wealths(fixed)

    def places(self, names: Sequence[str]) -> IntArray:
        """The group of each name."""
        places = [self._place(name) for name in names]
        size = self.fixed + len(self.names)
        if size > len(self.wealths):
            self.wealths.grow(size)
            more = np.zeros((5, size - self.counts.shape[1]))
            self.counts = np.concatenate([self.counts, more], axis=1)
        return np.array(places, dtype=np.int64)

    def _place(self, name: str) -> int:
        place = self.names.get(name)
        if place is None:
            if len(self.names) >= self.most:
                return self.fixed - 1
            place = self.names[name] = self.fixed + len(self.names)
        return place

    def add(self, kind: int, places: IntArray, values: FloatArray | float = 1.0) -> None:
        """Add to the counts of a kind."""
        np.add.at(self.counts[kind], places, values)

    def saved(self) -> Any:
        """The sums as MessagePack holds them."""
        return [list(self.names), self.counts.astype("<f8").tobytes(), self.wealths.saved()]

    def restore(self, saved: Any) -> None:
        """Take the result of ``saved``."""
        names, counts, wealths = saved
        self.names = {name: self.fixed + i for i, name in enumerate(names)}
        self.counts = np.frombuffer(counts, dtype="<f8").reshape(5, -1).copy()
        self.wealths = Wealths.of_saved(wealths)
        if self.counts.shape[1] != len(self.wealths) or len(self.wealths) < self.fixed + len(names):
            raise ValueError("the saved sums are damaged.")


DECISIONS, REWARDS, BY_DEFAULT, GIVEN_UP, MONEY = range(5)  # rows of the counts


class Grouped:
    """Decisions in groups; a decision may be in several."""

    def __init__(self, fixed: int, most: int) -> None:
        self.sums = Sums(fixed, most)

    def groups(self, rows: Rows) -> list[IntArray]:
        """The groups of each decision, one array for each kind of group."""
        raise NotImplementedError

    def count(self, rows: Rows) -> None:
        """Count decisions."""
        for places in self.groups(rows):
            self.sums.add(DECISIONS, places)

    def forget(self) -> None:
        """Forget the counts of decisions."""
        self.sums.counts[DECISIONS] = 0.0

    def reward(self, rows: Rows, rewards: FloatArray, by_default: FloatArray, bet: bool) -> None:
        """Add outcomes; ``bet``: also to what bounds rest on."""
        for places in self.groups(rows):
            self.sums.add(REWARDS, places)
            self.sums.add(BY_DEFAULT, places, by_default)
            self.sums.add(MONEY, places, rewards)
            if bet:
                self.sums.wealths.add(places, rewards)

    def give_up(self, rows: Rows, sign: float) -> None:
        """Count decisions that expired without an outcome; or no longer, with sign -1."""
        for places in self.groups(rows):
            self.sums.add(GIVEN_UP, places, sign)

    def bet(self, rows: Rows, rewards: FloatArray) -> None:
        """Add rewards to what bounds rest on; NaN of a decision that expired without one."""
        came = np.isfinite(rewards)
        for places in self.groups(rows):
            self.sums.wealths.add(places[came], rewards[came])

    def saved(self) -> Any:
        """The sums as MessagePack holds them."""
        return self.sums.saved()

    def restore(self, saved: Any) -> None:
        """Take the result of ``saved``."""
        self.sums.restore(saved)


class Offers(Grouped):
    """All decisions, those chosen and those explored, each offer, and each day."""

    def __init__(self) -> None:
        super().__init__(UNKNOWN + 2, MOST_OFFERS)
        self.days: dict[int, list[float]] = {}  # decisions, outcomes, by default, money

    def groups(self, rows: Rows) -> list[IntArray]:
        offers = self.sums.places(rows.names)
        return [np.zeros(len(rows), dtype=np.int64), rows.ways, offers]

    def count(self, rows: Rows) -> None:
        super().count(rows)
        self._add(rows, np.ones((1, len(rows))), 0)
        for day in sorted(self.days)[:-DAYS]:
            del self.days[day]

    def forget(self) -> None:
        super().forget()
        for day in self.days.values():
            day[0] = 0.0

    def reward(self, rows: Rows, rewards: FloatArray, by_default: FloatArray, bet: bool) -> None:
        super().reward(rows, rewards, by_default, bet)
        self._add(rows, np.stack([np.ones(len(rows)), by_default, rewards]), 1)

    def _add(self, rows: Rows, values: FloatArray, start: int) -> None:
        """Add rows of values to the days, from the sum of number ``start`` on."""
        days, places = np.unique(rows.days, return_inverse=True)
        for i, row in enumerate(values, start):
            sums = np.bincount(places, row, minlength=len(days)).tolist()
            for day, value in zip(days.tolist(), sums, strict=True):
                self.days.setdefault(day, [0.0] * 4)[i] += value

    def saved(self) -> Any:
        return [super().saved(), sorted(self.days.items())]

    def restore(self, saved: Any) -> None:
        sums, days = saved
        super().restore(sums)
        self.days = {int(day): [*map(float, values)] for day, values in days}


class Since(Grouped):
    """The decisions before a key, and those after it.

    Bounds rest on the first of these of each unit, since the later ones resemble it. Units are
    remembered by a Bloom filter: if it is wrong, a decision is left out whatever it earned. A
    decision that expired without a reward earned 0.
    """

    def __init__(self, start: bytes) -> None:
        super().__init__(2, 0)
        self._start, self._seen = start, bytearray(SEEN // 8)

    def groups(self, rows: Rows) -> list[IntArray]:
        return [np.array([key > self._start for key in rows.keys], dtype=np.int64)]

    def reward(self, rows: Rows, rewards: FloatArray, by_default: FloatArray, bet: bool) -> None:
        super().reward(rows, rewards, by_default, False)
        if bet:
            self.bet(rows, rewards)

    def bet(self, rows: Rows, rewards: FloatArray) -> None:
        pairs = enumerate(zip(rows.keys, rows.details, strict=True))
        first = [i for i, (key, each) in pairs if key > self._start and self._is_new(each.unit)]
        super().bet(rows.where(first), np.nan_to_num(rewards[first]))

    def _is_new(self, unit: str | int | None) -> bool:
        """Tell whether a unit was not seen before, and remember it."""
        if unit is None:
            return True
        digest, new = hashlib.blake2b(f"{type(unit).__name__} {unit}".encode()).digest(), False
        for start in range(0, 4 * HASHES, 4):
            place, bit = divmod(int.from_bytes(digest[start : start + 4], "big") % SEEN, 8)
            new |= not self._seen[place] >> bit & 1
            self._seen[place] |= 1 << bit
        return new

    def saved(self) -> Any:
        return [super().saved(), bytes(self._seen)]

    def restore(self, saved: Any) -> None:
        sums, seen = saved
        if len(seen) != len(self._seen):
            raise ValueError("the saved units are damaged.")
        super().restore(sums)
        self._seen = bytearray(seen)


class Segments(Grouped):
    """Decisions by a column of their context: its values, or ranges of its numbers.

    Attributes:
        cuts: where ranges of numbers end; None of a column of texts.
    """

    def __init__(self, column: str, first: Rows) -> None:
        super().__init__(1, MOST_SEGMENTS - 1)
        self.column = column
        values = [(detail.context or {}).get(column) for detail in first.details]
        numbers = [float(value) for value in values if value is not None and is_number(value)]
        known = sum(value is not None for value in values)
        self.cuts = ranges(np.array(numbers)) if known and len(numbers) == known else None

    def groups(self, rows: Rows) -> list[IntArray]:
        return [self.sums.places([self.label(each.context or {}) for each in rows.details])]

    def label(self, context: dict[str, Any]) -> str:
        """The segment of a context."""
        value = context.get(self.column)
        if value is None:
            return MISSING
        if self.cuts is None or not is_number(value):
            return str(value)
        return labels(self.cuts)[int(np.searchsorted(self.cuts, value, side="right"))]

    def saved(self) -> Any:
        return [super().saved(), self.cuts]

    def restore(self, saved: Any) -> None:
        sums, self.cuts = saved
        super().restore(sums)


def is_number(value: object) -> bool:
    """Tell whether a value of a context is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def ranges(values: FloatArray) -> list[float]:
    """The ends of thirds of numbers; of three or fewer, each but the least."""
    each = np.unique(values)
    if len(each) <= 3:
        return [float(value) for value in each[1:]]
    ends = np.quantile(values, (1 / 3, 2 / 3), method="nearest")
    return sorted({float(end) for end in ends if end > each[0]}) or [float(each[1])]


def labels(cuts: Sequence[float]) -> list[str]:
    """The ranges that numbers are cut into."""
    if not cuts:
        return ["all numbers"]
    inner = [f"{amount(a)} to {amount(b)}" for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    return [f"below {amount(cuts[0])}", *inner, f"{amount(cuts[-1])} and more"]


class Rule:
    """The rewards of decisions beside what a rule would have earned in their place.

    The rule shows ``offer`` wherever it is among the offers, or, where that is None, draws one
    uniformly. A decision adds r - w r, w being the probability of its offer under the rule over
    that under the model. Where the rule's offer could not be shown, both are taken to be alike.
    A decision with probability 1 says nothing of other offers, and is left out.

    Attributes:
        offer: an id, or a place without ids; None for a uniform draw.
        counts: decisions that are compared, alike, without exploration, of unknown probability.
        weights: bounds of the mean weight, which is 1 if the probabilities are true.
        gains: bounds of the mean of r - w r.
        sides: (2, 4), the sum of (w - 1)+, of its square, its largest value, and how many of these
            rewards are not 0; the same of (1 - w)+; over the outcomes compared.
        far: the largest reward, and minus the least one.
        days: decisions compared, by day.
    """

    def __init__(self, offer: str | None) -> None:
        self.offer = offer
        number = offer is not None and re.fullmatch("0|-?[1-9][0-9]{0,18}", offer)
        self._number = int(offer) if offer is not None and number else -(2**64)  # an id, too
        self.counts, self.weights, self.gains = np.zeros(4), Wealths(), Wealths()
        self.sides, self.far = np.zeros((2, 4)), np.zeros(2)
        self.days: dict[int, float] = {}

    def _weights(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        """The kind of each decision, a place in ``counts``, and its weight."""
        chances, offered = rows.chances, rows.offered
        if self.offer is None:
            same, shown = np.ones(len(rows)), np.ones(len(rows))
            weights = 1.0 / (offered * chances)
        else:
            same = np.array([self._places(detail) for detail in rows.details], dtype=np.float64)
            shown = np.array([name == self.offer for name in rows.names], dtype=np.float64)
            weights = shown / (np.maximum(same, 1.0) * chances)
        kinds = np.where(chances >= 1.0, 2, 0)
        kinds[(same == 0.0) | (offered == 1)] = 1
        kinds[np.isnan(chances)] = 3
        return kinds, np.where(kinds == 0, weights, 1.0)

    def _places(self, detail: Detail) -> int:
        """At how many places the rule's offer stood."""
        ids = detail.ids
        if ids is None:
            return int(0 <= self._number < detail.count)
        return ids.count(self.offer) + ids.count(self._number)  # type: ignore[arg-type]

    def count(self, rows: Rows) -> None:
        """Count decisions."""
        kinds, weights = self._weights(rows)
        self.counts += np.bincount(kinds, minlength=4)
        own = weights[kinds == 0]
        self.weights.add(np.zeros(len(own), dtype=np.int64), own)
        days, counts = np.unique(rows.days[kinds <= 1], return_counts=True)
        for day, many in zip(days.tolist(), counts.tolist(), strict=True):
            self.days[day] = self.days.get(day, 0.0) + many
        for day in sorted(self.days)[:-DAYS]:
            del self.days[day]

    def forget(self) -> None:
        """Forget the counts of decisions."""
        self.counts, self.weights, self.days = np.zeros(4), Wealths(), {}

    def reward(self, rows: Rows, rewards: FloatArray, by_default: FloatArray, bet: bool) -> None:
        """Note how far out rewards lie; ``bet``: also add them to what bounds rest on."""
        ends = [rewards.max(initial=0.0), (-rewards).max(initial=0.0)]
        self.far = np.maximum(self.far, ends)
        if bet:
            self.bet(rows, rewards)

    def give_up(self, rows: Rows, sign: float) -> None:
        """A decision that expired without a reward earned nothing."""

    def bet(self, rows: Rows, rewards: FloatArray) -> None:
        """Add rewards to what bounds rest on; NaN of a decision that expired without one."""
        kinds, weights = self._weights(rows)
        compared = kinds <= 1
        self.compare(weights[compared], np.nan_to_num(rewards[compared]))

    def compare(self, weights: FloatArray, rewards: FloatArray) -> None:
        """Add the rewards of decisions that are compared."""
        self.gains.add(np.zeros(len(weights), dtype=np.int64), rewards * (1.0 - weights))
        for side, excess in zip(self.sides, (weights - 1.0, 1.0 - weights), strict=True):
            excess = np.maximum(excess, 0.0)
            side[:2] += excess.sum(), excess @ excess
            side[2] = max(side[2], excess.max(initial=0.0))
            side[3] += np.count_nonzero(excess * rewards)

    def saved(self) -> Any:
        """The sums as MessagePack holds them."""
        arrays = [part.astype("<f8").tobytes() for part in (self.counts, self.sides, self.far)]
        return [arrays, self.weights.saved(), self.gains.saved(), sorted(self.days.items())]

    def restore(self, saved: Any) -> None:
        """Take the result of ``saved``."""
        arrays, weights, gains, days = saved
        counts, sides, far = (np.frombuffer(part, dtype="<f8").copy() for part in arrays)
        self.counts, self.sides, self.far = counts, sides.reshape(2, 4), far
        self.weights, self.gains = Wealths.of_saved(weights), Wealths.of_saved(gains)
        self.days = {int(day): float(count) for day, count in days}


Part = Offers | Segments | Since | Rule


class Fold:
    """A part of what a model earned, folded up to some place of its log.

    Attributes:
        part: the sums.
        seq: the last outcome folded.
        key: the decision up to which decisions are counted.
        settled: the decision up to which all have an outcome or have expired.
        made: the number of decisions counted.
        ordered: whether rewards are bet on in the order of the decisions.
    """

    def __init__(self, part: Part) -> None:
        self._empty = copy.deepcopy(part)
        self._begin(part, ordered=False)

    def _begin(self, part: Part, *, ordered: bool) -> None:
        self.part, self.ordered = part, ordered
        self.seq, self.key, self.settled, self.made = 0, b"", b"", 0
        self._again = False  # whether decisions are being counted anew
        self._odd = 0  # decisions that a recount did not find either

    def go_on(self, store: Store, row: ModelRow, until: float, pace: float = 0.0) -> bool:
        """Fold what is new; tell whether everything is folded.

        Args:
            store: read only.
            row: the model as it is now in the store.
            until: the time of ``time.monotonic()`` at which to stop.
            pace: seconds of rest for each second of work, so that others have a turn.
        """
        if self.ordered != is_settled(row):  # no reward may be bet on in both orders
            self._begin(copy.deepcopy(self._empty), ordered=not self.ordered)
        steps: list[Callable[[], bool]] = [
            lambda: self._outcomes(store, row),
            lambda: self._settle(store, row),
            lambda: self._decisions(store, row),
        ]
        for step in steps:
            start = time.monotonic()
            while step():
                now = time.monotonic()
                if now > until:
                    return False
                if pace:
                    time.sleep(pace * (now - start))
                start = time.monotonic()
        return True

    def _outcomes(self, store: Store, row: ModelRow) -> bool:
        """Fold the next outcomes; tell whether there may be more."""
        new = store.learned(row.id, self.seq, BATCH) if self.seq < row.last else []
        new = [each for each in new if each[0] <= row.last]
        if not new:
            return False
        rows = Rows(
            ((key, arm, detail) for _, key, _, _, arm, detail in new), Catalogues(store, row)
        )
        rewards = np.array([each[3] for each in new], dtype=np.float64)
        by_default = np.array([each[2] for each in new], dtype=np.float64)
        self.part.reward(rows, rewards, by_default, not self.ordered)
        late = [i for i, key in enumerate(rows.keys) if key <= self.settled]
        if late:
            self.part.give_up(rows.where(late), -1.0)
        self.seq = int(new[-1][0])
        return self.seq < row.last

    def _settle(self, store: Store, row: ModelRow) -> bool:
        """Fold the next decisions that no longer wait; tell whether there may be more."""
        if self.settled >= row.swept:
            return False
        new = store.decided(row.id, self.settled, row.swept, BATCH)
        rows = Rows((each[:3] for each in new), Catalogues(store, row))
        gone = [i for i, (*_, seq, _) in enumerate(new) if seq is None or seq > self.seq]
        if gone:
            self.part.give_up(rows.where(gone), 1.0)
        if self.ordered and new:
            rewards = [np.nan if reward is None else reward for *_, reward in new]
            self.part.bet(rows, np.array(rewards, dtype=np.float64))
        self.settled = rows.keys[-1] if len(new) == BATCH else row.swept
        return len(new) == BATCH

    def _decisions(self, store: Store, row: ModelRow) -> bool:
        """Count the next decisions; tell whether there may be more."""
        newest = store.latest(row.id)
        if not newest:
            return False
        upto = first_key(max(time_of(newest) - MARGIN, store.clock() - OLD))
        if upto > self.key:
            new = store.decided(row.id, self.key, upto, BATCH)
            self.part.count(Rows((each[:3] for each in new), Catalogues(store, row)))
            self.made += len(new)
            self.key = bytes(new[-1][0]) if len(new) == BATCH else upto
            if len(new) == BATCH:
                return True
        missing = store.decided_by(row.id, self.key) - self.made
        if missing != self._odd:  # one came later than the margin
            self._odd = missing if self._again else 0
            self._again = not self._again
            if not self._again:
                return False
            self.part.forget()
            self.key, self.made = b"", 0
            return True
        self._again = False
        return False

    def twin(self) -> Fold:
        """A copy, whose sums may change."""
        return copy.deepcopy(self)

    def saved(self) -> bytes:
        """The fold as bytes."""
        parts = (self.seq, self.key, self.settled, self.made, self.ordered, self.part.saved())
        return msgspec.msgpack.encode((VERSION, *parts))

    def restore(self, data: bytes) -> None:
        """Take the result of ``saved``; refuse anything else."""
        version, *parts = msgspec.msgpack.decode(data)
        if version != VERSION:
            raise ValueError("another version of the sums.")
        self.seq, self.key, self.settled, self.made, self.ordered, part = parts
        self.part.restore(part)


VERSION: Final = 2  # of what is saved


def is_settled(row: ModelRow) -> bool:
    """Tell whether decisions of a model expire for good."""
    return expires_after(row) is not None


def expires_after(row: ModelRow) -> float | None:
    """The seconds after which decisions of a model expire for good; None if they do not."""
    spec = msgspec.json.decode(row.spec)
    return spec.get("wait") if spec.get("late", "refuse") == "refuse" else None
