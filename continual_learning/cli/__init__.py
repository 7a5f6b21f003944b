"""The command line, `continual`.

JAX is imported by what needs it, so that help and lists come at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import continual_learning
from continual_learning.cli import bench, paper, report, studies, sweep
from continual_learning.experiments import ahead
from continual_learning.experiments.errors import StudyError, unknown

FAILED = 2
"""Exit code where the message says what to put right."""

READER_GONE = 128 + 13
"""Exit code of a program whose output nobody reads any more (SIGPIPE), as of `| head -1`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command, that of the process if none is given; the exit code."""
    if argv is not None:
        return _main(list(argv))
    try:
        code = _main(sys.argv[1:])
    except KeyboardInterrupt:
        ahead.leave(ahead.INTERRUPTED)
        raise
    ahead.leave(code)
    return code


def _main(words: list[str]) -> int:
    try:
        args = _parse(words)
        code = args.command(args)
        # Output that is flushed after the end fails where nobody can catch it.
        return READER_GONE if _reader_gone() else code
    except SystemExit:  # of help and version
        if _reader_gone():
            return READER_GONE
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_gone("\n"):
            return READER_GONE
        if not _expected(error):
            raise
        print(f"continual: {error}", file=sys.stderr)
        return FAILED


def _reader_gone(text: str = "") -> bool:
    """Writes all that is to be written; whether nobody reads it, so that the rest goes nowhere."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _expected(error: Exception) -> bool:
    """Whether the message is for the user: an error of a class of ours, a file, or an extra."""
    ours = type(error).__module__.startswith("continual_learning.")
    extra = isinstance(error, ImportError) and "pip install" in str(error)
    return ours or extra or isinstance(error, OSError)


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise StudyError(f"{message} (`{self.prog} --help` explains the options)")


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="continual", description="Continual learning without plasticity loss: studies."
    )
    parser.add_argument("--version", action="version", version=continual_learning.__version__)
    commands: Any = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, parser_class=_Parser
    )

    def command(name: str, function: Any, help: str, more: str = "") -> argparse.ArgumentParser:
        each = commands.add_parser(
            name, help=help, description=f"{help[0].upper()}{help[1:]}.{more}", allow_abbrev=False
        )
        each.set_defaults(command=function, parser=each)
        return each

    studies.add(command, words)
    sweep.add(command, words)
    report.add(command)
    paper.add(command)
    bench.add(command)
    args, rest = parser.parse_known_args(words)
    if hasattr(args, "folders") and not any(word.startswith("-") for word in rest):
        # argparse takes folders from one place alone: `table ID --format tex DIR` has them in two.
        args.folders, rest = [*args.folders, *map(Path, rest)], []
    if rest:
        _unrecognised(args.parser, rest)
    return args


def _unrecognised(parser: argparse.ArgumentParser, words: list[str]) -> NoReturn:
    wrong = words[0].partition("=")[0]
    if wrong.startswith("--"):
        flags = [flag for action in parser._actions for flag in action.option_strings]
        raise unknown(f"option of `{parser.prog}`", wrong, [f for f in flags if len(f) > 2])
    parser.error(f"unexpected {wrong!r}")
