"""Jobs on a Ray cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from continual_learning import extras
from continual_learning.jobs import process
from continual_learning.jobs.tree import Tree, read
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.launch import stop_signals
from continual_learning.studies.options import RunOptions

_SECONDS = 0.2  # between two looks


@dataclasses.dataclass(frozen=True)
class Ray:
    """A launcher that runs every job as a task of Ray, and waits for them.

    All machines must see the tree under the same path, and have this package installed.

    Attributes:
      address: the address of the cluster, such as "auto" or "ray://head:10001"; None for the one
        that RAY_ADDRESS names, or a new one on this machine, which ends with the jobs.
      num_cpus: the CPUs that a job needs.
      num_gpus: the GPUs that a job needs; it sees no others.
      max_retries: how often a job continues elsewhere when its machine or its process is lost.
    """

    address: str | None = None
    num_cpus: float = 1
    num_gpus: float = 0
    max_retries: int = 3

    def __post_init__(self):
        for name in ("num_cpus", "num_gpus"):
            value = getattr(self, name)
            if not (bounds.real(value) and 0 <= value <= bounds.UNITS):
                raise StudyError(f"{name} must be a number from 0; got {bounds.shown(value)}.")
        if not (bounds.whole(self.max_retries) and self.max_retries >= 0):
            raise StudyError(
                "max_retries must be a whole number, at least 0; got "
                f"{bounds.shown(self.max_retries)}."
            )
        if not isinstance(self.address, str | None):
            raise StudyError(f"address must be text; got {bounds.shown(self.address)}.")

    def check(self) -> None:
        """Raise an error if Ray is not installed."""
        extras.require("ray")

    def options(self) -> dict[str, Any]:
        """Return its options as plain data."""
        options = dataclasses.asdict(self)
        return {name: value for name, value in options.items() if value is not None}

    def commands(self) -> dict[str, Any]:
        """Return the address of a cluster elsewhere."""
        return {} if self.address in (None, "auto") else {"address": self.address}

    def run(
        self, tree: Tree, names: Sequence[str], options: RunOptions, *, wait: bool = True
    ) -> bool:
        """Run the jobs, and wait for them whatever `wait` is."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send statistics.
        ray = extras.load("ray")
        began = not ray.is_initialized()
        if began:
            with warnings.catch_warnings():
                # JAX warns of forks, but a process that Ray forks here executes another program.
                warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
                ray.init(address=self.address, log_to_driver=False, logging_level="warning")
        try:
            needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
            task = ray.remote(max_retries=self.max_retries, **needs)(work)
            path = tree.path.resolve()
            left = {task.remote(path, name, options): name for name in names}
            told = False
            with stop_signals() as stopped:
                while left:
                    done, _ = ray.wait(list(left), timeout=_SECONDS)
                    for each in done:
                        options.tell(f"{left[each]}: {_outcome(ray, each)}")
                        del left[each]
                    if stopped() and not told:
                        told = True
                        for each in left:
                            ray.cancel(each)
        finally:
            if began:
                ray.shutdown()
        return True


def work(path: Path, name: str, options: RunOptions) -> int:
    """Run a job on the machine that Ray chose; return the exit code.

    Args:
      path: the folder of the jobs.
      name: the name of the job.
      options: the options with which it is run.
    """
    with contextlib.suppress(StudyError):  # The job's own process records the error as its failure.
        options.load_plugins()
    tree = read(path)
    child = process.start(tree, name, options)
    try:
        while (code := child.poll()) is None:
            time.sleep(_SECONDS)
    except KeyboardInterrupt:  # The task was canceled: the job ends after its chunk.
        child.terminate()
        return child.wait()
    process.note_end(tree, name, code)
    return code


def _outcome(ray: Any, task: Any) -> str:
    try:
        return f"ended with exit code {ray.get(task)}"
    except ray.exceptions.RayError as error:
        return f"lost by Ray ({type(error).__name__})"
