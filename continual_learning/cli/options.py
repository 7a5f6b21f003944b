"""Command-line options that are made from the fields of an experiment."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any, TypeVar

from continual_learning.schema import bounds, earlier
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import Field, fields_of
from continual_learning.studies.experiment import FACTORS, Experiment, MethodSpec
from continual_learning.studies.store import documents

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LONGEST = 100 * 366 * 24 * 3600
Value = TypeVar("Value")


RESERVED = frozenset(
    [
        "deterministic",
        "grid",
        "halving",
        "help",
        "lanes",
        "launcher",
        "memory",
        "method",
        "methods",
        "metric",
        "on_nonfinite",
        "out",
        "parallel",
        "plugin",
        "quiet",
        "ray",
        "retry",
        "sampler",
        "scale",
        "seeds",
        "seeds_per_job",
        "set",
        "slurm",
        "tensorboard",
        "time_limit",
        "trials",
        "trials_per_batch",
        "trust_modules",
        "until_task",
        "wandb",
    ]
)
"""Names of the commands' own options, which fields of users may have, too."""


def add_scale(parser: argparse.ArgumentParser, spec: Experiment | None) -> None:
    """Add --scale and --set, and an option for every field if the experiment is known."""
    scales = ["paper", *spec.scales] if spec else ["paper", "short", "smoke"]
    parser.add_argument(
        "--scale",
        default="paper",
        metavar="SCALE",
        help=f"size of the budget: {', '.join(scales)} (default: paper, the experiment as it is)",
    )
    example = "cpr.max_reset=0.02"
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        dest="assignments",
        help=f"another value for a field or for a method's option, such as {example}; repeatable",
    )
    if spec is None:
        return
    group = parser.add_argument_group(f"fields of {spec.name}, in place of its own values")
    for name, each in spec.fields().items():
        if _is_option(each):
            _add_field(group, spec, name, each)


def resolve(spec: Experiment, args: argparse.Namespace) -> Experiment:
    """Return the experiment with the values of the options."""
    known = [name for name, each in spec.fields().items() if _is_option(each)]
    known = [f"{spec.part_of(n)}.{n}" if n in RESERVED else n for n in known]
    given = {name: value for name, value in vars(args).items() if name in known}
    assigned = dict(assignment(spec, text) for text in args.assignments)
    twice = sorted(given.keys() & assigned.keys())
    if twice:
        raise StudyError(f"{twice[0]} is given twice, as an option and with --set.")
    return spec.override(**given, **assigned)


def assignment(spec: Experiment, text: str) -> tuple[str, Any]:
    """Return the name and the value of `tasks=10` or `cpr.max_reset=0.02`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name or not value:
        raise StudyError(f"--set {text}: write NAME=VALUE, such as cpr.max_reset=0.02.")
    name = earlier.current(name)
    part, dot, _ = name.partition(".")
    if not dot or part in FACTORS:
        known = spec.field(name)
    else:
        method, option = spec.method_field(name)
        known = fields_of(MethodSpec).get(option)
        name = f"{method}.{option}"
    if known is None:
        return name, scalar(value)
    if known.is_table:
        raise StudyError(
            f"--set {text}: {known.name} is a table; set its entries (METHOD.OPTION=VALUE), or "
            "write a TOML file (`continual show` prints one)."
        )
    return name, known.parse(value)


def seeds(text: str) -> list[int]:
    """Return the seeds of `5` (0 … 4), `3,7` (these two) or `10:15` (10 … 14)."""
    parts = [f"0:{text}"] if re.fullmatch(r"\d+", text, re.ASCII) else text.split(",")
    found: list[int] = []
    for part in parts:
        match = re.fullmatch(r"\s*(\d{1,30})(?::(\d{1,30}))?\s*", part, re.ASCII)
        if match is None:
            found = []
            break
        first = int(match[1])
        end = first + 1 if match[2] is None else int(match[2])
        if end - first > bounds.COUNT - len(found) or end > bounds.SEEDS:
            raise StudyError(
                f"--seeds: at most {bounds.COUNT:,} seeds, each below 2^32 = {bounds.SEEDS:,}; got "
                f"{bounds.shown(text)}."
            )
        found += range(first, end)
    if not found or len(set(found)) < len(found):
        raise StudyError(
            "--seeds must be a number (5), different seeds (3,7) or a range (10:15); got "
            f"{bounds.shown(text)}."
        )
    return found


def seconds(text: str) -> float:
    """Return the seconds of `90`, `90s`, `8m` or `1.5h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text, re.ASCII)
    if match is None or not 0 < float(match[1]) * _SECONDS[match[2]] <= _LONGEST:
        raise StudyError(
            "--time-limit must be a time such as 90, 90s, 8m or 1.5h, at most 100 years; got "
            f"{bounds.shown(text)}."
        )
    return float(match[1]) * _SECONDS[match[2]]


def tasks(text: str) -> int:
    """Return the number of tasks of `2`, at least 1."""
    return bounds.parse_whole("--until-task", text, 1)


def size(text: str) -> tuple[int, int]:
    """Return (480, 360) for `480x360`."""
    match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", text, re.ASCII)
    if match is None:
        raise StudyError(f"--size must be WIDTHxHEIGHT, such as 480x360; got {bounds.shown(text)}.")
    return int(match[1]), int(match[2])


def numbers(flag: str, texts: list[str], example: str) -> dict[str, float]:
    """Return {"gravity": 0.5} for `["gravity=0.5"]`.

    Args:
      flag: the option that the texts were given with.
      texts: names with their numbers.
      example: an example for the error message.
    """
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            raise StudyError(f"{flag} {text:.80}: write NAME=NUMBER, such as {example}.")
        if name in found:
            raise StudyError(f"{flag}: {name} is given twice.")
        found[name] = bounds.parse_real(f"{flag} {name:.80}", value)
    return found


def methods(spec: Experiment, text: str | None) -> list[str]:
    """Return `adam,cpr` as a list of the experiment's methods, or all of them for None."""
    if text is None:
        return list(spec.methods)
    chosen = names(text)
    for name in chosen:
        if name not in spec.methods:
            raise unknown(f"method of {spec.name}", name, spec.methods)
    if len(set(chosen)) < len(chosen):
        raise StudyError(f"--methods names a method twice: {text}.")
    return chosen


def names(text: str) -> list[str]:
    """Return `adam,cpr` as a list."""
    return [name.strip() for name in text.split(",")]


def argument(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return `parse` for argparse, which would otherwise hide the message of its error."""

    def parsed(text: str) -> Value:
        try:
            return parse(text)
        except StudyError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def _is_option(each: Field) -> bool:
    """Return whether a field has an option of its own; the option for `seeds` takes lists, too."""
    return not each.is_table and each.name not in ("name", "title", "seeds")


def _add_field(group: Any, spec: Experiment, name: str, each: Field) -> None:
    shown, aliases = _default(spec, name), [f"--{each.alias}"] if each.alias else []
    aliases += [f"--{old.replace('_', '-')}" for old, new in earlier.NAMES.items() if new == name]
    if name in RESERVED:  # A command has this option, so the field's option also names its part.
        name = f"{spec.part_of(name)}.{name}"
    flag = "--" + name.replace("_", "-").replace(".", "-")
    if each.type is bool:
        group.add_argument(
            flag,
            *aliases,
            dest=name,
            action=argparse.BooleanOptionalAction,
            default=argparse.SUPPRESS,
            help=f"{each.help} ({shown})",
        )
        return
    none = ", or none" if each.optional else ""
    explained = f"{each.help}: {_expected(each)}{none} ({shown})"
    group.add_argument(
        flag,
        *aliases,
        dest=name,
        type=argument(each.parse),
        default=argparse.SUPPRESS,
        metavar="VALUE",
        help=explained.replace("%", "%%"),  # argparse replaces single % signs.
    )


def _expected(each: Field) -> str:
    if each.choices:
        return ", ".join(each.choices)
    if each.is_record:
        names = [f"{own.name} ({own.help})" for own in fields_of(each.type).values()]
        return f"NAME=VALUE,… of {', '.join(names)}"
    return each.expected.replace("a list of", "comma-separated")


def _default(spec: Experiment, name: str) -> str:
    def show(value: Any) -> str:
        if value is None or isinstance(value, bool):
            return {None: "none", True: "yes", False: "no"}[value]
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

    smaller = [f"{s}: {show(v[name])}" for s, v in spec.scales.items() if name in v]
    return "; ".join([f"default: {show(spec.value(name))}", *smaller])


def scalar(text: str) -> Any:
    """Return the number or bool of a TOML text, None for "none", and the text itself otherwise."""
    if text.lower() == "none":
        return None
    try:
        value = documents.parse(f"value = {text}")["value"]
    except documents.DocumentError:
        return text
    return value if isinstance(value, (bool, int, float, str)) else text
