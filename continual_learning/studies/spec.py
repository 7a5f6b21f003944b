"""Experiments as data: a class per kind, and specs as plain data and TOML text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from continual_learning import extras
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.schema.fields import field, made
from continual_learning.schema.names import Activation, DatasetName, Init, StreamKind
from continual_learning.studies import early_stopping
from continual_learning.studies.base import ExperimentSpec, MethodSpec, is_trusted, located
from continual_learning.studies.control_spec import ControlSpec
from continual_learning.studies.games_spec import GamesSpec
from continual_learning.studies.host_spec import HostSpec
from continual_learning.studies.store import documents

__all__ = [
    "ControlSpec",
    "ExperimentSpec",
    "GamesSpec",
    "HostSpec",
    "MethodSpec",
    "SupervisedSpec",
    "dumps",
    "from_dict",
    "load",
    "loads",
    "save",
    "to_dict",
]

EXAMPLES = {"mnist": 60_000, "digits": 1_437}
"""Of the training sets."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedSpec(ExperimentSpec):
    """Classification of a stream of tasks made from one dataset."""

    kind: ClassVar[str] = "supervised"

    dataset: DatasetName = field("mnist", help="where the images come from")
    stream: StreamKind = field(
        "permuted",
        help="what a task is: a new permutation of the pixels, a few of the classes, a few "
        "classes more than before, or new random labels to memorise",
    )
    classes_per_task: int | None = field(
        None, positive=True, help="classes of a task (split), or new ones (class_incremental)"
    )
    epochs: int = field(1, budget=True, positive=True, help="passes over a task's examples")
    examples_per_task: int | None = field(
        None, budget=True, positive=True, help="training examples of a task; none for all"
    )
    batch_size: int = field(8, positive=True, most=bounds.UNITS, help="examples per update")
    hidden: tuple[int, ...] = field(
        (128, 128), positive=True, most=bounds.UNITS, help="units of the hidden layers"
    )
    activation: Activation = field("relu", help="nonlinearity of the hidden layers")
    init: Init = field("he_uniform", help="how kernels are drawn, first and by resets")
    layer_norm: bool = field(False, help="a LayerNorm before every activation")
    redraw_head: bool = field(True, help="draw the output layer anew at a task change")
    rows_per_task: int = field(10, budget=True, positive=True, help="rows of metrics per task")
    diagnostics: bool = field(True, help="measure dormant units, ranks and norms")
    data_folder: str | None = field(None, help="folder of the dataset's IDX files")

    @property
    def steps_per_task(self) -> int:
        """Updates per task."""
        examples = EXAMPLES[self.dataset]
        if self.examples_per_task is not None:
            examples = min(examples, self.examples_per_task)
        return self.epochs * (examples // self.batch_size)

    def _check(self) -> None:
        bounds.check_layers("hidden", self.hidden)
        if self.dataset == "digits" and self.data_folder is not None:
            raise StudyError("data_folder: the digits come with scikit-learn; leave it out.")
        if self.steps_per_task == 0:
            raise StudyError(
                f"batch_size must be at most the number of examples of a task, "
                f"{self.examples_per_task or EXAMPLES[self.dataset]}; got {self.batch_size}."
            )
        steps, rows = self.steps_per_task, self.rows_per_task
        if steps % rows:
            fits = bounds.largest_divisor(steps, rows)
            raise StudyError(
                f"rows_per_task must divide the {steps} updates of a task, as {fits} does; "
                f"got {rows}."
            )
        whole = self.stream in ("permuted", "random_labels")
        if whole and self.classes_per_task is not None:
            raise StudyError(
                f"classes_per_task: a {self.stream} stream has all classes; leave it out."
            )
        if not whole and self.classes_per_task not in range(1, 11):
            raise StudyError(
                f"classes_per_task must be from 1 to 10 in a {self.stream} stream, "
                f"got {self.classes_per_task}."
            )


KINDS: dict[str, type[ExperimentSpec]] = {
    cls.kind: cls for cls in (SupervisedSpec, ControlSpec, GamesSpec, HostSpec)
}


def to_dict(spec: ExperimentSpec) -> dict[str, Any]:
    """A spec as dicts, lists and scalars; what is None is left out."""
    data = _plain(dataclasses.asdict(spec))
    for table in (data, *data["methods"].values()):
        for name in ("options", "scales", "lanes"):
            if not table.get(name, True):
                del table[name]
    return {"kind": spec.kind, **data}


def from_dict(data: Mapping[str, Any]) -> ExperimentSpec:
    """The inverse of `to_dict`; raises if a name or a value is not valid."""
    if not isinstance(data, Mapping):
        raise StudyError(f"An experiment must be a table, got {bounds.shown(data)}.")
    kind = data.get("kind")
    if kind is None:
        raise StudyError(f"`kind` is missing. Valid: {', '.join(KINDS)}.")
    if not isinstance(kind, str) or kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    values = {name: value for name, value in data.items() if name != "kind"}
    methods = values.get("methods")
    if isinstance(methods, Mapping):
        values["methods"] = {name: _method(name, methods[name]) for name in methods}
    if "collapse" in values:
        with located("collapse"):
            values["collapse"] = early_stopping.read(values["collapse"])
    found = made(KINDS[kind], values)
    _check_scales(found)
    return found


def dumps(spec: ExperimentSpec) -> str:
    """A spec as TOML text."""
    return extras.load("tomli_w").dumps(to_dict(spec))


def loads(text: str) -> ExperimentSpec:
    """A spec from TOML text."""
    try:
        data = documents.parse(text)
    except documents.DocumentError as error:
        raise StudyError(f"This is no TOML: {error}.") from None
    return from_dict(data)


def save(spec: ExperimentSpec, path: str | Path) -> None:
    """Writes a TOML file."""
    Path(path).write_text(dumps(spec), encoding="utf-8")


def load(path: str | Path) -> ExperimentSpec:
    """Reads a TOML file; errors name the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StudyError(f"Cannot read {path}: {reason}.") from None
    with located(str(path)):
        return loads(text)


def _check_scales(spec: ExperimentSpec) -> None:
    """Raises where a scale names an option of a reset method that does not exist or fit."""
    if is_trusted():
        return
    from continual_learning.studies.methods import check_options

    for scale, values in spec.scales.items():
        for name in (name for name in values if "." in name):
            reset, option = name.split(".")
            with located(f"scales.{scale}"):
                check_options(reset, {option: values[name]})


def _method(name: str, data: Any) -> MethodSpec:
    with located(f"methods.{name}"):
        return made(MethodSpec, data)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
