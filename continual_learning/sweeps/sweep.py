"""A sweep as data, and `sweep.toml` of its folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from continual_learning import extras, plugins
from continual_learning.plugins import Plugin
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError, unknown
from continual_learning.studies import spec
from continual_learning.studies.experiment import Experiment
from continual_learning.studies.store import documents, manifest
from continual_learning.studies.store.files import StoreError, write_file
from continual_learning.sweeps.grid import Grid

FILE, BEST = "sweep.toml", "best.toml"
FIRST_SEED = 1000
"""The first seed to tune on; seeds to report begin at 0."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The settings of a method to try, and the experiment to choose them for.

    Attributes:
      experiment: the experiment to run, with all that is not in the grid.
      reported: the experiment that the settings are chosen for; it differs from `experiment` if the
        sweep has a smaller budget or another task.
      method: the method of the settings.
      grid: the settings.
      seeds: the seeds of every configuration. They differ from the reported seeds, 0 to
        `reported.seeds` − 1, because performance on seeds that chose the settings is biased
        upwards.
      metric: the metric that should be high at the end; None for the main metric of `analysis`.
      halving: η of successive halving; None for whole runs of all configurations.
      trials: how many points of the grid a sampler chooses; None for all points.
      batch: how many of these run side by side.
      plugins: the files of users that it may need, which are all files loaded when it is made.
    """

    experiment: Experiment
    reported: Experiment
    method: str
    grid: Grid
    seeds: Sequence[int]
    metric: str | None = None
    halving: int | None = None
    trials: int | None = None
    batch: int | None = None
    plugins: tuple[Plugin, ...] = dataclasses.field(default_factory=plugins.loaded)

    def __post_init__(self):
        self._check_numbers()
        if self.method not in self.experiment.methods:
            raise unknown(f"method of {self.experiment.name}", self.method, self.experiment.methods)
        if self.experiment.lanes:
            own = ", ".join(self.experiment.lanes)
            raise StudyError(
                f"{self.experiment.name} has lanes of its own ({own}): run it as it is, or sweep "
                "the experiment that it is made from."
            )
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise StudyError(f"seeds must be at least one, all different; got {[*self.seeds]}.")
        both = sorted(set(self.seeds) & set(range(self.reported.seeds)))
        if both:
            raise StudyError(
                f"Seeds {', '.join(map(str, both))} are among those that {self.reported.name} "
                f"reports, 0 to {self.reported.seeds - 1}; settings that were chosen on them would "
                f"be flattered. Tune on others, such as {FIRST_SEED} and up (--seeds 5 does)."
            )

    def _check_numbers(self) -> None:
        for name, least in (("halving", 2), ("trials", 1), ("batch", 1)):
            value = getattr(self, name)
            if value is not None and not (bounds.whole(value) and value >= least):
                raise StudyError(
                    f"{name} must be a whole number, at least {least}; got {bounds.shown(value)}."
                )
        if (self.trials is None) != (self.batch is None):
            raise StudyError("trials and batch go together.")
        if not isinstance(self.metric, str | None):
            raise StudyError(f"metric must be a name, got {bounds.shown(self.metric)}.")
        seeds = self.seeds
        if not isinstance(seeds, list | tuple | range) or not all(map(bounds.seed, seeds)):
            raise StudyError(f"seeds must be whole numbers from 0, got {bounds.shown(seeds)}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the sweep as plain data."""
        data = {
            "experiment": spec.to_dict(self.experiment),
            "reported": spec.to_dict(self.reported),
            "method": self.method,
            "grid": self.grid.to_dict(),
            "seeds": list(self.seeds),
            "metric": self.metric,
            "halving": self.halving,
            "trials": self.trials,
            "batch": self.batch,
            **plugins.to_dict(self.plugins),
        }
        return {name: value for name, value in data.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sweep:
        """Return the sweep that `to_dict` gave; load its plug-ins unless it is only read."""
        needed = plugins.from_dict(data)
        return cls(
            spec.from_dict(data["experiment"]),
            spec.from_dict(data["reported"]),
            data["method"],
            Grid.from_dict(data["grid"]),
            data["seeds"],
            data.get("metric"),
            data.get("halving"),
            data.get("trials"),
            data.get("batch"),
            needed,
        )


@dataclasses.dataclass(frozen=True)
class Setup:
    """The setup that runs a sweep.

    Attributes:
      memory: the bytes of a device that a program may use; None for the available memory.
      lanes: the most lanes of a program; None for as many as fit, which is measured.
      launcher: the launcher of jobs, as plain data of `jobs.toml`; None for this process.
    """

    memory: int | None = None
    lanes: int | None = None
    launcher: Mapping[str, Any] | None = None

    def __post_init__(self):
        for name in ("memory", "lanes"):
            value = getattr(self, name)
            if value is not None and not (type(value) is int and 1 <= value < 2**63):
                raise StudyError(
                    f"{name} must be a whole number, at least 1; got {bounds.shown(value)}."
                )
        if not isinstance(self.launcher, Mapping | None):
            raise StudyError(f"launcher must be a table, got {bounds.shown(self.launcher)}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are not None, as plain data."""
        return {name: value for name, value in vars(self).items() if value is not None}


def is_sweep(folder: Path) -> bool:
    """Return whether a folder is the folder of a sweep."""
    return (folder / FILE).is_file()


def begun(folder: Path, sweep: Sweep) -> bool:
    """Return whether a folder holds this sweep; raise an error if it holds something else."""
    if is_sweep(folder):
        manifest.check_same(folder, read(folder).to_dict(), manifest.plain(sweep.to_dict()))
        return True
    if folder.is_dir() and any(not each.name.endswith(".tmp") for each in folder.iterdir()):
        raise StoreError(f"{folder} is not empty. Choose another folder for the sweep.")
    return False


def write(folder: Path, sweep: Sweep, setup: Setup) -> None:
    """Write `sweep.toml`, the first file of a sweep.

    Args:
      folder: the folder of the sweep.
      sweep: the sweep.
      setup: the setup that runs it.
    """
    data = {
        "schema": manifest.SCHEMA,
        "setup": manifest.plain(setup.to_dict()),
        "sweep": manifest.plain(sweep.to_dict()),
    }
    extras.require("studies", "tomli-w")
    write_file(folder / FILE, documents.encode(data))


def read(folder: Path) -> Sweep:
    """Return the sweep of a folder."""
    return _read(folder)[0]


def read_setup(folder: Path) -> Setup:
    """Return the setup with which the sweep of a folder was begun."""
    return _read(folder)[1]


def _read(folder: Path) -> tuple[Sweep, Setup]:
    path = folder / FILE
    if not path.is_file():
        raise StoreError(
            f"{folder} is not the folder of a sweep: it has no {FILE}. Name the folder that was "
            "given as output to `continual sweep`."
        )
    try:
        content = documents.read(path).content
        return Sweep.from_dict(content["sweep"]), Setup(**content.get("setup", {}))
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error!r}): restore it from a copy.") from error


def rung_folder(folder: Path, number: int) -> Path:
    """Return the folder of the jobs of a rung of successive halving."""
    return folder / "rungs" / f"{number:02}"


def batch_folder(folder: Path, number: int) -> Path:
    """Return the folder of a batch of a sampler, which is like that of a sweep."""
    return folder / "batches" / f"{number:03}"


def first_jobs(folder: Path) -> Path:
    """Return the folder of the jobs of all configurations of a sweep or a batch."""
    first = rung_folder(folder, 0)
    return first if first.is_dir() else folder


def last_jobs(folder: Path) -> list[Path]:
    """Return the folders of the longest runs so far: the last rung of the sweep or every batch."""
    batches = sorted(folder.glob("batches/*"))
    if batches:
        return [place for batch in batches for place in last_jobs(batch)]
    return [max(folder.glob("rungs/*"), default=folder)]
