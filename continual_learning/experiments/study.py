"""What one process runs in one folder: methods of an experiment, each over the same lanes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from continual_learning.experiments import spec
from continual_learning.experiments.errors import StudyError


@dataclasses.dataclass(frozen=True)
class Study:
    """Methods of an experiment, and the lanes that run side by side in each one's program.

    Attributes:
      experiment: with everything that is the same in all lanes.
      methods: which of its methods, one after the other.
      seeds: one per lane.
      hyper: {name: one number per lane}, what differs between lanes beside the seed: a field or an
        option of the method, or a number of the agent such as `discount`. It takes the place of the
        experiment's own. Names are those of one method, so there can be only one then. Left out
        where the experiment has `lanes`, it is every combination of these with every seed.
    """

    experiment: spec.ExperimentSpec
    methods: Sequence[str]
    seeds: Sequence[int]
    hyper: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
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

    @property
    def lanes(self) -> int:
        """How many run side by side."""
        return len(self.seeds)

    def arrays(self) -> dict[str, np.ndarray]:
        """`hyper` as arrays [lanes]: int32 where all numbers are whole, float32 else."""
        return {name: _array(values) for name, values in self.hyper.items()}

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for `study.toml`."""
        hyper = {name: list(values) for name, values in self.hyper.items()}
        return {
            "experiment": spec.to_dict(self.experiment),
            "methods": list(self.methods),
            "seeds": list(self.seeds),
            **({"hyper": hyper} if hyper else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Study:
        """The inverse of `to_dict`."""
        return cls(
            spec.from_dict(data["experiment"]),
            list(data["methods"]),
            list(data["seeds"]),
            dict(data.get("hyper", {})),
        )


def _array(values: Sequence[float]) -> np.ndarray:
    whole = all(isinstance(value, int) for value in values)
    return np.asarray(values, np.int32 if whole else np.float32)
