"""Converts experiments to and from plain data and TOML text."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.agents.catalog import AGENTS
from continual_learning.envs.catalog import STREAMS
from continual_learning.kinds import Registry
from continual_learning.networks.catalog import NETWORKS
from continual_learning.schema import bounds
from continual_learning.schema.earlier import renamed
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import Factor, fields_of, made
from continual_learning.studies import earlier, early_stopping
from continual_learning.studies.experiment import Experiment, MethodSpec, located
from continual_learning.studies.store import documents

_REGISTRIES: dict[str, Registry[Any]] = {
    "stream": STREAMS,
    "agent": AGENTS,
    "networks": NETWORKS,
}


def to_dict(experiment: Experiment) -> dict[str, Any]:
    """Return an experiment as dicts, lists and scalars, without the values that are None."""
    data = {}
    for name in fields_of(Experiment):
        value: Any = getattr(experiment, name)
        if isinstance(value, Factor):
            data[name] = {"kind": value.kind, **_plain(dataclasses.asdict(value))}
        elif name == "methods":
            data[name] = {n: _plain(dataclasses.asdict(each)) for n, each in value.items()}
        elif value is not None:
            data[name] = _plain(vars(value) if dataclasses.is_dataclass(value) else value)
    for table in (data, *data["methods"].values()):
        for name in ("options", "scales", "lanes"):
            if not table.get(name, True):
                del table[name]
    return data


def from_dict(data: Mapping[str, Any]) -> Experiment:
    """Return the experiment of `to_dict`; raise if a name or a value is not valid.

    `methods.check` checks the options of reset methods, because it needs their classes.
    """
    if not isinstance(data, Mapping):
        raise StudyError(f"An experiment must be a table, got {bounds.shown(data)}.")
    data = renamed(data)
    values = dict(earlier.in_parts(data) if earlier.is_flat(data) else data)
    for name, registry in _REGISTRIES.items():
        if name in values:
            values[name] = _factor(name, registry, values[name])
    methods = values.get("methods")
    if isinstance(methods, Mapping):
        values["methods"] = {name: _method(name, methods[name]) for name in methods}
    if "collapse" in values:
        with located("collapse"):
            values["collapse"] = early_stopping.read(values["collapse"])
    return made(Experiment, values)


def parts(data: Mapping[str, Any]) -> dict[str, Factor]:
    """Return {name: part} of the parts that can be read, even if the experiment cannot be."""
    data = renamed(data)
    values = earlier.in_parts(data) if earlier.is_flat(data) else data
    found = {}
    for name, registry in _REGISTRIES.items():
        with contextlib.suppress(StudyError, TypeError):
            found[name] = _factor(name, registry, values.get(name))
    return found


def dumps(experiment: Experiment) -> str:
    """Return an experiment as TOML text."""
    return extras.load("tomli_w").dumps(to_dict(experiment))


def loads(text: str) -> Experiment:
    """Return the experiment of a TOML text."""
    try:
        data = documents.parse(text)
    except documents.DocumentError as error:
        raise StudyError(f"This is not TOML: {error}.") from None
    return from_dict(data)


def save(experiment: Experiment, path: str | Path) -> None:
    """Write a TOML file."""
    Path(path).write_text(dumps(experiment), encoding="utf-8")


def load(path: str | Path) -> Experiment:
    """Read a TOML file; errors name the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise StudyError(f"Cannot read {path}: {reason}.") from None
    with located(str(path)):
        return loads(text)


def _factor(name: str, registry: Registry[Any], data: Any) -> Factor:
    with located(name):
        if not isinstance(data, Mapping):
            raise StudyError(f"must be a table of names and values, got {bounds.shown(data)}.")
        if "kind" not in data:
            raise StudyError(f"`kind` is missing. Valid: {', '.join(registry)}.")
        cls = registry.get(data["kind"])
        return made(cls, {key: value for key, value in data.items() if key != "kind"})


def _method(name: str, data: Any) -> MethodSpec:
    with located(f"methods.{name}"):
        return made(MethodSpec, data)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
