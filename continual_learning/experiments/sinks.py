"""Where metrics go beside the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from continual_learning.experiments import extras
from continual_learning.experiments.errors import StudyError
from continual_learning.experiments.storage.manifest import ENVIRONMENT

_LABELS = ("seed", "step")


class Sink(Protocol):
    """Takes the rows of every chunk."""

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows of one method, all seeds."""
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


def _series(columns: Mapping[str, np.ndarray]) -> Iterator[tuple[int, int, dict[str, float]]]:
    """(seed, step, metrics) of every row."""
    metrics = [name for name in columns if name not in _LABELS]
    for i in range(len(columns["step"])):
        values = {name: float(columns[name][i]) for name in metrics}
        yield int(columns["seed"][i]), int(columns["step"][i]), values


class _TensorBoard:
    """A run per method and seed under `tensorboard/`."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._make = extras.load("tensorboardX").SummaryWriter
        self._folder = folder / "tensorboard"
        self._writers: dict[tuple[str, int], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows as scalars."""
        for seed, step, metrics in _series(columns):
            if (method, seed) not in self._writers:
                # Steps from here on replace what an interrupted run may have written of them.
                path = str(self._folder / method / f"seed_{seed}")
                self._writers[method, seed] = self._make(path, purge_step=step)
            for name, value in metrics.items():
                self._writers[method, seed].add_scalar(name, value, step)
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the files."""
        for writer in self._writers.values():
            writer.close()


class _Wandb:
    """A run per method and seed, grouped by method; offline with WANDB_MODE=offline."""

    def __init__(self, folder: Path, study: Mapping[str, Any]):
        self._wandb, self._folder, self._study = extras.load("wandb"), folder, study
        # Written once, with the moment the study began in it: the study's own, wherever it is moved
        # and when it is resumed. The name of a folder would join studies that share it.
        self._id = hashlib.sha256((folder / ENVIRONMENT).read_bytes()).hexdigest()[:12]
        self._runs: dict[tuple[str, int], Any] = {}

    def write(self, method: str, columns: Mapping[str, np.ndarray]) -> None:
        """Rows as history."""
        if any(method != other for other, _ in self._runs):
            self.close()  # that method is done, and is not to look crashed if this one is killed
        for seed, step, metrics in _series(columns):
            if (method, seed) not in self._runs:
                self._runs[method, seed] = self._begin(method, seed)
            # Without `commit` a row is shown only when the next one comes, which may take long.
            self._runs[method, seed].log(metrics, step=step, commit=True)

    def close(self) -> None:
        """Ends the runs."""
        for run in self._runs.values():
            run.finish()
        self._runs.clear()

    def _begin(self, method: str, seed: int) -> Any:
        return self._wandb.init(
            project=f"continual-{self._study.get('experiment', {}).get('name', 'study')}",
            group=method,
            name=f"{self._folder.resolve().name}-{method}-seed{seed}",
            id=f"{self._id}-{method}-{seed}",
            resume="allow",
            dir=str(self._folder),
            config={"study": dict(self._study), "method": method, "seed": seed},
            reinit="create_new",
        )
