"""Commands that run or show studies: list, show, run, resume, status, render, doctor."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import jobs, options
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies import build, registry, spec
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.options import RunOptions


def add(command: Any, words: list[str]) -> None:
    """Add the commands.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
      words: the words of the command line; an experiment among them has options of its own.
    """
    chosen = named_experiment(words)

    def fields(name: str) -> str:
        return "" if chosen else f" `continual {name} EXPERIMENT --help` explains its fields too."

    command("list", _list, "list the experiments").add_argument(
        "--ablations", action="store_true", help="list the ablations instead"
    )
    show = command(
        "show", _show, "print an experiment as TOML, to read or to change and run", fields("show")
    )
    run = command("run", _run, "run a study: methods and seeds of an experiment", fields("run"))
    for each in (show, run):
        each.add_argument("experiment", metavar="EXPERIMENT", help="a name, or a TOML file")
        add_seeds(each)
        options.add_scale(each, chosen)
    known = f": {', '.join(chosen.methods)}" if chosen else ""
    run.add_argument(
        "--methods",
        "--method",
        metavar="NAMES",
        help=f"comma-separated{known}, or other registered methods, with their defaults "
        "(default: all methods of the experiment)",
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder of the run")
    resume = command("resume", _resume, "resume a study that was stopped")
    status = command("status", _status, "print the progress of a study")
    for each in (resume, status):
        each.add_argument("folder", type=Path, metavar="DIR", help="folder of the run")
    for each in (run, resume):
        add_running(each)
        jobs.add_launching(each)
    jobs.add_dividing(run)
    resume.add_argument("--retry", action="store_true", help="resume failed jobs, too")
    _add_render(command("render", _render, "film the policy of a study's newest checkpoint"))
    command("doctor", _doctor, "print the installed versions, and try one training step")


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """Add --seeds."""
    parser.add_argument(
        "--seeds",
        type=options.argument(options.seeds),
        metavar="SEEDS",
        help="a number (5: seeds 0 to 4), a list (3,7) or a range (10:15) "
        "(default: all seeds of the experiment)",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run a study."""
    parser.add_argument(
        "--time-limit",
        type=options.argument(options.seconds),
        metavar="TIME",
        help="save everything and stop with exit code 75 after this time: 90, 90s, 8m, 1.5h",
    )
    parser.add_argument(
        "--until-task",
        type=options.argument(options.tasks),
        metavar="NUMBER",
        help="save everything and stop with exit code 75 after this number of tasks",
    )
    parser.add_argument(
        "--on-nonfinite",
        choices=["stop", "warn"],
        default="warn",
        help="when a loss or a parameter is first NaN or infinite: warn, or save everything and "
        "stop with exit code 1 (default: warn)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard files too")
    parser.add_argument("--wandb", action="store_true", help="log to Weights & Biases too")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="get the same numbers again on a GPU, more slowly",
    )
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add --trust-modules."""
    parser.add_argument(
        "--trust-modules",
        action="store_true",
        help="import modules that the experiment names, as the environment MODULE:ID does",
    )


def _add_render(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="folder of the run, finished or not")
    add(
        "--method",
        metavar="NAME",
        help="method of the policy (default: the only method of the study)",
    )
    add(
        "--seed",
        type=_whole("--seed", 0, bounds.SEEDS - 1),
        metavar="SEED",
        help="seed of the policy (default: the first)",
    )
    add(
        "--lane",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="number of the run, if a seed has several runs, such as max_reset=0.03; repeatable "
        "(default: the first run)",
    )
    add(
        "--friction",
        type=options.argument(lambda text: bounds.parse_real("--friction", text, 0.0)),
        action="append",
        default=[],
        metavar="NUMBER",
        help="friction of the ground; repeatable, with a panel for every value (default: that of "
        "the last task)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        dest="assignments",
        help="another value for a task parameter, such as gravity=0.5; repeatable",
    )
    add(
        "--steps",
        type=_whole("--steps", 1, bounds.UNITS),
        default=500,
        metavar="STEPS",
        help="number of steps (default: 500)",
    )
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="file of the video, .mp4 or .gif (default: EXPERIMENT_METHOD_seedSEED.mp4)",
    )
    add("--force", action="store_true", help="replace the file if it exists")
    add(
        "--renderer",
        default="auto",
        metavar="NAME",
        help="mujoco (needs OpenGL), sketch, or auto: mujoco if it starts (default: auto)",
    )
    add(
        "--size",
        type=options.argument(options.size),
        default=(480, 360),
        metavar="WIDTHxHEIGHT",
        help="size of a panel (default: 480x360)",
    )
    add(
        "--fps",
        type=options.argument(lambda text: bounds.parse_real("--fps", text)),
        default=30,
        help="most frames per second (default: 30)",
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--deterministic", action="store_true", help="use the policy's mean actions (the default)"
    )
    actions.add_argument("--stochastic", action="store_true", help="draw actions as in training")


def _whole(flag: str, least: int, most: int) -> Any:
    return options.argument(lambda text: bounds.parse_whole(flag, text, least, most))


def named_experiment(words: list[str]) -> Experiment | None:
    """Return the experiment that the words name, before its options are known."""
    if words[:1] not in (["run"], ["show"], ["sweep"]):
        return None
    rest = words[1:]
    known = [*registry.names(), *registry.ablations()]
    names = [word for word in rest if word in known or word.endswith(".toml")]
    first = [word for word in rest[:1] if not word.startswith("-")]
    return next((registry.get(name) for name in names + first), None)


def resolved(args: argparse.Namespace) -> Experiment:
    """Return the experiment that the options name."""
    text = getattr(args, "methods", None)
    named = [] if text is None else options.names(text)
    chosen = build.fitted(options.resolve(registry.get(args.experiment, args.scale, named), args))
    if args.assignments or registry.is_file(args.experiment):
        from continual_learning.studies import methods  # This imports JAX, so only here.

        methods.check(chosen)
    return chosen if args.seeds is None else chosen.override(seeds=len(args.seeds))


def seeds_of(chosen: Experiment, args: argparse.Namespace) -> list[int]:
    """Return the seeds that the options name."""
    return list(range(chosen.seeds)) if args.seeds is None else args.seeds


def _list(args: argparse.Namespace) -> int:
    rows = [("experiment", "seeds", "tasks", "title")]
    for each in map(registry.get, registry.ablations() if args.ablations else registry.names()):
        origin = registry.origin(each.name)
        title = f"{each.title} (from {origin})" if origin else each.title
        rows.append((each.name, str(each.seeds), str(each.tasks), title))
    for name, seeds, tasks, title in rows:
        print(f"{name:29}{seeds:>5}{tasks:>7}  {title}")
    return 0


def _show(args: argparse.Namespace) -> int:
    print(spec.dumps(resolved(args)), end="")
    return 0


def _run(args: argparse.Namespace) -> int:
    chosen = resolved(args)
    methods = options.methods(chosen, args.methods)
    seeds = seeds_of(chosen, args)
    if jobs.chosen(args):
        return jobs.run(args, chosen, methods, seeds, running(args))
    how = running(args)
    from continual_learning.studies import launch

    return launch.run(chosen, methods, seeds, args.out, how)


def _resume(args: argparse.Namespace) -> int:
    folder, how = _folder(args), running(args)
    code = jobs.resume(args, folder, how)
    if code is not None:
        return code
    from continual_learning.studies import launch

    return launch.resume(folder, how)


def _status(args: argparse.Namespace) -> int:
    folder = _folder(args)
    extras.require("studies")
    from continual_learning.studies import launch

    print(jobs.status(folder) or launch.status(folder))
    return 0


def _render(args: argparse.Namespace) -> int:
    folder = _folder(args)
    changes = options.numbers("--set", args.assignments, "gravity=0.5")
    lane = options.numbers("--lane", args.lane, "max_reset=0.03")
    jobs.check_single(folder)
    extras.require("studies")
    from continual_learning.video import render

    same = ("method", "seed", "steps", "stochastic", "renderer", "size", "fps", "force")
    given = {name: getattr(args, name) for name in same}
    render.render(folder, args.out, lane=lane, frictions=args.friction, changes=changes, **given)
    return 0


def _doctor(args: argparse.Namespace) -> int:
    from continual_learning.studies import doctor

    return doctor.main()


def _folder(args: argparse.Namespace) -> Path:
    if not args.folder.is_dir():
        raise StudyError(
            f"There is no folder {args.folder}. `continual run … --out DIR` makes one."
        )
    return args.folder


def running(args: argparse.Namespace) -> RunOptions:
    """Return the options with which a study is run; raise an error if an extra is missing."""
    sinks = [name for name in ("tensorboard", "wandb") if getattr(args, name)]
    for extra in ("studies", *sinks):
        extras.require(extra)
    return RunOptions(
        time_limit=args.time_limit,
        quiet=args.quiet,
        sinks=sinks,
        deterministic=args.deterministic,
        trust_modules=args.trust_modules,
        until_task=args.until_task,
        on_nonfinite=args.on_nonfinite,
    )
