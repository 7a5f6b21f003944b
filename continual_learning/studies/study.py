"""The description of a study: the methods of an experiment that one process runs in a folder."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from continual_learning import plugins
from continual_learning.optim import registry
from continual_learning.plugins import Plugin
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import spec
from continual_learning.studies.experiment import Experiment

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(frozen=True)
class Study:
    """Methods of an experiment, and the lanes that run side by side in the program of each method.

    Attributes:
      experiment: the experiment, which has everything that is the same in all lanes.
      methods: the names of the methods, which run one after the other.
      seeds: one seed per lane.
      hyper: {name: one number per lane}, the numbers in which lanes differ beside the seed: fields
        or options of the method, or numbers of the agent such as `discount`. They replace the
        experiment's own values. The names belong to one method, so the study can have only one. If
        `hyper` is left out and the experiment has `lanes`, it is every combination of these values
        with every seed.
      plugins: the files of users that the study may need: all that are loaded when it is made.
    """

    experiment: Experiment
    methods: Sequence[str]
    seeds: Sequence[int]
    hyper: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)
    plugins: tuple[Plugin, ...] = dataclasses.field(default_factory=plugins.loaded)

    def __post_init__(self):
        self._check_names()
        lanes = self.experiment.lanes
        if lanes and not self.hyper:
            points = list(itertools.product(*lanes.values()))
            hyper = {
                n: [point[i] for point in points for _ in self.seeds] for i, n in enumerate(lanes)
            }
            object.__setattr__(self, "hyper", hyper)
            object.__setattr__(self, "seeds", [*self.seeds] * len(points))
        if self.hyper and len(self.methods) != 1:
            raise StudyError(
                f"Lanes with numbers of their own ({', '.join(self.hyper)}) need a study of one "
                f"method, got {', '.join(self.methods)}."
            )
        for name, values in self.hyper.items():
            if len(values) != len(self.seeds):
                raise StudyError(
                    f"{name} must have one number for each of the {len(self.seeds)} lanes, "
                    f"got {len(values)}."
                )

    def _check_names(self) -> None:
        seeds, methods = self.seeds, self.methods
        if not isinstance(seeds, list | tuple | range) or not all(map(bounds.seed, seeds)):
            raise StudyError(
                f"seeds must be whole numbers from 0 to {bounds.SEEDS - 1:,}, got "
                f"{bounds.shown(seeds)}."
            )
        if not 1 <= len(seeds) <= bounds.COUNT:
            raise StudyError(f"There must be 1 to {bounds.COUNT:,} seeds, got {len(seeds):,}.")
        if not isinstance(methods, list | tuple) or not methods:
            raise StudyError(f"methods must be names, got {bounds.shown(methods)}.")
        for name in methods:
            if not isinstance(name, str) or name not in self.experiment.methods:
                raise unknown(f"method of {self.experiment.name}", name, self.experiment.methods)
        if not isinstance(self.hyper, Mapping):
            raise StudyError(f"hyper must be a table, got {bounds.shown(self.hyper)}.")
        for name, values in self.hyper.items():
            listed = isinstance(values, list | tuple)
            if not listed or not all(map(bounds.number, values)):
                raise StudyError(f"{name} must be numbers, got {bounds.shown(values)}.")

    @property
    def lanes(self) -> int:
        """The number of lanes that run side by side."""
        return len(self.seeds)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return `hyper` as arrays [lanes]: int32 if all numbers are whole, else float32."""
        return {name: _array(values) for name, values in self.hyper.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain data, for `study.toml`."""
        hyper = {name: list(values) for name, values in self.hyper.items()}
        return {
            "experiment": spec.to_dict(self.experiment),
            "methods": list(self.methods),
            "seeds": list(self.seeds),
            **({"hyper": hyper} if hyper else {}),
            **plugins.to_dict(self.plugins),
            **self._looks(),
        }

    def _looks(self) -> dict[str, Any]:
        """Return labels and colors of the methods of users, for readers without their code."""
        known, found = registry.registered(), {}
        for name in self.methods:
            if self.experiment.methods[name].reset != name or name not in known:
                continue
            entry = known[name]
            if not entry.is_ours:
                look = {"label": entry.label, "color": entry.color}
                found[name] = {key: value for key, value in look.items() if value is not None}
        return {"looks": found} if found else {}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """Return the study of `to_dict`; to run it, call `contents.load_plugins` first."""
        if not isinstance(data, Mapping):
            raise StudyError(f"A study must be a table, got {bounds.shown(data)}.")
        for name in ("experiment", "methods", "seeds"):
            if name not in data:
                raise StudyError(f"A study needs `{name}`, which is missing.")
        needed = plugins.from_dict(data)
        experiment = spec.from_dict(data["experiment"])
        return cls(experiment, data["methods"], data["seeds"], data.get("hyper", {}), needed)


def _array(values: Sequence[float]) -> np.ndarray:
    import numpy as np  # a program that lists descriptions does not need it

    whole = all(isinstance(value, int) for value in values)
    return np.asarray(values, np.int32 if whole else np.float32)
