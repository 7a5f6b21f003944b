"""The command that measures how long methods take: bench."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from continual_learning.cli import options, studies
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError


def add(command: Any) -> None:
    """Adds the command.

    Args:
      command: (name, function, help, more) -> its parser.
    """
    bench = command("bench", _bench, "measure how long the methods of an experiment take")
    bench.add_argument("what", choices=["methods"], help="what is compared")
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
        help="in which each runs once (default: 5)",
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
    measured(
        chosen, names, studies.seeds_of(chosen, args), args.rounds, args.out, args.trust_modules
    )
    return 0


def measured(
    experiment: Any,
    names: list[str],
    seeds: list[int],
    rounds: int,
    out: Path | None,
    trust_modules: bool = False,
) -> None:
    """Measures, prints a table, and writes it to a file."""
    from continual_learning import extras

    extras.require("studies")
    from continual_learning.studies import bench
    from continual_learning.studies.launch import prepare

    prepare(trust_modules=trust_modules)
    print(
        f"Compiling {len(names)} programs of {experiment.name}, then {rounds + 1} rounds of each.",
        file=sys.stderr,
    )
    found = bench.methods(experiment, names, seeds, rounds)
    print(found.text())
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        found.save(out)
        print(f"Wrote {out}.")
