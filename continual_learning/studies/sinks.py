"""Writes metrics to TensorBoard and Weights & Biases, in addition to the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from continual_learning import extras
from continual_learning.schema.errors import StudyError
from continual_learning.studies.store.manifest import ENVIRONMENT
from continual_learning.studies.store.parts import HYPER

_LABELS = ("seed", "step")


class Sink(Protocol):
    """A receiver of the rows of every chunk."""

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Take the rows of one method for all lanes."""
        ...

    def close(self) -> None:
        """Finish, because no more rows follow."""
        ...


def open_sinks(names: list[str], folder: Path, study: Mapping[str, Any]) -> list[Sink]:
    """Return the sinks of these names; raise an error if a package is missing.

    Args:
      names: the names of the sinks.
      folder: the folder of the study.
      study: the study as plain data.
    """
    known = {"tensorboard": _TensorBoard, "wandb": _Wandb}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise StudyError(f"Unknown sinks {unknown}. Valid: {', '.join(known)}.")
    return [known[name](folder, study) for name in names]


class _Lane(NamedTuple):
    """The identity of a lane among the others of its method.

    Attributes:
      seed: the seed of the lane.
      hyper: ((name, number), …), the numbers in which lanes differ.
    """

    seed: int
    hyper: tuple[tuple[str, int | float], ...] = ()

    def named(self, seed: str) -> str:
        """Return the text `seed` with the seed of the lane and its numbers."""
        return "-".join([f"{seed}{self.seed}", *(f"{name}={value}" for name, value in self.hyper)])


def _series(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[_Lane, int, dict[str, float]]]:
    """Yield (lane, step, metrics) of every row."""
    hyper = [name for name in columns if name.startswith(HYPER)]
    metrics = [name for name in columns if name not in (*_LABELS, *hyper)]
    for i in range(len(columns["step"])):
        values = {name: float(columns[name][i]) for name in metrics}
        # By way of text, the number is 0.015 rather than the float64 nearest to its float32.
        own = ((n.removeprefix(HYPER), _number(columns[n][i])) for n in hyper)
        yield _Lane(int(columns["seed"][i]), tuple(own)), int(columns["step"][i]), values


def _number(value: np.generic) -> int | float:
    return int(value) if np.issubdtype(value.dtype, np.integer) else float(str(value))


class _TensorBoard:
    """A sink with a run per method and lane under `tensorboard/`."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._make = extras.load("tensorboardX").SummaryWriter
        self._folder = folder.resolve() / "tensorboard"  # an absolute path is never an address
        self._writers: dict[tuple[str, _Lane], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Write rows as scalars."""
        for lane, step, metrics in _series(columns):
            if (method, lane) not in self._writers:
                # Steps from here on replace those that an interrupted run may have written.
                path = str(self._folder / method / lane.named("seed_"))
                self._writers[method, lane] = self._make(path, purge_step=step)
            for name, value in metrics.items():
                self._writers[method, lane].add_scalar(name, value, step)
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()


class _Wandb:
    """A sink with a run per method and lane, grouped by method; WANDB_MODE=offline works too."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._wandb, self._folder, self._study = extras.load("wandb"), folder, study
        # This file is written once and has the time of the start, so it identifies the study even
        # after a move or a resume. An id by the folder's name would join studies that share it.
        self._id = hashlib.sha256((folder / ENVIRONMENT).read_bytes()).hexdigest()[:12]
        self._runs: dict[tuple[str, _Lane], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Write rows as history."""
        if any(method != other for other, _ in self._runs):
            self.close()  # else the finished method would look crashed if this one were killed
        for lane, step, metrics in _series(columns):
            if (method, lane) not in self._runs:
                self._runs[method, lane] = self._begin(method, lane)
            # Without `commit`, a row is shown only when the next one comes, which may take long.
            self._runs[method, lane].log(metrics, step=step, commit=True)

    def close(self) -> None:
        """End the runs."""
        for run in self._runs.values():
            run.finish()
        self._runs.clear()

    def _begin(self, method: str, lane: _Lane) -> Any:
        return self._wandb.init(
            project=f"continual-{self._study.get('experiment', {}).get('name', 'study')}",
            group=method,
            name=f"{self._folder.resolve().name}-{method}-{lane.named('seed')}",
            id=f"{self._id}-{method}-{lane.named('')}",
            resume="allow",
            dir=str(self._folder.resolve()),
            config={
                "study": dict(self._study),
                "method": method,
                "seed": lane.seed,
                **dict(lane.hyper),
            },
            reinit="create_new",
        )
