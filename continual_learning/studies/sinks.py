"""Where metrics go beside the store."""

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
    """Takes the rows of every chunk."""

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows of one method, all lanes."""
        ...

    def close(self) -> None:
        """No more rows."""
        ...


def open_sinks(names: list[str], folder: Path, study: Mapping[str, Any]) -> list[Sink]:
    """The sinks by name; a missing package is an error that says what to install."""
    known = {"tensorboard": _TensorBoard, "wandb": _Wandb}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise StudyError(f"Unknown sinks {unknown}. Valid: {', '.join(known)}.")
    return [known[name](folder, study) for name in names]


class _Lane(NamedTuple):
    """What tells a lane from the others of its method.

    Attributes:
      seed: its seed.
      hyper: ((name, number), …), the numbers that lanes differ in.
    """

    seed: int
    hyper: tuple[tuple[str, int | float], ...] = ()

    def named(self, seed: str) -> str:
        """`seed` with the lane's in its place, and its numbers."""
        return "-".join([f"{seed}{self.seed}", *(f"{name}={value}" for name, value in self.hyper)])


def _series(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[_Lane, int, dict[str, float]]]:
    """(lane, step, metrics) of every row."""
    hyper = [name for name in columns if name.startswith(HYPER)]
    metrics = [name for name in columns if name not in (*_LABELS, *hyper)]
    for i in range(len(columns["step"])):
        values = {name: float(columns[name][i]) for name in metrics}
        # As text and back: 0.015 rather than the float64 next to its float32.
        own = ((n.removeprefix(HYPER), _number(columns[n][i])) for n in hyper)
        yield _Lane(int(columns["seed"][i]), tuple(own)), int(columns["step"][i]), values


def _number(value: np.generic) -> int | float:
    return int(value) if np.issubdtype(value.dtype, np.integer) else float(str(value))


class _TensorBoard:
    """A run per method and lane under `tensorboard/`."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._make = extras.load("tensorboardX").SummaryWriter
        self._folder = folder.resolve() / "tensorboard"  # no address, whatever it is called
        self._writers: dict[tuple[str, _Lane], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows as scalars."""
        for lane, step, metrics in _series(columns):
            if (method, lane) not in self._writers:
                # Steps from here on replace what an interrupted run may have written of them.
                path = str(self._folder / method / lane.named("seed_"))
                self._writers[method, lane] = self._make(path, purge_step=step)
            for name, value in metrics.items():
                self._writers[method, lane].add_scalar(name, value, step)
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


class _Wandb:
    """A run per method and lane, grouped by method; offline with WANDB_MODE=offline."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._wandb, self._folder, self._study = extras.load("wandb"), folder, study
        # Written once, with the moment the study began in it: the study's own, wherever it is moved
        # and when it is resumed. The name of a folder would join studies that share it.
        self._id = hashlib.sha256((folder / ENVIRONMENT).read_bytes()).hexdigest()[:12]
        self._runs: dict[tuple[str, _Lane], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows as history."""
        if any(method != other for other, _ in self._runs):
            self.close()  # that method is done, and is not to look crashed if this one is killed
        for lane, step, metrics in _series(columns):
            if (method, lane) not in self._runs:
                self._runs[method, lane] = self._begin(method, lane)
            # Without `commit` a row is shown only when the next one comes, which may take long.
            self._runs[method, lane].log(metrics, step=step, commit=True)

    def close(self) -> None:
        """Ends the runs."""
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
