"""Commands that make the tables and figures of the paper: table, figure, reproduce."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.cli import options, studies
from continual_learning.schema.errors import StudyError, printable, unknown
from continual_learning.studies.experiment import Experiment

_FORMATS = ("md", "tex", "csv")


def add(command: Any) -> None:
    """Add the commands.

    Args:
      command: a function (name, function, help, more) -> parser of the command.
    """
    table = command(
        "table", _table, "make a table of the paper from studies, beside the paper's numbers"
    )
    figure = command("figure", _figure, "draw a figure of the paper from studies")
    for each, what in ((table, "table"), (figure, "figure")):
        each.add_argument("id", nargs="?", metavar="ID", help=f"name of the {what}")
        each.add_argument(
            "folders",
            nargs="*",
            type=Path,
            metavar="DIR",
            help="folders of the studies that it needs",
        )
        each.add_argument("--list", action="store_true", help=f"list every {what} and its study")
    table.add_argument(
        "--format",
        choices=_FORMATS,
        help="Markdown, LaTeX or CSV (default: by the end of the file's name; md without a file)",
    )
    table.add_argument(
        "--out", type=Path, metavar="FILE", help="file of the table (default: the terminal)"
    )
    figure.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="file of the figure, .svg, .pdf, .png or .html (default: ID.svg)",
    )
    reproduce = command(
        "reproduce", _reproduce, "run the studies that a table or a figure needs, and make it"
    )
    reproduce.add_argument(
        "words",
        nargs="*",
        metavar="ID",
        help="name of a table or figure; with --list, folders that may hold studies",
    )
    reproduce.add_argument(
        "--list", action="store_true", help="list every table and figure, its study and its cost"
    )
    options.add_scale(reproduce, None)
    reproduce.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the studies, the table and the figure (default: reproduced/SCALE)",
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

    table = tables.make(id, args.folders)
    if args.out is None:
        print(printable(tables.WRITERS[form](table)), end="")
    else:
        tables.save(table, args.out, form)
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
    from continual_learning.paper import artifacts

    if args.list:
        from continual_learning.paper import plan
        from continual_learning.paper.folders import whole

        folders = [each for word in args.words for each in whole(word)]
        print(plan.listing(artifacts.ARTIFACTS.values(), folders))
        return 0
    if len(args.words) != 1:
        raise StudyError("Name one table or figure; `continual reproduce --list` lists them.")
    artifact, how = artifacts.get(args.words[0]), studies.running(args)
    from continual_learning.paper.reproduce import reproduce

    def change(experiment: Experiment) -> Experiment:
        assigned = (options.assignment(experiment, text) for text in args.assignments)
        return experiment.override(**dict(assigned))

    return reproduce(artifact, args.scale, args.out or Path("reproduced") / args.scale, how, change)


def _listed(kind: str) -> int:
    from continual_learning.paper import artifacts

    for each in artifacts.of_kind(kind):
        label = each.label or "not in the paper"
        needs = " and ".join(each.experiments) or ("any study" if each.any_study else "no study")
        needs = f"`continual bench methods {each.timed}`" if each.timed else needs
        print(f"{each.id:30}{label:36}{each.title} ({needs})")
    return 0


def _id(args: argparse.Namespace, kind: str) -> str:
    if args.id is None:
        raise StudyError(f"Name a {kind}; `continual {kind} --list` lists them.")
    return args.id
