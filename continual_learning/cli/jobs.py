"""Options that run a study in several processes: in jobs, or all of them in one program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning.experiments import bounds, extras, options
from continual_learning.experiments.errors import StudyError, command, unknown

_OWNERS = {"parallel": "local", "slurm": "submitit", "ray": "ray"}
"""{option: the launcher that it is for}."""

_EXAMPLES = {
    "coordinator": "coordinator=HOST:PORT",
    "processes": "processes=2",
    "process": "process=0",
}


def add_launching(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose a launcher."""
    add: Any = parser.add_argument_group("jobs, each a process of its own").add_argument
    add("--launcher", metavar="NAME", help="who runs them: local, submitit (SLURM) or ray")
    add(
        "--parallel",
        type=options.argument(_positive),
        metavar="N",
        help="local: how many at a time (default: one on each GPU, or one)",
    )
    for launcher, flag, example in (
        ("submitit", "--slurm", "partition=gpu gpus_per_node=1 timeout_min=120"),
        ("ray", "--ray", "address=auto num_gpus=1"),
    ):
        add(flag, nargs="+", metavar="NAME=VALUE", help=f"{launcher}: its options ({example})")


def add_distributed(parser: argparse.ArgumentParser) -> None:
    """Adds the option that makes this process one of several."""
    parser.add_argument(
        "--distributed",
        nargs="*",
        metavar="NAME=VALUE",
        help="this process is one of several that share the seeds: coordinator=HOST:PORT "
        "processes=N process=I, or no values within a step of SLURM",
    )


def join(args: argparse.Namespace) -> None:
    """Finds the other processes, if there are any."""
    if args.distributed is None:
        return
    if args.launcher is not None:
        raise StudyError("--distributed is for one program, --launcher for jobs: leave out one.")
    given = _values("--distributed", args.distributed)
    for name, value in given.items():
        if name not in _EXAMPLES:
            raise unknown("value of --distributed", name, _EXAMPLES)
        least = 1 if name == "processes" else 0
        counted = bounds.whole(value) and value >= least
        if not (isinstance(value, str) if name == "coordinator" else counted):
            raise StudyError(f"--distributed {name}={value}: write {_EXAMPLES[name]}.")
    from continual_learning.experiments import processes

    processes.join(**given)


def add_dividing(parser: argparse.ArgumentParser) -> None:
    """Adds the option that says what a job is."""
    parser.add_argument(
        "--seeds-per-job",
        type=options.argument(_positive),
        metavar="N",
        help="seeds of a method that run together (default: all of them)",
    )


def chosen(args: argparse.Namespace) -> bool:
    """Whether a launcher is asked for; raises if there are only options for one."""
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
    running: dict[str, Any],
) -> int:
    """Divides a study into jobs and runs them; the exit code."""
    extras.require("studies")
    from continual_learning.experiments.jobs import manage
    from continual_learning.experiments.jobs.job import divide

    jobs = divide(experiment, methods, seeds, args.seeds_per_job)
    return manage.begin(args.out, jobs, asked_launcher(args), running_of(running))


def resume(args: argparse.Namespace, folder: Path, running: dict[str, Any]) -> int | None:
    """Goes on with the jobs or the sweep of a folder; the exit code, None if it has one study."""
    if _is_sweep(folder):
        return _resume_sweep(args, folder, running)
    if not _is_tree(folder):
        if args.retry or args.launcher is not None:
            raise StudyError(
                f"{folder} is one study, without jobs: leave out --retry and --launcher."
            )
        return None
    extras.require("studies")
    from continual_learning.experiments.jobs import manage

    launcher = asked_launcher(args) if chosen(args) else None
    return manage.resume(folder, launcher, running_of(running), retry=args.retry)


def _resume_sweep(args: argparse.Namespace, folder: Path, running: dict[str, Any]) -> int:
    for name in ("until_task", "distributed"):
        if getattr(args, name) is not None:
            raise StudyError(f"{folder} is a sweep: leave out --{name.replace('_', '-')}.")
    for extra in ("studies", *running["sinks"]):
        extras.require(extra)
    from continual_learning.cli import sweep_runs
    from continual_learning.experiments import launch

    launch.prepare(running["deterministic"], running["trust_modules"])
    return sweep_runs.resume(folder, checked_launcher(args), running, retry=args.retry)


def status(folder: Path) -> str | None:
    """How far the jobs of a folder, or its sweep, are; None if it has one study."""
    if not _is_tree(folder) and not _is_sweep(folder):
        return None
    extras.require("studies")
    from continual_learning.experiments.jobs import manage
    from continual_learning.experiments.sweeps import status

    return status.describe(folder) if _is_sweep(folder) else manage.status(folder)


def check_single(folder: Path) -> None:
    """Raises if a folder has jobs, where one study is needed."""
    if _is_tree(folder) or _is_sweep(folder):
        raise StudyError(
            f"{folder} holds jobs: name the folder of one of them, such as "
            f"{folder / 'jobs' / 'NAME'} (`{command('status', folder)}` lists them)."
        )


def _is_tree(folder: Path) -> bool:
    from continual_learning.experiments.jobs.tree import is_tree

    return is_tree(folder)


def _is_sweep(folder: Path) -> bool:
    from continual_learning.experiments.sweeps.sweep import is_sweep

    return is_sweep(folder)


def checked_launcher(args: argparse.Namespace) -> dict[str, Any] | None:
    """The launcher that the options describe as plain data, if they do, and if it can work here."""
    if not chosen(args):
        return None
    from continual_learning.experiments.jobs import launchers

    launcher = asked_launcher(args)
    launcher.check()
    return launchers.to_dict(launcher)


def asked_launcher(args: argparse.Namespace) -> Any:
    """The launcher that the options describe."""
    from continual_learning.experiments.jobs import launchers

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
    """`["partition=gpu", "nodes=1"]` as {"partition": "gpu", "nodes": 1}."""
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


def running_of(given: dict[str, Any]) -> Any:
    """Options of a study as those of jobs."""
    from continual_learning.experiments.jobs.running import Running

    return Running(**{**given, "sinks": tuple(given["sinks"])})


def _positive(text: str) -> int:
    return bounds.parse_whole("it", text, 1)
