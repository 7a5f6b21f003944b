"""Jobs on this machine: one at a time, several at a time, or one on every GPU."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from continual_learning.jobs import process
from continual_learning.jobs.tree import Tree
from continual_learning.schema import bounds
from continual_learning.schema.errors import StudyError
from continual_learning.studies.launch import stop_signals
from continual_learning.studies.options import RunOptions

_SECONDS = 0.1  # between two looks at the processes


@dataclasses.dataclass(frozen=True)
class Local:
    """A launcher that runs jobs as child processes, and waits for them.

    SIGTERM, SIGINT and the time limit end all jobs after their chunk.

    Attributes:
      parallel: how many jobs run at a time; None for one per GPU, or one without GPUs. A single job
        has all GPUs.
    """

    parallel: int | None = None

    def __post_init__(self):
        fine = bounds.whole(self.parallel) and self.parallel >= 1  # pyright: ignore
        if self.parallel is not None and not fine:
            raise StudyError(
                f"parallel must be a whole number, at least 1; got {bounds.shown(self.parallel)}."
            )

    def check(self) -> None:
        """Check nothing, because this launcher works everywhere."""

    def options(self) -> dict[str, Any]:
        """Return its options as plain data."""
        return {} if self.parallel is None else {"parallel": self.parallel}

    def commands(self) -> dict[str, Any]:
        """Return nothing: no option runs commands."""
        return {}

    def run(
        self, tree: Tree, names: Sequence[str], options: RunOptions, *, wait: bool = True
    ) -> bool:
        """Run the jobs, and wait for them whatever `wait` is."""
        free, waiting = places(self.parallel, gpus()), list(names)
        limit = options.time_limit
        end = None if limit is None else time.monotonic() + limit
        children: dict[str, tuple[subprocess.Popen[bytes], dict[str, str]]] = {}
        told = False
        with stop_signals() as stopped:
            while children or waiting:
                while waiting and free and not stopped() and not _over(end):
                    name, place = waiting.pop(0), free.pop(0)
                    options.tell(f"{name}: begins")
                    left = dataclasses.replace(options, time_limit=_left(end))
                    children[name] = process.start(tree, name, left, place), place
                for name, (child, place) in list(children.items()):
                    code = child.poll()
                    if code is not None:
                        del children[name]
                        free.append(place)
                        if not told:
                            process.note_end(tree, name, code)
                        options.tell(f"{name}: ended with exit code {code}")
                if stopped() and not told:
                    told = True
                    for child, _ in children.values():
                        child.terminate()
                if not children and (stopped() or _over(end)):
                    break
                time.sleep(_SECONDS)
        return True


def gpus() -> list[str]:
    """Return the NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

    It does not ask JAX, which would allocate their memory.
    """
    if os.environ.get("JAX_PLATFORMS", "").startswith("cpu"):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [each.strip() for each in visible.split(",") if each.strip()]
    if shutil.which("nvidia-smi") is None:
        return []
    done = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(found))] if done.returncode == 0 else []


def places(parallel: int | None, gpus: Sequence[str]) -> list[dict[str, str]]:
    """Return the environment variables of every job that runs at the same time.

    Args:
      parallel: the number of jobs; None for as many as there are GPUs, at least one.
      gpus: the GPUs, which are divided among the jobs. Jobs that share one also share its memory.
    """
    count = max(1, len(gpus)) if parallel is None else parallel
    if count == 1 or not gpus:
        return [{} for _ in range(count)]
    sharing = -(-count // len(gpus))
    memory = {} if sharing == 1 else {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / sharing:.3f}"}
    return [{"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)], **memory} for i in range(count)]


def _left(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0.001)


def _over(end: float | None) -> bool:
    return end is not None and time.monotonic() >= end
