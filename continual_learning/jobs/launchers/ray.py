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
from continual_learning.jobs.running import Running
from continual_learning.jobs.tree import Tree, read
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.launch import stop_signals

_SECONDS = 0.2  # between two looks


@dataclasses.dataclass(frozen=True)
class Ray:
    """Runs every job as a task of Ray, and waits for them.

    All machines must see the tree under the same path, and have this package installed.

    Attributes:
      address: of the cluster, such as "auto" or "ray://head:10001"; None: the one that
        RAY_ADDRESS names, or a new one on this machine, which ends with the jobs.
      num_cpus: that a job needs.
      num_gpus: likewise; it sees no others.
      max_retries: how often a job goes on elsewhere when its machine, or its process, is lost.
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
        """Raises if Ray is not installed."""
        extras.require("ray")

    def options(self) -> dict[str, Any]:
        """As plain data."""
        options = dataclasses.asdict(self)
        return {name: value for name, value in options.items() if value is not None}

    def commands(self) -> dict[str, Any]:
        """The address of another cluster than the one that is here."""
        return {} if self.address in (None, "auto") else {"address": self.address}

    def run(self, tree: Tree, names: Sequence[str], running: Running, *, wait: bool = True) -> bool:
        """Runs the jobs and waits for them in any case."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
        ray = extras.load("ray")
        began = not ray.is_initialized()
        if began:
            with warnings.catch_warnings():
                # JAX warns of forks. What Ray forks here is another program at once.
                warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
                ray.init(address=self.address, log_to_driver=False, logging_level="warning")
        try:
            needs = {"num_cpus": self.num_cpus, "num_gpus": self.num_gpus}
            task = ray.remote(max_retries=self.max_retries, **needs)(work)
            path = tree.path.resolve()
            left = {task.remote(path, name, running): name for name in names}
            told = False
            with stop_signals() as stopped:
                while left:
                    done, _ = ray.wait(list(left), timeout=_SECONDS)
                    for each in done:
                        running.tell(f"{left[each]}: {_outcome(ray, each)}")
                        del left[each]
                    if stopped() and not told:
                        told = True
                        for each in left:
                            ray.cancel(each)
        finally:
            if began:
                ray.shutdown()
        return True


def work(path: Path, name: str, running: Running) -> int:
    """Runs a job where Ray has put it; the exit code."""
    with contextlib.suppress(StudyError):  # which the job's own process keeps as its failure
        running.load_plugins()
    tree = read(path)
    child = process.start(tree, name, running)
    try:
        while (code := child.poll()) is None:
            time.sleep(_SECONDS)
    except KeyboardInterrupt:  # cancelled: it ends after its chunk
        child.terminate()
        return child.wait()
    process.note_end(tree, name, code)
    return code


def _outcome(ray: Any, task: Any) -> str:
    try:
        return f"ended with exit code {ray.get(task)}"
    except ray.exceptions.RayError as error:
        return f"lost by Ray ({type(error).__name__})"
