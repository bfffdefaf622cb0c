"""The command line: ``heavytail COMMAND``. One file per command, under :mod:`heavytail.commands`.

A command's module gives ``add_arguments(parser)``, which must import nothing heavy, and
``run(args)``, which does the work and returns the exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import itertools
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from heavytail import __version__
from heavytail._extras import MissingExtra
from heavytail._terminal import speak_plainly

__all__ = ["main"]

COMMANDS: dict[str, str] = {
    "calibrate": "measure what the settings of the untuned Hvt-UCB cost",
    "reproduce": "run the paper's experiments: figures, results, verdicts",
    "run": "run policies and environments of your own from a TOML file",
    "export": "print the final regrets of saved results as CSV or LaTeX",
    "plot": "draw the figures of saved results again",
    "policies": "list the policies, what they cost and what they assume",
    "coverage": "count how often intervals cover the truth, and how regret is distributed",
    "evaluate": "estimate from a log what other policies would have earned",
    "log": "summarise a log of decisions, write it as Parquet, or convert an old one",
    "serve": "decide and learn over HTTP, and lose nothing",
    "earned": "say what a model of the service earned, by offer, and against a rule",
    "diagnose": "measure how heavy the tail of a table's column is",
    "fit": "fit a linear regression to a table with outliers, and list those",
    "warm": "compile policies before their first decision, for example for a container image",
}
UNREAD = 141  # the exit code of a program whose output nobody reads to its end, as in shells
RESUMED = ("reproduce", "run")  # those that keep every unit as soon as it is done


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        from heavytail._validate import on_one_line

        super().error(on_one_line(message))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Refuse unknown arguments, and suggest the options that may have been meant."""
        import difflib

        options = [option for action in self._actions for option in action.option_strings]
        matches = (
            difflib.get_close_matches(argument.partition("=")[0], options, 1)
            for argument in unknown
        )
        suggestions = list(dict.fromkeys(itertools.chain.from_iterable(matches)))
        hint = f". Did you mean {' '.join(suggestions)}?" if suggestions else ""
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; a mistake of the user's is one sentence and exit code 2."""
    with contextlib.ExitStack() as opened:  # a stream that is closed is one nobody reads
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, opened.enter_context(open(os.devnull, "w")))
                opened.callback(setattr, sys, name, None)
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    speak_plainly(sys.stdout, sys.stderr)
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(arguments)
    args, unknown = parser.parse_known_args(arguments)
    if unknown:  # said by the command's own parser, beside its own usage
        (args.parser if args.command else parser).refuse(unknown)
    if args.command is None:
        parser.print_help()
        return 0
    module = importlib.import_module(f"heavytail.commands.{args.command}")
    try:
        _refuse_nul(arguments)
        code = int(module.run(args))
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read it, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (ValueError, TypeError, KeyError, OSError, MemoryError, MissingExtra) as error:
        from heavytail._validate import on_one_line

        message = on_one_line(_said(error)).removeprefix(f"heavytail {args.command} ")
        with contextlib.suppress(OSError):  # nobody listens
            print(f"heavytail {args.command}: {message}", file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt:
        on = " The same command goes on from what is done." if args.command in RESUMED else ""
        print(f"\nheavytail {args.command}: stopped.{on}", file=sys.stderr)
        return 130


def _refuse_nul(arguments: Sequence[str]) -> None:
    """Refuse NUL in the name of a file, a column or a policy; deeper down the error says "byte"."""
    for argument in arguments:
        if "\0" in argument:
            from heavytail._validate import shown

            raise ValueError(
                f"an argument must have no NUL in it; got {shown(argument)}. Leave it out."
            )


def _said(error: Exception) -> str:
    """The sentence for an error."""
    from heavytail._validate import printable

    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None:  # and not its number
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        do = "Make room, and run it again." if full else "Check the path."
        return f"{printable(str(error.filename))}: {error.strerror or error}. {do}"
    if isinstance(error, OSError) and error.strerror:  # of standard output, for one
        return f"{error.strerror}. Some of the output may be lost."
    if isinstance(error, MemoryError):
        words = printable(str(error)) or "it is used up"
        return f"there is not enough memory: {words}. Ask for less."
    return str(error)


def build_parser(arguments: Sequence[str]) -> _Parser:
    """The parser; a command's own arguments are loaded only when that command is asked for."""
    parser = _Parser(
        prog="heavytail",
        description="Decide and learn under heavy-tailed rewards, in one pass.",
        epilog="`heavytail COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"heavytail {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name, help=summary, description=summary[0].upper() + summary[1:] + "."
        )
        sub.set_defaults(parser=sub)
        if name in arguments:
            importlib.import_module(f"heavytail.commands.{name}").add_arguments(sub)
    return parser


if __name__ == "__main__":
    sys.exit(main())
