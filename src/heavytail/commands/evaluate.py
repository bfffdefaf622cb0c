"""``heavytail evaluate``: an estimate, from a log, of what other policies would have earned."""

from __future__ import annotations

import argparse
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heavytail.commands._log_findings import Findings
    from heavytail.logs.estimators import Estimator
    from heavytail.logs.reading.source import Source

__all__ = ["add_arguments", "run"]

ECHOED = (  # on the page, in this order
    *("ids", "offered", "method", "mean", "interval", "level", "explore", "reward_floor"),
    *("reward_range", "tail", "propensities", "default_reward", "clip", "draws"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the log, the policies, the methods and the page."""
    from heavytail.logs.bounds import OF_VALUES
    from heavytail.logs.estimators import ESTIMATORS, MEANS, Modelled

    methods = [kind.name for kind in ESTIMATORS if not issubclass(kind, Modelled)]
    intervals = [*(kind.name for kind in OF_VALUES), "none"]
    add = parser.add_argument
    add(
        "logs",
        nargs="+",
        metavar="LOG",
        help="Parquet files, folders or patterns of them, the folder of a DecisionLog or of a "
        "service (FOLDER/MODEL where it has several), or lines of Vowpal Wabbit's dsjson; several "
        "are one log, in this order",
    )
    add(
        "--policy",
        action="append",
        required=True,
        metavar="POLICY",
        help="a file .npz that policy.save wrote; column:NAME, of the target's probabilities; "
        "always:ACTION, one action by its name, id or number; logged, the log's own policy; "
        "uniform, or uniform:K where the log does not say how many arms there are; or "
        "MODULE:FUNCTION, a function of heavytail.logs.reading.rows.Rows giving probabilities, "
        "(n, K) or (n,): MODULE is imported from the current folder or as installed, which runs "
        "its code. May be repeated: without --against the best is chosen",
    )
    add(
        "--against",
        action="append",
        metavar="POLICY",
        help="a baseline that every --policy is compared with",
    )
    add(
        "--column",
        action="append",
        default=[],
        metavar="OURS=THEIRS",
        help="a column's name in the log, action=arm; repeated for one of ours, theirs stand side "
        "by side; time= leaves time out",
    )
    add(
        "--catalogue",
        metavar="FILE",
        help="a table of arms, Parquet or a JSON list of objects: the policies' encoder makes "
        "the arms from it and the log's own columns, and action= is an arm's id",
    )
    add("--ids", metavar="NAME", help="the catalogue's column of ids (0, 1, 2, ... in its order)")
    add("--offered", metavar="NAME", help="the log's column of lists of ids (all are offered)")
    add("--method", choices=["auto", *methods], default="auto", help="the estimator (auto: snips)")
    add("--mean", choices=MEANS, default="huber", help="how rows are averaged (huber)")
    add("--interval", choices=intervals, default="betting", help="the bounds (betting: lower only)")
    add("--level", type=float, default=0.95, help="level of the bounds (0.95)")
    add(
        "--explore",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of uniform draws mixed in (0)",
    )
    add(
        "--reward-floor",
        type=float,
        default=0.0,
        metavar="R",
        help="lower limit of all rewards (0)",
    )
    add(
        "--reward-range", type=float, nargs=2, metavar=("LEAST", "MOST"), help="range of all "
        "rewards: gives both bounds"
    )  # fmt: skip
    add(
        "--tail",
        metavar="ORDER,SCALE",
        help="a moment of every policy's weighted rewards, E|X - V|^ORDER <= SCALE^ORDER, for "
        "--interval catoni; a difference of two has at most twice the scale",
    )
    add(
        "--propensities",
        metavar="SOURCE",
        help="frequencies (of the actions), or MODULE:FUNCTION, imported as for --policy, in place "
        "of the log's own",
    )
    add("--default-reward", type=float, metavar="R", help="the value of a reward that never came")
    add("--clip", type=float, metavar="W", help="the largest weight of clipped and bernstein")
    add("--draws", type=int, metavar="N", help="per row, for a policy that draws (LinTS)")
    add("--html", metavar="PAGE", help="also write a page that opens offline (needs matplotlib)")
    add("--quiet", action="store_true", help="no progress, and no table where --html writes a page")


def run(args: argparse.Namespace) -> int:
    """Check the arguments, read the log, print the tables and write the page."""
    from heavytail._validate import on_one_line
    from heavytail.commands._log_findings import in_options

    args.against = _one_baseline(args.against)
    _check_options(args)
    _check_files(args)
    try:
        findings = _find(args)
    except (ValueError, TypeError) as error:
        raise ValueError(in_options(str(error))) from error
    if args.html is not None:
        from heavytail._archive import replace
        from heavytail.commands._log_page import evaluation_page

        replace(args.html, evaluation_page(findings, _page_provenance(args)))
    if not args.quiet or args.html is None:
        print(findings.text())
        if args.html is not None:
            print(f"\nThe page: {on_one_line(args.html)}")
    return 0


def _one_baseline(baselines: list[str] | None) -> str | None:
    """The baseline; a second one is refused, since it would silently replace the first."""
    from heavytail._validate import shown

    if baselines is not None and len(baselines) > 1:
        raise ValueError(
            f"--against: there is one baseline; got {shown(baselines)}. Name one here, and the "
            "others by --policy."
        )
    return None if baselines is None else baselines[0]


def _check_options(args: argparse.Namespace) -> None:
    """Refuse options that the estimates would refuse later, or ignore."""
    from heavytail._validate import check_number, printable, shown
    from heavytail.logs.estimators import LS, MEANS_OF_DIFFERENCES

    check_number("--level", args.level, above=0.0, below=1.0, hint="0.95 is 95 %.")
    names = [printable(name) for name in _requested(args)]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"--policy, --against: {shown(twice[0])} is named twice. Name it once.")
    if args.against is not None and issubclass(_estimator(args), LS):
        raise ValueError(f"--against: method {args.method} has one side only. Pass auto or ips.")
    if args.against is not None and args.mean not in MEANS_OF_DIFFERENCES:
        known = ", ".join(MEANS_OF_DIFFERENCES)
        raise ValueError(
            f"--against: a difference supports only the means {known}; got {args.mean}."
        )
    if args.interval == "catoni" and args.tail is None:
        raise ValueError("--interval catoni needs --tail ORDER,SCALE. --interval huber needs none.")
    if args.catalogue is None and (args.ids is not None or args.offered is not None):
        raise ValueError("--ids and --offered need --catalogue FILE.")
    if args.interval == "bernstein" and args.reward_range is None:
        raise ValueError("--interval bernstein needs --reward-range LEAST MOST.")
    if args.clip is not None and args.method != "clipped" and args.interval != "bernstein":
        raise ValueError(
            "--clip applies only to --method clipped and --interval bernstein. Leave it out."
        )


def _requested(args: argparse.Namespace) -> list[str]:
    """Every policy's words, the baseline's last."""
    return [*args.policy, *([] if args.against is None else [args.against])]


def _check_files(args: argparse.Namespace) -> None:
    """Refuse input files that are missing or unreadable, and a page that would overwrite one."""
    from heavytail._extras import need, need_to_draw
    from heavytail._validate import on_one_line
    from heavytail.commands._log_targets import is_saved
    from heavytail.logs.reading.files import kept, kind, paths

    if args.html is not None:
        need_to_draw("--html")
    inputs = [words for words in _requested(args) if is_saved(words)]
    inputs += [] if args.catalogue is None else [args.catalogue]
    if args.catalogue is not None and not os.path.isfile(args.catalogue):
        raise ValueError(f"--catalogue {on_one_line(args.catalogue)}: there is no such file.")
    for log in args.logs:
        store = kept(log)
        if os.path.isdir(log) or store:
            need(f"{on_one_line(log)}, a folder of Parquet,", "pyarrow", extra="logs")
        for path in [] if store else paths(log):
            if not os.path.isfile(path):
                raise ValueError(
                    f"{path} is not a file, but a device, a pipe or a socket. Pass a file."
                )
            if kind(path) == "parquet":
                need(f"{on_one_line(path)}, Parquet,", "pyarrow", extra="logs")
            inputs.append(path)
    if args.html is not None:
        _check_page(args.html, inputs)


def _check_page(page: str, inputs: list[str]) -> None:
    """Refuse a page that could not be written after the work."""
    from heavytail._validate import shown

    if not os.path.basename(page):
        raise ValueError(f"--html must name a file; got {shown(page)}.")
    folder = os.path.dirname(os.path.realpath(page))
    if not os.path.isdir(folder):
        raise ValueError(f"--html {page}: there is no folder to write it to. Make it first.")
    if os.path.exists(page) and not os.path.isfile(page):
        raise ValueError(f"--html {page}: exists and is not a file. Name another.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"--html {page}: its folder cannot be written to. Name another.")
    if os.path.exists(page) and any(os.path.samefile(page, path) for path in inputs):
        raise ValueError(f"--html {page}: is also an input file. Name another file.")


def _columns(options: list[str], only_columns: bool) -> dict[str, Any]:
    """The columns for the estimates; arms and context are not read if nothing needs them."""
    from heavytail._validate import shown

    columns: dict[str, Any] = dict.fromkeys(("arms", "context")) if only_columns else {}
    named: dict[str, list[str]] = {}
    for words in options:
        ours, equals, theirs = words.partition("=")
        if not equals or not ours:
            raise ValueError(f"--column must be OURS=THEIRS, action=arm; got {shown(words)}.")
        named.setdefault(ours, []).append(theirs)
    for ours, names in named.items():
        if len(names) > 1 and "" in names:
            raise ValueError(
                f"--column {shown(ours)}: is both named and left out. Do only one of these."
            )
        columns[ours] = (names[0] or None) if len(names) == 1 else names
    return columns


def _find(args: argparse.Namespace) -> Findings:
    """Read the log once per policy, once per comparison and once for the choice."""
    import heavytail as ht
    from heavytail._validate import printable
    from heavytail.commands import _log_targets as targets
    from heavytail.commands._log_findings import Findings
    from heavytail.commands._log_progress import progress
    from heavytail.logs.reading.source import Source
    from heavytail.logs.target import Target

    requested = _requested(args)
    plain = (
        all(map(targets.is_column, requested)) and not args.explore and args.propensities is None
    )
    log = args.logs[0] if len(args.logs) == 1 else args.logs
    columns = _columns(args.column, plain)
    if args.catalogue is not None:
        columns["arms"] = _catalogue(args, columns)
    source = Source(log, columns, args.default_reward)
    options = _options(args, source)
    policies = {}
    for place, words in enumerate(requested):
        option = "--policy" if place < len(args.policy) else "--against"
        policy = targets.policy_of(words, source, option)
        policies[printable(words)] = Target(policy, explore=args.explore, draws=args.draws)
    against = None if args.against is None else printable(args.against)
    names = [name for name in policies if name != against]
    several = against is None and len(names) > 1
    readings = len(policies) + (2 * len(names) if against else len(names) if several else 0)
    with progress(args.quiet, source.length(), readings) as tick:
        propensities = targets.propensities_of(args.propensities, source)
        watched = {
            name: targets.Weights(name, target, propensities, tick)
            for name, target in policies.items()
        }
        common = {**options["common"], "propensities": propensities}
        chosen = None
        if several:
            chosen = ht.select(log, watched, **common, **options["select"])
        evaluations = {}
        for name, weights in watched.items():
            weights.counting = True
            evaluations[name] = ht.evaluate(log, weights, **common, **options["evaluate"])
            weights.counting = False
        apart = {}
        for name in names if against is not None else ():
            apart[name] = ht.compare(
                log, watched[name], watched[str(against)], **common, **options["compare"]
            )
    return Findings(
        evaluations, watched, against, apart, chosen, args.level, args.propensities == "frequencies"
    )


def _catalogue(args: argparse.Namespace, columns: dict[str, Any]) -> Any:
    """The catalogue of the arms, with the encoder of the saved policies."""
    from heavytail.commands import _log_targets as targets
    from heavytail.commands._log_catalogue import catalogue_of

    if columns.get("arms") is not None:
        raise ValueError(
            "--catalogue makes the arms, and --column arms= names them. Pass only one."
        )
    saved = [targets.saved_policy(words, "--policy") for words in _requested(args)
             if targets.is_saved(words)]  # fmt: skip
    return catalogue_of(args.catalogue, saved, args.ids, args.offered)


def _estimator(args: argparse.Namespace) -> type[Estimator]:
    from heavytail.logs.estimators import ESTIMATORS

    name = "snips" if args.method == "auto" else args.method
    return next(kind for kind in ESTIMATORS if kind.name == name)


def _options(args: argparse.Namespace, source: Source) -> dict[str, dict[str, Any]]:
    """The arguments of each of the three estimates.

    m comparisons have (1 - level)/m each, so that all hold at once. By the triangle inequality a
    difference of two weighted rewards has at most twice the scale of each.
    """
    from heavytail.logs import bounds
    from heavytail.tails import MomentBound

    tail = None if args.tail is None else _tail(args.tail)
    floor, ceiling = args.reward_range or (args.reward_floor, None)
    stated = {"floor": floor, "ceiling": ceiling, "clip": args.clip, "mean": args.mean}
    limits = bounds.Betting(floor, ceiling)
    apart: Any = "hindsight"
    if ceiling is not None:
        apart = limits
    elif tail is not None:
        apart = bounds.Catoni(MomentBound(order=tail.order, scale=2.0 * tail.scale))
    difference = {"estimator": _made(_estimator(args), stated), "bound": apart}
    if tail is not None:
        stated |= {"tail": tail, "mean": tail if args.mean == "catoni" else args.mean}
    chosen = [_made(kind, stated) for kind in bounds.OF_VALUES if kind.name == args.interval]
    return {
        "common": {"columns": source.columns, "default_reward": source.default_reward},
        "evaluate": {
            "estimator": _made(_estimator(args), stated),
            "bound": chosen[0] if chosen else None,
            "level": args.level,
        },
        "compare": {**difference, "level": 1.0 - (1.0 - args.level) / len(args.policy)},
        "select": {"level": args.level, "bound": bounds.Betting(floor)},
    }


def _made(kind: type[Any], stated: dict[str, Any]) -> Any:
    """A value with those of the stated arguments that it takes."""
    known = [field.name for field in fields(kind) if stated.get(field.name) is not None]
    return kind(**{name: stated[name] for name in known})


def _tail(words: str) -> Any:
    from heavytail._validate import shown
    from heavytail.tails import MomentBound

    order, comma, scale = words.partition(",")
    try:
        numbers = float(order), float(scale)
    except ValueError:
        comma = ""
    if not comma:
        raise ValueError(f"--tail must be ORDER,SCALE, such as 1.5,2; got {shown(words)}.")
    return MomentBound(order=numbers[0], scale=numbers[1])


def _page_provenance(args: argparse.Namespace) -> dict[str, Any]:
    """Provenance for the page; file paths are left out on purpose."""
    from heavytail._validate import on_one_line
    from heavytail.commands._log_targets import is_saved
    from heavytail.experiments.machine import provenance

    def plain(words: str) -> str:
        return os.path.basename(words.rstrip(os.sep)) if is_saved(words) else words

    words = ["heavytail evaluate", *(os.path.basename(log.rstrip(os.sep)) for log in args.logs)]
    words += [f"--policy {plain(policy)}" for policy in args.policy]
    words += [f"--against {plain(args.against)}"] if args.against is not None else []
    words += [f"--column {column}" for column in args.column]
    if args.catalogue is not None:
        words.append(f"--catalogue {os.path.basename(args.catalogue)}")
    for name in ECHOED:
        value = getattr(args, name)
        if value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(f"--{name.replace('_', '-')} {shown}")
    return provenance(command=on_one_line(" ".join(words)))
