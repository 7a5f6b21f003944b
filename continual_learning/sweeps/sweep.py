"""What a sweep is, as data: `sweep.toml` of its folder."""

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
"""Seeds to tune on begin here, those to report at 0."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Settings of a method to be tried, and what for.

    Attributes:
      experiment: what is run, with all that is not in the grid.
      reported: what the settings are chosen for; it differs from `experiment` where one tunes on
        a smaller budget or on another task.
      method: whose settings.
      grid: the settings.
      seeds: every configuration is run with each. None is one of those to be reported, which are
        0 to `reported.seeds` − 1: performance on seeds that chose the settings flatters them.
      metric: what is to be high at the end; None for what `analysis` takes for its main metric.
      halving: η of successive halving; None for whole runs of all configurations.
      trials: how many points of the grid a sampler chooses; None for all of them.
      batch: how many of these run side by side.
      plugins: the files of users that it may need: all that are loaded when it is made.
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
        """As plain data."""
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
        """The inverse of `to_dict`; loads its plug-ins unless it is only read."""
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
    """With what a sweep is run.

    Attributes:
      memory: bytes of a device that a program may take; None for what is there.
      lanes: of a program at most; None for as many as fit, which is measured.
      launcher: who runs jobs, plain data as `jobs.toml` has it; None for this process.
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
        """As plain data: what is not None."""
        return {name: value for name, value in vars(self).items() if value is not None}


def is_sweep(folder: Path) -> bool:
    """Whether a folder is that of a sweep."""
    return (folder / FILE).is_file()


def begun(folder: Path, sweep: Sweep) -> bool:
    """Whether a folder has this sweep; raises if it has another one, or something else."""
    if is_sweep(folder):
        manifest.check_same(folder, read(folder).to_dict(), manifest.plain(sweep.to_dict()))
        return True
    if folder.is_dir() and any(not each.name.endswith(".tmp") for each in folder.iterdir()):
        raise StoreError(f"{folder} is not empty. Choose another folder for the sweep.")
    return False


def write(folder: Path, sweep: Sweep, setup: Setup) -> None:
    """Writes `sweep.toml`, as the first of what makes a sweep."""
    data = {
        "schema": manifest.SCHEMA,
        "setup": manifest.plain(setup.to_dict()),
        "sweep": manifest.plain(sweep.to_dict()),
    }
    extras.require("studies", "tomli-w")
    write_file(folder / FILE, documents.encode(data))


def read(folder: Path) -> Sweep:
    """The sweep of a folder."""
    return _read(folder)[0]


def read_setup(folder: Path) -> Setup:
    """With what the sweep of a folder was begun."""
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
    """Where a rung of successive halving has its jobs."""
    return folder / "rungs" / f"{number:02}"


def batch_folder(folder: Path, number: int) -> Path:
    """Where a batch of a sampler is: as a sweep of its configurations."""
    return folder / "batches" / f"{number:03}"


def first_jobs(folder: Path) -> Path:
    """Where the jobs of all configurations of a sweep or a batch are."""
    first = rung_folder(folder, 0)
    return first if first.is_dir() else folder


def last_jobs(folder: Path) -> list[Path]:
    """Where the longest runs so far are: the last rung of halving, of each batch of a sampler."""
    batches = sorted(folder.glob("batches/*"))
    if batches:
        return [place for batch in batches for place in last_jobs(batch)]
    return [max(folder.glob("rungs/*"), default=folder)]
