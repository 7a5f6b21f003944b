"""The command `bench`, which measures how long methods take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import options, studies
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.options import RunOptions


def add(command: Any) -> None:
    """Add the command.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
    """
    bench = command("bench", _bench, "measure how long the methods of an experiment take")
    bench.add_argument("what", choices=["methods"], help="what to compare")
    bench.add_argument("experiment", metavar="EXPERIMENT", help="a name, or a TOML file")
    bench.add_argument(
        "--methods",
        metavar="NAMES",
        help="comma-separated; the others are compared with the first (default: all of them)",
    )
    bench.add_argument(
        "--rounds",
        type=options.argument(lambda text: bounds.parse_whole("--rounds", text, 1)),
        default=5,
        metavar="N",
        help="rounds, in which every method runs once (default: 5)",
    )
    studies.add_seeds(bench)
    studies.add_trust(bench)
    options.add_scale(bench, None)
    bench.add_argument(
        "--out", type=Path, metavar="FILE", help="new JSON file, for `continual table runtime`"
    )


def _bench(args: argparse.Namespace) -> int:
    chosen = studies.resolved(args)
    names = options.methods(chosen, args.methods)
    if args.out is not None and args.out.exists():
        raise StudyError(f"{args.out} is there already: remove it, or name another file.")
    extras.require("studies")
    from continual_learning.studies import bench

    seeds, how = studies.seeds_of(chosen, args), RunOptions(trust_modules=args.trust_modules)
    bench.measure(chosen, names, seeds, args.rounds, args.out, how)
    return 0
