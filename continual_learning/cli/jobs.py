"""Options that divide a study into jobs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning.cli import options
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, command
from continual_learning.studies.options import RunOptions

_OWNERS = {"parallel": "local", "slurm": "submitit", "ray": "ray"}
"""{option: its launcher}."""


def add_launching(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose a launcher."""
    add: Any = parser.add_argument_group("jobs, which are processes of their own").add_argument
    add("--launcher", metavar="NAME", help="launcher of the jobs: local, submitit (SLURM) or ray")
    add(
        "--parallel",
        type=options.argument(_positive),
        metavar="N",
        help="local: how many run at a time (default: one on every GPU, or one)",
    )
    for launcher, flag, example in (
        ("submitit", "--slurm", "partition=gpu gpus_per_node=1 timeout_min=120"),
        ("ray", "--ray", "address=auto num_gpus=1"),
    ):
        add(flag, nargs="+", metavar="NAME=VALUE", help=f"{launcher}: its options ({example})")


def add_dividing(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how many seeds a job has."""
    parser.add_argument(
        "--seeds-per-job",
        type=options.argument(_positive),
        metavar="N",
        help="number of seeds of a method that run together (default: all of them)",
    )


def chosen(args: argparse.Namespace) -> bool:
    """Return whether the options name a launcher; raise an error if they are only its options."""
    if args.launcher is None:
        for name in (*_OWNERS, "seeds_per_job"):
            if getattr(args, name, None) is not None:
                raise StudyError(f"--{name.replace('_', '-')} goes with --launcher.")
    return args.launcher is not None


def run(
    args: argparse.Namespace,
    experiment: Any,
    methods: Sequence[str],
    seeds: Sequence[int],
    how: RunOptions,
) -> int:
    """Divide a study into jobs and run them; return the exit code.

    Args:
      args: the options.
      experiment: the experiment of the study.
      methods: its methods.
      seeds: its seeds.
      how: the options with which every job is run.
    """
    from continual_learning.jobs import manage
    from continual_learning.jobs.job import divide

    jobs = divide(experiment, methods, seeds, args.seeds_per_job)
    return manage.begin(args.out, jobs, asked_launcher(args), how)


def resume(args: argparse.Namespace, folder: Path, how: RunOptions) -> int | None:
    """Resume the jobs or the sweep of a folder.

    Args:
      args: the options.
      folder: the folder.
      how: the options with which every job is run.

    Returns:
      The exit code, or None if the folder holds one study.
    """
    if _is_sweep(folder):
        return _resume_sweep(args, folder, how)
    if not _is_tree(folder):
        if args.retry or args.launcher is not None:
            raise StudyError(
                f"{folder} is one study, without jobs: leave out --retry and --launcher."
            )
        return None
    from continual_learning.jobs import manage

    launcher = asked_launcher(args) if chosen(args) else None
    return manage.resume(folder, launcher, how, retry=args.retry)


def _resume_sweep(args: argparse.Namespace, folder: Path, how: RunOptions) -> int:
    if args.until_task is not None:
        raise StudyError(f"{folder} is a sweep: leave out --until-task.")
    from continual_learning.sweeps import launch

    return launch.resume(folder, how, launcher=checked_launcher(args), retry=args.retry)


def status(folder: Path) -> str | None:
    """Return the progress of the jobs or the sweep of a folder; None if it holds one study."""
    if not _is_tree(folder) and not _is_sweep(folder):
        return None
    from continual_learning.jobs import manage
    from continual_learning.sweeps import status

    return status.describe(folder) if _is_sweep(folder) else manage.status(folder)


def check_single(folder: Path) -> None:
    """Raise a StudyError if a folder holds jobs, where one study is needed."""
    if _is_tree(folder) or _is_sweep(folder):
        raise StudyError(
            f"{folder} holds jobs: name the folder of one of them, such as "
            f"{folder / 'jobs' / 'NAME'} (`{command('status', folder)}` lists them)."
        )


def _is_tree(folder: Path) -> bool:
    from continual_learning.jobs.tree import is_tree

    return is_tree(folder)


def _is_sweep(folder: Path) -> bool:
    from continual_learning.sweeps.sweep import is_sweep

    return is_sweep(folder)


def checked_launcher(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return the launcher of the options as plain data, or None; raise if it cannot work here."""
    if not chosen(args):
        return None
    from continual_learning.jobs import launchers

    launcher = asked_launcher(args)
    launcher.check()
    return launchers.to_dict(launcher)


def asked_launcher(args: argparse.Namespace) -> Any:
    """Return the launcher that the options describe."""
    from continual_learning.jobs import launchers

    for name, owner in _OWNERS.items():
        if getattr(args, name) is not None and args.launcher != owner:
            raise StudyError(f"--{name} is for --launcher {owner}, not for {args.launcher}.")
    given = {} if args.parallel is None else {"parallel": args.parallel}
    if args.ray is not None:
        given = _values("--ray", args.ray)
    if args.slurm is not None:
        parameters = _values("--slurm", args.slurm)
        cluster = parameters.pop("cluster", None)
        given = {"parameters": parameters} | ({"cluster": cluster} if cluster else {})
    return launchers.make(args.launcher, given)


def _values(flag: str, texts: list[str]) -> dict[str, Any]:
    """Return {"partition": "gpu", "nodes": 1} for `["partition=gpu", "nodes=1"]`."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name.isidentifier() and equals and value):
            raise StudyError(f"{flag} {text}: write NAME=VALUE.")
        if name in found:
            raise StudyError(f"{flag}: {name} is given twice.")
        found[name] = options.scalar(value)
        if found[name] is None:
            raise StudyError(f"{flag} {text}: leave it out instead.")
    return found


def _positive(text: str) -> int:
    return bounds.parse_whole("it", text, 1)
