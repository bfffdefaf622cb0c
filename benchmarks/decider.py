"""Which offer to show to whom: ``ht.Decider`` beside straight lines, trees and Vowpal Wabbit.

    make .bench/.ready                  # Vowpal Wabbit, in an environment of its own
    python -m benchmarks.decider --worlds tuning --trials 3 --out results/decider.jsonl
    python -m benchmarks.decider --worlds reported --seed 1000 --out results/decider.jsonl
    python -m benchmarks.decider --table results/decider.jsonl --summary
    python -m benchmarks.decider --speed

Regret is counted in mean rewards, from the best offer of each context, exploration included. A run
continues where its records end. benchmarks/decider_worlds.py has the worlds, decider_real.py the
recorded ones (RAND needs pip install 'heavytail[data,learn]'), decider_players.py the players.
``linear`` is Twin-UCB on straight lines, fitted on 2000 contexts that it got beforehand; OFUL,
LinTS and UCB are told the deviation of the noise; of "boosting" and "vw" the best version in
hindsight counts, by its mean regret in the world.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import heavytail as ht
from benchmarks.decider_players import BOOSTING, DECIDER, PLAYERS, VW, Skipped, play_out
from benchmarks.decider_real import REAL, ROWS
from benchmarks.decider_worlds import REPORTED, TUNING, World

WORLDS = {**TUNING, **REPORTED, **REAL}
SETS = {"tuning": list(TUNING), "reported": list(REPORTED), "real": list(REAL)}
GROUPS = ("non-linear", "linear", "price", "real")
BESTS = {"best vw": list(VW), "best boosting": list(BOOSTING)}
KNOWN = ("uniform", "best fixed offer")  # their regret is computed
Records = list[dict[str, Any]]
Trials = dict[int, float]


def chosen_worlds(names: list[str]) -> list[World]:
    """Worlds by name, by set (tuning, reported, real) or by group."""
    chosen: list[World] = []
    for name in names:
        group = [w for w in WORLDS.values() if name in (w.name, w.group)]
        listed = [WORLDS[w] for w in SETS.get(name, [])] or group
        if not listed:
            raise SystemExit(f"--worlds: {name!r} is none of {', '.join([*SETS, *WORLDS])}.")
        chosen += [world for world in listed if world not in chosen]
    return chosen


def _trial(world: World, players: list[str], rounds: int, seed: int) -> Iterator[dict]:
    about = {"world": world.name, "group": world.group, "seed": seed, "rounds": rounds}
    try:
        play = world.play(seed, rounds)
    except ImportError as why:
        print(f"{world.name} is left out: {why}", file=sys.stderr)
        return
    lost = play.best[:, None] - play.means
    marks = [rounds // 4, rounds // 2, rounds]
    known = {"uniform": lost.mean(axis=1), "best fixed offer": lost[:, lost.sum(axis=0).argmin()]}
    for name in players:
        started = time.perf_counter()
        if name in known:
            each = known[name]
        else:
            try:
                each = lost[np.arange(rounds), play_out(name, play, seed)]
            except Skipped as why:
                print(f"{world.name}: {name} is left out: {why}", file=sys.stderr)
                continue
        seconds = round(time.perf_counter() - started, 1)
        regret = [round(float(each[:mark].sum()), 2) for mark in marks]
        yield {**about, "player": name, "regret": regret, "seconds": seconds}


# Records


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[part] for part in ("world", "player", "rounds", "seed"))


def read(path: Path) -> Records:
    """The records of a file; of two of one trial the later counts."""
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return list({key(row): row for row in rows}.values())


def continued(args: argparse.Namespace) -> Records:
    """Run what ``args.out`` does not have yet; all records of this request."""
    done = {key(record): record for record in read(args.out)} if args.out else {}
    worlds, seeds = chosen_worlds(args.worlds), range(args.seed, args.seed + args.trials)
    records: Records = []
    for seed in seeds:
        for world in worlds:
            rounds = min(args.rounds, ROWS.get(world.name, args.rounds))
            asked = {p: (world.name, p, rounds, seed) for p in [*KNOWN, *args.players]}
            records += [done[k] for k in asked.values() if k in done]
            missing = [p for p, k in asked.items() if k not in done]
            for record in _trial(world, missing, rounds, seed) if missing else []:
                records.append(record)
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                print(
                    f"{world.name:20} {seed:5} {record['player']:20} {record['regret'][-1]:>12,.0f}"
                    f" {record['seconds']:7.1f} s",
                    file=sys.stderr,
                    flush=True,
                )
    return records


# Tables


def by_player(records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Trials]]:
    """Regrets by world, player and seed. The bests in hindsight are players too, each of those
    that played the most trials.
    """
    regrets: dict[str, dict[str, Trials]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        regrets[record["world"]][record["player"]][record["seed"]] = record["regret"][-1]
    for runs in regrets.values():
        for best, names in BESTS.items():
            played = [runs[name] for name in names if name in runs]
            if played:
                runs[best] = min(played, key=lambda r: (-len(r), np.mean([*r.values()])))
    return regrets


def ratio(runs: dict[str, Trials], name: str, other: str) -> float | None:
    """Mean regret of one over that of another in the trials of both; None where there are none or
    one is not above 0.
    """
    both = runs.get(name, {}).keys() & runs.get(other, {}).keys()
    above, below = (float(np.sum([runs[p][seed] for seed in both])) for p in (name, other))
    return above / below if min(above, below) > 0.0 else None


def geometric(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.exp(np.mean(np.log(known)))) if known else None


def table(records: Records) -> str:
    """Per set and group: median and mean regret, then ratios, with geometric means."""
    regrets, parts = by_player(records), []
    groups = {record["world"]: record["group"] for record in records}
    names = [*KNOWN, *PLAYERS, *BESTS]
    for part, group in product(SETS, GROUPS):
        worlds = [world for world in SETS[part] if groups.get(world) == group]
        present = [name for name in names if any(name in regrets[world] for world in worlds)]
        if not worlds:
            continue
        trials = sorted({len(regrets[world][name]) for world in worlds for name in regrets[world]})
        head = ["player", *worlds]
        rows = [
            [name, *(_middle_and_mean(regrets[world].get(name)) for world in worlds)]
            for name in present
        ]
        seeds = " to ".join(map(str, sorted({trials[0], trials[-1]})))
        parts.append(
            f"## {part}, {group}: median (mean) regret, {seeds} trials\n\n{_lines(head, rows)}"
        )
        for other in ("linear", *BESTS):
            rows = []
            for name in present:
                ratios = [ratio(regrets[world], name, other) for world in worlds]
                rows.append([name, *map(_two, ratios), _two(geometric(ratios))])
            title = f"Mean regret in units of {other}'s"
            parts.append(f"{title}\n\n{_lines([*head, 'geometric mean'], rows)}")
    return "\n\n".join(parts)


def _middle_and_mean(trials: Trials | None) -> str:
    runs = [*(trials or {}).values()]
    return f"{np.median(runs):,.0f} ({np.mean(runs):,.0f})" if runs else "-"


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _lines(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


MARKS = [
    ("non-linear", "linear", 0.5),
    ("non-linear", "best vw", 1.0),
    ("non-linear", "best boosting", 1.0),
    ("linear", "linear", 1.15),
    ("price", "separate arms", 1.0),
    ("price", "linear", 1.0),
    ("real", "best vw", 1.0),
    ("real", "best boosting", 1.0),
    ("real", "linear", 1.0),
]


def summary(records: Records) -> str:
    """The marks that the decider reaches: geometric means over worlds, and the worst of them."""
    regrets, rows = by_player(records), []
    groups = {record["world"]: record["group"] for record in records}
    for name, part in product(DECIDER, SETS):
        for group, other, mark in MARKS:
            ratios = {
                world: ratio(regrets[world], name, other)
                for world in SETS[part]
                if groups.get(world) == group
            }
            known = {world: value for world, value in ratios.items() if value is not None}
            if known:
                middle, worst = geometric(known.values()), max(known, key=lambda w: known[w])
                passed = "yes" if middle is not None and middle <= mark else "no"
                each = f"{sum(v <= mark for v in known.values())} of {len(known)}"
                last = f"{worst} {known[worst]:.2f}"
                rows.append(
                    [name, part, group, f"{mark:g} x {other}", _two(middle), passed, each, last]
                )
    if not rows:
        return "There are no records of a decider."
    head = [
        "player",
        "worlds",
        "group",
        "mark",
        "geometric mean",
        "reached",
        "worlds that do",
        "worst",
    ]
    return _lines(head, rows)


# Speed


def speed(rows: int = 1_000_000) -> None:
    """Median times of ``decide`` and ``reward`` with 50 offers, and the time of ``learn``."""
    if not hasattr(ht, "Decider"):
        raise SystemExit("There is no ht.Decider yet.")
    rng = np.random.default_rng(0)
    offers = [{"sku": f"s{k}", "price": 5.0 + k, "kind": "abcde"[k % 5]} for k in range(50)]
    context = {"segment": None, "basket": None, "hour": None}
    shop = ht.Decider(offers, ids="sku", context=list(context))
    times: dict[str, list[float]] = {"decide": [], "reward": []}
    for t in range(3000):
        basket, hour = float(rng.lognormal(3.4, 0.7)), float(rng.integers(24))
        seen = {
            "segment": str(rng.choice(["new", "loyal", "lapsed"])),
            "basket": basket,
            "hour": hour,
        }
        started = time.perf_counter()
        choice = shop.decide(seen)
        decided = time.perf_counter()
        paid = float(np.sin(hour / 4.0) + np.log(basket) + rng.standard_t(2.1))  # curves in both
        rewarded = time.perf_counter()
        shop.reward(choice.token, paid)
        if t >= 1000:
            times["decide"].append(decided - started)
            times["reward"].append(time.perf_counter() - rewarded)
    for name, taken in times.items():
        low, high = 1e6 * np.quantile(taken, [0.5, 0.99])
        print(f"{name}: median {low:,.0f} us, 99 of 100 within {high:,.0f} us")
    hours = rng.integers(0, 24, rows).astype(float)
    baskets = rng.lognormal(3.4, 0.7, rows)
    log = {
        "segment": rng.choice(["new", "loyal", "lapsed"], rows),
        "basket": baskets,
        "hour": hours,
        "sku": np.char.add("s", rng.integers(0, 50, rows).astype(str)),
        "action": np.char.add("s", rng.integers(0, 50, rows).astype(str)),
        "reward": np.sin(hours / 4.0) + np.log(baskets) + rng.standard_t(2.1, rows),
        "propensity": np.full(rows, 0.02),
    }
    log["action"] = log["sku"]
    fresh = ht.Decider(offers, ids="sku", context=list(context))
    started = time.perf_counter()
    fresh.learn(log)
    print(f"learn: {time.perf_counter() - started:.1f} s for {rows:,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", default="tuning", help="names, groups or sets, with commas")
    parser.add_argument("--players", default=",".join(PLAYERS), help="names, with commas")
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the first trial")
    parser.add_argument("--out", type=Path, help="records; a run continues where they end")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the tables of records")
    parser.add_argument("--summary", action="store_true", help="print the marks")
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    if args.speed:
        speed()
        return
    args.worlds, args.players = args.worlds.split(","), args.players.split(",")
    for name in args.players:
        if name not in PLAYERS:
            raise SystemExit(f"--players: {name!r} is none of {', '.join(PLAYERS)}.")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
    records = read(args.table) if args.table else continued(args)
    if not args.summary or not args.table:
        print(table(records))
    if args.summary:
        print(summary(records))


if __name__ == "__main__":
    main()
