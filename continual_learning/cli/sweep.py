"""The command `sweep`, which tries many settings of a method side by side, and `select`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import jobs, options, studies
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import registry

_BATCH = 16
_UNITS = {"": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


def add(command: Any, words: list[str]) -> None:
    """Add the commands.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
      words: the words of the command line; an experiment among them has options of its own.
    """
    parser = command(
        "sweep",
        _sweep,
        "try many settings of a method and choose the best",
        " Numbers run side by side in one program. The same command resumes a sweep that was "
        "stopped.",
    )
    add: Any = parser.add_argument
    add("experiment", metavar="EXPERIMENT", help="a name, or a TOML file")
    add(
        "--method",
        "--methods",
        required=True,
        metavar="NAME",
        help="method whose settings are tried",
    )
    add(
        "--grid",
        nargs="+",
        metavar="NAME=VALUES",
        help="settings and their values: max_reset=0.01:0.05:0.005 (first:last:step), "
        "every=100,1000, max_reset_fraction=none,0.02; for fields that are lists, hidden=64,64;128 "
        "(default: the paper's grid)",
    )
    add(
        "--seeds",
        type=options.argument(_seeds),
        metavar="SEEDS",
        help="a number (5: seeds 1000 to 1004), a list (1003,1007) or a range (1010:1015), without "
        "reported seeds (default: 5, as in the paper)",
    )
    add(
        "--metric",
        metavar="NAME",
        help="metric that should be high at the end (default: the main metric)",
    )
    add("--out", type=Path, required=True, metavar="DIR", help="folder of the sweep")
    add(
        "--memory",
        type=options.argument(_bytes),
        metavar="SIZE",
        help="memory of a device that a program may use, such as 40GB (default: the free memory); "
        "a sweep that needs more becomes several programs",
    )
    add(
        "--lanes",
        type=options.argument(_count("--lanes")),
        metavar="NUMBER",
        help="most lanes of a program (default: as many as fit, which is measured)",
    )
    add(
        "--halving",
        type=options.argument(_count("--halving", 2)),
        metavar="NUMBER",
        help="successive halving: all configurations run for a while, the best one of NUMBER for "
        "NUMBER times as long, and so on (default: whole runs of all)",
    )
    add("--sampler", metavar="NAME", help="optuna: try only points of the grid that it suggests")
    add(
        "--trials",
        type=options.argument(_count("--trials")),
        metavar="NUMBER",
        help="number of points that the sampler suggests",
    )
    add(
        "--trials-per-batch",
        type=options.argument(_count("--trials-per-batch")),
        metavar="NUMBER",
        help=f"how many trials run side by side before it gets their scores (default: {_BATCH})",
    )
    options.add_scale(parser, studies.named_experiment(words))
    studies.add_running(parser)
    jobs.add_launching(parser)
    parser.add_argument("--retry", action="store_true", help="resume failed jobs, too")
    select = command("select", _select, "rank the settings of a sweep and write its best.toml")
    select.add_argument("folder", type=Path, metavar="DIR", help="folder of the sweep")
    select.add_argument("--metric", metavar="NAME", help="metric that replaces the sweep's")


def _sweep(args: argparse.Namespace) -> int:
    if args.until_task is not None:
        raise StudyError("--until-task is for studies; --tasks sets the length of a sweep.")
    how = studies.running(args)
    from continual_learning.sweeps import launch
    from continual_learning.sweeps.sweep import Setup

    setup = Setup(args.memory, args.lanes, jobs.checked_launcher(args))
    return launch.run(_asked(args), args.out, setup, how, retry=args.retry)


def _asked(args: argparse.Namespace) -> Any:
    """Return the sweep that the options describe."""
    from continual_learning.paper import grids as paper
    from continual_learning.studies import methods
    from continual_learning.sweeps import settings
    from continual_learning.sweeps.sweep import FIRST_SEED, Sweep

    method = [args.method]
    experiment = options.resolve(registry.get(args.experiment, args.scale, method), args)
    reported = options.resolve(registry.get(args.experiment, methods=method), args)
    methods.check(experiment)
    seeds = args.seeds or list(range(FIRST_SEED, FIRST_SEED + paper.TUNING_SEEDS))
    tuned_on = paper.TUNED_ON.get(experiment.name, {})
    experiment = experiment.override(
        **{name: value for name, value in tuned_on.items() if not hasattr(args, name)}
    )
    if args.grid is None:
        grid = paper.grid(experiment, args.method)
    else:
        grid = settings.parse(experiment, args.method, args.grid)
    trials, batch = _trials(args, len(grid))
    return Sweep(
        experiment, reported, args.method, grid, seeds, args.metric, args.halving, trials, batch
    )


def _trials(args: argparse.Namespace, points: int) -> tuple[int | None, int | None]:
    """Return how many points of the grid a sampler chooses, and how many at a time."""
    if args.sampler is None:
        if args.trials is not None or args.trials_per_batch is not None:
            raise StudyError("--trials and --trials-per-batch go with --sampler optuna.")
        return None, None
    if args.sampler != "optuna":
        raise unknown("sampler", args.sampler, ["optuna"])
    extras.require("optuna")
    if args.trials is None:
        raise StudyError("--sampler needs --trials, the number of configurations to try.")
    if args.trials > points:
        raise StudyError(
            f"--trials must be at most the {points} configurations of the grid, got {args.trials}."
        )
    return args.trials, min(args.trials_per_batch or _BATCH, args.trials)


def _select(args: argparse.Namespace) -> int:
    extras.require("studies")
    if not args.folder.is_dir():
        raise StudyError(f"There is no folder {args.folder}.")
    from continual_learning.sweeps import launch

    return launch.choose(args.folder, args.metric)


def _seeds(text: str) -> list[int]:
    from continual_learning.sweeps.sweep import FIRST_SEED

    found = options.seeds(text)
    if text.isdecimal():
        found = [FIRST_SEED + seed for seed in found]
    return found


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B|)", text.upper(), re.ASCII)
    size = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not 1 <= size < 2**63:
        raise StudyError(
            f"--memory must be a size such as 40GB or 500MB; got {bounds.shown(text)}."
        )
    return int(size)


def _count(flag: str, least: int = 1) -> Callable[[str], int]:
    return lambda text: bounds.parse_whole(flag, text, least)
