"""Commands that run a study or look at one: list, show, run, resume, status, render, doctor."""

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


def add(command: Any, words: list[str]) -> None:
    """Adds the commands.

    Args:
      command: (name, function, help, more) -> its parser.
      words: of the command line: the experiment they name has options of its own.
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
        help=f"comma-separated{known}, or others that are registered, with their defaults "
        "(default: all that the experiment has)",
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder of the run")
    resume = command("resume", _resume, "go on with a study that was stopped")
    status = command("status", _status, "say how far a study is")
    for each in (resume, status):
        each.add_argument("folder", type=Path, metavar="DIR", help="folder of the run")
    for each in (run, resume):
        add_running(each)
        jobs.add_launching(each)
    jobs.add_dividing(run)
    resume.add_argument("--retry", action="store_true", help="go on with jobs that failed, too")
    _add_render(command("render", _render, "film the policy of a study's newest checkpoint"))
    command("doctor", _doctor, "say what is installed, and try one training step")


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """Adds --seeds."""
    parser.add_argument(
        "--seeds",
        type=options.argument(options.seeds),
        metavar="SEEDS",
        help="how many (5: seeds 0 to 4), which (3,7) or a range (10:15) "
        "(default: as many as the experiment has)",
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Adds the options of whatever runs a study."""
    parser.add_argument(
        "--time-limit",
        type=options.argument(options.seconds),
        metavar="TIME",
        help="stop after this time with everything saved and exit code 75: 90, 90s, 8m, 1.5h",
    )
    parser.add_argument(
        "--until-task",
        type=options.argument(options.tasks),
        metavar="NUMBER",
        help="stop when so many tasks are complete, as after --time-limit",
    )
    parser.add_argument(
        "--on-nonfinite",
        choices=["stop", "warn"],
        default="warn",
        help="when a loss or a parameter is first NaN or infinite: warn, or stop with everything "
        "saved and exit code 1 (default: warn)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--tensorboard", action="store_true", help="write TensorBoard files too")
    parser.add_argument("--wandb", action="store_true", help="log to Weights & Biases too")
    parser.add_argument(
        "--deterministic", action="store_true", help="same numbers again on a GPU, more slowly"
    )
    add_trust(parser)


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds --trust-modules."""
    parser.add_argument(
        "--trust-modules",
        action="store_true",
        help="import modules that the experiment names, as the environment MODULE:ID does",
    )


def _add_render(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="folder of the run, finished or not")
    add("--method", metavar="NAME", help="whose policy (default: the only method there is)")
    add(
        "--seed",
        type=_whole("--seed", 0, bounds.SEEDS - 1),
        metavar="SEED",
        help="of this seed (default: the first)",
    )
    add(
        "--lane",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="of a run with this number, where those of a seed differ, such as max_reset=0.03; "
        "repeatable (default: the first)",
    )
    add(
        "--friction",
        type=options.argument(lambda text: bounds.parse_real("--friction", text, 0.0)),
        action="append",
        default=[],
        metavar="NUMBER",
        help="of the ground; repeatable, a panel each (default: that of the last task)",
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
        help="how many (default: 500)",
    )
    add(
        "--out",
        type=Path,
        metavar="FILE",
        help="the video, .mp4 or .gif (default: EXPERIMENT_METHOD_seedSEED.mp4)",
    )
    add("--force", action="store_true", help="replace the file if it is there")
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
        help="of a panel (default: 480x360)",
    )
    add(
        "--fps",
        type=options.argument(lambda text: bounds.parse_real("--fps", text)),
        default=30,
        help="most frames in a second (default: 30)",
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--deterministic", action="store_true", help="the policy's mean actions (the default)"
    )
    actions.add_argument("--stochastic", action="store_true", help="actions drawn as in training")


def _whole(flag: str, least: int, most: int) -> Any:
    return options.argument(lambda text: bounds.parse_whole(flag, text, least, most))


def named_experiment(words: list[str]) -> Experiment | None:
    """The experiment that the words name, before its options are known."""
    if words[:1] not in (["run"], ["show"], ["sweep"]):
        return None
    rest = words[1:]
    known = [*registry.names(), *registry.ablations()]
    names = [word for word in rest if word in known or word.endswith(".toml")]
    first = [word for word in rest[:1] if not word.startswith("-")]
    return next((registry.get(name) for name in names + first), None)


def resolved(args: argparse.Namespace) -> Experiment:
    """The experiment that the options name."""
    text = getattr(args, "methods", None)
    named = [] if text is None else options.names(text)
    chosen = build.fitted(options.resolve(registry.get(args.experiment, args.scale, named), args))
    if args.assignments or registry.is_file(args.experiment):
        from continual_learning.studies import methods  # it imports JAX, which ours need not

        methods.check(chosen)
    return chosen if args.seeds is None else chosen.override(seeds=len(args.seeds))


def seeds_of(chosen: Experiment, args: argparse.Namespace) -> list[int]:
    """The seeds that the options name."""
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
    return launch(args).run(chosen, methods, seeds, args.out, **running(args))


def _resume(args: argparse.Namespace) -> int:
    folder = _folder(args)
    code = jobs.resume(args, folder, running(args))
    return launch(args).resume(folder, **running(args)) if code is None else code


def _status(args: argparse.Namespace) -> int:
    folder = _folder(args)
    print(jobs.status(folder) or launch(args).status(folder))
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


def _sinks(args: argparse.Namespace) -> list[str]:
    return [name for name in ("tensorboard", "wandb") if getattr(args, name, False)]


def running(args: argparse.Namespace) -> dict[str, Any]:
    """What these options say, as arguments of `launch.run` and `launch.resume`."""
    return {
        "time_limit": args.time_limit,
        "until_task": args.until_task,
        "quiet": args.quiet,
        "sinks": _sinks(args),
        "deterministic": args.deterministic,
        "on_nonfinite": args.on_nonfinite,
        "trust_modules": args.trust_modules,
    }


def launch(args: argparse.Namespace) -> Any:
    """The module that runs studies, once all that it needs is known to be there."""
    for extra in ("studies", *_sinks(args)):
        extras.require(extra)
    from continual_learning.studies import launch

    return launch
