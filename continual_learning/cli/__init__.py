"""The command line, `continual`.

Only functions that need JAX import it, so that help and lists appear at once.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from continual_learning import plugins
from continual_learning.cli import bench, completion, paper, report, studies, sweep
from continual_learning.installation import VERSION
from continual_learning.schema.errors import RunError, StudyError, printable, unknown
from continual_learning.studies import prefetch
from continual_learning.studies.memory import exhausted
from continual_learning.studies.store.files import MachineError, of_machine

FAILED = 2
"""The exit code of an error that the user can correct, as the message explains."""

RUN_FAILED = 1
"""The exit code if a run or some jobs failed."""

MACHINE = 3
"""The exit code of an error of the machine: a disk, permissions, memory, another process."""

READER_GONE = 128 + 13
"""The exit code if nobody reads the output any more (SIGPIPE), as in `| head -1`."""

_WITHOUT_PLUGINS = ("completion", "doctor")
"""Commands that name no experiment, method or study."""

_NEXT = "`continual --help` explains them."
_FIRST = """first steps:
  continual list                                    experiments by name
  continual run random_labels --scale short --methods adam,cpr --out runs/first
  continual report runs/first                       a page with its curves and tables
  continual COMMAND --help                          the options of a command"""
"""The first steps, which follow the list of commands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command, by default that of the process; return the exit code."""
    if argv is not None:
        return _main(list(argv))
    try:
        code = _main(sys.argv[1:])
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process is ending already.
        print("continual: interrupted", file=sys.stderr)
        code = prefetch.INTERRUPTED
    prefetch.leave(code)
    return code


def _main(words: list[str]) -> int:
    try:
        for word in words:
            if not _is_text(word):
                raise StudyError(f"{word!r} is not UTF-8: use another name.")
        args = _parse(words)
        code = args.command(args)
        # An error of a flush after the end could not be caught.
        return READER_GONE if _reader_gone() else code
    except SystemExit:  # Help and version end like this.
        if _reader_gone():
            return READER_GONE
        raise
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _reader_gone("\n"):
            return READER_GONE
        if not _expected(error):
            raise
        print(f"continual: {printable(_message(error))}", file=sys.stderr)
        return _code(error)


def _is_text(word: str) -> bool:
    """Return whether a word is UTF-8, which files, logs and terminals need."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reader_gone(text: str = "") -> bool:
    """Flush the output; return whether nobody reads it, and discard the rest in this case."""
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _expected(error: Exception) -> bool:
    """Return whether the message is for the user: an error of this package, a file or an extra."""
    ours = type(error).__module__.startswith("continual_learning.")
    extra = isinstance(error, ImportError) and "pip install" in str(error)
    return ours or extra or isinstance(error, OSError) or exhausted(error)


def _code(error: Exception) -> int:
    if isinstance(error, RunError):
        return RUN_FAILED
    machine = isinstance(error, MachineError) or exhausted(error)
    return MACHINE if machine or (isinstance(error, OSError) and of_machine(error)) else FAILED


def _message(error: Exception) -> str:
    if not exhausted(error):
        return re.sub(r"\S{400,}", lambda endless: f"{endless[0][:80]}…", str(error))
    return (
        f"There is too little memory ({str(error).splitlines()[0]:.200}): use fewer seeds, "
        "environments or units, a smaller batch, or a machine with more. What was saved is intact."
    )


def _overview(args: argparse.Namespace) -> int:
    """Print the text of the command without arguments."""
    print(f"{args.overview()}\n{_FIRST}")
    return 0


class _Parser(argparse.ArgumentParser):
    """A parser that raises an error where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise StudyError(f"{message} (`{self.prog} --help` explains the options)")


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="continual", description="Continual learning without plasticity loss: studies."
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands: Any = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    parser.set_defaults(command=_overview, overview=parser.format_help)

    def command(name: str, function: Any, help: str, more: str = "") -> argparse.ArgumentParser:
        each = commands.add_parser(
            name, help=help, description=f"{help[0].upper()}{help[1:]}.{more}", allow_abbrev=False
        )
        each.set_defaults(command=function, parser=each)
        return each

    _load_plugins(words)
    studies.add(command, words)
    sweep.add(command, words)
    report.add(command)
    paper.add(command)
    bench.add(command)
    completion.add(command)
    known: dict[str, argparse.ArgumentParser] = commands.choices
    for name in known.keys() - {*_WITHOUT_PLUGINS}:
        _add_plugin(known[name])
    if words and not words[0].startswith("-") and words[0] not in known:
        raise StudyError(f"{unknown('command', words[0], known)} {_NEXT}")
    parser.set_defaults(commands=known)
    args, rest = parser.parse_known_args(words)
    if hasattr(args, "folders") and not any(word.startswith("-") for word in rest):
        # argparse takes folders from one place only, but `table ID --format tex DIR` has two.
        args.folders, rest = [*args.folders, *map(Path, rest)], []
    if rest:
        _unrecognized(args.parser, rest)
    return args


def _load_plugins(words: list[str]) -> None:
    """Load the files that the words name, because the options depend on them."""
    if not words or words[0].startswith("-") or words[0] in _WITHOUT_PLUGINS:
        return
    parser = _Parser(prog=f"continual {words[0]}", add_help=False, allow_abbrev=False)
    _add_plugin(parser)
    for file in parser.parse_known_args(words)[0].plugin:
        plugins.load(file)


def _add_plugin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="run a Python file of yours first, which registers methods or experiments; repeatable",
    )


def _unrecognized(parser: argparse.ArgumentParser, words: list[str]) -> NoReturn:
    wrong = words[0].partition("=")[0]
    if wrong.startswith("--"):
        flags = [flag for action in parser._actions for flag in action.option_strings]
        raise unknown(f"option of `{parser.prog}`", wrong, [f for f in flags if len(f) > 2])
    parser.error(f"unexpected {wrong!r}")
