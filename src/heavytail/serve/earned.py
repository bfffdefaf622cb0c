"""What a model earned, in words and numbers, from the sums of :mod:`heavytail.serve.folding`."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from heavytail._lazy import nearest
from heavytail._validate import printable
from heavytail.decider.choice import amount
from heavytail.decider.markup import counted
from heavytail.ledger.layout import ModelRow
from heavytail.ledger.offers import Catalogues, unpacked
from heavytail.ledger.refusal import Refusal
from heavytail.ledger.store import Store
from heavytail.ledger.tokens import first_key
from heavytail.logs.wealth import BETS, LOG_SHARES, ROOM, Wealths, difference
from heavytail.serve.folding import (
    ALL,
    BY_DEFAULT,
    CHOSEN,
    DECISIONS,
    END,
    EXPLORED,
    FIRST,
    GIVEN_UP,
    MONEY,
    REWARDS,
    TAIL,
    UNKNOWN,
    Fold,
    Offers,
    Part,
    Rows,
    Rule,
    Segments,
    Since,
    Sums,
    expires_after,
    is_settled,
    labels,
)
from heavytail.serve.wire import Earned, EarnedBound, EarnedDay, EarnedLine, EarnedUntil, Uplift

__all__ = [
    "LEVEL",
    "OF_SPLIT",
    "Asked",
    "Stream",
    "answer",
    "begun",
    "check",
    "compared",
    "since",
    "stream",
    "uplift",
]

LEVEL: Final = 0.95
FEW: Final = 20  # rewards below which no bound is stated
LEAST: Final = 29  # decisions that only the rule, or only the model, would have made so
PAID: Final = 10  # rewards of these that are not 0
NEAR: Final = 2.0  # times as far out as the farthest difference so far another may lie
SHARE: Final = 1 / 3  # of the farthest reward at the largest weight, that room is left for
LONG: Final = 20  # times the decisions compared are a long time
GROWTH: Final = 1.0  # of the logarithm of the wealth, below which nothing is extrapolated
SHOWN_DAYS: Final = 90
LOOKED_AT: Final = 100  # decisions whose columns are listed, and columns that are
SILENT: Final = 0.1  # of decisions, above which those without a reward could decide it
RECENT: Final = 7  # days that the present rate is of
DAY: Final = 86_400.0
ALWAYS, UNIFORM, SHADOW = "always:", "uniform", "shadow:"

BETTING: Final = EarnedBound("betting", True, True, "no reward is below 0")
WITH_ROOM: Final = EarnedBound(
    "betting with room", True, False,
    f"no reward lies more than {ROOM:g} times as far out as the farthest so far",
)  # fmt: skip
OF_SPLIT: Final = EarnedBound(
    "betting with room", True, False,
    f"{WITH_ROOM.assumes}, and units, or decisions without one, do not influence each other",
)  # fmt: skip
OF_UPLIFT: Final = EarnedBound(
    "betting with room", True, False,
    f"no decision's difference lies more than {NEAR:g} times as far out as the farthest so far, "
    f"nor farther than a third of the farthest reward so far at the largest weight",
)  # fmt: skip


class Asked(NamedTuple):
    """The parts of an answer that a request names: a column, and a rule."""

    by: str | None = None
    against: str | None = None

    @property
    def parts(self) -> list[str]:
        """The parts, each under the name by which it is kept."""
        parts = ["offers"]
        if self.by is not None:
            parts.append(f"by:{self.by}")
        if self.against is not None:
            parts.append(f"against:{self.against}")
        return parts


def check(row: ModelRow, asked: Asked) -> None:
    """Refuse what cannot be computed."""
    if row.follows is not None:
        message = "This model is a shadow: it makes no decisions, and earns nothing."
        raise Refusal(409, "shadow", message)
    against = asked.against
    if against is None or against == UNIFORM:
        return
    if against.startswith(SHADOW):
        message = (
            "The log does not say what a shadow would have chosen. Compare two models by a split, "
            "or ask ht.evaluate about the log."
        )
        raise Refusal(422, "bad_rule", message, "against")
    if not against.startswith(ALWAYS) or len(against) > 200 + len(ALWAYS):
        message = "against must be always:ID (or a place, without ids) or uniform."
        raise Refusal(422, "bad_rule", message, "against")


def begun(part: str, store: Store, row: ModelRow) -> tuple[Fold, bool]:
    """A new fold of a part, and whether it is final: a column is known by its first values."""
    kind, _, rest = part.partition(":")
    if kind == "by":
        first = Rows(each[:3] for each in store.decided(row.id, b"", END, FIRST))
        columns = _columns(first)
        if rest not in columns:
            raise _no_column(rest, columns)
        return Fold(Segments(rest, first)), len(first) == FIRST
    if kind == "since":
        return Fold(Since(bytes.fromhex(rest))), True
    if kind == "against":
        return Fold(Rule(None if rest == UNIFORM else rest.removeprefix(ALWAYS))), True
    return Fold(Offers()), True


def _columns(rows: Rows) -> list[str]:
    return sorted({name for detail in rows.details for name in detail.context or ()})


def _no_column(column: str, columns: list[str]) -> Refusal:
    if not columns:
        message = "The decisions of this model have no context, so there are no segments."
    else:
        named = ", ".join(f"'{printable(name)}'" for name in columns[:10])
        message = f"No context has the column '{printable(column)}'. Columns are {named}."
    return Refusal(422, "bad_column", message, "by")


def answer(
    row: ModelRow, store: Store, folds: Sequence[Fold], asked: Asked, complete: bool
) -> Earned:
    """The answer from the folds of the parts of ``asked``; they are not changed."""
    made = store.decisions(row.id)
    first = Rows(each[:3] for each in store.decided(row.id, b"", END, LOOKED_AT))
    parts = [fold.part for fold in folds]
    if complete:
        key = min(fold.key for fold in folds)
        tail = Rows(
            (each[:3] for each in store.decided(row.id, key, END, TAIL)), Catalogues(store, row)
        )
        parts = [_with_tail(fold, tail) for fold in folds]
    offers = parts[0]
    assert isinstance(offers, Offers)
    sums = offers.sums
    lines = _lines(sums, made)
    named = sorted(sums.names.items(), key=lambda item: -lines[item[1]].decisions)
    others = lines[sums.fixed - 1]
    segments = next((_segments(p, made) for p in parts if isinstance(p, Segments)), None)
    rule = next((part for part in parts if isinstance(part, Rule)), None)
    if rule is not None and complete:
        _check_offer(rule, {*sums.names, *_offered(store, row, first)})
    against = None if rule is None else uplift(rule, str(asked.against))
    step = min(folds, key=lambda fold: (fold.seq, fold.made))
    until = EarnedUntil(step.seq, row.last, int(sums.counts[DECISIONS, ALL]), made, complete)
    low = WITH_ROOM if float(sums.wealths.low.min()) < 0.0 else BETTING
    total = lines[ALL]
    return Earned(
        model=row.name,
        until=until,
        given_up=row.given_up,
        total=total,
        chosen=lines[CHOSEN],
        explored=lines[EXPLORED],
        unknown=lines[UNKNOWN],
        offers=[_named(lines[place], name) for name, place in named],
        others=others if others.decisions or others.rewards else None,
        by=asked.by,
        segments=segments,
        columns=_columns(first)[:LOOKED_AT],
        days=_days(offers),
        against=against,
        level=LEVEL,
        low=low,
        high=WITH_ROOM,
        order="settled" if is_settled(row) else "arrived",
        sentences=_sentences(total, low, row, until, against),
    )


def _offered(store: Store, row: ModelRow, rows: Rows) -> set[str]:
    """The ids that a model's present offers have, and those that some decisions offered."""
    content = None if row.catalogue is None else store.catalogue(row.id, row.catalogue)
    ids = set() if content is None else {*unpacked(content)}
    for detail in rows.details:
        ids.update(map(str, range(detail.count) if detail.ids is None else detail.ids))
    return ids


def _check_offer(rule: Rule, known: set[str]) -> None:
    """Refuse a rule whose offer no decision could show."""
    compared, alike, bare, _ = rule.counts
    if rule.offer is None or rule.offer in known or compared or bare or not alike:
        return
    near = nearest(rule.offer, sorted(known))
    meant = f" Did you mean '{printable(near)}'?" if near else ""
    shown = ", ".join(f"'{printable(name)}'" for name in sorted(known)[:10])
    message = f"No decision offered '{printable(rule.offer)}'.{meant} Offers are {shown}."
    raise Refusal(422, "bad_rule", message, "against")


class Stream(NamedTuple):
    """What a model earned since a time, and what bounds of its mean rest on."""

    line: EarnedLine
    wealth: Wealths
    complete: bool
    silence: tuple[float, float] | None  # after how long it counts as what; None where it does not


def since(start: float) -> str:
    """The name of the part that begins at a time."""
    return f"since:{first_key(start).hex()}"


def stream(row: ModelRow, store: Store, fold: Fold, complete: bool) -> Stream:
    """What a model earned, from the fold of such a part."""
    rows = (each[:3] for each in store.decided(row.id, fold.key, END, TAIL))
    part = _with_tail(fold, Rows(rows))
    assert isinstance(part, Since)
    line = _named(_lines(part.sums, 0)[1], row.name)
    return Stream(line, part.sums.wealths.stream(1), complete, _silence(row))


def _silence(row: ModelRow) -> tuple[float, float] | None:
    if not is_settled(row):
        return None
    spec = msgspec.json.decode(row.spec)
    return spec["wait"], spec.get("default_reward") or 0.0


def compared(first: Stream, other: Stream, level: float) -> tuple[float, float] | str:
    """Bounds of what a decision of ``other`` earns more than one of ``first``, that hold at every
    time; or why there are none.
    """
    if first.silence != other.silence:
        return "cannot be compared, as they differ in wait, late or default_reward"
    for line, _, _, silence in (first, other):
        silent = line.decisions - line.rewards
        if silence is None and silent > SILENT * line.decisions:
            return (
                f"not decided yet, as {silent:,} of {line.decisions:,} decisions of {line.name} "
                "have no reward. If silence means that nothing was earned, say after how long: "
                "wait"
            )
    if min(each.wealth.rows[0] for each in (first, other)) < FEW:
        return "not decided yet, too few rewards have come"
    low, high = difference(other.wealth, first.wealth, level)
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    return "not decided yet, as a reward is too large to be added up"


def _with_tail(fold: Fold, tail: Rows) -> Part:
    """The part of a fold with the newest decisions, which may not be counted for good yet."""
    tail = tail.where(i for i, key in enumerate(tail.keys) if key > fold.key)
    if not len(tail):
        return fold.part
    part = fold.twin().part
    part.count(tail)
    return part


NAMES: Final = ("all", "chosen", "explored", "unknown", "others")


def _lines(sums: Sums, made: int) -> list[EarnedLine]:
    wealths, inverse = sums.wealths, math.log(2.0 / (1.0 - LEVEL))
    floor = 0.0 if float(wealths.low.min()) >= 0.0 else None  # of all rewards, not of each group
    low, high = wealths.lower(inverse, floor), wealths.upper(inverse)
    part = wealths.rows / np.maximum(wealths.count, 1.0)  # those before the first that paid were 0
    low, high = np.minimum(low, low * part), np.maximum(high, high * part)
    lines = []
    for place in range(sums.counts.shape[1]):
        counts, n = sums.counts[:, place], int(wealths.count[place])
        stated = n >= FEW and wealths.unit[place] > 0.0
        lines.append(
            EarnedLine(
                name=NAMES[place] if place < len(NAMES) else "",
                decisions=int(counts[DECISIONS]),
                share=float(counts[DECISIONS] / made) if made else 0.0,
                rewards=int(counts[REWARDS]),
                by_default=int(counts[BY_DEFAULT]),
                pending=max(int(counts[DECISIONS] - counts[REWARDS] - counts[GIVEN_UP]), 0),
                money=float(counts[MONEY]),
                counted=n,
                mean=float(wealths.total[place] / n) if n else None,
                low=float(low[place]) if stated else None,
                high=float(high[place]) if stated and wealths.rows[place] >= FEW else None,
            )
        )
    return lines


def _named(line: EarnedLine, name: str) -> EarnedLine:
    return msgspec.structs.replace(line, name=name)


def _segments(part: Segments, made: int) -> list[EarnedLine]:
    lines = _lines(part.sums, made)
    named = [_named(lines[place], name) for name, place in part.sums.names.items()]
    others = [_named(lines[0], "others")] if lines[0].decisions or lines[0].rewards else []
    if part.cuts is None:
        return sorted(named, key=lambda line: -line.decisions) + others
    order = {label: place for place, label in enumerate(labels(part.cuts))}
    return sorted(named, key=lambda line: order.get(line.name, len(order))) + others


def _days(part: Offers) -> list[EarnedDay]:
    if not part.days:
        return []
    first = max(part.days) - SHOWN_DAYS
    start, days = datetime.date(1970, 1, 1), []
    for day, (decisions, rewards, by_default, money) in sorted(part.days.items()):
        if day > first:
            date = str(start + datetime.timedelta(days=day))
            days.append(EarnedDay(date, int(decisions), int(rewards), int(by_default), money))
    return days


# Against a rule


def uplift(rule: Rule, against: str) -> Uplift:
    """The comparison with a rule."""
    name = "a uniform draw" if rule.offer is None else f"always '{printable(rule.offer)}'"
    gains, inverse = rule.gains, math.log(2.0 / (1.0 - LEVEL))
    rows, notes = int(gains.rows[0]), _notes(rule)
    why = _why(rule, name)
    if why:
        return Uplift(
            against, name, rows, None, None, None, None, None, None, None, None, None, LEVEL,
            OF_UPLIFT, why, notes, f"Against {name}: {why}",
        )  # fmt: skip
    rooms = _rooms(rule)
    low = float(gains.lower(inverse, rooms[0])[0])
    high = float(gains.upper(inverse, rooms[1])[0])
    value = float(gains.rest[0])
    better = True if low > 0.0 else False if high < 0.0 else None
    more = days = None
    if better is None:
        more = _more(rule, rooms, inverse)
        days = None if more is None else _in_days(rule, more)
    sentence = _sentence(name, value, rows * low, rows * high, better, more, days)
    return Uplift(
        against, name, rows, value, rows * low, rows * high, value / rows, low, high, better, more,
        days, LEVEL, OF_UPLIFT, "", notes, sentence,
    )  # fmt: skip


def _rooms(rule: Rule) -> tuple[float, float]:
    """How far below and above 0 the difference of a decision may lie."""
    gains, (up, down), weight = rule.gains, rule.far, float(rule.sides[0, 2])
    low = max(NEAR * -gains.low[0], SHARE * up * weight, SHARE * down)
    high = max(NEAR * gains.high[0], SHARE * up, SHARE * down * weight)
    return float(low), float(high)


def _why(rule: Rule, name: str) -> str:
    """The reason why a rule cannot be compared; "" where it can."""
    compared, alike, bare, unknown = rule.counts
    if not compared + alike + bare + unknown:
        return "nothing to compare: there is no decision yet."
    if unknown and not compared:
        return "cannot be said: the policy does not know the probabilities of its choices."
    if not compared:
        if bare:
            return (
                "cannot be said: no decision explored. Let a share of them explore: explore=0.05."
            )
        return f"nothing to compare: no decision could have shown what {name} shows."
    total, square, _, paid = rule.sides.T
    sizes = np.floor(total**2 / np.where(square > 0.0, square, 1.0))
    if sizes.min() < LEAST or rule.gains.rows[0] < FEW:
        which = ("showed what only the rule would show", "showed what the rule would not show")
        return (
            f"not decided yet: the decisions that {which[int(np.argmin(sizes))]} count like "
            f"{int(sizes.min())}, and {LEAST} are needed."
        )
    if paid.min() < PAID:
        which = ("showed what only the rule would show", "showed what the rule would not show")
        return (
            f"not decided yet: {int(paid.min())} of the decisions that "
            f"{which[int(np.argmin(paid))]} paid, and {PAID} are needed."
        )
    low, high = rule.weights.lower(math.log(2e3)), rule.weights.upper(math.log(2e3))
    if float(low[0]) > 1.0 or float(high[0]) < 1.0:
        return (
            "cannot be said: its offers were shown more or less often than the probabilities of "
            "the choices say."
        )
    return ""


def _notes(rule: Rule) -> list[str]:
    compared, alike, bare, unknown = map(int, rule.counts)
    notes = []
    if bare:
        notes.append(
            f"{counted(bare, 'decision')} did not explore, and {_are(bare)} left out: their offer "
            "was sure."
        )
    if unknown:
        notes.append(f"The probability of {counted(unknown, 'decision')} is not known.")
    if alike and compared:
        notes.append(
            f"In {counted(alike, 'decision')} the rule had no choice of its own: there both are "
            "taken to be alike."
        )
    return notes


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _more(rule: Rule, rooms: tuple[float, float], inverse: float) -> int | None:
    """Decisions more that would decide it, if the wealth of the best bet grows as it has."""
    gains = rule.gains
    ahead = float(gains.rest[0]) > 0.0
    room, logs = (rooms[0], gains.up[0]) if ahead else (rooms[1], gains.down[0])
    sound = np.isfinite(logs) & (BETS / gains.unit[0] * room <= 1.0)
    if not sound.any() or logs[sound].max() < GROWTH:
        return None
    rows = float(gains.rows[0])
    needed = np.min((inverse - LOG_SHARES[sound]) / np.maximum(logs[sound], 1e-300)) * rows
    if needed > LONG * rows:
        return None
    return max(math.ceil(needed - rows), 1)


def _in_days(rule: Rule, more: int) -> float | None:
    """Days in which so many decisions come at the rate of the last days."""
    last = max(rule.days, default=0)
    recent = {day: count for day, count in rule.days.items() if day > last - RECENT}
    full = {day: count for day, count in recent.items() if day < last}  # the last may not be over
    if not full:
        return None
    return more / (sum(full.values()) / (last - min(full)))


def _sentence(
    name: str,
    value: float,
    low: float,
    high: float,
    better: bool | None,
    more: int | None,
    days: float | None,
) -> str:
    far, level = max(-low, high), 100.0 * LEVEL
    sure = f"({level:.4g} %, at any time, unless a far larger reward is yet to come)"
    if better:
        return (
            f"It earned {amount(value)} more than {name} would have, at least {amount(low, far)} "
            f"more {sure}."
        )
    if better is False:
        return (
            f"It earned {amount(-value)} less than {name} would have, at least "
            f"{amount(-high, far)} less {sure}."
        )
    between = f"between {_apart(low, far)} and {_apart(high, far)} than {name} would have {sure}"
    return f"Not decided yet: it earned {between}. {_when(more, days)}"


def _apart(value: float, far: float) -> str:
    return f"{amount(abs(value), far)} {'less' if value < 0.0 else 'more'}"


def _when(more: int | None, days: float | None) -> str:
    if more is None:
        return "When it will be decided cannot be guessed yet."
    rough = f"About {counted(_rough(more), 'decision')} more like these would decide it"
    return f"{rough}, in about {counted(_rough(days), 'day')}." if days is not None else f"{rough}."


def span(seconds: float) -> str:
    """A time in the largest unit of which it has two or more."""
    units = (("days", DAY), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
    name, unit = next((each for each in units if seconds >= 2.0 * each[1]), units[-1])
    return f"{seconds / unit:.3g} {name}"


def _rough(count: float) -> int:
    """A number, rounded up to one digit."""
    unit = 10 ** math.floor(math.log10(max(count, 1.0)))
    return max(1, math.ceil(count / unit)) * int(unit)


def _sentences(
    total: EarnedLine, low: EarnedBound, row: ModelRow, until: EarnedUntil, uplift: Uplift | None
) -> list[str]:
    head = f"{counted(total.decisions, 'decision')}, {counted(total.rewards, 'reward')}"
    if not total.rewards:
        sentences = [f"{counted(total.decisions, 'decision')}, and no reward yet."]
    else:
        each = total.money / total.rewards
        sentences = [f"{head}: {amount(total.money)} in all, {amount(each)} a reward."]
    if total.low is not None and (total.low > 0.0 or low is not BETTING):
        about = "at least" if low is BETTING else "about at least"
        sentences.append(
            f"On average {about} {amount(total.low)} a reward ({100.0 * LEVEL:.4g} %, at any "
            f"time), as long as {low.assumes}."
        )
    wait = expires_after(row)
    if wait is not None and total.counted < total.rewards:
        sentences.append(f"Means and bounds leave out decisions of the last {span(wait)} (wait).")
    if total.by_default:
        were = "was" if total.by_default == 1 else "were"
        sentences.append(f"{counted(total.by_default, 'reward')} {were} taken by default.")
    if total.pending:
        waits = "waits for its reward" if total.pending == 1 else "wait for their reward"
        sentences.append(f"{counted(total.pending, 'decision')} {waits}.")
    if row.given_up:
        sentences.append(f"{counted(row.given_up, 'decision')} expired without a reward.")
    if uplift is not None:
        sentences.append(uplift.sentence)
    if not until.complete:
        sentences.append(
            f"The log is still being added up: {until.outcome:,} of {until.outcomes:,} rewards, "
            f"{until.decision:,} of {until.decisions:,} decisions."
        )
    return sentences
