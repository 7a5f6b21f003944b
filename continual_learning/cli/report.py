"""The command `report`, which makes a page of one or more studies, or a page that follows them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import options
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError


def add(command: Any) -> None:
    """Add the command.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
    """
    parser = command(
        "report",
        _report,
        "make a page of one or more studies, with curves, cards and tables",
        " It is one file that works offline. Studies of the same experiment are put together.",
    )
    parser.add_argument(
        "folders", type=Path, nargs="+", metavar="DIR", help="folder of a study, finished or not"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="file of the page; only replaces a report, no other file (default: report.html)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="write no file, but show the page at an address of this machine and keep it current",
    )
    parser.add_argument(
        "--port",
        type=options.argument(_port),
        metavar="PORT",
        help="port of this address (default, and 0: any free port)",
    )


def _report(args: argparse.Namespace) -> int:
    for folder in args.folders:
        if not folder.is_dir():
            raise StudyError(f"There is no folder {folder}.")
    if args.watch and args.out is not None:
        raise StudyError("--watch writes no file: leave out -o, or --watch.")
    if args.port is not None and not args.watch:
        raise StudyError("--port goes with --watch.")
    extras.require("studies")
    words = [shlex.quote(str(folder)) for folder in args.folders]
    if args.watch:
        from continual_learning.report.live import watch

        watch(args.folders, port=args.port or 0)
        return 0
    from continual_learning import report

    out = args.out or Path("report.html")
    report.write(
        args.folders, out, " ".join(["continual report", *words, "-o", shlex.quote(str(out))])
    )
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")
    return 0


def _port(text: str) -> int:
    return bounds.parse_whole("--port", text, 0, 65535)
