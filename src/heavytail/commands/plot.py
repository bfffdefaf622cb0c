"""``heavytail plot``: the figures of saved results, drawn again from Parquet."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "results",
        type=Path,
        help="the folder of `heavytail run` or `reproduce`, or a file of Results.save",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="where to draw (figures/ beside the results)"
    )


def run(args: argparse.Namespace) -> int:
    """Read, draw and print the names."""
    from heavytail._archive import folder
    from heavytail._extras import need
    from heavytail._validate import on_one_line
    from heavytail.experiments.saved import draw, read

    need("heavytail plot", "matplotlib", "pyarrow", extra="experiments")
    saved = read(args.results)
    beside = args.results if args.results.is_dir() else args.results.parent
    out = args.out or beside / "figures"
    with folder(out):
        names = draw(saved, out)
    print("\n".join(on_one_line(str(out / f"{name}.png")) for name in names))
    return 0
