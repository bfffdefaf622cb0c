"""``heavytail fit``: a regression on a table with outliers."""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytail._typing import FloatArray, IntArray
    from heavytail.commands._fit_findings import Findings
    from heavytail.tables.file import File

__all__ = ["add_arguments", "run"]

HINT = " Name columns of words by --categories, or leave it out by naming the others by --features."
OF_TARGET = " It must be a number in every row: correct it, or empty it and pass --skip-missing."
FEWER = "Name fewer columns by --features."
TIMES = 3  # that a table is held at once: as it was read, as features, and in another order
MOST_WORDS = 100  # of one column, each a feature


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the table, the target, the features, and the files of the model and the picture."""
    from heavytail.commands._table_arguments import add_table_arguments

    add_table_arguments(parser)
    add = parser.add_argument
    add("--target", required=True, metavar="COLUMN", help="the column to explain")
    add(
        "--features",
        action="append",
        metavar="COLUMNS",
        help="the columns to explain it by, A,B,C or one at a time, beside those of --categories "
        "(all others)",
    )
    add(
        "--categories",
        action="append",
        metavar="COLUMNS",
        help="columns that hold words, such as a city, named here alone or by --features too; each "
        "word is compared to the most frequent one",
    )
    add(
        "--response",
        choices=("mean", "typical"),
        default="mean",
        help="mean where outliers are real and count, typical where they are mistakes (mean)",
    )
    add("--level", type=float, default=0.95, help="level of the intervals (0.95)")
    add(
        "--beyond",
        type=float,
        default=5.0,
        metavar="SCALES",
        help="a row further than this many scales of noise from the typical row is an outlier (5)",
    )
    add("--show", type=int, default=10, metavar="N", help="outliers to list (10)")
    add("--save", metavar="FILE", help="keep the model (.npz); heavytail.load reads it")
    add("--plot", metavar="FILE", help="draw slopes and residuals (.png, .svg, ...)")


def run(args: argparse.Namespace) -> int:
    """Check, read, fit and print; save and draw on request."""
    from heavytail._extras import need
    from heavytail._validate import on_one_line

    need("heavytail fit", "sklearn", extra="learn")
    _check(args)
    findings = _fitted(args)
    parts = [findings.text()]
    if args.save is not None:
        findings.model.save(args.save)
        parts.append(f"The model: {on_one_line(args.save)}")
    if args.plot is not None:
        from heavytail.commands._fit_picture import draw
        from heavytail.experiments.plots import save_one

        save_one(draw(findings), args.plot, dpi=150)
        parts.append(f"The picture: {on_one_line(args.plot)}")
    print("\n".join([parts[0], *([""] * (len(parts) > 1)), *parts[1:]]))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse options that would fail after the work."""
    from heavytail._archive import check_target
    from heavytail._validate import check_count, check_number
    from heavytail.commands._table_arguments import check_apart

    check_number("--level", args.level, above=0.0, below=1.0)
    check_number("--beyond", args.beyond, above=0.0)
    check_count("--show", args.show, least=0)
    if args.save is not None:
        check_target(args.save, "--save")
    if args.plot is not None:
        from heavytail.experiments.plots import check_image

        check_image(args.plot)
    check_apart(args.file, save=args.save, plot=args.plot)


def _fitted(args: argparse.Namespace) -> Findings:
    """Fit the model of the table, with the residuals of its rows."""
    import numpy as np

    import heavytail as ht
    from heavytail._memory import check_memory
    from heavytail.commands._fit_design import Design
    from heavytail.commands._fit_findings import Findings
    from heavytail.estimators.base import check_room
    from heavytail.simulation.progress import progress_lines
    from heavytail.tables.cells import Words
    from heavytail.tables.opening import opened

    model = ht.OnePassHuberRegressor(target=args.response, standardize=True, level=args.level)
    numbers, values, count = [np.empty(0, dtype=np.int64)], [], 0
    with opened(args.file, decimal_comma=args.decimal_comma, header=args.header) as table:
        groups = _categories(table, args.target, args.categories)
        columns = _features(table, args.target, args.features, groups)
        hints = {**dict.fromkeys(columns, HINT), args.target: OF_TARGET}
        check_room(len(columns), f"{table.path}: ", FEWER)
        words = {column: Words(MOST_WORDS) for column in groups}
        values.append(np.empty((0, len(columns) + 1)))
        with progress_lines("rows read", None) as bar:
            for rows in table.numbers(
                [*columns, args.target], skip_missing=args.skip_missing, hint=hints, words=words
            ):
                numbers.append(rows.at)
                values.append(rows.values)
                bar.advance(len(rows.at))
                count += len(rows.at)
                table_words = f"{table.path}: {count:,} rows of {len(columns) + 1} numbers"
                check_memory(
                    table_words, TIMES * count * (len(columns) + 1), "Pass a part of them."
                )
    data = np.concatenate(values)
    y = data[:, -1].copy()
    design = Design(
        columns, data[:, :-1], {name: numbered.words for name, numbered in words.items()}
    )
    if not len(y):
        raise ValueError(f"{table.path} has no rows with values. Pass a table with some.")
    design.check(table.path)
    if len(y) < len(design.features) + 2:
        raise ValueError(
            f"{table.path} has {len(y)} rows, too few for {len(design.features) + 1} coefficients "
            f"and their errors. {FEWER}"
        )
    try:
        mixed = _mixed(design.X, y)
        model.fit(design.X[mixed], y[mixed])
    except ValueError as error:
        raise ValueError(f"{table.path}: {error}") from None
    model.feature_names_in_ = np.array(design.features, dtype=object)
    return Findings(
        model=model,
        path=table.path,
        target=args.target,
        at=np.concatenate(numbers),
        design=design,
        y=y,
        skipped=table.skipped,
        beyond=args.beyond,
        listed=args.show,
    )


def _mixed(X: FloatArray, y: FloatArray) -> IntArray:
    """An order of the rows that depends on their values, not on the sorting of the file: a pass
    over rows sorted by y learns a different line than a pass over the same rows shuffled.
    """
    import numpy as np

    by_value = np.lexsort(np.column_stack([X, y]).T)
    return np.asarray(by_value[np.random.default_rng(0).permutation(len(y))])


def _categories(table: File, target: str, options: list[str] | None) -> list[str]:
    """The columns that hold words."""
    from heavytail.commands._table_arguments import check_named

    check_named(table, [target], "--target")
    groups = _split(table, options or [])
    check_named(table, groups, "--categories")
    _refuse_target(target, groups, "--categories")
    return groups


def _features(table: File, target: str, options: list[str] | None, groups: list[str]) -> list[str]:
    """The columns that explain the target: those that are named, and those of words."""
    from heavytail._validate import shown
    from heavytail.commands._table_arguments import check_named

    if options is None:
        features = [name for name in table.names if name != target]
    else:
        features = list(dict.fromkeys([*_split(table, options), *groups]))
    check_named(table, features, "--features")
    _refuse_target(target, features, "--features")
    if not features:
        raise ValueError(f"{table.path} has no column beside {shown(target)} to explain it by.")
    return features


def _refuse_target(target: str, columns: list[str], option: str) -> None:
    """Refuse the target as one of its own features."""
    from heavytail._validate import shown

    if target in columns:
        raise ValueError(
            f"{option} has the target {shown(target)}, which would explain itself. Leave it out."
        )


def _split(table: File, options: list[str]) -> list[str]:
    """Columns from options A,B,C, each once; a column may have a comma in its name."""
    split = [[words] if words in table.names else words.split(",") for words in options]
    return list(dict.fromkeys(itertools.chain.from_iterable(split)))
