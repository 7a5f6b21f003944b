"""Commands that make the tables and figures of the paper: table, figure, reproduce."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import bench, jobs, options, studies
from continual_learning.schema.errors import StudyError, printable, unknown

_FORMATS = ("md", "tex", "csv")


def add(command: Any) -> None:
    """Adds the commands.

    Args:
      command: (name, function, help, more) -> its parser.
    """
    table = command("table", _table, "make a table of the paper from studies, its numbers beside")
    figure = command("figure", _figure, "draw a figure of the paper from studies")
    for each, what in ((table, "table"), (figure, "figure")):
        each.add_argument("id", nargs="?", metavar="ID", help=f"which {what}")
        each.add_argument(
            "folders", nargs="*", type=Path, metavar="DIR", help="folders of the studies it needs"
        )
        each.add_argument("--list", action="store_true", help=f"list every {what} and its study")
    table.add_argument(
        "--format",
        choices=_FORMATS,
        help="Markdown, LaTeX or CSV (default: as the file's name ends; md without one)",
    )
    table.add_argument("--out", type=Path, metavar="FILE", help="where to (default: the terminal)")
    figure.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the figure, .svg, .pdf, .png or .html (default: ID.svg)",
    )
    reproduce = command("reproduce", _reproduce, "run what a table or a figure needs, and make it")
    reproduce.add_argument(
        "words", nargs="*", metavar="ID", help="which; with --list, folders that may hold studies"
    )
    reproduce.add_argument(
        "--list", action="store_true", help="list every table and figure, its study and its cost"
    )
    options.add_scale(reproduce, None)
    reproduce.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the studies and of what is made of them (default: reproduced/SCALE)",
    )
    studies.add_running(reproduce)


def _table(args: argparse.Namespace) -> int:
    if args.list:
        return _listed("table")
    id = _id(args, "table")
    form = args.format or (args.out.suffix[1:] if args.out else "md")
    if form not in _FORMATS:
        raise unknown("format of a table", form, _FORMATS)
    from continual_learning.paper import tables

    text = tables.WRITERS[form](tables.make(id, args.folders))
    if args.out is None:
        print(printable(text), end="")
    else:
        _write(args.out, text)
    return 0


def _figure(args: argparse.Namespace) -> int:
    if args.list:
        return _listed("figure")
    id = _id(args, "figure")
    extras.require("figures")
    from continual_learning.paper import figures

    path = args.out or Path(f"{id}.svg")
    figures.check_format(path)
    figures.save(figures.make(id, args.folders), path)
    print(f"Wrote {path}.")
    return 0


def _reproduce(args: argparse.Namespace) -> int:
    from continual_learning.paper import artefacts, plan
    from continual_learning.paper.folders import whole

    if args.list:
        folders = [each for word in args.words for each in whole(word)]
        print(plan.listing(artefacts.ARTEFACTS.values(), folders))
        return 0
    if len(args.words) != 1:
        raise StudyError("Name one table or figure; `continual reproduce --list` lists them.")
    artefact = artefacts.get(args.words[0])
    plan.check_scale(args.scale)
    if artefact.kind == "figure":
        extras.require("figures")
    out = args.out or Path("reproduced") / args.scale
    folders = []
    end = None if args.time_limit is None else time.monotonic() + args.time_limit
    for study in artefact.studies:
        spec = study.spec(args.scale)
        assigned = dict(options.assignment(spec, text) for text in args.assignments)
        folder = out / study.folder
        code = _ensure(args, spec.override(**assigned), list(study.methods), folder, end)
        if code:
            return code
        folders.append(folder)
    if artefact.timed:
        folders.append(_ensure_times(args, artefact, out))
    for path in _build(artefact, folders, out):
        print(f"Wrote {path}.")
    return 0


def _ensure(
    args: argparse.Namespace, spec: Any, methods: list[str], folder: Path, end: float | None
) -> int:
    """Runs a study, or what is left of it, also in jobs; the exit code."""
    from continual_learning.jobs import tree
    from continual_learning.paper import plan
    from continual_learning.paper.folders import whole
    from continual_learning.studies.store import manifest
    from continual_learning.studies.study import Study

    in_jobs = tree.is_tree(folder)
    begun = in_jobs or (folder / manifest.STUDY).exists()
    seeds = list(range(spec.seeds))
    held = whole(folder) if begun else []
    if in_jobs:
        for each in held:
            each.check_same(spec, methods, seeds)
    elif begun:
        # In which order methods are run does not matter.
        stored = {**manifest.read(folder)[0], "methods": sorted(held[0].methods)}
        manifest.check_same(folder, stored, Study(spec, sorted(methods), seeds).to_dict())
    if begun and all(map(plan.finished, held)):
        return 0
    running = studies.running(args)
    if end is not None:
        # A study that begins too late stops after its first chunk.
        running["time_limit"] = max(end - time.monotonic(), 0.001)
    if not args.quiet:
        print(f"{folder}: {spec.name}, {len(methods)} methods, {spec.seeds} seeds")
    if in_jobs:
        return _resume_jobs(folder, running)
    launch = studies.launch(args)
    if begun:
        return launch.resume(folder, **running)
    return launch.run(spec, methods, seeds, folder, **running)


def _resume_jobs(folder: Path, running: dict[str, Any]) -> int:
    """Goes on with the jobs of a study; the exit code, 75 also if a scheduler has them now."""
    from continual_learning.jobs import manage, states, tree
    from continual_learning.studies.launch import REQUEUE

    code = manage.resume(folder, running=jobs.running_of(running))
    words = {state.word for state in states.states(tree.read(folder)).values()}
    if code or words == {"finished"}:
        return code
    print(f"{folder}: its jobs are under way. Repeat the command when they are finished.")
    return REQUEUE


def _ensure_times(args: argparse.Namespace, artefact: Any, out: Path) -> Path:
    """Measures how long methods take, unless that was done; the file."""
    from continual_learning.paper.numbers import results
    from continual_learning.studies import build, registry

    path = out / f"{artefact.timed}_times.json"
    if not path.exists():
        spec = registry.get(artefact.timed).at_scale(args.scale)
        spec = spec.override(**dict(options.assignment(spec, text) for text in args.assignments))
        rounds = min(5, build.chunks(spec) - 1)
        names = list(results(artefact.id)["rows"])
        bench.measured(spec, names, list(range(spec.seeds)), rounds, path)
    return path


def _build(artefact: Any, folders: list[Path], out: Path) -> list[Path]:
    """Makes the table or the figure in every format; where it is."""
    if artefact.kind == "table":
        from continual_learning.paper import tables

        table = tables.make(artefact.id, folders)
        for form, write in tables.WRITERS.items():
            _write(out / f"{artefact.id}.{form}", write(table))
        return [out / f"{artefact.id}.{form}" for form in tables.WRITERS]
    from continual_learning.paper import figures

    chart = figures.make(artefact.id, folders)
    paths = [out / f"{artefact.id}.{form}" for form in ("svg", "pdf", "png")]
    for path in paths:
        figures.save(chart, path)
    return paths


def _listed(kind: str) -> int:
    from continual_learning.paper import artefacts

    for each in artefacts.of_kind(kind):
        label = each.label or "not in the paper"
        needs = " and ".join(each.experiments) or "no study"
        needs = f"`continual bench methods {each.timed}`" if each.timed else needs
        print(f"{each.id:30}{label:36}{each.title} ({needs})")
    return 0


def _id(args: argparse.Namespace, kind: str) -> str:
    if args.id is None:
        raise StudyError(f"Name a {kind}; `continual {kind} --list` lists them.")
    return args.id


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
